//! What a client is answered that has to wait: the outcome of a send, the answer to a settlement, the reply to a request.
//! How many outcomes wait is bounded by the credit that a link has, since they count against it; replies have a bound of
//! their own.

use amqp::connection::{LinkId, SessionId};
use amqp::performative::DeliveryState;
use tokio::time::Instant;

use crate::front::amqp::conditions::unknown_outcome;
use crate::front::amqp::links::requests::{Reply, RequestNode};
use crate::front::pending::Answer;

/// An answer of a connection.
#[derive(Debug)]
pub(crate) enum ClientAnswer {
    Outcome(Outcome),
    Reply(Box<PendingReply>),
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

/// A reply to a request.
#[derive(Debug)]
pub(crate) struct PendingReply {
    pub(crate) node: RequestNode,
    pub(crate) session: SessionId,
    pub(crate) reply: Reply,
    /// What it takes of the memory for replies that wait.
    pub(crate) bytes: usize,
    /// The reply if the change that was asked for could not be stored.
    pub(crate) if_unknown: Option<Reply>,
}

/// How much memory the replies that wait take, and until when they do. They leave in the order of their requests, as those
/// of one node do.
#[derive(Debug, Default)]
pub(crate) struct LateReplies {
    bytes: usize,
    /// When the last one is due.
    last: Option<Instant>,
}

impl ClientAnswer {
    /// Whether it is an outcome, and not `wanted` any more. A reply always is: the client may have another link for it.
    pub(crate) fn is_wanted(&self, wanted: impl Fn(&Outcome) -> bool) -> bool {
        match self {
            Self::Outcome(outcome) => wanted(outcome),
            Self::Reply(_) => true,
        }
    }
}

impl Answer for ClientAnswer {
    fn set_unknown(&mut self) {
        match self {
            Self::Outcome(outcome) => outcome.state = unknown_outcome(),
            Self::Reply(pending) => {
                if let Some(reply) = pending.if_unknown.take() {
                    pending.reply = reply;
                }
            }
        }
    }
}

impl LateReplies {
    /// Whether a client that has so much to come may have another one. It is lost to it otherwise.
    pub(crate) const fn has_room(&self) -> bool {
        self.bytes <= WAITING_BYTES
    }

    /// Counts a reply; gives the instant at which it leaves that would be due at `at`.
    pub(crate) fn wait(&mut self, bytes: usize, at: Option<Instant>) -> Option<Instant> {
        self.bytes += bytes;
        if at.is_some() {
            self.last = self.last.max(at);
        }
        at.and(self.last)
    }

    /// A reply waits no longer.
    pub(crate) const fn left(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }
}

/// What may wait, in bytes over all nodes: as much as may wait for credit.
const WAITING_BYTES: usize = 256 * 1024;
