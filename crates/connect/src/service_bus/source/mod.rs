//! Receives from a queue or subscription, under locks.
//!
//! Backpressure is credit: what is locked for us and not settled is never more than may be in work and fetched ahead. A
//! message is in work from being handed over until the service has confirmed its settlement, as with the official
//! processors, whose workers wait for that.
//!
//! ```text
//!   concurrency + prefetch
//!   ├─ credit ──┼─ waiting: locked, not handed over ─┼─ in work: handed over │ sent │ ─┤
//!                                                       └ concurrency at most ┘      └ confirmed
//! ```
//!
//! Settlements between two polls are sent in ranges of consecutive deliveries, and one flow gives back the credit of all
//! that were confirmed.

mod forwarding;
mod link;
mod settling;
mod waiting;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use amqp::connection::{Deliveries, Event, LinkId};
use amqp::performative::ErrorCondition;
use waiting::Waiting;

use super::delivered;
use super::locks::{Lock, LockToken, Locks};
use super::management_requests::{ManagementRequests, remaining, unix_ms};
use super::options::ReceiveOptions;
use super::transactional::Forward;
use crate::alarm::Alarm;
use crate::event::{BatchPool, Encoding, EventBatch, PartitionId, Receipt};
use crate::service::error::{PROTOCOL, TIMEOUT};
use crate::service::{ClientOptions, Endpoint, Reconnecting, ServiceConnection, ServiceError};
use crate::sink::ErrorClass;
use crate::source::{Settlement, SettlingSource, ShutDown, Source, SourceError, SourceEvent, StartPosition};

/// A [`Source`] of the messages of a queue or subscription, which is its only partition.
///
/// A link or connection that breaks is made again by itself. What was in work then is settled through the management node;
/// what was waiting comes again when its lock expires. An event's message is its sections without header and annotations.
#[derive(Debug)]
pub struct ServiceBusSource {
    receive: ReceiveOptions,
    connection: Reconnecting,
    link: Link,
    links_attached: u64,
    /// Links in a row that ended without having delivered anything.
    link_failures: u32,
    /// Why there is no link though there is a connection.
    link_outage: Option<ServiceError>,
    intake: Intake,
    /// Counts the links that have been: receipts of earlier ones name locks that are elsewhere.
    generation: u32,
    locks: Locks,
    waiting: Waiting,
    /// Messages that were handed over and are not confirmed to be settled.
    in_work: u32,
    /// Settlements to be sent, by delivery id.
    due: Vec<(u32, Settlement)>,
    /// The number of settlements that were sent and are not answered.
    unanswered: u32,
    /// When to check whether an answer is overdue.
    answers_due: Option<Instant>,
    /// Locks of messages in work whose link is gone, by receipt of their own.
    orphans: HashMap<u64, LockToken>,
    requests: ManagementRequests,
    /// Where messages are sent from here, in transactions with their settlement; nothing where somebody else sends them.
    forward: Option<Box<Forward>>,
    /// When the next lock is to be renewed; perhaps earlier than that.
    next_renewal: Option<Instant>,
    events: VecDeque<SourceEvent>,
    pool: BatchPool,
    alarm: Alarm,
}

/// Where the link stands.
#[derive(Clone, Copy, Debug)]
enum Link {
    Detached,
    Attaching(LinkId),
    Attached(LinkId),
    /// It ended; the next one is attached at this instant.
    BackingOff(Instant),
}

/// Whether messages are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intake {
    NotYet,
    Open,
    /// What still comes is given back, until the service has used up its credit.
    Draining,
    Closed,
}

impl ServiceBusSource {
    /// Connects, and attaches the link to the entity of the options. Nothing is delivered before the source is opened. Made
    /// within a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// When the service cannot be reached, refuses the token or the link, or has no such entity.
    pub async fn connect(options: ClientOptions, receive: ReceiveOptions) -> Result<Self, ServiceError> {
        let endpoint = Endpoint::resolve(options)?;
        let connection = ServiceConnection::open(endpoint.clone()).await?;
        let mut source = Self::idle(endpoint, connection, receive);
        source.attached().await?;
        Ok(source)
    }

