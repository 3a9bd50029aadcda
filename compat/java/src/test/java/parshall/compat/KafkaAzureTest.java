package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.KafkaClients.send;
import static parshall.compat.KafkaClients.values;

import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.qpid.proton.amqp.Binary;
import org.apache.qpid.proton.codec.AMQPDefinedTypes;
import org.apache.qpid.proton.codec.DecoderImpl;
import org.apache.qpid.proton.codec.EncoderImpl;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** One log for both: what the client of Kafka sends the client of Event Hubs receives, and the other way round. */
class KafkaAzureTest {
    @RegisterExtension
    static final SharedService shared = new SharedService("", "--kafka", "127.0.0.1:0");

    private static KafkaClients kafka;

    @BeforeAll
    static void connect() {
        kafka = new KafkaClients(shared.service());
    }

    @ParameterizedTest
    @ValueSource(strings = {"none", "gzip", "snappy", "lz4", "zstd"})
    void events_come_from_records(String compression) throws Exception {
        String topic = shared.unusedHub();
        ProducerRecord<String, String> record = new ProducerRecord<>(topic, 0, "key", "value ä".repeat(100));
        record.headers().add("bytes", new byte[] {0, -1}).add("text", "ä".getBytes(StandardCharsets.UTF_8)).add("null", null)
            .add("twice", new byte[] {1}).add("twice", new byte[] {2});
        Instant before = Instant.now().minusSeconds(5);
        try (KafkaProducer<String, String> producer = kafka.producer("compression.type", compression)) {
            send(producer, List.of(record, new ProducerRecord<>(topic, 0, null, null), new ProducerRecord<>(topic, 0, null, "last")));
        }
        List<EventData> events = Events.receive(shared.clientOf(topic), "0", 3);
        EventData event = events.get(0);
        assertEquals("value ä".repeat(100), event.getBodyAsString());
        assertEquals(0, event.getSequenceNumber());
        assertNull(event.getPartitionKey());
        assertTrue(event.getEnqueuedTime().isAfter(before));
        assertArrayEquals("key".getBytes(StandardCharsets.UTF_8), bytes(annotation(event, "x-opt-kafka-key")));
        Map<String, Object> properties = event.getProperties();
        assertArrayEquals(new byte[] {0, -1}, bytes(properties.get("bytes")));
        assertArrayEquals("ä".getBytes(StandardCharsets.UTF_8), bytes(properties.get("text")));
        assertArrayEquals(new byte[] {2}, bytes(properties.get("twice")));
        assertTrue(properties.containsKey("null"));
        assertEquals(List.of("", "last"), Events.bodies(events.subList(1, 3)));
        assertNull(annotation(events.get(1), "x-opt-kafka-key"));
        assertEquals(List.of(1L, 2L), events.stream().skip(1).map(EventData::getSequenceNumber).toList());
    }

    @Test
    void records_come_from_events_with_every_type_of_property() throws Exception {
        String topic = shared.unusedHub();
        Map<String, Object> properties = new HashMap<>(Map.of(
            "text", "ä日本", "empty", "", "true", true, "integer", -7, "long", Long.MAX_VALUE, "double", 1.5,
            "uuid", new UUID(1, 7), "date", new Date(1_000), "character", 'x', "byte", (byte) -1));
        properties.put("float", 0.25f);
        properties.put("short", (short) -300);
        EventData event = new EventData(new byte[] {0, -1, 127}).setMessageId("id-1").setContentType("application/json")
            .setCorrelationId("id-0");
        event.getProperties().putAll(properties);
        Instant before = Instant.now().minusSeconds(5);
        try (EventHubProducerClient producer = shared.clientOf(topic).buildProducerClient()) {
            producer.send(List.of(event, new EventData("second")), new SendOptions().setPartitionId("1"));
            producer.send(List.of(new EventData("keyed")), new SendOptions().setPartitionKey("a key"));
        }
        List<ConsumerRecord<String, String>> records = kafka.read(topic, 1, 2);
        assertEquals(List.of(0L, 1L), records.subList(0, 2).stream().map(ConsumerRecord::offset).toList());
        ConsumerRecord<String, String> first = records.get(0);
        assertNull(first.key());
        assertEquals(3, first.serializedValueSize());
        assertEquals("second", records.get(1).value());
        assertEquals(TimestampType.LOG_APPEND_TIME, first.timestampType());
        assertTrue(Instant.ofEpochMilli(first.timestamp()).isAfter(before));
        Map<String, Object> decoded = new HashMap<>();
        for (Header header : first.headers()) {
            if (properties.containsKey(header.key())) {
                decoded.put(header.key(), decode(header.value()));
            }
        }
        assertEquals(properties, decoded);
        assertEquals("id-1", text(first, "message-id"));
        assertEquals("id-0", text(first, "correlation-id"));
        assertEquals("application/json", text(first, "content-type"));
    }

    @Test
    void both_write_to_one_partition_and_both_read_it_in_one_order() throws Exception {
        String topic = shared.unusedHub();
        for (int number = 0; number < 20; number += 2) {
            Events.send(shared.clientOf(topic), "2", "" + number);
            kafka.send(topic, 2, "" + (number + 1));
        }
        List<String> expected = Events.numbers(20);
        assertEquals(expected, values(kafka.read(topic, 2, 20)));
        assertEquals(expected, Events.bodies(Events.receive(shared.clientOf(topic), "2", 20)));
    }

    private static Object annotation(EventData event, String name) {
        return event.getRawAmqpMessage().getMessageAnnotations().get(name);
    }

    /** However the client gives what is binary. */
    private static byte[] bytes(Object value) {
        return value instanceof Binary binary ? binary.getArray() : (byte[]) value;
    }

    private static String text(ConsumerRecord<String, String> record, String header) {
        return new String(record.headers().lastHeader(header).value(), StandardCharsets.UTF_8);
    }

    /** The value in the encoding of AMQP. */
    private static Object decode(byte[] encoded) {
        DecoderImpl decoder = new DecoderImpl();
        AMQPDefinedTypes.registerAllTypes(decoder, new EncoderImpl(decoder));
        decoder.setByteBuffer(ByteBuffer.wrap(encoded));
        return decoder.readObject();
    }
}
