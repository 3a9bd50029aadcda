package parshall.client;

import parshall.peer.Lines;

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
            lines.say("error " + Lines.withCauses(error));
            System.exit(1);
        }
    }
}
