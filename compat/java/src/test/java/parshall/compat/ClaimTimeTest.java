package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.messaging.eventhubs.CheckpointStore;
import com.azure.messaging.eventhubs.models.PartitionOwnership;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Time under control: a claim on a partition is as old as the clock of its reader says. */
class ClaimTimeTest {
    @Test
    void claims_are_dated_by_the_clock_of_clients() throws Exception {
        try (Service service = new Service(Service.directory("ClaimTime"), 1, true, "", "--time-control")) {
            service.start();
            service.advance("8 h");
            CheckpointStore store = Checkpoints.in(service.storageConnectionString(), "claims", "hub-0", "$default").store();
            PartitionOwnership claim = new PartitionOwnership().setFullyQualifiedNamespace("localhost").setEventHubName("hub-0")
                .setConsumerGroup("$default").setPartitionId("0").setOwnerId("dead");
            store.claimOwnership(List.of(claim)).blockLast(Events.DEADLINE);
            PartitionOwnership claimed = store.listOwnership("localhost", "hub-0", "$default").blockLast(Events.DEADLINE);
            long ageMs = System.currentTimeMillis() - claimed.getLastModifiedTime();
            // In whole seconds.
            assertTrue(ageMs > -1_000 && ageMs < Duration.ofMinutes(1).toMillis(), () -> ageMs + " ms");
            service.stop();
        }
    }
}
