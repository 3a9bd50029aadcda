package parshall.compat;

import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import java.util.function.Supplier;

/** Waiting for what can only be asked for. */
final class Waiting {
    private Waiting() {
    }

    /** Asks until the answer is as it is to be, and gives it. */
    static <T> T until(String what, Duration limit, Supplier<T> question, Predicate<T> isReached) {
        Instant end = Instant.now().plus(limit);
        T answer = question.get();
        while (!isReached.test(answer)) {
            if (Instant.now().isAfter(end)) {
                throw new AssertionError(what + " was not reached within " + limit + ": " + answer);
            }
            LockSupport.parkNanos(Duration.ofMillis(50).toNanos());
            answer = question.get();
        }
        return answer;
    }
}
