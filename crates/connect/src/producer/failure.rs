//! Why an event was not acknowledged, and what is known of it.

use std::fmt;

use crate::service::ServiceError;
use crate::service::error::TIMEOUT;
use crate::sink::{ErrorClass, SendError};

/// Why an event, or a batch of them, was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{condition}: {description}{}", fate.note())]
pub struct SendFailure {
    /// Whether the service may have it all the same.
    pub fate: Fate,
    /// What can be done about it.
    pub class: ErrorClass,
    /// The service's name for what happened, such as `amqp:not-found`, or one of ours that begins with `connection:` or
    /// `producer:`.
    pub condition: String,
    /// Words for a person.
    pub description: String,
}

/// What became of an event that was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It never left.
    NotSent,
    /// The service has refused it.
    Refused,
    /// It was sent, and nobody knows what became of it: the service may have it.
    Unknown,
}

impl SendFailure {
    /// It can't be sent as it is.
    pub(super) fn invalid(description: impl Into<String>) -> Self {
        Self {
            fate: Fate::NotSent,
            class: ErrorClass::Fatal,
            condition: INVALID.to_owned(),
            description: description.into(),
        }
    }

    /// It is larger than the service takes.
    pub(super) fn too_large(bytes: usize, maximum: usize) -> Self {
        Self {
            fate: Fate::NotSent,
            class: ErrorClass::TooLarge,
            condition: TOO_LARGE.to_owned(),
            description: format!("the event encodes to {bytes} bytes; at most {maximum} can be sent"),
        }
    }

    /// It did not leave.
    pub(super) fn not_sent(error: ServiceError) -> Self {
        let ServiceError { class, condition, description } = error;
        Self { fate: Fate::NotSent, class, condition, description }
    }

    /// The time for it is over.
    pub(super) fn timed_out(fate: Fate, limit: std::time::Duration, outage: Option<&ServiceError>) -> Self {
        let why = outage.map(|outage| format!(": {outage}")).unwrap_or_default();
        Self {
            fate,
            class: ErrorClass::Retryable,
            condition: TIMEOUT.to_owned(),
            description: format!("there was no acknowledgement within {limit:?}{why}"),
        }
    }

    /// The producer was closed before it could be sent, or acknowledged.
    pub(super) fn closed(fate: Fate) -> Self {
        Self {
            fate,
            class: ErrorClass::Fatal,
            condition: CLOSED.to_owned(),
            description: "the producer was closed".to_owned(),
        }
    }

    /// The same after an earlier try of which nobody knows what became.
    pub(super) fn after_unknown(mut self) -> Self {
        self.fate = Fate::Unknown;
        self
    }

    /// Whether the same again may be acknowledged.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self.class, ErrorClass::Retryable | ErrorClass::Throttled { .. })
    }
}

impl SendFailure {
    /// How long the service wants to be left alone.
    pub(super) const fn least_wait(&self) -> std::time::Duration {
        match self.class {
            ErrorClass::Throttled { retry_after } => retry_after,
            ErrorClass::Retryable | ErrorClass::Fatal | ErrorClass::TooLarge => std::time::Duration::ZERO,
        }
    }
}

impl From<SendError> for SendFailure {
    /// A refusal is one that the service has given for this very send. What can be tried again without being one for a
    /// quota's sake can as well be a connection that broke before the answer came.
    fn from(error: SendError) -> Self {
        let SendError { class, condition, description } = error;
        let (fate, class) = match class {
            ErrorClass::Retryable if condition != RELEASED => (Fate::Unknown, class),
            // So outlets say that it never left.
            ErrorClass::Throttled { retry_after } if retry_after.is_zero() => {
                (Fate::NotSent, ErrorClass::Retryable)
            }
            _ => (Fate::Refused, class),
        };
        Self { fate, class, condition, description }
    }
}

impl Fate {
    const fn note(self) -> &'static str {
        match self {
            Self::NotSent => " (not sent)",
            Self::Refused => "",
            Self::Unknown => " (the service may have it)",
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSent => "not sent",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        })
    }
}

/// The condition of an event that can't be sent as it is.
pub const INVALID: &str = "producer:invalid-event";

/// The condition of an event that is larger than can be sent.
pub const TOO_LARGE: &str = "producer:too-large";

/// The condition of what a producer still had when it was closed.
pub const CLOSED: &str = "producer:closed";

/// The condition of a connection for which the system had no port left: too many were made to one address in a short time.
pub const NO_PORTS: &str = "producer:no-ports";

/// What a service says that has looked at a message and not taken it.
const RELEASED: &str = "amqp:released";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_failure_says_whether_the_service_may_have_the_event() {
        let fate = |class, condition: &str| {
            let error = SendError { class, condition: condition.to_owned(), description: String::new() };
            SendFailure::from(error).fate
        };
        assert_eq!(fate(ErrorClass::Retryable, "connection:lost"), Fate::Unknown);
        assert_eq!(fate(ErrorClass::Retryable, "amqp:connection:forced"), Fate::Unknown);
        assert_eq!(fate(ErrorClass::Retryable, "amqp:released"), Fate::Refused);
        assert_eq!(fate(ErrorClass::Fatal, "amqp:not-allowed"), Fate::Refused);
        let throttled = |retry_after| ErrorClass::Throttled { retry_after };
        assert_eq!(fate(throttled(Duration::from_secs(4)), "com.microsoft:server-busy"), Fate::Refused);
        assert_eq!(fate(throttled(Duration::ZERO), "connection:unreachable"), Fate::NotSent);
        let timed_out = SendFailure::timed_out(Fate::Unknown, Duration::from_secs(1), None);
        assert!(timed_out.to_string().ends_with("within 1s (the service may have it)"), "{timed_out}");
    }
}
