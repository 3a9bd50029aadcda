package parshall.client;

import java.io.IOException;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.LinkedHashSet;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import parshall.peer.Lines;

/** Receives the partitions that it is told to open, and says each record with the instant at which it had it. */
final class ConsumerHalf {
    private final Settings settings;
    private final Lines lines;
    /** Partitions to open, as they were told. */
    private final ConcurrentLinkedQueue<String> asked = new ConcurrentLinkedQueue<>();
    private volatile boolean stopped;

    ConsumerHalf(Settings settings, Lines lines) {
        this.settings = settings;
        this.lines = lines;
    }

    void run() {
        Properties properties = settings.ownProperties(ConsumerConfig.configNames());
        properties.putIfAbsent(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        properties.putIfAbsent(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, bytes, bytes)) {
            List<?> partitions = consumer.partitionsFor(settings.topic(), Duration.ofSeconds(30));
            if (partitions == null || partitions.isEmpty()) {
                throw new IllegalArgumentException("there is no topic " + settings.topic());
            }
            lines.say("ready");
            Thread listener = new Thread(() -> listen(consumer), "input");
            listener.setDaemon(true);
            listener.start();
            Set<TopicPartition> opened = new LinkedHashSet<>();
            while (!stopped) {
                open(consumer, opened);
                if (opened.isEmpty()) {
                    pause();
                    continue;
                }
                try {
                    say(consumer.poll(Duration.ofSeconds(1)));
                } catch (org.apache.kafka.common.errors.WakeupException woken) {
                    // There is more to open, or nothing more to do.
                }
            }
        }
    }

    private void listen(KafkaConsumer<byte[], byte[]> consumer) {
        try {
            for (String line = lines.next(); line != null; line = lines.next()) {
                if (line.startsWith("open ")) {
                    asked.add(line);
                    consumer.wakeup();
                }
            }
        } catch (IOException error) {
            // The role is gone.
        }
        stopped = true;
        consumer.wakeup();
    }

    private void open(KafkaConsumer<byte[], byte[]> consumer, Set<TopicPartition> opened) {
        for (String line = asked.poll(); line != null; line = asked.poll()) {
            String[] words = line.split(" ", 3);
            TopicPartition partition = new TopicPartition(settings.topic(), Integer.parseInt(words[1]));
            opened.add(partition);
            consumer.assign(opened);
            if (words[2].equals("earliest")) {
                consumer.seekToBeginning(List.of(partition));
            } else {
                consumer.seek(partition, Long.parseLong(words[2]));
            }
        }
    }

    private void say(ConsumerRecords<byte[], byte[]> records) {
        if (records.isEmpty()) {
            return;
        }
        long now = settings.now();
        StringBuilder text = new StringBuilder();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            text.append(text.isEmpty() ? "" : "\n").append("received ").append(record.partition()).append(' ')
                .append(record.offset()).append(' ').append(now).append(' ')
                .append(Base64.getEncoder().encodeToString(record.value()));
        }
        lines.say(text.toString());
    }

    private static void pause() {
        try {
            Thread.sleep(1);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
