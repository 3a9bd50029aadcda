package parshall.peer;

import com.azure.core.amqp.AmqpRetryMode;
import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import java.time.Duration;

/**
 * A namespace, and the beginnings of its clients.
 *
 * @param reach how it is reached
 */
record Namespace(Reach reach) {

    static Namespace of(String connectionString) {
        return new Namespace(Reach.of(connectionString));
    }

    /** The beginning of a client with a connection of its own. */
    ServiceBusClientBuilder connection() {
        var builder = new ServiceBusClientBuilder().connectionString(reach.connectionString()).retryOptions(retries());
        reach.endpoint().ifPresent(builder::customEndpointAddress);
        return builder;
    }

    /** The study's. */
    private static AmqpRetryOptions retries() {
        return new AmqpRetryOptions()
                .setMode(AmqpRetryMode.EXPONENTIAL)
                .setMaxRetries(5)
                .setDelay(Duration.ofSeconds(2))
                .setMaxDelay(Duration.ofSeconds(60));
    }
}
