package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

/** A durable service that is killed under clients of Kafka. */
class KafkaRestartTest {
    @Test
    void a_producer_that_goes_on_through_crashes_has_each_record_stored_once_and_in_order() throws Exception {
        try (Service service = durable()) {
            KafkaClients kafka = new KafkaClients(service);
            List<String> sent = new ArrayList<>();
            List<Future<RecordMetadata>> stored = new ArrayList<>();
            try (KafkaProducer<String, String> producer = kafka.producer(
                "batch.size", "500", "reconnect.backoff.ms", "10", "reconnect.backoff.max.ms", "50", "retry.backoff.ms", "20",
                "request.timeout.ms", "20000", "delivery.timeout.ms", "50000")) {
                for (int crash = 0; crash < KILLS; crash++) {
                    int before = stored.size();
                    for (int number = 0; number < 3_000; number++) {
                        sent.add(sent.size() + "");
                        stored.add(producer.send(new ProducerRecord<>("hub-0", 0, null, sent.get(sent.size() - 1))));
                    }
                    // In the middle of them: the first are stored, the last hardly.
                    stored.get(before).get(Events.DEADLINE.toSeconds(), TimeUnit.SECONDS);
                    service.kill();
                    service.start();
                }
                producer.flush();
                for (Future<RecordMetadata> each : stored) {
                    each.get(Events.DEADLINE.toSeconds(), TimeUnit.SECONDS);
                }
            }
            assertEquals(sent, KafkaClients.values(kafka.read("hub-0", 0, sent.size())));
            try (KafkaConsumer<String, String> consumer = kafka.consumer("reader")) {
                TopicPartition partition = new TopicPartition("hub-0", 0);
                assertEquals(Map.of(partition, (long) sent.size()), consumer.endOffsets(Set.of(partition)));
            }
            service.stop();
        }
    }

    @Test
    void topics_keep_their_ids_and_consumers_go_on_where_they_were() throws Exception {
        try (Service service = durable()) {
            KafkaClients kafka = new KafkaClients(service);
            kafka.send("hub-0", 1, "first");
            try (KafkaConsumer<String, String> consumer = kafka.consumer("reader", "reconnect.backoff.max.ms", "50");
                Admin admin = kafka.admin()) {
                consumer.assign(List.of(new TopicPartition("hub-0", 1)));
                assertEquals(List.of("first"), KafkaClients.values(KafkaClients.poll(consumer, 1)));
                var before = KafkaClients.answer(admin.describeTopics(List.of("hub-0")).allTopicNames()).get("hub-0");
                service.kill();
                service.start();
                kafka.send("hub-0", 1, "second");
                assertEquals(List.of("second"), KafkaClients.values(KafkaClients.poll(consumer, 1)));
                assertEquals(before, KafkaClients.answer(admin.describeTopics(List.of("hub-0")).allTopicNames()).get("hub-0"));
            }
            service.stop();
        }
    }

    @Test
    void committed_offsets_are_kept() throws Exception {
        try (Service service = durable()) {
            // What a group has committed is kept by the same journal as transactions.
            KafkaRequests.assumeServed(service, KafkaRequests.END_TXN);
            KafkaClients kafka = new KafkaClients(service);
            TopicPartition partition = new TopicPartition("hub-0", 2);
            try (KafkaConsumer<String, String> consumer = kafka.consumer("keeper", "reconnect.backoff.max.ms", "50")) {
                consumer.assign(List.of(partition));
                consumer.commitSync(Map.of(partition, new OffsetAndMetadata(7, "before")));
                service.kill();
                service.start();
                OffsetAndMetadata committed = consumer.committed(Set.of(partition)).get(partition);
                assertEquals(7, committed.offset());
                assertEquals("before", committed.metadata());
                consumer.commitSync(Map.of(partition, new OffsetAndMetadata(8)));
                service.stop();
                service.start();
                assertEquals(8, consumer.committed(Set.of(partition)).get(partition).offset());
            }
            service.stop();
        }
    }

    private static Service durable() throws Exception {
        Path directory = Service.directory("KafkaRestartTest");
        Service service =
            new Service(directory, 1, false, "", "--kafka", "127.0.0.1:0", "--data-dir", directory.resolve("data").toString());
        service.start();
        return service;
    }

    private static final int KILLS = 4;
}
