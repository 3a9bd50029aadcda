package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.ServiceBusEntities.bodies;
import static parshall.compat.ServiceBusEntities.receive;

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Queues whose messages belong to sessions. */
class ServiceBusSessionTest {
    @RegisterExtension
    static final ServiceBusEntities shared = new ServiceBusEntities();

    @Test
    void a_session_gives_its_own_messages_in_order() {
        String queue = shared.unusedSessionQueue();
        shared.send(queue, message("a", "1"), message("b", "x"), message("a", "2"));
        try (ServiceBusSessionReceiverClient sessions = sessions(queue);
            ServiceBusReceiverClient session = sessions.acceptSession("a")) {
            assertEquals("a", session.getSessionId());
            assertEquals(List.of("1", "2"), bodies(receive(session, 2)));
        }
    }

    @Test
    void the_next_session_is_one_that_nobody_has() {
        String queue = shared.unusedSessionQueue();
        shared.send(queue, message("a", "1"), message("b", "2"));
        try (ServiceBusSessionReceiverClient sessions = sessions(queue);
            ServiceBusReceiverClient first = sessions.acceptNextSession();
            ServiceBusReceiverClient second = sessions.acceptNextSession()) {
            assertEquals(List.of("a", "b"), List.of(first.getSessionId(), second.getSessionId()).stream().sorted().toList());
        }
    }

    @Test
    void there_is_no_next_session_where_there_is_no_message() {
        String queue = shared.unusedSessionQueue();
        AmqpRetryOptions impatient = new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(Duration.ofSeconds(3));
        try (ServiceBusSessionReceiverClient sessions =
            shared.client().retryOptions(impatient).sessionReceiver().queueName(queue).disableAutoComplete().buildClient()) {
            assertThrows(RuntimeException.class, sessions::acceptNextSession);
        }
    }

    @Test
    void a_session_has_one_receiver_until_that_lets_go_of_it() {
        String queue = shared.unusedSessionQueue();
        shared.send(queue, message("a", "1"));
        try (ServiceBusSessionReceiverClient sessions = sessions(queue);
            ServiceBusSessionReceiverClient others = sessions(queue)) {
            try (ServiceBusReceiverClient session = sessions.acceptSession("a")) {
                AmqpException error = assertThrows(AmqpException.class, () -> others.acceptSession("a"));
                assertEquals(SESSION_CANNOT_BE_LOCKED, error.getErrorCondition().getErrorCondition());
                session.complete(receive(session, 1).get(0));
            }
            try (ServiceBusReceiverClient session = Waiting.until("the session", Duration.ofSeconds(10),
                () -> acceptOrNull(others, "a"), accepted -> accepted != null)) {
                assertEquals("a", session.getSessionId());
            }
        }
    }

    @Test
    void a_session_keeps_a_state_and_can_be_renewed() {
        String queue = shared.unusedSessionQueue();
        byte[] state = {1, 2, 3};
        // On connections of their own, as two instances would be.
        try (ServiceBusSessionReceiverClient sessions = sessions(queue);
            ServiceBusSessionReceiverClient others = sessions(queue)) {
            try (ServiceBusReceiverClient session = sessions.acceptSession("a")) {
                assertNull(session.getSessionState());
                session.setSessionState(state);
                OffsetDateTime before = OffsetDateTime.now();
                assertTrue(session.renewSessionLock().isAfter(before.plusSeconds(3)));
            }
            try (ServiceBusReceiverClient session = Waiting.until("the session", Duration.ofSeconds(10),
                () -> acceptOrNull(others, "a"), accepted -> accepted != null)) {
                assertArrayEquals(state, session.getSessionState());
                session.setSessionState(null);
                assertNull(session.getSessionState());
            }
        }
    }

    @Test
    void a_message_without_a_session_is_refused() {
        String queue = shared.unusedSessionQueue();
        try (ServiceBusSenderClient sender = shared.client().sender().queueName(queue).buildClient()) {
            assertThrows(RuntimeException.class, () -> sender.sendMessage(new ServiceBusMessage("stray")));
        }
    }

    @Test
    void a_session_that_is_not_renewed_goes_to_the_next_receiver() {
        String queue = shared.unusedFleetingQueue();
        shared.send(queue, message("a", "slow"));
        try (ServiceBusSessionReceiverClient sessions = shared.client().sessionReceiver().queueName(queue)
                .disableAutoComplete().maxAutoLockRenewDuration(Duration.ZERO).buildClient();
            ServiceBusSessionReceiverClient others = sessions(queue);
            ServiceBusReceiverClient first = sessions.acceptSession("a")) {
            ServiceBusReceivedMessage before = receive(first, 1).get(0);
            try (ServiceBusReceiverClient second = others.acceptNextSession()) {
                assertEquals("a", second.getSessionId());
                ServiceBusReceivedMessage after = receive(second, 1).get(0);
                assertEquals(1, after.getDeliveryCount());
                ServiceBusException error = assertThrows(ServiceBusException.class, () -> first.complete(before));
                assertEquals(ServiceBusFailureReason.SESSION_LOCK_LOST, error.getReason());
                second.complete(after);
            }
        }
    }

