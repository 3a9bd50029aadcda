package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.ServiceBusEntities.bodies;
import static parshall.compat.ServiceBusEntities.isEmpty;
import static parshall.compat.ServiceBusEntities.receiveOne;

import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusRuleManagerClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.models.SubQueue;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Topics: which subscription gets what, and rules that come and go. */
class ServiceBusTopicTest {
    @RegisterExtension
    static final ServiceBusEntities shared = new ServiceBusEntities();

    @Test
    void each_subscription_gets_what_its_rules_match() {
        String topic = shared.unusedTopic();
        send(topic, order("one", "red", 10, "high"), order("two", "red", 3, "low"), order("three", "blue", 10, "high"));
        assertEquals(List.of("one", "two", "three"), bodies(shared.drain(topic, "all", 3)));
        assertEquals(List.of("one"), bodies(shared.drain(topic, "red", 1)));
        assertEquals(List.of("one", "three"), bodies(shared.drain(topic, "high", 2)));
        for (String subscription : List.of("all", "red", "high", "none")) {
            try (ServiceBusReceiverClient receiver = receiver(topic, subscription)) {
                assertTrue(isEmpty(receiver), subscription);
            }
        }
    }

    @Test
    void an_action_changes_the_copy_of_its_subscription_alone() {
        String topic = shared.unusedTopic();
        send(topic, order("one", "red", 10, "high"));
        ServiceBusReceivedMessage halved = shared.drain(topic, "halved", 1).get(0);
        assertEquals("one", halved.getBody().toString());
        assertEquals(Map.of("quantity", 5, "RuleName", "halving"), halved.getApplicationProperties());
        ServiceBusReceivedMessage whole = shared.drain(topic, "all", 1).get(0);
        assertEquals(Map.of("color", "red", "quantity", 10), whole.getApplicationProperties());
    }

    @Test
    void a_subscription_has_locks_and_dead_letters_of_its_own() {
        String topic = shared.unusedTopic();
        send(topic, order("one", "red", 10, "high"));
        try (ServiceBusReceiverClient receiver = receiver(topic, "all");
            ServiceBusReceiverClient deadLetters = shared.client().receiver().topicName(topic).subscriptionName("all")
                .subQueue(SubQueue.DEAD_LETTER_QUEUE).disableAutoComplete().buildClient()) {
            receiver.abandon(receiveOne(receiver));
            ServiceBusReceivedMessage dead = receiveOne(deadLetters);
            assertEquals("MaxDeliveryCountExceeded", dead.getDeadLetterReason());
            deadLetters.complete(dead);
        }
        assertEquals(List.of("one"), bodies(shared.drain(topic, "red", 1)));
    }

    @Test
    void rules_are_added_listed_and_removed_while_messages_flow() {
        String topic = shared.unusedTopic();
        try (ServiceBusRuleManagerClient rules =
            shared.client().ruleManager().topicName(topic).subscriptionName("none").buildClient()) {
            assertEquals(List.of(), rules.listRules().stream().toList());
            rules.createRule("sql", new CreateRuleOptions(new SqlRuleFilter("quantity IN (1, 2)"))
                .setAction(new SqlRuleAction("SET counted = TRUE")));
            rules.createRule("correlation", new CreateRuleOptions(new CorrelationRuleFilter("high").setLabel("l")));
            Map<String, RuleProperties> listed = rules.listRules().stream()
                .collect(Collectors.toMap(RuleProperties::getName, rule -> rule));
            assertEquals(
                "quantity IN (1, 2)", assertInstanceOf(SqlRuleFilter.class, listed.get("sql").getFilter()).getSqlExpression());
            assertEquals(
                "SET counted = TRUE", assertInstanceOf(SqlRuleAction.class, listed.get("sql").getAction()).getSqlExpression());
            CorrelationRuleFilter correlation =
                assertInstanceOf(CorrelationRuleFilter.class, listed.get("correlation").getFilter());
            assertEquals(List.of("high", "l"), List.of(correlation.getCorrelationId(), correlation.getLabel()));

            send(topic, order("counted", "red", 1, "low"), order("other", "red", 3, "high"));
            ServiceBusReceivedMessage message = shared.drain(topic, "none", 1).get(0);
            assertEquals(Map.of("color", "red", "quantity", 1, "counted", true, "RuleName", "sql"),
                message.getApplicationProperties());

            ServiceBusException again = assertThrows(ServiceBusException.class,
                () -> rules.createRule("sql", new CreateRuleOptions(new SqlRuleFilter("1=1"))));
            assertEquals(ServiceBusFailureReason.MESSAGING_ENTITY_ALREADY_EXISTS, again.getReason());
            rules.deleteRule("sql");
            rules.deleteRule("correlation");
            ServiceBusException gone = assertThrows(ServiceBusException.class, () -> rules.deleteRule("sql"));
            assertEquals(ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND, gone.getReason());
            send(topic, order("unwanted", "red", 1, "low"));
            try (ServiceBusReceiverClient receiver = receiver(topic, "none")) {
                assertTrue(isEmpty(receiver));
            }
        }
    }

