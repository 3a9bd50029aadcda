package parshall.client;

import java.io.IOException;
import java.util.Base64;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import parshall.peer.Lines;
import parshall.peer.Payload;

/** Sends each record that it is handed, or those of each call, and says what became of them. */
final class ProducerHalf {
    private final Settings settings;
    private final Lines lines;

    ProducerHalf(Settings settings, Lines lines) {
        this.settings = settings;
        this.lines = lines;
    }

    void run() throws IOException {
        Properties properties = settings.ownProperties(ProducerConfig.configNames());
        settings.linger().ifPresent(linger -> properties.putIfAbsent(ProducerConfig.LINGER_MS_CONFIG, linger));
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
                } else if (words.length == 4 && words[0].equals("call")) {
                    call(producer, words[1], Integer.parseInt(words[2]), Base64.getDecoder().decode(words[3]));
                }
            }
        }
    }

    private void send(KafkaProducer<byte[], byte[]> producer, String number, int partition, byte[] payload) {
        Payload.stamp(payload, settings.now());
        try {
            producer.send(new ProducerRecord<>(settings.topic(), partition, null, payload), (metadata, error) ->
                lines.say(error == null ? "sent " + number : "failed " + number + " " + Lines.withCauses(error)));
        } catch (RuntimeException error) {
            lines.say("failed " + number + " " + Lines.withCauses(error));
        }
    }

    /** Sends the records of these heads, wherever the client wants them, and answers when it has reported the last of them. */
    private void call(KafkaProducer<byte[], byte[]> producer, String number, int bytes, byte[] heads) {
        AtomicInteger unreported = new AtomicInteger(heads.length / Payload.HEAD);
        AtomicReference<Exception> reason = new AtomicReference<>();
        for (int from = 0; from + Payload.HEAD <= heads.length; from += Payload.HEAD) {
            byte[] payload = Payload.of(heads, from, bytes, settings.now());
            try {
                producer.send(new ProducerRecord<>(settings.topic(), payload), (metadata, error) ->
                    reported(number, error, unreported, reason));
            } catch (RuntimeException error) {
                reported(number, error, unreported, reason);
            }
        }
    }

    private void reported(String number, Exception error, AtomicInteger unreported, AtomicReference<Exception> reason) {
        if (error != null) {
            reason.compareAndSet(null, error);
        }
        if (unreported.decrementAndGet() == 0) {
            Exception first = reason.get();
            lines.say(first == null ? "sent " + number : "failed " + number + " " + Lines.withCauses(first));
        }
    }
}
