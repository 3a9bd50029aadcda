package parshall.peer;

import java.time.Duration;

/**
 * What the environment says is to be done. The names are those of docs/external-systems.md.
 *
 * @param source what to receive from
 * @param consumerGroup the consumer group to receive through
 * @param topic what to send to
 * @param archive where each event is stored as a blob
 * @param checkpoints where checkpoints are kept
 * @param batch the events of a full batch
 * @param maxWait how long a batch waits to be full
 * @param prefetch the events to fetch ahead
 * @param eventsAtOnce how many events of a batch are worked on at once
 * @param bothAtOnce whether an event goes to the archive while it goes to the topic, and not after that
 */
record Settings(
        Entity source,
        String consumerGroup,
        Entity topic,
        Entity archive,
        Entity checkpoints,
        int batch,
        Duration maxWait,
        int prefetch,
        int eventsAtOnce,
        boolean bothAtOnce) {

    static Settings of(Environment environment) {
        return new Settings(
                environment.entity("PARSHALL_SOURCE", "HUB"),
                environment.optional("PARSHALL_CONSUMER_GROUP").orElse("$Default"),
                environment.entity("PARSHALL_DESTINATION", "TOPIC"),
                environment.entity("PARSHALL_ARCHIVE", "CONTAINER"),
                environment.entity("PARSHALL_CHECKPOINT", "CONTAINER"),
                environment.whole("PARSHALL_BATCH", 1),
                Duration.ofMillis(environment.whole("PARSHALL_MAX_WAIT_MS", 1)),
                environment.whole("PARSHALL_PREFETCH", 1),
                environment.whole("PARSHALL_EVENTS_AT_ONCE", 1),
                environment.whole("PARSHALL_DESTINATIONS_AT_ONCE", 1) > 1);
    }
}
