package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.KafkaClients.failureOf;
import static parshall.compat.KafkaClients.poll;
import static parshall.compat.KafkaClients.send;
import static parshall.compat.KafkaClients.values;

import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The consumer of Kafka by itself: where it begins, what it gets, what it commits. */
class KafkaConsumerTest {
    @RegisterExtension
    static final SharedService shared = new SharedService("", "--kafka", "127.0.0.1:0");

    private static KafkaClients kafka;

    @BeforeAll
    static void connect() {
        kafka = new KafkaClients(shared.service());
    }

    @Test
    void the_ends_of_a_partition_and_points_in_time_are_found() throws Exception {
        String topic = shared.unusedHub();
        TopicPartition filled = new TopicPartition(topic, 0);
        TopicPartition empty = new TopicPartition(topic, 1);
        try (KafkaProducer<String, String> producer = kafka.producer()) {
            send(producer, IntStream.range(0, 100)
                .mapToObj(number -> new ProducerRecord<String, String>(topic, 0, START + number, null, "" + number)).toList());
        }
        try (KafkaConsumer<String, String> consumer = kafka.consumer("reader")) {
            assertEquals(Map.of(filled, 0L, empty, 0L), consumer.beginningOffsets(List.of(filled, empty)));
            assertEquals(Map.of(filled, 100L, empty, 0L), consumer.endOffsets(List.of(filled, empty)));
            Map<TopicPartition, OffsetAndTimestamp> found = consumer.offsetsForTimes(Map.of(filled, START + 42, empty, START));
            assertEquals(42, found.get(filled).offset());
            assertEquals(START + 42, found.get(filled).timestamp());
            assertNull(found.get(empty));
            assertNull(consumer.offsetsForTimes(Map.of(filled, START + 100)).get(filled));
            consumer.assign(List.of(filled));
            consumer.seek(filled, found.get(filled).offset());
            assertEquals("42", poll(consumer, 1).get(0).value());
            assertEquals(OptionalLong.of(0), consumer.currentLag(filled));
            consumer.seekToEnd(List.of(filled));
            assertEquals(100, consumer.position(filled));
        }
    }

