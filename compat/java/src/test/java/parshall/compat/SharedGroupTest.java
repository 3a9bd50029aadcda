package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubConsumerAsyncClient;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import reactor.core.Disposable;

/** A processor of the official client and a relay that take partitions over from one another, in one consumer group. */
class SharedGroupTest {
    @RegisterExtension
    static final SharedService shared = SharedService.withBlobs();

    /** How often each event has arrived, by its partition and number. */
    private final ConcurrentMap<String, Integer> arrivals = new ConcurrentHashMap<>();

    @Test
    @Timeout(120)
    void a_processor_and_a_relay_take_over_from_one_another_and_lose_nothing() throws Exception {
        Service service = shared.service();
        String source = shared.unusedHub();
        String destination = shared.unusedHub();
        Path directory = Service.directory("SharedGroupTest");
        Checkpoints checkpoints =
            Checkpoints.in(service.storageConnectionString(), "shared", source, Forwarder.GROUP);
        Process processor = null;
        Process relay = null;
        try (EventHubConsumerAsyncClient consumer = shared.clientOf(destination).buildAsyncConsumerClient();
            Pump pump = new Pump(source)) {
            Disposable counting = consumer.receive(true)
                .subscribe(event -> arrivals.merge(event.getData().getBodyAsString(), 1, Integer::sum));

            processor = startProcessor(directory, source, destination);
            awaitOwners(checkpoints, owners -> owners.size() == 4 && !owners.containsValue(""));
            awaitArrivals("through the processor alone", pump.sentToEach());
            String firstProcessor = checkpoints.owners().get("0");

            relay = Relay.start(directory, service, "shared", source, destination);
            awaitOwners(checkpoints, owners -> countOf(owners, Relay.IDENTITY) == 2);
            awaitArrivals("through both", pump.sentToEach());

            kill(processor);
            awaitOwners(checkpoints, owners -> countOf(owners, Relay.IDENTITY) == 4);
            awaitArrivals("through the relay alone", pump.sentToEach());

            processor = startProcessor(directory, source, destination);
            awaitOwners(checkpoints, owners -> countOf(owners, Relay.IDENTITY) == 2
                && owners.values().stream().noneMatch(firstProcessor::equals));
            awaitArrivals("through the relay and a second processor", pump.sentToEach());

            kill(relay);
            awaitOwners(checkpoints, owners -> countOf(owners, Relay.IDENTITY) == 0);
            Map<String, Long> sent = pump.stop();
            awaitArrivals("all, in the end", sent);
            Waiting.until("a checkpoint after each last event", LIMIT, checkpoints::done,
                done -> done.equals(sent.entrySet().stream()
                    .collect(Collectors.toMap(Map.Entry::getKey, entry -> entry.getValue() - 1))));
            counting.dispose();

            long events = sent.values().stream().mapToLong(Long::longValue).sum();
            assertEquals(events, arrivals.size(), "what arrived, each counted once");
            long duplicates = arrivals.values().stream().mapToLong(count -> count - 1).sum();
            Files.writeString(directory.resolve("counts"), "events %d, duplicates %d%n".formatted(events, duplicates));
            System.out.printf("%d events were shared, 0 lost, %d came twice%n", events, duplicates);
        } finally {
            stop(processor);
            stop(relay);
        }
    }

    @Test
    @Timeout(120)
    void a_processor_goes_on_where_a_relay_that_was_there_first_has_stopped() throws Exception {
        Service service = shared.service();
        String source = shared.unusedHub();
        String destination = shared.unusedHub();
        Path directory = Service.directory("SharedGroupTest");
        Checkpoints checkpoints =
            Checkpoints.in(service.storageConnectionString(), "handed-over", source, Forwarder.GROUP);
        Process relay = null;
        Process processor = null;
        try (EventHubConsumerAsyncClient consumer = shared.clientOf(destination).buildAsyncConsumerClient()) {
            Disposable counting = consumer.receive(true)
                .subscribe(event -> arrivals.merge(event.getData().getBodyAsString(), 1, Integer::sum));
            relay = Relay.start(directory, service, "handed-over", source, destination);
            awaitArrivals("through the relay", sendToEach(source, 0, 10));
            relay.destroy();
            assertEquals(0, relay.waitFor(), "a relay that is asked to stops in good order");
            assertEquals(Set.of(""), new HashSet<>(checkpoints.owners().values()), "and gives its partitions back");

            processor = Forwarder.start(directory.resolve("processor.log"), service, "handed-over", source, destination);
            Map<String, Long> sent = sendToEach(source, 10, 20);
            awaitArrivals("through the processor", sent);
            Waiting.until("a checkpoint after each last event", LIMIT, checkpoints::done,
                Map.of("0", 19L, "1", 19L, "2", 19L, "3", 19L)::equals);
            assertEquals(Set.of(1), new HashSet<>(arrivals.values()), "nothing comes twice where nobody was killed");
            counting.dispose();
        } finally {
            stop(relay);
            stop(processor);
        }
    }

