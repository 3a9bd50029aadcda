//! The links of a connection, and the one place that knows which services they lead to.
//!
//! * A `node` is what is at our end of a link: it takes a run, delivers, settles, says why it ended.
//! * `outcomes` are what connection and nodes have in common about deliveries that are settled.
//! * `requests` are `$cbs`, and what all nodes for requests share.
//! * `terminus` is what an answer repeats of what a client asked for.
//!
//! Here is whether a request for a link is granted.
//! What a client can make us hold is bounded here, since it need not have proven anything to ask: the length of
//! addresses, the size of requests, and how many links for requests there are.

pub(super) mod node;
pub(super) mod outcomes;
pub(super) mod requests;
pub(super) mod terminus;

use std::sync::Arc;
use std::time::SystemTime;

use access::Right;
use amqp::connection::{LinkAcceptance, LinkId, SessionId};
use amqp::performative::{Attach, Error, ErrorCondition, Role};

use self::node::{EndReason, Node, Replies};
use self::requests::{RequestNode, claims_required, not_found};
use self::terminus::{asked_address, source_in_effect, target_in_effect};
use crate::front::amqp::event_hubs::address::Address;
use crate::front::amqp::event_hubs::attach::{AdmittedHub, HubAdmission};
use crate::front::amqp::service_bus::{AdmittedEntity, EntityAddress, EntityAdmission};
use crate::namespace::{Claims, Namespace};
use partition_log::Subscriber;

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
    /// Host name that the client uses for the service.
    pub(crate) host: &'a str,
    pub(crate) claims: &'a Claims,
    /// Whom logs wake for new readers.
    pub(crate) subscriber: &'a Arc<Subscriber>,
    /// The links that there are.
    pub(crate) open: &'a [Option<LinkEntry>],
    /// The entity that transactions of the session are bound to, if it has a coordinator and has sent or received anything.
    pub(crate) bound_to: Option<&'a str>,
    pub(crate) now: SystemTime,
}

impl LinkEntry {
    /// Returns the reason for which the link has to end: what it leads to is gone, is damaged or belongs to another. `host` is the host name
    /// that the client uses.
    pub(crate) fn end_reason(&self, host: &str) -> Option<Error> {
        match self.node.end_reason()? {
            EndReason::Deleted => {
                let address = self.permit.as_ref().map(|permit| permit.address.as_str());
                let path = access::Resource::path_of(address.unwrap_or_default());
                Some(Error::new(ErrorCondition::NOT_FOUND, not_found(host, path)))
            }
            EndReason::Error(error) => Some(error),
        }
    }
}

impl Permit {
    /// Returns the error for a client that lacks it; `host` is the host name that the client uses.
    pub(crate) fn missing(&self, host: &str) -> Error {
        let path = access::Resource::path_of(&self.address);
        let text = claims_required(host, &[self.right], path);
        Error::new(ErrorCondition::UNAUTHORIZED_ACCESS, text)
    }
}

