package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static parshall.compat.KafkaClients.failureOf;
import static parshall.compat.KafkaClients.send;
import static parshall.compat.KafkaClients.values;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What the producer of Kafka sends is stored as it was sent. */
class KafkaProducerTest {
    @RegisterExtension
    static final SharedService shared = new SharedService("", "--kafka", "127.0.0.1:0");

    private static KafkaClients kafka;

    @BeforeAll
    static void connect() {
        kafka = new KafkaClients(shared.service());
    }

    @ParameterizedTest
    @ValueSource(strings = {"none", "gzip", "snappy", "lz4", "zstd"})
    void records_come_back_as_they_were_sent(String compression) throws Exception {
        String topic = shared.unusedHub();
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        ProducerRecord<String, String> full = new ProducerRecord<>(topic, 1, 1_700_000_000_123L, "key ä", "value 日本");
        full.headers().add("a", new byte[] {0, -1}).add("a", bytes("second")).add("empty", new byte[0]).add("null", null);
        records.add(full);
        records.add(new ProducerRecord<>(topic, 1, 1_600_000_000_000L, "deleted", (String) null));
        records.add(new ProducerRecord<>(topic, 1, 1_650_000_000_000L, (String) null, ""));
        IntStream.range(0, 500).mapToObj(number -> new ProducerRecord<>(topic, 1, "key", (number + " ").repeat(200)))
            .forEach(records::add);
        try (KafkaProducer<String, String> producer = kafka.producer("compression.type", compression)) {
            List<RecordMetadata> stored = send(producer, records);
            assertEquals(
                IntStream.range(0, 503).mapToObj(Long::valueOf).toList(), stored.stream().map(RecordMetadata::offset).toList());
        }
        List<ConsumerRecord<String, String>> read = kafka.read(topic, 1, records.size());
        assertEquals(records.stream().map(ProducerRecord::value).toList(), values(read));
        assertEquals(records.stream().map(ProducerRecord::key).toList(), read.stream().map(ConsumerRecord::key).toList());
        assertEquals(1_700_000_000_123L, read.get(0).timestamp());
        assertEquals(1_600_000_000_000L, read.get(1).timestamp());
        assertEquals(TimestampType.CREATE_TIME, read.get(0).timestampType());
        Header[] headers = read.get(0).headers().toArray();
        assertEquals(List.of("a", "a", "empty", "null"), Stream.of(headers).map(Header::key).toList());
        assertArrayEquals(new byte[] {0, -1}, headers[0].value());
        assertArrayEquals(bytes("second"), headers[1].value());
        assertArrayEquals(new byte[0], headers[2].value());
        assertNull(headers[3].value());
    }

    @ParameterizedTest
    @ValueSource(strings = {"0", "1", "all"})
    void every_kind_of_acknowledgement_keeps_the_order(String acks) throws Exception {
        String topic = shared.unusedHub();
        List<String> expected = Events.numbers(2_000);
        try (KafkaProducer<String, String> producer = kafka.producer(
            "acks", acks, "enable.idempotence", "false", "max.in.flight.requests.per.connection", "1", "batch.size", "200")) {
            List<RecordMetadata> stored =
                send(producer, expected.stream().map(value -> new ProducerRecord<String, String>(topic, 0, null, value)).toList());
            assertEquals(!acks.equals("0"), stored.get(1_999).hasOffset());
        }
        assertEquals(expected, values(kafka.read(topic, 0, expected.size())));
    }

    @Test
    void many_small_batches_in_flight_are_stored_once_and_in_order() throws Exception {
        String topic = shared.unusedHub();
        List<String> expected = Events.numbers(5_000);
        try (KafkaProducer<String, String> producer = kafka.producer(
            "enable.idempotence", "true", "max.in.flight.requests.per.connection", "5", "batch.size", "100", "linger.ms", "0")) {
            send(producer, expected.stream().map(value -> new ProducerRecord<String, String>(topic, 3, null, value)).toList());
        }
        List<ConsumerRecord<String, String>> read = kafka.read(topic, 3, expected.size());
        assertEquals(expected, values(read));
        assertEquals(4_999, read.get(4_999).offset());
    }

    @Test
    void records_of_one_key_share_a_partition_and_those_without_use_all() throws Exception {
        String topic = shared.unusedHub();
        try (KafkaProducer<String, String> producer = kafka.producer("batch.size", "0")) {
            List<PartitionInfo> partitions = new ArrayList<>(producer.partitionsFor(topic));
            assertEquals(Service.PARTITIONS, partitions.size());
            partitions.sort(Comparator.comparing(PartitionInfo::partition));
            for (int number = 0; number < Service.PARTITIONS; number++) {
                assertEquals(number, partitions.get(number).partition());
                assertEquals(1, partitions.get(number).replicas().length);
                assertEquals(partitions.get(number).leader(), partitions.get(number).inSyncReplicas()[0]);
            }
            List<RecordMetadata> keyed =
                send(producer, Events.numbers(50).stream().map(value -> new ProducerRecord<>(topic, "one key", value)).toList());
            assertEquals(1, keyed.stream().map(RecordMetadata::partition).distinct().count());
            List<RecordMetadata> free =
                send(producer, Events.numbers(500).stream().map(value -> new ProducerRecord<String, String>(topic, value)).toList());
            assertEquals(Service.PARTITIONS, free.stream().map(RecordMetadata::partition).distinct().count());
        }
    }

    @Test
    void a_record_that_is_too_large_is_refused_and_the_next_is_stored() throws Exception {
        String topic = shared.unusedHub();
        try (KafkaProducer<String, String> producer = kafka.producer("max.request.size", "10000000")) {
            ProducerRecord<String, String> large = new ProducerRecord<>(topic, 0, null, "x".repeat(2_000_000));
            assertInstanceOf(RecordTooLargeException.class, failureOf(() -> producer.send(large).get()));
            assertEquals(0, producer.send(new ProducerRecord<>(topic, 0, null, "small")).get().offset());
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
