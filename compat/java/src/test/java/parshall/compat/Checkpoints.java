package parshall.compat;

import com.azure.messaging.eventhubs.CheckpointStore;
import com.azure.messaging.eventhubs.checkpointstore.blob.BlobCheckpointStore;
import com.azure.storage.blob.BlobContainerAsyncClient;
import com.azure.storage.blob.BlobContainerClientBuilder;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/** Checkpoints and ownership of one hub and consumer group, in a container of the service's own. */
final class Checkpoints {
    private final BlobContainerAsyncClient container;
    private final String hub;
    private final String consumerGroup;

    private Checkpoints(BlobContainerAsyncClient container, String hub, String consumerGroup) {
        this.container = container;
        // As processors of this client do before they ask the store.
        this.hub = hub.toLowerCase(Locale.ROOT);
        this.consumerGroup = consumerGroup.toLowerCase(Locale.ROOT);
    }

    /** In a container that is made if it is not there. */
    static Checkpoints in(String storageConnectionString, String container, String hub, String consumerGroup) {
        BlobContainerAsyncClient client = new BlobContainerClientBuilder()
            .connectionString(storageConnectionString)
            .containerName(container)
            .buildAsyncClient();
        client.createIfNotExists().block(Events.DEADLINE);
        return new Checkpoints(client, hub, consumerGroup);
    }

    /** The store that processors are given; one of its own each. */
    CheckpointStore store() {
        return new BlobCheckpointStore(container);
    }

    /** Who owns which partition, whether expired or not; the empty name is nobody's. */
    Map<String, String> owners() {
        return store().listOwnership(NAMESPACE, hub, consumerGroup)
            .collect(TreeMap<String, String>::new, (owners, ownership) ->
                owners.put(ownership.getPartitionId(), ownership.getOwnerId()))
            .block(Events.DEADLINE);
    }

    /** The last sequence number of each partition that is done. */
    Map<String, Long> done() {
        return store().listCheckpoints(NAMESPACE, hub, consumerGroup)
            .collect(TreeMap<String, Long>::new, (done, checkpoint) ->
                done.put(checkpoint.getPartitionId(), checkpoint.getSequenceNumber()))
            .block(Events.DEADLINE);
    }

    /** What clients call the namespace, whatever the port. */
    private static final String NAMESPACE = "localhost";
}
