package parshall.peer;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Random;
import java.util.zip.CRC32C;

/** Payloads of the lab: who an event is, a checksum, when it was sent, and bytes that say nothing. */
public final class Payload {
    private Payload() {
    }

    /** The bytes that say who an event is. */
    public static final int HEAD = 12;

    /** Says in a payload when it was sent, if it has room for that. */
    public static void stamp(byte[] payload, long now) {
        if (payload.length >= SENT + Long.BYTES) {
            ByteBuffer.wrap(payload).putLong(SENT, now);
            seal(payload);
        }
    }

    /** The payload of this many bytes for the head that begins at {@code from}, sent now. */
    public static byte[] of(byte[] heads, int from, int bytes, long now) {
        byte[] payload = bytes <= FILLER.length ? Arrays.copyOf(FILLER, bytes) : longer(bytes);
        System.arraycopy(heads, from, payload, 0, HEAD);
        if (payload.length >= SENT + Long.BYTES) {
            ByteBuffer.wrap(payload).putLong(SENT, now);
        }
        if (payload.length >= SENT) {
            seal(payload);
        }
        return payload;
    }

    private static void seal(byte[] payload) {
        CRC32C checksum = new CRC32C();
        checksum.update(payload, 0, HEAD);
        checksum.update(payload, SENT, payload.length - SENT);
        ByteBuffer.wrap(payload).putInt(HEAD, (int) checksum.getValue());
    }

    private static byte[] longer(int bytes) {
        byte[] payload = new byte[bytes];
        for (int at = 0; at < bytes; at += FILLER.length) {
            System.arraycopy(FILLER, 0, payload, at, Math.min(FILLER.length, bytes - at));
        }
        return payload;
    }

    /** Where it stands when the event was sent: behind the checksum. */
    private static final int SENT = HEAD + Integer.BYTES;

    private static final byte[] FILLER = new byte[4096];

    static {
        new Random(1).nextBytes(FILLER);
    }
}
