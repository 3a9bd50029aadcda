package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.ServiceBusEntities.bodies;
import static parshall.compat.ServiceBusEntities.receiveOne;

import com.azure.core.exception.ClientAuthenticationException;
import com.azure.core.exception.HttpResponseException;
import com.azure.core.exception.ResourceExistsException;
import com.azure.core.exception.ResourceNotFoundException;
import com.azure.core.http.HttpPipelineCallContext;
import com.azure.core.http.HttpPipelineNextPolicy;
import com.azure.core.http.HttpPipelineNextSyncPolicy;
import com.azure.core.http.HttpPipelinePosition;
import com.azure.core.http.HttpResponse;
import com.azure.core.http.policy.HttpPipelinePolicy;
import com.azure.core.util.UrlBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.EntityStatus;
import com.azure.messaging.servicebus.administration.models.FalseRuleFilter;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.QueueRuntimeProperties;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.administration.models.SubscriptionProperties;
import java.net.MalformedURLException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import reactor.core.publisher.Mono;

/** Queues, topics, subscriptions and rules, administered by the official client. */
class ServiceBusAdministrationTest {
    @RegisterExtension
    static final ServiceBusEntities ENTITIES = new ServiceBusEntities();

    /** Entries of a page as the client asks for it. */
    private static final int PAGE = 100;

    private final ServiceBusAdministrationClient client = client(ENTITIES.service().connectionString());

    @Test
    void a_queue_is_made_told_changed_and_deleted() {
        CreateQueueOptions options = new CreateQueueOptions().setLockDuration(Duration.ofMinutes(2)).setMaxDeliveryCount(4)
            .setUserMetadata("mine");
        QueueProperties made = client.createQueue("made/deep", options);
        assertEquals("made/deep", made.getName());
        assertEquals(Duration.ofMinutes(2), made.getLockDuration());
        assertEquals(4, made.getMaxDeliveryCount());
        assertEquals(1024, made.getMaxSizeInMegabytes());
        assertEquals(EntityStatus.ACTIVE, made.getStatus());
        client.updateQueue(made.setLockDuration(Duration.ofSeconds(30)).setDefaultMessageTimeToLive(Duration.ofMinutes(3)));
        QueueProperties told = client.getQueue("MADE/deep");
        assertEquals(Duration.ofSeconds(30), told.getLockDuration());
        assertEquals(Duration.ofMinutes(3), told.getDefaultMessageTimeToLive());
        assertEquals("mine", told.getUserMetadata());
        assertTrue(client.getQueueExists("made/deep"));
        client.deleteQueue("made/deep");
        assertFalse(client.getQueueExists("made/deep"));
    }

    @Test
    void figures_follow_what_is_sent() {
        client.createQueue("counted");
        ENTITIES.send("counted", new ServiceBusMessage("1"), new ServiceBusMessage("2"), new ServiceBusMessage("3"));
        try (ServiceBusReceiverClient receiver = ENTITIES.receiver("counted")) {
            receiver.deadLetter(receiveOne(receiver));
        }
        QueueRuntimeProperties told = client.getQueueRuntimeProperties("counted");
        assertEquals(List.of(2, 1), List.of(told.getActiveMessageCount(), told.getDeadLetterMessageCount()));
        assertEquals(3, told.getTotalMessageCount());
        assertFalse(told.getAccessedAt().isBefore(told.getCreatedAt()));
    }

    @Test
    void a_list_goes_on_over_the_end_of_a_page() {
        List<String> names = IntStream.rangeClosed(0, PAGE).mapToObj("paged-%03d"::formatted).toList();
        names.forEach(client::createQueue);
        List<String> listed = client.listQueues().stream().map(QueueProperties::getName).toList();
        assertEquals(names, listed.stream().filter(name -> name.startsWith("paged-")).toList());
        assertEquals(listed.size(), listed.stream().distinct().count());
    }

