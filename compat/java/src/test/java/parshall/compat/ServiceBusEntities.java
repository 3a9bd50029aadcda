package parshall.compat;

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** A service with queues and topics for all tests of a class. Each takes entities of its own. */
final class ServiceBusEntities implements BeforeAllCallback, AfterAllCallback {
    private static final int OF_EACH_KIND = 16;

    private final AtomicInteger queuesUsed = new AtomicInteger();
    private final AtomicInteger briefQueuesUsed = new AtomicInteger();
    private final AtomicInteger sessionQueuesUsed = new AtomicInteger();
    private final AtomicInteger fleetingQueuesUsed = new AtomicInteger();
    private final AtomicInteger topicsUsed = new AtomicInteger();
    private Service service;

    @Override
    public void beforeAll(ExtensionContext context) throws Exception {
        service = new Service(Service.directory(context.getRequiredTestClass().getSimpleName()), 1, false, entities());
        service.start();
    }

    @Override
    public void afterAll(ExtensionContext context) throws Exception {
        service.stop();
    }

    Service service() {
        return service;
    }

    /** A queue with locks of a minute, of which a message leaves after three deliveries. */
    String unusedQueue() {
        return unused("queue-", queuesUsed);
    }

    /** The same with locks of two seconds. */
    String unusedBriefQueue() {
        return unused("brief-", briefQueuesUsed);
    }

    /** A queue that requires sessions. */
    String unusedSessionQueue() {
        return unused("session-", sessionQueuesUsed);
    }

    /** The same, whose sessions are locked for a second. */
    String unusedFleetingQueue() {
        return unused("fleeting-", fleetingQueuesUsed);
    }

    /** A topic with the subscriptions {@code all}, {@code red}, {@code high}, {@code halved} and {@code none}. */
    String unusedTopic() {
        return unused("topic-", topicsUsed);
    }

    /** Clients that do not try again. */
    ServiceBusClientBuilder client() {
        return client(service.connectionString());
    }

    static ServiceBusClientBuilder client(String connectionString) {
        return new ServiceBusClientBuilder().connectionString(connectionString).retryOptions(NO_RETRY);
    }

    /** A receiver that renews no lock by itself. */
    ServiceBusReceiverClient receiver(String queue) {
        return client().receiver().queueName(queue).disableAutoComplete().maxAutoLockRenewDuration(Duration.ZERO).buildClient();
    }

    ServiceBusReceiverClient deadLetters(String queue) {
        return client().receiver().queueName(queue).subQueue(SubQueue.DEAD_LETTER_QUEUE).disableAutoComplete().buildClient();
    }

    void send(String queueOrTopic, ServiceBusMessage... messages) {
        try (ServiceBusSenderClient sender = client().sender().queueName(queueOrTopic).buildClient()) {
            sender.sendMessages(List.of(messages));
        }
    }

    /** Takes messages off a queue until there are {@code count}. */
    List<String> drain(String queue, int count) {
        try (ServiceBusReceiverClient receiver = client().receiver()
            .queueName(queue).receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE).buildClient()) {
            return bodies(receive(receiver, count));
        }
    }

    /** Takes messages off a subscription until there are {@code count}. */
    List<ServiceBusReceivedMessage> drain(String topic, String subscription, int count) {
        try (ServiceBusReceiverClient receiver = client().receiver().topicName(topic).subscriptionName(subscription)
            .receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE).buildClient()) {
            return receive(receiver, count);
        }
    }

    /** Receives until there are {@code count} messages; fails if they do not come. */
    static List<ServiceBusReceivedMessage> receive(ServiceBusReceiverClient receiver, int count) {
        List<ServiceBusReceivedMessage> messages = new ArrayList<>();
        while (messages.size() < count) {
            int before = messages.size();
            receiver.receiveMessages(count - before, PATIENCE).forEach(messages::add);
            if (messages.size() == before) {
                throw new AssertionError("only " + before + " of " + count + " messages came");
            }
        }
        return messages;
    }

    static ServiceBusReceivedMessage receiveOne(ServiceBusReceiverClient receiver) {
        return receive(receiver, 1).get(0);
    }

    /** Whether nothing is to be had. */
    static boolean isEmpty(ServiceBusReceiverClient receiver) {
        return receiver.peekMessage(0) == null;
    }

    static List<String> bodies(List<ServiceBusReceivedMessage> messages) {
        return messages.stream().map(message -> message.getBody().toString()).toList();
    }

    private static String unused(String prefix, AtomicInteger used) {
        int number = used.getAndIncrement();
        if (number >= OF_EACH_KIND) {
            throw new IllegalStateException("there are more tests than entities");
        }
        return prefix + number;
    }

    private static String entities() {
        StringBuilder yaml = new StringBuilder("queues:\n");
        numbered(yaml, "  - {name: queue-%d, maximum_delivery_count: 3}%n");
        numbered(yaml, "  - {name: brief-%d, maximum_delivery_count: 3, lock_duration: 2 s}%n");
        numbered(yaml, "  - {name: session-%d, requires_session: true, lock_duration: 5 s}%n");
        numbered(yaml, "  - {name: fleeting-%d, requires_session: true, lock_duration: 1 s}%n");
        yaml.append("  - {name: once, duplicate_detection: 1 min}\n");
        yaml.append("  - {name: mortal, default_time_to_live: 200 ms, dead_lettering_on_expiration: true}\n");
        yaml.append("  - {name: full, size_limit: 100 KiB}\n");
        yaml.append("topics:\n");
        numbered(yaml, """
              - name: topic-%d
                subscriptions:
                  - {name: all, maximum_delivery_count: 1}
                  - {name: red, rules: [{name: red, filter: {sql: "color = 'red' AND quantity > 5"}}]}
                  - {name: high, rules: [{name: high, filter: {correlation: {correlation_id: high}}}]}
                  - name: halved
                    rules: [{name: halving, filter: {sql: "quantity > 5"}, action: "SET quantity = quantity / 2; REMOVE color"}]
                  - {name: none, rules: []}
            """);
        return yaml.toString();
    }

    private static void numbered(StringBuilder yaml, String format) {
        IntStream.range(0, OF_EACH_KIND).forEach(number -> yaml.append(format.formatted(number)));
    }

    static final Duration PATIENCE = Duration.ofSeconds(20);
    static final AmqpRetryOptions NO_RETRY = new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(PATIENCE);
}
