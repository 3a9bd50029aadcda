package parshall.compat;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A program among these tests, in a JVM of its own. */
final class JavaProcess {
    private JavaProcess() {
    }

    /** One that is not started yet: its main class, options of the JVM, and its arguments. */
    static ProcessBuilder of(Class<?> program, List<String> options, String... arguments) {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        List<String> command = new ArrayList<>(List.of(java, "-XX:TieredStopAtLevel=1"));
        command.addAll(options);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), program.getName()));
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command);
    }
}
