package parshall.peer;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;

/** What the role says on standard input, and what is said to it on standard output: docs/external-clients.md. */
public final class Lines {
    private final BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.ISO_8859_1), 1 << 16);
    private final OutputStream output = new FileOutputStream(FileDescriptor.out);

    /** The next line; null at the end. */
    public String next() throws IOException {
        return input.readLine();
    }

    /** Says whole lines, in one write. */
    public synchronized void say(String lines) {
        try {
            output.write((lines + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            // Nobody listens any more.
            Runtime.getRuntime().halt(1);
        }
    }

    /** An error with its causes, in one line. */
    public static String withCauses(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            text.append(text.isEmpty() ? "" : ": ").append(cause.getClass().getSimpleName());
            if (cause.getMessage() != null) {
                text.append(": ").append(cause.getMessage().replace('\n', ' '));
            }
        }
        return text.toString();
    }
}
