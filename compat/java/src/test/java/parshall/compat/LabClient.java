package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.json.JsonProviders;
import com.azure.json.JsonReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import javax.tools.ToolProvider;

/**
 * Runs of the lab with a client of {@code peers}, compiled against what these tests have.
 *
 * @param directory where its classes and the results go
 */
record LabClient(Path directory) {
    /** The command of a client, as a scenario has it: that of a folder of {@code peers}. */
    String command(String folder, String mainClass) throws IOException {
        Path java = Path.of(System.getProperty("java.home"), "bin", "java");
        String libraries = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        Path classes = Files.createDirectory(directory.resolve("classes"));
        List<String> arguments = new ArrayList<>(List.of("-d", classes.toString(), "-cp", libraries));
        for (String sources : List.of(folder, "java-shared")) {
            try (Stream<Path> files = Files.walk(Path.of("../../peers", sources, "src/main/java"))) {
                files.map(Path::toString).filter(file -> file.endsWith(".java")).forEach(arguments::add);
            }
        }
        assertEquals(0, ToolProvider.getSystemJavaCompiler().run(null, null, null, arguments.toArray(String[]::new)));
        return "[\"%s\", -XX:TieredStopAtLevel=1, -cp, \"%s:%s\", %s]".formatted(java, classes, libraries, mainClass);
    }

    /** The cases of a run. */
    List<Map<?, ?>> run(String scenario) throws IOException, InterruptedException {
        Files.writeString(directory.resolve("clients.yaml"), scenario);
        Path output = directory.resolve("run.log");
        Process run = new ProcessBuilder(Service.binary(), "run", "./clients.yaml", "--out", "results")
            .directory(directory.toFile())
            .redirectErrorStream(true)
            .redirectOutput(output.toFile())
            .start();
        // A machine that has other work to do makes a generator late, which shows in the status.
        int status = run.waitFor();
        assertTrue(status <= 1, status + ": " + Files.readString(output));
        List<Map<?, ?>> cases = new ArrayList<>();
        String results = Files.readString(directory.resolve("results/results.json"));
        try (JsonReader reader = JsonProviders.createReader(results)) {
            for (Object each : (List<?>) reader.readMap(JsonReader::readUntyped).get("cases")) {
                cases.add((Map<?, ?>) each);
            }
        }
        return cases;
    }

    /** Everything arrived as it was sent, and nobody failed. */
    static void check(Map<?, ?> outcome, long least) {
        Map<?, ?> delivery = (Map<?, ?>) outcome.get("delivery");
        String findings = outcome.get("name") + ": " + delivery + ", " + outcome.get("findings");
        assertTrue(count(delivery, "sent") > least, findings);
        for (String kind : List.of("acknowledged", "received")) {
            assertEquals(count(delivery, "sent"), count(delivery, kind), findings);
        }
        for (String kind : List.of("lost", "duplicated", "corrupted", "unexpected", "unknown")) {
            assertEquals(0, count(delivery, kind), findings);
        }
        assertTrue(!findings.contains("role-failed") && !findings.contains("counters-disagree"), findings);
    }

    static long count(Map<?, ?> counts, String name) {
        return ((Number) counts.get(name)).longValue();
    }
}
