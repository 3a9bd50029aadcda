package parshall.peer;

import com.azure.messaging.eventhubs.EventHubProducerAsyncClient;
import java.time.Duration;
import java.util.List;
import java.util.stream.IntStream;

/** Clients that stay connected, each with a connection of its own, which calls use in turn. They wait for no thread. */
final class Kept implements Way {
    private final Settings settings;
    private final Answers answers;
    private final List<EventHubProducerAsyncClient> clients;
    private int next;

    Kept(Settings settings, Answers answers) {
        this.settings = settings;
        this.answers = answers;
        this.clients = IntStream.range(0, settings.connectionsKept())
            .mapToObj(number -> settings.client().buildAsyncProducerClient())
            .toList();
        // The link of each is attached.
        clients.forEach(client -> client.createBatch().block(PATIENCE));
    }

    @Override
    public void send(Call call) {
        EventHubProducerAsyncClient client = clients.get(next);
        next = (next + 1) % clients.size();
        client.send(call.events(settings.now()))
            .subscribe(none -> { }, error -> answers.failed(call.number(), error), () -> answers.sent(call.number()));
    }

    @Override
    public void close() {
        clients.forEach(EventHubProducerAsyncClient::close);
    }

    private static final Duration PATIENCE = Duration.ofSeconds(60);
}
