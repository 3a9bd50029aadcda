package parshall.testing;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** As much of JSON as a service announces, and as its namespace file needs; no library of the tests is touched. */
final class Json {
    private final String text;
    private int next;

    private Json(String text) {
        this.text = text;
    }

    /** Objects as maps, arrays as lists, and text, numbers, truth values and null. */
    static Object read(String text) {
        Json json = new Json(text.strip());
        Object value = json.value();
        if (json.next != json.text.length()) {
            throw json.mistake();
        }
        return value;
    }

    /** The same, as text. */
    static String write(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream()
                .map(entry -> quoted(String.valueOf(entry.getKey())) + ":" + write(entry.getValue()))
                .collect(Collectors.joining(",", "{", "}"));
        }
        if (value instanceof Iterable<?> values) {
            List<String> written = new ArrayList<>();
            values.forEach(element -> written.add(write(element)));
            return "[" + String.join(",", written) + "]";
        }
        return value == null || value instanceof Number || value instanceof Boolean
            ? String.valueOf(value)
            : quoted(value.toString());
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char character : text.toCharArray()) {
            if (character == '"' || character == '\\') {
                quoted.append('\\').append(character);
            } else if (character < ' ') {
                quoted.append(String.format("\\u%04x", (int) character));
            } else {
                quoted.append(character);
            }
        }
        return quoted.append('"').toString();
    }

    private Object value() {
        switch (peek()) {
            case '{':
                Map<String, Object> object = new LinkedHashMap<>();
                list('}', () -> {
                    String key = string();
                    expect(':');
                    object.put(key, value());
                });
                return object;
            case '[':
                List<Object> array = new ArrayList<>();
                list(']', () -> array.add(value()));
                return array;
            case '"':
                return string();
            default:
                return word();
        }
    }

    private void list(char end, Runnable element) {
        next++;
        if (peek() == end) {
            next++;
            return;
        }
        do {
            element.run();
        } while (take(','));
        expect(end);
    }

    private String string() {
        expect('"');
        StringBuilder string = new StringBuilder();
        while (peek() != '"') {
            char character = text.charAt(next++);
            string.append(character == '\\' ? escaped() : character);
        }
        next++;
        return string.toString();
    }

    private char escaped() {
        char character = peek();
        next++;
        switch (character) {
            case 'n': return '\n';
            case 't': return '\t';
            case 'r': return '\r';
            case 'b': return '\b';
            case 'f': return '\f';
            case 'u':
                if (next + 4 > text.length()) {
                    throw mistake();
                }
                next += 4;
                return (char) Integer.parseInt(text.substring(next - 4, next), 16);
            default: return character;
        }
    }

    private Object word() {
        int start = next;
        while (next < text.length() && ",]}".indexOf(text.charAt(next)) < 0) {
            next++;
        }
        String word = text.substring(start, next).strip();
        return switch (word) {
            case "true" -> true;
            case "false" -> false;
            case "null" -> null;
            default -> number(word);
        };
    }

    private Number number(String word) {
        try {
            return Double.valueOf(word);
        } catch (NumberFormatException error) {
            throw mistake();
        }
    }

    private boolean take(char character) {
        boolean is = peek() == character;
        next += is ? 1 : 0;
        return is;
    }

    private void expect(char character) {
        if (!take(character)) {
            throw mistake();
        }
    }

    private char peek() {
        if (next >= text.length()) {
            throw mistake();
        }
        return text.charAt(next);
    }

    private IllegalArgumentException mistake() {
        return new IllegalArgumentException("character " + next + " is not what JSON has there: " + text);
    }
}