    @Test
    void rules_that_were_added_outlive_a_durable_service_that_is_killed() throws Exception {
        Path directory = Service.directory("ServiceBusRules");
        Service service = new Service(directory, 1, false, "topics: [{name: news, subscriptions: [{name: some}]}]\n",
            "--data-dir", directory.resolve("data").toString());
        service.start();
        try {
            try (ServiceBusRuleManagerClient rules = ServiceBusEntities.client(service.connectionString()).ruleManager()
                .topicName("news").subscriptionName("some").buildClient()) {
                rules.createRule("large", new CreateRuleOptions(new SqlRuleFilter("quantity > 5")));
                rules.deleteRule("$Default");
            }
            service.kill();
            service.start();
            ServiceBusClientBuilder client = ServiceBusEntities.client(service.connectionString());
            try (ServiceBusRuleManagerClient rules =
                    client.ruleManager().topicName("news").subscriptionName("some").buildClient();
                ServiceBusSenderClient sender = client.sender().topicName("news").buildClient();
                ServiceBusReceiverClient receiver = client.receiver().topicName("news").subscriptionName("some")
                    .disableAutoComplete().buildClient()) {
                assertEquals(List.of("large"), rules.listRules().stream().map(RuleProperties::getName).toList());
                sender.sendMessages(List.of(order("small", "red", 1, "low"), order("large", "red", 7, "low")));
                ServiceBusReceivedMessage message = receiveOne(receiver);
                assertEquals("large", message.getBody().toString());
                receiver.complete(message);
                assertTrue(isEmpty(receiver));
            }
        } finally {
            service.stop();
        }
    }

    @Test
    void a_rule_that_cannot_be_read_is_refused_with_the_place_of_the_mistake() {
        String topic = shared.unusedTopic();
        try (ServiceBusRuleManagerClient rules =
            shared.client().ruleManager().topicName(topic).subscriptionName("none").buildClient()) {
            ServiceBusException error = assertThrows(ServiceBusException.class,
                () -> rules.createRule("wrong", new CreateRuleOptions(new SqlRuleFilter("quantity = = 1"))));
            assertTrue(error.getMessage().contains("character 12"), error.getMessage());
        }
    }

    private static void send(String topic, ServiceBusMessage... messages) {
        try (ServiceBusSenderClient sender = shared.client().sender().topicName(topic).buildClient()) {
            sender.sendMessages(List.of(messages));
        }
    }

    private static ServiceBusReceiverClient receiver(String topic, String subscription) {
        return shared.client().receiver().topicName(topic).subscriptionName(subscription).disableAutoComplete().buildClient();
    }

    private static ServiceBusMessage order(String body, String color, int quantity, String priority) {
        ServiceBusMessage message = new ServiceBusMessage(body).setCorrelationId(priority);
        message.getApplicationProperties().putAll(Map.of("color", color, "quantity", quantity));
        return message;
    }
}
