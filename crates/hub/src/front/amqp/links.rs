//! The links of a connection: what is at our end of each, and whether a request for one is granted.
//!
//! What a client can make us hold is bounded here, since it need not have proven anything to ask: the length of
//! addresses, the size of requests, and how many links for requests there are.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use access::Right;
use amqp::connection::{LinkId, SessionId};
use amqp::performative::{Attach, Error, ErrorCondition, Role};

use super::MAX_MESSAGE_SIZE;
use super::address::Address;
use super::deliver::DeliverLink;
use super::publish::PublishTarget;
use super::requests::{RequestNode, not_found};
use super::start::start_of;
use crate::log::{PositionError, Start, Subscriber};
use crate::namespace::{Claims, Hub, Namespace, Partition};

/// An open link.
#[derive(Debug)]
pub(super) struct LinkEntry {
    pub(super) id: LinkId,
    pub(super) session: SessionId,
    /// What the link may be used for, as long as a claim allows it.
    pub(super) permit: Option<Permit>,
    pub(super) node: Node,
    /// Deliveries of the client whose outcome waits: they count against its credit.
    pub(super) waiting_outcomes: u32,
}

/// What is at our end of a link.
#[derive(Debug)]
pub(super) enum Node {
    Publish(PublishTarget),
    Deliver(Box<DeliverLink>),
    Requests(RequestNode),
    Replies(Replies),
}

/// Where answers go.
#[derive(Debug)]
pub(super) struct Replies {
    /// Whose.
    pub(super) node: RequestNode,
    /// The client's name for its end, which a request may ask the reply to be sent to.
    pub(super) target: Option<String>,
    /// Answers for which there is no credit yet.
    pub(super) waiting: VecDeque<Vec<u8>>,
}

/// A right that a link needs for as long as it is there.
#[derive(Debug)]
pub(super) struct Permit {
    pub(super) address: String,
    pub(super) right: Right,
}

/// Everything that decides about a request for a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admission<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) claims: &'a Claims,
    /// Whom logs wake for new readers.
    pub(super) subscriber: &'a Arc<Subscriber>,
    /// The links that there are.
    pub(super) open: &'a [Option<LinkEntry>],
}

impl Node {
    /// The largest message that we take, in bytes; `None` if we take none.
    pub(super) const fn max_message_size(&self) -> Option<u64> {
        match self {
            Self::Publish(_) => Some(MAX_MESSAGE_SIZE),
            Self::Requests(_) => Some(MAX_REQUEST_SIZE),
            Self::Deliver(_) | Self::Replies(_) => None,
        }
    }

    /// How many bytes of answers wait for credit.
    pub(super) fn waiting_bytes(&self) -> usize {
        match self {
            Self::Replies(replies) => replies.waiting.iter().map(Vec::len).sum(),
            _ => 0,
        }
    }
}

impl Permit {
    /// The error for a client that lacks it.
    pub(super) fn missing(&self, namespace: &Namespace) -> Error {
        let path = access::Resource::path_of(&self.address);
        let text = format!(
            "Unauthorized access. '{}' claim(s) are required to perform this operation. Resource: 'sb://{}/{path}'.",
            self.right.name(),
            namespace.host()
        );
        Error::new(ErrorCondition::UNAUTHORIZED_ACCESS, text)
    }
}

