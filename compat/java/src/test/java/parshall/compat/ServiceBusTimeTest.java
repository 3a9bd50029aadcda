package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessageContext;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Time under control: what the client sees once the service's clock was advanced, and its own was not. */
class ServiceBusTimeTest {
    private static final Duration LOCK = Duration.ofSeconds(2);
    private Service service;

    @BeforeEach
    void start() throws Exception {
        String queues = "queues:\n"
            + "  - {name: brief, lock_duration: 2 s}\n"
            + "  - {name: sessions, lock_duration: 2 s, requires_session: true}\n";
        service = new Service(Service.directory("ServiceBusTime"), 1, false, queues, "--time-control");
        service.start();
    }

    @AfterEach
    void stop() throws Exception {
        service.stop();
    }

    @ParameterizedTest
    @ValueSource(strings = {"brief", "sessions"})
    void an_idle_processor_is_given_what_came_once_and_keeps_its_lock(String queue) throws Exception {
        boolean inSession = "sessions".equals(queue);
        ServiceBusClientBuilder client = ServiceBusEntities.client(service.connectionString());
        CompletableFuture<ServiceBusReceivedMessage> worked = new CompletableFuture<>();
        CompletableFuture<Duration> left = new CompletableFuture<>();
        ServiceBusProcessorClient processor = inSession
            ? client.sessionProcessor().queueName(queue).disableAutoComplete()
                .processMessage(context -> work(context, worked, left))
                .processError(context -> { }).buildProcessorClient()
            : client.processor().queueName(queue).disableAutoComplete()
                .processMessage(context -> work(context, worked, left))
                .processError(context -> { }).buildProcessorClient();
        try (ServiceBusSenderClient sender = client.sender().queueName(queue).buildClient()) {
            processor.start();
            ServiceBusMessage later = new ServiceBusMessage("later");
            ServiceBusMessage another = new ServiceBusMessage("another");
            if (inSession) {
                later.setSessionId("one");
                another.setSessionId("two");
            }
            assertNotNull(sender.scheduleMessage(later, OffsetDateTime.ofInstant(service.now(), ZoneOffset.UTC).plusHours(7)));
            String happened = service.advance("8 h");
            assertTrue(happened.contains("\"scheduled_messages_enqueued\":1"), happened);
            ServiceBusReceivedMessage message = worked.get(40, TimeUnit.SECONDS);
            assertEquals("later 0", message.getBody() + " " + message.getDeliveryCount());
            // In a session it is the session that is locked.
            if (!inSession) {
                Duration remaining = left.get();
                assertTrue(remaining.compareTo(Duration.ZERO) > 0 && remaining.compareTo(LOCK) <= 0, remaining::toString);
            }
            // With what it has signed before the advance.
            sender.sendMessage(another);
        } finally {
            processor.close();
        }
    }

    /** For longer than the lock lasts by itself. */
    private static void work(ServiceBusReceivedMessageContext context, CompletableFuture<ServiceBusReceivedMessage> worked,
        CompletableFuture<Duration> left) {
        try {
            ServiceBusReceivedMessage message = context.getMessage();
            if (message.getLockedUntil() != null) {
                left.complete(Duration.between(OffsetDateTime.now(), message.getLockedUntil()));
            }
            Thread.sleep(LOCK.plusSeconds(1).toMillis());
            context.complete();
            worked.complete(message);
        } catch (InterruptedException | RuntimeException failed) {
            worked.completeExceptionally(failed);
        }
    }
}
