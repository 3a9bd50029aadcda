package parshall.peer;

import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventProcessorClientBuilder;

/**
 * A namespace, and the beginnings of its clients.
 *
 * @param reach how it is reached
 */
record Namespace(Reach reach) {

    static Namespace of(String connectionString) {
        return new Namespace(Reach.of(connectionString));
    }

    EventHubClientBuilder client(String hub) {
        var builder = new EventHubClientBuilder().connectionString(reach.connectionString(), hub);
        reach.endpoint().ifPresent(builder::customEndpointAddress);
        return builder;
    }

    EventProcessorClientBuilder processor(String hub) {
        var builder = new EventProcessorClientBuilder().connectionString(reach.connectionString(), hub);
        reach.endpoint().ifPresent(builder::customEndpointAddress);
        return builder;
    }
}
