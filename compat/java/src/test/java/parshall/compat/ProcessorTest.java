package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static parshall.compat.Events.numbers;
import static parshall.compat.Events.send;

import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventProcessorClient;
import com.azure.messaging.eventhubs.EventProcessorClientBuilder;
import com.azure.messaging.eventhubs.LoadBalancingStrategy;
import com.azure.messaging.eventhubs.models.EventPosition;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Processors that keep checkpoints and ownership in the service's own blobs. */
class ProcessorTest {
    @RegisterExtension
    static final SharedService shared = SharedService.withBlobs();

    private final BlockingQueue<String> processed = new LinkedBlockingQueue<>();
    private final Map<String, Set<String>> processedBy = new ConcurrentHashMap<>();
    private final Collection<Throwable> errors = new ConcurrentLinkedQueue<>();
    private final AtomicInteger closed = new AtomicInteger();

    private static Checkpoints checkpointsOf(String hub) {
        return Checkpoints.in(shared.service().storageConnectionString(), "checkpoints-of-" + hub, hub, GROUP);
    }

    private static EventProcessorClientBuilder builder(String hub, Checkpoints checkpoints) {
        Map<String, EventPosition> start = numbers(Service.PARTITIONS).stream()
            .collect(Collectors.toMap(partition -> partition, partition -> EventPosition.earliest()));
        return new EventProcessorClientBuilder()
            .connectionString(shared.service().connectionString(), hub)
            .consumerGroup(GROUP)
            .checkpointStore(checkpoints.store())
            .initialPartitionEventPosition(start)
            .loadBalancingStrategy(LoadBalancingStrategy.GREEDY)
            .loadBalancingUpdateInterval(Duration.ofMillis(500))
            .partitionOwnershipExpirationInterval(Duration.ofSeconds(10));
    }

    /** A processor that notes what it processes, and checkpoints each batch. */
    private EventProcessorClient processor(String hub, Checkpoints checkpoints, String name) {
        return processor(builder(hub, checkpoints), name);
    }

    private EventProcessorClient processor(EventProcessorClientBuilder builder, String name) {
        return builder
            .processEventBatch(batch -> {
                for (EventData event : batch.getEvents()) {
                    processedBy.computeIfAbsent(name, unused -> ConcurrentHashMap.newKeySet())
                        .add(batch.getPartitionContext().getPartitionId());
                    processed.add(batch.getPartitionContext().getPartitionId() + "/" + event.getBodyAsString());
                }
                if (!batch.getEvents().isEmpty()) {
                    batch.updateCheckpoint();
                }
            }, 100, Duration.ofMillis(100))
            .processError(context -> errors.add(context.getThrowable()))
            .buildEventProcessorClient();
    }

    private Set<String> next(int count) throws InterruptedException {
        Set<String> bodies = new HashSet<>();
        for (int number = 0; number < count; number++) {
            String body = processed.poll(Events.DEADLINE.toSeconds(), TimeUnit.SECONDS);
            assertEquals(true, body != null && bodies.add(body), () -> "after " + bodies + ": " + body + ", " + errors);
        }
        return bodies;
    }

    /** Errors of the service. A processor that stops refuses work to itself, and calls that errors too. */
    private static List<Throwable> errorsOf(Collection<Throwable> errors) {
        return errors.stream().filter(error -> !(error instanceof RejectedExecutionException)).toList();
    }

    private static void sendToAll(String hub, String... bodies) {
        numbers(Service.PARTITIONS).forEach(partition -> send(shared.clientOf(hub), partition, bodies));
    }

    private static Set<String> ofAll(String... bodies) {
        return numbers(Service.PARTITIONS).stream()
            .flatMap(partition -> List.of(bodies).stream().map(body -> partition + "/" + body))
            .collect(Collectors.toSet());
    }

