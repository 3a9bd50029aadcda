package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.ServiceBusEntities.bodies;
import static parshall.compat.ServiceBusEntities.isEmpty;
import static parshall.compat.ServiceBusEntities.receive;
import static parshall.compat.ServiceBusEntities.receiveOne;

import com.azure.core.util.BinaryData;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusMessageBatch;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Sending to queues: single messages, batches, scheduled ones, and what is refused. */
class ServiceBusSendTest {
    @RegisterExtension
    static final ServiceBusEntities shared = new ServiceBusEntities();

    @Test
    void a_message_arrives_with_all_that_its_sender_said() {
        String queue = shared.unusedQueue();
        ServiceBusMessage sent = new ServiceBusMessage("payload")
            .setMessageId("id").setCorrelationId("correlation").setSubject("subject").setTo("to").setReplyTo("reply")
            .setReplyToSessionId("session").setContentType("text/plain").setTimeToLive(Duration.ofMinutes(5));
        sent.getApplicationProperties().putAll(Map.of("text", "a", "int", 7, "long", 8L, "flag", true));
        shared.send(queue, sent);
        try (ServiceBusReceiverClient receiver = shared.receiver(queue)) {
            ServiceBusReceivedMessage message = receiveOne(receiver);
            assertEquals("payload", message.getBody().toString());
            assertEquals("id", message.getMessageId());
            assertEquals("correlation", message.getCorrelationId());
            assertEquals("subject", message.getSubject());
            assertEquals("to", message.getTo());
            assertEquals("reply", message.getReplyTo());
            assertEquals("session", message.getReplyToSessionId());
            assertEquals("text/plain", message.getContentType());
            assertEquals(Duration.ofMinutes(5), message.getTimeToLive());
            assertEquals(sent.getApplicationProperties(), message.getApplicationProperties());
            assertEquals(0, message.getDeliveryCount());
            assertEquals(ServiceBusMessageState.ACTIVE, message.getState());
            assertTrue(message.getLockedUntil().isAfter(message.getEnqueuedTime()));
            receiver.complete(message);
        }
    }

    @Test
    void a_message_without_an_identifier_is_given_one() {
        String queue = shared.unusedQueue();
        shared.send(queue, new ServiceBusMessage("anonymous"));
        try (ServiceBusReceiverClient receiver = shared.receiver(queue)) {
            assertNotNull(receiveOne(receiver).getMessageId());
        }
    }

    @Test
    void a_batch_stays_in_order_and_is_numbered() {
        String queue = shared.unusedQueue();
        List<String> expected = IntStream.range(0, 200).mapToObj(Integer::toString).toList();
        try (ServiceBusSenderClient sender = shared.client().sender().queueName(queue).buildClient()) {
            ServiceBusMessageBatch batch = sender.createMessageBatch();
            expected.forEach(body -> assertTrue(batch.tryAddMessage(new ServiceBusMessage(body))));
            sender.sendMessages(batch);
        }
        try (ServiceBusReceiverClient receiver = shared.receiver(queue)) {
            List<ServiceBusReceivedMessage> messages = receive(receiver, expected.size());
            assertEquals(expected, bodies(messages));
            long first = messages.get(0).getSequenceNumber();
            IntStream.range(0, messages.size())
                .forEach(index -> assertEquals(first + index, messages.get(index).getSequenceNumber()));
        }
    }

    @Test
    void a_batch_takes_no_more_than_the_queue_does_and_larger_messages_are_refused() {
        try (ServiceBusSenderClient sender = shared.client().sender().queueName(shared.unusedQueue()).buildClient()) {
            ServiceBusMessageBatch batch = sender.createMessageBatch();
            assertEquals(256 * 1024, batch.getMaxSizeInBytes());
            BinaryData large = BinaryData.fromBytes(new byte[300 * 1024]);
            for (Runnable attempt : List.<Runnable>of(
                () -> batch.tryAddMessage(new ServiceBusMessage(large)),
                () -> sender.sendMessage(new ServiceBusMessage(large)))) {
                ServiceBusException error = assertThrows(ServiceBusException.class, attempt::run);
                assertEquals(ServiceBusFailureReason.MESSAGE_SIZE_EXCEEDED, error.getReason());
            }
            BinaryData half = BinaryData.fromBytes(new byte[150 * 1024]);
            assertTrue(batch.tryAddMessage(new ServiceBusMessage(half)));
            assertFalse(batch.tryAddMessage(new ServiceBusMessage(half)));
        }
    }

