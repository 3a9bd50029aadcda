package parshall.peer;

import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;

/**
 * What the environment says is to be done. The names are those of docs/external-systems.md.
 *
 * @param source what to receive from
 * @param destination what to send to
 * @param authority the certificate authority to trust (PEM); empty where that of the system will do
 * @param concurrency how many messages are handled at once
 * @param prefetch the messages to fetch ahead of that
 * @param failureRatio the probability that a send fails on purpose
 */
record Settings(
        Queue source,
        Queue destination,
        Optional<Path> authority,
        int concurrency,
        int prefetch,
        double failureRatio) {

    /** A queue and the connection string of its namespace. */
    record Queue(String connectionString, String name) {}

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
                new Queue(reader.text("PARSHALL_SOURCE_CONNECTION_STRING"), reader.text("PARSHALL_SOURCE_QUEUE")),
                new Queue(
                        reader.text("PARSHALL_DESTINATION_CONNECTION_STRING"),
                        reader.text("PARSHALL_DESTINATION_QUEUE")),
                reader.optional("PARSHALL_TLS_CA_FILE").map(Path::of),
                reader.whole("PARSHALL_CONCURRENCY", "1", 1),
                reader.whole("PARSHALL_PREFETCH", "0", 0),
                reader.ratio("PARSHALL_FAILURE_RATIO", "0"));
    }

    private record Reader(Map<String, String> environment) {
        Optional<String> optional(String name) {
            return Optional.ofNullable(environment.get(name)).filter(text -> !text.isEmpty());
        }

        String text(String name) throws SettingsException {
            return optional(name).orElseThrow(() -> new SettingsException(name + " is not set"));
        }

        int whole(String name, String otherwise, int least) throws SettingsException {
            String text = optional(name).orElse(otherwise);
            try {
                int number = Integer.parseInt(text);
                if (number >= least) {
                    return number;
                }
            } catch (NumberFormatException e) {
                // told below
            }
            throw new SettingsException(name + " is no whole number of " + least + " or more: " + text);
        }

        double ratio(String name, String otherwise) throws SettingsException {
            String text = optional(name).orElse(otherwise);
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
}
