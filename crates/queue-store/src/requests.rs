//! What receivers ask for.

use super::session_lock::SessionLock;
use amqp::codec::Value;

/// What to receive.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveRequest<'a> {
    /// What becomes of what is received.
    pub mode: ReceiveMode,
    /// The session to receive from, where sessions are required.
    pub session: Option<&'a SessionLock>,
    /// How many messages at most.
    pub messages: usize,
    /// How many bytes of annotations and sections at most; one message is given however long it is.
    pub bytes: usize,
}

/// What becomes of a message that is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveMode {
    /// It is locked until it is settled, or for the lock duration.
    PeekLock,
    /// It is gone.
    ReceiveAndDelete,
}

/// What a receiver decides about messages that it has locked.
#[derive(Clone, Copy, Debug)]
pub enum Settlement<'a> {
    /// Done: it is gone.
    Complete,
    /// Failed: it is available again at once, one failed delivery more; or a dead letter, if that was the last one.
    Abandon {
        /// Application properties to set.
        properties: &'a [(String, Value)],
    },
    /// Put aside: it is received by its sequence number from now on.
    Defer {
        /// Application properties to set.
        properties: &'a [(String, Value)],
    },
    /// Hopeless: it goes to the dead-letter queue; in a dead-letter queue it stays where it is.
    DeadLetter {
        /// Becomes the application property `DeadLetterReason`.
        reason: Option<&'a str>,
        /// Becomes the application property `DeadLetterErrorDescription`.
        description: Option<&'a str>,
        /// Further application properties to set.
        properties: &'a [(String, Value)],
    },
    /// Not looked at: it is available again at once, and counts no failed delivery.
    Release,
}

impl<'a> Settlement<'a> {
    /// The application properties that it sets.
    pub(super) const fn properties(&self) -> &'a [(String, Value)] {
        match self {
            Self::Abandon { properties }
            | Self::Defer { properties }
            | Self::DeadLetter { properties, .. } => properties,
            Self::Complete | Self::Release => &[],
        }
    }

    /// How many bytes its reason and its description are.
    pub(super) fn text_length(&self) -> usize {
        match self {
            Self::DeadLetter { reason, description, .. } => {
                [reason, description].map(|text| text.map_or(0, str::len)).iter().sum()
            }
            _ => 0,
        }
    }

    /// Whether there must be room for what it adds to messages. A reason of the usual length finds it always, since a
    /// message that can't be processed is to go to the dead letters of a full queue as well.
    #[inline]
    pub(super) fn adds_much(&self) -> bool {
        !self.properties().is_empty() || self.text_length() > USUAL_TEXT
    }
}

/// Bytes of a reason and its description that need no room.
const USUAL_TEXT: usize = 512;
