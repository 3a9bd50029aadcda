package parshall.compat;

import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.EventProcessorClient;
import com.azure.messaging.eventhubs.EventProcessorClientBuilder;
import com.azure.messaging.eventhubs.models.EventBatchContext;
import com.azure.messaging.eventhubs.models.EventPosition;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * What a relay does, as a program of its own on the official client, so that it can be killed: sends the events of one hub
 * on to another, and checkpoints once a batch has arrived there.
 */
final class Forwarder {
    private Forwarder() {
    }

    /** Runs until its standard input ends. Arguments: connection string, that of the blobs, container, two hubs. */
    public static void main(String[] arguments) throws IOException {
        String connectionString = arguments[0];
        String source = arguments[3];
        Checkpoints checkpoints = Checkpoints.in(arguments[1], arguments[2], source, GROUP);
        EventHubProducerClient producer =
            new EventHubClientBuilder().connectionString(connectionString, arguments[4]).buildProducerClient();
        EventProcessorClient processor = new EventProcessorClientBuilder()
            .connectionString(connectionString, source)
            .consumerGroup(GROUP)
            .checkpointStore(checkpoints.store())
            .initialPartitionEventPosition(Events.numbers(Service.PARTITIONS).stream()
                .collect(Collectors.toMap(Function.identity(), partition -> EventPosition.earliest())))
            .loadBalancingUpdateInterval(RENEW)
            .partitionOwnershipExpirationInterval(EXPIRE)
            .processEventBatch(batch -> forward(producer, batch), 50, Duration.ofMillis(100))
            .processError(context -> System.err.println(context.getThrowable()))
            .buildEventProcessorClient();
        processor.start();
        while (System.in.read() >= 0) {
        }
        processor.stop();
        producer.close();
    }

    private static void forward(EventHubProducerClient producer, EventBatchContext batch) {
        if (!batch.getEvents().isEmpty()) {
            producer.send(batch.getEvents().stream().map(event -> new EventData(event.getBody())).toList());
            batch.updateCheckpoint();
        }
    }

    /** Starts one as a process of its own. */
    static Process start(Path log, Service service, String container, String source, String destination)
        throws IOException {
        return JavaProcess.of(Forwarder.class, List.of("-Xmx128m"), service.connectionString(),
            service.storageConnectionString(), container, source, destination)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile()))
            .redirectErrorStream(true)
            .start();
    }

    /** How often owners say that they are there, and for how long without a word they are believed to be. */
    static final Duration RENEW = Duration.ofSeconds(1);
    static final Duration EXPIRE = Duration.ofSeconds(6);
    static final String GROUP = EventHubClientBuilder.DEFAULT_CONSUMER_GROUP_NAME;
}
