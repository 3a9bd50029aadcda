//! `ENTITY/$management`: requests about a queue, a topic or a subscription.
//!
//! The operation is an application property, its arguments are a map in the body, the status is HTTP's. A client reads
//! the condition of an error beside it.
//!
//! | operation (`com.microsoft:` …) | file |
//! |---|---|
//! | `renew-lock`, `update-disposition` | `locks` |
//! | `peek-message`, `receive-by-sequence-number`, `batch-delete-messages` | `messages` |
//! | `schedule-message`, `cancel-scheduled-message` | `scheduling` |
//! | `renew-session-lock`, `get-session-state`, `set-session-state`, `get-message-sessions` | `sessions` |
//! | `add-rule`, `remove-rule`, `enumerate-rules` | `rules`, with `rule_codec` |
//!
//! [`operation`] has the rights that each needs.
//!
//! A request that is part of a transaction and changes anything is carried out when the transaction is committed. Clients make all their
//! requests part of an open transaction. Rules can't be changed in one.

mod arguments;
mod locks;
mod messages;
mod operation;
mod rule_codec;
mod rules;
mod scheduling;
mod sessions;

use std::cell::{RefCell, RefMut};
use std::sync::Arc;
use std::time::SystemTime;

use amqp::message::MessageView;
use amqp::performative::{Error, ErrorCondition};
use amqp::{DecodeError, Value};

use super::conditions;
use super::transaction::{Enlisting, TransactionWork};
use crate::clock::ClientClock;
use crate::front::amqp::links::requests::{Answer, claims_required, text_property};
use crate::namespace::{Claims, Namespace};
use arguments::Arguments;
use operation::Operation;
use partition_log::UnixTime;
use queue_store::{Queue, QueueError, SessionLock, Subscription, Topic};

/// What a node for requests is about.
#[derive(Debug, Clone)]
pub(crate) enum ManagedEntity {
    Queue(Arc<Queue>),
    Topic(Arc<Topic>),
    Subscription(Arc<Subscription>),
}

/// A request about an entity.
pub(crate) struct Request<'a> {
    pub(crate) namespace: &'a Namespace,
    /// Host name that the client uses for the service.
    pub(crate) host: &'a str,
    pub(crate) claims: &'a Claims,
    pub(crate) entity: &'a ManagedEntity,
    pub(crate) now: SystemTime,
    /// The lock of a session that a link of the connection holds.
    pub(crate) session_lock: SessionLocks<'a>,
    /// The transaction that the request is part of, and how entities are enlisted.
    pub(crate) transaction: Option<(RefCell<&'a mut TransactionWork>, Enlisting)>,
}

/// Finds the lock of a session of a queue.
pub(crate) type SessionLocks<'a> = &'a dyn Fn(&Arc<Queue>, LockedSession<'_>) -> Option<SessionLock>;

/// Which session a request is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LockedSession<'a> {
    /// The one with this id.
    Id(&'a str),
    /// The one that the link of this name has locked.
    Link(&'a str),
}

/// Both are answers; a refusal is the one that ends the work on the way to the other.
type Outcome = Result<Answer, Answer>;

impl ManagedEntity {
    /// The name by which the service knows it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Queue(queue) => queue.name(),
            Self::Topic(topic) => topic.name(),
            Self::Subscription(subscription) => subscription.queue().name(),
        }
    }

    /// What messages are received from; topics have none.
    fn queue(&self) -> Result<&Arc<Queue>, Answer> {
        match self {
            Self::Queue(queue) => Ok(queue),
            Self::Subscription(subscription) => Ok(subscription.queue()),
            Self::Topic(topic) => Err(not_allowed(format!(
                "'{}' is a topic; send this request to one of its subscriptions.",
                topic.name()
            ))),
        }
    }
}

