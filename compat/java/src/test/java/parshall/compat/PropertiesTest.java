package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.Failures.assertFails;
import static parshall.compat.Failures.failureOf;

import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.eventhubs.EventHubConsumerClient;
import com.azure.messaging.eventhubs.EventHubProducerAsyncClient;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.EventHubProperties;
import com.azure.messaging.eventhubs.PartitionProperties;
import java.time.Instant;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What a client can ask about a hub and its partitions. */
class PropertiesTest {
    @RegisterExtension
    static final SharedService shared = new SharedService();

    @Test
    void a_hub_tells_its_name_its_age_and_its_partitions() {
        String hub = shared.unusedHub();
        try (EventHubConsumerClient client = shared.clientOf(hub).buildConsumerClient()) {
            EventHubProperties properties = client.getEventHubProperties();
            assertEquals(hub, properties.getName());
            assertEquals(PARTITION_IDS, properties.getPartitionIds().stream().toList());
            assertTrue(properties.getCreatedAt().isBefore(Instant.now().plusSeconds(60)));
            assertTrue(properties.getCreatedAt().isAfter(Instant.now().minusSeconds(3600)));
        }
    }

    @Test
    void a_producer_is_told_the_same_whether_it_waits_or_not() {
        String hub = shared.unusedHub();
        try (EventHubProducerClient client = shared.clientOf(hub).buildProducerClient()) {
            assertEquals(PARTITION_IDS, client.getPartitionIds().stream().toList());
        }
        try (EventHubProducerAsyncClient client = shared.clientOf(hub).buildAsyncProducerClient()) {
            assertEquals(PARTITION_IDS, client.getPartitionIds().collectList().block(Events.DEADLINE));
        }
    }

    @Test
    void a_partition_tells_where_it_begins_and_ends() {
        String hub = shared.unusedHub();
        try (EventHubConsumerClient client = shared.clientOf(hub).buildConsumerClient()) {
            PartitionProperties empty = client.getPartitionProperties("1");
            assertTrue(empty.isEmpty());
            assertEquals(-1, empty.getLastEnqueuedSequenceNumber());
            Events.send(shared.clientOf(hub), "1", "a", "b", "c");
            PartitionProperties filled = client.getPartitionProperties("1");
            assertEquals(hub, filled.getEventHubName());
            assertEquals("1", filled.getId());
            assertFalse(filled.isEmpty());
            assertEquals(0, filled.getBeginningSequenceNumber());
            assertEquals(2, filled.getLastEnqueuedSequenceNumber());
            assertEquals("2", filled.getLastEnqueuedOffset());
            assertTrue(filled.getLastEnqueuedTime().isAfter(Instant.now().minusSeconds(300)));
        }
    }

    @Test
    void an_unknown_hub_has_no_properties_and_that_is_final() {
        try (EventHubConsumerClient client = shared.clientOf("nowhere").buildConsumerClient()) {
            assertFails(AmqpErrorCondition.NOT_FOUND, false, "could not be found", client::getEventHubProperties);
        }
    }

    @Test
    void an_unknown_partition_is_a_wrong_argument() {
        try (EventHubConsumerClient client = shared.clientOf(shared.unusedHub()).buildConsumerClient()) {
            Throwable error = failureOf(() -> client.getPartitionProperties(PARTITION_IDS.size() + ""));
            assertEquals(IllegalArgumentException.class, error.getClass(), error::toString);
        }
    }

    private static final List<String> PARTITION_IDS = Events.numbers(Service.PARTITIONS);
}
