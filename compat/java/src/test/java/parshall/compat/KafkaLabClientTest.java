package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** kafka-clients as the client of load and sink in a run of the lab: {@code peers/kafka-clients}, with this version. */
@Timeout(180)
class KafkaLabClientTest {
    @TempDir
    Path directory;

    @Test
    void what_it_sends_and_receives_is_what_the_load_sent() throws Exception {
        LabClient client = new LabClient(directory);
        Map<?, ?> outcome = client.run("""
            scenario: clients
            clients: {kafka-clients: {command: %s}}
            topology:
              entities: {in: {hub: events, partitions: 2}}
              load: {to: in, protocol: kafka, client: kafka-clients, properties: {linger.ms: 0, acks: 1}}
              sink: {from: in, protocol: kafka, client: kafka-clients, properties: {fetch.wait.max.ms: 100}}
              measure: service
            embedded: {log_per_hub: 64 MiB}
            load: {mode: open, rate: 300/s, payload: 64 B, batch: 1, in_flight: 500}
            phases: {warm_up: 500 ms, measure: 2 s, drain: 20 s}
            trials: 1
            """.formatted(client.command("kafka-clients", "parshall.client.Main"))).get(0);
        LabClient.check(outcome, 600);
        assertEquals(0, LabClient.count((Map<?, ?>) outcome.get("delivery"), "reordered"));
        // It says when it sent and when it had each record.
        assertTrue(LabClient.count((Map<?, ?>) outcome.get("uncorrected_latency_us"), "count") > 500);
    }

    @Test
    void it_is_a_producer_that_makes_calls() throws Exception {
        LabClient client = new LabClient(directory);
        Map<?, ?> outcome = client.run("""
            scenario: producers
            clients: {kafka-clients: {command: %s}}
            topology:
              entities: {in: {hub: events, partitions: 2}}
              load: {to: in, protocol: kafka, client: kafka-clients, producer: {}}
              sink: in
              measure: load
            embedded: {log_per_hub: 64 MiB}
            load: {mode: closed, callers: 10, payload: 64 B, batch: 20}
            phases: {warm_up: 200 ms, measure: 500 ms, drain: 20 s}
            trials: 1
            """.formatted(client.command("kafka-clients", "parshall.client.Main"))).get(0);
        LabClient.check(outcome, 100);
    }
}
