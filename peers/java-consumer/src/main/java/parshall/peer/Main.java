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
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.security.GeneralSecurityException;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

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
        try {
            run(Settings.of(System.getenv()));
        } catch (Settings.SettingsException | IOException | GeneralSecurityException | IllegalArgumentException e) {
            complain(e.toString());
            System.exit(1);
        }
    }

    private static void run(Settings settings) throws IOException, GeneralSecurityException, InterruptedException {
        if (settings.authority().isPresent()) {
            Trust.only(settings.authority().get());
        }
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
                .processPartitionInitialization(context -> {
                    System.out.println("ready");
                    System.out.flush();
                })
                .processEventBatch(batch -> write(writer, batch), settings.batch(), settings.maxWait())
                .processError(context -> complain("partition " + context.getPartitionContext().getPartitionId() + ": "
                        + context.getThrowable()))
                .buildEventProcessorClient();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(processor)));
        processor.start();
        Figures.tell();
        new CountDownLatch(1).await();
    }

    private static ServiceBusSenderAsyncClient topic(Settings.Entity topic) {
        Reach reach = Reach.of(topic.connectionString());
        var builder = new ServiceBusClientBuilder().connectionString(reach.connectionString());
        reach.endpoint().ifPresent(builder::customEndpointAddress);
        return builder.sender().topicName(topic.name()).buildAsyncClient();
    }

    /** A container, which is made if it is not there. */
    private static BlobContainerAsyncClient container(Settings.Entity container) {
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
            complain("partition " + batch.getPartitionContext().getPartitionId() + " stops: " + e);
            throw e;
        }
    }

    private static void stop(EventProcessorClient processor) {
        stopping = true;
        // The SDK has complaints of its own about what it is interrupted in.
        System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        var closing = new Thread(processor::stop);
        closing.start();
        try {
            TimeUnit.NANOSECONDS.timedJoin(closing, PATIENCE_NANOS);
        } catch (InterruptedException e) {
            // The end comes all the same.
        }
        // What is still written is not waited for: an event that no checkpoint covers comes again.
        Runtime.getRuntime().halt(0);
    }

    private static void complain(String what) {
        // What is under way is interrupted at the end, and that is no failure.
        if (!stopping) {
            System.err.println(what);
        }
    }

    private static volatile boolean stopping;

    /** How long the processor may take to stop. */
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(5);
}
