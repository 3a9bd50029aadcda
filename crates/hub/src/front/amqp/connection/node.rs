//! What is at our end of a link, and what a connection asks of it. What each answers is with the service that it belongs to.

use std::collections::VecDeque;
use std::sync::Arc;

use amqp::Connection;
use amqp::performative::{Error, Role};
use partition_log::UnixTime;
use queue_store::{Queue, SessionLock};

use super::requests::RequestNode;
use crate::front::amqp::event_hubs::deliver::DeliverLink;
use crate::front::amqp::event_hubs::publish::PublishLink;
use crate::front::amqp::service_bus::{AwaitedOutcomes, HeldAttach, ReceiveLink, SendLink};

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
    /// Is answered when there is a session for it; nothing before.
    Held(Box<HeldAttach>),
    Requests(RequestNode),
    Replies(Replies),
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
        matches!(self, Self::Publish(_) | Self::Send(_) | Self::Requests(_))
    }

    /// Whether the client grants credit for what comes from here.
    pub(crate) const fn is_receiver(&self) -> bool {
        matches!(self, Self::Deliver(_) | Self::Receive(_))
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
            _ => None,
        }
    }

    /// Sends a share of what there is; `None` if it is nothing that sends.
    pub(crate) fn deliver(
        &mut self,
        connection: &mut Connection,
        now: impl FnOnce() -> UnixTime,
        awaited: &mut AwaitedOutcomes,
    ) -> Option<(Stopped, Delivered)> {
        match self {
            Self::Deliver(link) => {
                let stopped = link.deliver(connection);
                Some((stopped, link.take_delivered()))
            }
            Self::Receive(link) => {
                let stopped = link.deliver(connection, now(), awaited);
                Some((stopped, link.take_delivered()))
            }
            _ => None,
        }
    }

    /// The client wants to know when there is nothing more.
    pub(crate) fn drain(&mut self) {
        // Every other node says so whenever it is at its end.
        if let Self::Receive(link) = self {
            link.is_draining = true;
        }
    }

    /// Why it has to end, if it has.
    pub(crate) fn end_reason(&self) -> Option<EndReason> {
        match self {
            Self::Deliver(link) => link.end_reason(),
            Self::Publish(link) => link.is_deleted().then_some(EndReason::Deleted),
            Self::Receive(link) => link.end_reason().map(EndReason::Error),
            Self::Send(_) | Self::Held(_) | Self::Requests(_) | Self::Replies(_) => None,
        }
    }
}

impl Replies {
    /// How many bytes of answers wait for credit.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting.iter().map(Vec::len).sum()
    }
}
