//! A source and a sink that cost next to nothing, to measure what stands between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::event::{BatchPool, Encoding, EnqueuedTime, EventBatch, EventParts, PartitionId};
use crate::sink::{OutgoingBatch, SendOutcome, SendToken, Sink, SinkBusy, SinkError};
use crate::source::{Source, SourceError, SourceEvent, SourceOptions, StartPosition};

/// A [`Source`] that makes full batches of equal events out of nothing, partition by partition, up to a number of events.
/// Once its batches go round it allocates nothing.
#[derive(Debug)]
pub struct EndlessSource {
    options: SourceOptions,
    partitions: Vec<Fetching>,
    turn: usize,
    left: u64,
    chunk: Bytes,
    encoding: Encoding,
    pool: BatchPool,
}

#[derive(Debug, Default)]
struct Fetching {
    open: bool,
    next: i64,
    unreleased: usize,
}

/// A [`Sink`] that copies every message into one buffer, which it forgets, and accepts every send.
#[derive(Debug)]
pub struct NullSink {
    destinations: u32,
    output: Vec<u8>,
    outcomes: Vec<SendOutcome>,
    accepted: Arc<Accepted>,
}

/// How many events a [`NullSink`] has accepted, to be seen from elsewhere.
#[derive(Debug, Default)]
pub struct Accepted {
    events: AtomicU64,
    changed: Notify,
}

impl EndlessSource {
    /// A source of `events` events of `message_len` bytes in all; the last ones that fill no batch are left out.
    #[must_use]
    pub fn new(partitions: u32, options: SourceOptions, message_len: u16, events: u64) -> Self {
        Self {
            options,
            partitions: (0..partitions).map(|_| Fetching::default()).collect(),
            turn: 0,
            left: events,
            chunk: Bytes::from(vec![0xa5; usize::from(message_len)]),
            encoding: Encoding::Opaque,
            pool: BatchPool::new(partitions as usize * 2),
        }
    }

    /// The same, with this message for each event.
    #[must_use]
    pub fn of_messages(self, message: Bytes, encoding: Encoding) -> Self {
        Self { chunk: message, encoding, ..self }
    }

    fn batch(&mut self, index: usize) -> EventBatch {
        let partition = &mut self.partitions[index];
        let count = self.options.batch.max_events;
        // The index is below a 32-bit count.
        let mut batch = self.pool.take(PartitionId(index as u32), count);
        batch.set_encoding(self.encoding);
        for _ in 0..count {
            let parts = EventParts {
                message: 0..self.chunk.len() as u32,
                partition_key: 0..0,
                offset: 0..0,
                sequence_number: partition.next,
                enqueued_time: EnqueuedTime::default(),
            };
            batch.push(&self.chunk, &parts);
            partition.next += 1;
        }
        partition.unreleased += count;
        self.left -= count as u64;
        batch
    }
}

impl Source for EndlessSource {
    fn encoding(&self) -> Encoding {
        self.encoding
    }

    fn partitions(&self) -> Vec<PartitionId> {
        (0..).take(self.partitions.len()).map(PartitionId).collect()
    }

    fn open(&mut self, partition: PartitionId, position: StartPosition) {
        let next = match position {
            StartPosition::AtSequenceNumber(at) => at,
            StartPosition::AfterSequenceNumber(after) => after + 1,
            _ => 0,
        };
        self.partitions[partition.0 as usize] = Fetching { open: true, next, unreleased: 0 };
    }

    fn close(&mut self, partition: PartitionId) {
        self.partitions[partition.0 as usize].open = false;
    }

    fn poll_batch(&mut self, _context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>> {
        let count = self.options.batch.max_events;
        if self.left < count as u64 {
            return Poll::Pending;
        }
        for _ in 0..self.partitions.len() {
            let index = self.turn;
            self.turn = (self.turn + 1) % self.partitions.len();
            let partition = &self.partitions[index];
            if partition.open && partition.unreleased + count <= self.options.unreleased_limit() {
                return Poll::Ready(Ok(SourceEvent::Batch(self.batch(index))));
            }
        }
        // Only a release can change this, and whoever releases polls again.
        Poll::Pending
    }

    fn release(&mut self, batch: EventBatch) {
        let partition = &mut self.partitions[batch.partition().0 as usize];
        partition.unreleased = partition.unreleased.saturating_sub(batch.len());
        self.pool.give(batch);
    }
}

impl NullSink {
    /// A sink, and the count of what it has accepted.
    #[must_use]
    pub fn new(destinations: u32) -> (Self, Arc<Accepted>) {
        let accepted = Arc::<Accepted>::default();
        let sink =
            Self { destinations, output: Vec::new(), outcomes: Vec::new(), accepted: Arc::clone(&accepted) };
        (sink, accepted)
    }
}

impl Accepted {
    /// How many events have been accepted.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Waits until at least so many events have been accepted.
    pub async fn at_least(&self, events: u64) {
        while self.events() < events {
            self.changed.notified().await;
        }
    }
}

impl Sink for NullSink {
    fn takes(&self, _encoding: Encoding) -> bool {
        true
    }

    fn destinations(&self) -> u32 {
        self.destinations
    }

    fn max_batch_bytes(&self, _destination: u32) -> usize {
        1 << 20
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        message_len
    }

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        Poll::Ready(Ok(()))
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        for message in outgoing.messages() {
            self.output.extend_from_slice(message.as_ref());
        }
        let events = self.accepted.events.load(Ordering::Relaxed) + outgoing.events().len() as u64;
        self.accepted.events.store(events, Ordering::Relaxed);
        self.outcomes.push(SendOutcome { token, result: Ok(()) });
        Ok(())
    }

    fn poll_outcomes(
        &mut self,
        _context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        self.output.clear();
        if self.outcomes.is_empty() {
            return Poll::Pending;
        }
        outcomes.append(&mut self.outcomes);
        self.accepted.changed.notify_one();
        Poll::Ready(Ok(()))
    }
}
