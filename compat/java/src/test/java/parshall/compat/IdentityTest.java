package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Microsoft Entra ID: DefaultAzureCredential with the issuer of the service's own. */
class IdentityTest {
    private static Path directory;
    private static Service service;

    @BeforeAll
    static void start() throws Exception {
        directory = Service.directory("Identity");
        String queues = "queues: [{name: IDENTITY}, {name: AZURE}]\n";
        service = new Service(directory, 2, false, queues, "--amqps", "127.0.0.1:0", "--dev-identity", "--dev-identity-tls",
            "127.0.0.1:0", "--tls-directory", directory.resolve("tls").toString());
        service.start();
    }

    @AfterAll
    static void stop() throws Exception {
        service.stop();
    }

    /** In a process of its own, which has a managed identity, or tenant, id and secret of an application. */
    @ParameterizedTest
    @CsvSource({"IDENTITY, hub-0", "AZURE, hub-1"})
    void a_program_with_an_identity_sends_and_receives(String kind, String hub) throws Exception {
        List<String> options = new ArrayList<>(List.of("-Xmx256m"));
        options.addAll(DevelopmentAuthority.trustedBy(service, Files.createDirectory(directory.resolve(kind))));
        String port = String.valueOf(service.port("AMQP over TLS"));
        Path log = directory.resolve(kind + ".log");
        ProcessBuilder program = JavaProcess.of(IdentityProgram.class, options, port, hub, kind).redirectError(log.toFile());
        service.variables().forEach((name, value) -> {
            if (name.startsWith(kind + "_")) {
                program.environment().put(name, value);
            }
        });
        Process process = program.start();
        String output = new String(process.getInputStream().readAllBytes());
        int status = process.waitFor();
        assertEquals("0 1 message", status + " " + output.strip(), () -> "see " + log);
    }
}