    /** Sends the events of these numbers to each partition; how many there are then. */
    private static Map<String, Long> sendToEach(String hub, int first, int end) {
        Map<String, Long> sent = new HashMap<>();
        for (String partition : Events.numbers(Service.PARTITIONS)) {
            String[] bodies = IntStream.range(first, end).mapToObj(number -> partition + "/" + number).toArray(String[]::new);
            Events.send(shared.clientOf(hub), partition, bodies);
            sent.put(partition, (long) end);
        }
        return sent;
    }

    private static Process startProcessor(Path directory, String source, String destination) throws Exception {
        return Forwarder.start(directory.resolve("processor.log"), shared.service(), "shared", source, destination);
    }

    private static void awaitOwners(Checkpoints checkpoints, Predicate<Map<String, String>> isReached) {
        Waiting.until("who owns which partition", LIMIT, checkpoints::owners, isReached);
    }

    /** Waits until everything that was sent has arrived. */
    private void awaitArrivals(String what, Map<String, Long> sent) {
        Waiting.until(what, LIMIT, () -> missing(sent), Set::isEmpty);
    }

    private Set<String> missing(Map<String, Long> sent) {
        Set<String> missing = new HashSet<>();
        sent.forEach((partition, count) -> {
            for (long number = 0; number < count; number++) {
                String body = partition + "/" + number;
                if (!arrivals.containsKey(body)) {
                    missing.add(body);
                }
            }
        });
        return missing;
    }

    private static long countOf(Map<String, String> owners, String owner) {
        return owners.values().stream().filter(owner::equals).count();
    }

    private static void kill(Process process) throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    private static void stop(Process process) throws InterruptedException {
        if (process != null) {
            kill(process);
        }
    }

    /** Sends numbered events to each partition, without a pause that anybody waits for, until it is stopped. */
    private static final class Pump implements AutoCloseable {
        private final ConcurrentMap<String, Long> sent = new ConcurrentHashMap<>();
        private final CompletableFuture<Void> ended;
        private volatile boolean stopping;

        Pump(String hub) {
            ended = CompletableFuture.runAsync(() -> run(hub));
        }

        private void run(String hub) {
            try (EventHubProducerClient producer = shared.clientOf(hub).buildProducerClient()) {
                while (!stopping) {
                    for (String partition : Events.numbers(Service.PARTITIONS)) {
                        long first = sent.getOrDefault(partition, 0L);
                        List<EventData> events = Events.numbers(BATCH).stream()
                            .map(number -> new EventData(partition + "/" + (first + Long.parseLong(number))))
                            .toList();
                        producer.send(events, new SendOptions().setPartitionId(partition));
                        sent.put(partition, first + BATCH);
                    }
                    // A steady trickle, so that there is always something under way.
                    LockSupport.parkNanos(Duration.ofMillis(10).toNanos());
                }
            }
        }

        /** How many have been sent to each partition. */
        Map<String, Long> sentToEach() {
            return Waiting.until("something to each partition", LIMIT, () -> Map.copyOf(sent),
                counts -> counts.size() == Service.PARTITIONS);
        }

        Map<String, Long> stop() {
            stopping = true;
            ended.join();
            return Map.copyOf(sent);
        }

        @Override
        public void close() {
            stopping = true;
        }

        private static final int BATCH = 5;
    }

    private static final Duration LIMIT = Duration.ofSeconds(60);
}
