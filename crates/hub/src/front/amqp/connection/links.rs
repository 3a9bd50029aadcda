//! The links of a connection: what is at our end of each, and whether a request for one is granted.
//!
//! What a client can make us hold is bounded here, since it need not have proven anything to ask: the length of
//! addresses, the size of requests, and how many links for requests there are.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use access::Right;
use amqp::codec::Value;
use amqp::connection::{LinkAcceptance, LinkId, SessionId};
use amqp::performative::{Attach, Error, ErrorCondition, Role};

use super::requests::{RequestNode, claims_required, not_found};
use crate::front::amqp::MAX_MESSAGE_SIZE;
use crate::front::amqp::event_hubs::address::Address;
use crate::front::amqp::event_hubs::conditions;
use crate::front::amqp::event_hubs::deliver::{DeliverLink, Reading};
use crate::front::amqp::event_hubs::idempotent::IdempotentProducers;
use crate::front::amqp::event_hubs::publish::PublishLink;
use crate::front::amqp::event_hubs::runtime_metrics::{RUNTIME_METRICS, RuntimeMetrics};
use crate::front::amqp::event_hubs::start::start_of;
use crate::front::amqp::service_bus::{
    AdmittedEntity, EntityAddress, EntityAdmission, HeldAttach, ReceiveLink, SendLink,
};
use crate::namespace::{Claims, ConsumerGroup, Hub, Namespace, NewReceiver, Partition};
use partition_log::{PositionError, Start, Subscriber};

/// An open link.
#[derive(Debug)]
pub(crate) struct LinkEntry {
    pub(crate) id: LinkId,
    pub(crate) session: SessionId,
    /// What the link may be used for, as long as a claim allows it.
    pub(crate) permit: Option<Permit>,
    pub(crate) node: Node,
    /// Deliveries of the client whose outcome waits: they count against its credit.
    pub(crate) waiting_outcomes: u32,
}

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

/// A right that a link needs for as long as it is there.
#[derive(Debug)]
pub(crate) struct Permit {
    pub(crate) address: String,
    pub(crate) right: Right,
}

/// A link that is granted.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) node: Node,
    /// What it needs to stay.
    pub(crate) permit: Option<Permit>,
    /// What the client is answered; nothing yet where it has to wait.
    pub(crate) acceptance: Option<LinkAcceptance>,
}

/// Everything that decides about a request for a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Admission<'a> {
    pub(crate) namespace: &'a Namespace,
    pub(crate) claims: &'a Claims,
    /// Whom logs wake for new readers.
    pub(crate) subscriber: &'a Arc<Subscriber>,
    /// The links that there are.
    pub(crate) open: &'a [Option<LinkEntry>],
    pub(crate) now: SystemTime,
    pub(crate) idempotent_producers: &'a IdempotentProducers,
}

impl LinkEntry {
    /// Why the link has to end, if what it leads to is gone, is damaged or belongs to another.
    pub(crate) fn end_reason(&self, namespace: &Namespace) -> Option<Error> {
        let is_deleted = match &self.node {
            Node::Deliver(link) => {
                if let Some(displacement) = link.displacement() {
                    return Some(conditions::displaced(displacement));
                }
                if let Some(damage) = link.damage() {
                    let text = format!("The partition can't be read further: {damage}.");
                    return Some(Error::new(ErrorCondition::INTERNAL_ERROR, text));
                }
                link.is_deleted()
            }
            Node::Publish(link) => link.is_deleted(),
            Node::Receive(link) => return link.end_reason(),
            Node::Send(_) | Node::Held(_) | Node::Requests(_) | Node::Replies(_) => false,
        };
        let address = self.permit.as_ref().map(|permit| permit.address.as_str());
        let path = access::Resource::path_of(address.unwrap_or_default());
        is_deleted.then(|| Error::new(ErrorCondition::NOT_FOUND, not_found(namespace, path)))
    }
}

