package parshall.peer;

import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubProducerAsyncClient;
import com.azure.messaging.eventhubs.models.EventBatchContext;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.Semaphore;
import java.util.stream.IntStream;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * What is done with each batch: its events are spread over the partitions of the destination, what goes to one partition
 * is sent at once, all partitions in parallel, and the batch is checkpointed when every send was accepted.
 *
 * <p>A send that fails fails the batch. The exception goes to the processor, which stops the partition without a
 * checkpoint; it resumes from the last one when it has an owner again.
 */
final class Forwarder {
    private final EventHubProducerAsyncClient producer;
    private final List<SendOptions> destinations;
    private final double failureRatio;
    private final long seed;
    /** What each batch on its way has one of. */
    private final Semaphore permits;
    /** One for each partition of the source, since the batches of one come one after another. */
    private final ConcurrentMap<String, SplittableRandom> random = new ConcurrentHashMap<>();

    /** A forwarder that sends with {@code producer}, and shares {@code permits} with others. */
    Forwarder(EventHubProducerAsyncClient producer, Semaphore permits, Settings settings) {
        this.permits = permits;
        this.producer = producer;
        this.destinations = IntStream.range(0, settings.fanOut())
                .mapToObj(number -> new SendOptions().setPartitionId(Integer.toString(number)))
                .toList();
        this.failureRatio = settings.failureRatio();
        this.seed = settings.seed();
    }

    /** Forwards one batch, and returns when all of it is in the destination and checkpointed. */
    void forward(EventBatchContext batch) {
        if (batch.getEvents().isEmpty()) {
            return;
        }
        var random = this.random.computeIfAbsent(
                batch.getPartitionContext().getPartitionId(),
                partition -> new SplittableRandom(seed * 31 + partition.hashCode()));
        permits.acquireUninterruptibly();
        try {
            List<Mono<Void>> sends = sends(batch.getEvents(), random);
            Flux.fromIterable(sends).flatMap(send -> send, sends.size(), 1).then().block();
        } finally {
            permits.release();
        }
        batch.updateCheckpoint();
    }

    /** One send for each partition that gets any of the events. */
    private List<Mono<Void>> sends(List<EventData> events, SplittableRandom random) {
        var groups = new ArrayList<List<EventData>>(destinations.size());
        for (int number = 0; number < destinations.size(); number++) {
            groups.add(null);
        }
        for (EventData event : events) {
            int number = random.nextInt(destinations.size());
            List<EventData> group = groups.get(number);
            if (group == null) {
                group = new ArrayList<>(events.size() / destinations.size() + 4);
                groups.set(number, group);
            }
            group.add(forwarded(event));
        }
        var sends = new ArrayList<Mono<Void>>(destinations.size());
        for (int number = 0; number < groups.size(); number++) {
            List<EventData> group = groups.get(number);
            if (group != null) {
                boolean fails = failureRatio > 0 && random.nextDouble() < failureRatio;
                sends.add(fails ? Mono.error(new SimulatedFailure()) : producer.send(group, destinations.get(number)));
            }
        }
        return sends;
    }

    /** The event anew, without what the source's service wrote on it. */
    private static EventData forwarded(EventData received) {
        var event = new EventData(received.getBodyAsBinaryData());
        if (!received.getProperties().isEmpty()) {
            event.getProperties().putAll(received.getProperties());
        }
        return event;
    }

    /** A send that failed on purpose. */
    static final class SimulatedFailure extends RuntimeException {
        private static final long serialVersionUID = 1L;

        SimulatedFailure() {
            super("failed on purpose", null, false, false);
        }
    }
}
