package parshall.peer;

/** A way of sending. */
interface Way extends AutoCloseable {

    /** Makes a call of the client, and says what became of it; need not wait for it. */
    void send(Call call);

    /** Sends what is under way, and lets go of the connections. */
    @Override
    void close();
}
