package parshall.client;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;

/** What the role says on standard input, and what is said to it on standard output. */
final class Lines {
    private final BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16);
    private final OutputStream output = new FileOutputStream(FileDescriptor.out);

    /** The next line; null at the end. */
    String next() throws IOException {
        return input.readLine();
    }

    /** Says whole lines, in one write. */
    synchronized void say(String lines) {
        try {
            output.write((lines + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            // Nobody listens any more.
            Runtime.getRuntime().halt(1);
        }
    }
}