    /// A source on a connection that is up, without its link.
    fn idle(endpoint: Arc<Endpoint>, connection: ServiceConnection, receive: ReceiveOptions) -> Self {
        let limit = endpoint.options.connect_timeout;
        Self {
            receive: ReceiveOptions { concurrency: receive.concurrency.max(1), ..receive },
            requests: ManagementRequests::new(&endpoint.options.entity, limit),
            connection: Reconnecting::new(endpoint, connection),
            link: Link::Detached,
            links_attached: 0,
            link_failures: 0,
            link_outage: None,
            intake: Intake::NotYet,
            generation: 0,
            locks: Locks::default(),
            waiting: Waiting::default(),
            in_work: 0,
            due: Vec::new(),
            unanswered: 0,
            answers_due: None,
            orphans: HashMap::new(),
            forward: None,
            next_renewal: None,
            events: VecDeque::new(),
            pool: BatchPool::new(POOLED_BATCHES),
            alarm: Alarm::new(),
        }
    }

    /// Waits until the link is attached.
    async fn attached(&mut self) -> Result<(), ServiceError> {
        let limit = self.connection.endpoint().options.connect_timeout;
        let attached = std::future::poll_fn(|context| self.poll_attached(context));
        tokio::time::timeout(limit, attached).await.unwrap_or_else(|_elapsed| {
            let description = format!("the link was not attached within {limit:?}");
            Err(ServiceError::of_connection(TIMEOUT, description))
        })
    }

    /// Ready once the link is attached.
    fn poll_attached(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        loop {
            match self.link {
                Link::Attached(_) => return Poll::Ready(Ok(())),
                Link::Detached => self.attach()?,
                Link::Attaching(_) | Link::BackingOff(_) => {}
            }
            self.take_events()?;
            if !matches!(self.link, Link::Attaching(_)) {
                continue;
            }
            let Some(connection) = self.connection.up() else {
                return Poll::Pending;
            };
            ready!(connection.poll_drive(context))?;
        }
    }

