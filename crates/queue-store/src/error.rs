//! Why something can't be done with a queue or topic.

use super::options::EntityStatus;
use super::properties::PROPERTIES_MAX;
use partition_log::disk::Unavailable;
use units::ByteSize;

/// Why an operation changed nothing. Each names the AMQP condition that it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The entity holds what it may: `amqp:resource-limit-exceeded`. What was accepted before stays.
    #[error("the entity holds {held} of {bound}; {batch} more don't fit")]
    Full {
        /// What it holds.
        held: ByteSize,
        /// What the batch would have added.
        batch: ByteSize,
        /// What it may hold.
        bound: ByteSize,
    },
    /// The batch is longer than the journal of a durable entity can take: `amqp:link:message-size-exceeded`.
    #[error("the batch is longer than any batch can be")]
    TooLong,
    /// Settling would give a message more application properties than any may have: `amqp:link:message-size-exceeded`.
    #[error("the application properties of the message would be longer than {PROPERTIES_MAX} bytes")]
    PropertiesTooLong,
    /// The messages of a request are too many for one answer: `amqp:link:message-size-exceeded`.
    #[error("the messages are longer than {0} together; ask for fewer of them at once")]
    AnswerTooLong(ByteSize),
    /// A message without session for an entity that requires one: `amqp:not-allowed`.
    #[error("the entity requires sessions, and message {index} of the batch belongs to none")]
    SessionIdMissing {
        /// Which message of the batch.
        index: usize,
    },
    /// Receiving without a session from an entity that requires one: `amqp:not-allowed`.
    #[error("the entity requires sessions: accept one to receive from it")]
    SessionRequired,
    /// A session of an entity that has none: `amqp:not-allowed`.
    #[error("the entity has no sessions")]
    NoSessions,
    /// Somebody else has the session: `com.microsoft:session-cannot-be-locked`.
    #[error("the session is locked by another receiver")]
    SessionCannotBeLocked,
    /// The lock of the session is over: `com.microsoft:session-lock-lost`.
    #[error("the lock of the session has expired, or was never held")]
    SessionLockLost,
    /// The lock of the message is over: `com.microsoft:message-lock-lost`.
    #[error(
        "the lock of the message has expired, or the message was settled, or the lock token is not one of this entity"
    )]
    MessageLockLost,
    /// There is no message of this number in the state that is asked for: `com.microsoft:message-not-found`.
    #[error("there is no such message with the sequence number {sequence_number}")]
    MessageNotFound {
        /// The number.
        sequence_number: u64,
    },
    /// The owner has switched it off: `com.microsoft:entity-disabled`.
    #[error("the entity is not enabled for this: its status is {0:?}")]
    Disabled(EntityStatus),
    /// It was deleted while it was in use: `amqp:not-found`.
    #[error("the messaging entity could not be found: it was deleted")]
    Deleted,
    /// Nobody sends to dead-letter queues or subscriptions: `amqp:not-allowed`.
    #[error("messages can't be sent to a dead-letter queue or to a subscription")]
    SendingNotAllowed,
    /// The messages go elsewhere: `amqp:not-allowed`.
    #[error("messages can't be received from an entity that forwards them")]
    ReceivingNotAllowed,
    /// The disk does not take what happened before; try again later: `com.microsoft:server-busy`.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
