package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.KafkaClients.answer;
import static parshall.compat.KafkaClients.failureOf;
import static parshall.compat.KafkaClients.values;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Topics, as the administration client makes, changes and removes them. */
class KafkaTopicTest {
    @RegisterExtension
    static final SharedService shared = new SharedService("", "--kafka", "127.0.0.1:0");

    private static KafkaClients kafka;
    private static Admin admin;

    @BeforeAll
    static void connect() {
        kafka = new KafkaClients(shared.service());
        admin = kafka.admin();
    }

    @AfterAll
    static void disconnect() {
        admin.close();
    }

    @Test
    void a_topic_is_created_used_over_both_protocols_and_deleted() throws Exception {
        KafkaRequests.assumeServed(shared.service(), KafkaRequests.CREATE_TOPICS, KafkaRequests.DELETE_TOPICS);
        String topic = "created.by-kafka_1";
        answer(admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all());
        assertTrue(answer(admin.listTopics().names()).contains(topic));
        assertEquals(3, answer(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size());
        assertInstanceOf(TopicExistsException.class,
            failureOf(() -> answer(admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all())));
        kafka.send(topic, 2, "kafka");
        Events.send(shared.clientOf(topic), "2", "amqp");
        assertEquals(List.of("kafka", "amqp"), values(kafka.read(topic, 2, 2)));
        answer(admin.deleteTopics(List.of(topic)).all());
        assertEquals(false, answer(admin.listTopics().names()).contains(topic));
        assertInstanceOf(UnknownTopicOrPartitionException.class, failureOf(() -> answer(admin.deleteTopics(List.of(topic)).all())));
        // Of the same name, and yet another: it is empty.
        answer(admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all());
        TopicPartition partition = new TopicPartition(topic, 2);
        assertEquals(0, answer(admin.listOffsets(Map.of(partition, OffsetSpec.latest())).partitionResult(partition)).offset());
    }

    @Test
    void what_can_not_be_created_is_refused() throws Exception {
        KafkaRequests.assumeServed(shared.service(), KafkaRequests.CREATE_TOPICS);
        assertInstanceOf(InvalidTopicException.class,
            failureOf(() -> answer(admin.createTopics(List.of(new NewTopic("no/name", 1, (short) 1))).all())));
        assertInstanceOf(InvalidPartitionsException.class,
            failureOf(() -> answer(admin.createTopics(List.of(new NewTopic("none", 0, (short) 1))).all())));
        // With whatever number the service has for those who do not say.
        var created = admin.createTopics(List.of(new NewTopic("as-usual", Optional.empty(), Optional.empty())));
        assertTrue(answer(created.numPartitions("as-usual")) > 0);
        assertEquals(1, answer(created.replicationFactor("as-usual")));
    }

    @Test
    void a_topic_gets_more_partitions() throws Exception {
        KafkaRequests.assumeServed(shared.service(), KafkaRequests.CREATE_TOPICS, KafkaRequests.CREATE_PARTITIONS);
        String topic = "growing";
        answer(admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1))).all());
        answer(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all());
        kafka.send(topic, 4, "x");
        assertEquals(List.of("x"), values(kafka.read(topic, 4, 1)));
        assertInstanceOf(InvalidPartitionsException.class,
            failureOf(() -> answer(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all())));
    }

    @Test
    void the_settings_of_a_topic_are_described_and_altered() throws Exception {
        KafkaRequests.assumeServed(shared.service(), KafkaRequests.DESCRIBE_CONFIGS, KafkaRequests.INCREMENTAL_ALTER_CONFIGS);
        String topic = shared.unusedHub();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Config before = answer(admin.describeConfigs(List.of(resource)).all()).get(resource);
        assertEquals("delete", before.get("cleanup.policy").value());
        assertTrue(Long.parseLong(before.get("max.message.bytes").value()) > 0);
        answer(admin.incrementalAlterConfigs(Map.of(resource,
            List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "7200000"), AlterConfigOp.OpType.SET)))).all());
        assertEquals("7200000", answer(admin.describeConfigs(List.of(resource)).all()).get(resource).get("retention.ms").value());
    }

    @Test
    void the_settings_of_the_broker_are_described() throws Exception {
        KafkaRequests.assumeServed(shared.service(), KafkaRequests.DESCRIBE_CONFIGS);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, "0");
        assertTrue(answer(admin.describeConfigs(List.of(resource)).all()).get(resource).entries() != null);
    }

    @Test
    void the_first_records_of_a_partition_are_deleted() throws Exception {
        KafkaRequests.assumeServed(shared.service(), KafkaRequests.DELETE_RECORDS);
        String topic = shared.unusedHub();
        TopicPartition partition = new TopicPartition(topic, 0);
        for (String value : Events.numbers(10)) {
            kafka.send(topic, 0, value);
        }
        long low = answer(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(partition))
            .lowWatermark();
        assertEquals(4, low);
        assertEquals(4, answer(admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).partitionResult(partition)).offset());
        assertEquals(List.of("4", "5", "6", "7", "8", "9"), values(kafka.read(topic, 0, 6)));
        assertInstanceOf(OffsetOutOfRangeException.class, failureOf(() ->
            answer(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(11))).all())));
        answer(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(-1))).all());
        assertEquals(10, answer(admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).partitionResult(partition)).offset());
    }
}