impl Admission<'_> {
    /// What is to be at our end of the requested link, and what it needs to stay.
    ///
    /// # Errors
    /// What the client is told where it is not to have the link.
    pub(super) fn admit(
        self,
        link: LinkId,
        attach: &Attach,
    ) -> Result<(Node, Option<Permit>), Error> {
        let target = attach
            .target
            .as_ref()
            .and_then(|target| target.address.as_deref());
        let source = attach
            .source
            .as_ref()
            .and_then(|source| source.address.as_deref());
        if [target, source]
            .into_iter()
            .flatten()
            .any(|address| address.len() > LONGEST_ADDRESS)
        {
            let text = format!("An address is longer than {LONGEST_ADDRESS} bytes.");
            return Err(Error::new(ErrorCondition::INVALID_FIELD, text));
        }
        // The peer's role: what it sends we take, what it receives we give.
        let text = match attach.role {
            Role::Sender => target,
            Role::Receiver => source,
        };
        let text = text.unwrap_or_default();
        let address = Address::parse(text).ok_or_else(|| {
            Error::new(
                ErrorCondition::INVALID_FIELD,
                format!("'{text}' is not an address of this service."),
            )
        })?;
        match (attach.role, address) {
            (role, Address::Cbs) => self.request_link(role, RequestNode::Cbs, target),
            (role, Address::Management) => self.request_link(role, RequestNode::Management, target),
            (Role::Sender, Address::Hub(hub)) => {
                let permit = self.permit(text, Right::Send)?;
                let target = PublishTarget::Hub(self.hub(hub)?);
                Ok((Node::Publish(target), Some(permit)))
            }
            (Role::Sender, Address::Partition { hub, partition }) => {
                let permit = self.permit(text, Right::Send)?;
                let hub = self.hub(hub)?;
                let target = PublishTarget::Partition(Arc::clone(self.partition(&hub, partition)?));
                Ok((Node::Publish(target), Some(permit)))
            }
            (
                Role::Receiver,
                Address::Consumer {
                    hub,
                    group,
                    partition,
                },
            ) => {
                let permit = self.permit(text, Right::Listen)?;
                let hub = self.hub(hub)?;
                if hub.consumer_group(group).is_none() {
                    let path = format!("{}/ConsumerGroups/{group}", hub.name());
                    return Err(Error::new(
                        ErrorCondition::NOT_FOUND,
                        not_found(self.namespace, &path),
                    ));
                }
                let partition = self.partition(&hub, partition)?;
                Ok((self.reader(link, partition, attach)?, Some(permit)))
            }
            (role, _) => {
                let doing = if role == Role::Sender {
                    "sent to"
                } else {
                    "received from"
                };
                Err(Error::new(
                    ErrorCondition::NOT_ALLOWED,
                    format!("'{text}' cannot be {doing}."),
                ))
            }
        }
    }

    fn request_link(
        self,
        role: Role,
        node: RequestNode,
        target: Option<&str>,
    ) -> Result<(Node, Option<Permit>), Error> {
        let is_for_requests =
            |entry: &&LinkEntry| matches!(entry.node, Node::Requests(_) | Node::Replies(_));
        if self.open.iter().flatten().filter(is_for_requests).count() >= REQUEST_LINKS_MAX {
            let text =
                format!("The connection has {REQUEST_LINKS_MAX} links for requests already.");
            return Err(Error::new(ErrorCondition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        let node = match role {
            Role::Sender => Node::Requests(node),
            Role::Receiver => Node::Replies(Replies {
                node,
                target: target.map(str::to_owned),
                waiting: VecDeque::new(),
            }),
        };
        Ok((node, None))
    }

    fn reader(
        self,
        link: LinkId,
        partition: &Arc<Partition>,
        attach: &Attach,
    ) -> Result<Node, Error> {
        let argument_error = |text| Error::new(ErrorCondition::ARGUMENT_ERROR, text);
        let start = match &attach.source {
            Some(source) => start_of(source).map_err(|error| argument_error(error.to_string()))?,
            None => Start::Earliest,
        };
        let log = partition.log();
        let cursor = log.position(start).map_err(|PositionError::BeyondEnd { requested, last }| {
            let last = last.map_or(-1, |last| last.cast_signed());
            argument_error(format!(
                "The supplied offset '{requested}' is invalid. The last offset in the system is '{last}'"
            ))
        })?;
        let subscription = log.subscribe(self.subscriber, link.index() as u64);
        let reader = DeliverLink::new(link, Arc::clone(partition), cursor, subscription);
        Ok(Node::Deliver(Box::new(reader)))
    }

    fn permit(self, address: &str, right: Right) -> Result<Permit, Error> {
        let permit = Permit {
            address: address.to_owned(),
            right,
        };
        if self.claims.allows(address, right, SystemTime::now()) {
            Ok(permit)
        } else {
            Err(permit.missing(self.namespace))
        }
    }

    fn hub(&self, name: &str) -> Result<Arc<Hub>, Error> {
        self.namespace
            .hub(name)
            .ok_or_else(|| Error::new(ErrorCondition::NOT_FOUND, not_found(self.namespace, name)))
    }

    fn partition<'a>(&self, hub: &'a Hub, id: &str) -> Result<&'a Arc<Partition>, Error> {
        hub.partition(id).ok_or_else(|| {
            let last = hub.partitions().len() - 1;
            let text = format!(
                "The specified partition '{id}' is invalid: those of '{}' are 0 to {last}.",
                hub.name()
            );
            Error::new(ErrorCondition::ARGUMENT_OUT_OF_RANGE, text)
        })
    }
}

/// Largest request, in bytes. Tokens, the largest part of any, have a few thousand.
const MAX_REQUEST_SIZE: u64 = 64 * 1024;

/// Most links to and from the nodes that answer requests. Clients have two to four, and some two more for each of their
/// other links for as long as it takes to authorise it.
const REQUEST_LINKS_MAX: usize = 256;

/// Longest address of a link, in bytes: two names of 256 characters, keywords, and a host in front of it all.
const LONGEST_ADDRESS: usize = 2048;
