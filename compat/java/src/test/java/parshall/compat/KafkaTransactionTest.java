package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static parshall.compat.KafkaClients.answer;
import static parshall.compat.KafkaClients.failureOf;
import static parshall.compat.KafkaClients.poll;
import static parshall.compat.KafkaClients.values;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Transactions: all or nothing, also through a crash of the service. */
class KafkaTransactionTest {
    @RegisterExtension
    static final SharedService shared = new SharedService("", "--kafka", "127.0.0.1:0");

    private KafkaClients kafka;

    @BeforeEach
    void connect() throws Exception {
        KafkaRequests.assumeServed(shared.service(), KafkaRequests.ADD_PARTITIONS_TO_TXN, KafkaRequests.ADD_OFFSETS_TO_TXN,
            KafkaRequests.END_TXN, KafkaRequests.TXN_OFFSET_COMMIT);
        kafka = new KafkaClients(shared.service());
    }

    @Test
    void what_is_committed_is_read_and_what_is_aborted_is_not() throws Exception {
        String topic = shared.unusedHub();
        try (KafkaProducer<String, String> producer = transactional(kafka, topic)) {
            producer.initTransactions();
            for (int number = 0; number < 10; number++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, "a" + number));
                producer.send(new ProducerRecord<>(topic, 1, null, "b" + number));
                producer.flush();
                if (number % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        kafka.send(topic, 0, "end");
        kafka.send(topic, 1, "end");
        assertEquals(List.of("a0", "a2", "a4", "a6", "a8", "end"), committed(topic, 0, 6));
        assertEquals(List.of("b0", "b2", "b4", "b6", "b8", "end"), committed(topic, 1, 6));
        List<String> all = values(kafka.read(topic, 0, 11));
        assertEquals(Stream.concat(Events.numbers(10).stream().map(number -> "a" + number), Stream.of("end")).toList(), all);
    }

    @Test
    void an_open_transaction_is_not_read_and_holds_back_what_follows() throws Exception {
        String topic = shared.unusedHub();
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = transactional(kafka, topic);
            KafkaConsumer<String, String> consumer = kafka.consumer("reader", "isolation.level", "read_committed");
            Admin admin = kafka.admin()) {
            producer.initTransactions();
            kafka.send(topic, 0, "before");
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "open")).get(Events.DEADLINE.toSeconds(), TimeUnit.SECONDS);
            kafka.send(topic, 0, "after");
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            assertEquals(List.of("before"), values(poll(consumer, 1)));
            assertEquals(1, consumer.endOffsets(Set.of(partition)).get(partition));
            assertEquals(1, answer(admin.listOffsets(Map.of(partition, OffsetSpec.latest()),
                new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).partitionResult(partition)).offset());
            assertEquals(3, answer(admin.listOffsets(Map.of(partition, OffsetSpec.latest())).partitionResult(partition)).offset());
            producer.commitTransaction();
            assertEquals(List.of("open", "after"), values(poll(consumer, 2)));
        }
    }

    @Test
    void offsets_are_committed_with_what_was_made_of_the_records() throws Exception {
        String source = shared.unusedHub();
        String destination = shared.unusedHub();
        String group = "copier-of-" + source;
        TopicPartition partition = new TopicPartition(source, 0);
        kafka.send(source, 0, Events.numbers(100).toArray(String[]::new));
        boolean aborts = true;
        for (int copied = 0; copied < 100;) {
            try (KafkaConsumer<String, String> consumer =
                    kafka.consumer(group, "enable.auto.commit", "false", "max.poll.records", "10");
                KafkaProducer<String, String> producer = transactional(kafka, source)) {
                producer.initTransactions();
                consumer.subscribe(List.of(source));
                var records = poll(consumer, 1);
                producer.beginTransaction();
                records.forEach(record -> producer.send(new ProducerRecord<>(destination, 0, null, record.value())));
                long next = records.get(records.size() - 1).offset() + 1;
                producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(next)), consumer.groupMetadata());
                if (aborts) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                    copied += records.size();
                    assertEquals(copied, consumer.committed(Set.of(partition)).get(partition).offset());
                }
                aborts = !aborts;
            }
        }
        assertEquals(Events.numbers(100), committed(destination, 0, 100));
    }

    @Test
    void a_producer_is_fenced_by_the_next_of_its_name() throws Exception {
        String topic = shared.unusedHub();
        try (KafkaProducer<String, String> first = transactional(kafka, topic);
            KafkaProducer<String, String> second = transactional(kafka, topic)) {
            first.initTransactions();
            first.beginTransaction();
            first.send(new ProducerRecord<>(topic, 0, null, "first")).get(Events.DEADLINE.toSeconds(), TimeUnit.SECONDS);
            second.initTransactions();
            Throwable error = failureOf(() -> {
                first.send(new ProducerRecord<>(topic, 0, null, "late"));
                first.commitTransaction();
            });
            assertTrue(error instanceof ProducerFencedException || error instanceof InvalidProducerEpochException, error::toString);
            second.beginTransaction();
            second.send(new ProducerRecord<>(topic, 0, null, "second"));
            second.commitTransaction();
        }
        assertEquals(List.of("second"), committed(topic, 0, 1));
    }

    @Test
    void a_transaction_that_takes_too_long_is_aborted() throws Exception {
        String topic = shared.unusedHub();
        try (KafkaProducer<String, String> producer = transactional(kafka, topic, "transaction.timeout.ms", "1000")) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "forgotten"))
                .get(Events.DEADLINE.toSeconds(), TimeUnit.SECONDS);
            kafka.send(topic, 0, "after");
            // No sooner than it is aborted.
            assertEquals(List.of("after"), committed(topic, 0, 1));
            failureOf(producer::commitTransaction);
        }
    }

    @Test
    void transactions_are_listed_and_described() throws Exception {
        KafkaRequests.assumeServed(shared.service(), KafkaRequests.LIST_TRANSACTIONS, KafkaRequests.DESCRIBE_TRANSACTIONS,
            KafkaRequests.DESCRIBE_PRODUCERS);
        String topic = shared.unusedHub();
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = transactional(kafka, topic); Admin admin = kafka.admin()) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "x")).get(Events.DEADLINE.toSeconds(), TimeUnit.SECONDS);
            String id = "copier-" + topic;
            assertTrue(answer(admin.listTransactions().all()).stream()
                .anyMatch(it -> it.transactionalId().equals(id) && it.state() == TransactionState.ONGOING));
            TransactionDescription described = answer(admin.describeTransactions(Set.of(id)).description(id));
            assertEquals(TransactionState.ONGOING, described.state());
            assertEquals(Set.of(partition), described.topicPartitions());
            var producers = answer(admin.describeProducers(Set.of(partition)).partitionResult(partition)).activeProducers();
            assertEquals(described.producerId(), producers.get(0).producerId());
            assertEquals(0, producers.get(0).currentTransactionStartOffset().orElseThrow());
            producer.commitTransaction();
            assertEquals(TransactionState.COMPLETE_COMMIT,
                answer(admin.describeTransactions(Set.of(id)).description(id)).state());
        }
    }

    @Test
    void a_killed_service_ends_transactions_as_it_should() throws Exception {
        Path directory = Service.directory("KafkaTransactionTest");
        try (Service service = new Service(
            directory, 2, false, "", "--kafka", "127.0.0.1:0", "--data-dir", directory.resolve("data").toString())) {
            service.start();
            KafkaClients durable = new KafkaClients(service);
            List<String> expected = new ArrayList<>();
            for (int crash = 0; crash < KILLS; crash++) {
                try (KafkaProducer<String, String> producer = transactional(durable, "hub-0")) {
                    producer.initTransactions();
                    producer.beginTransaction();
                    producer.send(new ProducerRecord<>("hub-0", 0, null, "kept" + crash));
                    producer.commitTransaction();
                    expected.add("kept" + crash);
                    producer.beginTransaction();
                    producer.send(new ProducerRecord<>("hub-0", 0, null, "lost" + crash))
                        .get(Events.DEADLINE.toSeconds(), TimeUnit.SECONDS);
                    service.kill();
                    service.start();
                }
            }
            // The last one is still open: the next of its name aborts it.
            try (KafkaProducer<String, String> producer = transactional(durable, "hub-0")) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("hub-0", 0, null, "last"));
                producer.commitTransaction();
                expected.add("last");
            }
            assertEquals(expected, values(durable.read("hub-0", 0, expected.size(), "isolation.level", "read_committed")));
            service.stop();
        }
    }

    private static KafkaProducer<String, String> transactional(KafkaClients kafka, String topic, String... more) {
        String[] usual = {"transactional.id", "copier-" + topic, "reconnect.backoff.max.ms", "50", "retry.backoff.ms", "20"};
        return kafka.producer(Stream.of(usual, more).flatMap(Stream::of).toArray(String[]::new));
    }

    private List<String> committed(String topic, int partition, int count) {
        return values(kafka.read(topic, partition, count, "isolation.level", "read_committed"));
    }

    private static final int KILLS = 3;
}
