package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.ServiceBusEntities.bodies;
import static parshall.compat.ServiceBusEntities.isEmpty;
import static parshall.compat.ServiceBusEntities.receive;
import static parshall.compat.ServiceBusEntities.receiveOne;

import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.DeferOptions;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Messages that are sent and settled as a whole, or not at all. */
class ServiceBusTransactionTest {
    @RegisterExtension
    static final ServiceBusEntities shared = new ServiceBusEntities();

    @Test
    void what_is_sent_and_settled_in_one_transaction_is_there_when_it_is_committed() {
        String queue = shared.unusedQueue();
        shared.send(queue, new ServiceBusMessage("complete"), new ServiceBusMessage("dead letter"),
            new ServiceBusMessage("defer"), new ServiceBusMessage("abandon"));
        ServiceBusClientBuilder client = shared.client();
        try (ServiceBusSenderClient sender = client.sender().queueName(queue).buildClient();
            ServiceBusReceiverClient receiver = receiver(client, queue)) {
            List<ServiceBusReceivedMessage> received = receive(receiver, 4);
            ServiceBusTransactionContext transaction = sender.createTransaction();
            sender.sendMessage(new ServiceBusMessage("sent"), transaction);
            sender.sendMessages(List.of(new ServiceBusMessage("in"), new ServiceBusMessage("batch")), transaction);
            receiver.complete(received.get(0), new CompleteOptions().setTransactionContext(transaction));
            receiver.deadLetter(received.get(1),
                new DeadLetterOptions().setDeadLetterReason("bad").setTransactionContext(transaction));
            receiver.defer(received.get(2), new DeferOptions().setTransactionContext(transaction));
            receiver.abandon(received.get(3), new AbandonOptions().setTransactionContext(transaction));
            // Those that are locked, and nothing that was sent.
            assertEquals(4, receiver.peekMessages(10, 0).stream().count());
            sender.commitTransaction(transaction);
            List<ServiceBusReceivedMessage> after = receive(receiver, 4);
            assertEquals(List.of("abandon", "batch", "in", "sent"), bodies(after).stream().sorted().toList());
            assertEquals("defer", receiver.receiveDeferredMessage(received.get(2).getSequenceNumber()).getBody().toString());
        }
        try (ServiceBusReceiverClient deadLetters = shared.deadLetters(queue)) {
            ServiceBusReceivedMessage dead = receiveOne(deadLetters);
            assertEquals("dead letter", dead.getBody().toString());
            assertEquals("bad", dead.getDeadLetterReason());
        }
    }

    @Test
    void what_is_rolled_back_never_was_and_its_messages_stay_locked() {
        String queue = shared.unusedQueue();
        shared.send(queue, new ServiceBusMessage("kept"));
        ServiceBusClientBuilder client = shared.client();
        try (ServiceBusSenderClient sender = client.sender().queueName(queue).buildClient();
            ServiceBusReceiverClient receiver = receiver(client, queue)) {
            ServiceBusReceivedMessage received = receiveOne(receiver);
            ServiceBusTransactionContext transaction = sender.createTransaction();
            sender.sendMessage(new ServiceBusMessage("lost"), transaction);
            receiver.complete(received, new CompleteOptions().setTransactionContext(transaction));
            sender.rollbackTransaction(transaction);
            assertEquals(List.of("kept"), bodies(receiver.peekMessages(10, 0).stream().toList()));
            // The lock can be renewed, so it is still there.
            receiver.renewMessageLock(received);
        }
    }

    @Test
    void a_transaction_spans_queues_and_topics_if_the_client_says_so() {
        String source = shared.unusedQueue();
        String destination = shared.unusedQueue();
        String topic = shared.unusedTopic();
        shared.send(source, new ServiceBusMessage("order"));
        ServiceBusClientBuilder client = shared.client().enableCrossEntityTransactions();
        try (ServiceBusReceiverClient receiver = receiver(client, source);
            ServiceBusSenderClient toQueue = client.sender().queueName(destination).buildClient();
            ServiceBusSenderClient toTopic = client.sender().topicName(topic).buildClient()) {
            ServiceBusReceivedMessage received = receiveOne(receiver);
            ServiceBusTransactionContext transaction = receiver.createTransaction();
            receiver.complete(received, new CompleteOptions().setTransactionContext(transaction));
            toQueue.sendMessage(new ServiceBusMessage("invoice"), transaction);
            toTopic.sendMessage(new ServiceBusMessage("news"), transaction);
            receiver.commitTransaction(transaction);
            assertTrue(isEmpty(receiver));
        }
        assertEquals(List.of("invoice"), shared.drain(destination, 1));
        assertEquals(List.of("news"), bodies(shared.drain(topic, "all", 1)));
    }

    @Test
    void a_transaction_spans_nothing_if_the_client_does_not() {
        String queue = shared.unusedQueue();
        ServiceBusClientBuilder client = shared.client();
        try (ServiceBusSenderClient first = client.sender().queueName(queue).buildClient();
            ServiceBusSenderClient second = client.sender().queueName(shared.unusedQueue()).buildClient()) {
            ServiceBusTransactionContext transaction = first.createTransaction();
            first.sendMessage(new ServiceBusMessage("sent"), transaction);
            // The client takes any answer to a send in a transaction for success, so the service says it again.
            second.sendMessage(new ServiceBusMessage("refused"), transaction);
            RuntimeException error = assertThrows(RuntimeException.class, () -> first.commitTransaction(transaction));
            assertTrue(error.getMessage().contains("cannot span multiple top-level entities"), error.getMessage());
            first.sendMessage(new ServiceBusMessage("without one"));
        }
        assertEquals(List.of("without one"), shared.drain(queue, 1));
    }

    @Test
    void a_transaction_that_is_over_takes_nothing_more() {
        String queue = shared.unusedQueue();
        try (ServiceBusSenderClient sender = shared.client().sender().queueName(queue).buildClient()) {
            ServiceBusTransactionContext transaction = sender.createTransaction();
            sender.sendMessage(new ServiceBusMessage("sent"), transaction);
            sender.commitTransaction(transaction);
            // Refused, which the client does not look at.
            sender.sendMessage(new ServiceBusMessage("late"), transaction);
            assertThrows(RuntimeException.class, () -> sender.commitTransaction(transaction));
            sender.sendMessage(new ServiceBusMessage("without one"));
        }
        assertEquals(List.of("sent", "without one"), shared.drain(queue, 2));
    }

    private static ServiceBusReceiverClient receiver(ServiceBusClientBuilder client, String queue) {
        return client.receiver().queueName(queue).disableAutoComplete().maxAutoLockRenewDuration(Duration.ZERO)
            .buildClient();
    }
}
