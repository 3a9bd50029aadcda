package parshall.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventHubConsumerClient;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Services without JUnit, with the program that the archive carries. */
class ServiceTest {
    private static final Duration PATIENCE = Duration.ofSeconds(20);

    @Test
    void an_event_and_a_message_pass_through_the_official_clients() {
        try (Service service = Service.options().hub("orders", 1).queue("jobs").start()) {
            EventHubClientBuilder hub = new EventHubClientBuilder().connectionString(service.eventHubsConnectionString(), "orders");
            try (EventHubProducerClient producer = hub.buildProducerClient();
                EventHubConsumerClient consumer = hub.consumerGroup("$Default").buildConsumerClient()) {
                producer.send(List.of(new EventData("an event")));
                List<String> received = consumer.receiveFromPartition("0", 1, EventPosition.earliest(), PATIENCE).stream()
                    .map(event -> event.getData().getBodyAsString()).toList();
                assertEquals(List.of("an event"), received);
            }
            ServiceBusClientBuilder client = new ServiceBusClientBuilder().connectionString(service.serviceBusConnectionString());
            try (ServiceBusSenderClient sender = client.sender().queueName("jobs").buildClient();
                ServiceBusReceiverClient receiver = client.receiver().queueName("jobs").buildClient()) {
                sender.sendMessage(new ServiceBusMessage("a message"));
                ServiceBusReceivedMessage message = receiver.receiveMessages(1, PATIENCE).iterator().next();
                receiver.complete(message);
                assertEquals("a message", message.getBody().toString());
            }
        }
    }

    @Test
    void everything_is_served_where_it_is_asked_for() throws IOException {
        Service service = Service.options().hub("orders", 2).topic("news", "all").containers("kept").kafka().tls().start();
        try (service) {
            assertTrue(Files.exists(service.certificateAuthority()));
            assertTrue(service.storageConnectionString().contains("BlobEndpoint=http://"));
            assertTrue(service.storageTlsConnectionString().contains("BlobEndpoint=https://"));
            for (String address : List.of(service.kafkaBootstrapServers(), service.kafkaTlsBootstrapServers(), service.tlsConnectionString())) {
                assertTrue(isListening(port(address)), address);
            }
            assertEquals(service.kafkaBootstrapServers(), service.kafkaProperties().get("bootstrap.servers"));
        }
        assertFalse(Files.exists(service.certificateAuthority()));
        assertFalse(isListening(port(service.connectionString())));
        try (Service usual = Service.options().start()) {
            assertTrue(assertThrows(IllegalStateException.class, usual::kafkaBootstrapServers).getMessage().contains("option kafka"));
        }
    }

    @Test
    void arguments_come_before_what_is_usual_and_data_survives(@TempDir Path directory) {
        Options options = Service.options().dataDirectory(directory.resolve("data")).arguments("--queue", "jobs", "--amqp=127.0.0.1:0");
        try (Service service = options.start(); ServiceBusSenderClient sender = new ServiceBusClientBuilder()
            .connectionString(service.connectionString()).sender().queueName("jobs").buildClient()) {
            sender.sendMessage(new ServiceBusMessage("kept"));
        }
        try (Service service = options.start(); ServiceBusReceiverClient receiver = new ServiceBusClientBuilder()
            .connectionString(service.connectionString()).receiver().queueName("jobs").buildClient()) {
            assertEquals("kept", receiver.receiveMessages(1, PATIENCE).iterator().next().getBody().toString());
        }
    }

    @Test
    void a_process_that_is_killed_takes_its_service_along() throws Exception {
        String java = ProcessHandle.current().info().command().orElseThrow();
        Process process = new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"), Endless.class.getName()).start();
        int port = port(new BufferedReader(new InputStreamReader(process.getInputStream())).readLine());
        assertTrue(isListening(port));
        process.destroyForcibly().waitFor();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (isListening(port)) {
            assertTrue(System.nanoTime() < deadline, "port " + port + " is still listened on");
            Thread.sleep(10);
        }
    }

    /** A process that holds a service until it is killed. */
    static final class Endless {
        public static void main(String[] arguments) throws InterruptedException {
            System.out.println(Service.options().start().connectionString());
            Thread.sleep(Long.MAX_VALUE);
        }
    }

    @Test
    void what_cannot_be_served_is_said_with_the_reason() {
        Options wrong = Service.options().queue(Map.of("name", "jobs", "lock_duratoin", "5 s"));
        String message = assertThrows(IllegalStateException.class, wrong::start).getMessage();
        assertTrue(message.startsWith("parshall serve ended with status 2 before it was ready:") && message.contains("lock_duratoin"), message);
    }

    @Test
    void the_program_is_the_one_that_is_named_then_the_carried_one_then_that_on_the_path(@TempDir Path directory) throws IOException {
        Path other = Files.createFile(directory.resolve("parshall"), PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        Path cache = directory.resolve("cache");
        Map<String, String> path = Map.of("PATH", directory.toString(), "XDG_CACHE_HOME", cache.toString());
        assertTrue(Program.find(path).startsWith(cache.resolve("parshall")));
        assertEquals(Program.find(path), Program.find(path));
        assertEquals(other, Program.find(Map.of("PARSHALL", other.toString())));
        assertEquals(other, Program.find(path, "nothing"));
        String missing = assertThrows(IllegalStateException.class, () -> Program.find(Map.of("PARSHALL", "/nowhere"))).getMessage();
        assertEquals("PARSHALL=/nowhere is not a program that can be executed", missing);
        missing = assertThrows(IllegalStateException.class, () -> Program.find(Map.of(), "nothing")).getMessage();
        assertTrue(missing.endsWith("or set PARSHALL to the path of the program"), missing);
    }

    @Test
    void json_is_read_as_it_is_written() {
        String text = "{\"a\":[1.0,true,null,\"q\\\"\\\\\\u0001\"],\"b\":{}}";
        assertEquals(text, Json.write(Json.read(text)));
        for (String wrong : List.of("", "{", "[1", "{\"a\"}", "\"\\u00", "1 2", "nul")) {
            assertThrows(IllegalArgumentException.class, () -> Json.read(wrong), wrong);
        }
    }

    private static int port(String address) {
        Matcher port = Pattern.compile(":(\\d+)").matcher(address);
        assertTrue(port.find(), address);
        return Integer.parseInt(port.group(1));
    }

    private static boolean isListening(int port) {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            return socket.isConnected();
        } catch (IOException error) {
            return false;
        }
    }
}
