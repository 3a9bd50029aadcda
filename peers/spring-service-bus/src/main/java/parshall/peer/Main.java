package parshall.peer;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.spring.messaging.AzureHeaders;
import com.azure.spring.messaging.checkpoint.Checkpointer;
import java.io.IOException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.context.event.ApplicationReadyEvent;
import org.springframework.context.annotation.Bean;
import org.springframework.context.event.EventListener;
import org.springframework.messaging.Message;

/**
 * The consumer of the published queue study: the binder receives messages of one queue, this sends the payload of each to
 * another over a second connection and then completes it, or abandons it where that fails.
 *
 * <p>Runs until it is told to end (SIGTERM). Standard output has one line, {@code ready}, when the binder has been started.
 */
@SpringBootApplication
public class Main {
    private final ServiceBusSenderClient sender;
    private final double failureRatio;

    /** As Spring makes it. */
    public Main(ServiceBusSenderClient sender, @Value("${PARSHALL_FAILURE_RATIO:0}") double failureRatio) {
        this.sender = sender;
        this.failureRatio = failureRatio;
    }

    /** Runs until the process is told to end. */
    public static void main(String[] arguments) throws IOException, GeneralSecurityException {
        String authority = System.getenv("PARSHALL_TLS_CA_FILE");
        if (authority != null && !authority.isEmpty()) {
            Trust.only(Path.of(authority));
        }
        SpringApplication.run(Main.class, arguments);
    }

    /** Forwards one message, and returns when it is settled. Bytes, since not every payload is text as the study's was. */
    @Bean
    public Consumer<Message<byte[]>> consume() {
        return message -> {
            var checkpointer = (Checkpointer) message.getHeaders().get(AzureHeaders.CHECKPOINTER);
            try {
                sender.sendMessage(new ServiceBusMessage(checked(message.getPayload())));
                checkpointer.success().block();
            } catch (RuntimeException e) {
                checkpointer.failure().block();
                throw e;
            }
        };
    }

    /** Tells that the binder has been started. */
    @EventListener(ApplicationReadyEvent.class)
    public void ready() {
        Figures.tell();
        System.out.println("ready");
        System.out.flush();
    }

    /** The payload, which bears at least the run, stream, sequence number and instant that the receiver looks for. */
    private byte[] checked(byte[] payload) {
        if (payload.length < SHORTEST_PAYLOAD) {
            throw new IllegalArgumentException("a payload of " + payload.length + " bytes");
        }
        if (failureRatio > 0 && ThreadLocalRandom.current().nextDouble() < failureRatio) {
            throw new IllegalStateException("failed on purpose");
        }
        return payload;
    }

    private static final int SHORTEST_PAYLOAD = 12;
}
