//! A send as a service profile has it: late, refused, or the end of its link or connection.

use amqp::performative::{DeliveryState, Error};
use tokio::time::Instant;

use crate::profile::{Admission, Shaper};
use partition_log::disk::CommitNumber;

/// What a client is told about its delivery, and when.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) state: DeliveryState,
    pub(crate) commit: CommitNumber,
    /// Not before this.
    pub(crate) not_before: Option<Instant>,
}

/// What a service profile breaks.
#[derive(Debug)]
pub(crate) enum Breakage {
    /// The link of the delivery, with what the client is told.
    Link(Error),
    /// All of it, without a word.
    Connection,
}

impl Told {
    /// Told at once; nothing was stored.
    pub(crate) fn now(state: DeliveryState) -> Self {
        Self { state, commit: CommitNumber::DONE, not_before: None }
    }

    /// Told once what was stored is committed; if it was refused, at once.
    pub(crate) fn stored(stored: Result<CommitNumber, DeliveryState>) -> Self {
        match stored {
            Ok(commit) => Self { state: DeliveryState::Accepted, commit, not_before: None },
            Err(refusal) => Self::now(refusal),
        }
    }

    /// The same, not before `at` either.
    pub(crate) fn not_before(self, at: Option<Instant>) -> Self {
        Self { not_before: self.not_before.max(at), ..self }
    }
}

/// Stores a message as a service profile has it; one that the quota refuses is counted.
#[cold]
pub(crate) fn shaped(
    shaper: &mut Shaper,
    count_throttled: impl FnOnce(),
    format: u32,
    message: &[u8],
    store: impl FnOnce() -> Result<CommitNumber, DeliveryState>,
) -> Result<Told, Breakage> {
    let rejected = |error| DeliveryState::Rejected(Some(error));
    let (told, ready_at) = match shaper.publish(Instant::now(), format, message) {
        Admission::Accept { ready_at } => (Told::stored(store()), ready_at),
        Admission::Refuse { error, ready_at } => (Told::now(rejected(error)), ready_at),
        Admission::Throttle { error, ready_at } => {
            count_throttled();
            (Told::now(rejected(error)), ready_at)
        }
        Admission::AcceptWithoutAcknowledgement { error, ready_at } => {
            let _unsaid = store();
            (Told::now(rejected(error)), ready_at)
        }
        Admission::Detach { error } => return Err(Breakage::Link(error)),
        Admission::Disconnect => {
            let _unsaid = store();
            return Err(Breakage::Connection);
        }
    };
    Ok(Told { not_before: ready_at, ..told })
}