    @Test
    void a_consumer_that_waits_gets_a_record_at_once() throws Exception {
        String topic = shared.unusedHub();
        // Longer than the test waits for a record: each must be told of as it comes.
        String[] patient = {"fetch.max.wait.ms", "60000", "request.timeout.ms", "90000", "enable.auto.commit", "false"};
        try (KafkaConsumer<String, String> consumer = kafka.consumer("reader", patient);
            KafkaProducer<String, String> producer = kafka.producer()) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            for (String value : Events.numbers(20)) {
                producer.send(new ProducerRecord<>(topic, 0, null, value));
                assertEquals(List.of(value), values(poll(consumer, 1)));
            }
            // Ends what it still waits for: requests of one connection are answered in their order, and it says goodbye.
            producer.send(new ProducerRecord<>(topic, 0, null, "last")).get();
        }
    }

    @Test
    void a_consumer_without_a_place_begins_where_it_is_told_to() throws Exception {
        String topic = shared.unusedHub();
        TopicPartition partition = new TopicPartition(topic, 0);
        kafka.send(topic, 0, "old");
        try (KafkaConsumer<String, String> latest = kafka.consumer("latest-" + topic, "auto.offset.reset", "latest");
            KafkaConsumer<String, String> none = kafka.consumer("none-" + topic, "auto.offset.reset", "none")) {
            latest.assign(List.of(partition));
            assertEquals(1, latest.position(partition));
            kafka.send(topic, 0, "new");
            assertEquals(List.of("new"), values(poll(latest, 1)));
            none.assign(List.of(partition));
            assertInstanceOf(NoOffsetForPartitionException.class, failureOf(() -> none.poll(Events.DEADLINE)));
            none.seek(partition, 77);
            assertInstanceOf(OffsetOutOfRangeException.class, failureOf(() -> none.poll(Events.DEADLINE)));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"read_uncommitted", "read_committed"})
    void records_larger_than_what_is_asked_for_still_come(String isolation) throws Exception {
        String topic = shared.unusedHub();
        List<String> expected = IntStream.range(0, 30).mapToObj(number -> ("" + number % 10).repeat(30_000)).toList();
        kafka.send(topic, 0, expected.toArray(String[]::new));
        List<ConsumerRecord<String, String>> read = kafka.read(
            topic, 0, expected.size(), "max.partition.fetch.bytes", "100", "fetch.max.bytes", "100", "isolation.level", isolation);
        assertEquals(expected, values(read));
    }

    @Test
    void all_partitions_are_read_by_one_consumer_each_in_its_order() throws Exception {
        String topic = shared.unusedHub();
        List<TopicPartition> partitions =
            IntStream.range(0, Service.PARTITIONS).mapToObj(number -> new TopicPartition(topic, number)).toList();
        int count = 20_000;
        try (KafkaProducer<String, String> producer = kafka.producer()) {
            send(producer, IntStream.range(0, count)
                .mapToObj(number -> new ProducerRecord<String, String>(topic, number % Service.PARTITIONS, null, "" + number))
                .toList());
        }
        try (KafkaConsumer<String, String> consumer = kafka.consumer("reader", "max.partition.fetch.bytes", "10000")) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            List<ConsumerRecord<String, String>> read = poll(consumer, count);
            assertEquals(count, read.size());
            for (TopicPartition partition : partitions) {
                List<Long> offsets =
                    read.stream().filter(it -> it.partition() == partition.partition()).map(ConsumerRecord::offset).toList();
                assertEquals(IntStream.range(0, count / Service.PARTITIONS).mapToObj(Long::valueOf).toList(), offsets);
            }
            // What is paused does not come, whatever else does.
            consumer.pause(partitions.subList(0, 2));
            kafka.send(topic, 0, "paused");
            kafka.send(topic, 2, "wanted");
            assertEquals(List.of("wanted"), values(poll(consumer, 1)));
            consumer.resume(partitions);
            assertEquals(List.of("paused"), values(poll(consumer, 1)));
        }
    }

    @Test
    void what_is_committed_is_where_the_next_consumer_begins() throws Exception {
        String topic = shared.unusedHub();
        String group = "group-" + topic;
        TopicPartition partition = new TopicPartition(topic, 0);
        kafka.send(topic, 0, "first", "second", "third");
        try (KafkaConsumer<String, String> consumer = kafka.consumer(group, "enable.auto.commit", "false")) {
            consumer.assign(List.of(partition));
            assertEquals("first", poll(consumer, 3).get(0).value());
            assertNull(consumer.committed(Set.of(partition)).get(partition));
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(1, "notes ä")));
            OffsetAndMetadata committed = consumer.committed(Set.of(partition)).get(partition);
            assertEquals("notes ä", committed.metadata());
        }
        try (KafkaConsumer<String, String> consumer = kafka.consumer(group)) {
            consumer.subscribe(List.of(topic));
            assertEquals(List.of("second", "third"), values(poll(consumer, 2)));
        }
        // It committed as it closed.
        try (KafkaConsumer<String, String> consumer = kafka.consumer(group)) {
            assertEquals(3, consumer.committed(Set.of(partition)).get(partition).offset());
        }
    }

    @Test
    void topics_are_listed_and_subscribed_to_by_a_pattern() throws Exception {
        String topic = shared.unusedHub();
        kafka.send(topic, 2, "x");
        try (KafkaConsumer<String, String> consumer = kafka.consumer("group-" + topic, "fetch.max.wait.ms", "100")) {
            assertTrue(consumer.listTopics().keySet().contains(topic));
            consumer.subscribe(Pattern.compile(topic));
            assertEquals(List.of("x"), values(poll(consumer, 1)));
            assertEquals(
                IntStream.range(0, Service.PARTITIONS).mapToObj(number -> new TopicPartition(topic, number))
                    .collect(Collectors.toSet()),
                consumer.assignment());
        }
    }

    private static final long START = 1_700_000_000_000L;
}
