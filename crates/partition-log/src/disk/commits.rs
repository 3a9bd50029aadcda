//! Which appends are committed, as numbers, and waking whoever waits for them.
//!
//! A partition gets the next number when it enters the committer's list, and all its appends until the committer takes it
//! from the list share that number. Numbers are settled in their order, so one number says how far the committer
//! is; the few that failed are remembered apart.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What an append waits for before it may be acknowledged. Belongs to the service's one committer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitNumber(u64);

/// How it stands with a [`CommitNumber`]. `Done` and `Failed` are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitState {
    /// Not settled yet.
    Waiting,
    /// What the policy promises has happened.
    Done,
    /// It has not happened, and the events may yet become durable. So the sender must be told that the outcome is unknown.
    Failed,
}

/// A task's view of the committer's progress.
pub struct CommitWatch {
    commits: Arc<Commits>,
    slot: usize,
    /// What was settled when the task was last told of progress.
    seen: CommitNumber,
}

/// The progress itself, shared by the committer and everyone who waits.
#[derive(Default)]
pub(super) struct Commits {
    /// The last number that is settled.
    settled: AtomicU64,
    /// Spares looking into `failed` for as long as nothing ever failed.
    any_failed: AtomicBool,
    failed: Mutex<FailedNumbers>,
    waiting: Mutex<Waiting>,
}

/// Inclusive ranges of failed numbers, ascending.
#[derive(Default)]
struct FailedNumbers {
    ranges: Vec<(u64, u64)>,
}

#[derive(Default)]
struct Waiting {
    /// One per watch. Inside, where to call, if its task waits.
    slots: Vec<Option<Option<Waker>>>,
}

impl CommitNumber {
    /// The number of what needs no commit: it is done from the beginning.
    pub const DONE: Self = Self(0);

    /// The number of a change that was made in memory and could not be appended. It counts as failed from the beginning, and is
    /// greater than all others, so that it remains if several are waited for.
    pub const FAILED: Self = Self(u64::MAX);

    /// Whether this is [`DONE`](Self::DONE), so that nobody need be asked.
    #[must_use]
    pub const fn is_done(self) -> bool {
        self.0 == Self::DONE.0
    }

