//! Waking readers that wait for the next append.
//!
//! A connection task has one [`Subscriber`] and, for each of its links, a [`Subscription`] to a log under a key of
//! its own. A link that has read to the end *arms* its subscription; the next append disarms it, puts its key
//! into the subscriber's list and wakes the task. The task takes all the keys at once.
//!
//! No wake-up is lost: arming looks for new records under the same mutex under which an append looks for armed
//! subscriptions, and the list is checked and the waker stored under one mutex as well. An append to a log where
//! nobody is armed looks at one number. Lock order is log, then subscriber; wakers run outside of both.

use super::disk::Damage;
use super::partition_log::PartitionLog;
use super::position::{Cursor, Isolation};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The one who is woken: the task of a connection.
#[derive(Default)]
pub struct Subscriber {
    state: Mutex<SubscriberState>,
}

#[derive(Default)]
struct SubscriberState {
    ready: Vec<u64>,
    /// Where to call; taken when called, so that a burst of appends wakes once.
    waker: Option<Waker>,
}

/// A reader's registration with one log, ended by dropping it.
pub struct Subscription {
    log: Arc<PartitionLog>,
    slot: usize,
}

/// What arming a subscription found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// There are records to read now; the subscription is not armed.
    Ready,
    /// There are none; the subscription's key will be reported when there are.
    Waiting,
    /// The next records are in a segment that is damaged; the subscription is not armed. A cursor behind that segment
    /// can be read again.
    Damaged(Damage),
}

impl Subscriber {
    /// A subscriber with nothing to report.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Moves the keys of all subscriptions that have become ready to the end of `keys`. If there are none, arranges
    /// for the task of `context` to be woken when there are.
    ///
    /// A key may belong to a subscription that has been dropped since, and may come twice if its subscription was
    /// armed again in between.
    pub fn poll_ready(&self, context: &mut Context<'_>, keys: &mut Vec<u64>) -> Poll<()> {
        let mut state = self.lock();
        if state.ready.is_empty() {
            match &mut state.waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => state.waker = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        keys.append(&mut state.ready);
        Poll::Ready(())
    }

    /// Reports `key` for a reason that is none of the log's, and wakes the task.
    pub fn report(&self, key: u64) {
        if let Some(waker) = self.mark_ready(key) {
            waker.wake();
        }
    }

    /// Notes that `key` is ready. The waker that is returned must be called, after all locks are released.
    #[must_use]
    pub fn mark_ready(&self, key: u64) -> Option<Waker> {
        let mut state = self.lock();
        state.ready.push(key);
        state.waker.take()
    }

    fn lock(&self) -> MutexGuard<'_, SubscriberState> {
        // Locked sections only push, append and swap; what is there is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    pub(super) fn new(log: Arc<PartitionLog>, slot: usize) -> Self {
        Self { log, slot }
    }

    /// Asks to be woken when there is something to read at `cursor`, once. If there is something already, says so
    /// instead.
    #[must_use]
    pub fn arm(&mut self, cursor: &Cursor) -> Readiness {
        self.log.arm(self.slot, cursor)
    }

    /// The log that is subscribed to.
    #[must_use]
    pub fn log(&self) -> &Arc<PartitionLog> {
        &self.log
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.log.unsubscribe(self.slot);
    }
}

/// The subscriptions of one log.
#[derive(Default)]
pub(super) struct Subscriptions {
    slots: Vec<Option<Slot>>,
    armed: usize,
}

struct Slot {
    subscriber: Arc<Subscriber>,
    key: u64,
    /// What the reader waits for, if it waits.
    armed: Option<Isolation>,
}

/// Which readers have something new to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// All.
    ForAll,
    /// Only those who don't mind what becomes of a transaction: it is open, and keeps the stable end where it was.
    Uncommitted,
}

impl Subscriptions {
    /// Registers `subscriber` and returns its slot, which is not armed.
    pub(super) fn add(&mut self, subscriber: Arc<Subscriber>, key: u64) -> usize {
        let added = Some(Slot { subscriber, key, armed: None });
        match self.slots.iter().position(Option::is_none) {
            Some(free) => {
                self.slots[free] = added;
                free
            }
            None => {
                self.slots.push(added);
                self.slots.len() - 1
            }
        }
    }

    /// Ends the registration of `slot`.
    pub(super) fn remove(&mut self, slot: usize) {
        if let Some(removed) = self.slots.get_mut(slot).and_then(Option::take) {
            self.armed -= usize::from(removed.armed.is_some());
        }
    }

    /// The next append that a reader of this isolation sees is to report `slot`.
    pub(super) fn arm(&mut self, slot: usize, isolation: Isolation) {
        if let Some(Some(slot)) = self.slots.get_mut(slot) {
            self.armed += usize::from(slot.armed.is_none());
            slot.armed = Some(isolation);
        }
    }

    /// Reports and disarms every armed slot that there are news for. The wakers must be called once the log's lock is
    /// released.
    #[inline]
    pub(super) fn take_wakers(&mut self, news: News) -> Option<Wakers> {
        (self.armed > 0).then(|| self.disarm(news))
    }

    /// Apart from the usual append, for which nobody waits.
    #[cold]
    fn disarm(&mut self, news: News) -> Wakers {
        self.report(|slot| match news {
            News::ForAll => slot.armed.is_some(),
            News::Uncommitted => slot.armed == Some(Isolation::Uncommitted),
        })
    }

    /// Reports every slot, armed or not, and disarms it. The wakers must be called once the log's lock is released.
    pub(super) fn report_all(&mut self) -> Wakers {
        self.report(|_slot| true)
    }

    fn report(&mut self, is_meant: impl Fn(&Slot) -> bool) -> Wakers {
        let mut wakers = Wakers::default();
        for slot in self.slots.iter_mut().flatten().filter(|slot| is_meant(slot)) {
            self.armed -= usize::from(slot.armed.take().is_some());
            if let Some(waker) = slot.subscriber.mark_ready(slot.key) {
                wakers.push(waker);
            }
        }
        wakers
    }
}

/// Wakers to call. The first few need no allocation; more than that wait for one partition rarely.
#[derive(Debug, Default)]
#[must_use = "the tasks sleep until they are woken"]
pub struct Wakers {
    first: [Option<Waker>; 4],
    more: Vec<Waker>,
}

impl Wakers {
    /// Adds one more to wake.
    pub fn push(&mut self, waker: Waker) {
        match self.first.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(waker),
            None => self.more.push(waker),
        }
    }

    /// Wakes everyone.
    pub fn wake(self) {
        self.first.into_iter().flatten().chain(self.more).for_each(Waker::wake);
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("ready", &self.lock().ready).finish_non_exhaustive()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("slot", &self.slot).finish_non_exhaustive()
    }
}
