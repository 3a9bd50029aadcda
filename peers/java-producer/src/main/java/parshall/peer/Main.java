package parshall.peer;

/** The official producer of Event Hubs as the producer of a load, as a role of the lab starts it: docs/external-clients.md. */
public final class Main {
    private Main() {}

    /** Makes each call that it is asked for, until its input ends. */
    public static void main(String[] arguments) {
        var lines = new Lines();
        try {
            var settings = Settings.of(System.getenv());
            if (settings.authority().isPresent()) {
                Trust.only(settings.authority().get());
            }
            try (Way way = settings.way(new Answers(lines))) {
                lines.say("ready");
                for (String line = lines.next(); line != null; line = lines.next()) {
                    Call.of(line).ifPresent(way::send);
                }
            }
            // Threads of the SDK would keep it running.
            System.exit(0);
        } catch (Exception error) {
            lines.say("error " + Lines.withCauses(error));
            System.exit(1);
        }
    }
}
