package parshall.compat;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** {@code parshall serve} as a child process on free ports, and the ways to connect to it. */
final class Service implements AutoCloseable {
    static final int PARTITIONS = 4;
    static final String CONSUMER_GROUP = "billing";

    private final Path directory;
    private final boolean withBlobs;
    private final String settings;
    private final List<String> arguments;
    private Process process;
    private final Map<String, String> told = new HashMap<>();
    private final Map<String, String> variables = new HashMap<>();
    private final List<String> connectionStrings = new ArrayList<>();
    private String storageConnectionString;

    /**
     * A service that is not started yet.
     *
     * @param directory where its files and its log go.
     * @param hubs how many hubs it has, {@code hub-0} and so on.
     * @param withBlobs whether it is a storage account as well.
     * @param settings what its configuration says besides; YAML.
     * @param arguments of the command line, besides those that every service has.
     */
    Service(Path directory, int hubs, boolean withBlobs, String settings, String... arguments) {
        this.directory = directory;
        this.withBlobs = withBlobs;
        this.settings = namespace(hubs) + settings;
        this.arguments = List.of(arguments);
    }

    /** Starts it; once it was started before, where it was then. */
    void start() throws IOException {
        Path config = Files.writeString(directory.resolve("namespace.yaml"), settings);
        List<String> command = new ArrayList<>(List.of(binary(), "serve", "--config", config.toString()));
        command.addAll(List.of("--amqp", told.getOrDefault("AMQP", "127.0.0.1:0"), "--http", "127.0.0.1:0"));
        if (withBlobs) {
            command.addAll(List.of("--blob", told.getOrDefault("Blobs", "http://127.0.0.1:0").substring("http://".length())));
        }
        command.addAll(arguments);
        int kafka = command.indexOf("--kafka");
        if (kafka >= 0) {
            command.set(kafka + 1, told.getOrDefault("Kafka", command.get(kafka + 1)));
        }
        ProcessBuilder.Redirect log = ProcessBuilder.Redirect.appendTo(directory.resolve("service.log").toFile());
        process = new ProcessBuilder(command).redirectError(log).start();
        told.clear();
        variables.clear();
        connectionStrings.clear();
        BufferedReader lines = process.inputReader();
        for (String line = lines.readLine(); !"Ready.".equals(line); line = lines.readLine()) {
            if (line == null) {
                throw new IOException("it did not start: " + Files.readString(directory.resolve("service.log")));
            } else if (line.contains("BlobEndpoint=")) {
                storageConnectionString = line.strip();
            } else if (line.contains("Endpoint=")) {
                connectionStrings.add(line.substring(line.lastIndexOf(' ') + 1));
            } else if (line.matches("  [A-Z_]+=.*")) {
                int end = line.indexOf('=');
                variables.put(line.substring(2, end), line.substring(end + 1));
            } else if (line.length() > LABEL_WIDTH) {
                told.put(line.substring(0, LABEL_WIDTH).strip(), line.substring(LABEL_WIDTH).strip());
            }
        }
    }

    /** Asks it to end, which it must do in good order. */
    void stop() throws InterruptedException {
        process.destroy();
        if (!process.waitFor(10, TimeUnit.SECONDS)) {
            process.destroyForcibly();
            throw new IllegalStateException("it does not end");
        }
        if (process.exitValue() != 0) {
            throw new IllegalStateException("it ended with " + process.exitValue());
        }
    }

    /** Ends it as a crash does. */
    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    /** Ends it if it still runs, for the end of a test however that came. */
    @Override
    public void close() {
        if (isRunning()) {
            process.destroyForcibly();
        }
    }

    boolean isRunning() {
        return process != null && process.isAlive();
    }

    /** For clients that know {@code UseDevelopmentEmulator}, that is plain TCP. */
    String connectionString() {
        return connectionString(true);
    }

    /** For TLS, whose port clients have to be told besides. */
    String tlsConnectionString() {
        return connectionString(false);
    }

    /** For clients of blob storage, where it was told to have one. */
    String storageConnectionString() {
        return storageConnectionString;
    }

    private String connectionString(boolean plain) {
        return connectionStrings.stream()
            .filter(string -> string.endsWith("UseDevelopmentEmulator=true") == plain)
            .filter(string -> !string.contains("EntityPath"))
            .findFirst()
            .orElseThrow();
    }

