package parshall.peer;

import com.azure.messaging.servicebus.ServiceBusErrorContext;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import java.util.List;

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
        Program.run(environment -> start(Settings.of(environment)));
    }

    private static void start(Settings settings) {
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
        Program.closeAtTheEnd(() -> List.of(processor::close));
        processor.start();
        Figures.tell();
        Program.ready();
    }

    private static void failed(ServiceBusErrorContext context) {
        for (Throwable cause = context.getException(); cause != null; cause = cause.getCause()) {
            if (cause instanceof Forwarder.SimulatedFailure) {
                return;
            }
        }
        Program.complain(context.getErrorSource() + " of " + context.getEntityPath() + ": " + context.getException());
    }
}
