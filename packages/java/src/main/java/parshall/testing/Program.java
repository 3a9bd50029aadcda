package parshall.testing;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/** The program: that which {@code PARSHALL} names, the one in this archive, or the one on the {@code PATH}. */
final class Program {
    private static final String NAME = "parshall";
    private static final String RESOURCE = NAME + "-linux-" + System.getProperty("os.arch");

    private final Map<String, String> environment;
    private final String resource;

    private Program(Map<String, String> environment, String resource) {
        this.environment = environment;
        this.resource = resource;
    }

    /** Its path, for a process with this environment. */
    static Path find(Map<String, String> environment) {
        return find(environment, RESOURCE);
    }

    static Path find(Map<String, String> environment, String resource) {
        Program program = new Program(environment, resource);
        String named = environment.get("PARSHALL");
        if (named != null && !named.isEmpty()) {
            Optional<Path> found = named.contains("/") ? Optional.of(Path.of(named)) : program.onPath(named);
            return found.filter(Files::isRegularFile).filter(Files::isExecutable)
                .orElseThrow(() -> new IllegalStateException("PARSHALL=" + named + " is not a program that can be executed"));
        }
        return program.carried().or(() -> program.onPath(NAME)).orElseThrow(() -> new IllegalStateException(
            "there is no program `parshall`: this archive has none for " + System.getProperty("os.arch")
                + ", and there is none on the PATH; use the archive for this platform, or set PARSHALL to the path of the program"));
    }

    private Optional<Path> onPath(String name) {
        return Stream.of(environment.getOrDefault("PATH", "").split(File.pathSeparator))
            .filter(directory -> !directory.isEmpty())
            .map(directory -> Path.of(directory, name))
            .filter(Files::isRegularFile).filter(Files::isExecutable)
            .findFirst();
    }

    /** The one in this archive, as a file in the user's cache. It is named by its content, so it is written once. */
    private Optional<Path> carried() {
        try (InputStream hash = open(".sha256"); InputStream content = open("")) {
            if (hash == null || content == null) {
                return Optional.empty();
            }
            Path directory = cache().resolve(new String(hash.readAllBytes(), StandardCharsets.US_ASCII).strip());
            Path file = directory.resolve(NAME);
            if (!Files.isExecutable(file)) {
                Files.createDirectories(directory);
                // It takes its place complete, whoever else is writing it at the same time.
                Path written = Files.createTempFile(directory, NAME, null);
                Files.copy(content, written, StandardCopyOption.REPLACE_EXISTING);
                Files.setPosixFilePermissions(written, PosixFilePermissions.fromString("rwxr-xr-x"));
                Files.move(written, file, StandardCopyOption.ATOMIC_MOVE);
            }
            return Optional.of(file);
        } catch (IOException error) {
            throw new IllegalStateException("the program can't be written to " + cache() + "; set PARSHALL to its path", error);
        }
    }

    private InputStream open(String suffix) {
        return Program.class.getResourceAsStream("/" + resource + suffix);
    }

    private Path cache() {
        String named = environment.get("XDG_CACHE_HOME");
        Path caches = named == null || named.isEmpty() ? Path.of(System.getProperty("user.home"), ".cache") : Path.of(named);
        return caches.resolve(NAME);
    }
}
