package parshall.compat;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.function.Executable;

/** Clients of Kafka for a service, as users set them up, and what is asked of them most often, with a deadline. */
final class KafkaClients {
    private final Service service;

    KafkaClients(Service service) {
        this.service = service;
    }

    /** What any client needs, and then {@code more}: names and values by turns, the last of a name counts. */
    Map<String, Object> settings(String... more) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", service.told("Kafka"));
        settings.put("security.protocol", "SASL_PLAINTEXT");
        settings.put("sasl.mechanism", "PLAIN");
        settings.put("sasl.jaas.config", login("$ConnectionString", service.connectionString()));
        for (int index = 0; index < more.length; index += 2) {
            settings.put(more[index], more[index + 1]);
        }
        return settings;
    }

    /** What says who the client is. */
    static String login(String user, String password) {
        return "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"%s\" password=\"%s\";"
            .formatted(user, password);
    }

    KafkaProducer<String, String> producer(String... more) {
        return new KafkaProducer<>(settings(more), new StringSerializer(), new StringSerializer());
    }

    /** A consumer that begins where there is something. */
    KafkaConsumer<String, String> consumer(String group, String... more) {
        List<String> settings = new ArrayList<>(List.of("group.id", group, "auto.offset.reset", "earliest"));
        settings.addAll(List.of(more));
        return new KafkaConsumer<>(
            settings(settings.toArray(String[]::new)), new StringDeserializer(), new StringDeserializer());
    }

    Admin admin(String... more) {
        return Admin.create(settings(more));
    }

    /** Sends these values to a partition, and waits until all are stored. */
    void send(String topic, int partition, String... values) throws Exception {
        try (KafkaProducer<String, String> producer = producer()) {
            send(producer, Stream.of(values)
                .map(value -> new ProducerRecord<String, String>(topic, partition, null, value)).toList());
        }
    }

    /** Sends records, and waits until all are stored. */
    static List<RecordMetadata> send(
        KafkaProducer<String, String> producer, Collection<ProducerRecord<String, String>> records) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        records.forEach(record -> sent.add(producer.send(record)));
        producer.flush();
        List<RecordMetadata> stored = new ArrayList<>();
        for (Future<RecordMetadata> each : sent) {
            stored.add(each.get(Events.DEADLINE.toSeconds(), TimeUnit.SECONDS));
        }
        return stored;
    }

    /** So many records of a partition, from its beginning. */
    List<ConsumerRecord<String, String>> read(String topic, int partition, int count, String... more) {
        try (KafkaConsumer<String, String> consumer = consumer("reader-of-" + topic, more)) {
            List<TopicPartition> partitions = List.of(new TopicPartition(topic, partition));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            return poll(consumer, count);
        }
    }

    /** The next records of a consumer, at least so many. */
    static List<ConsumerRecord<String, String>> poll(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        Instant end = Instant.now().plus(Events.DEADLINE);
        while (records.size() < count) {
            if (Instant.now().isAfter(end)) {
                throw new AssertionError("only " + records.size() + " records came: " + values(records));
            }
            consumer.poll(Duration.ofSeconds(1)).forEach(records::add);
        }
        return records;
    }

    static List<String> values(Collection<ConsumerRecord<String, String>> records) {
        return records.stream().map(ConsumerRecord::value).toList();
    }

    /** The answer of an {@link Admin}. */
    static <T> T answer(KafkaFuture<T> future) throws Exception {
        return future.get(Events.DEADLINE.toSeconds(), TimeUnit.SECONDS);
    }

    /** The error with which something ends, out of what the client wraps it in. */
    static Throwable failureOf(Executable action) {
        Throwable error = Failures.failureOf(action);
        return error instanceof ExecutionException ? error.getCause() : error;
    }
}
