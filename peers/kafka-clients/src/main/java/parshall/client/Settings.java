package parshall.client;

import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;

/** What the role tells in the environment. Properties have the names of librdkafka, of which some are others here. */
record Settings(String half, String topic, int partitions, long epochNs, Properties properties) {
    private static final Map<String, String> NAMES = Map.of(
        "fetch.wait.max.ms", "fetch.max.wait.ms",
        "sasl.mechanisms", "sasl.mechanism",
        "message.max.bytes", "max.request.size",
        "metadata.broker.list", "bootstrap.servers");

    static Settings ofEnvironment() {
        Properties properties = new Properties();
        for (String line : variable("PARSHALL_PROPERTIES").split("\n")) {
            int end = line.indexOf('=');
            if (end > 0) {
                properties.setProperty(line.substring(0, end), line.substring(end + 1));
            }
        }
        return new Settings(
            variable("PARSHALL_CLIENT"),
            variable("PARSHALL_TOPIC"),
            Integer.parseInt(variable("PARSHALL_PARTITIONS")),
            Long.parseLong(variable("PARSHALL_EPOCH_NS")),
            properties);
    }

    /** The same properties as this client calls them, all of which have to be among `known`. */
    Properties ownProperties(Set<String> known) {
        Properties own = new Properties();
        Object user = properties.remove("sasl.username");
        Object password = properties.remove("sasl.password");
        if (user != null && password != null) {
            own.setProperty("sasl.jaas.config",
                "org.apache.kafka.common.security.plain.PlainLoginModule required username=" + quoted(user)
                    + " password=" + quoted(password) + ";");
        }
        Object authority = properties.remove("ssl.ca.location");
        if (authority != null) {
            own.setProperty("ssl.truststore.type", "PEM");
            own.setProperty("ssl.truststore.location", authority.toString());
        }
        // This client always disables it.
        Object nagle = properties.remove("socket.nagle.disable");
        if (nagle != null && !nagle.equals("true")) {
            throw new IllegalArgumentException("kafka-clients can't leave Nagle's algorithm on");
        }
        for (String name : properties.stringPropertyNames()) {
            String ours = NAMES.getOrDefault(name, name);
            if (!known.contains(ours)) {
                throw new IllegalArgumentException("kafka-clients does not know the property " + name);
            }
            String value = properties.getProperty(name);
            own.setProperty(ours, name.equals("security.protocol") ? value.toUpperCase() : value);
        }
        return own;
    }

    /** For how long records wait for others, where the program is a producer that is called. */
    Optional<String> linger() {
        String connections = System.getenv("PARSHALL_CONNECTIONS");
        if (connections == null) {
            return Optional.empty();
        }
        if (!connections.equals("single")) {
            throw new IllegalArgumentException("kafka-clients is measured with one producer: write `connections: single`");
        }
        return Optional.of(System.getenv().getOrDefault("PARSHALL_DELAY_MS", "0"));
    }

    /** Microseconds of the run. */
    long now() {
        return (System.nanoTime() - epochNs) / 1000;
    }

    private static String quoted(Object text) {
        return '"' + text.toString().replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    private static String variable(String name) {
        String value = System.getenv(name);
        if (value == null) {
            throw new IllegalArgumentException(name + " is not set: this program is started by `parshall run`");
        }
        return value;
    }
}
