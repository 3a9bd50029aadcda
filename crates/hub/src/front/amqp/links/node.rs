//! What is at our end of a link, and what a connection asks of it. What each answers is with the service that it belongs to.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use amqp::Connection;
use amqp::connection::{LinkAcceptance, LinkId, SessionId};
use amqp::performative::{DeliveryState, Error, Role};
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;
use queue_store::{Queue, SessionLock};
use tokio::time::Instant;

use super::outcomes::{AwaitedOutcomes, OutcomeAnswer, Proposal, Token};
use super::requests::RequestNode;
use crate::clock::ServiceClock;
use crate::front::amqp::event_hubs::burst::Burst;
use crate::front::amqp::event_hubs::deliver::DeliverLink;
use crate::front::amqp::event_hubs::publish::PublishLink;
use crate::front::amqp::service_bus::{self, BrowseLink, Held, HeldAttach, ReceiveLink, SendLink};
pub(in crate::front::amqp) use crate::front::amqp::service_bus::{Enlisting, TakenOutcome, TransactionWork};

/// What is at our end of a link.
#[derive(Debug)]
pub(crate) enum Node {
    /// Takes events for a hub.
    Publish(PublishLink),
    /// Gives the events of a partition.
    Deliver(Box<DeliverLink>),
    /// Takes messages for a queue or a topic.
    Send(SendLink),
    /// Gives the messages of a queue.
    Receive(Box<ReceiveLink>),
    /// Shows the messages of a queue.
    Browse(Box<BrowseLink>),
    /// Is answered when there is a session for it; nothing before.
    Held(Box<HeldAttach>),
    Requests(RequestNode),
    Replies(Replies),
    /// Opens transactions and ends them.
    Coordinator,
}

/// Where answers go.
#[derive(Debug)]
pub(crate) struct Replies {
    /// Whose.
    pub(crate) node: RequestNode,
    /// The client's name for its end, which a request may ask the reply to be sent to.
    pub(crate) target: Option<String>,
    /// The name of the link, which some clients mean instead.
    pub(crate) name: String,
    /// Answers for which there is no credit yet.
    pub(crate) waiting: VecDeque<Vec<u8>>,
}

/// What became of a run of transfers.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// What the acknowledgement of each has to wait for, by its place in the run.
    pub(crate) commits: Vec<CommitNumber>,
    /// Those that are not stored, by their place, ascending, with the outcome that the client gets.
    pub(crate) refused: Vec<(usize, DeliveryState)>,
}

/// What has become of a link that waited to be answered.
#[derive(Debug)]
pub(crate) enum Resumed {
    /// It goes on waiting, until this instant at the latest.
    Waiting { node: Node, until: Instant },
    /// It is granted.
    Granted { node: Node, acceptance: Box<LinkAcceptance> },
    /// It has waited for too long, or in vain.
    Refused(Error),
}

/// What a link sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Delivered {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
}

/// Why a link has stopped sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// There is no more: it is reported when there is.
    AtEnd,
    /// The client must grant credit or open its window first.
    Blocked,
    /// It had its share; there may be more.
    ShareUsed,
    /// The same, and what it sent is to be written before anyone sends more.
    ShareToWrite,
    /// It has to end: what it reads is gone, is damaged, or belongs to another.
    Over,
}

/// Why a link has to end.
#[derive(Debug)]
pub(crate) enum EndReason {
    /// What it leads to was deleted.
    Deleted,
    /// As reported to the client.
    Error(Error),
}

impl Node {
    /// Whether the client sends here, and needs credit for it.
    pub(crate) const fn is_sender(&self) -> bool {
        matches!(self, Self::Publish(_) | Self::Send(_) | Self::Requests(_) | Self::Coordinator)
    }

    /// Whether it stores what the client sends here.
    #[inline]
    pub(crate) const fn stores(&self) -> bool {
        matches!(self, Self::Publish(_) | Self::Send(_))
    }