impl Node {
    /// How many bytes of answers wait for credit.
    pub(crate) fn waiting_bytes(&self) -> usize {
        match self {
            Self::Replies(replies) => replies.waiting.iter().map(Vec::len).sum(),
            _ => 0,
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

    /// Whether the client grants credit for what comes from here.
    pub(crate) const fn is_receiver(&self) -> bool {
        matches!(self, Self::Deliver(_) | Self::Receive(_))
    }
}

impl Permit {
    /// The error for a client that lacks it.
    pub(crate) fn missing(&self, namespace: &Namespace) -> Error {
        let path = access::Resource::path_of(&self.address);
        let text = claims_required(namespace, &[self.right], path);
        Error::new(ErrorCondition::UNAUTHORIZED_ACCESS, text)
    }
}

impl Admission<'_> {
    /// What is to be at our end of the requested link, what it needs to stay, and what the client is answered.
    ///
    /// # Errors
    /// What the client is told where it is not to have the link.
    pub(crate) fn admit(self, link: LinkId, session: SessionId, attach: &Attach) -> Result<Admitted, Error> {
        if attach.target.as_ref().is_some_and(|target| target.is_coordinator) {
            let text = "There are no transactions here.";
            return Err(Error::new(ErrorCondition::NOT_IMPLEMENTED, text));
        }
        let target = attach.target.as_ref().and_then(|target| target.address.as_deref());
        let source = attach.source.as_ref().and_then(|source| source.address.as_deref());
        if [target, source].into_iter().flatten().any(|address| address.len() > LONGEST_ADDRESS) {
            let text = format!("An address is longer than {LONGEST_ADDRESS} bytes.");
            return Err(Error::new(ErrorCondition::INVALID_FIELD, text));
        }
        // The peer's role: what it sends we take, what it receives we give.
        let text = match attach.role {
            Role::Sender => target,
            Role::Receiver => source,
        };
        let text = text.unwrap_or_default();
        if let Some(address) = EntityAddress::parse(text)
            && (address.has_suffix()
                || self.namespace.queue_or_topic(address.name).is_some()
                // The node of a name that is nobody's: clients of queues ask for their own before anything else.
                || (address.is_management && self.namespace.hub(address.name).is_none()))
        {
            return self.entity_link(link, session, attach, &address, target);
        }
        let address = Address::parse(text).ok_or_else(|| {
            Error::new(ErrorCondition::INVALID_FIELD, format!("'{text}' is not an address of this service."))
        })?;
        let key = link.index() as u64;
        match (attach.role, address) {
            (_, Address::Cbs) => self.request_link(attach, RequestNode::Cbs, target),
            (_, Address::Management) => self.request_link(attach, RequestNode::Management, target),
            (Role::Sender, Address::Hub(hub)) => {
                let permit = self.permit(text, Right::Send)?;
                let link = PublishLink::to_hub(self.hub(hub)?, self.subscriber, key);
                Ok(self.publisher(link, permit, attach))
            }
            (Role::Sender, Address::Publisher { hub, publisher }) => {
                let permit = self.permit(text, Right::Send)?;
                let hub = self.hub(hub)?;
                let link = PublishLink::of_publisher(&hub, publisher, self.subscriber, key);
                Ok(self.publisher(link, permit, attach))
            }
            (Role::Sender, Address::Partition { hub, partition }) => {
                let permit = self.permit(text, Right::Send)?;
                let hub = self.hub(hub)?;
                let partition = Arc::clone(self.partition(&hub, partition)?);
                let link = PublishLink::to_partition(&hub, partition, self.subscriber, key);
                Ok(self.publisher(link, permit, attach))
            }
            (Role::Receiver, Address::Consumer { hub, group, partition }) => {
                let permit = self.permit(text, Right::Listen)?;
                let hub = self.hub(hub)?;
                let group = hub.consumer_group(group).ok_or_else(|| {
                    let path = format!("{}/ConsumerGroups/{group}", hub.name());
                    Error::new(ErrorCondition::NOT_FOUND, not_found(self.namespace, &path))
                })?;
                let partition = self.partition(&hub, partition)?;
                self.receiver(link, partition, group, permit, attach)
            }
            (role, address) => {
                // A queue that does not exist looks like a hub.
                if let Address::Hub(hub) = address {
                    self.hub(hub)?;
                }
                let doing = if role == Role::Sender { "sent to" } else { "received from" };
                Err(Error::new(ErrorCondition::NOT_ALLOWED, format!("'{text}' cannot be {doing}.")))
            }
        }
    }

    /// A link to a queue, a topic or a part of one.
    fn entity_link(
        self,
        link: LinkId,
        session: SessionId,
        attach: &Attach,
        address: &EntityAddress<'_>,
        target: Option<&str>,
    ) -> Result<Admitted, Error> {
        let permit = EntityAdmission::right(attach, address)
            .map(|right| self.permit(&address.path(), right))
            .transpose()?;
        let admission = EntityAdmission {
            namespace: self.namespace,
            subscriber: self.subscriber,
            link,
            session,
            now: self.now.into(),
        };
        let (node, acceptance) = match admission.admit(attach, address)? {
            AdmittedEntity::Send(link, acceptance) => (Node::Send(link), Some(acceptance)),
            AdmittedEntity::Receive(link, acceptance) => (Node::Receive(link), Some(acceptance)),
            AdmittedEntity::Held(held) => (Node::Held(held), None),
            AdmittedEntity::Management(entity) => {
                let mut admitted = self.request_link(attach, RequestNode::Entity(entity), target)?;
                if let Some(acceptance) = &mut admitted.acceptance
                    && attach.role == Role::Sender
                {
                    // Requests hold whole messages.
                    let size = self.namespace.largest_message() + MAX_REQUEST_SIZE;
                    acceptance.max_message_size = Some(size);
                }
                return Ok(admitted);
            }
        };
        Ok(Admitted { node, permit, acceptance })
    }

    fn request_link(
        self,
        attach: &Attach,
        node: RequestNode,
        target: Option<&str>,
    ) -> Result<Admitted, Error> {
        let is_for_requests = |entry: &&LinkEntry| matches!(entry.node, Node::Requests(_) | Node::Replies(_));
        if self.open.iter().flatten().filter(is_for_requests).count() >= REQUEST_LINKS_MAX {
            let text = format!("The connection has {REQUEST_LINKS_MAX} links for requests already.");
            return Err(Error::new(ErrorCondition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        // As in the service. Clients that find a link left over from an attempt of theirs take it as the sign to connect
        // anew.
        let is_like_it = |entry: &LinkEntry| match &entry.node {
            Node::Requests(RequestNode::Cbs) => attach.role == Role::Sender,
            Node::Replies(replies) => replies.node == RequestNode::Cbs && attach.role == Role::Receiver,
            _ => false,
        };
        if node == RequestNode::Cbs && self.open.iter().flatten().any(is_like_it) {
            let text =
                "The connection has a link to or from $cbs already, and may have one pair of them at a time.";
            return Err(Error::new(ErrorCondition::NOT_ALLOWED, text));
        }
        let node = match attach.role {
            Role::Sender => Node::Requests(node),
            Role::Receiver => Node::Replies(Replies {
                node,
                name: attach.name.clone(),
                target: target.map(str::to_owned),
                waiting: VecDeque::new(),
            }),
        };
        let max_message_size = (attach.role == Role::Sender).then_some(MAX_REQUEST_SIZE);
        Ok(Admitted {
            node,
            permit: None,
            acceptance: Some(LinkAcceptance { max_message_size, ..LinkAcceptance::default() }),
        })
    }

    fn publisher(self, link: PublishLink, permit: Permit, attach: &Attach) -> Admitted {
        let mut acceptance =
            LinkAcceptance { max_message_size: Some(MAX_MESSAGE_SIZE), ..LinkAcceptance::default() };
        self.idempotent_producers.answer(attach, &mut acceptance);
        Admitted { node: Node::Publish(link), permit: Some(permit), acceptance: Some(acceptance) }
    }

    fn receiver(
        self,
        link: LinkId,
        partition: &Arc<Partition>,
        consumer_group: Arc<ConsumerGroup>,
        permit: Permit,
        attach: &Attach,
    ) -> Result<Admitted, Error> {
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
        let key = link.index() as u64;
        let name = attach.property(RECEIVER_NAME).and_then(Value::as_text);
        // Last of all: a receiver that is refused for another reason must not have displaced anyone.
        let receiver = partition
            .receivers()
            .register(&NewReceiver {
                consumer_group: consumer_group.name(),
                name: name.map(shortened),
                epoch: attach.property(EPOCH).and_then(Value::as_integer),
                subscriber: self.subscriber,
                key,
            })
            .map_err(|refused| conditions::refused(&refused))?;
        let reading = Reading {
            partition: Arc::clone(partition),
            consumer_group,
            receiver,
            cursor,
            subscription: log.subscribe(self.subscriber, key),
        };
        let wants_metrics = attach.desired_capabilities.contains(&RUNTIME_METRICS);
        let metrics = wants_metrics.then(|| Box::new(RuntimeMetrics::default()));
        let offered_capabilities = wants_metrics.then_some(RUNTIME_METRICS);
        Ok(Admitted {
            node: Node::Deliver(Box::new(DeliverLink::new(link, reading, metrics))),
            permit: Some(permit),
            acceptance: Some(LinkAcceptance {
                offered_capabilities: offered_capabilities.into_iter().collect(),
                ..LinkAcceptance::default()
            }),
        })
    }

    fn permit(self, address: &str, right: Right) -> Result<Permit, Error> {
        let permit = Permit { address: address.to_owned(), right };
        if self.claims.allows(address, right, self.now) {
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

/// The front of a name that is too long to be repeated to others.
fn shortened(name: &str) -> &str {
    &name[..name.floor_char_boundary(LONGEST_RECEIVER_NAME)]
}

/// Link property with the epoch of a receiver, which clients call the owner level.
const EPOCH: &str = "com.microsoft:epoch";

/// Link property with the name that a receiver gives itself.
const RECEIVER_NAME: &str = "com.microsoft:receiver-name";

/// Longest name of a receiver, in bytes; clients stop at 64 characters.
const LONGEST_RECEIVER_NAME: usize = 256;

/// Largest request, in bytes. Tokens, the largest part of any, have a few thousand.
const MAX_REQUEST_SIZE: u64 = 64 * 1024;

/// Most links to and from the nodes that answer requests. Clients have two to four, and some two more for each of their
/// other links for as long as it takes to authorise it.
const REQUEST_LINKS_MAX: usize = 256;

/// Longest address of a link, in bytes: two names of 256 characters, keywords, and a host in front of it all.
const LONGEST_ADDRESS: usize = 2048;
