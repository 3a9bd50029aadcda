package parshall.peer;

import com.azure.messaging.servicebus.ServiceBusErrorContext;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.security.GeneralSecurityException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * The consumer of the published queue study on the official SDK: a processor that forwards each message of one queue to
 * another over a second connection ({@link Forwarder}).
 *
 * <p>Runs until it is told to end (SIGTERM). Standard output has one line, {@code ready}, when the processor has been
 * started; standard error has what goes wrong.
 */
public final class Main {
    private Main() {}

    /** Runs until the process is told to end. */
    public static void main(String[] arguments) throws InterruptedException {
        try {
            run(Settings.of(System.getenv()));
        } catch (Settings.SettingsException | IOException | GeneralSecurityException | IllegalArgumentException e) {
            complain(e.toString());
            System.exit(1);
        }
    }

    private static void run(Settings settings) throws IOException, GeneralSecurityException, InterruptedException {
        if (settings.authority().isPresent()) {
            Trust.only(settings.authority().get());
        }
        ServiceBusSenderClient sender = Namespace.of(settings.destination().connectionString())
                .connection()
                .sender()
                .queueName(settings.destination().name())
                .buildClient();
        var forwarder = new Forwarder(sender, settings);
        ServiceBusProcessorClient processor = Namespace.of(settings.source().connectionString())
                .connection()
                .processor()
                .queueName(settings.source().name())
                .receiveMode(ServiceBusReceiveMode.PEEK_LOCK)
                .disableAutoComplete()
                .maxConcurrentCalls(settings.concurrency())
                .prefetchCount(settings.prefetch())
                .processMessage(forwarder::forward)
                .processError(Main::failed)
                .buildProcessorClient();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(processor)));
        processor.start();
        Figures.tell();
        System.out.println("ready");
        System.out.flush();
        new CountDownLatch(1).await();
    }

    private static void failed(ServiceBusErrorContext context) {
        for (Throwable cause = context.getException(); cause != null; cause = cause.getCause()) {
            if (cause instanceof Forwarder.SimulatedFailure) {
                return;
            }
        }
        complain(context.getErrorSource() + " of " + context.getEntityPath() + ": " + context.getException());
    }

    private static void stop(ServiceBusProcessorClient processor) {
        stopping = true;
        // The SDK has complaints of its own about what it is interrupted in.
        System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        var closing = new Thread(processor::close);
        closing.start();
        try {
            TimeUnit.NANOSECONDS.timedJoin(closing, PATIENCE_NANOS);
        } catch (InterruptedException e) {
            // The end comes all the same.
        }
        // What still sends is not waited for: a message that was not completed is delivered again.
        Runtime.getRuntime().halt(0);
    }

    private static void complain(String what) {
        // What is under way is interrupted at the end, and that is no failure.
        if (!stopping) {
            System.err.println(what);
        }
    }

    private static volatile boolean stopping;

    /** How long the processor may take to close. */
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(5);
}
