package parshall.compat;

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** A service for all tests of a class. Each takes hubs of its own, so that none sees another's events. */
final class SharedService implements BeforeAllCallback, AfterAllCallback {
    private static final int HUBS = 32;

    private final boolean withBlobs;
    private final String settings;
    private final String[] arguments;
    private final AtomicInteger hubsUsed = new AtomicInteger();
    private Service service;

    private SharedService(boolean withBlobs, String settings, String... arguments) {
        this.withBlobs = withBlobs;
        this.settings = settings;
        this.arguments = arguments;
    }

    SharedService() {
        this(false, "");
    }

    /** With these settings and arguments besides the usual ones. */
    SharedService(String settings, String... arguments) {
        this(false, settings, arguments);
    }

    /** That is a storage account as well, with these arguments besides. */
    static SharedService withBlobs(String... arguments) {
        return new SharedService(true, "", arguments);
    }

    @Override
    public void beforeAll(ExtensionContext context) throws Exception {
        service = new Service(Service.directory(context.getRequiredTestClass().getSimpleName()), HUBS, withBlobs, settings, arguments);
        service.start();
    }

    @Override
    public void afterAll(ExtensionContext context) throws Exception {
        service.stop();
    }

    Service service() {
        return service;
    }

    /** A hub that no other test takes. */
    String unusedHub() {
        int number = hubsUsed.getAndIncrement();
        if (number >= HUBS) {
            throw new IllegalStateException("there are more tests than hubs");
        }
        return "hub-" + number;
    }

    /** Clients of a hub, of `$Default` where they consume, which do not try again. */
    EventHubClientBuilder clientOf(String hub) {
        return clientOf(hub, service.connectionString());
    }

    static EventHubClientBuilder clientOf(String hub, String connectionString) {
        return new EventHubClientBuilder()
            .connectionString(connectionString, hub)
            .consumerGroup(EventHubClientBuilder.DEFAULT_CONSUMER_GROUP_NAME)
            .retryOptions(NO_RETRY);
    }

    static final AmqpRetryOptions NO_RETRY =
        new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(Duration.ofSeconds(20));
}
