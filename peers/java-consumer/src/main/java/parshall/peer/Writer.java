package parshall.peer;

import com.azure.core.util.BinaryData;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.models.EventBatchContext;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusSenderAsyncClient;
import com.azure.storage.blob.BlobContainerAsyncClient;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * What is done with each batch, as the study's four loops do it: every event is sent to the topic and stored as a blob, and when all of
 * them are, the batch is checkpointed. The loops differ in how many events are worked on at once, and in whether the blob waits for
 * the topic.
 */
final class Writer {
    private final ServiceBusSenderAsyncClient topic;
    private final BlobContainerAsyncClient archive;
    private final String hub;
    private final int eventsAtOnce;
    private final boolean bothAtOnce;

    Writer(ServiceBusSenderAsyncClient topic, BlobContainerAsyncClient archive, Settings settings) {
        this.topic = topic;
        this.archive = archive;
        this.hub = settings.source().name();
        this.eventsAtOnce = settings.eventsAtOnce();
        this.bothAtOnce = settings.bothAtOnce();
    }

    /** Writes one batch, and returns when all of it is in topic and archive and checkpointed. */
    void write(EventBatchContext batch) {
        if (batch.getEvents().isEmpty()) {
            return;
        }
        String partition = batch.getPartitionContext().getPartitionId();
        int atOnce = Math.min(eventsAtOnce, batch.getEvents().size());
        Flux.fromIterable(batch.getEvents())
                .flatMap(event -> write(partition, event), atOnce, 1)
                .then()
                .block();
        batch.updateCheckpoint();
    }

    private Mono<Void> write(String partition, EventData event) {
        BinaryData body = event.getBodyAsBinaryData();
        var message = new ServiceBusMessage(body);
        message.getApplicationProperties().putAll(event.getProperties());
        // The same name if the event comes again, which writes the same over it.
        String name = hub + "/" + partition + "/" + event.getSequenceNumber();
        Mono<Void> sent = topic.sendMessage(message);
        Mono<Void> stored = archive.getBlobAsyncClient(name).upload(body, true).then();
        return bothAtOnce ? Mono.when(sent, stored) : sent.then(stored);
    }
}
