//! Answers that can't be given yet.
//!
//! An answer is usually given in the turn in which something was stored. Two things make it wait:
//!
//! * A durable log says when it has kept its promise ([`CommitNumber`]): commits are numbered, and those of all logs
//!   of a service come in order. What a failed commit was to store is in memory, and is stored once the disk takes writes again.
//!   So the answer says that the outcome is unknown, in the protocol's own words, and clients try again as after a timeout.
//! * A service profile says at which instant the answer of a slower service would come.
//!
//! ```text
//!  stored ── uncommitted (in order of commits) ── timed (in order of instants) ── due
//! ```
//!
//! What does not have to wait for either should not come here. How many answers may wait is for the front to bound.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::task::{Context, Poll};

use tokio::time::Instant;

use crate::profile::PreciseTimer;
use partition_log::disk::{CommitNumber, CommitState, CommitWatch};

/// The answers of one connection that wait.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    /// `None` where logs are in memory and nothing waits for them.
    commits: Option<CommitWatch>,
    uncommitted: VecDeque<Waiting<T>>,
    timed: Timed<T>,
    timer: PreciseTimer,
}

/// What an answer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Until {
    /// [`CommitNumber::DONE`] where nothing was stored that must be kept.
    pub(crate) commit: CommitNumber,
    /// Not before this.
    pub(crate) instant: Option<Instant>,
}

/// An answer to a change that may fail to be stored.
pub(crate) trait Answer {
    /// Makes it say that the outcome is unknown: the change could not be stored yet.
    fn set_unknown(&mut self);
}

#[derive(Debug)]
struct Waiting<T> {
    answer: T,
    until: Until,
}

impl Until {
    /// Nothing.
    pub(crate) const NOW: Self = Self { commit: CommitNumber::DONE, instant: None };

    /// Whether there is nothing to wait for.
    #[inline]
    pub(crate) fn is_over(self) -> bool {
        self.commit.is_done() && self.instant.is_none()
    }
}

impl<T: Answer> Pending<T> {
    /// None yet; those of durable logs wait for `commits`, those of a service profile for `timer`.
    pub(crate) const fn new(commits: Option<CommitWatch>, timer: PreciseTimer) -> Self {
        Self { commits, uncommitted: VecDeque::new(), timed: Timed::new(), timer }
    }

    /// Takes an answer that has to wait.
    pub(crate) fn push(&mut self, answer: T, until: Until) {
        match until.instant {
            Some(at) if until.commit.is_done() => self.timed.push(answer, at),
            _ => self.uncommitted.push_back(Waiting { answer, until }),
        }
    }

    /// The next answer that can be given; where there is none, the task is woken for it.
    #[inline]
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        if self.uncommitted.is_empty() && self.timed.heap.is_empty() {
            return Poll::Pending;
        }
        self.poll_waiting(cx)
    }

    /// Forgets the answers that are not `wanted` any more.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&T) -> bool) {
        self.uncommitted.retain(|waiting| wanted(&waiting.answer));
        self.timed.heap.retain(|Reverse(timed)| wanted(&timed.answer));
    }

    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        loop {
            if let Some(answer) = self.next_committed() {
                return Poll::Ready(answer);
            }
            let is_committing = !self.uncommitted.is_empty();
            if is_committing
                && let Some(commits) = &mut self.commits
                && commits.poll_committed(cx).is_ready()
            {
                continue;
            }
            return match self.timed.next_at() {
                Some(at) if self.timer.poll(cx, at).is_ready() => {
                    self.timed.pop().map_or(Poll::Pending, Poll::Ready)
                }
                _ => Poll::Pending,
            };
        }
    }

    /// The next answer whose commit is settled and that waits for no instant.
    fn next_committed(&mut self) -> Option<T> {
        let commits = self.commits.as_ref()?;
        loop {
            let state = commits.state_of(self.uncommitted.front()?.until.commit);
            if state == CommitState::Waiting {
                return None;
            }
            let Waiting { mut answer, until } = self.uncommitted.pop_front()?;
            if state == CommitState::Failed {
                answer.set_unknown();
            }
            match until.instant {
                Some(at) => self.timed.push(answer, at),
                None => return Some(answer),
            }
        }
    }
}

