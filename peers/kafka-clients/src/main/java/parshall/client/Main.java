package parshall.client;

/** One half of a client, as a role of the lab starts it: see docs/external-clients.md. */
public final class Main {
    private Main() {
    }

    public static void main(String[] arguments) {
        Lines lines = new Lines();
        try {
            Settings settings = Settings.ofEnvironment();
            if (settings.half().equals("producer")) {
                new ProducerHalf(settings, lines).run();
            } else {
                new ConsumerHalf(settings, lines).run();
            }
        } catch (Exception error) {
            lines.say("error " + withCauses(error));
            System.exit(1);
        }
    }

    /** An error with its causes, in one line. */
    static String withCauses(Throwable error) {
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
