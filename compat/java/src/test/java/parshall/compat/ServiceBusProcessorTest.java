package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.ServiceBusEntities.receiveOne;

import com.azure.core.amqp.AmqpRetryMode;
import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.util.ConfigurationBuilder;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessageContext;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The processor, with as many calls at a time as it is told. */
class ServiceBusProcessorTest {
    @RegisterExtension
    static final ServiceBusEntities shared = new ServiceBusEntities();

    @ParameterizedTest
    @CsvSource({"1, 0", "1, 50", "32, 0", "32, 50"})
    void every_message_is_processed_and_never_more_at_once_than_allowed(int calls, int prefetch) throws InterruptedException {
        String queue = shared.unusedQueue();
        int count = 500;
        shared.send(queue, numbered(count));
        Set<String> seen = ConcurrentHashMap.newKeySet();
        AtomicInteger running = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        CountDownLatch left = new CountDownLatch(count);
        ServiceBusProcessorClient processor = processor(shared.client(), queue, calls, prefetch, context -> {
            most.accumulateAndGet(running.incrementAndGet(), Math::max);
            seen.add(context.getMessage().getBody().toString());
            context.complete();
            running.decrementAndGet();
            left.countDown();
        });
        try {
            processor.start();
            assertTrue(left.await(50, TimeUnit.SECONDS), () -> left.getCount() + " are missing");
        } finally {
            processor.close();
        }
        assertEquals(count, seen.size());
        assertTrue(most.get() <= calls, () -> most + " at once");
        assertNothingIsLeft(queue);
    }

    @Test
    void a_message_that_cannot_be_processed_ends_as_a_dead_letter_and_the_others_are_completed() throws InterruptedException {
        String queue = shared.unusedQueue();
        shared.send(queue, numbered(10));
        CountDownLatch left = new CountDownLatch(9);
        ServiceBusProcessorClient processor = shared.client().processor().queueName(queue).maxConcurrentCalls(4)
            .processMessage(context -> {
                if ("7".equals(context.getMessage().getBody().toString())) {
                    throw new IllegalStateException("on purpose");
                }
                left.countDown();
            })
            .processError(context -> { })
            .buildProcessorClient();
        try (ServiceBusReceiverClient deadLetters = shared.deadLetters(queue)) {
            processor.start();
            assertEquals("7", receiveOne(deadLetters).getBody().toString());
            assertTrue(left.await(20, TimeUnit.SECONDS));
        } finally {
            processor.close();
        }
        assertNothingIsLeft(queue);
    }

    /** Its stack before the present one, which settles by request what it has renewed. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void locks_are_renewed_while_a_message_takes_long(boolean present) throws InterruptedException {
        String queue = shared.unusedBriefQueue();
        shared.send(queue, new ServiceBusMessage("slow"));
        BlockingQueue<Long> deliveries = new LinkedBlockingQueue<>();
        CountDownLatch completed = new CountDownLatch(1);
        ServiceBusClientBuilder client = shared.client().configuration(new ConfigurationBuilder()
            .putProperty("com.azure.messaging.servicebus.nonSession.asyncReceive.v2", Boolean.toString(present))
            .build());
        ServiceBusProcessorClient processor = processor(client, queue, 2, 0, context -> {
            deliveries.add(context.getMessage().getDeliveryCount());
            pause(Duration.ofSeconds(3));
            context.complete();
            completed.countDown();
        });
        try {
            processor.start();
            assertTrue(completed.await(20, TimeUnit.SECONDS));
        } finally {
            processor.close();
        }
        assertEquals(1, deliveries.size());
        assertEquals(0, deliveries.take());
        assertNothingIsLeft(queue);
    }

    @Test
    void nothing_is_missed_when_the_service_is_killed_in_the_middle_and_comes_back() throws Exception {
        Path directory = Service.directory("ServiceBusRestart");
        Service service = new Service(directory, 1, false, "queues: [{name: jobs}]\n",
            "--data-dir", directory.resolve("data").toString());
        service.start();
        AmqpRetryOptions persistent = new AmqpRetryOptions().setMaxRetries(10).setMode(AmqpRetryMode.FIXED)
            .setDelay(Duration.ofMillis(200)).setTryTimeout(Duration.ofSeconds(10));
        ServiceBusClientBuilder client = ServiceBusEntities.client(service.connectionString()).retryOptions(persistent);
        int count = 200;
        Set<String> seen = ConcurrentHashMap.newKeySet();
        CountDownLatch half = new CountDownLatch(count / 2);
        CountDownLatch killed = new CountDownLatch(1);
        ServiceBusProcessorClient processor = processor(client, "jobs", 4, 0, context -> {
            // Before it is completed: what was completed as the service was killed does not come again, and nobody is told.
            seen.add(context.getMessage().getBody().toString());
            half.countDown();
            if (half.getCount() == 0) {
                await(killed);
            }
            context.complete();
        });
        try (ServiceBusSenderClient sender = client.sender().queueName("jobs").buildClient();
            ServiceBusReceiverClient receiver = client.receiver().queueName("jobs").disableAutoComplete().buildClient()) {
            sender.sendMessages(List.of(numbered(count)));
            processor.start();
            assertTrue(half.await(20, TimeUnit.SECONDS));
            service.kill();
            service.start();
            killed.countDown();
            sender.sendMessage(new ServiceBusMessage("after"));
            Waiting.until("every message", Duration.ofSeconds(40), seen::size, size -> size == count + 1);
            Waiting.until("an empty queue", Duration.ofSeconds(10), () -> ServiceBusEntities.isEmpty(receiver), empty -> empty);
        } finally {
            processor.close();
            service.stop();
        }
    }

    private static ServiceBusProcessorClient processor(ServiceBusClientBuilder client, String queue, int calls, int prefetch,
        Consumer<ServiceBusReceivedMessageContext> work) {
        return client.processor().queueName(queue).maxConcurrentCalls(calls).prefetchCount(prefetch).disableAutoComplete()
            .processMessage(work).processError(context -> { }).buildProcessorClient();
    }

    private static void assertNothingIsLeft(String queue) {
        try (ServiceBusReceiverClient receiver = shared.receiver(queue)) {
            Waiting.until("an empty queue", Duration.ofSeconds(10),
                () -> ServiceBusEntities.isEmpty(receiver), empty -> empty);
        }
    }

    private static ServiceBusMessage[] numbered(int count) {
        return IntStream.range(0, count)
            .mapToObj(number -> new ServiceBusMessage(Integer.toString(number)))
            .toArray(ServiceBusMessage[]::new);
    }

    private static void await(CountDownLatch latch) {
        try {
            assertTrue(latch.await(20, TimeUnit.SECONDS));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Work that takes its time. */
    private static void pause(Duration duration) {
        try {
            Thread.sleep(duration.toMillis());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
