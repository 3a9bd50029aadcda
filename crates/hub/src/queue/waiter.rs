//! Waking receivers that wait for messages.
//!
//! A connection task has one [`Subscriber`](crate::log::Subscriber) and, for each of its receiving links, a [`Waiter`]
//! under a key of its own. A link that found nothing *arms* its waiter; what comes next disarms it, puts its key into the
//! subscriber's list and wakes the task. No wake-up is lost: arming looks for messages under the same lock under which
//! messages become available.

use super::queue::Queue;
use super::session_lock::SessionLock;
use crate::unix_time::UnixTime;
use std::sync::Arc;

/// A receiver's registration with one queue, ended by dropping it.
#[derive(Debug)]
pub struct Waiter {
    queue: Arc<Queue>,
}

/// What a receiver waits for.
#[derive(Clone, Copy, Debug)]
pub enum Awaited<'a> {
    /// A message that is available, where sessions are not required.
    Message,
    /// A message of the session that it has locked, or the loss of that lock.
    InSession(&'a SessionLock),
    /// A session that can be accepted.
    NextSession,
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
    /// Asks to be woken when there is what is awaited, once. If there is already, says so instead.
    #[must_use]
    pub fn arm(&mut self, now: UnixTime, awaited: Awaited<'_>) -> Found {
        todo!("{now} {awaited:?}")
    }

    /// The queue that it waits for.
    #[must_use]
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }
}
