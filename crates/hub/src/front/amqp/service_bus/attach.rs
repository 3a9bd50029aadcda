//! Whether a client gets a link to a queue, a topic or a part of one, and what is at our end of it then.

use std::sync::Arc;

use access::Right;
use amqp::Value;
use amqp::connection::{LinkAcceptance, LinkId, SessionId};
use amqp::performative::{Attach, Error, ErrorCondition, Role, SenderSettleMode, Source};

use super::address::{EntityAddress, Part};
use super::browse::BrowseLink;
use super::conditions;
use super::deliver::ReceiveLink;
use super::enqueue::SendLink;
use super::management::ManagedEntity;
use super::sessions::{self, HeldAttach, WantedSession};
use crate::front::amqp::links::terminus::{Distribution, source_in_effect};
use crate::namespace::Namespace;
use partition_log::Subscriber;
use partition_log::UnixTime;
use queue_store::{Deliveries, Entity, Queue, QueueError, ReceiveMode, ReceiveRequest, Subscription};

/// A request for a link to an entity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntityAdmission<'a> {
    pub(crate) namespace: &'a Namespace,
    /// Host name that the client uses for the service.
    pub(crate) host: &'a str,
    /// Whom queues wake for new messages.
    pub(crate) subscriber: &'a Arc<Subscriber>,
    pub(crate) link: LinkId,
    pub(crate) session: SessionId,
    pub(crate) now: UnixTime,
}

/// What is to be at our end of a link.
#[derive(Debug)]
pub(crate) enum AdmittedEntity {
    /// It takes messages.
    Send(SendLink, LinkAcceptance),
    /// It gives messages.
    Receive(Box<ReceiveLink>, LinkAcceptance),
    /// It shows messages.
    Browse(Box<BrowseLink>, LinkAcceptance),
    /// It is answered when there is a session for it.
    Held(Box<HeldAttach>),
    /// It takes requests, or gives answers.
    Management(Arc<ManagedEntity>),
}

