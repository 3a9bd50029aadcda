package parshall.peer;

import com.azure.messaging.eventhubs.EventData;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Optional;

/**
 * A call that is to be made: {@code call 17 200 AAAB…}.
 *
 * @param number what it is answered by
 * @param bytes how long each payload is
 * @param heads who the events are
 */
record Call(String number, int bytes, byte[] heads) {

    /** The call that a line asks for, if it is one. */
    static Optional<Call> of(String line) {
        String[] words = line.split(" ", 4);
        if (words.length != 4 || !words[0].equals("call")) {
            return Optional.empty();
        }
        return Optional.of(new Call(words[1], Integer.parseInt(words[2]), Base64.getDecoder().decode(words[3])));
    }

    /** Its events, sent now. */
    List<EventData> events(long now) {
        var events = new ArrayList<EventData>(heads.length / Payload.HEAD);
        for (int from = 0; from + Payload.HEAD <= heads.length; from += Payload.HEAD) {
            events.add(new EventData(Payload.of(heads, from, bytes, now)));
        }
        return events;
    }
}
