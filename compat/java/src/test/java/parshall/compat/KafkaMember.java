package parshall.compat;

import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/** A member of a group with a thread of its own, which reads until it is told to leave. */
final class KafkaMember implements AutoCloseable {
    private final KafkaConsumer<String, String> consumer;
    private final Queue<ConsumerRecord<String, String>> seen;
    private final Set<TopicPartition> owned = ConcurrentHashMap.newKeySet();
    private final Map<TopicPartition, Boolean> lost = new ConcurrentHashMap<>();
    private final AtomicInteger assignments = new AtomicInteger();
    private final Thread thread;
    private volatile boolean leaves;
    private volatile boolean stalls;
    private volatile ConsumerGroupMetadata metadata;
    private volatile RuntimeException error;

    /** Joins at once. What it gets goes to {@code seen}. */
    KafkaMember(Supplier<KafkaConsumer<String, String>> consumer, String topic, Queue<ConsumerRecord<String, String>> seen) {
        this.consumer = consumer.get();
        this.seen = seen;
        thread = new Thread(() -> run(topic), "member");
        thread.start();
    }

    private void run(String topic) {
        try (consumer) {
            consumer.subscribe(Set.of(topic), new Listener());
            while (!leaves) {
                while (stalls && !leaves) {
                    LockSupport.parkNanos(1_000_000);
                }
                consumer.poll(Duration.ofMillis(200)).forEach(seen::add);
            }
        } catch (WakeupException woken) {
            // It closes all the same.
        } catch (RuntimeException failed) {
            error = failed;
        }
    }

    /** The partitions that it reads now. */
    Set<TopicPartition> owned() {
        return Set.copyOf(owned);
    }

    /** Those that it once lost without having been asked. */
    Set<TopicPartition> lost() {
        return Set.copyOf(lost.keySet());
    }

    /** How often it was told what it reads. */
    int assignments() {
        return assignments.get();
    }

    /** As which member of which generation it was last told what it reads. */
    ConsumerGroupMetadata metadata() {
        return metadata;
    }

    /** The error that ended it, if one did. */
    RuntimeException error() {
        return error;
    }

    /** Does nothing for a while, as one whose application hangs. */
    void stall(boolean stalls) {
        this.stalls = stalls;
    }

    @Override
    public void close() {
        leave();
    }

    /** Leaves the group, once. */
    void leave() {
        leaves = true;
        try {
            thread.join(Events.DEADLINE.toMillis());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        if (thread.isAlive()) {
            throw new IllegalStateException("it does not leave");
        }
    }

    private final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            metadata = consumer.groupMetadata();
            // Who sees the partitions sees that they were assigned.
            assignments.incrementAndGet();
            owned.addAll(partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            owned.removeAll(partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            owned.removeAll(partitions);
            partitions.forEach(partition -> lost.put(partition, true));
        }
    }
}
