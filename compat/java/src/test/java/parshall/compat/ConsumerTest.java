package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.Events.bodies;
import static parshall.compat.Events.numbers;
import static parshall.compat.Events.receive;
import static parshall.compat.Events.send;
import static parshall.compat.Failures.assertFails;

import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventHubConsumerAsyncClient;
import com.azure.messaging.eventhubs.EventHubConsumerClient;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.LastEnqueuedEventProperties;
import com.azure.messaging.eventhubs.models.PartitionEvent;
import com.azure.messaging.eventhubs.models.ReceiveOptions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Receiving from every kind of position, by the client that waits and by the one that does not. */
class ConsumerTest {
    @RegisterExtension
    static final SharedService shared = new SharedService();

    /** A hub with ten events in its first partition, one by one. */
    private static String filled;

    @BeforeAll
    static void fill() {
        filled = shared.unusedHub();
        numbers(COUNT).forEach(body -> send(shared.clientOf(filled), "0", body));
    }

    @ParameterizedTest
    @MethodSource("positions")
    void receiving_begins_at_the_position(EventPosition position, int first) {
        List<EventData> events = receive(shared.clientOf(filled), "0", COUNT - first, position);
        assertEquals(numbers(COUNT).subList(first, COUNT), bodies(events));
    }

    static Stream<Arguments> positions() {
        return Stream.of(
            Arguments.of(EventPosition.earliest(), 0),
            Arguments.of(EventPosition.fromOffsetString("3"), 4),
            Arguments.of(EventPosition.fromSequenceNumber(5), 6),
            Arguments.of(EventPosition.fromSequenceNumber(5, true), 5),
            Arguments.of(EventPosition.fromSequenceNumber(COUNT - 1, true), COUNT - 1),
            Arguments.of(EventPosition.fromEnqueuedTime(Instant.EPOCH), 0));
    }

    @Test
    void receiving_begins_after_an_enqueued_time() {
        List<Instant> times = receive(shared.clientOf(filled), "0", COUNT).stream().map(EventData::getEnqueuedTime).toList();
        int first = (int) times.stream().filter(time -> !time.isAfter(times.get(4))).count();
        List<EventData> events =
            receive(shared.clientOf(filled), "0", COUNT - first, EventPosition.fromEnqueuedTime(times.get(4)));
        assertEquals(numbers(COUNT).subList(first, COUNT), bodies(events));
    }

    @Test
    void a_position_beyond_the_end_is_refused_for_good() {
        assertFails(AmqpErrorCondition.ARGUMENT_ERROR, false, "The supplied offset '1000' is invalid",
            () -> receive(shared.clientOf(filled), "0", 1, EventPosition.fromOffsetString("1000")));
    }

    @Test
    void the_waiting_client_receives_as_many_as_it_asks_for_and_goes_on_from_there() {
        try (EventHubConsumerClient consumer = shared.clientOf(filled).buildConsumerClient()) {
            List<EventData> first = received(consumer, 4, EventPosition.earliest());
            assertEquals(numbers(4), bodies(first));
            EventPosition next = EventPosition.fromSequenceNumber(first.get(3).getSequenceNumber());
            assertEquals(numbers(COUNT).subList(4, COUNT), bodies(received(consumer, COUNT - 4, next)));
        }
    }

    private static List<EventData> received(EventHubConsumerClient consumer, int count, EventPosition from) {
        return consumer.receiveFromPartition("0", count, from, Events.DEADLINE).stream()
            .map(PartitionEvent::getData)
            .toList();
    }

    @Test
    void the_waiting_client_gives_up_after_its_wait_where_there_is_nothing() {
        try (EventHubConsumerClient consumer = shared.clientOf(filled).buildConsumerClient()) {
            assertEquals(0,
                consumer.receiveFromPartition("1", 5, EventPosition.earliest(), Duration.ofMillis(200)).stream().count());
        }
    }

