package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static parshall.compat.Events.send;

import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.eventhubs.EventHubConsumerAsyncClient;
import com.azure.messaging.eventhubs.EventHubConsumerClient;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.ReceiveOptions;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.NullSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Owner levels: who takes a partition over from whom. And how many may read one without. */
class OwnerLevelTest {
    @RegisterExtension
    static final SharedService shared = new SharedService();

    private static Following follow(EventHubConsumerAsyncClient consumer, Long ownerLevel) {
        ReceiveOptions options = new ReceiveOptions().setOwnerLevel(ownerLevel);
        return new Following(consumer.receiveFromPartition("0", EventPosition.earliest(), options));
    }

    @ParameterizedTest
    @CsvSource({"0, 0", "1, 5", ", 0"})
    void a_consumer_of_no_lower_level_takes_the_partition_over(Long earlier, Long later) throws Exception {
        String hub = shared.unusedHub();
        send(shared.clientOf(hub), "0", "first");
        try (EventHubConsumerAsyncClient one = shared.clientOf(hub).buildAsyncConsumerClient();
            EventHubConsumerAsyncClient other = shared.clientOf(hub).buildAsyncConsumerClient();
            Following displaced = follow(one, earlier)) {
            assertEquals("first", displaced.next());
            try (Following successor = follow(other, later)) {
                assertEquals("first", successor.next());
                Failures.assertIs(AmqpErrorCondition.LINK_STOLEN, false, "with higher epoch of", displaced.error());
                send(shared.clientOf(hub), "0", "second");
                assertEquals("second", successor.next());
            }
        }
    }

    @ParameterizedTest
    @NullSource
    @ValueSource(longs = 3)
    void a_consumer_of_a_lower_level_or_none_is_refused(Long level) throws Exception {
        String hub = shared.unusedHub();
        send(shared.clientOf(hub), "0", "first");
        try (EventHubConsumerAsyncClient one = shared.clientOf(hub).buildAsyncConsumerClient();
            EventHubConsumerAsyncClient other = shared.clientOf(hub).buildAsyncConsumerClient();
            Following holder = follow(one, 4L)) {
            assertEquals("first", holder.next());
            try (Following refused = follow(other, level)) {
                String text = level == null ? "non-epoch receiver is not allowed" : "higher epoch '4' already exists";
                Failures.assertIs(AmqpErrorCondition.LINK_STOLEN, false, text, refused.error());
            }
            send(shared.clientOf(hub), "0", "second");
            assertEquals("second", holder.next());
        }
    }

    @Test
    void the_waiting_client_is_refused_as_well() throws Exception {
        String hub = shared.unusedHub();
        send(shared.clientOf(hub), "0", "first");
        try (EventHubConsumerAsyncClient one = shared.clientOf(hub).buildAsyncConsumerClient();
            EventHubConsumerClient other = shared.clientOf(hub).buildConsumerClient();
            Following holder = follow(one, 4L)) {
            assertEquals("first", holder.next());
            Failures.assertFails(AmqpErrorCondition.LINK_STOLEN, false, "non-epoch receiver is not allowed",
                () -> other.receiveFromPartition("0", 1, EventPosition.earliest(), Events.DEADLINE).stream().count());
        }
    }

    @Test
    void the_sixth_consumer_without_a_level_is_refused_for_good() throws Exception {
        String hub = shared.unusedHub();
        send(shared.clientOf(hub), "0", "first");
        List<EventHubConsumerAsyncClient> consumers = new ArrayList<>();
        List<Following> five = new ArrayList<>();
        for (int number = 0; number < 6; number++) {
            consumers.add(shared.clientOf(hub).buildAsyncConsumerClient());
        }
        for (EventHubConsumerAsyncClient consumer : consumers.subList(0, 5)) {
            Following following = follow(consumer, null);
            assertEquals("first", following.next());
            five.add(following);
        }
        try (Following sixth = follow(consumers.get(5), null)) {
            Failures.assertIs(AmqpErrorCondition.RESOURCE_LIMIT_EXCEEDED, false,
                "Exceeded the maximum number of allowed receivers per partition in a consumer group which is 5",
                sixth.error());
        }
        five.forEach(Following::close);
        consumers.forEach(EventHubConsumerAsyncClient::close);
    }
}
