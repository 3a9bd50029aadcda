package parshall.peer;

import java.util.Map;
import java.util.Optional;

/**
 * What the environment says is to be done. The names are those of docs/external-systems.md. A variable that is empty is not set.
 *
 * @param variables the environment
 */
record Environment(Map<String, String> variables) {

    /** The environment can't be followed; the message is for whoever set it. */
    static final class Mistake extends RuntimeException {
        private static final long serialVersionUID = 1L;

        private Mistake(String message) {
            super(message);
        }
    }

    Optional<String> optional(String name) {
        return Optional.ofNullable(variables.get(name)).filter(text -> !text.isEmpty());
    }

    String text(String name) {
        return optional(name).orElseThrow(() -> new Mistake(name + " is not set"));
    }

    /** What the variables {@code PREFIX_CONNECTION_STRING} and {@code PREFIX_KIND} tell. */
    Entity entity(String prefix, String kind) {
        return new Entity(text(prefix + "_CONNECTION_STRING"), text(prefix + "_" + kind));
    }

    /** A number that has to be there, of {@code least} or more. */
    int whole(String name, int least) {
        return parsed(name, text(name), least);
    }

    /** A number of {@code least} or more. */
    int whole(String name, int least, int otherwise) {
        return optional(name).map(text -> parsed(name, text, least)).orElse(otherwise);
    }

    long number(String name, long otherwise) {
        return optional(name).map(text -> number(name, text)).orElse(otherwise);
    }

    /** A number within 0 and 1; otherwise 0. */
    double ratio(String name) {
        String text = optional(name).orElse("0");
        try {
            double ratio = Double.parseDouble(text);
            if (ratio >= 0 && ratio <= 1) {
                return ratio;
            }
        } catch (NumberFormatException e) {
            // told below
        }
        throw new Mistake(name + " is no number within 0 and 1: " + text);
    }

    /** One beyond the range is as many as there can be. */
    private static int parsed(String name, String text, int least) {
        long number = number(name, text);
        if (number < least) {
            throw new Mistake(name + " is no whole number of " + least + " or more: " + text);
        }
        return (int) Math.min(number, Integer.MAX_VALUE);
    }

    private static long number(String name, String text) {
        try {
            return Long.parseLong(text);
        } catch (NumberFormatException e) {
            throw new Mistake(name + " is no whole number: " + text);
        }
    }
}
