package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.ServiceBusEntities.bodies;
import static parshall.compat.ServiceBusEntities.isEmpty;
import static parshall.compat.ServiceBusEntities.receive;
import static parshall.compat.ServiceBusEntities.receiveOne;

import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What becomes of messages that are received under a lock, and of those that are not. */
class ServiceBusSettlementTest {
    @RegisterExtension
    static final ServiceBusEntities shared = new ServiceBusEntities();

    @Test
    void a_completed_message_is_gone_and_the_others_are_not() {
        String queue = shared.unusedQueue();
        shared.send(queue, new ServiceBusMessage("one"), new ServiceBusMessage("two"));
        try (ServiceBusReceiverClient receiver = shared.receiver(queue)) {
            List<ServiceBusReceivedMessage> messages = receive(receiver, 2);
            receiver.complete(messages.get(0));
            receiver.abandon(messages.get(1));
        }
        assertEquals(List.of("two"), shared.drain(queue, 1));
    }

    @Test
    void an_abandoned_message_comes_again_with_changed_properties_and_in_the_end_as_a_dead_letter() {
        String queue = shared.unusedQueue();
        shared.send(queue, new ServiceBusMessage("hopeless"));
        try (ServiceBusReceiverClient receiver = shared.receiver(queue);
            ServiceBusReceiverClient deadLetters = shared.deadLetters(queue)) {
            for (int delivery = 0; delivery < 3; delivery++) {
                ServiceBusReceivedMessage message = receiveOne(receiver);
                assertEquals(delivery, message.getDeliveryCount());
                assertEquals(delivery == 0 ? null : delivery - 1, message.getApplicationProperties().get("attempt"));
                receiver.abandon(message, new AbandonOptions().setPropertiesToModify(Map.of("attempt", delivery)));
            }
            assertTrue(isEmpty(receiver));
            ServiceBusReceivedMessage dead = receiveOne(deadLetters);
            assertEquals("hopeless", dead.getBody().toString());
            assertEquals("MaxDeliveryCountExceeded", dead.getDeadLetterReason());
            assertEquals(2, dead.getApplicationProperties().get("attempt"));
            deadLetters.complete(dead);
        }
    }

    @Test
    void a_dead_letter_tells_the_reason_and_where_it_comes_from() {
        String queue = shared.unusedQueue();
        shared.send(queue, new ServiceBusMessage("poison").setMessageId("m"));
        try (ServiceBusReceiverClient receiver = shared.receiver(queue);
            ServiceBusReceiverClient deadLetters = shared.deadLetters(queue)) {
            receiver.deadLetter(receiveOne(receiver), new DeadLetterOptions()
                .setDeadLetterReason("malformed").setDeadLetterErrorDescription("no comma in line 3")
                .setPropertiesToModify(Map.of("line", 3)));
            ServiceBusReceivedMessage dead = receiveOne(deadLetters);
            assertEquals("m", dead.getMessageId());
            assertEquals("malformed", dead.getDeadLetterReason());
            assertEquals("no comma in line 3", dead.getDeadLetterErrorDescription());
            assertEquals(3, dead.getApplicationProperties().get("line"));
            deadLetters.complete(dead);
            assertTrue(isEmpty(deadLetters));
        }
    }

    @Test
    void a_deferred_message_is_received_by_its_number_alone() {
        String queue = shared.unusedQueue();
        shared.send(queue, new ServiceBusMessage("later"), new ServiceBusMessage("now"));
        try (ServiceBusReceiverClient receiver = shared.receiver(queue)) {
            List<ServiceBusReceivedMessage> messages = receive(receiver, 2);
            long number = messages.get(0).getSequenceNumber();
            receiver.defer(messages.get(0));
            receiver.complete(messages.get(1));
            assertEquals(ServiceBusMessageState.DEFERRED, receiver.peekMessage(number).getState());
            ServiceBusReceivedMessage deferred = receiver.receiveDeferredMessage(number);
            assertEquals("later", deferred.getBody().toString());
            receiver.complete(deferred);
            assertThrows(ServiceBusException.class, () -> receiver.receiveDeferredMessage(number));
        }
    }

