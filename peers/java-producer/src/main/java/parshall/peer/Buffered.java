package parshall.peer;

import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubBufferedProducerAsyncClient;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/** The SDK's buffered producer, which lets events gather per partition. A call is answered when its event has been stored. */
final class Buffered implements Way {
    private final Settings settings;
    private final Answers answers;
    private final EventHubBufferedProducerAsyncClient client;
    /** The call of each event that is under way. */
    private final Map<Long, String> calls = new ConcurrentHashMap<>();

    Buffered(Settings settings, Answers answers) {
        this.settings = settings;
        this.answers = answers;
        this.client = settings.bufferedClient()
            .maxWaitTime(settings.delay())
            .onSendBatchSucceeded(context -> answer(context.getEvents(), answers::sent))
            .onSendBatchFailed(context ->
                answer(context.getEvents(), number -> answers.failed(number, context.getThrowable())))
            .buildAsyncClient();
        client.getEventHubProperties().block(PATIENCE);
    }

    @Override
    public void send(Call call) {
        for (EventData event : call.events(settings.now())) {
            long key = key(event);
            calls.put(key, call.number());
            client.enqueueEvent(event).subscribe(count -> { }, error -> {
                calls.remove(key);
                answers.failed(call.number(), error);
            });
        }
    }

    @Override
    public void close() {
        client.close();
    }

    private void answer(Iterable<EventData> events, Consumer<String> how) {
        for (EventData event : events) {
            String number = calls.remove(key(event));
            if (number != null) {
                how.accept(number);
            }
        }
    }

    /** Run, stream and sequence number, which no other event has. */
    private static long key(EventData event) {
        return ByteBuffer.wrap(event.getBody()).getLong(0) >>> Byte.SIZE;
    }

    private static final Duration PATIENCE = Duration.ofSeconds(60);
}
