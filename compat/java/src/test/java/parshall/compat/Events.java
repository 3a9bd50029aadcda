package parshall.compat;

import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventHubConsumerAsyncClient;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.PartitionEvent;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.time.Duration;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** Sending and receiving in a line, with a deadline. */
final class Events {
    /** How long anything may take that takes no time at all. */
    static final Duration DEADLINE = Duration.ofSeconds(30);

    private Events() {
    }

    /** Sends events with these bodies, as one batch. */
    static void send(EventHubClientBuilder builder, String partition, String... bodies) {
        try (EventHubProducerClient producer = builder.buildProducerClient()) {
            List<EventData> events = Stream.of(bodies).map(EventData::new).toList();
            producer.send(events, new SendOptions().setPartitionId(partition));
        }
    }

    /** The first events of a partition from a position on, by the asynchronous client. */
    static List<EventData> receive(EventHubClientBuilder builder, String partition, int count, EventPosition from) {
        try (EventHubConsumerAsyncClient consumer = builder.buildAsyncConsumerClient()) {
            return consumer.receiveFromPartition(partition, from)
                .map(PartitionEvent::getData)
                .take(count)
                .collectList()
                .block(DEADLINE);
        }
    }

    static List<EventData> receive(EventHubClientBuilder builder, String partition, int count) {
        return receive(builder, partition, count, EventPosition.earliest());
    }

    static List<String> bodies(List<EventData> events) {
        return events.stream().map(EventData::getBodyAsString).toList();
    }

    /** From 0 to below {@code end}, as texts. */
    static List<String> numbers(int end) {
        return IntStream.range(0, end).mapToObj(String::valueOf).toList();
    }
}
