package parshall.peer;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/**
 * What the environment says is to be done. The names are those of docs/external-systems.md.
 *
 * @param source what to receive from
 * @param consumerGroup the consumer group to receive through
 * @param topic what to send to
 * @param archive where each event is stored as a blob
 * @param checkpoints where checkpoints are kept
 * @param authority the certificate authority to trust (PEM); empty where that of the system will do
 * @param batch the events of a full batch
 * @param maxWait how long a batch waits to be full
 * @param prefetch the events to fetch ahead
 * @param eventsAtOnce how many events of a batch are worked on at once
 * @param bothAtOnce whether an event goes to the archive while it goes to the topic, and not after that
 */
record Settings(
        Entity source,
        String consumerGroup,
        Entity topic,
        Entity archive,
        Entity checkpoints,
        Optional<Path> authority,
        int batch,
        Duration maxWait,
        int prefetch,
        int eventsAtOnce,
        boolean bothAtOnce) {

    /** A hub, topic or container, and the connection string of its namespace or account. */
    record Entity(String connectionString, String name) {}

    /** The environment can't be followed; the message is for whoever set it. */
    static final class SettingsException extends Exception {
        private static final long serialVersionUID = 1L;

        private SettingsException(String message) {
            super(message);
        }
    }

    static Settings of(Map<String, String> environment) throws SettingsException {
        var reader = new Reader(environment);
        return new Settings(
                reader.entity("PARSHALL_SOURCE", "HUB"),
                reader.optional("PARSHALL_CONSUMER_GROUP").orElse("$Default"),
                reader.entity("PARSHALL_DESTINATION", "TOPIC"),
                reader.entity("PARSHALL_ARCHIVE", "CONTAINER"),
                reader.entity("PARSHALL_CHECKPOINT", "CONTAINER"),
                reader.optional("PARSHALL_TLS_CA_FILE").map(Path::of),
                reader.positive("PARSHALL_BATCH"),
                Duration.ofMillis(reader.positive("PARSHALL_MAX_WAIT_MS")),
                reader.positive("PARSHALL_PREFETCH"),
                reader.positive("PARSHALL_EVENTS_AT_ONCE"),
                reader.positive("PARSHALL_DESTINATIONS_AT_ONCE") > 1);
    }

    private record Reader(Map<String, String> environment) {
        Optional<String> optional(String name) {
            return Optional.ofNullable(environment.get(name)).filter(text -> !text.isEmpty());
        }

        String text(String name) throws SettingsException {
            return optional(name).orElseThrow(() -> new SettingsException(name + " is not set"));
        }

        Entity entity(String prefix, String kind) throws SettingsException {
            return new Entity(text(prefix + "_CONNECTION_STRING"), text(prefix + "_" + kind));
        }

        /** One beyond the range is as many as there can be. */
        int positive(String name) throws SettingsException {
            String text = text(name);
            try {
                long number = Long.parseLong(text);
                if (number > 0) {
                    return (int) Math.min(number, Integer.MAX_VALUE);
                }
            } catch (NumberFormatException e) {
                // told below
            }
            throw new SettingsException(name + " is no whole number above 0: " + text);
        }
    }
}
