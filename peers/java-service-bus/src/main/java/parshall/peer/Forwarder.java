package parshall.peer;

import com.azure.core.util.BinaryData;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessageContext;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import java.util.concurrent.ThreadLocalRandom;

/**
 * What is done with each message: its payload is checked and sent to the destination, and when that was accepted, the
 * message is completed. Each of the two waits for its answer. A message that can't be forwarded is abandoned, so that it
 * is delivered again.
 */
final class Forwarder {
    private final ServiceBusSenderClient sender;
    private final double failureRatio;

    Forwarder(ServiceBusSenderClient sender, Settings settings) {
        this.sender = sender;
        this.failureRatio = settings.failureRatio();
    }

    /** Forwards one message, and returns when it is settled. Throws why it was abandoned. */
    void forward(ServiceBusReceivedMessageContext context) {
        try {
            BinaryData payload = checked(context.getMessage());
            if (failureRatio > 0 && ThreadLocalRandom.current().nextDouble() < failureRatio) {
                throw new SimulatedFailure();
            }
            sender.sendMessage(new ServiceBusMessage(payload));
            context.complete();
        } catch (RuntimeException e) {
            context.abandon();
            throw e;
        }
    }

    /** The payload, which bears at least the run, stream, sequence number and instant that the receiver looks for. */
    private static BinaryData checked(ServiceBusReceivedMessage message) {
        BinaryData payload = message.getBody();
        Long length = payload.getLength();
        if (length == null || length < SHORTEST_PAYLOAD) {
            throw new IllegalArgumentException(
                    "message " + message.getSequenceNumber() + " has a payload of " + length + " bytes");
        }
        return payload;
    }

    /** A send that failed on purpose. */
    static final class SimulatedFailure extends RuntimeException {
        private static final long serialVersionUID = 1L;

        SimulatedFailure() {
            super("failed on purpose", null, false, false);
        }
    }

    private static final long SHORTEST_PAYLOAD = 12;
}
