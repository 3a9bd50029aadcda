package parshall.peer;

import java.time.Duration;
import java.util.Optional;

/**
 * What the environment says is to be done. The names are those of docs/external-systems.md; what begins with PEER_ is
 * this program's own.
 *
 * @param source what to receive from
 * @param sourcePartitions how many partitions that has
 * @param consumerGroup the consumer group to receive through
 * @param destination what to send to
 * @param fanOut the partitions of the destination over which each batch is spread
 * @param checkpoints where checkpoints are kept; empty for memory
 * @param instances how many processors share the partitions
 * @param batch the events of a full batch
 * @param maxWait how long a batch waits to be full
 * @param prefetch the events to fetch ahead per partition
 * @param batchesAtOnce how many batches may be on their way at once, over all partitions
 * @param failureRatio the probability that a send fails on purpose
 * @param expiration after how long without renewal a partition is anyone's
 * @param seed what the choice of partitions begins with
 */
record Settings(
        Entity source,
        int sourcePartitions,
        String consumerGroup,
        Entity destination,
        int fanOut,
        Optional<Entity> checkpoints,
        int instances,
        int batch,
        Duration maxWait,
        int prefetch,
        int batchesAtOnce,
        double failureRatio,
        Duration expiration,
        long seed) {

    static Settings of(Environment environment) {
        // A partition that failed rests until it has no owner any more.
        int rest = Math.max(environment.whole("PARSHALL_RESTART_AFTER_MS", 0, 0), (int) SHORTEST_EXPIRATION.toMillis());
        return new Settings(
                environment.entity("PARSHALL_SOURCE", "HUB"),
                environment.whole("PARSHALL_SOURCE_PARTITIONS", 1),
                environment.optional("PARSHALL_CONSUMER_GROUP").orElse("$Default"),
                environment.entity("PARSHALL_DESTINATION", "HUB"),
                environment.whole("PARSHALL_FAN_OUT", 1),
                environment.optional("PARSHALL_CHECKPOINT_CONNECTION_STRING")
                        .map(string -> new Entity(
                                string, environment.optional("PARSHALL_CHECKPOINT_CONTAINER").orElse("checkpoints"))),
                environment.whole("PARSHALL_INSTANCES", 1, 2),
                environment.whole("PARSHALL_BATCH", 1, 128),
                Duration.ofMillis(environment.whole("PARSHALL_MAX_WAIT_MS", 1, 10)),
                environment.whole("PARSHALL_PREFETCH", 1, 1),
                environment.whole("PEER_BATCHES_AT_ONCE", 1, Integer.MAX_VALUE),
                environment.ratio("PARSHALL_FAILURE_RATIO"),
                Duration.ofMillis(environment.whole("PEER_OWNERSHIP_EXPIRATION_MS", 1, rest)),
                environment.number("PARSHALL_SEED", 1));
    }

    /** How often ownership is renewed and shared anew: often enough to miss a few times. */
    Duration balancingInterval() {
        return expiration.dividedBy(4);
    }

    /** Much less, and a pause of the garbage collector costs a partition its owner. */
    private static final Duration SHORTEST_EXPIRATION = Duration.ofSeconds(10);
}
