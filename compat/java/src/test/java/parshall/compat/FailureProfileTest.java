package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static parshall.compat.Events.numbers;

import com.azure.core.amqp.AmqpRetryMode;
import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubConsumerAsyncClient;
import com.azure.messaging.eventhubs.EventHubProducerAsyncClient;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import reactor.core.publisher.Flux;

/** A service that fails at random: sends, acknowledgements, links. The client tries again, and nothing is lost. */
class FailureProfileTest {
    @RegisterExtension
    static final SharedService shared = new SharedService("""
        profile:
          failures: {send_ratio: 0.05, acknowledgement_ratio: 0.05, receiver_detach_per_s: 5}
          seed: 7
        """);

    @Test
    void what_fails_for_now_is_tried_again_until_it_arrives() throws Exception {
        String hub = shared.unusedHub();
        AmqpRetryOptions persistent = new AmqpRetryOptions().setMaxRetries(8).setMode(AmqpRetryMode.FIXED)
            .setDelay(Duration.ofMillis(10));
        List<String> bodies = numbers(200);
        try (EventHubProducerAsyncClient producer =
            shared.clientOf(hub).retryOptions(persistent).buildAsyncProducerClient()) {
            SendOptions partition = new SendOptions().setPartitionId("0");
            Flux.fromIterable(bodies)
                .flatMap(body -> producer.send(List.of(new EventData(body)), partition), 50)
                .then()
                .block(Events.DEADLINE);
        }
        Set<String> missing = new TreeSet<>(bodies);
        try (EventHubConsumerAsyncClient consumer =
            shared.clientOf(hub).retryOptions(persistent).prefetchCount(10).buildAsyncConsumerClient();
            Following following = Following.persistently(consumer, "0")) {
            while (!missing.isEmpty()) {
                missing.remove(following.next());
            }
        }
        assertEquals(Set.of(), missing);
    }

    @Test
    void a_receiver_whose_link_is_cut_is_told_that_it_may_come_back() throws Exception {
        try (EventHubConsumerAsyncClient consumer = shared.clientOf(shared.unusedHub()).buildAsyncConsumerClient();
            Following following = new Following(consumer.receiveFromPartition("0", EventPosition.earliest()))) {
            Failures.assertIs(AmqpErrorCondition.LINK_DETACH_FORCED, true, "", following.error());
        }
    }
}
