package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.core.amqp.AmqpRetryMode;
import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventHubConsumerAsyncClient;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A durable service that ends, in good order or not, and comes back where it was. */
class RestartTest {
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void clients_find_the_service_again_and_go_on_where_they_were(boolean killed) throws Exception {
        Path directory = Service.directory("RestartTest");
        Service service = new Service(directory, 1, false, "", "--data-dir", directory.resolve("data").toString());
        service.start();
        AmqpRetryOptions persistent = new AmqpRetryOptions().setMaxRetries(10).setMode(AmqpRetryMode.FIXED)
            .setDelay(Duration.ofMillis(100)).setTryTimeout(Duration.ofSeconds(10));
        EventHubClientBuilder builder =
            SharedService.clientOf("hub-0", service.connectionString()).retryOptions(persistent);
        SendOptions partition = new SendOptions().setPartitionId("0");
        try (EventHubProducerClient producer = builder.buildProducerClient();
            EventHubConsumerAsyncClient consumer = builder.buildAsyncConsumerClient();
            Following following = Following.persistently(consumer, "0")) {
            producer.send(List.of(new EventData("before")), partition);
            assertEquals("before", following.next());
            if (killed) {
                service.kill();
            } else {
                service.stop();
            }
            service.start();
            producer.send(List.of(new EventData("after")), partition);
            assertEquals("after", following.next());
            assertEquals(1, producer.getPartitionProperties("0").getLastEnqueuedSequenceNumber());
        } finally {
            if (service.isRunning()) {
                service.stop();
            }
        }
    }
}
