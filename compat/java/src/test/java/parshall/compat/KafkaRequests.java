package parshall.compat;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.Set;
import java.util.TreeSet;

/** Which requests a service answers, as any client asks first: {@code ApiVersions} in its first version. */
final class KafkaRequests {
    static final int CREATE_TOPICS = 19;
    static final int DELETE_TOPICS = 20;
    static final int DELETE_RECORDS = 21;
    static final int ADD_PARTITIONS_TO_TXN = 24;
    static final int ADD_OFFSETS_TO_TXN = 25;
    static final int END_TXN = 26;
    static final int TXN_OFFSET_COMMIT = 28;
    static final int DESCRIBE_CONFIGS = 32;
    static final int CREATE_PARTITIONS = 37;
    static final int INCREMENTAL_ALTER_CONFIGS = 44;
    static final int OFFSET_DELETE = 47;
    static final int DESCRIBE_PRODUCERS = 61;
    static final int DESCRIBE_TRANSACTIONS = 65;
    static final int LIST_TRANSACTIONS = 66;
    static final int CONSUMER_GROUP_HEARTBEAT = 68;
    static final int CONSUMER_GROUP_DESCRIBE = 69;

    private KafkaRequests() {
    }

    /** Skips the test, and says why, where the service does not answer all of these. */
    static void assumeServed(Service service, int... keys) throws IOException {
        Set<Integer> served = served(service);
        for (int key : keys) {
            assumeTrue(served.contains(key), () -> "the service does not answer requests of key " + key + " of Kafka");
        }
    }

    private static Set<Integer> served(Service service) throws IOException {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress("127.0.0.1", service.port("Kafka")));
            socket.setSoTimeout((int) Events.DEADLINE.toMillis());
            DataOutputStream output = new DataOutputStream(socket.getOutputStream());
            output.writeInt(10);
            output.writeShort(API_VERSIONS);
            output.writeShort(0);
            output.writeInt(1);
            // No name.
            output.writeShort(-1);
            DataInputStream input = new DataInputStream(socket.getInputStream());
            input.readInt();
            input.readInt();
            int error = input.readShort();
            if (error != 0) {
                throw new IOException("it answers with error " + error);
            }
            Set<Integer> keys = new TreeSet<>();
            for (int left = input.readInt(); left > 0; left--) {
                keys.add((int) input.readShort());
                // From this version to that.
                input.readInt();
            }
            return keys;
        }
    }

    private static final int API_VERSIONS = 18;
}
