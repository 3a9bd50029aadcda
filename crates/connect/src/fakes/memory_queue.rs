//! A queue in memory, and a source that receives from it under locks.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep};

use crate::event::{BatchPool, Encoding, EventBatch, PartitionId, Receipt};
use crate::source::{
    Settled, Settlement, SettlementResult, SettlingSource, Source, SourceError, SourceEvent, StartPosition,
};

/// The messages that a [`QueueSource`] receives; clones share them. Sequence numbers count from 0.
#[derive(Clone)]
pub struct MemoryQueue {
    shared: Arc<Mutex<Shared>>,
}

/// A [`Source`] of the messages of a [`MemoryQueue`], which bounds what is in work as a real one does. It panics where its
/// user breaks the contract: a message that is settled twice, or not before its batch is released.
pub struct QueueSource {
    queue: MemoryQueue,
    concurrency: usize,
    open: bool,
    /// What was handed over and is not confirmed: by receipt, the messages of each batch.
    handed_over: Vec<Option<Vec<Delivery>>>,
    told: VecDeque<Told>,
    in_work: usize,
    pool: BatchPool,
    timer: Pin<Box<Sleep>>,
}

/// What a message of a [`MemoryQueue`] is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    /// It waits to be received.
    Available,
    /// Somebody has it.
    Locked,
    /// It is deleted.
    Completed,
    /// It is a dead letter.
    DeadLettered,
}

struct Shared {
    messages: Vec<Message>,
    /// How long the service takes to answer a settlement.
    answers_after: Duration,
    max_delivery_count: u32,
    /// Looks at each settlement when it is made.
    audit: Option<Box<dyn FnMut(i64, Settlement) + Send>>,
    most_in_work: usize,
    failure: Option<SourceError>,
    poller: Option<Waker>,
}

struct Message {
    bytes: Bytes,
    state: MessageState,
    delivery_count: u32,
    /// Counts its deliveries: the lock of an earlier one is lost.
    lock: u64,
}

#[derive(Clone, Copy)]
struct Delivery {
    number: usize,
    lock: u64,
    settled: bool,
}

struct Told {
    number: usize,
    lock: u64,
    settlement: Settlement,
    at: Instant,
}

