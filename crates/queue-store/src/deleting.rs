//! Messages that clients delete without receiving them.

use super::error::QueueError;
use super::page::{NO_SESSION, Slot, Stage};
use super::pages::join;
use super::queue::Queue;
use super::session_lock::SessionLock;
use super::state::QueueState;
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;

/// Selection of the messages that a client deletes.
#[derive(Clone, Copy, Debug)]
pub struct DeleteRequest<'a> {
    /// Upper bound of the enqueued time, exclusive.
    pub enqueued_before: UnixTime,
    /// Session to delete from. `None` selects messages of no session or of an unlocked one.
    pub session: Option<&'a SessionLock>,
    /// Maximum number of messages. The oldest are deleted.
    pub messages: usize,
}

impl Queue {
    /// Deletes available messages. Returns how many; the commit is that of deleting them.
    ///
    /// # Errors
    /// [`NoSessions`](QueueError::NoSessions), [`SessionLockLost`](QueueError::SessionLockLost),
    /// [`ReceivingNotAllowed`](QueueError::ReceivingNotAllowed), [`Disabled`](QueueError::Disabled) or
    /// [`Unavailable`](QueueError::Unavailable): nothing was deleted.
    pub fn delete(
        &self,
        now: UnixTime,
        request: &DeleteRequest<'_>,
    ) -> Result<(usize, CommitNumber), QueueError> {
        self.operate(now, |state, now| {
            self.check_receiving(state)?;
            let numbers = state.queues[self.place].deletable(now, request)?;
            state.queues[self.place].remove_all(&numbers, &mut state.effects);
            Ok(numbers.len())
        })
    }

    /// Returns the sequence numbers of the messages that [`delete`](Self::delete) would delete, for
    /// [`Work::Delete`](super::Work::Delete).
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    pub fn deletable(&self, now: UnixTime, request: &DeleteRequest<'_>) -> Result<Vec<u64>, QueueError> {
        let (numbers, _commit) = self.operate(now, |state, now| {
            self.check_receiving(state)?;
            state.queues[self.place].deletable(now, request)
        })?;
        Ok(numbers)
    }
}

impl QueueState {
    fn deletable(&self, now: i64, request: &DeleteRequest<'_>) -> Result<Vec<u64>, QueueError> {
        let session = match request.session {
            None => None,
            Some(_) if !self.ledger.policy.requires_session => return Err(QueueError::NoSessions),
            Some(lock) => Some(self.session_of(now, lock)?),
        };
        let before = request.enqueued_before.milliseconds();
        let is_meant = |slot: &Slot| {
            slot.stage == Stage::Ready
                && slot.enqueued_time < before
                && match session {
                    Some(place) => slot.session == place,
                    None if slot.session == NO_SESSION => true,
                    None => self.ledger.sessions.get(slot.session).is_some_and(|other| other.nonce == 0),
                }
        };
        let pages = self.pages.from(0);
        let held = pages.flat_map(|(number, page)| page.positions().map(move |at| (number, page, at)));
        let meant = held.filter(|(_, page, position)| is_meant(page.slot(*position)));
        Ok(meant.map(|(number, _, position)| join(number, position)).take(request.messages).collect())
    }
}
