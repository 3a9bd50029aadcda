//! The transactions of a connection: opened and ended at the coordinator, and what comes in between.
//!
//! A transaction belongs to the link on which it was declared, and is rolled back when that ends. Its time begins with its first
//! operation, as in the service, and goes by the service's clock; one that takes too long is rolled back, and whoever ends it is told so.

use std::collections::BTreeMap;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, SystemTime};

use amqp::connection::{Deliveries, Delivery, LinkId, SessionId};
use amqp::performative::{DeliveryState, Error, ErrorCondition};
use amqp::{CoordinatorRequest, TransactionId};
use tokio::time::{Instant, Sleep};

use super::shaped::Told;
use super::{ConnectionTask, tell, top_up_credit};
use crate::front::amqp::conditions::rejected;
use crate::front::amqp::links::LinkEntry;
use crate::front::amqp::links::node::{Enlisting, Node, TransactionWork};
use crate::front::pending::Until;
use crate::memory::{Memory, Purpose, Share};
use crate::namespace::{TransactionCounters, TransactionEnd};
use partition_log::disk::CommitNumber;

/// The transactions that are open.
#[derive(Debug)]
pub(super) struct Transactions {
    open: BTreeMap<u64, OpenTransaction>,
    last: u64,
    /// Sessions that have or had a coordinator, with the entity that each is bound to.
    bound: Vec<BoundSession>,
    /// Rings when the next one may have taken too long.
    alarm: Option<Pin<Box<Sleep>>>,
    counters: Arc<TransactionCounters>,
    /// Memory of all that is to be done.
    memory: Share,
}

/// A session with a coordinator. Its first send or receiver binds it to an entity, as in the service: it may send to others through that
/// entity, but receive from no other.
#[derive(Debug)]
struct BoundSession {
    session: SessionId,
    /// Name of the entity; `None` until the first send or receiver.
    entity: Option<String>,
}

#[derive(Debug)]
struct OpenTransaction {
    /// The link on which it was declared, and its session.
    coordinator: LinkId,
    session: SessionId,
    /// When it will have taken too long, by the service's clock; nothing before its first operation.
    deadline: Option<SystemTime>,
    /// What is to be done; nothing if it has taken too long.
    work: Option<TransactionWork>,
}

impl Transactions {
    pub(super) fn new(counters: Arc<TransactionCounters>, memory: &Arc<Memory>) -> Self {
        let memory = Share::new(memory, Purpose::QueueTransactions);
        Self { open: BTreeMap::new(), last: 0, bound: Vec::new(), alarm: None, counters, memory }
    }

    /// Registers a session that gets a coordinator, bound to `entity` if it receives from one already.
    pub(super) fn bind(&mut self, session: SessionId, entity: Option<&str>) {
        if !self.bound.iter().any(|bound| bound.session == session) {
            self.bound.push(BoundSession { session, entity: entity.map(str::to_owned) });
        }
    }

    /// Binds a session to the entity that it sends to or receives from, unless it is bound. Hot path.
    #[inline]
    pub(super) fn used(&mut self, session: SessionId, entity: &str) {
        if self.bound.is_empty() {
            return;
        }
        let mut bound = self.bound.iter_mut();
        if let Some(bound) = bound.find(|bound| bound.session == session && bound.entity.is_none()) {
            bound.entity = Some(entity.to_owned());
        }
    }

    /// Returns the entity that a session is bound to.
    pub(super) fn bound_to(&self, session: SessionId) -> Option<&str> {
        self.bound.iter().find(|bound| bound.session == session)?.entity.as_deref()
    }

    /// Bytes of all that is to be done.
    fn held_bytes(&self) -> usize {
        self.open.values().filter_map(|open| Some(open.work.as_ref()?.bytes())).sum()
    }

    /// Gives back the memory of what was done or rolled back.
    fn give_back(&mut self) {
        self.memory.shrink_to(self.held_bytes());
    }

