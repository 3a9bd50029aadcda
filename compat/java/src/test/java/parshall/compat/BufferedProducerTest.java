package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static parshall.compat.Events.bodies;
import static parshall.compat.Events.numbers;
import static parshall.compat.Events.receive;

import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubBufferedProducerAsyncClient;
import com.azure.messaging.eventhubs.EventHubBufferedProducerClient;
import com.azure.messaging.eventhubs.EventHubBufferedProducerClientBuilder;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The producer that makes batches by itself, and finds the partition of a key by itself. */
class BufferedProducerTest {
    @RegisterExtension
    static final SharedService shared = new SharedService();

    /**
     * A wait before which each test flushes. Where the client's timer ends while events are added, on a busy machine, the client puts
     * events into two batches: it has reported 72 of 2,000 twice.
     */
    private static final Duration NEVER_REACHED = Duration.ofMinutes(1);

    private static final Duration SHORT = Duration.ofMillis(50);

    private final Collection<Throwable> failures = new ConcurrentLinkedQueue<>();
    private final Collection<String> succeeded = new ConcurrentLinkedQueue<>();

    private EventHubBufferedProducerClientBuilder producerOf(String hub) {
        return new EventHubBufferedProducerClientBuilder()
            .connectionString(shared.service().connectionString(), hub)
            .retryOptions(SharedService.NO_RETRY)
            .maxWaitTime(NEVER_REACHED)
            .onSendBatchFailed(context -> failures.add(context.getThrowable()))
            .onSendBatchSucceeded(
                context -> context.getEvents().forEach(event -> succeeded.add(event.getBodyAsString())));
    }

    @Test
    void everything_that_was_buffered_arrives_once_and_in_order() {
        String hub = shared.unusedHub();
        List<String> expected = numbers(2000);
        try (EventHubBufferedProducerClient producer = producerOf(hub).buildClient()) {
            SendOptions partition = new SendOptions().setPartitionId("0");
            expected.forEach(body -> producer.enqueueEvent(new EventData(body), partition));
            producer.flush();
        }
        assertEquals(List.of(), List.copyOf(failures));
        assertEquals(expected, List.copyOf(succeeded));
        assertEquals(expected, bodies(receive(shared.clientOf(hub), "0", expected.size())));
    }

    @Test
    void a_key_leads_to_the_partition_that_the_service_would_have_chosen() {
        String hub = shared.unusedHub();
        List<String> keys = numbers(64);
        try (EventHubBufferedProducerAsyncClient producer = producerOf(hub).buildAsyncClient()) {
            for (String key : keys) {
                producer.enqueueEvent(new EventData("buffered " + key), new SendOptions().setPartitionKey(key))
                    .block(Events.DEADLINE);
            }
            producer.flush().block(Events.DEADLINE);
        }
        assertEquals(List.of(), List.copyOf(failures));
        try (var producer = shared.clientOf(hub).buildProducerClient()) {
            keys.forEach(key ->
                producer.send(List.of(new EventData("plain " + key)), new SendOptions().setPartitionKey(key)));
            for (String partition : producer.getPartitionIds()) {
                int count = (int) producer.getPartitionProperties(partition).getLastEnqueuedSequenceNumber() + 1;
                Set<String> buffered = new HashSet<>();
                Set<String> plain = new HashSet<>();
                for (EventData event : receive(shared.clientOf(hub), partition, count)) {
                    Set<String> keysOfKind = event.getBodyAsString().startsWith("plain") ? plain : buffered;
                    keysOfKind.add(event.getPartitionKey());
                }
                assertEquals(plain, buffered, () -> "partition " + partition);
            }
        }
    }

    @Test
    void what_is_not_flushed_leaves_after_the_longest_wait() throws Exception {
        String hub = shared.unusedHub();
        CompletableFuture<String> sent = new CompletableFuture<>();
        EventHubBufferedProducerClientBuilder builder =
            producerOf(hub).maxWaitTime(SHORT)
                .onSendBatchSucceeded(context -> sent.complete(context.getPartitionId()));
        try (EventHubBufferedProducerClient producer = builder.buildClient()) {
            producer.enqueueEvent(new EventData("alone"), new SendOptions().setPartitionId("3"));
            assertEquals("3", sent.get(Events.DEADLINE.toSeconds(), TimeUnit.SECONDS));
        }
    }

    @Test
    void a_batch_that_is_refused_is_told_with_its_cause() throws Exception {
        CompletableFuture<Throwable> failed = new CompletableFuture<>();
        EventHubBufferedProducerClientBuilder builder = producerOf(shared.unusedHub())
            .connectionString(shared.service().connectionStringWith("listener", "listen-only-value"), shared.unusedHub())
            .maxWaitTime(SHORT)
            .onSendBatchFailed(context -> failed.complete(context.getThrowable()));
        try (EventHubBufferedProducerClient producer = builder.buildClient()) {
            producer.enqueueEvent(new EventData("forged"), new SendOptions().setPartitionId("0"));
            Throwable error = failed.get(Events.DEADLINE.toSeconds(), TimeUnit.SECONDS);
            Failures.assertIs(AmqpErrorCondition.UNAUTHORIZED_ACCESS, false, "", error);
        }
    }
}
