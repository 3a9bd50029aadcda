package parshall.peer;

import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.messaging.eventhubs.CheckpointStore;
import com.azure.messaging.eventhubs.EventHubProducerAsyncClient;
import com.azure.messaging.eventhubs.EventProcessorClient;
import com.azure.messaging.eventhubs.LoadBalancingStrategy;
import com.azure.messaging.eventhubs.models.EventBatchContext;
import com.azure.messaging.eventhubs.models.EventPosition;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import reactor.core.publisher.Hooks;
import reactor.core.scheduler.Schedulers;

/**
 * The forwarder of the published fan-out study on the official SDK: processors that share the partitions of one hub
 * and forward each batch to the partitions of another ({@link Forwarder}).
 *
 * <p>Runs until it is told to end (SIGTERM). Standard output has a line {@code ready} when every partition of the
 * source has a processor; standard error has what goes wrong.
 */
public final class Main {
    private Main() {}

    /** Runs until the process is told to end. */
    public static void main(String[] arguments) throws InterruptedException {
        Program.run(environment -> start(Settings.of(environment)));
    }

    private static void start(Settings settings) {
        // A failed batch comes here once more after the partition was stopped for it.
        Hooks.onErrorDropped(error -> complainUnlessSimulated("dropped", error));
        Schedulers.onHandleError((thread, error) -> complainUnlessSimulated(thread.getName(), error));
        CheckpointStore checkpoints = settings.checkpoints().map(Checkpoints::inBlobs).orElseGet(() -> {
            Program.complain("checkpoints are kept in memory: PARSHALL_CHECKPOINT_CONNECTION_STRING is not set");
            return Checkpoints.inMemory();
        });
        var instances = new ArrayList<Instance>();
        Program.closeAtTheEnd(() -> instances.stream().<Runnable>map(instance -> instance.processor()::stop).toList());
        var waiting = new Waiting(settings.sourcePartitions());
        var permits = new Semaphore(settings.batchesAtOnce());
        for (int number = 0; number < settings.instances(); number++) {
            instances.add(Instance.of(settings, checkpoints, permits, waiting));
        }
        instances.forEach(instance -> instance.processor().start());
    }

    /** A processor, with a producer of its own behind it. */
    private record Instance(EventProcessorClient processor) {

        static Instance of(
                Settings settings, CheckpointStore checkpoints, Semaphore permits, Waiting waiting) {
            EventHubProducerAsyncClient producer = Namespace.of(settings.destination().connectionString())
                    .client(settings.destination().name())
                    .buildAsyncProducerClient();
            var forwarder = new Forwarder(producer, permits, settings);
            EventProcessorClient processor = Namespace.of(settings.source().connectionString())
                    .processor(settings.source().name())
                    .consumerGroup(settings.consumerGroup())
                    .checkpointStore(checkpoints)
                    .loadBalancingStrategy(LoadBalancingStrategy.GREEDY)
                    .loadBalancingUpdateInterval(settings.balancingInterval())
                    .partitionOwnershipExpirationInterval(settings.expiration())
                    .initialPartitionEventPosition(fromTheBeginning(settings.sourcePartitions()))
                    .prefetchCount(settings.prefetch())
                    .processPartitionInitialization(
                            context -> waiting.has(context.getPartitionContext().getPartitionId()))
                    .processEventBatch(batch -> forward(forwarder, batch), settings.batch(), settings.maxWait())
                    .processError(context ->
                            complain(context.getPartitionContext().getPartitionId(), context.getThrowable()))
                    .buildEventProcessorClient();
            return new Instance(processor);
        }

        private static void complain(String partition, Throwable error) {
            if (error instanceof AmqpException amqp && amqp.getErrorCondition() == AmqpErrorCondition.LINK_STOLEN) {
                // How processors come to equal shares: no failure.
                System.out.println("partition " + partition + " went to another processor");
            } else {
                Program.complain("partition " + partition + ": " + error);
            }
        }

        private static void forward(Forwarder forwarder, EventBatchContext batch) {
            try {
                forwarder.forward(batch);
            } catch (RuntimeException e) {
                complainUnlessSimulated("partition " + batch.getPartitionContext().getPartitionId() + " stops", e);
                throw e;
            }
        }

        private static Map<String, EventPosition> fromTheBeginning(int partitions) {
            var positions = new HashMap<String, EventPosition>();
            for (int number = 0; number < partitions; number++) {
                positions.put(Integer.toString(number), EventPosition.earliest());
            }
            return positions;
        }
    }

    /** The partitions that have had a processor; the last of them is told. */
    private static final class Waiting {
        private final Set<String> seen = ConcurrentHashMap.newKeySet();
        private final int partitions;

        Waiting(int partitions) {
            this.partitions = partitions;
        }

        void has(String partition) {
            if (seen.add(partition) && seen.size() == partitions) {
                Program.ready();
            }
        }
    }

    private static void complainUnlessSimulated(String what, Throwable error) {
        if (!isSimulated(error)) {
            Program.complain(what + ": " + error);
        }
    }

    private static boolean isSimulated(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof Forwarder.SimulatedFailure) {
                return true;
            }
        }
        return false;
    }
}