    @Test
    void events_that_come_while_a_receiver_waits_are_delivered() throws Exception {
        String hub = shared.unusedHub();
        send(shared.clientOf(hub), "0", "one");
        try (EventHubConsumerAsyncClient consumer = shared.clientOf(hub).buildAsyncConsumerClient();
            Following following = new Following(consumer.receiveFromPartition("0", EventPosition.earliest()))) {
            assertEquals("one", following.next());
            send(shared.clientOf(hub), "0", "two");
            assertEquals("two", following.next());
        }
    }

    @Test
    void a_receiver_that_wants_the_latest_gets_what_came_after_it() throws Exception {
        String hub = shared.unusedHub();
        send(shared.clientOf(hub), "0", "old");
        try (EventHubConsumerAsyncClient consumer = shared.clientOf(hub).buildAsyncConsumerClient();
            Following following = new Following(consumer.receiveFromPartition("0", EventPosition.latest()))) {
            // Nothing tells when it is attached: whatever comes first, it is none of the old.
            String received = null;
            for (int number = 0; received == null; number++) {
                send(shared.clientOf(hub), "0", "new " + number);
                received = following.nextWithin(Duration.ofMillis(200));
            }
            assertTrue(received.startsWith("new"), received);
        }
    }

    @Test
    void all_partitions_are_received_at_once() {
        String hub = shared.unusedHub();
        numbers(Service.PARTITIONS).forEach(partition -> send(shared.clientOf(hub), partition, "of " + partition));
        try (EventHubConsumerAsyncClient consumer = shared.clientOf(hub).buildAsyncConsumerClient()) {
            Map<String, String> received = new TreeMap<>();
            consumer.receive(true)
                .take(Service.PARTITIONS)
                .toStream()
                .forEach(event ->
                    received.put(event.getPartitionContext().getPartitionId(), event.getData().getBodyAsString()));
            assertEquals(Map.of("0", "of 0", "1", "of 1", "2", "of 2", "3", "of 3"), received);
        }
    }

    @Test
    void a_backlog_far_beyond_the_prefetch_arrives_whole_and_in_order() {
        String hub = shared.unusedHub();
        List<String> expected = new ArrayList<>();
        for (int batch = 0; batch < 20; batch++) {
            String[] bodies = new String[500];
            for (int number = 0; number < bodies.length; number++) {
                bodies[number] = batch + "/" + number;
            }
            send(shared.clientOf(hub), "0", bodies);
            expected.addAll(List.of(bodies));
        }
        assertEquals(expected, bodies(receive(shared.clientOf(hub).prefetchCount(300), "0", expected.size())));
    }

    @Test
    void every_consumer_group_sees_every_event() {
        for (String group : List.of("$Default", Service.CONSUMER_GROUP, Service.CONSUMER_GROUP.toUpperCase())) {
            EventHubClientBuilder client = shared.clientOf(filled).consumerGroup(group);
            assertEquals(numbers(COUNT), bodies(receive(client, "0", COUNT)), group);
        }
    }

    @Test
    void a_receiver_that_asks_is_told_of_the_last_event() {
        try (EventHubConsumerAsyncClient consumer = shared.clientOf(filled).buildAsyncConsumerClient()) {
            LastEnqueuedEventProperties told = lastEnqueued(consumer, true);
            assertEquals(COUNT - 1L, told.getSequenceNumber());
            assertEquals(COUNT - 1 + "", told.getOffsetString());
            assertFalse(told.getRetrievalTime().isBefore(told.getEnqueuedTime()));
            assertNull(lastEnqueued(consumer, false));
        }
    }

    private static LastEnqueuedEventProperties lastEnqueued(EventHubConsumerAsyncClient consumer, boolean tracking) {
        ReceiveOptions options = new ReceiveOptions().setTrackLastEnqueuedEventProperties(tracking);
        return consumer.receiveFromPartition("0", EventPosition.earliest(), options)
            .blockFirst(Events.DEADLINE)
            .getLastEnqueuedEventProperties();
    }

    private static final int COUNT = 10;
}
