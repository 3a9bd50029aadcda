package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.json.JsonProviders;
import com.azure.json.JsonReader;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogProcessor;
import org.HdrHistogram.HistogramLogReader;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code latency.hlog} of a run, as HdrHistogram's own reader and log processor see it. */
class LatencyLogTest {
    private static final int MEASURED_SECONDS = 3;
    private static final String TAG = "logged/1";

    @TempDir
    static Path directory;

    private static File log;
    private static Map<?, ?> latency;

    @BeforeAll
    static void measure() throws Exception {
        Files.writeString(directory.resolve("logged.yaml"), """
            scenario: logged
            hubs: {source: {partitions: 2}, destination: {partitions: 2}}
            embedded: {log_per_hub: 64 MiB}
            load: {mode: closed}
            phases: {warm_up: 200 ms, measure: %d s}
            relay: {fan_out: 2}
            """.formatted(MEASURED_SECONDS));
        File output = directory.resolve("run.log").toFile();
        Process run = new ProcessBuilder(Service.binary(), "run", "./logged.yaml", "--out", "results")
            .directory(directory.toFile())
            .redirectErrorStream(true)
            .redirectOutput(output)
            .start();
        assertEquals(0, run.waitFor(), () -> text(output.toPath()));
        log = directory.resolve("results/latency.hlog").toFile();
        Map<?, ?> trial = trial(text(directory.resolve("results/results.json")));
        latency = (Map<?, ?>) trial.get("latency_us");
    }

    @Test
    void the_reader_finds_the_figures_of_the_results() throws IOException {
        Histogram whole = new Histogram(3);
        int read = 0;
        try (HistogramLogReader reader = new HistogramLogReader(log)) {
            while (reader.hasNext()) {
                Histogram interval = (Histogram) reader.nextIntervalHistogram();
                assertEquals(TAG, interval.getTag());
                assertTrue(interval.getEndTimeStamp() > interval.getStartTimeStamp());
                whole.add(interval);
                read++;
            }
        }
        assertTrue(read >= MEASURED_SECONDS, "intervals: " + read);
        assertEquals(microseconds("count"), whole.getTotalCount());
        assertNear("p50", whole.getValueAtPercentile(50) / 1e3);
        assertNear("p99", whole.getValueAtPercentile(99) / 1e3);
        assertNear("max", whole.getMaxValue() / 1e3);
    }

    /** What it prints is milliseconds, as long as nothing else is asked of it. */
    @Test
    void the_log_processor_prints_milliseconds() throws Exception {
        Path printed = directory.resolve("processed");
        HistogramLogProcessor processor = new HistogramLogProcessor(
            new String[] {"-i", log.getPath(), "-o", printed.toString(), "-tag", TAG});
        processor.start();
        processor.join();
        String summary = text(directory.resolve("processed.hgrm"));
        double maximum = Double.parseDouble(summary.replaceAll("(?s).*#\\[Max *= *([0-9.]+),.*", "$1"));
        long count = Long.parseLong(summary.replaceAll("(?s).*Total count *= *([0-9]+)\\].*", "$1"));
        assertEquals(microseconds("count"), count);
        assertNear("max", maximum * 1e3);
    }

    /** A bucket of the log ends at most 0.1 % above the value of the results. */
    private static void assertNear(String name, double found) {
        double expected = microseconds(name);
        assertTrue(found >= expected - 1 && found <= expected * 1.001 + 1, name + ": " + found + " for " + expected);
    }

    private static long microseconds(String name) {
        return ((Number) latency.get(name)).longValue();
    }

    private static Map<?, ?> trial(String results) throws IOException {
        try (JsonReader reader = JsonProviders.createReader(results)) {
            List<?> cases = (List<?>) reader.readMap(JsonReader::readUntyped).get("cases");
            return (Map<?, ?>) ((List<?>) ((Map<?, ?>) cases.get(0)).get("trials")).get(0);
        }
    }

    private static String text(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
