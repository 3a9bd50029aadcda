package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;
import static parshall.compat.KafkaClients.answer;

import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.utils.AppInfoParser;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Groups by the protocol in which the service assigns the partitions (KIP-848). */
class KafkaNewGroupTest {
    @RegisterExtension
    static final SharedService shared = new SharedService("", "--kafka", "127.0.0.1:0");

    private KafkaClients kafka;

    @BeforeEach
    void connect() throws Exception {
        KafkaRequests.assumeServed(shared.service(), KafkaRequests.CONSUMER_GROUP_HEARTBEAT);
        assumeTrue(!AppInfoParser.getVersion().startsWith("3."), "before 4.0 the client's part of it was a preview");
        kafka = new KafkaClients(shared.service());
    }

    @ParameterizedTest
    @ValueSource(strings = {"uniform", "range"})
    void members_that_come_and_go_share_a_topic_without_losing_a_record(String assignor) throws Exception {
        String topic = shared.unusedHub();
        KafkaGroupTest.membersComeAndGo(kafka, topic, () -> member(topic, "group.remote.assignor", assignor));
    }

    @Test
    void a_group_is_described() throws Exception {
        KafkaRequests.assumeServed(shared.service(), KafkaRequests.CONSUMER_GROUP_DESCRIBE);
        String topic = shared.unusedHub();
        Queue<ConsumerRecord<String, String>> seen = new ConcurrentLinkedQueue<>();
        try (KafkaMember member = new KafkaMember(() -> member(topic), topic, seen); Admin admin = kafka.admin()) {
            Waiting.until("all partitions", Events.DEADLINE, member::owned, owned -> owned.size() == Service.PARTITIONS);
            String group = "group-" + topic;
            var described = answer(admin.describeConsumerGroups(List.of(group)).describedGroups().get(group));
            assertEquals(1, described.members().size());
            assertEquals(member.owned(), described.members().iterator().next().assignment().topicPartitions());
        }
    }

    private KafkaConsumer<String, String> member(String topic, String... more) {
        String[] usual = {"group.protocol", "consumer", "metadata.max.age.ms", "1000"};
        return kafka.consumer("group-" + topic, Stream.of(usual, more).flatMap(Stream::of).toArray(String[]::new));
    }
}