impl EntityAdmission<'_> {
    /// The right that a link needs for as long as it is there; none where each request is looked at for itself.
    pub(crate) const fn right(attach: &Attach, address: &EntityAddress<'_>) -> Option<Right> {
        match (address.is_management, attach.role) {
            (true, _) => None,
            (false, Role::Sender) => Some(Right::Send),
            (false, Role::Receiver) => Some(Right::Listen),
        }
    }

    /// What is to be at our end. The rights have been looked at.
    ///
    /// # Errors
    /// What the client is told where it is not to have the link.
    pub(crate) fn admit(self, attach: &Attach, address: &EntityAddress<'_>) -> Result<AdmittedEntity, Error> {
        let entity = self.entity(address)?;
        if address.is_management {
            return Ok(AdmittedEntity::Management(Arc::new(entity)));
        }
        match attach.role {
            Role::Sender => match Self::destination(attach)? {
                None => self.sender(entity, None),
                Some(destination) => self.sender(self.entity(&destination)?, Some(address.name.to_owned())),
            },
            Role::Receiver => match entity {
                ManagedEntity::Topic(topic) => {
                    let text = format!(
                        "'{}' is a topic; messages are received from its subscriptions.",
                        topic.name()
                    );
                    Err(Error::new(ErrorCondition::NOT_ALLOWED, text))
                }
                ManagedEntity::Queue(queue) => self.receiver(&queue, attach),
                ManagedEntity::Subscription(subscription) => self.receiver(subscription.queue(), attach),
            },
        }
    }

    /// Where messages go that are sent through another entity, if they do.
    ///
    /// # Errors
    /// It is no address of a queue or a topic.
    pub(crate) fn destination(attach: &Attach) -> Result<Option<EntityAddress<'_>>, Error> {
        let Some(text) = attach.property(TRANSFER_DESTINATION).and_then(Value::as_text) else {
            return Ok(None);
        };
        EntityAddress::parse(text).filter(|address| !address.is_management).map(Some).ok_or_else(|| {
            let text = format!("'{text}' is not the address of a queue or a topic.");
            Error::new(ErrorCondition::INVALID_FIELD, text)
        })
    }

    fn sender(self, entity: ManagedEntity, via: Option<String>) -> Result<AdmittedEntity, Error> {
        let entity = match entity {
            ManagedEntity::Queue(queue) if queue.dead_letters().is_some() => Entity::Queue(queue),
            ManagedEntity::Topic(topic) => Entity::Topic(topic),
            ManagedEntity::Queue(_) | ManagedEntity::Subscription(_) => {
                return Err(conditions::error_of(&QueueError::SendingNotAllowed));
            }
        };
        // Message after message would be refused, and a relay would make a dead letter of each.
        let status = match &entity {
            Entity::Queue(queue) => queue.options().status,
            Entity::Topic(topic) => topic.options().status,
        };
        if !status.may_send() {
            return Err(conditions::error_of(&QueueError::Disabled(status)));
        }
        let acceptance = LinkAcceptance {
            max_message_size: Some(self.namespace.largest_message()),
            ..LinkAcceptance::default()
        };
        let link = SendLink::watching(entity, via, self.subscriber, self.link.index() as u64);
        Ok(AdmittedEntity::Send(link, acceptance))
    }

    fn receiver(self, queue: &Arc<Queue>, attach: &Attach) -> Result<AdmittedEntity, Error> {
        let source = attach.source.clone().unwrap_or_default();
        if Distribution::is_copy(&source) {
            return self.browser(queue, &source);
        }
        let mode = match attach.sender_settle_mode {
            SenderSettleMode::Settled => ReceiveMode::ReceiveAndDelete,
            SenderSettleMode::Unsettled | SenderSettleMode::Mixed => ReceiveMode::PeekLock,
        };
        let key = self.link.index() as u64;
        let refused = |error| conditions::error_of(&error);
        let (lock, acceptance) = match sessions::wanted_session(&source)? {
            None => {
                // Asking for nothing tells whether anything can be had.
                let request = ReceiveRequest { mode, session: None, messages: 0, bytes: 0 };
                queue.receive(self.now, &request, &mut Deliveries::new()).map_err(refused)?;
                let source = source_in_effect(&source, Some(Distribution::Move), Vec::new());
                (None, LinkAcceptance { source: Some(source), ..LinkAcceptance::default() })
            }
            Some(WantedSession::Named(session)) => {
                let lock = sessions::accept_named(queue, session, self.now)
                    .map_err(|error| conditions::session_refused(&error, session))?;
                let acceptance = sessions::acceptance(&source, &lock, self.namespace.clock().of_clients());
                (Some(lock), acceptance)
            }
            Some(WantedSession::Next) => {
                if !queue.options().requires_session {
                    return Err(refused(QueueError::NoSessions));
                }
                let waiter = queue.waiter(self.subscriber, key);
                let held = HeldAttach::new(waiter, mode, attach);
                return Ok(AdmittedEntity::Held(Box::new(held)));
            }
        };
        let waiter = queue.waiter(self.subscriber, key);
        let link = ReceiveLink::new(self.link, self.session, waiter, mode, lock);
        Ok(AdmittedEntity::Receive(Box::new(link), acceptance))
    }

    /// A link that shows messages, of all sessions where there are some.
    fn browser(self, queue: &Arc<Queue>, source: &Source) -> Result<AdmittedEntity, Error> {
        if sessions::wanted_session(source)?.is_some() {
            let text = "A browser (distribution-mode: copy) of one session is not supported: browse the whole entity.";
            return Err(Error::new(ErrorCondition::NOT_IMPLEMENTED, text));
        }
        let status = queue.options().status;
        if !status.may_receive() {
            return Err(conditions::error_of(&QueueError::Disabled(status)));
        }
        let waiter = queue.waiter(self.subscriber, self.link.index() as u64);
        let link = BrowseLink::new(self.link, self.session, waiter);
        let source = source_in_effect(source, Some(Distribution::Copy), Vec::new());
        let acceptance = LinkAcceptance { source: Some(source), ..LinkAcceptance::default() };
        Ok(AdmittedEntity::Browse(Box::new(link), acceptance))
    }

    /// What the address names.
    fn entity(self, address: &EntityAddress<'_>) -> Result<ManagedEntity, Error> {
        let entity = self.namespace.queue_or_topic(address.name);
        let entity = match (entity, address.subscription) {
            (Some(Entity::Queue(queue)), None) => Some(ManagedEntity::Queue(queue)),
            (Some(Entity::Topic(topic)), None) => Some(ManagedEntity::Topic(topic)),
            (Some(Entity::Topic(topic)), Some(name)) => {
                topic.subscription(name).map(ManagedEntity::Subscription)
            }
            (Some(Entity::Queue(_)), Some(_)) | (None, _) => None,
        };
        let found = entity.and_then(|entity| part_of(entity, address.part));
        found.ok_or_else(|| {
            let path = address.path();
            Error::new(
                ErrorCondition::NOT_FOUND,
                crate::front::amqp::links::requests::not_found(self.host, &path),
            )
        })
    }
}

/// The part of an entity; topics have none.
fn part_of(entity: ManagedEntity, part: Part) -> Option<ManagedEntity> {
    let queue: &Arc<Queue> = match &entity {
        _ if part == Part::Main => return Some(entity),
        ManagedEntity::Queue(queue) => queue,
        ManagedEntity::Subscription(subscription) => Subscription::queue(subscription),
        ManagedEntity::Topic(_) => return None,
    };
    let part = match part {
        Part::TransferDeadLetters => queue.transfer_dead_letters(),
        Part::Main | Part::DeadLetters => queue.dead_letters(),
    };
    part.cloned().map(ManagedEntity::Queue)
}

/// The link property that names where messages go which are sent through another entity.
const TRANSFER_DESTINATION: &str = "com.microsoft:transfer-destination-address";
