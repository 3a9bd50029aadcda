package parshall.testing;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** The end of what a process writes, read by a thread so that the process never waits. */
final class Log {
    private static final int KEPT_BYTES = 64 * 1024;

    private final Thread reader;
    private byte[] kept = {};

    Log(InputStream stream) {
        reader = new Thread(() -> read(stream), "parshall-log");
        reader.setDaemon(true);
        reader.start();
    }

    /** The end of what was written until now. */
    synchronized String text() {
        return new String(kept, StandardCharsets.UTF_8);
    }

    /** The same, once the process has closed it. */
    String textAtEnd() throws InterruptedException {
        reader.join();
        return text();
    }

    private void read(InputStream stream) {
        byte[] buffer = new byte[8192];
        try (stream) {
            int length = stream.read(buffer);
            while (length >= 0) {
                append(buffer, length);
                length = stream.read(buffer);
            }
        } catch (IOException error) {
            // The process has ended.
        }
    }

    private synchronized void append(byte[] bytes, int length) {
        byte[] all = Arrays.copyOf(kept, kept.length + length);
        System.arraycopy(bytes, 0, all, kept.length, length);
        kept = Arrays.copyOfRange(all, Math.max(0, all.length - KEPT_BYTES), all.length);
    }
}
