package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.Events.bodies;
import static parshall.compat.Events.numbers;
import static parshall.compat.Events.receive;

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import reactor.core.Exceptions;

/** A service with a profile: the client takes its quota for that of the real service, and waits. */
class ServiceProfileTest {
    @RegisterExtension
    static final SharedService shared = new SharedService("""
        profile:
          round_trip: 2 ms
          connection_setup: 20 ms
          quota: {ingress_events_per_s: 20}
        """);

    private static List<EventData> events(List<String> bodies) {
        return bodies.stream().map(EventData::new).toList();
    }

    @Test
    void a_producer_that_is_too_fast_is_told_to_wait_waits_and_gets_everything_through() {
        String hub = shared.unusedHub();
        SendOptions partition = new SendOptions().setPartitionId("0");
        List<String> expected = numbers(40);
        // Until the service has refused something: it does once its second is used up.
        try (EventHubProducerClient producer = shared.clientOf(hub).buildProducerClient()) {
            Throwable refused = null;
            while (refused == null) {
                try {
                    producer.send(events(numbers(10)), new SendOptions().setPartitionId("1"));
                } catch (RuntimeException error) {
                    refused = Exceptions.unwrap(error);
                }
            }
            Failures.assertIs(AmqpErrorCondition.SERVER_BUSY_ERROR, true, "Error code : 50002", refused);
        }
        AmqpRetryOptions patient = new AmqpRetryOptions().setMaxRetries(5).setDelay(Duration.ofMillis(10));
        try (EventHubProducerClient producer = shared.clientOf(hub).retryOptions(patient).buildProducerClient()) {
            for (int start = 0; start < expected.size(); start += 20) {
                producer.send(events(expected.subList(start, start + 20)), partition);
            }
            assertEquals(39, producer.getPartitionProperties("0").getLastEnqueuedSequenceNumber());
        }
        assertEquals(expected, bodies(receive(shared.clientOf(hub), "0", expected.size())));
    }
}
