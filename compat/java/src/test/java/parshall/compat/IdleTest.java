package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** A client with nothing to say to a service that ends silent connections. */
class IdleTest {
    @RegisterExtension
    static final SharedService shared = new SharedService("idle_timeout: 500 ms\n");

    @Test
    void an_idle_client_keeps_its_connection() throws Exception {
        Service service = shared.service();
        SendOptions partition = new SendOptions().setPartitionId("0");
        try (EventHubProducerClient producer = shared.clientOf(shared.unusedHub()).buildProducerClient()) {
            producer.send(List.of(new EventData("before")), partition);
            long accepted = service.metric(ACCEPTED);
            for (int silences = 1; silences <= 3; silences++) {
                openAndBeSilent(service);
            }
            producer.send(List.of(new EventData("after")), partition);
            assertEquals(1, producer.getPartitionProperties("0").getLastEnqueuedSequenceNumber());
            assertEquals(accepted + 3, service.metric(ACCEPTED), "it has connected again");
        }
    }

    /** Opens a connection and says nothing more, until the service ends it for that. */
    private static void openAndBeSilent(Service service) throws Exception {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), service.port("AMQP"))) {
            socket.setSoTimeout((int) Events.DEADLINE.toMillis());
            socket.getOutputStream().write(HEADER_AND_OPEN);
            InputStream input = socket.getInputStream();
            while (input.read() >= 0) {
            }
        }
    }

    private static final byte[] HEADER_AND_OPEN = HexFormat.of().parseHex("" //
        + "414d515000010000" // protocol header
        + "0000001002000000" // frame of 16 bytes, channel 0
        + "005310" // open
        + "c00301a100"); // list of one: container-id ""

    private static final String ACCEPTED = "parshall_amqp_connections_accepted_total";
}
