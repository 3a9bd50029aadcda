package parshall.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.platform.testkit.engine.EngineTestKit;

@Parshall(hubs = "orders:2", topics = "news:all,audit", containers = "kept", kafka = true)
class ParshallExtensionTest {
    private static final Set<Long> shared = new HashSet<>();

    @RegisterExtension
    static final ParshallExtension ofClass = new ParshallExtension(Service.options().queue("jobs"));

    @RegisterExtension
    final ParshallExtension ofTest = new ParshallExtension(Service.options().queue("jobs"));

    @RepeatedTest(2)
    void the_service_of_a_class_is_shared(Service service) {
        shared.add(service.processId());
        assertEquals(1, shared.size());
        assertTrue(service.storageConnectionString().contains("BlobEndpoint="));
        assertTrue(service.kafkaBootstrapServers().startsWith("127.0.0.1:"));
    }

    @Test
    @Parshall(queues = "jobs")
    void a_method_may_have_one_of_its_own(Service service) {
        assertTrue(shared.add(service.processId()));
        shared.remove(service.processId());
    }

    @Test
    void fields_have_services_of_their_own(Service service) {
        long[] processes = {service.processId(), ofClass.service().processId(), ofTest.service().processId()};
        assertEquals(3, Set.of(processes[0], processes[1], processes[2]).size());
    }

    @Nested
    class NestedTest {
        private final Service outer = ofClass.service();

        @Test
        void nested_tests_share_the_services_of_their_class(Service service) {
            assertSame(outer, ofClass.service());
            assertNotEquals(outer.processId(), service.processId());
        }
    }

    @Test
    void the_log_is_printed_for_tests_that_fail_alone() {
        PrintStream before = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setErr(new PrintStream(printed, true));
        try {
            EngineTestKit.engine("junit-jupiter").selectors(selectClass(OneFails.class)).execute()
                .testEvents().assertStatistics(statistics -> statistics.succeeded(1).failed(1));
        } finally {
            System.setErr(before);
        }
        assertEquals(2, printed.toString().split("log of parshall serve", -1).length, printed.toString());
    }

    @Parshall(arguments = {"--config", "src/test/warned-of.yaml"})
    static class OneFails {
        @Test
        void passes() {
        }

        @Test
        @Timeout(60)
        void fails(Service service) {
            // A thread of its own reads the log, and may be late.
            while (service.log().isEmpty()) {
                Thread.onSpinWait();
            }
            fail("as it is meant to");
        }
    }
}