    @Test
    void a_scheduled_message_comes_at_its_time_unless_it_is_cancelled() {
        String queue = shared.unusedQueue();
        OffsetDateTime soon = OffsetDateTime.now().plusSeconds(2);
        try (ServiceBusSenderClient sender = shared.client().sender().queueName(queue).buildClient();
            ServiceBusReceiverClient receiver = shared.receiver(queue)) {
            sender.scheduleMessage(new ServiceBusMessage("by request"), soon);
            sender.sendMessage(new ServiceBusMessage("by itself").setScheduledEnqueueTime(soon));
            long cancelled = sender.scheduleMessage(new ServiceBusMessage("cancelled"), soon.plusHours(1));
            assertEquals(ServiceBusMessageState.SCHEDULED, receiver.peekMessage(cancelled).getState());
            sender.cancelScheduledMessage(cancelled);
            List<ServiceBusReceivedMessage> messages = receive(receiver, 2);
            assertEquals(List.of("by itself", "by request"), bodies(messages).stream().sorted().toList());
            assertFalse(OffsetDateTime.now().isBefore(soon));
            messages.forEach(receiver::complete);
            assertTrue(isEmpty(receiver));
        }
    }

    @Test
    void a_message_that_was_sent_before_is_dropped_where_duplicates_are_detected() {
        shared.send("once", new ServiceBusMessage("first").setMessageId("same"));
        shared.send("once", new ServiceBusMessage("again").setMessageId("same"));
        shared.send("once", new ServiceBusMessage("other").setMessageId("other"));
        assertEquals(List.of("first", "other"), shared.drain("once", 2));
    }

    @Test
    void a_message_whose_time_is_over_is_a_dead_letter() {
        shared.send("mortal", new ServiceBusMessage("late"));
        try (ServiceBusReceiverClient deadLetters = shared.deadLetters("mortal")) {
            ServiceBusReceivedMessage message = receiveOne(deadLetters);
            assertEquals("late", message.getBody().toString());
            assertEquals("TTLExpiredException", message.getDeadLetterReason());
        }
    }

    @Test
    void a_full_queue_refuses_messages_and_keeps_those_that_it_took() {
        BinaryData body = BinaryData.fromBytes(new byte[30 * 1024]);
        int accepted = 0;
        ServiceBusException error = null;
        try (ServiceBusSenderClient sender = shared.client().sender().queueName("full").buildClient()) {
            while (error == null && accepted < 10) {
                try {
                    sender.sendMessage(new ServiceBusMessage(body));
                    accepted++;
                } catch (ServiceBusException refused) {
                    error = refused;
                }
            }
        }
        assertNotNull(error);
        assertEquals(ServiceBusFailureReason.QUOTA_EXCEEDED, error.getReason());
        assertEquals(accepted, shared.drain("full", accepted).size());
    }

    @Test
    void a_queue_that_is_not_there_is_an_error_at_once() {
        try (ServiceBusSenderClient sender = shared.client().sender().queueName("nowhere").buildClient()) {
            ServiceBusException error =
                assertThrows(ServiceBusException.class, () -> sender.sendMessage(new ServiceBusMessage("lost")));
            assertEquals(ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND, error.getReason());
        }
    }

    @Test
    void a_key_that_may_only_listen_cannot_send() {
        String listener = shared.service().connectionStringWith("listener", "listen-only-value");
        try (ServiceBusSenderClient sender =
            ServiceBusEntities.client(listener).sender().queueName(shared.unusedQueue()).buildClient()) {
            ServiceBusException error =
                assertThrows(ServiceBusException.class, () -> sender.sendMessage(new ServiceBusMessage("forbidden")));
            assertEquals(ServiceBusFailureReason.UNAUTHORIZED, error.getReason());
        }
    }
}
