package parshall.testing;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * A service for the tests of a class, or for one test: whichever has a parameter of type {@link Service} gets it. In the forms of
 * the options of {@code parshall serve}.
 *
 * <pre>{@code
 * @Parshall(hubs = "orders:4", queues = "jobs")
 * class OrdersTest {
 *     @Test
 *     void order(Service service) { … }
 * }
 * }</pre>
 */
@Documented
@Inherited
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.TYPE, ElementType.METHOD})
@ExtendWith(ParshallExtension.class)
public @interface Parshall {
    /** {@code NAME} or {@code NAME:PARTITIONS}; 4 partitions where nothing else is said. */
    String[] hubs() default {};

    /** Names. */
    String[] queues() default {};

    /** {@code NAME} or {@code NAME:SUBSCRIPTION,…}. */
    String[] topics() default {};

    /** Names of containers of blobs. */
    String[] containers() default {};

    /** Whether blobs are served though there are no containers yet. */
    boolean blobs() default false;

    /** Whether hubs are served to clients of Kafka, too. */
    boolean kafka() default false;

    /** Whether everything is served over TLS besides. */
    boolean tls() default false;

    /** More arguments of {@code parshall serve}. */
    String[] arguments() default {};
}
