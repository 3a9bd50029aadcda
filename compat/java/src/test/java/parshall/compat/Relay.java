package parshall.compat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** {@code parshall relay} as a process of its own, on the checkpoints of the official clients. */
final class Relay {
    private Relay() {
    }

    static Process start(Path directory, Service service, String container, String source, String destination)
        throws IOException {
        Path pipeline = Files.writeString(directory.resolve("pipeline.yaml"), """
            source:
              event_hubs: {connection_string: "%1$s", hub: %2$s, consumer_group: %3$s}
            sink:
              event_hubs: {connection_string: "%1$s", hub: %4$s}
            checkpoint:
              store: {blob: {connection_string: "%5$s", container: %6$s}}
              write: each-batch
            start: earliest
            route: round-robin
            batch: {events: 50, wait: 10 ms}
            ownership: {mode: balanced, identity: relay, renew: %7$d s, expire: %8$d s}
            """.formatted(service.connectionString(), source, Forwarder.GROUP, destination,
                service.storageConnectionString(), container, Forwarder.RENEW.toSeconds(), Forwarder.EXPIRE.toSeconds()));
        return new ProcessBuilder(Service.binary(), "relay", pipeline.toString())
            .redirectOutput(ProcessBuilder.Redirect.appendTo(directory.resolve("relay.log").toFile()))
            .redirectErrorStream(true)
            .start();
    }

    /** What it calls itself in the store. */
    static final String IDENTITY = "relay";
}
