package parshall.peer;

/**
 * What the environment says is to be done. The names are those of docs/external-systems.md.
 *
 * @param source what to receive from
 * @param destination what to send to
 * @param concurrency how many messages are handled at once
 * @param prefetch the messages to fetch ahead of that
 * @param failureRatio the probability that a send fails on purpose
 */
record Settings(
        Entity source,
        Entity destination,
        int concurrency,
        int prefetch,
        double failureRatio) {

    static Settings of(Environment environment) {
        return new Settings(
                environment.entity("PARSHALL_SOURCE", "QUEUE"),
                environment.entity("PARSHALL_DESTINATION", "QUEUE"),
                environment.whole("PARSHALL_CONCURRENCY", 1, 1),
                environment.whole("PARSHALL_PREFETCH", 0, 0),
                environment.ratio("PARSHALL_FAILURE_RATIO"));
    }
}
