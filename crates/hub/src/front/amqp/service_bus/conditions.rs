//! What the store says went wrong, in the conditions that clients know.

use amqp::performative::{DeliveryState, Error, ErrorCondition};

use super::incoming::MessageError;
use queue_store::QueueError;

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
    DeliveryState::Rejected(Some(Error::new(message_condition(error), format!("{error}."))))
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
        QueueError::Deleted => ErrorCondition::NOT_FOUND,
        QueueError::Unavailable(_) => ErrorCondition::SERVER_BUSY,
    }
}

/// The same as a status of HTTP.
pub(in crate::front) const fn status_of(error: &QueueError) -> i32 {
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
        QueueError::MessageNotFound { .. } | QueueError::Deleted => 404,
        QueueError::Disabled(_) => 403,
        QueueError::Unavailable(_) => 503,
    }
}

/// What kind of error a message is that is none.
pub(super) fn message_condition(error: &MessageError) -> ErrorCondition {
    match error {
        MessageError::Malformed(_) | MessageError::Repeated => ErrorCondition::DECODE_ERROR,
        MessageError::EmptyBatch => ErrorCondition::ARGUMENT_ERROR,
        MessageError::LargeAnnotations => ErrorCondition::MESSAGE_SIZE_EXCEEDED,
        MessageError::LongSessionId | MessageError::LongPartitionKey | MessageError::LongMessageId => {
            ErrorCondition::ARGUMENT_OUT_OF_RANGE
        }
    }
}

/// The text of an error: the service's, where people look for parts of it, else ours as a sentence.
pub(in crate::front) fn sentence(error: &QueueError) -> String {
    match error {
        QueueError::MessageLockLost => MESSAGE_LOCK_LOST.to_owned(),
        QueueError::SessionLockLost => {
            "The session lock has expired on the MessageSession. Accept a new MessageSession."
                .to_owned()
        }
        QueueError::SessionCannotBeLocked => {
            "The requested session cannot be accepted. It may be locked by another receiver."
                .to_owned()
        }
        QueueError::SessionRequired => {
            "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."
                .to_owned()
        }
        QueueError::NoSessions => {
            "A sessionful message receiver cannot be created on an entity that does not require sessions. \
             Ensure RequiresSession is set to true when creating a Queue or Subscription to enable sessionful behavior."
                .to_owned()
        }
        QueueError::SessionIdMissing { index } => format!(
            "The SessionId was not set on a message, and it cannot be sent to the entity. \
             Entities that have session support enabled can only receive messages that have the SessionId set to a valid value. \
             Message {index} of the batch has none."
        ),
        QueueError::MessageNotFound { sequence_number } => format!(
            "Failed to lock one or more specified messages. \
             Either the message is already locked or does not exist: sequence number {sequence_number}."
        ),
        QueueError::Full { held, batch, bound } => format!(
            "The maximum entity size has been reached or exceeded. Size of entity in bytes:{}, \
             Max entity size in bytes:{}. {batch} more do not fit.",
            held.bytes(),
            bound.bytes(),
        ),
        QueueError::Disabled(status) => format!(
            "The messaging entity is currently disabled for this operation: its status is {status:?}."
        ),
        other => as_sentence(&other.to_string()),
    }
}

/// The refusal of the session of this name.
#[cold]
pub(super) fn session_refused(error: &QueueError, session: &str) -> Error {
    let text = match error {
        QueueError::SessionCannotBeLocked => format!(
            "The requested session '{session}' cannot be accepted. It may be locked by another receiver."
        ),
        other => sentence(other),
    };
    Error::new(condition_of(error), text)
}

fn as_sentence(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), characters.as_str()),
        None => String::new(),
    }
}

/// What a client is told whose lock is worth nothing.
pub(super) const MESSAGE_LOCK_LOST: &str = "The lock supplied is invalid. Either the lock expired, or the message has already \
    been removed from the queue, or was received by a different receiver instance.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sentences_with_the_condition_that_clients_know() {
        let error = error_of(&QueueError::MessageLockLost);
        assert_eq!(error.condition.as_str(), "com.microsoft:message-lock-lost");
        let known = "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue";
        assert!(error.description.starts_with(known));
        assert!(error.description.ends_with('.'));
        let ours = error_of(&QueueError::SendingNotAllowed);
        assert!(ours.description.starts_with("Messages can't be sent"));
        assert!(ours.description.ends_with('.'));
        assert_eq!(status_of(&QueueError::MessageLockLost), 410);
    }
}
