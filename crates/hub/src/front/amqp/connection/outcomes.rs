//! Outcomes that can't be told yet.
//!
//! The outcome of a send, the answer to a settlement and the reply to a request are usually told in the turn in which
//! something was stored. Two things make them wait:
//!
//! * A durable log says when it has kept its promise ([`CommitNumber`]): commits are numbered, and those of all logs
//!   of a service come in order. A commit that fails turns the outcome into a refusal that makes clients try again.
//! * A service profile says at which instant the answer of a slower service would come.
//!
//! ```text
//!  stored ── uncommitted (in order of commits) ── timed (in order of instants) ── due
//! ```
//!
//! What does not have to wait for either passes through without being queued. How many wait is bounded by the credit
//! that a link has: waiting outcomes count against it.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::task::Context;

use amqp::connection::{LinkId, SessionId};
use amqp::performative::DeliveryState;
use tokio::time::Instant;

use super::conditions::server_busy;
use super::requests::{Reply, RequestNode};
use crate::profile::Alarm;
use partition_log::disk::{CommitNumber, CommitState, CommitWatch};

/// The outcomes of one connection that wait.
#[derive(Debug)]
pub(crate) struct Outcomes {
    /// `None` where logs are in memory and nothing waits for them.
    commits: Option<CommitWatch>,
    uncommitted: VecDeque<Waiting>,
    timed: TimedOutcomes,
    alarm: Alarm,
}

/// The outcome of some deliveries.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) link: LinkId,
    pub(crate) session: SessionId,
    /// The number of the first one in the session.
    pub(crate) first: u32,
    /// And of the last one.
    pub(crate) last: u32,
    pub(crate) state: DeliveryState,
    pub(crate) direction: Direction,
}

/// Whose deliveries an outcome is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The client's: we are the receiver.
    Received,
    /// Ours: the client has given the outcome, and waits for our answer.
    Sent,
}

/// A reply to a request that changed something.
#[derive(Debug)]
pub(crate) struct PendingReply {
    pub(crate) node: RequestNode,
    pub(crate) session: SessionId,
    pub(crate) reply: Reply,
    /// What is replied instead where the change could not be kept.
    pub(crate) refusal: Reply,
}

/// What a client is told.
#[derive(Debug)]
pub(crate) enum Pending {
    Outcome(Outcome),
    Reply(Box<PendingReply>),
    /// It has been told.
    Told,
}

/// What a client is told, and what that waits for.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) pending: Pending,
    /// [`CommitNumber::DONE`] where nothing was stored that must be kept.
    pub(crate) commit: CommitNumber,
    /// Not before this.
    pub(crate) not_before: Option<Instant>,
}

impl Pending {
    /// What was stored is not kept.
    fn fail(&mut self) {
        match self {
            Self::Outcome(outcome) => outcome.state = server_busy(NOT_KEPT),
            Self::Reply(pending) => std::mem::swap(&mut pending.reply, &mut pending.refusal),
            Self::Told => {}
        }
    }
}

impl Outcomes {
    /// None yet; those of durable logs wait for `commits`, those of a service profile for `alarm`.
    pub(crate) fn new(commits: Option<CommitWatch>, alarm: Alarm) -> Self {
        Self { commits, uncommitted: VecDeque::new(), timed: TimedOutcomes::default(), alarm }
    }

    /// Takes an outcome that has to wait.
    pub(crate) fn wait(&mut self, waiting: Waiting) {
        match waiting.not_before {
            Some(at) if waiting.commit.is_done() => {
                self.timed.push(waiting.pending, at);
            }
            _ => self.uncommitted.push_back(waiting),
        }
    }

    /// Moves the outcomes that can be told now to `due`, in the order in which they became so. The task is woken when
    /// there are more.
    pub(crate) fn poll_due(&mut self, cx: &mut Context<'_>, due: &mut Vec<Pending>) {
        self.poll_commits(cx, due);
        self.poll_time(cx, due);
    }

    /// Forgets the outcomes that are not `wanted`: of links that are gone.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&Outcome) -> bool) {
        let is_wanted = |pending: &Pending| match pending {
            Pending::Outcome(outcome) => wanted(outcome),
            // Who asked may have another link for the answer.
            Pending::Reply(_) | Pending::Told => true,
        };
        self.uncommitted.retain(|waiting| is_wanted(&waiting.pending));
        self.timed.heap.retain(|Reverse(timed)| is_wanted(&timed.pending));
    }

    fn poll_commits(&mut self, cx: &mut Context<'_>, due: &mut Vec<Pending>) {
        let Some(commits) = &mut self.commits else {
            return;
        };
        while !self.uncommitted.is_empty() {
            while let Some(first) = self.uncommitted.front() {
                let state = commits.state_of(first.commit);
                if state == CommitState::Waiting {
                    break;
                }
                let Some(mut waiting) = self.uncommitted.pop_front() else {
                    break;
                };
                if state == CommitState::Failed {
                    waiting.pending.fail();
                }
                match waiting.not_before {
                    Some(at) => self.timed.push(waiting.pending, at),
                    None => due.push(waiting.pending),
                }
            }
            if self.uncommitted.is_empty() || commits.poll_committed(cx).is_pending() {
                return;
            }
        }
    }

    fn poll_time(&mut self, cx: &mut Context<'_>, due: &mut Vec<Pending>) {
        while let Some(at) = self.timed.next_at() {
            if self.alarm.poll(cx, at).is_pending() {
                return;
            }
            self.timed.pop_until(Instant::now(), due);
        }
    }
}

/// Outcomes by the instant at which they can be told; those of one instant in the order in which they came.
#[derive(Debug, Default)]
struct TimedOutcomes {
    heap: BinaryHeap<Reverse<Timed>>,
    /// How many ever came.
    count: u64,
}

#[derive(Debug)]
struct Timed {
    at: Instant,
    number: u64,
    pending: Pending,
}

impl TimedOutcomes {
    fn push(&mut self, pending: Pending, at: Instant) {
        let number = self.count;
        self.count += 1;
        self.heap.push(Reverse(Timed { at, number, pending }));
    }

    fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(first)| first.at)
    }

    fn pop_until(&mut self, now: Instant, due: &mut Vec<Pending>) {
        while self.next_at().is_some_and(|at| at <= now) {
            due.extend(self.heap.pop().map(|Reverse(timed)| timed.pending));
        }
    }
}

impl Timed {
    const fn order(&self) -> (Instant, u64) {
        (self.at, self.number)
    }
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// What senders are told when the disk did not take their events: not accepted, to be tried again.
const NOT_KEPT: &str = "The service could not write the events to its storage.";
