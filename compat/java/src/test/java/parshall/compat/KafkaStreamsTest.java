package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Kafka Streams counts words exactly once, whatever happens to the service. */
class KafkaStreamsTest {
    @Test
    @Timeout(150)
    void words_are_counted_exactly_once_through_crashes_of_the_service() throws Exception {
        Path directory = Service.directory("KafkaStreamsTest");
        try (Service service = new Service(
            directory, 2, false, "", "--kafka", "127.0.0.1:0", "--data-dir", directory.resolve("data").toString())) {
            service.start();
            KafkaRequests.assumeServed(service, KafkaRequests.CREATE_TOPICS, KafkaRequests.DELETE_RECORDS,
                KafkaRequests.ADD_PARTITIONS_TO_TXN, KafkaRequests.END_TXN, KafkaRequests.TXN_OFFSET_COMMIT);
            KafkaClients kafka = new KafkaClients(service);
            Map<String, Long> expected = new HashMap<>();
            Properties settings = new Properties();
            settings.putAll(kafka.settings(
                "application.id", "word-count", "processing.guarantee", "exactly_once_v2",
                "state.dir", directory.resolve("state").toString(),
                "commit.interval.ms", "100", "num.stream.threads", "2", "statestore.cache.max.bytes", "0",
                "reconnect.backoff.max.ms", "50", "consumer.auto.offset.reset", "earliest", "consumer.session.timeout.ms", "10000",
                "producer.transaction.timeout.ms", "10000"));
            settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
            settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
            try (KafkaStreams streams = new KafkaStreams(wordCount(), settings)) {
                streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
                streams.start();
                for (int round = 0; round <= KILLS; round++) {
                    for (int partition = 0; partition < Service.PARTITIONS; partition++) {
                        kafka.send("hub-0", partition, LINES.toArray(String[]::new));
                        LINES.stream().flatMap(line -> Stream.of(line.split(" ")))
                            .forEach(word -> expected.merge(word, 1L, Long::sum));
                    }
                    if (round < KILLS) {
                        // In the middle of it: the first of these are counted.
                        long counted = countOf(kafka);
                        Waiting.until("something more", PATIENCE, () -> countOf(kafka), it -> it > counted);
                        service.kill();
                        service.start();
                    }
                }
                Waiting.until("all words", PATIENCE, () -> counts(kafka), expected::equals);
            }
            // Each count was given once, so the last is the number of all.
            assertEquals(expected.values().stream().mapToLong(Long::longValue).sum(), countOf(kafka));
            service.stop();
        }
    }

    private static Topology wordCount() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("hub-0")
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count()
            .toStream()
            .mapValues(String::valueOf)
            .to("hub-1");
        return builder.build();
    }

    /** The last count of each word that is committed. */
    private static Map<String, Long> counts(KafkaClients kafka) {
        Map<String, Long> counts = new HashMap<>();
        readAll(kafka).forEach(record -> counts.put(record.key(), Long.valueOf(record.value())));
        return counts;
    }

    /** How many counts are committed. */
    private static long countOf(KafkaClients kafka) {
        return readAll(kafka).size();
    }

    private static List<ConsumerRecord<String, String>> readAll(KafkaClients kafka) {
        List<TopicPartition> partitions =
            IntStream.range(0, Service.PARTITIONS).mapToObj(number -> new TopicPartition("hub-1", number)).toList();
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = kafka.consumer(
            "reader", "isolation.level", "read_committed", "enable.auto.commit", "false", "fetch.max.wait.ms", "50")) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
                consumer.poll(Duration.ofMillis(100)).forEach(records::add);
            }
        }
        return records;
    }

    private static final List<String> LINES =
        IntStream.range(0, 50).mapToObj(number -> "word" + number % 7 + " all").toList();

    private static final int KILLS = 3;

    private static final Duration PATIENCE = Duration.ofSeconds(60);
}
