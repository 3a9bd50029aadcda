package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.KafkaClients.answer;
import static parshall.compat.KafkaClients.failureOf;
import static parshall.compat.KafkaClients.login;

import java.nio.file.Path;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.UnsupportedSaslMechanismException;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Who may come in, and what the clients of Kafka say to those who may not. */
class KafkaAccessTest {
    @RegisterExtension
    static final SharedService shared = new SharedService(
        "", "--kafka", "127.0.0.1:0", "--kafka-tls", "127.0.0.1:0", "--tls-directory", tlsDirectory().toString());

    private static KafkaClients kafka;

    @BeforeAll
    static void connect() {
        kafka = new KafkaClients(shared.service());
    }

    @Test
    void a_wrong_key_is_refused_and_named() {
        String wrong = shared.service().connectionStringWith("RootManageSharedAccessKey", "no such value");
        assertRefused("sasl.jaas.config", login("$ConnectionString", wrong));
        assertRefused("sasl.jaas.config", login("listener", "no such value"));
    }

    private static void assertRefused(String... settings) {
        try (Admin admin = kafka.admin(settings)) {
            Throwable error = failureOf(() -> answer(admin.listTopics().names()));
            assertInstanceOf(SaslAuthenticationException.class, error);
            assertTrue(error.getMessage().contains("Invalid key name or key value"), error::getMessage);
        }
    }

    @Test
    void an_unknown_mechanism_is_refused() {
        try (Admin admin = kafka.admin("sasl.mechanism", "SCRAM-SHA-256",
            "sasl.jaas.config", login("listener", "x").replace("plain.Plain", "scram.Scram"))) {
            assertInstanceOf(UnsupportedSaslMechanismException.class, failureOf(() -> answer(admin.listTopics().names())));
        }
    }

    @Test
    void a_key_allows_what_it_says_by_whichever_name_it_is_given() throws Exception {
        String topic = shared.unusedHub();
        kafka.send(topic, 0, "allowed");
        String whole = shared.service().connectionStringWith("listener", "listen-only-value");
        for (String login : new String[] {login("$ConnectionString", whole), login("listener", "listen-only-value")}) {
            assertEquals("allowed", kafka.read(topic, 0, 1, "sasl.jaas.config", login).get(0).value());
            try (KafkaProducer<String, String> producer = kafka.producer("sasl.jaas.config", login, "enable.idempotence", "false")) {
                Throwable error = failureOf(() -> producer.send(new ProducerRecord<>(topic, 0, null, "x")).get());
                assertInstanceOf(TopicAuthorizationException.class, error);
            }
        }
    }

    @Test
    void records_travel_over_tls() throws Exception {
        String topic = shared.unusedHub();
        String[] tls = {
            "bootstrap.servers", "localhost:" + shared.service().port("Kafka over TLS"), "security.protocol", "SASL_SSL",
            "ssl.truststore.type", "PEM", "ssl.truststore.location", shared.service().told("Trusted authority")};
        try (KafkaProducer<String, String> producer = kafka.producer(tls)) {
            producer.send(new ProducerRecord<>(topic, 0, null, "secret")).get();
        }
        assertEquals("secret", kafka.read(topic, 0, 1, tls).get(0).value());
    }

    private static Path tlsDirectory() {
        try {
            return Service.directory("tls");
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
