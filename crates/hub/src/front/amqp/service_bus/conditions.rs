//! What the store says went wrong, in the conditions that clients know.

use amqp::performative::{DeliveryState, Error, ErrorCondition};

use super::incoming::MessageError;
use crate::queue::QueueError;

/// The error that a client is told.
#[cold]
pub(super) fn error_of(error: &QueueError) -> Error {
    Error::new(condition_of(error), sentence(error))
}

/// The outcome of a message that is not stored.
#[cold]
pub(super) fn rejected(error: &QueueError) -> DeliveryState {
    DeliveryState::Rejected(Some(error_of(error)))
}

/// The outcome of a message that is none.
#[cold]
pub(super) fn malformed(error: &MessageError) -> DeliveryState {
    DeliveryState::Rejected(Some(Error::new(
        message_condition(error),
        format!("{error}."),
    )))
}

/// What kind of error it is.
pub(super) fn condition_of(error: &QueueError) -> ErrorCondition {
    match error {
        QueueError::Full { .. } => ErrorCondition::RESOURCE_LIMIT_EXCEEDED,
        QueueError::TooLong | QueueError::PropertiesTooLong | QueueError::AnswerTooLong(_) => {
            ErrorCondition::MESSAGE_SIZE_EXCEEDED
        }
        QueueError::SessionIdMissing { .. }
        | QueueError::SessionRequired
        | QueueError::NoSessions
        | QueueError::SendingNotAllowed
        | QueueError::ReceivingNotAllowed => ErrorCondition::NOT_ALLOWED,
        QueueError::SessionCannotBeLocked => ErrorCondition::SESSION_CANNOT_BE_LOCKED,
        QueueError::SessionLockLost => ErrorCondition::SESSION_LOCK_LOST,
        QueueError::MessageLockLost => ErrorCondition::MESSAGE_LOCK_LOST,
        QueueError::MessageNotFound { .. } => ErrorCondition::MESSAGE_NOT_FOUND,
        QueueError::Disabled(_) => ErrorCondition::ENTITY_DISABLED,
        QueueError::Unavailable(_) => ErrorCondition::SERVER_BUSY,
    }
}

/// The same as a status of HTTP.
pub(super) const fn status_of(error: &QueueError) -> i32 {
    match error {
        QueueError::Full { .. } => 403,
        QueueError::TooLong | QueueError::PropertiesTooLong | QueueError::AnswerTooLong(_) => 413,
        QueueError::SessionIdMissing { .. }
        | QueueError::SessionRequired
        | QueueError::NoSessions
        | QueueError::SendingNotAllowed
        | QueueError::ReceivingNotAllowed => 400,
        QueueError::SessionCannotBeLocked => 409,
        QueueError::SessionLockLost | QueueError::MessageLockLost => 410,
        QueueError::MessageNotFound { .. } => 404,
        QueueError::Disabled(_) => 403,
        QueueError::Unavailable(_) => 503,
    }
}

/// What kind of error a message is that is none.
pub(super) fn message_condition(error: &MessageError) -> ErrorCondition {
    match error {
        MessageError::Malformed(_) | MessageError::Repeated => ErrorCondition::DECODE_ERROR,
        MessageError::EmptyBatch => ErrorCondition::ARGUMENT_ERROR,
        MessageError::LargeBatch | MessageError::LargeAnnotations => {
            ErrorCondition::MESSAGE_SIZE_EXCEEDED
        }
        MessageError::LongSessionId | MessageError::LongMessageId => {
            ErrorCondition::ARGUMENT_OUT_OF_RANGE
        }
    }
}

/// The text of an error as a sentence.
pub(super) fn sentence(error: &QueueError) -> String {
    let text = error.to_string();
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), characters.as_str()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_as_sentences_with_the_condition_that_clients_know() {
        let error = error_of(&QueueError::MessageLockLost);
        assert_eq!(error.condition.as_str(), "com.microsoft:message-lock-lost");
        assert!(error.description.starts_with("The lock of the message"));
        assert!(error.description.ends_with('.'));
        assert_eq!(status_of(&QueueError::MessageLockLost), 410);
    }
}
