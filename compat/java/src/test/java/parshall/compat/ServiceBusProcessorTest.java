package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.ServiceBusEntities.receiveOne;

import com.azure.core.amqp.AmqpRetryMode;
import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessageContext;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import java.nio.file.Path;
import java.time.Duration;
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

    @Test
    void locks_are_renewed_while_a_message_takes_long() throws InterruptedException {
        String queue = shared.unusedBriefQueue();
        shared.send(queue, new ServiceBusMessage("slow"));
        BlockingQueue<Long> deliveries = new LinkedBlockingQueue<>();
        CountDownLatch completed = new CountDownLatch(1);
        ServiceBusProcessorClient processor = processor(shared.client(), queue, 2, 0, context -> {
            deliveries.add(context.getMessage().getDeliveryCount());
            pause(Duration.ofSeconds(4));
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
    void a_processor_and_a_sender_find_a_service_again_that_was_away() throws Exception {
        Path directory = Service.directory("ServiceBusRestart");
        Service service = new Service(directory, 1, false, "queues: [{name: jobs}]\n");
        service.start();
        AmqpRetryOptions persistent = new AmqpRetryOptions().setMaxRetries(10).setMode(AmqpRetryMode.FIXED)
            .setDelay(Duration.ofMillis(200)).setTryTimeout(Duration.ofSeconds(10));
        ServiceBusClientBuilder client = ServiceBusEntities.client(service.connectionString()).retryOptions(persistent);
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        ServiceBusProcessorClient processor = processor(client, "jobs", 4, 0, context -> {
            seen.add(context.getMessage().getBody().toString());
            context.complete();
        });
        try (ServiceBusSenderClient sender = client.sender().queueName("jobs").buildClient()) {
            processor.start();
            sender.sendMessage(new ServiceBusMessage("before"));
            assertEquals("before", seen.poll(20, TimeUnit.SECONDS));
            service.kill();
            service.start();
            sender.sendMessage(new ServiceBusMessage("after"));
            assertEquals("after", seen.poll(40, TimeUnit.SECONDS));
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

    /** Work that takes its time. */
    private static void pause(Duration duration) {
        try {
            Thread.sleep(duration.toMillis());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
