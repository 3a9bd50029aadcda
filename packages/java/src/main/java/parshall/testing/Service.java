package parshall.testing;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;

/**
 * Event Hubs, Service Bus, Kafka and blob storage for tests: {@code parshall serve} as a child process on free ports.
 *
 * <pre>{@code
 * try (Service service = Service.options().hub("orders", 4).queue("jobs").start()) {
 *     new EventHubClientBuilder().connectionString(service.eventHubsConnectionString(), "orders");
 * }
 * }</pre>
 *
 * <p>Its standard input is a pipe that is never written to. The system closes it when this process ends, however it does, and the
 * service stops when it is closed ({@code --stop-on-stdin-close}), so no process is left behind.
 */
public final class Service implements AutoCloseable {
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(10);

    private final Process process;
    private final Log log;
    private final Path directory;
    private final Map<?, ?> announcement;

    /** What a service consists of. */
    public static Options options() {
        return new Options();
    }

    /** Starts it, and waits until clients can connect. {@code directory} is removed at its end, if there is any. */
    Service(List<String> command, Duration timeout, Path directory) {
        this.directory = directory;
        try {
            process = new ProcessBuilder(command).start();
        } catch (IOException error) {
            remove(directory);
            throw new IllegalStateException("the program " + command.get(0) + " can't be started", error);
        }
        log = new Log(process.getErrorStream());
        boolean isReady = false;
        try {
            announcement = (Map<?, ?>) Json.read(announced(timeout));
            isReady = true;
        } finally {
            if (!isReady) {
                process.destroyForcibly();
                close();
            }
        }
    }

    /** For hubs, queues and topics, over plain TCP. */
    public String connectionString() {
        return text("connection_string").orElseThrow();
    }

    /** The same, for the clients of Event Hubs. */
    public String eventHubsConnectionString() {
        return connectionString();
    }

    /** The same, for the clients of Service Bus. */
    public String serviceBusConnectionString() {
        return connectionString();
    }

    /** The same over TLS. Fails without {@link Options#tls}. */
    public String tlsConnectionString() {
        return text("tls_connection_string").orElseThrow(() -> notServed("tls"));
    }

    /** For blobs. Fails without {@link Options#containers}. */
    public String storageConnectionString() {
        return text("storage_connection_string").orElseThrow(() -> notServed("containers"));
    }

    /** The same over TLS. Fails without {@link Options#containers} and {@link Options#tls}. */
    public String storageTlsConnectionString() {
        return text("storage_tls_connection_string").orElseThrow(() -> notServed("containers and tls"));
    }

    /** {@code HOST:PORT} for clients of Kafka. Fails without {@link Options#kafka}. */
    public String kafkaBootstrapServers() {
        return kafka(false).orElseThrow(() -> notServed("kafka"));
    }

    /** The same for TLS. Fails without {@link Options#kafka} and {@link Options#tls}. */
    public String kafkaTlsBootstrapServers() {
        return kafka(true).orElseThrow(() -> notServed("kafka and tls"));
    }

    /** What a client of Kafka needs to connect. Fails without {@link Options#kafka}. */
    public Map<String, Object> kafkaProperties() {
        return Map.of(
            "bootstrap.servers", kafkaBootstrapServers(),
            "security.protocol", "SASL_PLAINTEXT",
            "sasl.mechanism", "PLAIN",
            "sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required "
                + "username=\"$ConnectionString\" password=\"" + connectionString() + "\";");
    }

    /** The file (PEM) that clients have to trust. Fails without {@link Options#tls}. */
    public Path certificateAuthority() {
        return Path.of(text("certificate_authority").orElseThrow(() -> notServed("tls")));
    }

    /** The number of the service's process. */
    public long processId() {
        return process.pid();
    }

    /** The end of what the service has logged until now. */
    public String log() {
        return log.text();
    }

    /** Stops the service and waits for its end. A second call does nothing. */
    @Override
    public void close() {
        try {
            process.getOutputStream().close();
        } catch (IOException error) {
            // It has ended already.
        }
        try {
            if (!process.waitFor(STOP_PATIENCE.toMillis(), TimeUnit.MILLISECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        remove(directory);
    }

    private String announced(Duration timeout) {
        CompletableFuture<String> line = CompletableFuture.supplyAsync(this::firstLine);
        try {
            String announced = line.get(timeout.toMillis(), TimeUnit.MILLISECONDS);
            if (announced == null) {
                int status = process.waitFor();
                throw new IllegalStateException(
                    "parshall serve ended with status " + status + " before it was ready:\n" + log.textAtEnd());
            }
            return announced;
        } catch (TimeoutException error) {
            throw new IllegalStateException("parshall serve was not ready within " + timeout + ". Its log:\n" + log.text(), error);
        } catch (ExecutionException error) {
            throw new IllegalStateException("what parshall serve announces can't be read", error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while parshall serve started", error);
        }
    }

    private String firstLine() {
        try {
            return new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8)).readLine();
        } catch (IOException error) {
            return null;
        }
    }

    private Optional<String> text(String key) {
        return Optional.ofNullable((String) announcement.get(key));
    }

    private Optional<String> kafka(boolean tls) {
        return ((List<?>) announcement.get("listeners")).stream()
            .map(listener -> (Map<?, ?>) listener)
            .filter(listener -> "kafka".equals(listener.get("protocol")) && listener.get("tls").equals(tls))
            .map(listener -> (String) listener.get("address"))
            .findFirst();
    }

    private static IllegalStateException notServed(String option) {
        return new IllegalStateException("not served: the service was started without the option " + option);
    }

    private static void remove(Path directory) {
        if (directory == null || !Files.exists(directory)) {
            return;
        }
        try (Stream<Path> files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
        } catch (IOException error) {
            // It is in the folder for temporary files.
        }
    }
}
