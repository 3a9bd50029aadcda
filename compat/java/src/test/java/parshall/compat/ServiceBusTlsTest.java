package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.ServiceBusEntities.bodies;
import static parshall.compat.ServiceBusEntities.receive;

import com.azure.core.amqp.AmqpTransportType;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.SubQueue;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Queues over TLS and WebSocket. The one test that older versions of the client run as well, which know nothing but TLS. */
class ServiceBusTlsTest {
    private static Service service;

    @BeforeAll
    static void start() throws Exception {
        Path directory = Service.directory("ServiceBusTls");
        String queues = """
            queues:
              - {name: settled}
              - {name: processed}
              - {name: web-socket}
              - {name: sessions, requires_session: true}
            """;
        service = new Service(directory, 1, false, queues, "--amqps", "127.0.0.1:0", "--websocket-tls", "127.0.0.1:0",
            "--tls-directory", directory.resolve("tls").toString());
        service.start();
        DevelopmentAuthority.trust(service);
    }

    @AfterAll
    static void stop() throws Exception {
        service.stop();
    }

    @Test
    void messages_are_sent_received_and_settled_in_every_way() {
        try (ServiceBusSenderClient sender = client().sender().queueName("settled").buildClient();
            ServiceBusReceiverClient receiver = client().receiver().queueName("settled").disableAutoComplete().buildClient();
            ServiceBusReceiverClient deadLetters = client().receiver().queueName("settled")
                .subQueue(SubQueue.DEAD_LETTER_QUEUE).disableAutoComplete().buildClient()) {
            sender.sendMessages(numbered(4));
            List<ServiceBusReceivedMessage> messages = receive(receiver, 4);
            assertEquals(List.of("0", "1", "2", "3"), bodies(messages));
            receiver.renewMessageLock(messages.get(0));
            receiver.complete(messages.get(0));
            receiver.deadLetter(messages.get(1), new DeadLetterOptions().setDeadLetterReason("reason"));
            receiver.defer(messages.get(2));
            receiver.abandon(messages.get(3));
            ServiceBusReceivedMessage abandoned = receive(receiver, 1).get(0);
            assertEquals(1, abandoned.getDeliveryCount());
            receiver.complete(abandoned);
            receiver.complete(receiver.receiveDeferredMessage(messages.get(2).getSequenceNumber()));
            ServiceBusReceivedMessage dead = receive(deadLetters, 1).get(0);
            assertEquals("reason", dead.getDeadLetterReason());
            deadLetters.complete(dead);
            assertTrue(ServiceBusEntities.isEmpty(receiver));
        }
    }

    @Test
    void a_processor_completes_every_message() throws InterruptedException {
        int count = 200;
        Set<String> seen = ConcurrentHashMap.newKeySet();
        CountDownLatch left = new CountDownLatch(count);
        ServiceBusProcessorClient processor = client().processor().queueName("processed").maxConcurrentCalls(16)
            .disableAutoComplete()
            .processMessage(context -> {
                seen.add(context.getMessage().getBody().toString());
                context.complete();
                left.countDown();
            })
            .processError(context -> { })
            .buildProcessorClient();
        try (ServiceBusSenderClient sender = client().sender().queueName("processed").buildClient()) {
            processor.start();
            sender.sendMessages(numbered(count));
            assertTrue(left.await(40, TimeUnit.SECONDS), () -> left.getCount() + " are missing");
        } finally {
            processor.close();
        }
        assertEquals(count, seen.size());
    }

    @Test
    void a_session_is_accepted_and_has_a_state() {
        try (ServiceBusSenderClient sender = client().sender().queueName("sessions").buildClient();
            ServiceBusSessionReceiverClient sessions =
                client().sessionReceiver().queueName("sessions").disableAutoComplete().buildClient()) {
            sender.sendMessage(new ServiceBusMessage("1").setSessionId("a"));
            try (ServiceBusReceiverClient session = sessions.acceptNextSession()) {
                assertEquals("a", session.getSessionId());
                session.setSessionState(new byte[] {7});
                session.complete(receive(session, 1).get(0));
                assertEquals(7, session.getSessionState()[0]);
            }
        }
    }

    @Test
    void messages_travel_over_web_socket() {
        ServiceBusClientBuilder client = client("AMQP over WSS").transportType(AmqpTransportType.AMQP_WEB_SOCKETS);
        try (ServiceBusSenderClient sender = client.sender().queueName("web-socket").buildClient();
            ServiceBusReceiverClient receiver =
                client.receiver().queueName("web-socket").disableAutoComplete().buildClient()) {
            sender.sendMessage(new ServiceBusMessage("through"));
            ServiceBusReceivedMessage message = receive(receiver, 1).get(0);
            assertEquals("through", message.getBody().toString());
            receiver.complete(message);
        }
    }

    @Test
    void a_queue_that_is_not_there_is_an_error_at_once() {
        try (ServiceBusSenderClient sender = client().sender().queueName("nowhere").buildClient()) {
            ServiceBusException error =
                assertThrows(ServiceBusException.class, () -> sender.sendMessage(new ServiceBusMessage("lost")));
            assertEquals(ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND, error.getReason());
        }
    }

    private static ServiceBusClientBuilder client() {
        return client("AMQP over TLS");
    }

    /** The port has to be said once more: with TLS the client takes 5671 whatever the connection string says. */
    private static ServiceBusClientBuilder client(String endpoint) {
        return ServiceBusEntities.client(service.tlsConnectionString())
            .customEndpointAddress("https://localhost:" + service.port(endpoint));
    }

    private static List<ServiceBusMessage> numbered(int count) {
        return IntStream.range(0, count).mapToObj(number -> new ServiceBusMessage(Integer.toString(number))).toList();
    }
}
