package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.amqp.AmqpTransportType;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventDataBatch;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.models.CreateBatchOptions;
import java.nio.file.Path;
import java.util.List;
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
        new SharedService("", "--amqps", "127.0.0.1:0", "--websocket-tls", "127.0.0.1:0", "--tls-directory",
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
            .customEndpointAddress("https://localhost:" + shared.service().port(endpoint));
    }

    private static Path tlsDirectory() {
        try {
            return Service.directory("tls");
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
