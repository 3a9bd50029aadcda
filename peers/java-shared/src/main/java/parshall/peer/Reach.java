package parshall.peer;

import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * How a namespace is reached.
 *
 * <p>The SDKs drop a port in a connection string unless it is that of the development emulator, and take a port of its
 * own only together with a custom endpoint. So that any port can be served, it is moved from the one to the other.
 *
 * @param connectionString the connection string, without a port where TLS is spoken
 * @param endpoint the address to dial where it is not the one that goes without saying
 */
record Reach(String connectionString, Optional<String> endpoint) {

    static Reach of(String connectionString) {
        Matcher matcher = ENDPOINT_WITH_PORT.matcher(connectionString);
        if (EMULATOR.matcher(connectionString).find() || !matcher.find()) {
            return new Reach(connectionString, Optional.empty());
        }
        String withoutPort = connectionString.substring(0, matcher.start("port"))
                + connectionString.substring(matcher.end("port"));
        return new Reach(withoutPort, Optional.of("https://" + matcher.group("host") + matcher.group("port")));
    }

    private static final Pattern ENDPOINT_WITH_PORT =
            Pattern.compile("endpoint=[a-z]+://(?<host>[^/:;]+)(?<port>:[0-9]+)", Pattern.CASE_INSENSITIVE);

    private static final Pattern EMULATOR =
            Pattern.compile("UseDevelopmentEmulator=true", Pattern.CASE_INSENSITIVE);
}
