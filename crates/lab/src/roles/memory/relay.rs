//! The pipeline of the world in memory: by sequence number, late if wished, and damaged if wished.

use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::BinaryHeap,
    future::poll_fn,
    pin::{Pin, pin},
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::BytesMut;
use connect::{
    event::{EventBatch, PartitionId},
    sink::ErrorClass,
    source::{Source as _, SourceError, SourceEvent, StartPosition},
};
use tokio::time::{Instant, Sleep};
use units::Random;

use super::{
    Counter, Faults, MemoryHub, PlainCodec,
    ends::CountedSource,
    tampering::{Deed, FlippedBit, Tally},
};
use crate::{
    clock::{RunClock, RunTime},
    payload::Header,
    results::Stage,
    roles::backend::{MessageCodec as _, RelayMetrics, RelayPipeline, RelayReading},
};

/// How long the pipeline keeps an event, counted from the instant at which it was meant to be sent: at least the floor,
/// and an exponentially distributed time beyond it. Events overtake one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// Everything follows from it.
    pub seed: u64,
    /// The least.
    pub floor: Duration,
    /// The mean of what comes on top.
    pub mean: Duration,
}

/// Forwards by sequence number, with faults.
#[derive(Debug)]
pub struct MemoryRelay {
    pub(super) faults: Faults,
    pub(super) tally: Arc<Mutex<Tally>>,
    pub(super) clock: RunClock,
    pub(super) source: CountedSource,
    pub(super) positions: Vec<(PartitionId, StartPosition)>,
    pub(super) destinations: Vec<MemoryHub>,
    pub(super) fan_out: u32,
    pub(super) reading: Rc<RefCell<RelayReading>>,
    pub(super) kept: Kept,
    /// When a pipeline of limited capacity has worked off what it took.
    pub(super) free_at: RunTime,
    pub(super) rest: Pin<Box<Sleep>>,
}

/// The events that wait for their instant.
#[derive(Debug)]
pub(super) struct Kept {
    delays: Option<(Random, Delay)>,
    waiting: BinaryHeap<Reverse<KeptEvent>>,
    count: u64,
    timer: Pin<Box<Sleep>>,
}

/// Ordered by instant, then in the order of arrival.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KeptEvent {
    due: RunTime,
    number: u64,
    destination: PartitionId,
    message: Vec<u8>,
}

impl Kept {
    pub(super) fn new(delay: Option<Delay>) -> Self {
        Self {
            delays: delay.map(|delay| (Random::from_seed(delay.seed), delay)),
            waiting: BinaryHeap::new(),
            count: 0,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
        }
    }

    /// Gives the message back if it need not wait.
    fn keep(&mut self, destination: PartitionId, message: Vec<u8>) -> Option<Vec<u8>> {
        let Some((random, delay)) = &mut self.delays else {
            return Some(message);
        };
        let payload = PlainCodec.decode(&message).map(|message| message.payload);
        let Some(Ok(header)) = payload.map(Header::parse) else {
            return Some(message);
        };
        let beyond = random.exponential(delay.mean.as_secs_f64());
        let due = header.intended.plus(delay.floor + Duration::from_secs_f64(beyond));
        self.count += 1;
        self.waiting.push(Reverse(KeptEvent { due, number: self.count, destination, message }));
        None
    }

    fn poll_due(&mut self, clock: RunClock, context: &mut Context<'_>) -> Poll<(PartitionId, Vec<u8>)> {
        loop {
            let Some(Reverse(next)) = self.waiting.peek() else {
                return Poll::Pending;
            };
            let left = next.due.saturating_since(clock.now());
            if left.is_zero() {
                break;
            }
            self.timer.as_mut().reset(Instant::now() + left);
            std::task::ready!(self.timer.as_mut().poll(context));
        }
        let Some(Reverse(event)) = self.waiting.pop() else {
            return Poll::Pending;
        };
        Poll::Ready((event.destination, event.message))
    }
}

impl RelayPipeline for MemoryRelay {
    type Metrics = MemoryMetrics;
    type Error = SourceError;

    fn metrics(&self) -> MemoryMetrics {
        MemoryMetrics { faults: self.faults, reading: Rc::clone(&self.reading) }
    }

    async fn run(mut self, stop: impl Future<Output = ()>) -> Result<RelayReading, SourceError> {
        self.free_at = self.clock.now().plus(self.faults.begins_after);
        for (partition, position) in std::mem::take(&mut self.positions) {
            self.source.open(partition, position);
            self.reading.borrow_mut().counters.opened += 1;
        }
        let metrics = self.metrics();
        let mut stop = pin!(stop);
        poll_fn(|context| {
            if stop.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            for turn in 0.. {
                if self.poll_exhausted(context) {
                    break;
                }
                if turn == BATCHES_PER_POLL {
                    // The event loop needs a turn now and then, however much there is to receive.
                    context.waker().wake_by_ref();
                    break;
                }
                match self.source.poll_batch(context)? {
                    Poll::Ready(SourceEvent::Batch(batch)) => self.take(batch)?,
                    Poll::Ready(SourceEvent::PartitionClosed { error, .. }) => {
                        return Poll::Ready(Err(error));
                    }
                    // The memory's sources go by checkpoints.
                    Poll::Ready(SourceEvent::Settled(_) | SourceEvent::LocksRenewed { .. }) => {}
                    Poll::Pending => break,
                }
            }
            while let Poll::Ready((destination, message)) = self.kept.poll_due(self.clock, context) {
                self.forward(destination, &message);
            }
            Poll::Pending
        })
        .await?;
        Ok(metrics.reported())
    }
}

