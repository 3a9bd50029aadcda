package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The official producer as the producer of a load in a run of the lab, which takes half a minute: {@code peers/java-producer}. */
@Timeout(180)
class LabProducerTest {
    @TempDir
    Path directory;

    // Once a batch of the buffered producer is under way while others are full or waited for too long, the SDK may put events into two batches, or
    // into one that is encoded already: so there are fewer events than a batch holds, and none comes that late.
    @Test
    void it_makes_the_calls_of_a_load_in_every_way() throws Exception {
        LabClient client = new LabClient(directory);
        List<Map<?, ?>> cases = client.run("""
            scenario: producers
            clients: {java: {command: %s}}
            topology:
              entities: {in: {hub: events, partitions: 2}}
              load: {to: in, client: java, producer: {}}
              sink: in
              measure: load
            embedded: {log_per_hub: 64 MiB}
            load: {mode: closed, callers: 10, payload: 200 B, batch: 1}
            phases: {warm_up: 200 ms, measure: 500 ms, drain: 20 s}
            trials: 1
            sweeps:
              ways:
                load.seed:
                  name: way
                  values:
                    - {value: 1, name: isolated, topology.load.producer.connections: per-event}
                    - {value: 2, name: batches, load.batch: 20, topology.load.producer.connections: pooled, topology.load.producer.pool: 3}
                    - {value: 3, name: buffered, topology.load.producer.buffering: safe, topology.load.producer.delay: 4 s, load.callers: 2000}
            """.formatted(client.command("java-producer", "parshall.peer.Main")));
        assertEquals(3, cases.size());
        cases.forEach(each -> LabClient.check(each, 5));
    }
}