impl PartialEq for ManagedEntity {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for ManagedEntity {}

impl Request<'_> {
    /// Carries out the request that is `message`.
    ///
    /// # Errors
    /// If it cannot even be read.
    pub(crate) fn answer(&self, message: &MessageView<'_>) -> Result<Answer, DecodeError> {
        let name = text_property(message, "operation")?.unwrap_or_default();
        let arguments = Arguments::new(message.value()?.unwrap_or(Value::Null));
        let link = text_property(message, "associated-link-name")?;
        let result = self.allowed(&name).and_then(|operation| match operation {
            Operation::AddRule | Operation::RemoveRule if self.transaction.is_some() => {
                let text = "Rules can't be changed within a transaction.";
                Err(Answer::failed(501, ErrorCondition::NOT_IMPLEMENTED, text))
            }
            Operation::RenewLock => self.renew_locks(&arguments),
            Operation::UpdateDisposition => self.update_disposition(&arguments),
            Operation::PeekMessage => self.peek(&arguments),
            Operation::BatchDeleteMessages => self.delete(&arguments),
            Operation::ReceiveBySequenceNumber => self.receive_deferred(&arguments, link.as_deref()),
            Operation::ScheduleMessage => self.schedule(&arguments),
            Operation::CancelScheduledMessage => self.cancel_scheduled(&arguments),
            Operation::RenewSessionLock => self.renew_session_lock(&arguments),
            Operation::GetSessionState => self.session_state(&arguments),
            Operation::SetSessionState => self.set_session_state(&arguments),
            Operation::GetMessageSessions => self.sessions(&arguments),
            Operation::AddRule => self.add_rule(&arguments),
            Operation::RemoveRule => self.remove_rule(&arguments),
            Operation::EnumerateRules => self.enumerate_rules(&arguments),
        });
        Ok(result.unwrap_or_else(|refusal| refusal))
    }

    fn unix_time(&self) -> UnixTime {
        self.now.into()
    }

    /// For what tells the client how long it still has.
    fn client_clock(&self) -> ClientClock {
        self.namespace.clock().of_clients()
    }

    /// Returns the lock of a session of `queue` that a link of the connection holds.
    fn held_session(&self, queue: &Arc<Queue>, session_id: &str) -> Result<SessionLock, Answer> {
        let lock = (self.session_lock)(queue, LockedSession::Id(session_id));
        lock.ok_or_else(|| refusal(&QueueError::SessionLockLost))
    }

    /// Returns the operation of this name, if the client may use it on the entity, or on this node of it alone.
    fn allowed(&self, name: &str) -> Result<Operation, Answer> {
        let operation = Operation::named(name).ok_or_else(|| {
            let text = format!("This node does not support the operation '{name}'.");
            Answer::failed(501, ErrorCondition::NOT_IMPLEMENTED, text)
        })?;
        let (name, rights) = (self.entity.name(), operation.rights());
        if self.claims.allows_requests(name, rights, self.namespace.clock().token_now_at(self.now)) {
            return Ok(operation);
        }
        Err(Answer::failed(
            401,
            ErrorCondition::UNAUTHORIZED_ACCESS,
            claims_required(self.host, rights, name),
        ))
    }
}

impl<'a> Request<'a> {
    /// Returns the work of its transaction, and how entities are enlisted.
    fn work(&self) -> Option<(RefMut<'_, &'a mut TransactionWork>, Enlisting)> {
        self.transaction.as_ref().map(|(work, enlisting)| (work.borrow_mut(), *enlisting))
    }
}

/// The answer to what the store refuses.
fn refusal(error: &QueueError) -> Answer {
    Answer::failed(conditions::status_of(error), conditions::condition_of(error), conditions::sentence(error))
}

/// Returns the answer to a request that can't be part of its transaction.
fn not_in_transaction(error: Error) -> Answer {
    let statuses = [
        (ErrorCondition::RESOURCE_LIMIT_EXCEEDED, 403),
        (ErrorCondition::ENTITY_DISABLED, 403),
        (ErrorCondition::MESSAGE_NOT_FOUND, 404),
        (ErrorCondition::NOT_FOUND, 404),
        (ErrorCondition::MESSAGE_LOCK_LOST, 410),
        (ErrorCondition::SESSION_LOCK_LOST, 410),
        (ErrorCondition::MESSAGE_SIZE_EXCEEDED, 413),
        (ErrorCondition::SERVER_BUSY, 503),
    ];
    let status = statuses.iter().find(|(condition, _)| *condition == error.condition);
    Answer::failed(status.map_or(400, |(_, status)| *status), error.condition, error.description)
}

fn not_allowed(text: String) -> Answer {
    Answer::failed(400, ErrorCondition::NOT_ALLOWED, text)
}

/// A success without anything to tell.
fn done() -> Answer {
    Answer::granted(200, Value::Map(Vec::new()))
}

/// A success that found nothing.
fn nothing() -> Answer {
    Answer::granted(204, Value::Map(Vec::new()))
}

/// A map with one entry.
fn single(key: &str, value: Value) -> Value {
    Value::Map(vec![(Value::from(key), value)])
}
