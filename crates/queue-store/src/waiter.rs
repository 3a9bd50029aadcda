//! Waking receivers that wait for messages.
//!
//! A connection task has one [`Subscriber`](partition_log::Subscriber) and, for each of its receiving links, a [`Waiter`]
//! under a key of its own. A link that found nothing *arms* its waiter; what comes next disarms it, puts its key into the
//! subscriber's list and wakes the task. No wake-up is lost: arming looks for messages under the same lock under which
//! messages become available.

use super::queue::Queue;
use super::session_lock::SessionLock;
use super::state::QueueState;
use super::waiters::Armed;
use partition_log::UnixTime;
use std::sync::Arc;

/// A receiver's registration with one queue, ended by dropping it.
#[derive(Debug)]
pub struct Waiter {
    queue: Arc<Queue>,
    /// `None` if the queue was deleted before.
    slot: Option<usize>,
}

/// What a receiver waits for.
#[derive(Clone, Copy, Debug)]
pub enum Awaited<'a> {
    /// A message that is available, where sessions are not required.
    Message,
    /// A message of the session that it has locked, or the loss of that lock.
    InSession(&'a SessionLock),
    /// The loss of the lock of a session, whether there are messages of it or not.
    LossOfSession(&'a SessionLock),
    /// A session that can be accepted.
    NextSession,
    /// A message whose number is at least this, whatever its state, for those who only look.
    NumberFrom(u64),
}

/// What arming a waiter found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is there now; the waiter is not armed.
    Something,
    /// It is not; the waiter's key will be reported, once, when it is. Another receiver may be faster, so the key says
    /// to look again.
    Nothing,
}

impl Waiter {
    pub(super) fn new(queue: Arc<Queue>, slot: Option<usize>) -> Self {
        Self { queue, slot }
    }

    /// Asks to be woken when there is what is awaited, once. If there is already, says so instead.
    #[must_use]
    pub fn arm(&mut self, now: UnixTime, awaited: Awaited<'_>) -> Found {
        let Some(slot) = self.slot else {
            return Found::Something;
        };
        let found = self.queue.operate(now, |state, now| {
            let queue = &mut state.queues[self.queue.place];
            Ok(queue.arm(now, slot, awaited))
        });
        match found {
            Ok((found, _commit)) => found,
            // Whoever looks gets the error.
            Err(_) => Found::Something,
        }
    }

    /// The queue that it waits for.
    #[must_use]
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.queue.registered(|waiters| waiters.remove(slot));
        }
    }
}

impl QueueState {
    fn arm(&mut self, now: i64, slot: usize, awaited: Awaited<'_>) -> Found {
        let ledger = &mut self.ledger;
        let (is_there, armed) = match awaited {
            Awaited::Message => (self.pages.first_ready().is_some(), Armed::Message),
            Awaited::NumberFrom(number) => {
                let is_there = self.has_from(number);
                (is_there, Armed::Message)
            }
            Awaited::NextSession => {
                let is_there = ledger.sessions.first_acceptable().is_some();
                (is_there, Armed::NextSession)
            }
            Awaited::InSession(lock) | Awaited::LossOfSession(lock) => {
                let Ok(session) = self.session_of(now, lock) else {
                    return Found::Something;
                };
                let ledger = &mut self.ledger;
                let found = ledger.sessions.get(session);
                let is_there = matches!(awaited, Awaited::InSession(_))
                    && found.is_some_and(|session| !session.ready.is_empty());
                ledger.sessions.change(session, |session| session.waiter = Some(slot));
                (is_there, Armed::InSession)
            }
        };
        let armed = if is_there { Armed::Nothing } else { armed };
        self.ledger.waiters.arm(slot, armed);
        match is_there {
            true => Found::Something,
            false => Found::Nothing,
        }
    }
}
