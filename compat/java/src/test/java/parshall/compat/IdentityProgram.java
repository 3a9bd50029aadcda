package parshall.compat;

import com.azure.core.credential.TokenCredential;
import com.azure.identity.DefaultAzureCredentialBuilder;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.models.SendOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import java.util.List;

/** A program whose right to anything is in its environment: it sends an event, and a message that it receives again. */
final class IdentityProgram {
    private IdentityProgram() {
    }

    /** Takes the port of AMQP with TLS, the hub and the queue; prints how many events there are, and the message. */
    public static void main(String[] arguments) {
        String address = "https://localhost:" + arguments[0];
        TokenCredential credential = new DefaultAzureCredentialBuilder().build();
        long events;
        try (EventHubProducerClient producer = new EventHubClientBuilder()
            .credential("localhost", arguments[1], credential).customEndpointAddress(address).buildProducerClient()) {
            producer.send(List.of(new EventData("event")), new SendOptions().setPartitionId("0"));
            events = producer.getPartitionProperties("0").getLastEnqueuedSequenceNumber() + 1;
        }
        ServiceBusClientBuilder client = new ServiceBusClientBuilder()
            .credential("localhost", credential).customEndpointAddress(address);
        try (ServiceBusSenderClient sender = client.sender().queueName(arguments[2]).buildClient();
            ServiceBusReceiverClient receiver =
                client.receiver().queueName(arguments[2]).disableAutoComplete().buildClient()) {
            sender.sendMessage(new ServiceBusMessage("message"));
            ServiceBusReceivedMessage message = receiver.receiveMessages(1).iterator().next();
            receiver.complete(message);
            System.out.println(events + " " + message.getBody());
        }
        System.exit(0);
    }
}