    /// The number after this one.
    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl CommitWatch {
    /// Ready if any number was settled since the last time this was ready (or since the watch was made). Otherwise
    /// arranges for the task of `context` to be woken at the next one. Every round of the committer wakes every waiting
    /// task, so poll only while something is waited for.
    pub fn poll_committed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.has_progress() {
            return Poll::Ready(());
        }
        self.commits.wait(self.slot, context.waker());
        // A number may have been settled before the waker was in its place.
        match self.has_progress() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// How it stands with `number`. Costs an atomic read, as long as no commit ever failed.
    #[must_use]
    pub fn state_of(&self, number: CommitNumber) -> CommitState {
        self.commits.state_of(number)
    }

    fn has_progress(&mut self) -> bool {
        let settled = self.commits.settled();
        std::mem::replace(&mut self.seen, settled) != settled
    }
}

impl Drop for CommitWatch {
    fn drop(&mut self) {
        self.commits.waiting().slots[self.slot] = None;
    }
}

impl Commits {
    /// A watch of this progress.
    pub(super) fn watch(self: &Arc<Self>) -> CommitWatch {
        let mut waiting = self.waiting();
        let slot = match waiting.slots.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                waiting.slots.push(None);
                waiting.slots.len() - 1
            }
        };
        waiting.slots[slot] = Some(None);
        drop(waiting);
        CommitWatch { commits: Arc::clone(self), slot, seen: self.settled() }
    }

    pub(super) fn settled(&self) -> CommitNumber {
        CommitNumber(self.settled.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn state_of(&self, number: CommitNumber) -> CommitState {
        if number > self.settled() {
            return match number {
                CommitNumber::FAILED => CommitState::Failed,
                _ => CommitState::Waiting,
            };
        }
        if self.any_failed.load(Ordering::Acquire) && self.failed().contains(number.0) {
            return CommitState::Failed;
        }
        CommitState::Done
    }

    /// Notes that `number` has failed. It is reported once it is settled.
    pub(super) fn fail(&self, number: CommitNumber) {
        self.failed().add(number.0);
        self.any_failed.store(true, Ordering::Release);
    }

    /// All numbers up to `number` are settled; those that were not failed before are done. Wakes everyone who
    /// waits.
    pub(super) fn settle(&self, number: CommitNumber) {
        if number <= self.settled() {
            return;
        }
        self.settled.store(number.0, Ordering::Release);
        let wakers: Vec<Waker> = self.waiting().slots.iter_mut().flatten().filter_map(Option::take).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn wait(&self, slot: usize, waker: &Waker) {
        let mut waiting = self.waiting();
        let place = waiting.slots[slot].get_or_insert_default();
        match place {
            Some(present) => present.clone_from(waker),
            None => *place = Some(waker.clone()),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Locked sections push, take and assign; what is there is whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, FailedNumbers> {
        // As above.
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FailedNumbers {
    /// Adds a number, which is not smaller than any that is there.
    fn add(&mut self, number: u64) {
        match self.ranges.last_mut() {
            Some((_first, last)) if number <= *last + 1 => *last = number,
            _ => self.ranges.push((number, number)),
        }
        if self.ranges.len() > MAXIMUM_FAILED_RANGES {
            // What lay between the two oldest was done. Nobody asks any more; whoever does sends again in vain.
            let (first, _last) = self.ranges.remove(0);
            self.ranges[0].0 = first;
        }
    }

    fn contains(&self, number: u64) -> bool {
        let after = self.ranges.partition_point(|(first, _last)| *first <= number);
        after > 0 && number <= self.ranges[after - 1].1
    }
}

impl fmt::Debug for CommitWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitWatch").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl fmt::Debug for Commits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commits").field("settled", &self.settled).finish_non_exhaustive()
    }
}

/// Failures come with pauses between them, so this many reach far back.
const MAXIMUM_FAILED_RANGES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn numbers_are_settled_in_order_and_failures_are_distinguished() {
        let commits = Arc::new(Commits::default());
        let watch = commits.watch();
        let state = |number| watch.state_of(CommitNumber(number));
        assert_eq!(watch.state_of(CommitNumber::DONE), CommitState::Done);
        assert_eq!(state(1), CommitState::Waiting);
        commits.fail(CommitNumber(2));
        assert_eq!(state(2), CommitState::Waiting, "not settled yet");
        commits.settle(CommitNumber(3));
        assert_eq!(
            [state(1), state(2), state(3), state(4)],
            [CommitState::Done, CommitState::Failed, CommitState::Done, CommitState::Waiting]
        );
    }

    #[test]
    fn a_waiting_task_is_woken_once_and_sees_progress_once() {
        let commits = Arc::new(Commits::default());
        let mut watch = commits.watch();
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&counter));
        let mut context = Context::from_waker(&waker);
        assert_eq!(watch.poll_committed(&mut context), Poll::Pending);
        commits.settle(CommitNumber(1));
        commits.settle(CommitNumber(2));
        assert_eq!(counter.0.load(Ordering::Relaxed), 1);
        assert_eq!(watch.poll_committed(&mut context), Poll::Ready(()));
        assert_eq!(watch.poll_committed(&mut context), Poll::Pending);
    }

    #[test]
    fn progress_between_making_a_watch_and_polling_it_is_not_missed() {
        let commits = Arc::new(Commits::default());
        let mut watch = commits.watch();
        commits.settle(CommitNumber(1));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(watch.poll_committed(&mut context), Poll::Ready(()));
        drop(watch);
        let again = commits.watch();
        assert_eq!((again.slot, again.seen), (0, CommitNumber(1)));
    }

    #[test]
    fn many_failures_take_bounded_space_and_are_never_taken_for_done() {
        let mut failed = FailedNumbers::default();
        let numbers = || (1..=2 * MAXIMUM_FAILED_RANGES as u64).map(|number| number * 3);
        numbers().for_each(|number| failed.add(number));
        assert_eq!(failed.ranges.len(), MAXIMUM_FAILED_RANGES);
        assert!(numbers().all(|number| failed.contains(number)));
        let last = 6 * MAXIMUM_FAILED_RANGES as u64;
        assert!(!failed.contains(last - 1) && !failed.contains(last + 1));
        failed.add(last + 1);
        assert!(failed.contains(last + 1));
    }
}