impl MemoryRelay {
    /// Whether as many events were taken as the capacity allows by now. The task is woken when that changes.
    fn poll_exhausted(&mut self, context: &mut Context<'_>) -> bool {
        loop {
            let left = self.free_at.saturating_since(self.clock.now());
            if left.is_zero() {
                return false;
            }
            self.rest.as_mut().reset(Instant::now() + left);
            if self.rest.as_mut().poll(context).is_pending() {
                return true;
            }
        }
    }

    fn take(&mut self, batch: EventBatch) -> Result<(), SourceError> {
        if let Some(per_second) = self.faults.capacity_per_s {
            // An idle moment is not made up for later, except for the shortest, which are the timer's.
            let earliest = self.clock.now().minus(TIMER_SLACK);
            let work = Duration::from_secs_f64(batch.len() as f64 / per_second);
            self.free_at = self.free_at.max(earliest).plus(work);
        }
        let mut messages = Vec::with_capacity(batch.len());
        for event in batch.events() {
            let received = self.count_received();
            let hits = |every: Option<u64>| every.is_some_and(|every| received.is_multiple_of(every));
            if hits(self.faults.fail_after) {
                return Err(SourceError {
                    class: ErrorClass::Fatal,
                    condition: "test:failed".to_owned(),
                    description: "failed by injection".to_owned(),
                });
            }
            assert!(!hits(self.faults.panic_after), "a panic on purpose");
            if self.faults.stand_still {
                continue;
            }
            self.reading.borrow_mut().counters.completed += 1;
            let mut message = batch.message(event).to_vec();
            if self.faults.drops_properties
                && let Some(decoded) = PlainCodec.decode(batch.message(event))
            {
                let mut plain = BytesMut::new();
                PlainCodec.encode(None, decoded.payload, &mut plain);
                message = plain.to_vec();
            }
            let payload_len = PlainCodec.decode(&message).map_or(0, |message| message.payload.len());
            let deed = self.faults.tampering.map_or(Deed::Nothing, |tampering| {
                tampering.deed(batch.partition().0, event.sequence_number, payload_len)
            });
            messages.push((event.sequence_number, message, deed));
        }
        self.tamper(batch.partition(), &mut messages);
        for (sequence_number, message, deed) in messages {
            let destination = PartitionId(sequence_number as u32 % self.fan_out);
            let copies = match deed {
                Deed::Lose => 0,
                Deed::Duplicate => 2,
                Deed::Nothing | Deed::Swap | Deed::Flip { .. } => 1,
            };
            for _ in 0..copies {
                if let Some(message) = self.kept.keep(destination, message.clone()) {
                    self.forward(destination, &message);
                }
            }
        }
        self.reading.borrow_mut().stages.entry(Stage::Process).or_default().record(7);
        self.source.release(batch);
        Ok(())
    }

    /// Does to the messages of a batch what was drawn for them, except for what their number of copies does.
    fn tamper(&self, partition: PartitionId, messages: &mut [(i64, Vec<u8>, Deed)]) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        for index in 0..messages.len() {
            let (sequence_number, message, deed) = &mut messages[index];
            let sequence_number = *sequence_number;
            match *deed {
                Deed::Nothing => {}
                Deed::Lose => tally.lost.push((partition.0, sequence_number)),
                Deed::Duplicate => tally.duplicated += 1,
                Deed::Flip { bit } => {
                    let payload = PlainCodec::payload_of(message);
                    payload[bit as usize / 8] ^= 0x80 >> (bit % 8);
                    tally.flipped.push(FlippedBit { partition: partition.0, sequence_number, bit });
                }
                Deed::Swap => {
                    // Of its stream are all of the batch, and to its destination goes every so manieth.
                    let other = index + self.fan_out as usize;
                    if messages.get(other).is_some_and(|(.., deed)| *deed == Deed::Nothing) {
                        messages.swap(index, other);
                        // Neither changes places again, and the earlier one is behind.
                        messages[index].2 = Deed::Nothing;
                        messages[other].2 = Deed::Nothing;
                        tally.swapped += 1;
                    }
                }
            }
        }
    }

    fn count_received(&self) -> u64 {
        let counters = &mut self.reading.borrow_mut().counters;
        counters.received += 1;
        counters.received
    }

    fn forward(&self, destination: PartitionId, message: &[u8]) {
        let counters = &mut self.reading.borrow_mut().counters;
        let now = self.clock.now();
        for hub in &self.destinations {
            hub.append(destination, message);
        }
        counters.forwarded += self.destinations.len() as u64;
        counters.first_forwarded.get_or_insert(now);
        counters.last_forwarded = Some(now);
    }
}

/// Reads the relay's reading.
#[derive(Debug)]
pub struct MemoryMetrics {
    faults: Faults,
    reading: Rc<RefCell<RelayReading>>,
}

impl MemoryMetrics {
    fn reported(&self) -> RelayReading {
        let mut reading = self.reading.borrow().clone();
        let counters = &mut reading.counters;
        counters.received = self.faults.reported(Counter::RelayReceived, counters.received);
        counters.forwarded = self.faults.reported(Counter::RelayForwarded, counters.forwarded);
        reading
    }
}

impl RelayMetrics for MemoryMetrics {
    async fn read(&self) -> Option<RelayReading> {
        Some(self.reported())
    }
}

/// A timer may be late by this much.
const TIMER_SLACK: Duration = Duration::from_millis(5);

/// Batches after which the event loop gets a turn.
const BATCHES_PER_POLL: u32 = 64;
