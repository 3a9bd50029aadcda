package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.json.JsonProviders;
import com.azure.json.JsonReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** kafka-clients as the client of load and sink in a run of the lab: {@code peers/kafka-clients}, with this version. */
class KafkaLabClientTest {
    @TempDir
    Path directory;

    @Test
    void what_it_sends_and_receives_is_what_the_load_sent() throws Exception {
        Path java = Path.of(System.getProperty("java.home"), "bin", "java");
        Files.writeString(directory.resolve("clients.yaml"), """
            scenario: clients
            clients: {kafka-clients: {command: ["%s", -XX:TieredStopAtLevel=1, -cp, "%s", parshall.client.Main]}}
            topology:
              entities: {in: {hub: events, partitions: 2}}
              load: {to: in, protocol: kafka, client: kafka-clients, properties: {linger.ms: 0, acks: 1}}
              sink: {from: in, protocol: kafka, client: kafka-clients, properties: {fetch.wait.max.ms: 100}}
              measure: service
            embedded: {log_per_hub: 64 MiB}
            load: {mode: open, rate: 300/s, payload: 64 B, batch: 1, in_flight: 500}
            phases: {warm_up: 500 ms, measure: 2 s, drain: 20 s}
            trials: 1
            """.formatted(java, compiledWithItsLibraries()));
        Path output = directory.resolve("run.log");
        Process run = new ProcessBuilder(Service.binary(), "run", "./clients.yaml", "--out", "results")
            .directory(directory.toFile())
            .redirectErrorStream(true)
            .redirectOutput(output.toFile())
            .start();
        // A machine that has other work to do makes a generator late, which shows in the status.
        int status = run.waitFor();
        assertTrue(status <= 1, () -> status + ": " + text(output));
        Map<?, ?> outcome = outcome(text(directory.resolve("results/results.json")));
        Map<?, ?> delivery = (Map<?, ?>) outcome.get("delivery");
        String findings = String.valueOf(outcome.get("findings"));
        assertTrue(count(delivery, "sent") > 600, findings);
        for (String kind : List.of("acknowledged", "received")) {
            assertEquals(count(delivery, "sent"), count(delivery, kind), findings);
        }
        for (String kind : List.of("lost", "duplicated", "reordered", "corrupted", "unexpected", "unknown")) {
            assertEquals(0, count(delivery, kind), kind);
        }
        // It says when it sent and when it had each record.
        assertTrue(count((Map<?, ?>) outcome.get("uncorrected_latency_us"), "count") > 500);
        assertTrue(!findings.contains("role-failed") && !findings.contains("counters-disagree"), findings);
    }

    /** The class path of the client, compiled against what these tests have. */
    private String compiledWithItsLibraries() throws IOException {
        Path sources = Path.of("../../peers/kafka-clients/src/main/java").toAbsolutePath().normalize();
        String libraries = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        Path classes = Files.createDirectory(directory.resolve("classes"));
        List<String> arguments = new ArrayList<>(List.of("-d", classes.toString(), "-cp", libraries));
        try (Stream<Path> files = Files.walk(sources)) {
            files.map(Path::toString).filter(file -> file.endsWith(".java")).forEach(arguments::add);
        }
        assertEquals(0, ToolProvider.getSystemJavaCompiler().run(null, null, null, arguments.toArray(String[]::new)));
        return classes + ":" + libraries;
    }

    private static Map<?, ?> outcome(String results) throws IOException {
        try (JsonReader reader = JsonProviders.createReader(results)) {
            List<?> cases = (List<?>) reader.readMap(JsonReader::readUntyped).get("cases");
            return (Map<?, ?>) cases.get(0);
        }
    }

    private static long count(Map<?, ?> counts, String name) {
        return ((Number) counts.get(name)).longValue();
    }

    private static String text(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
