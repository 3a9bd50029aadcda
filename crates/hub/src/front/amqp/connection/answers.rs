//! What a client is answered that has to wait: the outcome of a send, the answer to a settlement, the reply to a request.
//! How many outcomes wait is bounded by the credit that a link has, since they count against it; replies have a bound of
//! their own.

use amqp::Connection;
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
    /// An accepted outcome that is part of a transaction: the deliveries stay unsettled until it ends.
    Taken,
    /// Settles deliveries whose outcome was part of a transaction that has ended or has refused it.
    OfTransaction,
}

impl Direction {
    /// Reports the state of deliveries to the client, from the number of the first one in the session to that of the last one.
    pub(crate) fn tell(
        self,
        connection: &mut Connection,
        session: SessionId,
        (first, last): (u32, u32),
        state: DeliveryState,
    ) {
        match self {
            Self::Received => connection.settle(session, first, last, state),
            Self::Sent => connection.answer_outcome(session, first, last, state),
            Self::Taken => connection.take_outcome(session, first, last, state),
            Self::OfTransaction => connection.settle_taken(session, first, last, state),
        }
    }
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

/// The latest instant at which a reply is due. Replies leave in the order of their requests, as those of one node do.
#[derive(Debug, Default)]
pub(crate) struct LateReplies {
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
    /// The instant at which a reply leaves that would be due at `at`.
    pub(crate) fn wait(&mut self, at: Option<Instant>) -> Option<Instant> {
        if at.is_some() {
            self.last = self.last.max(at);
        }
        at.and(self.last)
    }
}