    @Test
    void what_is_received_and_deleted_is_gone() {
        String queue = shared.unusedQueue();
        shared.send(queue, new ServiceBusMessage("one"), new ServiceBusMessage("two"));
        try (ServiceBusReceiverClient receiver = shared.client().receiver().queueName(queue)
            .receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE).buildClient()) {
            assertEquals(List.of("one", "two"), bodies(receive(receiver, 2)));
            assertTrue(isEmpty(receiver));
        }
    }

    @Test
    void peeking_shows_messages_one_after_the_other_and_locks_none() {
        String queue = shared.unusedQueue();
        shared.send(queue, new ServiceBusMessage("one"), new ServiceBusMessage("two"), new ServiceBusMessage("three"));
        try (ServiceBusReceiverClient receiver = shared.receiver(queue)) {
            assertEquals("one", receiver.peekMessage().getBody().toString());
            List<ServiceBusReceivedMessage> rest = receiver.peekMessages(10).stream().toList();
            assertEquals(List.of("two", "three"), bodies(rest));
            assertNull(receiver.peekMessage());
            assertEquals(List.of("one", "two", "three"), bodies(receive(receiver, 3)));
        }
    }

    @Test
    void a_renewed_lock_outlives_the_time_that_it_had() throws InterruptedException {
        String queue = shared.unusedBriefQueue();
        shared.send(queue, new ServiceBusMessage("slow"));
        try (ServiceBusReceiverClient receiver = shared.receiver(queue)) {
            ServiceBusReceivedMessage message = receiveOne(receiver);
            OffsetDateTime first = message.getLockedUntil();
            OffsetDateTime end = first.plusSeconds(1);
            while (OffsetDateTime.now().isBefore(end)) {
                OffsetDateTime renewed = receiver.renewMessageLock(message);
                assertFalse(renewed.isBefore(first));
                Thread.sleep(300);
            }
            receiver.complete(message);
            assertTrue(isEmpty(receiver));
        }
    }

    @Test
    void a_message_whose_lock_is_over_comes_again_and_its_first_receiver_can_do_nothing_with_it() {
        String queue = shared.unusedBriefQueue();
        shared.send(queue, new ServiceBusMessage("lost"));
        try (ServiceBusReceiverClient first = shared.receiver(queue);
            ServiceBusReceiverClient second = shared.receiver(queue)) {
            ServiceBusReceivedMessage before = receiveOne(first);
            ServiceBusReceivedMessage after = receiveOne(second);
            assertEquals(before.getSequenceNumber(), after.getSequenceNumber());
            assertEquals(1, after.getDeliveryCount());
            for (Runnable attempt : List.<Runnable>of(() -> first.complete(before), () -> first.renewMessageLock(before))) {
                ServiceBusException error = assertThrows(ServiceBusException.class, attempt::run);
                assertEquals(ServiceBusFailureReason.MESSAGE_LOCK_LOST, error.getReason());
            }
            second.complete(after);
        }
    }

    @Test
    void nothing_comes_from_an_empty_queue_and_what_comes_too_late_is_there_for_the_next_call() {
        String queue = shared.unusedQueue();
        try (ServiceBusReceiverClient receiver = shared.receiver(queue)) {
            assertEquals(0, receiver.receiveMessages(5, Duration.ofSeconds(1)).stream().count());
            shared.send(queue, new ServiceBusMessage("late"));
            ServiceBusReceivedMessage message = receiveOne(receiver);
            assertEquals(0, message.getDeliveryCount());
            receiver.complete(message);
        }
    }

    @Test
    void a_message_is_settled_once() {
        String queue = shared.unusedQueue();
        shared.send(queue, new ServiceBusMessage("once"));
        try (ServiceBusReceiverClient receiver = shared.receiver(queue)) {
            ServiceBusReceivedMessage message = receiveOne(receiver);
            receiver.complete(message);
            assertThrows(IllegalArgumentException.class, () -> receiver.complete(message));
            assertThrows(IllegalArgumentException.class, () -> receiver.abandon(message));
            ServiceBusException error = assertThrows(ServiceBusException.class, () -> receiver.renewMessageLock(message));
            assertEquals(ServiceBusFailureReason.MESSAGE_LOCK_LOST, error.getReason());
        }
    }

    @Test
    void receiving_from_a_queue_that_is_not_there_is_an_error_at_once() {
        try (ServiceBusReceiverClient receiver = shared.receiver("nowhere")) {
            ServiceBusException error = assertThrows(ServiceBusException.class, () -> receiver.peekMessage());
            assertEquals(ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND, error.getReason());
        }
        try (ServiceBusReceiverClient receiver = shared.receiver("nowhere")) {
            RuntimeException error =
                assertThrows(RuntimeException.class, () -> receiver.receiveMessages(1).forEach(message -> { }));
            AmqpException cause = assertInstanceOf(AmqpException.class, error.getCause());
            assertEquals(AmqpErrorCondition.NOT_FOUND, cause.getErrorCondition());
        }
    }
}