impl MemoryQueue {
    /// An empty queue, which answers settlements at once and never puts a message aside.
    #[must_use]
    pub fn new() -> Self {
        let shared = Shared {
            messages: Vec::new(),
            answers_after: Duration::ZERO,
            max_delivery_count: u32::MAX,
            audit: None,
            most_in_work: 0,
            failure: None,
            poller: None,
        };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Adds a message and returns its sequence number.
    pub fn put(&self, message: &[u8]) -> i64 {
        let mut shared = self.shared();
        shared.messages.push(Message {
            bytes: Bytes::copy_from_slice(message),
            state: MessageState::Available,
            delivery_count: 0,
            lock: 0,
        });
        shared.wake();
        shared.messages.len() as i64 - 1
    }

    /// Lets settlements be answered after this long.
    pub fn answer_after(&self, delay: Duration) {
        self.shared().answers_after = delay;
    }

    /// Puts messages aside that were delivered so often and failed.
    pub fn limit_deliveries(&self, max_delivery_count: u32) {
        self.shared().max_delivery_count = max_delivery_count;
    }

    /// Has each settlement looked at when it is made.
    pub fn audit(&self, audit: impl FnMut(i64, Settlement) + Send + 'static) {
        self.shared().audit = Some(Box::new(audit));
    }

    /// Lets every lock expire: what is locked is available again, and its settlement fails.
    pub fn expire_locks(&self) {
        let mut shared = self.shared();
        for message in &mut shared.messages {
            if message.state == MessageState::Locked {
                message.give_back(true);
            }
        }
        shared.wake();
    }

    /// Lets the source fail as a whole.
    pub fn fail(&self, error: SourceError) {
        let mut shared = self.shared();
        shared.failure = Some(error);
        shared.wake();
    }

    /// What each message is at the moment.
    #[must_use]
    pub fn states(&self) -> Vec<MessageState> {
        let shared = self.shared();
        shared.messages.iter().map(|message| message.state).collect()
    }

    /// How often each message was delivered and failed.
    #[must_use]
    pub fn delivery_counts(&self) -> Vec<u32> {
        let shared = self.shared();
        shared.messages.iter().map(|message| message.delivery_count).collect()
    }

    /// How many messages are in a state.
    #[must_use]
    pub fn count(&self, state: MessageState) -> usize {
        let shared = self.shared();
        let messages = shared.messages.iter();
        messages.filter(|message| message.state == state).count()
    }

    /// The most messages that were ever in work at once.
    #[must_use]
    pub fn most_in_work(&self) -> usize {
        self.shared().most_in_work
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl QueueSource {
    /// A source with at most `concurrency` messages in work. Made within a tokio runtime with time.
    #[must_use]
    pub fn new(queue: &MemoryQueue, concurrency: usize) -> Self {
        Self {
            queue: queue.clone(),
            concurrency,
            open: false,
            handed_over: Vec::new(),
            told: VecDeque::new(),
            in_work: 0,
            pool: BatchPool::new(concurrency),
            timer: Box::pin(tokio::time::sleep_until(Instant::now())),
        }
    }

    /// The answers that are due, of one kind at a time.
    fn answer(&mut self) -> Option<Settled> {
        let mut shared = self.queue.shared();
        let answers_after = shared.answers_after;
        let now = Instant::now();
        let mut answered: Option<Settled> = None;
        while let Some(told) = self.told.front() {
            let elapsed = now - told.at;
            if elapsed < answers_after {
                break;
            }
            let message = &shared.messages[told.number];
            let holds = message.state == MessageState::Locked && message.lock == told.lock;
            let result = match holds {
                true => SettlementResult::Confirmed,
                false => SettlementResult::LockLost,
            };
            let settled = Settled { settlement: told.settlement, messages: 1, result, elapsed };
            match &mut answered {
                Some(run) if (run.settlement, run.result) == (settled.settlement, result) => {
                    run.messages += 1;
                }
                Some(_) => break,
                None => answered = Some(settled),
            }
            if holds {
                let limit = shared.max_delivery_count;
                shared.messages[told.number].settle(told.settlement, limit);
            }
            self.told.pop_front();
            self.in_work -= 1;
        }
        answered
    }

    fn next_batch(&mut self) -> Option<EventBatch> {
        if !self.open {
            return None;
        }
        let mut shared = self.queue.shared();
        let room = self.concurrency - self.in_work;
        let mut batch = self.pool.take(ENTITY, room);
        let mut deliveries = Vec::new();
        let mut redelivered = 0;
        for (number, message) in shared.messages.iter_mut().enumerate() {
            if batch.len() == room {
                break;
            }
            if message.state == MessageState::Available {
                message.state = MessageState::Locked;
                message.lock += 1;
                redelivered += u32::from(message.delivery_count > 0);
                batch.push_message(&message.bytes, number as i64);
                deliveries.push(Delivery { number, lock: message.lock, settled: false });
            }
        }
        if deliveries.is_empty() {
            self.pool.give(batch);
            return None;
        }
        self.in_work += deliveries.len();
        shared.most_in_work = shared.most_in_work.max(self.in_work);
        batch.set_receipt(Receipt(self.handed_over.len() as u64), redelivered);
        self.handed_over.push(Some(deliveries));
        Some(batch)
    }
}

impl Source for QueueSource {
    fn encoding(&self) -> Encoding {
        Encoding::Opaque
    }

    fn partitions(&self) -> Vec<PartitionId> {
        vec![ENTITY]
    }

    fn open(&mut self, _partition: PartitionId, _start: StartPosition) {
        self.open = true;
    }

    fn close(&mut self, _partition: PartitionId) {
        self.open = false;
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>> {
        if let Some(error) = self.queue.shared().failure.take() {
            return Poll::Ready(Err(error));
        }
        loop {
            if let Some(settled) = self.answer() {
                return Poll::Ready(Ok(SourceEvent::Settled(settled)));
            }
            if let Some(batch) = self.next_batch() {
                return Poll::Ready(Ok(SourceEvent::Batch(batch)));
            }
            let mut shared = self.queue.shared();
            shared.poller = Some(context.waker().clone());
            let Some(told) = self.told.front() else {
                return Poll::Pending;
            };
            self.timer.as_mut().reset(told.at + shared.answers_after);
            drop(shared);
            if self.timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn release(&mut self, batch: EventBatch) {
        let deliveries = self.handed_over[batch.receipt().0 as usize].take();
        for delivery in deliveries.expect("a batch is released once") {
            assert!(delivery.settled, "message {} was released and not settled", delivery.number);
        }
        self.pool.give(batch);
    }
}

impl SettlingSource for QueueSource {
    fn settle(&mut self, batch: &EventBatch, events: &[u32], settlement: Settlement) {
        let deliveries = self.handed_over[batch.receipt().0 as usize]
            .as_mut()
            .expect("a batch is settled before it is released");
        let mut shared = self.queue.shared();
        for &event in events {
            let delivery = &mut deliveries[event as usize];
            assert!(!delivery.settled, "message {} is settled twice", delivery.number);
            delivery.settled = true;
            if let Some(audit) = &mut shared.audit {
                audit(delivery.number as i64, settlement);
            }
            self.told.push_back(Told {
                number: delivery.number,
                lock: delivery.lock,
                settlement,
                at: Instant::now(),
            });
        }
    }

    fn is_settled(&self) -> bool {
        self.told.is_empty()
    }
}

impl Message {
    fn settle(&mut self, settlement: Settlement, max_delivery_count: u32) {
        match settlement {
            Settlement::Complete => self.state = MessageState::Completed,
            Settlement::DeadLetter => self.state = MessageState::DeadLettered,
            Settlement::Release => self.give_back(false),
            Settlement::Abandon => {
                self.give_back(true);
                if self.delivery_count >= max_delivery_count {
                    self.state = MessageState::DeadLettered;
                }
            }
        }
    }

    fn give_back(&mut self, failed: bool) {
        self.state = MessageState::Available;
        self.delivery_count += u32::from(failed);
    }
}

impl Shared {
    fn wake(&mut self) {
        if let Some(poller) = self.poller.take() {
            poller.wake();
        }
    }
}

impl fmt::Debug for MemoryQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryQueue").field("messages", &self.shared().messages.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for QueueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueSource")
            .field("queue", &self.queue)
            .field("in_work", &self.in_work)
            .finish_non_exhaustive()
    }
}

/// The one partition: the queue itself.
const ENTITY: PartitionId = PartitionId(0);