    @Test
    void topics_subscriptions_and_rules_are_administered_while_they_are_used() {
        client.createTopic("papers");
        CorrelationRuleFilter correlation = new CorrelationRuleFilter("c").setLabel("red");
        Map<String, Object> values = Map.of("text", "words", "int", 7, "long", 1L << 40, "double", 0.5, "truth", true);
        correlation.getProperties().putAll(values);
        client.createSubscription("papers", "ruled", "first", new CreateSubscriptionOptions(),
            new CreateRuleOptions().setFilter(correlation));
        RuleProperties first = client.listRules("papers", "ruled").stream().findFirst().orElseThrow();
        assertEquals("first", first.getName());
        CorrelationRuleFilter told = assertInstanceOf(CorrelationRuleFilter.class, first.getFilter());
        assertEquals("red", told.getLabel());
        // This client writes and reads every value as text.
        Map<String, Object> texts = new HashMap<>();
        values.forEach((key, value) -> texts.put(key, value.toString()));
        assertEquals(texts, told.getProperties());
        SqlRuleFilter sql = new SqlRuleFilter("size = @size");
        sql.getParameters().put("@size", "large");
        SqlRuleAction action = new SqlRuleAction("SET seen = 'yes'");
        client.createRule("papers", "sql", "ruled", new CreateRuleOptions().setFilter(sql).setAction(action));
        SqlRuleFilter toldSql = assertInstanceOf(SqlRuleFilter.class, client.getRule("papers", "ruled", "sql").getFilter());
        assertEquals(Map.of("@size", "large"), toldSql.getParameters());
        for (String size : List.of("small", "large")) {
            ServiceBusMessage message = new ServiceBusMessage(size);
            message.getApplicationProperties().put("size", size);
            ENTITIES.send("papers", message);
        }
        List<ServiceBusReceivedMessage> received = ENTITIES.drain("papers", "ruled", 1);
        assertEquals(List.of("large"), bodies(received));
        assertEquals("yes", received.get(0).getApplicationProperties().get("seen"));
        client.updateRule("papers", "ruled", client.getRule("papers", "ruled", "sql").setFilter(new FalseRuleFilter()));
        assertInstanceOf(FalseRuleFilter.class, client.getRule("papers", "ruled", "sql").getFilter());
        SubscriptionProperties subscription = client.getSubscription("papers", "ruled");
        client.updateSubscription(subscription.setMaxDeliveryCount(3));
        assertEquals(3, client.getSubscription("papers", "ruled").getMaxDeliveryCount());
        assertEquals(1, client.getTopicRuntimeProperties("papers").getSubscriptionCount());
        client.deleteRule("papers", "ruled", "sql");
        client.deleteSubscription("papers", "ruled");
        client.deleteTopic("papers");
        assertFalse(client.getTopicExists("papers"));
    }

    @Test
    void what_can_not_be_is_refused_with_the_clients_own_errors() {
        client.createQueue("taken");
        assertThrows(ResourceExistsException.class, () -> client.createQueue("TAKEN"));
        assertThrows(ResourceExistsException.class, () -> client.createTopic("taken"));
        assertThrows(ResourceNotFoundException.class, () -> client.getQueue("missing"));
        assertThrows(ResourceNotFoundException.class, () -> client.deleteQueue("missing"));
        CreateQueueOptions wrong = new CreateQueueOptions().setAutoDeleteOnIdle(Duration.ofMinutes(1));
        assertEquals(400, statusOf(() -> client.createQueue("wrong", wrong)));
        String listener = ENTITIES.service().connectionStringWith("listener", "listen-only-value");
        assertThrows(ClientAuthenticationException.class, () -> client(listener).createQueue("denied"));
    }

    @Test
    void messages_go_along_a_chain_that_is_made() {
        client.createQueue("end");
        client.createQueue("begin", new CreateQueueOptions().setForwardTo("end"));
        ENTITIES.send("begin", new ServiceBusMessage("along"));
        assertEquals(List.of("along"), ENTITIES.drain("end", 1));
        assertTrue(client.getQueue("begin").getForwardTo().endsWith("/end"));
    }

    @Test
    void a_status_holds_for_links_that_are_open() {
        QueueProperties queue = client.createQueue("switched");
        try (ServiceBusSenderClient sender = ENTITIES.client().sender().queueName("switched").buildClient()) {
            sender.sendMessage(new ServiceBusMessage("before"));
            client.updateQueue(queue.setStatus(EntityStatus.SEND_DISABLED));
            assertThrows(ServiceBusException.class, () -> sender.sendMessage(new ServiceBusMessage("refused")));
        }
        client.updateQueue(queue.setStatus(EntityStatus.ACTIVE));
        ENTITIES.send("switched", new ServiceBusMessage("after"));
        assertEquals(List.of("before", "after"), ENTITIES.drain("switched", 2));
    }

    @Test
    void the_namespace_tells_what_it_is() {
        assertFalse(client.getNamespaceProperties().getName().isEmpty());
    }

    private static int statusOf(Runnable refused) {
        return assertThrows(HttpResponseException.class, refused::run).getResponse().getStatusCode();
    }

    /** The client asks port 443 by TLS, whatever its connection string says. */
    private static ServiceBusAdministrationClient client(String connectionString) {
        return new ServiceBusAdministrationClientBuilder()
            .connectionString(connectionString)
            .addPolicy(new ToTheService(ENTITIES.service().port("AMQP")))
            .buildClient();
    }

    /** Sends requests to the port of the service, in plain. */
    private record ToTheService(int port) implements HttpPipelinePolicy {
        @Override
        public Mono<HttpResponse> process(HttpPipelineCallContext context, HttpPipelineNextPolicy next) {
            redirect(context);
            return next.process();
        }

        @Override
        public HttpResponse processSync(HttpPipelineCallContext context, HttpPipelineNextSyncPolicy next) {
            redirect(context);
            return next.processSync();
        }

        @Override
        public HttpPipelinePosition getPipelinePosition() {
            return HttpPipelinePosition.PER_RETRY;
        }

        private void redirect(HttpPipelineCallContext context) {
            UrlBuilder url = UrlBuilder.parse(context.getHttpRequest().getUrl());
            try {
                context.getHttpRequest().setUrl(url.setScheme("http").setPort(port).toUrl());
            } catch (MalformedURLException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
