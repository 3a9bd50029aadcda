package parshall.peer;

/**
 * A hub, queue, topic or container.
 *
 * @param connectionString the connection string of its namespace or account
 * @param name its name
 */
record Entity(String connectionString, String name) {}