    /// One turn: tells what was settled, takes what has been read, gives credit, renews locks, writes and reads. Ready when
    /// there may be something to hand over or another turn to take; an error says that the connection is of no more use,
    /// or could not be made.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        let now = tokio::time::Instant::now().into_std();
        if self.connection.up().is_none() {
            if self.intake != Intake::Open && self.requests.is_idle() {
                return Poll::Pending;
            }
            ready!(self.connection.poll_up(context))?;
        }
        if matches!(self.link, Link::BackingOff(until) if until <= now) {
            self.link = Link::Detached;
        }
        if matches!(self.link, Link::Detached) && self.intake == Intake::Open {
            self.attach()?;
        }
        self.send_settlements(now);
        self.take_events()?;
        if self.forward.is_some() {
            self.advance_transactions(now)?;
        }
        self.check_answers(now)?;
        self.renew(now);
        while let Some(outcome) = self.requests.pop_outcome() {
            self.take_outcome(outcome, now);
        }
        if let Some(connection) = self.connection.up() {
            self.requests.advance(connection, now)?;
        }
        if !self.events.is_empty() || self.may_hand_over() {
            return Poll::Ready(Ok(()));
        }
        self.give_credit();
        if let Some(connection) = self.connection.up()
            && let Poll::Ready(driven) = connection.poll_drive(context)
        {
            return Poll::Ready(driven);
        }
        self.poll_timer(context).map(Ok)
    }

    /// A turn, after which there may be something to hand over or another turn to take. A connection that is of no more use is made again.
    ///
    /// # Errors
    /// One that trying again cannot change.
    fn poll_on(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        match ready!(self.poll_turn(context)) {
            Ok(()) => {}
            Err(error) if error.class == ErrorClass::Fatal => {
                self.connection.lost(&error);
                return Poll::Ready(Err(error));
            }
            Err(error) => self.lose(&error),
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when something may be due.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let backing_off = match self.link {
            Link::BackingOff(until) => Some(until),
            _ => None,
        };
        let transactions = self.transactions_due();
        let deadlines =
            [self.next_renewal, self.requests.deadline(), self.answers_due, backing_off, transactions];
        let deadline = deadlines.into_iter().flatten().min();
        self.alarm.poll(context, deadline.map(tokio::time::Instant::from_std))
    }

    /// Takes what has been read. An error says that the connection is of no more use.
    fn take_events(&mut self) -> Result<(), ServiceError> {
        while let Some(connection) = self.connection.up() {
            let data = connection.data();
            match connection.next_event()? {
                None => break,
                Some(Event::Deliveries(deliveries)) => self.take_deliveries(deliveries)?,
                Some(Event::SettledBySender { session, first, last, state }) if session == data => {
                    if let Some(forward) = &mut self.forward {
                        forward.take_answer(first, last, state.as_ref());
                    }
                    self.take_answer(first, last, state.as_ref())
                }
                Some(Event::TakenBySender { session, first, last, state }) if session == data => {
                    if let Some(forward) = &mut self.forward {
                        forward.take_answer(first, last, Some(&state));
                    }
                }
                Some(Event::LinkAttached { link, attach }) => {
                    if matches!(self.link, Link::Attaching(ours) if ours == link) {
                        self.link = Link::Attached(link);
                        self.link_outage = None;
                    } else if let Some(forward) = &mut self.forward {
                        forward.take_attach(link, &attach);
                    }
                }
                Some(Event::Drained(link)) => {
                    if self.is_ours(link) && self.intake == Intake::Draining {
                        self.intake = Intake::Closed;
                    }
                }
                Some(Event::LinkDetached { link, error }) => {
                    if self.is_ours(link) {
                        self.take_detach(ServiceError::of_detach(error))?;
                    } else if self.requests.has(link) {
                        tracing::debug!(?error, "the management node has detached its link");
                        self.requests.take_detach(tokio::time::Instant::now().into_std());
                    } else if let Some(forward) = &mut self.forward {
                        forward.take_detach(link, ServiceError::of_detach(error))?;
                    }
                }
                Some(event) => self.take_event_of_forward(event)?,
            }
        }
        Ok(())
    }

    fn is_ours(&self, link: LinkId) -> bool {
        matches!(self.link, Link::Attaching(ours) | Link::Attached(ours) if ours == link)
    }

    /// Takes messages in, under their locks. Hot path.
    fn take_deliveries(&mut self, deliveries: Deliveries) -> Result<(), ServiceError> {
        let now = tokio::time::Instant::now().into_std();
        let now_ms = unix_ms();
        let mut alike: Option<(Option<i64>, Lock)> = None;
        for delivery in deliveries.items() {
            if !self.is_ours(delivery.link) {
                let Some(connection) = self.connection.up() else {
                    return Ok(());
                };
                if !self.requests.take_reply(connection, &deliveries, delivery, now) {
                    connection.take_control_delivery(&deliveries, delivery)?;
                }
                continue;
            }
            if delivery.settled {
                return Err(ServiceError::fatal(
                    ErrorCondition::NOT_IMPLEMENTED.as_str(),
                    "the service delivers without locks, so that a failure would lose messages",
                ));
            }
            let message = deliveries.message(delivery);
            let located = match delivered::locate_usual(message, delivery.start) {
                Some(usual) => Ok((usual, None)),
                None => delivered::locate(message, delivery.start),
            };
            let token = deliveries.tag(delivery).try_into().ok();
            let locked_until_ms = located
                .as_ref()
                .ok()
                .and_then(|(received, _)| received.locked_until_ms)
                // A lock without a name cannot be renewed.
                .filter(|_| token.is_some());
            let lock = match alike {
                // Messages that were received together are locked until the same instant.
                Some((until_ms, lock)) if until_ms == locked_until_ms => lock,
                _ => {
                    let remaining = locked_until_ms.map(|until_ms| remaining(until_ms, now_ms));
                    let lock = Lock::new(now, remaining, self.receive.lock_renewal);
                    self.next_renewal = [self.next_renewal, lock.renew_at].into_iter().flatten().min();
                    alike = Some((locked_until_ms, lock));
                    lock
                }
            };
            self.locks
                .push(delivery.id, Lock { token: token.unwrap_or_default(), ..lock })
                .map_err(|_| ServiceError::of_connection(PROTOCOL, "delivery ids are not consecutive"))?;
            match located {
                _ if self.intake != Intake::Open => {
                    self.due.push((delivery.id, Settlement::Release));
                }
                Ok((received, copy)) => {
                    let chunk = copy.as_ref().unwrap_or_else(|| deliveries.chunk());
                    self.waiting.push(delivery.id, received.delivery_count > 0, chunk, received.parts);
                }
                Err(error) => {
                    tracing::warn!(%error, "a message can't be read and is dead-lettered");
                    self.due.push((delivery.id, Settlement::DeadLetter));
                }
            }
            self.link_failures = 0;
        }
        if let Some(connection) = self.connection.up() {
            connection.engine().recycle(deliveries);
        }
        Ok(())
    }

    fn may_hand_over(&self) -> bool {
        self.intake == Intake::Open && !self.waiting.is_empty() && self.in_work < self.receive.concurrency
    }

    /// As many waiting messages as there is room for in work.
    fn next_batch(&mut self) -> Option<EventBatch> {
        if !self.may_hand_over() {
            return None;
        }
        let room = (self.receive.concurrency - self.in_work) as usize;
        let first = self.waiting.first_id()?;
        let mut batch = self.pool.take(ENTITY, BATCH_MESSAGES_MAX);
        // The place of a message in its batch tells its delivery id.
        let redelivered = self.waiting.fill(&mut batch, room.min(BATCH_MESSAGES_MAX));
        self.locks.take_into_work(first, batch.len());
        self.in_work += batch.len() as u32;
        batch.set_receipt(receipt(self.generation, first), redelivered);
        Some(batch)
    }
}

