package parshall.peer;

import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * How a peer begins, complains and ends. It runs until it is told to end (SIGTERM). Standard output has a line {@code ready} when all of
 * its source is being received; standard error has what goes wrong.
 */
final class Program {
    private Program() {}

    /** What a peer does before it waits for its end. */
    interface Start {
        void start(Environment environment);
    }

    /**
     * Runs until the process is told to end, trusting the certificate authority that {@code PARSHALL_TLS_CA_FILE} names (PEM), or those
     * of the system. Ends with status 1 if it can't begin.
     */
    static void run(Start start) throws InterruptedException {
        try {
            var environment = new Environment(System.getenv());
            Optional<String> authority = environment.optional("PARSHALL_TLS_CA_FILE");
            if (authority.isPresent()) {
                Trust.only(Path.of(authority.get()));
            }
            start.start(environment);
        } catch (Environment.Mistake e) {
            complain(e.getMessage());
            System.exit(1);
        } catch (IOException | GeneralSecurityException | IllegalArgumentException e) {
            complain(e.toString());
            System.exit(1);
        }
        new CountDownLatch(1).await();
    }

    static void ready() {
        System.out.println("ready");
        System.out.flush();
    }

    /** Writes a line of what goes wrong. What is interrupted at the end is no failure. */
    static void complain(String what) {
        if (!ending) {
            System.err.println(what);
        }
    }

    /** Closes processors when the process is told to end. What they still send is not waited for: it comes again. */
    static void closeAtTheEnd(Supplier<List<Runnable>> closings) {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> end(closings.get())));
    }

    private static void end(List<Runnable> closings) {
        ending = true;
        // The SDK has complaints of its own about what it is interrupted in.
        System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        List<Thread> threads = closings.stream().map(Thread::new).toList();
        threads.forEach(Thread::start);
        long deadline = System.nanoTime() + PATIENCE_NANOS;
        for (Thread thread : threads) {
            try {
                TimeUnit.NANOSECONDS.timedJoin(thread, Math.max(1, deadline - System.nanoTime()));
            } catch (InterruptedException e) {
                break;
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static volatile boolean ending;

    /** How long processors may take to stop. */
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(5);
}