    /** With a key of its own making. */
    String connectionStringWith(String keyName, String key) {
        return "Endpoint=sb://localhost:" + port("AMQP") + "/;SharedAccessKeyName=" + keyName + ";SharedAccessKey=" + key
            + ";UseDevelopmentEmulator=true";
    }

    /** With a token instead of a key. */
    String connectionStringWithToken(String token) {
        return "Endpoint=sb://localhost:" + port("AMQP") + "/;SharedAccessSignature=" + token + ";UseDevelopmentEmulator=true";
    }

    /** Runs the program against it, and waits for its end. */
    void run(String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(binary()));
        command.addAll(List.of(arguments));
        command.addAll(List.of("--connection-string", connectionString()));
        ProcessBuilder.Redirect log = ProcessBuilder.Redirect.appendTo(directory.resolve("run.log").toFile());
        int status = new ProcessBuilder(command).redirectOutput(log).redirectError(log).start().waitFor();
        if (status != 0) {
            throw new IOException(command + " ended with " + status);
        }
    }

    /** The port of what it calls {@code label} when it starts. */
    int port(String label) {
        String address = told.get(label);
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1).replaceFirst("/.*", ""));
    }

    /** What it says of {@code label} when it starts. */
    String told(String label) {
        return told.get(label);
    }

    /** The variables that it tells a program to have. */
    Map<String, String> variables() {
        return Map.copyOf(variables);
    }

    /** Advances the time of a service whose time is under control, and gives its answer. */
    String advance(String by) throws IOException, InterruptedException {
        HttpRequest.BodyPublisher body = HttpRequest.BodyPublishers.ofString(by);
        return ask(HttpRequest.newBuilder(URI.create(told.get("Time") + "/advance")).POST(body));
    }

    /** That time. */
    Instant now() throws IOException, InterruptedException {
        String shown = ask(HttpRequest.newBuilder(URI.create(told.get("Time"))));
        return Instant.parse(shown.replaceFirst("(?s).*\"now\":\"", "").replaceFirst("(?s)\".*", ""));
    }

    private static String ask(HttpRequest.Builder request) throws IOException, InterruptedException {
        HttpResponse.BodyHandler<String> text = HttpResponse.BodyHandlers.ofString();
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request.timeout(Duration.ofSeconds(20)).build(), text);
        if (answer.statusCode() != 200) {
            throw new IOException(answer.body());
        }
        return answer.body();
    }

    /** The sum of a metric over all its labels. */
    long metric(String name) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(told.get("Metrics"))).timeout(Duration.ofSeconds(20)).build();
        String metrics = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body();
        List<String> values = metrics.lines()
            .filter(line -> line.startsWith(name + " ") || line.startsWith(name + "{"))
            .map(line -> line.substring(line.lastIndexOf(' ') + 1))
            .toList();
        if (values.isEmpty()) {
            throw new IOException("there is no metric " + name);
        }
        return values.stream().mapToLong(value -> (long) Double.parseDouble(value)).sum();
    }

    /** An empty folder beside the compiled tests, which stays for whoever wants to read the service's log. */
    static Path directory(String name) throws Exception {
        Path built = Path.of(Service.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        Path services = Files.createDirectories(built.resolveSibling("services"));
        return Files.createTempDirectory(services, name + "-");
    }

    static String binary() {
        String binary = System.getenv("PARSHALL_BINARY");
        if (binary == null) {
            throw new IllegalStateException("PARSHALL_BINARY does not say which program to test; compat/java/run does");
        }
        return binary;
    }

    private static String namespace(int hubs) {
        StringBuilder yaml = new StringBuilder("authorization_rules:\n");
        yaml.append("  - {name: RootManageSharedAccessKey, key: SAS_KEY_VALUE, rights: [manage]}\n");
        yaml.append("  - {name: listener, key: listen-only-value, rights: [listen]}\n");
        yaml.append("hubs:\n");
        for (int number = 0; number < hubs; number++) {
            yaml.append("  - {name: hub-%d, partitions: %d, consumer_groups: [%s]}%n"
                .formatted(number, PARTITIONS, CONSUMER_GROUP));
        }
        return yaml.toString();
    }

    private static final int LABEL_WIDTH = 19;
}