    @Test
    void a_processor_goes_on_where_the_last_one_stopped() throws Exception {
        String hub = shared.unusedHub();
        Checkpoints checkpoints = checkpointsOf(hub);
        sendToAll(hub, "a", "b");
        // A stop does not wait for a cycle of load balancing, which may claim again what the stop has just given back. Cycles are
        // far apart here, so that none is in progress.
        EventProcessorClientBuilder builder = builder(hub, checkpoints)
            .loadBalancingUpdateInterval(Duration.ofSeconds(30))
            .partitionOwnershipExpirationInterval(Duration.ofSeconds(90));
        EventProcessorClient first = processor(builder, "first");
        first.start();
        assertEquals(ofAll("a", "b"), next(8));
        Waiting.until("a checkpoint after each last event", Events.DEADLINE, checkpoints::done,
            Map.of("0", 1L, "1", 1L, "2", 1L, "3", 1L)::equals);
        assertEquals(Set.of(first.getIdentifier()), new HashSet<>(checkpoints.owners().values()));
        first.stop();
        assertEquals(Set.of(""), new HashSet<>(checkpoints.owners().values()), "a stop gives the partitions back");
        sendToAll(hub, "c");
        EventProcessorClient second = processor(hub, checkpoints, "second");
        second.start();
        assertEquals(ofAll("c"), next(4));
        assertEquals(List.of(), errorsOf(errors));
        second.stop();
        assertEquals(List.of(), List.copyOf(processed));
    }

    @Test
    void two_processors_share_the_partitions_and_lose_nothing_when_one_comes() throws Exception {
        String hub = shared.unusedHub();
        Checkpoints checkpoints = checkpointsOf(hub);
        EventProcessorClient first = processor(hub, checkpoints, "first");
        EventProcessorClient second = processor(hub, checkpoints, "second");
        sendToAll(hub, "before");
        first.start();
        assertEquals(ofAll("before"), next(4));
        second.start();
        Map<String, String> owners = Waiting.until("an equal share for both", Events.DEADLINE, checkpoints::owners,
            shares -> shares.values().stream().filter(second.getIdentifier()::equals).count() == 2);
        assertEquals(Set.of(first.getIdentifier(), second.getIdentifier()), new HashSet<>(owners.values()));
        processedBy.clear();
        Set<String> seen = new HashSet<>();
        sendToAll(hub, "after");
        while (!seen.containsAll(ofAll("after"))) {
            String body = processed.poll(Events.DEADLINE.toSeconds(), TimeUnit.SECONDS);
            assertEquals(true, body != null, () -> "only " + seen + "; " + errors);
            seen.add(body);
        }
        // Shares may still move, but nobody is left without one.
        assertEquals(Set.of("first", "second"), processedBy.keySet());
        first.stop();
        second.stop();
    }

    @Test
    void a_processor_of_single_events_is_told_of_the_last_one_and_of_its_end() throws Exception {
        String hub = shared.unusedHub();
        send(shared.clientOf(hub), "0", "a", "b", "c");
        EventProcessorClient processor = builder(hub, checkpointsOf(hub))
            .trackLastEnqueuedEventProperties(true)
            .processEvent(context -> {
                processed.add(context.getEventData().getBodyAsString() + " of "
                    + context.getLastEnqueuedEventProperties().getSequenceNumber());
                context.updateCheckpoint();
            })
            .processError(context -> errors.add(context.getThrowable()))
            .processPartitionClose(context -> closed.incrementAndGet())
            .buildEventProcessorClient();
        processor.start();
        assertEquals(Set.of("a of 2", "b of 2", "c of 2"), next(3));
        assertEquals(List.of(), errorsOf(errors));
        assertEquals(0, closed.get());
        processor.stop();
        Waiting.until("a word of the end", Events.DEADLINE, closed::get, count -> count > 0);
    }

    private static final String GROUP = EventHubClientBuilder.DEFAULT_CONSUMER_GROUP_NAME;
}
