package parshall.compat;

import com.azure.messaging.eventhubs.EventHubConsumerAsyncClient;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.PartitionEvent;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.util.retry.Retry;

/** A receiver that goes on receiving: its next event, and the error with which it ends. */
final class Following implements AutoCloseable {
    private final BlockingQueue<String> bodies = new LinkedBlockingQueue<>();
    private final CompletableFuture<Throwable> error = new CompletableFuture<>();
    private final Disposable subscription;

    Following(Flux<PartitionEvent> events) {
        subscription = events.subscribe(event -> bodies.add(event.getData().getBodyAsString()), error::complete);
    }

    /**
     * A receiver of a partition from its start that receives anew whenever it ends, as an application has to: this
     * version of the client leaves that to it.
     */
    static Following persistently(EventHubConsumerAsyncClient consumer, String partition) {
        AtomicReference<EventPosition> next = new AtomicReference<>(EventPosition.earliest());
        return new Following(Flux.defer(() -> consumer.receiveFromPartition(partition, next.get()))
            .doOnNext(event -> next.set(EventPosition.fromSequenceNumber(event.getData().getSequenceNumber())))
            .retryWhen(Retry.indefinitely().filter(error -> Failures.amqpErrorOf(error).isTransient()))
            .repeat());
    }

    /** The body of the next event. */
    String next() throws InterruptedException {
        String body = nextWithin(Events.DEADLINE);
        if (body == null) {
            throw new AssertionError("nothing comes", error.getNow(null));
        }
        return body;
    }

    /** The body of the next event, or null if none comes in time. */
    String nextWithin(Duration wait) throws InterruptedException {
        return bodies.poll(wait.toMillis(), TimeUnit.MILLISECONDS);
    }

    /** The error with which it ends. */
    Throwable error() throws Exception {
        return error.get(Events.DEADLINE.toSeconds(), TimeUnit.SECONDS);
    }

    @Override
    public void close() {
        subscription.dispose();
    }
}
