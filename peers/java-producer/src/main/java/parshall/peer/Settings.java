package parshall.peer;

import com.azure.messaging.eventhubs.EventHubBufferedProducerClientBuilder;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/**
 * What the role tells in the environment: docs/external-clients.md.
 *
 * @param reach how the namespace is reached
 * @param hub the hub
 * @param authority the certificate authority to trust (PEM); empty where that of the system will do
 * @param connections {@code per-event}, {@code pooled} or {@code single}
 * @param connectionsKept how many connections stay open
 * @param isBuffered whether events gather
 * @param delay for how long they do at most
 * @param epochNs when the run began
 */
record Settings(
        Reach reach,
        String hub,
        Optional<Path> authority,
        String connections,
        int connectionsKept,
        boolean isBuffered,
        Duration delay,
        long epochNs) {

    static Settings of(Map<String, String> environment) {
        if (!"amqp".equals(environment.get("PARSHALL_PROTOCOL")) || !environment.containsKey("PARSHALL_CONNECTIONS")) {
            throw new IllegalArgumentException("azure-messaging-eventhubs is a producer over AMQP: write `producer: {…}`, and no protocol");
        }
        return new Settings(
            Reach.of(text(environment, "PARSHALL_CONNECTION_STRING")),
            text(environment, "PARSHALL_TOPIC"),
            Optional.ofNullable(environment.get("PARSHALL_TLS_CA_FILE")).map(Path::of),
            text(environment, "PARSHALL_CONNECTIONS"),
            Integer.parseInt(environment.getOrDefault("PARSHALL_POOL", "1")),
            text(environment, "PARSHALL_BUFFERING").equals("safe"),
            Duration.ofMillis(Long.parseLong(environment.getOrDefault("PARSHALL_DELAY_MS", SHORTEST_DELAY_MS))),
            Long.parseLong(text(environment, "PARSHALL_EPOCH_NS")));
    }

    Way way(Answers answers) {
        if (isBuffered) {
            return new Buffered(this, answers);
        }
        return connections.equals("per-event") ? new Isolated(this, answers) : new Kept(this, answers);
    }

    EventHubClientBuilder client() {
        var builder = new EventHubClientBuilder().connectionString(reach.connectionString(), hub);
        reach.endpoint().ifPresent(builder::customEndpointAddress);
        return builder;
    }

    EventHubBufferedProducerClientBuilder bufferedClient() {
        var builder = new EventHubBufferedProducerClientBuilder().connectionString(reach.connectionString(), hub);
        reach.endpoint().ifPresent(builder::customEndpointAddress);
        return builder;
    }

    /** Microseconds of the run. */
    long now() {
        return (System.nanoTime() - epochNs) / 1000;
    }

    private static String text(Map<String, String> environment, String name) {
        String value = environment.get(name);
        if (value == null) {
            throw new IllegalArgumentException(name + " is not set: this program is started by `parshall run`");
        }
        return value;
    }

    /** It can't do without a timer. */
    private static final String SHORTEST_DELAY_MS = "1";
}
