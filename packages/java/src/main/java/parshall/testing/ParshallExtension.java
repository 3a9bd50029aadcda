package parshall.testing;

import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.platform.commons.support.AnnotationSupport;

/**
 * Services for tests of JUnit 5: of the annotation {@link Parshall}, or of a field.
 *
 * <pre>{@code
 * @RegisterExtension
 * static final ParshallExtension parshall = new ParshallExtension(Service.options().hub("orders", 4));
 * }</pre>
 *
 * <p>In a static field it is one service for the class, in another one a service for each test; {@link #service} gives it. The log
 * is printed after each test that fails.
 */
public final class ParshallExtension implements BeforeAllCallback, AfterAllCallback, BeforeEachCallback, AfterEachCallback,
    ParameterResolver {
    private final Optional<Options> options;
    /** The service of this field, while its tests run. */
    private Service running;

    /** For the annotation, which says what is served. */
    public ParshallExtension() {
        options = Optional.empty();
    }

    /** For a field. */
    public ParshallExtension(Options options) {
        this.options = Optional.of(options);
    }


    /** The service of this field. Fails before and after its tests. */
    public Service service() {
        if (running == null) {
            throw new IllegalStateException("the service runs from before the first test until after the last one");
        }
        return running;
    }

    @Override
    public void beforeAll(ExtensionContext context) {
        start(context);
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        start(context);
    }

    @Override
    public void afterEach(ExtensionContext context) {
        if (context.getExecutionException().isPresent()) {
            find(context).ifPresent(ParshallExtension::printLog);
        }
        stop(context);
    }

    @Override
    public void afterAll(ExtensionContext context) {
        stop(context);
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return options.isEmpty() && parameter.getParameter().getType() == Service.class && find(context).isPresent();
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return find(context).orElseThrow();
    }

    private void start(ExtensionContext context) {
        // A field's service runs once, also for the nested classes; methods may have an annotation of their own.
        Optional<Options> wanted = options.isPresent() ? options.filter(any -> running == null) : annotated(context);
        wanted.ifPresent(found -> {
            Service service = found.start();
            context.getStore(namespace()).put(Service.class, service);
            running = options.isPresent() ? service : null;
        });
    }

    private void stop(ExtensionContext context) {
        // Of this context alone: a test does not stop the service of its class.
        Service service = context.getStore(namespace()).remove(Service.class, Service.class);
        if (service != null) {
            service.close();
            running = null;
        }
    }

    /** The service of this test, or that of its class. */
    private Optional<Service> find(ExtensionContext context) {
        return Optional.ofNullable(context.getStore(namespace()).get(Service.class, Service.class));
    }

    /** Fields have services of their own; all annotations are one extension. */
    private ExtensionContext.Namespace namespace() {
        return ExtensionContext.Namespace.create(ParshallExtension.class, options.isPresent() ? this : "annotation");
    }

    private static Optional<Options> annotated(ExtensionContext context) {
        return AnnotationSupport.findAnnotation(context.getElement(), Parshall.class).map(ParshallExtension::options);
    }

    private static Options options(Parshall annotation) {
        Options options = Service.options();
        for (String hub : annotation.hubs()) {
            String[] parts = hub.split(":", 2);
            options.hub(parts[0], parts.length == 1 ? 4 : Integer.parseInt(parts[1]));
        }
        Stream.of(annotation.queues()).forEach(options::queue);
        for (String topic : annotation.topics()) {
            String[] parts = topic.split(":", 2);
            options.topic(parts[0], parts.length == 1 ? new String[0] : parts[1].split(","));
        }
        if (annotation.blobs() || annotation.containers().length > 0) {
            options.containers(annotation.containers());
        }
        if (annotation.kafka()) {
            options.kafka();
        }
        if (annotation.tls()) {
            options.tls();
        }
        return options.arguments(annotation.arguments());
    }

    private static void printLog(Service service) {
        String log = service.log();
        if (!log.isEmpty()) {
            System.err.println("log of parshall serve (process " + service.processId() + "):\n" + log);
        }
    }
}
