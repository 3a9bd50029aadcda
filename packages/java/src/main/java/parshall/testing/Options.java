package parshall.testing;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** What a service consists of. Without hubs, queues and topics it has a hub {@code events} with 4 partitions. */
public final class Options {
    private static final String ANY_PORT = "127.0.0.1:0";

    private final List<Map<String, Object>> hubs = new ArrayList<>();
    private final List<Map<String, Object>> queues = new ArrayList<>();
    private final List<Map<String, Object>> topics = new ArrayList<>();
    private List<String> containers;
    private boolean kafka;
    private boolean tls;
    private Path dataDirectory;
    private final List<String> arguments = new ArrayList<>();
    private Duration timeout = Duration.ofSeconds(30);

    Options() {
    }

    /** A hub. */
    public Options hub(String name, int partitions) {
        return hub(Map.of("name", name, "partitions", partitions));
    }

    /** A hub with the keys of a namespace file, such as {@code consumer_groups}. */
    public Options hub(Map<String, ?> hub) {
        hubs.add(new LinkedHashMap<>(hub));
        return this;
    }

    /** A queue with default options. */
    public Options queue(String name) {
        return queue(Map.of("name", name));
    }

    /** A queue with the keys of a namespace file, such as {@code requires_session}. */
    public Options queue(Map<String, ?> queue) {
        queues.add(new LinkedHashMap<>(queue));
        return this;
    }

    /** A topic, and subscriptions that receive every message. */
    public Options topic(String name, String... subscriptions) {
        List<Map<String, String>> named = Stream.of(subscriptions).map(subscription -> Map.of("name", subscription)).toList();
        return topic(Map.of("name", name, "subscriptions", named));
    }

    /** A topic with the keys of a namespace file. */
    public Options topic(Map<String, ?> topic) {
        topics.add(new LinkedHashMap<>(topic));
        return this;
    }

    /** Blobs, with these containers, which may be none. */
    public Options containers(String... names) {
        containers = List.of(names);
        return this;
    }

    /** Hubs for clients of Kafka, too. */
    public Options kafka() {
        kafka = true;
        return this;
    }

    /** Everything over TLS besides. */
    public Options tls() {
        tls = true;
        return this;
    }

    /** Where everything is kept, over restarts; otherwise it is in memory. */
    public Options dataDirectory(Path directory) {
        dataDirectory = directory;
        return this;
    }

    /** More arguments of {@code parshall serve}, which come before what is said here. */
    public Options arguments(String... more) {
        arguments.addAll(List.of(more));
        return this;
    }

    /** Until when it must be ready. Default: 30 s. */
    public Options timeout(Duration limit) {
        timeout = limit;
        return this;
    }

    /**
     * Starts a service, and waits until clients can connect to it.
     *
     * @throws IllegalStateException there is no program, or the service does not start; the message ends with its log
     */
    public Service start() {
        Path program = Program.find(System.getenv());
        Map<String, Object> namespace = namespace();
        Path directory = namespace.isEmpty() && !tls ? null : temporaryDirectory();
        List<String> given = new ArrayList<>(arguments);
        if (!namespace.isEmpty()) {
            given.addAll(List.of("--config", written(namespace, directory.resolve("namespace.json")).toString()));
        }
        List<String> command = new ArrayList<>(List.of(program.toString(), "serve", "--stop-on-stdin-close", "--format", "json"));
        command.addAll(given);
        Collection<String> names = given.stream().map(argument -> argument.split("=", 2)[0]).collect(Collectors.toSet());
        usual(directory).forEach((option, value) -> {
            if (!names.contains(option)) {
                command.addAll(List.of(option, value));
            }
        });
        return new Service(command, timeout, directory);
    }

    private Map<String, String> usual(Path directory) {
        Map<String, String> options = new LinkedHashMap<>(Map.of("--amqp", ANY_PORT, "--http", ANY_PORT));
        if (containers != null) {
            options.put("--blob", ANY_PORT);
        }
        if (kafka) {
            options.put("--kafka", ANY_PORT);
        }
        if (tls) {
            Stream.of("--blob", "--kafka").filter(options::containsKey).toList()
                .forEach(option -> options.put(option + "-tls", ANY_PORT));
            options.put("--amqps", ANY_PORT);
            options.put("--tls-directory", directory.resolve("tls").toString());
        }
        if (dataDirectory != null) {
            options.put("--data-dir", dataDirectory.toString());
        }
        return options;
    }

    /** The content of the namespace file; nothing, if nothing is named. */
    private Map<String, Object> namespace() {
        boolean isNamed = !(hubs.isEmpty() && queues.isEmpty() && topics.isEmpty());
        boolean hasContainers = containers != null && !containers.isEmpty();
        Map<String, Object> namespace = new LinkedHashMap<>();
        if (isNamed || hasContainers) {
            namespace.put("hubs", isNamed ? hubs : List.of(Map.of("name", "events", "partitions", 4)));
            namespace.put("queues", queues);
            namespace.put("topics", topics);
        }
        if (hasContainers) {
            namespace.put("blob", Map.of("containers", containers));
        }
        return namespace;
    }

    private static Path temporaryDirectory() {
        try {
            return Files.createTempDirectory("parshall-");
        } catch (IOException error) {
            throw new IllegalStateException("there is no folder for temporary files", error);
        }
    }

    private static Path written(Map<String, Object> namespace, Path file) {
        try {
            return Files.writeString(file, Json.write(namespace));
        } catch (IOException error) {
            throw new IllegalStateException("the namespace file can't be written", error);
        }
    }
}