impl Admission<'_> {
    /// What is to be at our end of the requested link, what it needs to stay, and what the client is answered.
    ///
    /// # Errors
    /// The reason for a refused link.
    pub(crate) fn admit(self, link: LinkId, session: SessionId, attach: &Attach) -> Result<Admitted, Error> {
        let mut admitted = self.admit_to_node(link, session, attach)?;
        if let Some(acceptance) = &mut admitted.acceptance {
            match attach.role {
                Role::Sender => acceptance.target = attach.target.as_ref().map(target_in_effect),
                // Where filters are applied, the node has said so.
                Role::Receiver => {
                    let source =
                        || attach.source.as_ref().map(|asked| source_in_effect(asked, None, Vec::new()));
                    acceptance.source = acceptance.source.take().or_else(source);
                }
            }
        }
        Ok(admitted)
    }

    fn admit_to_node(self, link: LinkId, session: SessionId, attach: &Attach) -> Result<Admitted, Error> {
        if attach.target.as_ref().is_some_and(|target| target.is_coordinator) {
            return self.coordinator_link(attach);
        }
        let target = attach.target.as_ref().and_then(|target| target.address.as_deref());
        let source = attach.source.as_ref().and_then(|source| source.address.as_deref());
        if [target, source].into_iter().flatten().any(|address| address.len() > LONGEST_ADDRESS) {
            let text = format!("An address is longer than {LONGEST_ADDRESS} bytes.");
            return Err(Error::new(ErrorCondition::INVALID_FIELD, text));
        }
        // What the client sends we take, what it receives we give.
        let text = asked_address(attach)?;
        if let Some(address) = EntityAddress::parse(text)
            && (address.has_suffix()
                || self.namespace.queue_or_topic(address.name).is_some()
                // No entity has this name. Clients of queues ask for their node before anything else.
                || (address.is_management && self.namespace.hub(address.name).is_none()))
        {
            return self.entity_link(link, session, attach, &address, target);
        }
        let address = Address::parse(text).ok_or_else(|| {
            Error::new(ErrorCondition::INVALID_FIELD, format!("'{text}' is not an address of this service."))
        })?;
        match address {
            Address::Cbs => self.request_link(attach, RequestNode::Cbs, target),
            Address::Management => self.request_link(attach, RequestNode::Management, target),
            address => self.hub_link(link, attach, text, address),
        }
    }

    /// A link to a hub or a part of one.
    fn hub_link(
        self,
        link: LinkId,
        attach: &Attach,
        text: &str,
        address: Address<'_>,
    ) -> Result<Admitted, Error> {
        let right = HubAdmission::right(attach.role, address);
        let permit = right.map(|right| self.permit(text, right)).transpose()?;
        let admission = HubAdmission {
            namespace: self.namespace,
            host: self.host,
            subscriber: self.subscriber,
            link,
            now: self.now.into(),
        };
        let (node, acceptance) = match admission.admit(attach, text, address)? {
            AdmittedHub::Publish(link, acceptance) => (Node::Publish(link), acceptance),
            AdmittedHub::Deliver(link, acceptance) => (Node::Deliver(link), acceptance),
        };
        Ok(Admitted { node, permit, acceptance: Some(acceptance) })
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
        let mut permit = EntityAdmission::right(attach, address)
            .map(|right| self.permit(&address.path(), right))
            .transpose()?;
        if attach.role == Role::Sender
            && let Some(destination) = EntityAdmission::destination(attach)?
        {
            // Whoever sends through an entity needs the right for both.
            permit = permit.and(Some(self.permit(&destination.path(), Right::Send)?));
        }
        if attach.role == Role::Receiver
            && !address.is_management
            && let Some(bound_to) = self.bound_to
            && !bound_to.eq_ignore_ascii_case(address.name)
        {
            let text = format!(
                "Messages can't be received from '{}' in a session with a coordinator of transactions that has used '{bound_to}' \
                 before: local transactions can send to other entities through the first one, and receive from that alone.",
                address.name
            );
            return Err(Error::new(ErrorCondition::NOT_ALLOWED, text));
        }
        let admission = EntityAdmission {
            namespace: self.namespace,
            host: self.host,
            subscriber: self.subscriber,
            link,
            session,
            now: self.now.into(),
        };
        let (node, acceptance) = match admission.admit(attach, address)? {
            AdmittedEntity::Send(link, acceptance) => (Node::Send(link), Some(acceptance)),
            AdmittedEntity::Receive(link, acceptance) => (Node::Receive(link), Some(acceptance)),
            AdmittedEntity::Browse(link, acceptance) => (Node::Browse(link), Some(acceptance)),
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

    /// A link to the coordinator of transactions.
    fn coordinator_link(self, attach: &Attach) -> Result<Admitted, Error> {
        let open = self.open.iter().flatten().filter(|entry| matches!(entry.node, Node::Coordinator));
        if open.count() >= COORDINATOR_LINKS_MAX {
            let text =
                format!("The connection has {COORDINATOR_LINKS_MAX} links to the coordinator already.");
            return Err(Error::new(ErrorCondition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        if attach.role == Role::Receiver {
            let text = "Nothing can be received from the coordinator of transactions.";
            return Err(Error::new(ErrorCondition::NOT_ALLOWED, text));
        }
        let acceptance =
            LinkAcceptance { max_message_size: Some(MAX_REQUEST_SIZE), ..LinkAcceptance::default() };
        Ok(Admitted { node: Node::Coordinator, permit: None, acceptance: Some(acceptance) })
    }

    fn request_link(
        self,
        attach: &Attach,
        node: RequestNode,
        target: Option<&str>,
    ) -> Result<Admitted, Error> {
        let open = self.open.iter().flatten();
        if open.clone().filter(|entry| entry.node.is_for_requests()).count() >= REQUEST_LINKS_MAX {
            let text = format!("The connection has {REQUEST_LINKS_MAX} links for requests already.");
            return Err(Error::new(ErrorCondition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        // As in the service. Clients that find a link left over from an attempt of theirs take it as the sign to connect
        // anew.
        let is_like_it = |entry: &LinkEntry| entry.node.request_node(attach.role) == Some(&node);
        if node == RequestNode::Cbs && open.clone().any(is_like_it) {
            let text = "The connection already has links to and from $cbs, and may have one pair of them.";
            return Err(Error::new(ErrorCondition::NOT_ALLOWED, text));
        }
        let node = match attach.role {
            Role::Sender => Node::Requests(node),
            Role::Receiver => Node::Replies(Replies {
                node,
                name: attach.name.clone(),
                target: target.map(str::to_owned),
                waiting: Default::default(),
            }),
        };
        let max_message_size = (attach.role == Role::Sender).then_some(MAX_REQUEST_SIZE);
        Ok(Admitted {
            node,
            permit: None,
            acceptance: Some(LinkAcceptance { max_message_size, ..LinkAcceptance::default() }),
        })
    }

    fn permit(self, address: &str, right: Right) -> Result<Permit, Error> {
        let permit = Permit { address: address.to_owned(), right };
        if self.claims.allows(address, right, self.namespace.clock().token_now_at(self.now)) {
            Ok(permit)
        } else {
            Err(permit.missing(self.host))
        }
    }
}

/// Largest request, in bytes. Tokens, the largest part of any, have a few thousand.
const MAX_REQUEST_SIZE: u64 = 64 * 1024;

/// Most links to and from the nodes that answer requests. Clients have two to four, and some two more for each of their
/// other links for as long as it takes to authorise it.
const REQUEST_LINKS_MAX: usize = 256;

/// Most links to the coordinator of transactions. Clients have one, or one for each of their sessions.
const COORDINATOR_LINKS_MAX: usize = 64;

/// Longest address of a link, in bytes: two names of 256 characters, keywords, and a host in front of it all.
const LONGEST_ADDRESS: usize = 2048;
