package parshall.peer;

import com.azure.messaging.eventhubs.CheckpointStore;
import com.azure.messaging.eventhubs.checkpointstore.blob.BlobCheckpointStore;
import com.azure.messaging.eventhubs.models.Checkpoint;
import com.azure.messaging.eventhubs.models.PartitionOwnership;
import com.azure.storage.blob.BlobContainerAsyncClient;
import com.azure.storage.blob.BlobContainerClientBuilder;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Where checkpoints and ownership are kept. */
final class Checkpoints {
    private Checkpoints() {}

    /** The SDK's own store on a blob container, which is made if it is not there. */
    static CheckpointStore inBlobs(Entity container) {
        BlobContainerAsyncClient client = new BlobContainerClientBuilder()
                .connectionString(container.connectionString())
                .containerName(container.name())
                .buildAsyncClient();
        client.createIfNotExists().block();
        return new BlobCheckpointStore(client);
    }

    /** A store that lives as long as the process, for targets without a storage account. */
    static CheckpointStore inMemory() {
        return new Memory();
    }

    private static final class Memory implements CheckpointStore {
        private final Map<String, PartitionOwnership> ownerships = new ConcurrentHashMap<>();
        private final Map<String, Checkpoint> checkpoints = new ConcurrentHashMap<>();

        @Override
        public Flux<PartitionOwnership> listOwnership(String namespace, String hub, String consumerGroup) {
            return Flux.fromIterable(List.copyOf(ownerships.values()));
        }

        @Override
        public Flux<PartitionOwnership> claimOwnership(List<PartitionOwnership> claims) {
            return Flux.fromIterable(claims).flatMap(claim -> Mono.justOrEmpty(claim(claim)));
        }

        /** The claim as it is kept, or null if someone else was faster. */
        private PartitionOwnership claim(PartitionOwnership claim) {
            String etag = UUID.randomUUID().toString();
            PartitionOwnership kept = ownerships.compute(claim.getPartitionId(), (partition, current) -> {
                boolean known = current == null || Objects.equals(current.getETag(), claim.getETag());
                return known
                        ? claim.setETag(etag).setLastModifiedTime(System.currentTimeMillis())
                        : current;
            });
            return etag.equals(kept.getETag()) ? kept : null;
        }

        @Override
        public Flux<Checkpoint> listCheckpoints(String namespace, String hub, String consumerGroup) {
            return Flux.fromIterable(List.copyOf(checkpoints.values()));
        }

        @Override
        public Mono<Void> updateCheckpoint(Checkpoint checkpoint) {
            return Mono.fromRunnable(() -> checkpoints.put(checkpoint.getPartitionId(), checkpoint));
        }
    }
}
