package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.amqp.AmqpTransportType;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventDataBatch;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.EventProcessorClient;
import com.azure.messaging.eventhubs.EventProcessorClientBuilder;
import com.azure.messaging.eventhubs.LoadBalancingStrategy;
import com.azure.messaging.eventhubs.models.CreateBatchOptions;
import com.azure.messaging.eventhubs.models.EventPosition;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/**
 * TLS with the authority that {@code parshall serve} makes for development. It is the one test that older versions of the
 * client run as well: those know nothing but TLS.
 */
class TlsTest {
    @RegisterExtension
    static final SharedService shared =
        SharedService.withBlobs("--amqps", "127.0.0.1:0", "--websocket-tls", "127.0.0.1:0", "--tls-directory",
            tlsDirectory().toString());

    @BeforeAll
    static void trust() throws Exception {
        DevelopmentAuthority.trust(shared.service());
    }

    @Test
    void events_travel_over_tls() {
        String hub = shared.unusedHub();
        roundTrip(() -> clientOf(hub, "AMQP over TLS"));
    }

    @Test
    void events_travel_over_web_socket() {
        String hub = shared.unusedHub();
        roundTrip(() -> clientOf(hub, "AMQP over WSS").transportType(AmqpTransportType.AMQP_WEB_SOCKETS));
    }

    @Test
    void a_processor_continues_after_the_checkpoint_of_the_last() throws Exception {
        String hub = shared.unusedHub();
        String group = EventHubClientBuilder.DEFAULT_CONSUMER_GROUP_NAME;
        Checkpoints checkpoints = Checkpoints.in(shared.service().storageConnectionString(), "checkpoints", hub, group);
        for (String body : List.of("first", "second")) {
            Events.send(clientOf(hub, "AMQP over TLS"), "0", body);
            BlockingQueue<String> processed = new LinkedBlockingQueue<>();
            EventProcessorClient processor = new EventProcessorClientBuilder()
                .connectionString(shared.service().tlsConnectionString(), hub)
                .customEndpointAddress(address("AMQP over TLS"))
                .consumerGroup(group)
                .checkpointStore(checkpoints.store())
                .initialPartitionEventPosition(Map.of("0", EventPosition.earliest()))
                .loadBalancingStrategy(LoadBalancingStrategy.GREEDY)
                // Cycles are far apart, so that none claims what a stop has just given back.
                .loadBalancingUpdateInterval(Duration.ofSeconds(30))
                .partitionOwnershipExpirationInterval(Duration.ofSeconds(90))
                .processEventBatch(batch -> {
                    if (!batch.getEvents().isEmpty()) {
                        batch.updateCheckpoint();
                        processed.addAll(Events.bodies(batch.getEvents()));
                    }
                }, 10, Duration.ofMillis(100))
                .processError(context -> { })
                .buildEventProcessorClient();
            processor.start();
            assertEquals(body, processed.poll(Events.DEADLINE.toSeconds(), TimeUnit.SECONDS));
            processor.stop();
            // An event may come again where a partition is opened anew; one before the checkpoint must not.
            assertTrue(processed.stream().allMatch(body::equals), processed::toString);
        }
        assertEquals(Map.of("0", 1L), checkpoints.done());
    }

    private static void roundTrip(Supplier<EventHubClientBuilder> client) {
        List<String> expected = Events.numbers(500);
        try (EventHubProducerClient producer = client.get().buildProducerClient()) {
            EventDataBatch batch = producer.createBatch(new CreateBatchOptions().setPartitionId("0"));
            expected.forEach(body -> assertTrue(batch.tryAdd(new EventData(body))));
            producer.send(batch);
            assertEquals(499, producer.getPartitionProperties("0").getLastEnqueuedSequenceNumber());
        }
        assertEquals(expected, Events.bodies(Events.receive(client.get(), "0", expected.size())));
    }

    /** The port has to be said once more: with TLS the client takes 5671 whatever the connection string says. */
    private static EventHubClientBuilder clientOf(String hub, String endpoint) {
        return SharedService.clientOf(hub, shared.service().tlsConnectionString())
            .customEndpointAddress(address(endpoint));
    }

    private static String address(String endpoint) {
        return "https://localhost:" + shared.service().port(endpoint);
    }

    private static Path tlsDirectory() {
        try {
            return Service.directory("tls");
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