    @Test
    void the_lock_of_a_session_is_renewed_while_it_is_held() {
        String queue = shared.unusedFleetingQueue();
        shared.send(queue, message("a", "slow"));
        try (ServiceBusSessionReceiverClient sessions = sessions(queue);
            ServiceBusReceiverClient session = sessions.acceptSession("a")) {
            ServiceBusReceivedMessage message = receive(session, 1).get(0);
            Instant end = Instant.now().plusSeconds(3);
            Waiting.until("the end of three locks", Duration.ofSeconds(10), Instant::now, now -> now.isAfter(end));
            session.complete(message);
            assertNull(session.peekMessage());
        }
    }

    @Test
    void a_deferred_message_is_received_within_its_session() {
        String queue = shared.unusedSessionQueue();
        shared.send(queue, message("a", "later"));
        try (ServiceBusSessionReceiverClient sessions = sessions(queue);
            ServiceBusReceiverClient session = sessions.acceptSession("a")) {
            ServiceBusReceivedMessage message = receive(session, 1).get(0);
            session.defer(message);
            ServiceBusReceivedMessage deferred = session.receiveDeferredMessage(message.getSequenceNumber());
            assertEquals("later", deferred.getBody().toString());
            session.complete(deferred);
            assertNull(session.peekMessage());
        }
    }

    @Test
    void a_processor_of_one_session_at_a_time_goes_on_to_the_next_when_nothing_comes() throws InterruptedException {
        String queue = shared.unusedSessionQueue();
        shared.send(queue, message("a", "1"), message("b", "2"), message("c", "3"));
        CountDownLatch left = new CountDownLatch(3);
        ServiceBusProcessorClient processor = shared.client().sessionProcessor()
            .queueName(queue).maxConcurrentSessions(1).sessionIdleTimeout(Duration.ofMillis(300))
            .processMessage(context -> left.countDown())
            .processError(context -> { })
            .buildProcessorClient();
        try {
            processor.start();
            assertTrue(left.await(40, TimeUnit.SECONDS), () -> left.getCount() + " are missing");
        } finally {
            processor.close();
        }
    }

    @Test
    void a_processor_works_on_several_sessions_at_once_and_on_each_in_order() throws InterruptedException {
        String queue = shared.unusedSessionQueue();
        int sessions = 4;
        int each = 10;
        CountDownLatch left = new CountDownLatch(sessions * each);
        Map<String, Queue<String>> seen = new ConcurrentHashMap<>();
        ServiceBusProcessorClient processor = shared.client().sessionProcessor()
            .queueName(queue).maxConcurrentSessions(sessions).maxConcurrentCalls(1).disableAutoComplete()
            .processMessage(context -> {
                String body = context.getMessage().getBody().toString();
                seen.computeIfAbsent(context.getMessage().getSessionId(), id -> new ConcurrentLinkedQueue<>()).add(body);
                context.complete();
                left.countDown();
            })
            .processError(context -> { })
            .buildProcessorClient();
        try {
            processor.start();
            for (int number = 0; number < each; number++) {
                for (int session = 0; session < sessions; session++) {
                    shared.send(queue, message("s" + session, Integer.toString(number)));
                }
            }
            assertTrue(left.await(40, TimeUnit.SECONDS), () -> left.getCount() + " are missing");
        } finally {
            processor.close();
        }
        List<String> expected = List.of("0", "1", "2", "3", "4", "5", "6", "7", "8", "9");
        assertEquals(sessions, seen.size());
        seen.values().forEach(bodies -> assertEquals(expected, List.copyOf(bodies)));
    }

    private static ServiceBusMessage message(String session, String body) {
        return new ServiceBusMessage(body).setSessionId(session);
    }

    private static ServiceBusSessionReceiverClient sessions(String queue) {
        return shared.client().sessionReceiver().queueName(queue).disableAutoComplete().buildClient();
    }

    /** Letting go of a session travels by itself: whoever accepts it at once may be too early. */
    private static ServiceBusReceiverClient acceptOrNull(ServiceBusSessionReceiverClient sessions, String id) {
        try {
            return sessions.acceptSession(id);
        } catch (AmqpException error) {
            assertEquals(SESSION_CANNOT_BE_LOCKED, error.getErrorCondition().getErrorCondition());
            return null;
        }
    }

    private static final String SESSION_CANNOT_BE_LOCKED = "com.microsoft:session-cannot-be-locked";
}
