package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static parshall.compat.KafkaClients.failureOf;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Members of a group share a topic, by the classic protocol. */
class KafkaGroupTest {
    @RegisterExtension
    static final SharedService shared = new SharedService("", "--kafka", "127.0.0.1:0");

    private static KafkaClients kafka;

    @BeforeAll
    static void connect() {
        kafka = new KafkaClients(shared.service());
    }

    @ParameterizedTest
    @ValueSource(strings = {"RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"})
    void members_that_come_and_go_share_a_topic_without_losing_a_record(String assignor) throws Exception {
        String topic = shared.unusedHub();
        membersComeAndGo(
            kafka, topic, () -> member(topic, "partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor));
    }

    /** One member, then three, then two; then all are gone, and have committed what they read. */
    static void membersComeAndGo(KafkaClients kafka, String topic, Supplier<KafkaConsumer<String, String>> consumer)
        throws Exception {
        Queue<ConsumerRecord<String, String>> seen = new ConcurrentLinkedQueue<>();
        Set<String> expected = new HashSet<>();
        try (KafkaMember first = new KafkaMember(consumer, topic, seen)) {
            sendAndAwait(kafka, topic, "one", seen, expected);
            assertEquals(Service.PARTITIONS, first.owned().size());
            try (KafkaMember second = new KafkaMember(consumer, topic, seen);
                KafkaMember third = new KafkaMember(consumer, topic, seen)) {
                awaitShared(first, second, third);
                sendAndAwait(kafka, topic, "three", seen, expected);
                first.leave();
                awaitShared(second, third);
                sendAndAwait(kafka, topic, "two", seen, expected);
                for (KafkaMember member : List.of(first, second, third)) {
                    assertNull(member.error());
                    assertEquals(Set.of(), member.lost());
                }
            }
        }
        // Each commits what it has read before it gives a partition away, so nothing is read twice.
        assertEquals(expected.size(), seen.size());
        try (KafkaConsumer<String, String> observer = consumer.get()) {
            Set<TopicPartition> partitions = partitionsOf(topic);
            Map<TopicPartition, Long> committed = observer.committed(partitions).entrySet().stream()
                .collect(Collectors.toMap(Map.Entry::getKey, entry -> entry.getValue().offset()));
            assertEquals(observer.endOffsets(partitions), committed);
        }
    }

    private static void sendAndAwait(
        KafkaClients kafka, String topic, String name, Queue<ConsumerRecord<String, String>> seen, Set<String> expected)
        throws Exception {
        for (int partition = 0; partition < Service.PARTITIONS; partition++) {
            String prefix = name + "-" + partition + "-";
            String[] values = IntStream.range(0, 250).mapToObj(number -> prefix + number).toArray(String[]::new);
            kafka.send(topic, partition, values);
            expected.addAll(List.of(values));
        }
        Waiting.until("all that was sent", Events.DEADLINE,
            () -> seen.stream().map(ConsumerRecord::value).collect(Collectors.toSet()), expected::equals);
    }

    /** Until each has some of the partitions, and each partition one of them. */
    private static void awaitShared(KafkaMember... members) {
        Waiting.until("a partition for each", Events.DEADLINE,
            () -> Stream.of(members).map(KafkaMember::owned).toList(),
            owned -> owned.stream().noneMatch(Set::isEmpty)
                && owned.stream().mapToInt(Set::size).sum() == Service.PARTITIONS
                && owned.stream().flatMap(Set::stream).distinct().count() == Service.PARTITIONS);
    }

    @Test
    void a_static_member_that_comes_back_finds_its_partitions_and_disturbs_no_one() throws Exception {
        String topic = shared.unusedHub();
        Queue<ConsumerRecord<String, String>> seen = new ConcurrentLinkedQueue<>();
        try (KafkaMember other = new KafkaMember(() -> member(topic, "group.instance.id", "other"), topic, seen)) {
            KafkaMember first = new KafkaMember(() -> member(topic, "group.instance.id", "first"), topic, seen);
            awaitShared(first, other);
            Set<TopicPartition> owned = first.owned();
            int assignments = other.assignments();
            int generation = other.metadata().generationId();
            first.leave();
            try (KafkaMember again = new KafkaMember(() -> member(topic, "group.instance.id", "first"), topic, seen)) {
                assertEquals(owned, Waiting.until("the same partitions", Events.DEADLINE, again::owned, it -> !it.isEmpty()));
                Set<String> expected = new HashSet<>();
                sendAndAwait(kafka, topic, "again", seen, expected);
                assertEquals(assignments, other.assignments());
                assertEquals(generation, other.metadata().generationId());
            }
        }
    }

    @Test
    void a_static_member_is_fenced_by_another_of_its_name() throws Exception {
        String topic = shared.unusedHub();
        Queue<ConsumerRecord<String, String>> seen = new ConcurrentLinkedQueue<>();
        try (KafkaMember first = new KafkaMember(() -> member(topic, "group.instance.id", "only"), topic, seen)) {
            Waiting.until("all partitions", Events.DEADLINE, first::owned, owned -> owned.size() == Service.PARTITIONS);
            try (KafkaMember second = new KafkaMember(() -> member(topic, "group.instance.id", "only"), topic, seen)) {
                Waiting.until("all partitions", Events.DEADLINE, second::owned, owned -> owned.size() == Service.PARTITIONS);
                Throwable error = Waiting.until("its end", Events.DEADLINE, first::error, it -> it != null);
                assertInstanceOf(FencedInstanceIdException.class, error);
            }
        }
    }

    @Test
    void the_partitions_of_a_member_that_hangs_go_to_the_other() throws Exception {
        String topic = shared.unusedHub();
        Queue<ConsumerRecord<String, String>> seen = new ConcurrentLinkedQueue<>();
        Supplier<KafkaConsumer<String, String>> consumer = () -> member(topic, "max.poll.interval.ms", "1500");
        try (KafkaMember hanging = new KafkaMember(consumer, topic, seen);
            KafkaMember other = new KafkaMember(consumer, topic, seen)) {
            awaitShared(hanging, other);
            hanging.stall(true);
            Waiting.until("all partitions", Events.DEADLINE, other::owned, owned -> owned.size() == Service.PARTITIONS);
            hanging.stall(false);
            // It learns that it has lost them, and comes back.
            Waiting.until("its loss", Events.DEADLINE, hanging::lost, lost -> !lost.isEmpty());
            awaitShared(hanging, other);
        }
    }

    @Test
    void a_member_of_another_generation_can_not_commit() throws Exception {
        String topic = shared.unusedHub();
        kafka.send(topic, 0, "x");
        Queue<ConsumerRecord<String, String>> seen = new ConcurrentLinkedQueue<>();
        try (KafkaMember member = new KafkaMember(() -> member(topic), topic, seen);
            KafkaConsumer<String, String> stranger = member(topic)) {
            Waiting.until("all partitions", Events.DEADLINE, member::owned, owned -> owned.size() == Service.PARTITIONS);
            TopicPartition partition = new TopicPartition(topic, 0);
            stranger.assign(List.of(partition));
            assertInstanceOf(CommitFailedException.class,
                failureOf(() -> stranger.commitSync(Map.of(partition, new OffsetAndMetadata(0)))));
        }
    }

    private static KafkaConsumer<String, String> member(String topic, String... more) {
        String[] usual = {"session.timeout.ms", "10000", "heartbeat.interval.ms", "100", "metadata.max.age.ms", "1000"};
        return kafka.consumer("group-" + topic, Stream.of(usual, more).flatMap(Stream::of).toArray(String[]::new));
    }

    private static Set<TopicPartition> partitionsOf(String topic) {
        return IntStream.range(0, Service.PARTITIONS).mapToObj(number -> new TopicPartition(topic, number))
            .collect(Collectors.toSet());
    }
}
