package parshall.peer;

import com.azure.messaging.eventhubs.EventProcessorClient;
import com.azure.messaging.eventhubs.EventProcessorClientBuilder;
import com.azure.messaging.eventhubs.LoadBalancingStrategy;
import com.azure.messaging.eventhubs.checkpointstore.blob.BlobCheckpointStore;
import com.azure.messaging.eventhubs.models.EventBatchContext;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusSenderAsyncClient;
import com.azure.storage.blob.BlobContainerAsyncClient;
import com.azure.storage.blob.BlobContainerClientBuilder;
import java.util.List;
import java.util.Map;

/**
 * The consumer of the published study of strategies on the official SDKs: a processor that writes each event to a topic and to an archive
 * ({@link Writer}) and keeps its checkpoints in blobs.
 *
 * <p>Runs until it is told to end (SIGTERM). Standard output has a line {@code ready} when the partition has its processor; standard
 * error has what goes wrong.
 */
public final class Main {
    private Main() {}

    /** Runs until the process is told to end. */
    public static void main(String[] arguments) throws InterruptedException {
        Program.run(environment -> start(Settings.of(environment)));
    }

    private static void start(Settings settings) {
        var writer = new Writer(topic(settings.topic()), container(settings.archive()), settings);
        Reach reach = Reach.of(settings.source().connectionString());
        var builder = new EventProcessorClientBuilder()
                .connectionString(reach.connectionString(), settings.source().name());
        reach.endpoint().ifPresent(builder::customEndpointAddress);
        EventProcessorClient processor = builder.consumerGroup(settings.consumerGroup())
                .checkpointStore(new BlobCheckpointStore(container(settings.checkpoints())))
                .loadBalancingStrategy(LoadBalancingStrategy.GREEDY)
                .initialPartitionEventPosition(Map.of("0", EventPosition.earliest()))
                .prefetchCount(settings.prefetch())
                .processPartitionInitialization(context -> Program.ready())
                .processEventBatch(batch -> write(writer, batch), settings.batch(), settings.maxWait())
                .processError(context -> Program.complain("partition " + context.getPartitionContext().getPartitionId() + ": "
                        + context.getThrowable()))
                .buildEventProcessorClient();
        Program.closeAtTheEnd(() -> List.of(processor::stop));
        processor.start();
        Figures.tell();
    }

    private static ServiceBusSenderAsyncClient topic(Entity topic) {
        Reach reach = Reach.of(topic.connectionString());
        var builder = new ServiceBusClientBuilder().connectionString(reach.connectionString());
        reach.endpoint().ifPresent(builder::customEndpointAddress);
        return builder.sender().topicName(topic.name()).buildAsyncClient();
    }

    /** A container, which is made if it is not there. */
    private static BlobContainerAsyncClient container(Entity container) {
        BlobContainerAsyncClient client = new BlobContainerClientBuilder()
                .connectionString(container.connectionString())
                .containerName(container.name())
                .buildAsyncClient();
        client.createIfNotExists().block();
        return client;
    }

    private static void write(Writer writer, EventBatchContext batch) {
        try {
            writer.write(batch);
        } catch (RuntimeException e) {
            Program.complain("partition " + batch.getPartitionContext().getPartitionId() + " stops: " + e);
            throw e;
        }
    }
}