/// Answers by the instant at which they can be given; those of one instant in the order in which they came.
#[derive(Debug)]
struct Timed<T> {
    heap: BinaryHeap<Reverse<TimedAnswer<T>>>,
    /// How many ever came.
    count: u64,
}

#[derive(Debug)]
struct TimedAnswer<T> {
    at: Instant,
    number: u64,
    answer: T,
}

impl<T> Timed<T> {
    const fn new() -> Self {
        Self { heap: BinaryHeap::new(), count: 0 }
    }

    fn push(&mut self, answer: T, at: Instant) {
        let number = self.count;
        self.count += 1;
        self.heap.push(Reverse(TimedAnswer { at, number, answer }));
    }

    fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(first)| first.at)
    }

    fn pop(&mut self) -> Option<T> {
        self.heap.pop().map(|Reverse(timed)| timed.answer)
    }
}

impl<T> TimedAnswer<T> {
    const fn order(&self) -> (Instant, u64) {
        (self.at, self.number)
    }
}

impl<T> PartialEq for TimedAnswer<T> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<T> Eq for TimedAnswer<T> {}

impl<T> PartialOrd for TimedAnswer<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for TimedAnswer<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// The description of an unknown outcome, for whoever reads what a client reports.
pub(crate) const OUTCOME_UNKNOWN: &str = "The service could not write the change to its storage in time. It may take effect \
    later, when the storage takes writes again.";

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;
    use crate::namespace::{HubConfig, Namespace, NamespaceConfig, StorageConfig};
    use partition_log::disk::{StorageOptions, SyncPolicy};
    use partition_log::{NewRecord, UnixTime};

    impl Answer for &'static str {
        fn set_unknown(&mut self) {
            *self = "unknown";
        }
    }

    async fn next(pending: &mut Pending<&'static str>) -> &'static str {
        poll_fn(|cx| pending.poll_next(cx)).await
    }

    fn at(instant: Instant) -> Until {
        Until { commit: CommitNumber::DONE, instant: Some(instant) }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_come_at_their_instants_and_those_of_one_instant_in_order() {
        let mut pending = Pending::new(None, PreciseTimer::coarse());
        let start = Instant::now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        for (answer, milliseconds) in [("last", 9), ("first", 2), ("second", 2), ("forgotten", 4)] {
            pending.push(answer, at(after(milliseconds)));
        }
        pending.retain(|answer| *answer != "forgotten");
        for (answer, milliseconds) in [("first", 2), ("second", 2), ("last", 9)] {
            assert_eq!(next(&mut pending).await, answer);
            assert_eq!(Instant::now(), after(milliseconds));
        }
        let nothing = poll_fn(|cx| Poll::Ready(pending.poll_next(cx))).await;
        assert!(nothing.is_pending());
    }

    #[tokio::test]
    async fn an_answer_waits_for_its_commit_and_then_for_its_instant() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = NamespaceConfig::with_hubs(vec![HubConfig::new("hub", 1)]);
        let options = StorageOptions { sync: SyncPolicy::Always, ..StorageOptions::default() };
        config.storage = Some(StorageConfig { directory: directory.path().to_owned(), options });
        let namespace = Namespace::new(&config, UnixTime::default()).unwrap();
        let mut pending = Pending::new(namespace.watch_commits(), PreciseTimer::coarse());
        let hub = namespace.hub("hub").unwrap();
        let append = || {
            let appended = hub.partitions()[0].append(UnixTime::default(), |encoder| {
                encoder.push(&NewRecord { annotation_count: 0, annotations: &[], sections: &[b"event"] });
                Ok::<_, Infallible>(())
            });
            appended.unwrap().commit
        };
        let (first, second) = (append(), append());
        let instant = Instant::now() + Duration::from_millis(1);
        pending.push("late", Until { commit: first, instant: Some(instant) });
        pending.push("committed", Until { commit: second, instant: None });
        let mut came = [next(&mut pending).await, next(&mut pending).await];
        assert!(Instant::now() >= instant);
        came.sort_unstable();
        assert_eq!(came, ["committed", "late"]);
    }
}
