package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.Events.bodies;
import static parshall.compat.Events.numbers;
import static parshall.compat.Events.receive;
import static parshall.compat.Failures.assertFails;

import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventDataBatch;
import com.azure.messaging.eventhubs.EventHubProducerAsyncClient;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.models.CreateBatchOptions;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import reactor.core.publisher.Flux;

/** Sending: single events and batches, to a partition, by key, or to whichever partition. */
class ProducerTest {
    @RegisterExtension
    static final SharedService shared = new SharedService();

    @Test
    void a_single_event_reaches_the_partition_that_it_names() {
        String hub = shared.unusedHub();
        try (EventHubProducerClient producer = shared.clientOf(hub).buildProducerClient()) {
            producer.send(List.of(new EventData("one")), new SendOptions().setPartitionId("2"));
            assertEquals(List.of(-1L, -1L, 0L, -1L), lastSequenceNumbers(producer));
        }
        assertEquals(List.of("one"), bodies(receive(shared.clientOf(hub), "2", 1)));
    }

    @Test
    void a_batch_stays_together_and_in_order() {
        String hub = shared.unusedHub();
        List<String> expected = numbers(1000);
        try (EventHubProducerClient producer = shared.clientOf(hub).buildProducerClient()) {
            EventDataBatch batch = producer.createBatch(new CreateBatchOptions().setPartitionId("3"));
            expected.forEach(body -> assertTrue(batch.tryAdd(new EventData(body))));
            producer.send(batch);
        }
        List<EventData> events = receive(shared.clientOf(hub), "3", expected.size());
        assertEquals(expected, bodies(events));
        assertEquals(expected, events.stream().map(event -> event.getSequenceNumber().toString()).toList());
        assertEquals(expected, events.stream().map(EventData::getOffsetString).toList());
    }

    @Test
    void events_without_a_partition_are_spread_over_all() {
        String hub = shared.unusedHub();
        try (EventHubProducerClient producer = shared.clientOf(hub).buildProducerClient()) {
            for (int number = 0; number < 2 * Service.PARTITIONS; number++) {
                producer.send(List.of(new EventData("any")));
            }
            assertEquals(List.of(1L, 1L, 1L, 1L), lastSequenceNumbers(producer));
        }
    }

    @Test
    void a_key_decides_the_partition_of_batches_and_of_single_events() {
        String hub = shared.unusedHub();
        Map<String, List<String>> expected = new HashMap<>();
        try (EventHubProducerClient producer = shared.clientOf(hub).buildProducerClient()) {
            PARTITION_OF_KEY.forEach((key, partition) -> {
                EventDataBatch batch = producer.createBatch(new CreateBatchOptions().setPartitionKey(key));
                assertTrue(batch.tryAdd(new EventData("in a batch")));
                producer.send(batch);
                producer.send(List.of(new EventData("alone")), new SendOptions().setPartitionKey(key));
                expected.computeIfAbsent(partition, unused -> new ArrayList<>())
                    .addAll(List.of(key + " in a batch", key + " alone"));
            });
        }
        assertEquals(Service.PARTITIONS, expected.size());
        expected.forEach((partition, ofPartition) -> {
            List<EventData> events = receive(shared.clientOf(hub), partition, ofPartition.size());
            assertEquals(ofPartition,
                events.stream().map(event -> event.getPartitionKey() + " " + event.getBodyAsString()).toList());
        });
    }

    @Test
    void a_batch_holds_what_the_link_takes_and_says_when_it_is_full() {
        String hub = shared.unusedHub();
        int sent = 0;
        try (EventHubProducerClient producer = shared.clientOf(hub).buildProducerClient()) {
            EventDataBatch batch = producer.createBatch(new CreateBatchOptions().setPartitionId("0"));
            assertEquals(LINK_SIZE, batch.getMaxSizeInBytes());
            while (batch.tryAdd(new EventData(new byte[64 * 1024]))) {
                sent++;
            }
            assertEquals(15, sent);
            producer.send(batch);
            // An event that fits no batch of its own is no full batch, but an error.
            assertFails(AmqpErrorCondition.LINK_PAYLOAD_SIZE_EXCEEDED, false, "Size of the payload exceeded",
                () -> producer.createBatch().tryAdd(new EventData(new byte[LINK_SIZE])));
        }
        assertEquals(sent, receive(shared.clientOf(hub), "0", sent).size());
    }

    @Test
    void an_event_that_is_too_large_is_refused_for_good_and_the_next_one_arrives() {
        String hub = shared.unusedHub();
        byte[] large = new byte[LINK_SIZE - 64 * 1024];
        try (EventHubProducerClient producer = shared.clientOf(hub).buildProducerClient()) {
            SendOptions partition = new SendOptions().setPartitionId("0");
            assertFails(AmqpErrorCondition.LINK_PAYLOAD_SIZE_EXCEEDED, false, "",
                () -> producer.send(List.of(new EventData(new byte[LINK_SIZE])), partition));
            producer.send(List.of(new EventData(large)), partition);
            producer.send(List.of(new EventData("small")), partition);
        }
        List<EventData> events = receive(shared.clientOf(hub), "0", 2);
        assertArrayEquals(large, events.get(0).getBody());
        assertEquals("small", events.get(1).getBodyAsString());
    }

    @Test
    void the_asynchronous_client_keeps_many_sends_in_flight() {
        String hub = shared.unusedHub();
        int sends = 200;
        try (EventHubProducerAsyncClient producer = shared.clientOf(hub).buildAsyncProducerClient()) {
            SendOptions partition = new SendOptions().setPartitionId("1");
            Flux.fromIterable(numbers(sends))
                .flatMap(body -> producer.send(List.of(new EventData(body)), partition), 50)
                .then()
                .block(Events.DEADLINE);
        }
        List<String> received = bodies(receive(shared.clientOf(hub), "1", sends));
        assertEquals(numbers(sends).stream().sorted().toList(), received.stream().sorted().toList());
    }

    @Test
    void the_asynchronous_client_sends_batches() {
        String hub = shared.unusedHub();
        try (EventHubProducerAsyncClient producer = shared.clientOf(hub).buildAsyncProducerClient()) {
            producer.createBatch(new CreateBatchOptions().setPartitionId("1"))
                .flatMap(batch -> {
                    numbers(100).forEach(body -> assertTrue(batch.tryAdd(new EventData(body))));
                    return producer.send(batch);
                })
                .block(Events.DEADLINE);
        }
        assertEquals(numbers(100), bodies(receive(shared.clientOf(hub), "1", 100)));
    }

    private static List<Long> lastSequenceNumbers(EventHubProducerClient producer) {
        return numbers(Service.PARTITIONS).stream()
            .map(id -> producer.getPartitionProperties(id).getLastEnqueuedSequenceNumber())
            .toList();
    }

    /** Partitions of four, as the service's hash has them; other clients compute the same. */
    private static final Map<String, String> PARTITION_OF_KEY =
        Map.of("a", "0", "ab", "1", "abc", "1", "7", "3", "alphabet", "2", "131", "2", "key-1", "2");

    /** What the service takes at once, in bytes. */
    private static final int LINK_SIZE = 1024 * 1024;
}