impl Source for ServiceBusSource {
    fn encoding(&self) -> Encoding {
        Encoding::Amqp
    }

    fn partitions(&self) -> Vec<PartitionId> {
        vec![ENTITY]
    }

    fn open(&mut self, _partition: PartitionId, _start: StartPosition) {
        self.intake = Intake::Open;
    }

    fn close(&mut self, _partition: PartitionId) {
        if self.intake != Intake::Open {
            return;
        }
        self.due.extend(self.waiting.take_ids().map(|id| (id, Settlement::Release)));
        self.intake = Intake::Closed;
        if let (Link::Attached(link), Some(connection)) = (self.link, self.connection.up())
            && connection.engine().credit(link) > 0
        {
            // Whatever is on its way is given back when it comes.
            connection.engine().drain(link);
            self.intake = Intake::Draining;
        }
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Poll::Ready(Ok(event));
            }
            if let Some(batch) = self.next_batch() {
                return Poll::Ready(Ok(SourceEvent::Batch(batch)));
            }
            ready!(self.poll_on(context))?;
        }
    }

    fn release(&mut self, batch: EventBatch) {
        self.pool.give(batch);
    }

    fn outage(&self) -> Option<&ServiceError> {
        self.connection.outage().or(self.link_outage.as_ref())
    }

    fn is_attached(&self, _: PartitionId) -> bool {
        matches!(self.link, Link::Attached(_))
    }

    fn shut_down(self: Box<Self>) -> ShutDown {
        let connection = self.connection.into_connection();
        Box::pin(async move {
            if let Some(connection) = connection {
                connection.close().await;
            }
        })
    }
}

impl SettlingSource for ServiceBusSource {
    #[inline]
    fn settle(&mut self, batch: &EventBatch, events: &[u32], settlement: Settlement) {
        let (generation, first) = of_receipt(batch.receipt());
        if generation == self.generation {
            let ids = events.iter().map(|&event| first.wrapping_add(event));
            self.due.extend(ids.map(|id| (id, settlement)));
            return;
        }
        let now = tokio::time::Instant::now().into_std();
        for &event in events {
            let own = receipt(generation, first.wrapping_add(event));
            if let Some(token) = self.orphans.remove(&own.0) {
                self.settle_orphan(token, settlement, now);
            }
        }
    }

    fn is_settled(&self) -> bool {
        self.due.is_empty()
            && self.unanswered == 0
            && self.requests.is_idle()
            && self.events.is_empty()
            && self.intake != Intake::Draining
    }
}

/// A delivery of the link with this number, or a batch that begins with it.
const fn receipt(generation: u32, id: u32) -> Receipt {
    Receipt((generation as u64) << 32 | id as u64)
}

const fn of_receipt(Receipt(receipt): Receipt) -> (u32, u32) {
    ((receipt >> 32) as u32, receipt as u32)
}

/// The one partition: the entity itself.
const ENTITY: PartitionId = PartitionId(0);

/// Messages that are handed over at once. Each has a send of its own, as a rule.
const BATCH_MESSAGES_MAX: usize = 64;

/// Batches that go round.
const POOLED_BATCHES: usize = 64;