    /// Whether transfers that come here are stored in one run with those that come to `other`: what goes to hubs is gathered
    /// over all links, what goes to a queue or a topic over one.
    #[inline]
    pub(crate) fn stores_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Publish(_), Self::Publish(_)) => true,
            (Self::Send(_), Self::Send(_)) => std::ptr::eq(self, other),
            _ => false,
        }
    }

    /// Stores a run of transfers, each given by its node, its format and its bytes. All nodes store together.
    pub(crate) fn store<'a>(
        transfers: impl Iterator<Item = (&'a Self, u32, &'a [u8])>,
        now: UnixTime,
        stored: &mut Stored,
    ) {
        let mut transfers = transfers.peekable();
        match transfers.peek() {
            Some((Self::Publish(_), ..)) => Burst::with(|burst| {
                let published = |(node, format, message): (&'a Self, u32, &'a [u8])| match node {
                    Self::Publish(link) => Some((link, format, message)),
                    _ => None,
                };
                burst.store(transfers.filter_map(published), now);
                std::mem::swap(&mut burst.stored, stored);
            }),
            Some((Self::Send(link), ..)) => {
                let sent = transfers.map(|(_, format, message)| (format, message));
                link.store(sent, now, stored);
            }
            _ => {
                stored.commits.clear();
                stored.refused.clear();
            }
        }
    }

    /// The name of the entity in which it stores or settles; empty where it does neither.
    pub(crate) fn entity_name(&self) -> &str {
        match self {
            Self::Publish(link) => link.hub_name(),
            Self::Send(link) => link.entity_name(),
            Self::Receive(link) => link.queue().name(),
            _ => "",
        }
    }

    /// The name under which messages are counted that are rejected here.
    pub(crate) fn rejecting_name(&self) -> &str {
        match self {
            Self::Requests(RequestNode::Cbs) => "$cbs",
            Self::Requests(RequestNode::Management) => "$management",
            Self::Requests(RequestNode::Entity(entity)) => entity.name(),
            Self::Coordinator => "$coordinator",
            node => node.entity_name(),
        }
    }

    /// Returns the queue or topic that counts as the entity of the link in transactions; `None` for nodes that take part in none.
    pub(crate) fn transaction_entity(&self) -> Option<&str> {
        match self {
            Self::Send(link) => Some(link.transaction_entity()),
            Self::Receive(link) => Some(service_bus::entity_of(link.queue())),
            _ => None,
        }
    }

    /// Counts a transfer that the quota refused.
    #[cold]
    pub(crate) fn count_throttled(&self) {
        if let Self::Publish(link) = self {
            link.count_throttled();
        }
    }

    /// Settles deliveries that came from here, each by its id, ascending, and its token. `answer` gets the answers to the
    /// client, if it waits for any.
    pub(crate) fn settle(
        &self,
        proposal: &Proposal,
        deliveries: &[(u32, Token)],
        now: UnixTime,
        answer: impl FnMut(OutcomeAnswer),
    ) {
        if let Self::Receive(link) = self {
            let receiver = (&**link.queue(), link.session_lock());
            service_bus::settle(receiver, now, proposal, deliveries, answer);
        }
    }

    /// The same within a transaction, whose work this is, if it can be.
    pub(crate) fn settle_in(
        &self,
        work: Result<&mut TransactionWork, Error>,
        proposal: &Proposal,
        deliveries: &[(u32, Token)],
        now: UnixTime,
        mut answer: impl FnMut(OutcomeAnswer),
    ) {
        match (self, work) {
            (Self::Receive(link), Ok(work)) => {
                let receiver = (link.queue(), link.session_lock());
                work.settle_deliveries(receiver, now, proposal, deliveries, answer);
            }
            (Self::Receive(_), Err(error)) if proposal.wants_answer => {
                for (id, _) in deliveries {
                    let state = DeliveryState::Rejected(Some(error.clone()));
                    let commit = CommitNumber::DONE;
                    answer(OutcomeAnswer { first: *id, last: *id, state, commit, is_settled: true });
                }
            }
            _ => {}
        }
    }

    /// The answer to an outcome for a delivery that needs none, or no longer needs one; `None` where no delivery needs one:
    /// some clients give an outcome to what came settled, too, and expect no answer.
    #[cold]
    pub(crate) fn unknown_outcome(&self) -> Option<DeliveryState> {
        matches!(self, Self::Receive(_)).then(service_bus::unknown_delivery)
    }

    /// Looks whether a link that waits can be answered.
    pub(crate) fn resume(self, link: LinkId, session: SessionId, clock: &ServiceClock) -> Resumed {
        let Self::Held(held) = self else {
            return Resumed::Granted { node: self, acceptance: Box::default() };
        };
        match held.look(clock.unix_time(), clock.of_clients()) {
            Held::Waiting(held) => {
                let until = held.deadline();
                Resumed::Waiting { node: Self::Held(Box::new(held)), until }
            }
            Held::Granted { waiter, mode, lock, acceptance } => {
                let link = ReceiveLink::new(link, session, waiter, mode, Some(lock));
                Resumed::Granted { node: Self::Receive(Box::new(link)), acceptance: Box::new(acceptance) }
            }
            Held::Refused(error) => Resumed::Refused(error),
        }
    }

    /// The node that answers requests which come here.
    pub(crate) const fn requests(&self) -> Option<&RequestNode> {
        match self {
            Self::Requests(node) => Some(node),
            _ => None,
        }
    }

    /// Whether the client grants credit for what comes from here.
    pub(crate) const fn is_receiver(&self) -> bool {
        matches!(self, Self::Deliver(_) | Self::Receive(_) | Self::Browse(_))
    }

    /// Whether it is not answered yet.
    pub(crate) const fn is_held(&self) -> bool {
        matches!(self, Self::Held(_))
    }

    /// Whether it takes requests or gives answers.
    pub(crate) const fn is_for_requests(&self) -> bool {
        matches!(self, Self::Requests(_) | Self::Replies(_))
    }

    /// The node for requests that it belongs to, if it is the end of a link that the client has in this role.
    pub(crate) fn request_node(&self, role: Role) -> Option<&RequestNode> {
        match self {
            Self::Requests(node) if role == Role::Sender => Some(node),
            Self::Replies(replies) if role == Role::Receiver => Some(&replies.node),
            _ => None,
        }
    }

    /// Where answers go, if it is for them.
    pub(crate) const fn replies(&self) -> Option<&Replies> {
        match self {
            Self::Replies(replies) => Some(replies),
            _ => None,
        }
    }

    /// The same, to add to them.
    pub(crate) const fn replies_mut(&mut self) -> Option<&mut Replies> {
        match self {
            Self::Replies(replies) => Some(replies),
            _ => None,
        }
    }

    /// The session of `queue` that it has locked, if it has.
    pub(crate) fn session_lock(&self, queue: &Arc<Queue>) -> Option<&SessionLock> {
        match self {
            Self::Receive(link) if Arc::ptr_eq(link.queue(), queue) => link.session_lock(),
            _ => None,
        }
    }

    /// Whether it stands in the queue of those that may have something to send, where it is one that can.
    pub(crate) fn queued(&mut self) -> Option<&mut bool> {
        match self {
            Self::Deliver(link) => Some(&mut link.queued),
            Self::Receive(link) => Some(&mut link.queued),
            Self::Browse(link) => Some(&mut link.queued),
            _ => None,
        }
    }

    /// Sends a share of what there is; `None` if it is nothing that sends.
    pub(crate) fn deliver(
        &mut self,
        connection: &mut Connection,
        clock: &ServiceClock,
        awaited: &mut AwaitedOutcomes,
    ) -> Option<(Stopped, Delivered)> {
        match self {
            Self::Deliver(link) => {
                let stopped = link.deliver(connection, || clock.unix_time());
                Some((stopped, link.take_delivered()))
            }
            Self::Receive(link) => {
                let stopped = link.deliver(connection, (clock.unix_time(), clock.of_clients()), awaited);
                Some((stopped, link.take_delivered()))
            }
            Self::Browse(link) => {
                let stopped = link.deliver(connection, clock.unix_time(), clock.of_clients());
                Some((stopped, link.take_delivered()))
            }
            _ => None,
        }
    }

    /// The client wants to know when there is nothing more.
    pub(crate) fn drain(&mut self) {
        // Every other node says so whenever it is at its end.
        match self {
            Self::Receive(link) => link.is_draining = true,
            Self::Browse(link) => link.is_draining = true,
            _ => {}
        }
    }

    /// Why it has to end, if it has.
    pub(crate) fn end_reason(&self) -> Option<EndReason> {
        match self {
            Self::Deliver(link) => link.end_reason(),
            Self::Publish(link) => link.is_deleted().then_some(EndReason::Deleted),
            Self::Receive(link) => link.end_reason().map(EndReason::Error),
            Self::Browse(link) => link.end_reason().map(EndReason::Error),
            Self::Send(link) => link.is_deleted().then_some(EndReason::Deleted),
            Self::Held(_) | Self::Requests(_) | Self::Replies(_) | Self::Coordinator => None,
        }
    }
}

impl Stored {
    /// Uses the lists of this thread. They serve all connections: a connection at rest is to hold little.
    pub(crate) fn with<R>(use_it: impl FnOnce(&mut Self) -> R) -> R {
        thread_local! {
            static STORED: RefCell<Stored> = RefCell::default();
        }
        STORED.with_borrow_mut(use_it)
    }

    /// Whether all are stored, and nothing has to be waited for.
    pub(crate) fn are_all_accepted(&self) -> bool {
        self.refused.is_empty() && self.commits.iter().all(|commit| commit.is_done())
    }
}

impl Replies {
    /// How many bytes of answers wait for credit.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting.iter().map(Vec::len).sum()
    }
}
