package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static parshall.compat.Events.bodies;
import static parshall.compat.Events.receive;
import static parshall.compat.Events.send;
import static parshall.compat.Failures.assertFails;

import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventHubConsumerAsyncClient;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What does not exist is not found, and what is not allowed is not done; and the client knows that it is final. */
class RefusalTest {
    @RegisterExtension
    static final SharedService shared = new SharedService();

    private static long lastSequenceNumber(String hub) {
        try (EventHubProducerClient client = shared.clientOf(hub).buildProducerClient()) {
            return client.getPartitionProperties("0").getLastEnqueuedSequenceNumber();
        }
    }

    @Test
    void an_unknown_hub_is_not_found() {
        assertFails(AmqpErrorCondition.NOT_FOUND, false, "could not be found",
            () -> send(shared.clientOf("nowhere"), "0", "lost"));
        assertFails(AmqpErrorCondition.NOT_FOUND, false, "could not be found",
            () -> receive(shared.clientOf("nowhere"), "0", 1));
    }

    @Test
    void an_unknown_consumer_group_is_not_found() {
        String hub = shared.unusedHub();
        assertFails(AmqpErrorCondition.NOT_FOUND, false, "could not be found",
            () -> receive(shared.clientOf(hub).consumerGroup("nobody"), "0", 1));
    }

    @Test
    void an_unknown_partition_is_out_of_range() {
        String hub = shared.unusedHub();
        String unknown = Integer.toString(Service.PARTITIONS);
        assertFails(AmqpErrorCondition.ARGUMENT_OUT_OF_RANGE_ERROR, false, "partition",
            () -> send(shared.clientOf(hub), unknown, "lost"));
        assertFails(AmqpErrorCondition.ARGUMENT_OUT_OF_RANGE_ERROR, false, "partition",
            () -> receive(shared.clientOf(hub), unknown, 1));
    }

    @ParameterizedTest
    @CsvSource({"RootManageSharedAccessKey, guess", "nobody, SAS_KEY_VALUE"})
    void a_wrong_key_sends_nothing_reads_nothing_and_learns_nothing(String name, String key) {
        String hub = shared.unusedHub();
        send(shared.clientOf(hub), "0", "secret");
        EventHubClientBuilder wrong =
            SharedService.clientOf(hub, shared.service().connectionStringWith(name, key));
        assertFails(AmqpErrorCondition.UNAUTHORIZED_ACCESS, false, "", () -> send(wrong, "0", "forged"));
        assertFails(AmqpErrorCondition.UNAUTHORIZED_ACCESS, false, "", () -> receive(wrong, "0", 1));
        try (EventHubProducerClient client = wrong.buildProducerClient()) {
            assertFails(AmqpErrorCondition.UNAUTHORIZED_ACCESS, false, "", client::getEventHubProperties);
        }
        assertEquals(0, lastSequenceNumber(hub));
    }

    @Test
    void a_key_that_may_only_listen_listens_only() {
        String hub = shared.unusedHub();
        send(shared.clientOf(hub), "0", "heard");
        EventHubClientBuilder listener =
            SharedService.clientOf(hub, shared.service().connectionStringWith("listener", "listen-only-value"));
        assertEquals(List.of("heard"), bodies(receive(listener, "0", 1)));
        assertFails(AmqpErrorCondition.UNAUTHORIZED_ACCESS, false, "'Send' claim(s) are required",
            () -> send(listener, "0", "forged"));
        assertEquals(0, lastSequenceNumber(hub));
    }

    @Test
    void a_token_of_ones_own_is_as_good_as_a_key() throws Exception {
        String hub = shared.unusedHub();
        send(withToken(hub, token(hub, "SAS_KEY_VALUE", 600)), "0", "signed");
        assertEquals(List.of("signed"), bodies(receive(withToken(hub, token(hub, "SAS_KEY_VALUE", 600)), "0", 1)));
    }

    @Test
    void a_token_that_is_not_good_opens_nothing() throws Exception {
        String hub = shared.unusedHub();
        for (String token : List.of(token(hub, "guess", 600), token(hub, "SAS_KEY_VALUE", -60))) {
            assertFails(AmqpErrorCondition.UNAUTHORIZED_ACCESS, false, "", () -> send(withToken(hub, token), "0", "forged"));
        }
        assertEquals(-1, lastSequenceNumber(hub));
    }

    private static EventHubClientBuilder withToken(String hub, String token) {
        return SharedService.clientOf(hub, shared.service().connectionStringWithToken(token));
    }

    private static String token(String hub, String key, long expiresInS) throws Exception {
        String resource = URLEncoder.encode("sb://localhost/" + hub, StandardCharsets.UTF_8);
        long expiry = Instant.now().getEpochSecond() + expiresInS;
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
        byte[] digest = mac.doFinal((resource + "\n" + expiry).getBytes(StandardCharsets.UTF_8));
        String signature = URLEncoder.encode(Base64.getEncoder().encodeToString(digest), StandardCharsets.UTF_8);
        return "SharedAccessSignature sr=%s&sig=%s&se=%d&skn=RootManageSharedAccessKey".formatted(resource, signature, expiry);
    }

    @Test
    void clients_of_a_hub_that_is_deleted_are_told_that_it_is_gone_for_good() throws Exception {
        String hub = shared.unusedHub();
        send(shared.clientOf(hub), "0", "first");
        try (EventHubConsumerAsyncClient consumer = shared.clientOf(hub).buildAsyncConsumerClient();
            EventHubProducerClient producer = shared.clientOf(hub).buildProducerClient();
            Following following = new Following(consumer.receiveFromPartition("0", EventPosition.earliest()))) {
            assertEquals("first", following.next());
            SendOptions partition = new SendOptions().setPartitionId("0");
            producer.send(List.of(new EventData("second")), partition);
            assertEquals("second", following.next());
            shared.service().run("hub", "delete", hub);
            Failures.assertIs(AmqpErrorCondition.NOT_FOUND, false, "could not be found", following.error());
            assertFails(AmqpErrorCondition.NOT_FOUND, false, "could not be found",
                () -> producer.send(List.of(new EventData("lost")), partition));
        }
    }
}
