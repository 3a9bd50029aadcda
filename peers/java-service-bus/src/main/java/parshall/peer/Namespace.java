package parshall.peer;

import com.azure.core.amqp.AmqpRetryMode;
import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import java.time.Duration;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * How a namespace is reached, from its connection string.
 *
 * <p>The SDK drops a port in a connection string unless it is that of the development emulator, and takes a port of its
 * own only together with a custom endpoint. So that any port can be served, it is moved from the one to the other.
 *
 * @param connectionString the connection string, without a port where TLS is spoken
 * @param endpoint the address to dial where it is not the one that goes without saying
 */
record Namespace(String connectionString, Optional<String> endpoint) {

    static Namespace of(String connectionString) {
        Matcher matcher = ENDPOINT_WITH_PORT.matcher(connectionString);
        if (EMULATOR.matcher(connectionString).find() || !matcher.find()) {
            return new Namespace(connectionString, Optional.empty());
        }
        String withoutPort = connectionString.substring(0, matcher.start("port"))
                + connectionString.substring(matcher.end("port"));
        return new Namespace(withoutPort, Optional.of("https://" + matcher.group("host") + matcher.group("port")));
    }

    /** The beginning of a client with a connection of its own. */
    ServiceBusClientBuilder connection() {
        var builder = new ServiceBusClientBuilder().connectionString(connectionString).retryOptions(retries());
        endpoint.ifPresent(builder::customEndpointAddress);
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

    private static final Pattern ENDPOINT_WITH_PORT =
            Pattern.compile("endpoint=[a-z]+://(?<host>[^/:;]+)(?<port>:[0-9]+)", Pattern.CASE_INSENSITIVE);

    private static final Pattern EMULATOR =
            Pattern.compile("UseDevelopmentEmulator=true", Pattern.CASE_INSENSITIVE);
}
