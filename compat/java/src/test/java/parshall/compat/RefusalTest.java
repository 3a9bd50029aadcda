package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static parshall.compat.Events.bodies;
import static parshall.compat.Events.receive;
import static parshall.compat.Events.send;
import static parshall.compat.Failures.assertFails;

import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What does not exist is not found, and what is not allowed is not done; and the client knows that it is final. */
class RefusalTest {
    @RegisterExtension
    static final SharedService shared = new SharedService();

    private static long lastSequenceNumber(String hub) {
        try (EventHubProducerClient client = shared.clientOf(hub).buildProducerClient()) {
            return client.getPartitionProperties("0").getLastEnqueuedSequenceNumber();
        }
    }

    @Test
    void an_unknown_hub_is_not_found() {
        assertFails(AmqpErrorCondition.NOT_FOUND, false, "could not be found",
            () -> send(shared.clientOf("nowhere"), "0", "lost"));
        assertFails(AmqpErrorCondition.NOT_FOUND, false, "could not be found",
            () -> receive(shared.clientOf("nowhere"), "0", 1));
    }

    @Test
    void an_unknown_consumer_group_is_not_found() {
        String hub = shared.unusedHub();
        assertFails(AmqpErrorCondition.NOT_FOUND, false, "could not be found",
            () -> receive(shared.clientOf(hub).consumerGroup("nobody"), "0", 1));
    }

    @Test
    void an_unknown_partition_is_out_of_range() {
        String hub = shared.unusedHub();
        String unknown = Integer.toString(Service.PARTITIONS);
        assertFails(AmqpErrorCondition.ARGUMENT_OUT_OF_RANGE_ERROR, false, "partition",
            () -> send(shared.clientOf(hub), unknown, "lost"));
        assertFails(AmqpErrorCondition.ARGUMENT_OUT_OF_RANGE_ERROR, false, "partition",
            () -> receive(shared.clientOf(hub), unknown, 1));
    }

    @ParameterizedTest
    @CsvSource({"RootManageSharedAccessKey, guess", "nobody, SAS_KEY_VALUE"})
    void a_wrong_key_sends_nothing_reads_nothing_and_learns_nothing(String name, String key) {
        String hub = shared.unusedHub();
        send(shared.clientOf(hub), "0", "secret");
        EventHubClientBuilder wrong =
            SharedService.clientOf(hub, shared.service().connectionStringWith(name, key));
        assertFails(AmqpErrorCondition.UNAUTHORIZED_ACCESS, false, "", () -> send(wrong, "0", "forged"));
        assertFails(AmqpErrorCondition.UNAUTHORIZED_ACCESS, false, "", () -> receive(wrong, "0", 1));
        try (EventHubProducerClient client = wrong.buildProducerClient()) {
            assertFails(AmqpErrorCondition.UNAUTHORIZED_ACCESS, false, "", client::getEventHubProperties);
        }
        assertEquals(0, lastSequenceNumber(hub));
    }

    @Test
    void a_key_that_may_only_listen_listens_only() {
        String hub = shared.unusedHub();
        send(shared.clientOf(hub), "0", "heard");
        EventHubClientBuilder listener =
            SharedService.clientOf(hub, shared.service().connectionStringWith("listener", "listen-only-value"));
        assertEquals(List.of("heard"), bodies(receive(listener, "0", 1)));
        assertFails(AmqpErrorCondition.UNAUTHORIZED_ACCESS, false, "'Send' claim(s) are required",
            () -> send(listener, "0", "forged"));
        assertEquals(0, lastSequenceNumber(hub));
    }
}