    /// The work of an open transaction, to which up to `more` bytes are added, and whether `session` is that of its coordinator. The
    /// first operation starts its time.
    fn work_of(
        &mut self,
        id: TransactionId,
        session: SessionId,
        now: SystemTime,
        more: usize,
    ) -> Result<(&mut TransactionWork, Enlisting), Error> {
        self.expire(now);
        let held = self.held_bytes();
        let open = number_of(id).and_then(|number| self.open.get_mut(&number)).ok_or_else(unknown)?;
        let work = open.work.as_mut().ok_or_else(timed_out)?;
        if held > BYTES_MAX {
            let text = "The transactions of the connection hold too many bytes; commit or roll back some.";
            return Err(Error::new(ErrorCondition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        if !self.memory.resize(held + more) {
            let text = "The open transactions of all connections hold too many bytes; try again later.";
            return Err(Error::new(ErrorCondition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        open.deadline.get_or_insert(now + TIME_MAX);
        // Whichever began first rings first: all may take equally long.
        self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(TIME_MAX)));
        let enlisting = match open.session == session {
            true => Enlisting::InItsSession,
            false => Enlisting::FromAnother,
        };
        Ok((work, enlisting))
    }

    /// Rolls back what was declared on a link.
    pub(super) fn forget_link(&mut self, link: LinkId) {
        self.forget(|open| open.coordinator == link);
    }

    /// Rolls back what was declared in a session.
    pub(super) fn forget_session(&mut self, session: SessionId) {
        self.bound.retain(|bound| bound.session != session);
        self.forget(|open| open.session == session);
    }

    fn forget(&mut self, is_over: impl Fn(&OpenTransaction) -> bool) {
        let mut rolled_back = 0;
        self.open.retain(|_, open| {
            let over = is_over(open);
            // One that has taken too long is counted as such.
            rolled_back += u64::from(over && open.work.is_some());
            !over
        });
        self.counters.ended(TransactionEnd::RolledBack, rolled_back);
        self.give_back();
    }

    fn declare(&mut self, coordinator: LinkId, session: SessionId) -> Result<TransactionId, Error> {
        if self.open.len() >= OPEN_MAX {
            let text = format!("The connection has {OPEN_MAX} open transactions already.");
            return Err(Error::new(ErrorCondition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        self.last += 1;
        let work = Some(TransactionWork::default());
        self.open.insert(self.last, OpenTransaction { coordinator, session, deadline: None, work });
        self.counters.declared();
        TransactionId::new(&self.last.to_be_bytes()).ok_or_else(unknown)
    }

    /// Ends a transaction, whose work this is.
    fn discharge(&mut self, id: TransactionId, now: SystemTime) -> Result<TransactionWork, Error> {
        self.expire(now);
        let open = number_of(id).and_then(|number| self.open.remove(&number)).ok_or_else(unknown)?;
        self.give_back();
        open.work.ok_or_else(timed_out)
    }

    /// Rolls back what has taken too long. Returns when the next one will have.
    fn expire(&mut self, now: SystemTime) -> Option<SystemTime> {
        let mut next: Option<SystemTime> = None;
        let mut expired = 0;
        for open in self.open.values_mut().filter(|open| open.work.is_some()) {
            match open.deadline {
                Some(deadline) if deadline <= now => {
                    open.work = None;
                    expired += 1;
                }
                Some(deadline) => next = Some(next.map_or(deadline, |next| next.min(deadline))),
                None => {}
            }
        }
        if expired > 0 {
            self.counters.ended(TransactionEnd::Expired, expired);
            self.give_back();
        }
        next
    }
}

impl Drop for Transactions {
    fn drop(&mut self) {
        self.forget(|_| true);
    }
}

impl ConnectionTask {
    /// What is asked of the coordinator.
    pub(super) fn on_coordinator_request(
        &mut self,
        delivery: &Delivery,
        message: &[u8],
        now: SystemTime,
        answer_at: Option<Instant>,
    ) {
        // The outcomes that came before belong to what is ended here.
        self.settle_gathered();
        let Some(Some(LinkEntry { id: link, session, .. })) = self.links.get(delivery.link.index()) else {
            return;
        };
        let (link, session) = (*link, *session);
        let told = match CoordinatorRequest::decode(message) {
            Err(error) => {
                let text = format!("The request is neither declare nor discharge: {error}.");
                Told::now(rejected(ErrorCondition::DECODE_ERROR, text))
            }
            Ok(CoordinatorRequest::Declare { is_global: true }) => {
                Told::now(rejected(ErrorCondition::NOT_IMPLEMENTED, "There are no global transactions."))
            }
            Ok(CoordinatorRequest::Declare { is_global: false }) => {
                Told::now(match self.transactions.declare(link, session) {
                    Ok(id) => DeliveryState::Declared(id),
                    Err(error) => DeliveryState::Rejected(Some(error)),
                })
            }
            Ok(CoordinatorRequest::Discharge { transaction, fail }) => {
                match self.discharge(transaction, fail, now) {
                    Ok(until) => Told { state: DeliveryState::Accepted, until },
                    Err(error) => {
                        tracing::debug!(%error, "a transaction is rolled back");
                        Told::now(DeliveryState::Rejected(Some(error)))
                    }
                }
            }
        };
        let Some(Some(entry)) = self.links.get_mut(link.index()) else {
            return;
        };
        let ready_at = self.shaper.as_mut().and_then(|shaper| shaper.request(None));
        let connection = self.driver.connection();
        if !delivery.settled {
            let told = told.not_before(answer_at.max(ready_at));
            tell(connection, &mut self.pending, entry, delivery.id, told);
        }
        top_up_credit(connection, entry);
    }

    /// Ends a transaction. Returns the commit that the answer has to wait for.
    fn discharge(&mut self, id: TransactionId, fail: bool, now: SystemTime) -> Result<Until, Error> {
        let mut work = self.transactions.discharge(id, now)?;
        let outcomes = work.take_outcomes();
        let committed = match fail {
            false => work.commit(self.namespace.queues(), now.into()).map(Some),
            true => Ok(None),
        };
        let end = match &committed {
            Ok(Some(_)) => TransactionEnd::Committed,
            Ok(None) | Err(_) => TransactionEnd::RolledBack,
        };
        self.namespace.transaction_counters().ended(end, 1);
        let until = Until { commit: committed?.unwrap_or(CommitNumber::DONE), instant: None };
        if end == TransactionEnd::Committed {
            self.settle_committed(outcomes, until);
        }
        Ok(until)
    }

    /// A message that is part of a transaction.
    pub(super) fn on_transactional(
        &mut self,
        deliveries: &Deliveries,
        delivery: &Delivery,
        transaction: TransactionId,
        now: SystemTime,
        answer_at: Option<Instant>,
    ) {
        let Some(Some(entry)) = self.links.get_mut(delivery.link.index()) else {
            return;
        };
        let message = deliveries.message(delivery);
        if let Some(entity) = entry.node.transaction_entity() {
            self.transactions.used(entry.session, entity);
        }
        let taken = match &entry.node {
            Node::Send(link) => {
                match self.transactions.work_of(transaction, entry.session, now, message.len()) {
                    Ok((work, enlisting)) => work.send(link, enlisting, delivery.format, message),
                    Err(error) => Err(DeliveryState::Rejected(Some(error))),
                }
            }
            // Whether it is known shows when it is carried out.
            Node::Requests(_) => Ok(()),
            _ => Err(rejected(
                ErrorCondition::NOT_IMPLEMENTED,
                "Only queues, topics and subscriptions take part in transactions.",
            )),
        };
        let accepted =
            DeliveryState::Transactional { transaction, outcome: Some(Box::new(DeliveryState::Accepted)) };
        let state = match (taken, &entry.node) {
            (Ok(()), Node::Requests(_)) => DeliveryState::Accepted,
            (Ok(()), _) => accepted,
            (Err(refusal), _) => {
                self.rejections.note_outcome(entry.node.entity_name(), &refusal);
                refusal
            }
        };
        let ready_at = match (&mut self.shaper, &entry.node) {
            (Some(shaper), Node::Send(link)) => shaper.request(Some(link.entity_name())),
            _ => None,
        };
        let connection = self.driver.connection();
        if !delivery.settled {
            let told = Told::now(state).not_before(answer_at.max(ready_at));
            tell(connection, &mut self.pending, entry, delivery.id, told);
        }
        if let Some(node) = entry.node.requests().cloned() {
            let session = entry.session;
            self.settle_gathered();
            self.on_request(&node, session, message, now, Some(transaction));
            self.top_up_requests(delivery.link);
        } else {
            top_up_credit(connection, entry);
        }
    }

    /// Returns the work of the transaction that an operation in `session` is part of, and how entities are enlisted.
    pub(super) fn transaction_work(
        transactions: &mut Transactions,
        transaction: TransactionId,
        session: SessionId,
        now: SystemTime,
        more: usize,
    ) -> Result<(&mut TransactionWork, Enlisting), Error> {
        transactions.work_of(transaction, session, now, more)
    }

    /// Rolls back the transactions that have taken too long, if it is time to look.
    pub(super) fn check_transactions(&mut self, cx: &mut Context<'_>) {
        while let Some(alarm) = &mut self.transactions.alarm
            && alarm.as_mut().poll(cx).is_ready()
        {
            self.end_overdue_transactions(self.namespace.clock().now());
        }
    }

    /// Rolls back the transactions that have taken too long.
    pub(super) fn end_overdue_transactions(&mut self, now: SystemTime) {
        let next = self.transactions.expire(now);
        self.transactions.alarm = next.map(|next| {
            let left = next.duration_since(now).unwrap_or_default();
            Box::pin(tokio::time::sleep(left))
        });
    }
}

/// Whether a link is where transactions are declared.
pub(super) const fn is_coordinator(entry: &LinkEntry) -> bool {
    matches!(entry.node, Node::Coordinator)
}

fn number_of(id: TransactionId) -> Option<u64> {
    id.as_bytes().try_into().ok().map(u64::from_be_bytes)
}

/// In the service's words.
fn unknown() -> Error {
    let text = "Transaction hasn't been declared yet, or has already been discharged.";
    Error::new(ErrorCondition::TRANSACTION_UNKNOWN_ID, text)
}

fn timed_out() -> Error {
    let text = format!("The transaction was rolled back: it was open for more than {TIME_MAX:?}.");
    Error::new(ErrorCondition::TRANSACTION_TIMEOUT, text)
}

/// How long a transaction may take from its first operation on, as in the service.
const TIME_MAX: Duration = Duration::from_secs(120);

/// Transactions that a connection may have open at a time.
const OPEN_MAX: usize = 256;

/// What they may hold together, in bytes, before something is added: as much as the longest can commit.
const BYTES_MAX: usize = 32 * 1024 * 1024;
