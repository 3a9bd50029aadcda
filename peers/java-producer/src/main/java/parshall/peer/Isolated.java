package parshall.peer;

import com.azure.messaging.eventhubs.EventHubProducerClient;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** A client for each call, closed after it, each on a thread of its own as in the published study. */
final class Isolated implements Way {
    private final Settings settings;
    private final Answers answers;
    private final ExecutorService threads = Executors.newCachedThreadPool();

    Isolated(Settings settings, Answers answers) {
        this.settings = settings;
        this.answers = answers;
    }

    @Override
    public void send(Call call) {
        threads.execute(() -> {
            try (EventHubProducerClient client = settings.client().buildProducerClient()) {
                client.send(call.events(settings.now()));
                answers.sent(call.number());
            } catch (RuntimeException error) {
                answers.failed(call.number(), error);
            }
        });
    }

    @Override
    public void close() {
        threads.shutdown();
        try {
            threads.awaitTermination(5, TimeUnit.SECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
