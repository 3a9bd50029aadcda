package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.KafkaClients.answer;
import static parshall.compat.KafkaClients.failureOf;
import static parshall.compat.KafkaClients.poll;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.UnknownMemberIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What the administration client of Kafka asks of the cluster and of groups. */
class KafkaAdminTest {
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
    void the_cluster_is_one_broker() throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        Collection<Node> nodes = answer(cluster.nodes());
        assertEquals(1, nodes.size());
        Node node = nodes.iterator().next();
        assertEquals(answer(cluster.controller()), node);
        assertEquals(shared.service().port("Kafka"), node.port());
        assertTrue(node.id() >= 0);
        assertEquals(false, answer(cluster.clusterId()).isEmpty());
    }

    @Test
    void topics_are_listed_and_described() throws Exception {
        String topic = shared.unusedHub();
        assertTrue(answer(admin.listTopics().names()).contains(topic));
        TopicDescription described = answer(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
        assertEquals(Service.PARTITIONS, described.partitions().size());
        for (int number = 0; number < Service.PARTITIONS; number++) {
            assertEquals(number, described.partitions().get(number).partition());
            assertEquals(1, described.partitions().get(number).isr().size());
            assertEquals(described.partitions().get(number).leader(), described.partitions().get(number).replicas().get(0));
        }
        assertNotEquals(Uuid.ZERO_UUID, described.topicId());
        assertInstanceOf(UnknownTopicOrPartitionException.class,
            failureOf(() -> answer(admin.describeTopics(List.of("no-such-topic")).allTopicNames())));
    }

    @Test
    void offsets_are_listed() throws Exception {
        String topic = shared.unusedHub();
        try (KafkaProducer<String, String> producer = kafka.producer()) {
            // The second is the latest.
            KafkaClients.send(producer, List.of(
                new ProducerRecord<String, String>(topic, 0, 1_700_000_000_000L, null, "a"),
                new ProducerRecord<String, String>(topic, 0, 1_700_000_005_000L, null, "b"),
                new ProducerRecord<String, String>(topic, 0, 1_700_000_001_000L, null, "c")));
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        assertEquals(0, offset(partition, OffsetSpec.earliest()));
        assertEquals(3, offset(partition, OffsetSpec.latest()));
        assertEquals(1, offset(partition, OffsetSpec.maxTimestamp()));
        assertEquals(1, offset(partition, OffsetSpec.forTimestamp(1_700_000_000_001L)));
        assertEquals(-1, offset(partition, OffsetSpec.forTimestamp(1_700_000_005_001L)));
        assertEquals(-1, offset(new TopicPartition(topic, 1), OffsetSpec.maxTimestamp()));
        assertEquals(0, offset(partition, OffsetSpec.earliestLocal()));
        assertEquals(-1, offset(partition, OffsetSpec.latestTiered()));
    }

    private static long offset(TopicPartition partition, OffsetSpec spec) throws Exception {
        return answer(admin.listOffsets(Map.of(partition, spec)).partitionResult(partition)).offset();
    }

    @Test
    // The newer version names states and lists in another way, which the older one does not have.
    @SuppressWarnings({"deprecation", "removal"})
    void groups_are_listed_described_and_deleted() throws Exception {
        String topic = shared.unusedHub();
        String group = "group-" + topic;
        Queue<ConsumerRecord<String, String>> seen = new ConcurrentLinkedQueue<>();
        try (KafkaMember member = new KafkaMember(() -> kafka.consumer(group, "client.id", "me"), topic, seen)) {
            Waiting.until("all partitions", Events.DEADLINE, member::owned, owned -> owned.size() == Service.PARTITIONS);
            ConsumerGroupListing listed = answer(admin.listConsumerGroups().all()).stream()
                .filter(it -> it.groupId().equals(group)).findAny().orElseThrow();
            assertEquals("Stable", listed.state().orElseThrow().toString());
            assertEquals(false, listed.isSimpleConsumerGroup());
            ConsumerGroupDescription described = describe(group);
            assertEquals("Stable", described.state().toString());
            assertEquals("range", described.partitionAssignor());
            assertEquals(1, described.members().size());
            var only = described.members().iterator().next();
            assertEquals("me", only.clientId());
            assertEquals("/127.0.0.1", only.host());
            assertEquals(member.owned(), only.assignment().topicPartitions());
            assertEquals(shared.service().port("Kafka"), described.coordinator().port());
            assertInstanceOf(GroupNotEmptyException.class,
                failureOf(() -> answer(admin.deleteConsumerGroups(List.of(group)).all())));
        }
        assertEquals("Empty", describe(group).state().toString());
        answer(admin.deleteConsumerGroups(List.of(group)).all());
        assertEquals(false, answer(admin.listConsumerGroups().all()).stream().anyMatch(it -> it.groupId().equals(group)));
        assertInstanceOf(GroupIdNotFoundException.class,
            failureOf(() -> answer(admin.deleteConsumerGroups(List.of(group)).all())));
    }

    private static ConsumerGroupDescription describe(String group) throws Exception {
        return answer(admin.describeConsumerGroups(List.of(group)).describedGroups().get(group));
    }

    @Test
    void a_member_can_be_removed() throws Exception {
        String topic = shared.unusedHub();
        String group = "group-" + topic;
        Queue<ConsumerRecord<String, String>> seen = new ConcurrentLinkedQueue<>();
        KafkaMember member = new KafkaMember(() -> kafka.consumer(group, "group.instance.id", "only"), topic, seen);
        Waiting.until("all partitions", Events.DEADLINE, member::owned, owned -> owned.size() == Service.PARTITIONS);
        // One with a name does not say that it leaves.
        member.leave();
        assertEquals(1, describe(group).members().size());
        answer(admin.removeMembersFromConsumerGroup(
            group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("only")))).all());
        assertEquals(0, describe(group).members().size());
    }

    @Test
    void the_offsets_of_a_group_are_listed_and_altered() throws Exception {
        String topic = shared.unusedHub();
        String group = "group-" + topic;
        kafka.send(topic, 1, "a", "b", "c");
        TopicPartition partition = new TopicPartition(topic, 1);
        answer(admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(1, "by hand"))).all());
        Map<TopicPartition, OffsetAndMetadata> offsets =
            answer(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
        assertEquals(Set.of(partition), offsets.keySet());
        assertEquals(1, offsets.get(partition).offset());
        assertEquals("by hand", offsets.get(partition).metadata());
        try (KafkaConsumer<String, String> consumer = kafka.consumer(group)) {
            consumer.subscribe(List.of(topic));
            assertEquals(List.of("b", "c"), KafkaClients.values(poll(consumer, 2)));
            assertInstanceOf(UnknownMemberIdException.class,
                failureOf(() -> answer(admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(0))).all())));
        }
    }

    @Test
    void the_offsets_of_a_group_are_deleted() throws Exception {
        KafkaRequests.assumeServed(shared.service(), KafkaRequests.OFFSET_DELETE);
        String topic = shared.unusedHub();
        String group = "group-" + topic;
        Set<TopicPartition> partitions = Set.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
        answer(admin.alterConsumerGroupOffsets(group, Map.of(
            new TopicPartition(topic, 0), new OffsetAndMetadata(0), new TopicPartition(topic, 1), new OffsetAndMetadata(0),
            new TopicPartition(topic, 2), new OffsetAndMetadata(0))).all());
        try (KafkaConsumer<String, String> consumer = kafka.consumer(group)) {
            consumer.subscribe(List.of(topic));
            kafka.send(topic, 0, "x");
            poll(consumer, 1);
            assertInstanceOf(GroupSubscribedToTopicException.class, failureOf(() ->
                answer(admin.deleteConsumerGroupOffsets(group, partitions).partitionResult(new TopicPartition(topic, 0)))));
        }
        answer(admin.deleteConsumerGroupOffsets(group, partitions).all());
        Set<TopicPartition> left = answer(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).keySet();
        assertEquals(false, left.stream().anyMatch(partitions::contains), left::toString);
        assertTrue(left.contains(new TopicPartition(topic, 2)));
    }

    @Test
    void groups_are_asked_for_many_at_a_time() throws Exception {
        String topic = shared.unusedHub();
        TopicPartition partition = new TopicPartition(topic, 0);
        List<String> groups = IntStream.range(0, 20).mapToObj(number -> "many-" + number).toList();
        for (String group : groups) {
            answer(admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(groups.indexOf(group)))).all());
        }
        var specification = new ListConsumerGroupOffsetsSpec();
        var offsets = admin.listConsumerGroupOffsets(
            groups.stream().collect(Collectors.toMap(group -> group, group -> specification)));
        for (String group : groups) {
            assertEquals(groups.indexOf(group),
                answer(offsets.partitionsToOffsetAndMetadata(group)).get(partition).offset());
        }
        answer(admin.deleteConsumerGroups(groups).all());
    }
}
