package parshall.peer;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/**
 * What the environment says is to be done. The names are those of docs/external-systems.md; what begins with PEER_ is
 * this program's own.
 *
 * @param source what to receive from
 * @param sourcePartitions how many partitions that has
 * @param consumerGroup the consumer group to receive through
 * @param destination what to send to
 * @param fanOut the partitions of the destination over which each batch is spread
 * @param authority the certificate authority to trust (PEM); empty where that of the system will do
 * @param checkpoints where checkpoints are kept; empty for memory
 * @param instances how many processors share the partitions
 * @param batch the events of a full batch
 * @param maxWait how long a batch waits to be full
 * @param prefetch the events to fetch ahead per partition
 * @param batchesAtOnce how many batches may be on their way at once, over all partitions
 * @param failureRatio the probability that a send fails on purpose
 * @param expiration after how long without renewal a partition is anyone's
 * @param seed what the choice of partitions begins with
 */
record Settings(
        Hub source,
        int sourcePartitions,
        String consumerGroup,
        Hub destination,
        int fanOut,
        Optional<Path> authority,
        Optional<Container> checkpoints,
        int instances,
        int batch,
        Duration maxWait,
        int prefetch,
        int batchesAtOnce,
        double failureRatio,
        Duration expiration,
        long seed) {

    /** A hub and the connection string of its namespace. */
    record Hub(String connectionString, String name) {}

    /** A blob container and the connection string of its account. */
    record Container(String connectionString, String name) {}

    /** The environment can't be followed; the message is for whoever set it. */
    static final class SettingsException extends Exception {
        private static final long serialVersionUID = 1L;

        private SettingsException(String message) {
            super(message);
        }
    }

    static Settings of(Map<String, String> environment) throws SettingsException {
        var reader = new Reader(environment);
        // A partition that failed rests until it has no owner any more.
        long rest = Math.max(reader.whole("PARSHALL_RESTART_AFTER_MS", "0"), SHORTEST_EXPIRATION.toMillis());
        return new Settings(
                new Hub(reader.text("PARSHALL_SOURCE_CONNECTION_STRING"), reader.text("PARSHALL_SOURCE_HUB")),
                (int) reader.positive("PARSHALL_SOURCE_PARTITIONS", null),
                reader.text("PARSHALL_CONSUMER_GROUP", "$Default"),
                new Hub(reader.text("PARSHALL_DESTINATION_CONNECTION_STRING"), reader.text("PARSHALL_DESTINATION_HUB")),
                (int) reader.positive("PARSHALL_FAN_OUT", null),
                reader.optional("PARSHALL_TLS_CA_FILE").map(Path::of),
                reader.optional("PARSHALL_CHECKPOINT_CONNECTION_STRING")
                        .map(string -> new Container(string, reader.text("PARSHALL_CHECKPOINT_CONTAINER", "checkpoints"))),
                (int) reader.positive("PARSHALL_INSTANCES", "2"),
                (int) reader.positive("PARSHALL_BATCH", "128"),
                Duration.ofMillis(reader.positive("PARSHALL_MAX_WAIT_MS", "10")),
                (int) reader.positive("PARSHALL_PREFETCH", "1"),
                (int) reader.positive("PEER_BATCHES_AT_ONCE", Integer.toString(Integer.MAX_VALUE)),
                reader.ratio("PARSHALL_FAILURE_RATIO", "0"),
                Duration.ofMillis(reader.positive("PEER_OWNERSHIP_EXPIRATION_MS", Long.toString(rest))),
                reader.whole("PARSHALL_SEED", "1"));
    }

    /** How often ownership is renewed and shared anew: often enough to miss a few times. */
    Duration balancingInterval() {
        return expiration.dividedBy(4);
    }

    private record Reader(Map<String, String> environment) {
        Optional<String> optional(String name) {
            return Optional.ofNullable(environment.get(name)).filter(text -> !text.isEmpty());
        }

        String text(String name) throws SettingsException {
            return optional(name).orElseThrow(() -> new SettingsException(name + " is not set"));
        }

        String text(String name, String otherwise) {
            return optional(name).orElse(otherwise);
        }

        long whole(String name, String otherwise) throws SettingsException {
            String text = otherwise == null ? text(name) : text(name, otherwise);
            try {
                return Long.parseLong(text);
            } catch (NumberFormatException e) {
                throw new SettingsException(name + " is no whole number: " + text);
            }
        }

        long positive(String name, String otherwise) throws SettingsException {
            long number = whole(name, otherwise);
            if (number < 1 || number > Integer.MAX_VALUE) {
                throw new SettingsException(name + " is not within 1 and " + Integer.MAX_VALUE + ": " + number);
            }
            return number;
        }

        double ratio(String name, String otherwise) throws SettingsException {
            String text = text(name, otherwise);
            try {
                double ratio = Double.parseDouble(text);
                if (ratio >= 0 && ratio <= 1) {
                    return ratio;
                }
            } catch (NumberFormatException e) {
                // told below
            }
            throw new SettingsException(name + " is no number within 0 and 1: " + text);
        }
    }

    /** Much less, and a pause of the garbage collector costs a partition its owner. */
    private static final Duration SHORTEST_EXPIRATION = Duration.ofSeconds(10);
}
