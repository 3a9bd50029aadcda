package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.core.amqp.models.AmqpAnnotatedMessage;
import com.azure.core.amqp.models.AmqpMessageId;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventDataBatch;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.models.CreateBatchOptions;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.time.Instant;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What an event carries comes back as it was sent. */
class ContentTest {
    @RegisterExtension
    static final SharedService shared = new SharedService();

    /** The event alone and in a batch, each as it is received. */
    private static List<EventData> roundTrip(EventData event) {
        String hub = shared.unusedHub();
        try (EventHubProducerClient producer = shared.clientOf(hub).buildProducerClient()) {
            producer.send(List.of(event), new SendOptions().setPartitionId("0"));
            EventDataBatch batch = producer.createBatch(new CreateBatchOptions().setPartitionId("0"));
            batch.tryAdd(event);
            producer.send(batch);
        }
        return Events.receive(shared.clientOf(hub), "0", 2);
    }

    @Test
    void application_properties_keep_their_types() {
        Map<String, Object> properties = Map.of(
            "text", "ä日本", "empty", "", "true", true, "integer", -7, "long", Long.MAX_VALUE, "double", 1.5,
            "uuid", new UUID(0, 7), "date", new Date(1_000), "character", 'x', "byte", (byte) -1);
        EventData event = new EventData("body");
        event.getProperties().putAll(properties);
        for (EventData received : roundTrip(event)) {
            assertEquals(properties, received.getProperties());
        }
    }

    @Test
    void the_standard_properties_come_back() {
        EventData event = new EventData(new byte[] {0, -1, 127})
            .setContentType("application/json")
            .setMessageId("id-1")
            .setCorrelationId("id-0");
        AmqpAnnotatedMessage message = event.getRawAmqpMessage();
        message.getProperties().setSubject("subject").setGroupId("group").setGroupSequence(5L)
            .setReplyToGroupId("reply group").setContentEncoding("gzip").setUserId(new byte[] {1, 2});
        for (EventData received : roundTrip(event)) {
            assertArrayEquals(event.getBody(), received.getBody());
            assertEquals("application/json", received.getContentType());
            assertEquals("id-1", received.getMessageId());
            assertEquals("id-0", received.getCorrelationId());
            var properties = received.getRawAmqpMessage().getProperties();
            assertEquals(new AmqpMessageId("id-1"), properties.getMessageId());
            assertEquals("subject", properties.getSubject());
            assertEquals("group", properties.getGroupId());
            assertEquals(5L, properties.getGroupSequence());
            assertEquals("reply group", properties.getReplyToGroupId());
            assertEquals("gzip", properties.getContentEncoding());
            assertArrayEquals(new byte[] {1, 2}, properties.getUserId());
        }
    }

    @Test
    void annotations_come_back_and_those_of_the_service_win() {
        EventData event = new EventData("body");
        Map<String, Object> annotations = event.getRawAmqpMessage().getMessageAnnotations();
        annotations.put("own", "kept");
        annotations.put("x-opt-sequence-number", 77L);
        annotations.put("x-opt-offset", "77");
        long expected = 0;
        for (EventData received : roundTrip(event)) {
            assertEquals("kept", received.getRawAmqpMessage().getMessageAnnotations().get("own"));
            assertEquals(expected, received.getSequenceNumber());
            assertEquals(Long.toString(expected), received.getOffsetString());
            assertEquals(true, received.getEnqueuedTime().isAfter(Instant.EPOCH));
            expected++;
        }
    }
}
