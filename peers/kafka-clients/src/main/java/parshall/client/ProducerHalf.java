package parshall.client;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.Properties;
import java.util.zip.CRC32C;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends each record that it is handed, and says what became of it. */
final class ProducerHalf {
    private final Settings settings;
    private final Lines lines;

    ProducerHalf(Settings settings, Lines lines) {
        this.settings = settings;
        this.lines = lines;
    }

    void run() throws IOException {
        Properties properties = settings.ownProperties(ProducerConfig.configNames());
        // For how long it may look for the topic.
        properties.putIfAbsent(ProducerConfig.MAX_BLOCK_MS_CONFIG, "30000");
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties, bytes, bytes)) {
            producer.partitionsFor(settings.topic());
            lines.say("ready");
            for (String line = lines.next(); line != null; line = lines.next()) {
                String[] words = line.split(" ", 4);
                if (words.length == 4 && words[0].equals("send")) {
                    send(producer, words[1], Integer.parseInt(words[2]), Base64.getDecoder().decode(words[3]));
                }
            }
        }
    }

    private void send(KafkaProducer<byte[], byte[]> producer, String number, int partition, byte[] payload) {
        stamp(payload, settings.now());
        try {
            producer.send(new ProducerRecord<>(settings.topic(), partition, null, payload), (metadata, error) ->
                lines.say(error == null ? "sent " + number : "failed " + number + " " + Main.withCauses(error)));
        } catch (RuntimeException error) {
            lines.say("failed " + number + " " + Main.withCauses(error));
        }
    }

    /** Says in the payload when it was sent, if it has room for that. */
    private static void stamp(byte[] payload, long now) {
        if (payload.length < 24) {
            return;
        }
        ByteBuffer bytes = ByteBuffer.wrap(payload).putLong(16, now);
        CRC32C checksum = new CRC32C();
        checksum.update(payload, 0, 12);
        checksum.update(payload, 16, payload.length - 16);
        bytes.putInt(12, (int) checksum.getValue());
    }
}
