package parshall.compat;

import static org.junit.jupiter.api.Assertions.assertAll;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
import org.junit.jupiter.api.function.Executable;
import reactor.core.Exceptions;

/** What the client makes of an error: its condition, and whether it would try again. */
final class Failures {
    private Failures() {
    }

    /** That the action fails in this way, and gives an error that says {@code text}. */
    static AmqpException assertFails(AmqpErrorCondition condition, boolean isTransient, String text, Executable action) {
        return assertIs(condition, isTransient, text, failureOf(action));
    }

    static AmqpException assertIs(AmqpErrorCondition condition, boolean isTransient, String text, Throwable error) {
        AmqpException exception = amqpErrorOf(error);
        assertAll(
            () -> assertEquals(condition, exception.getErrorCondition(), exception::getMessage),
            () -> assertEquals(isTransient, exception.isTransient(), exception::getMessage),
            () -> assertTrue(exception.getMessage().contains(text), exception::getMessage));
        return exception;
    }

    /** The service's answer, in whatever the client has wrapped it. */
    static AmqpException amqpErrorOf(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof AmqpException exception) {
                return exception;
            }
        }
        return fail("is no error of AMQP", error);
    }

    /** The error with which the action ends; that of the client, not of whoever waited for it. */
    static Throwable failureOf(Executable action) {
        try {
            action.execute();
        } catch (Throwable error) {
            return Exceptions.unwrap(error);
        }
        return fail("it succeeded");
    }
}
