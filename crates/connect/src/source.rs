//! Where events come from.
//!
//! A [`Source`] is polled by one thread, owns its connections and never waits. It collects events per partition into
//! batches (by count or by the wait of the oldest, see [`BatchOptions`]) and stops fetching a partition once
//! [`SourceOptions::prefetch`] of its events are out and not yet released: backpressure is credit.

use std::task::{Context, Poll};
use std::time::Duration;

use crate::checkpoint::Checkpoint;
use crate::event::{EnqueuedTime, EventBatch, PartitionId};
use crate::sink::ErrorClass;

/// A stream of event batches from the partitions of one hub, topic or the like.
///
/// Contract between a source and the one who polls it:
/// * Batches of a partition are handed over in order, without gap or repetition since `open`.
/// * Every batch handed over is given back with [`release`](Self::release), in any order, and before its partition is
///   opened again. Releasing gives the credit back; the next [`poll_batch`](Self::poll_batch) tells the service.
/// * `poll_batch` is also what drives connections, so it is polled after every `open`, `close` and `release`, and keeps
///   being polled while nothing is open.
pub trait Source {
    /// The partitions that can be opened.
    fn partitions(&self) -> Vec<PartitionId>;

    /// Starts to fetch a partition. A partition that cannot be opened is reported as
    /// [`SourceEvent::PartitionClosed`].
    fn open(&mut self, partition: PartitionId, position: StartPosition);

    /// Stops to fetch a partition. None of its batches is handed over after this call, those not yet handed over are
    /// dropped, and no [`SourceEvent::PartitionClosed`] follows. Closing what is not open does nothing.
    fn close(&mut self, partition: PartitionId);

    /// The next batch or change of a partition. `Pending` registers the task to be woken.
    ///
    /// # Errors
    /// When the source as a whole cannot go on (wrong credentials, the hub is gone); the failure of a partition or of a
    /// connection that can be made again is not an error but [`SourceEvent::PartitionClosed`].
    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>>;

    /// The events of a batch are done with: gives their credit back and recycles the batch.
    fn release(&mut self, batch: EventBatch);

    /// Says goodbye to the service, which does not take long whatever the service does. A source that is just dropped is
    /// gone as well; the service takes it for one that failed.
    fn shut_down(self) -> impl Future<Output = ()>
    where
        Self: Sized,
    {
        std::future::ready(())
    }
}

/// What a source has to say.
#[derive(Debug)]
pub enum SourceEvent {
    /// The next events of a partition; at least one.
    Batch(EventBatch),
    /// A partition ended without having been asked to: its link was detached, stolen, or its connection failed.
    PartitionClosed {
        /// The partition, which may be opened again.
        partition: PartitionId,
        /// Why.
        error: SourceError,
    },
}

/// Where to start in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartPosition {
    /// At the oldest event that is retained.
    Earliest,
    /// After the newest event there is.
    Latest,
    /// At the event of this sequence number.
    AtSequenceNumber(i64),
    /// At the event that follows this sequence number.
    AfterSequenceNumber(i64),
    /// At the event that follows this offset, an opaque text of the service.
    AfterOffset(String),
    /// At the first event that was appended at this instant or later.
    AtEnqueuedTime(EnqueuedTime),
}

/// How events become batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// A batch with this many events is complete; at least 1.
    pub max_events: usize,
    /// A batch whose oldest event has waited this long is handed over as it is; zero hands over whatever has arrived
    /// at once.
    pub max_wait: Duration,
}

/// How a source fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceOptions {
    /// How events become batches.
    pub batch: BatchOptions,
    /// How many events of one partition may be fetched and not yet released. Less than a full batch is raised to one,
    /// see [`unreleased_limit`](Self::unreleased_limit).
    pub prefetch: usize,
}

/// Why a source, or a partition of it, ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{condition}: {description}")]
pub struct SourceError {
    /// Whether trying again can help.
    pub class: ErrorClass,
    /// The service's name for what happened, such as `amqp:link:stolen`.
    pub condition: String,
    /// The service's words for a person.
    pub description: String,
}

impl StartPosition {
    /// The position right after a checkpoint, or nothing if the checkpoint holds none. The offset goes first where there
    /// is one: services find it faster.
    #[must_use]
    pub fn after_checkpoint(checkpoint: &Checkpoint) -> Option<Self> {
        match (&checkpoint.offset, checkpoint.sequence_number) {
            (Some(offset), _) => Some(Self::AfterOffset(offset.clone())),
            (None, Some(sequence_number)) => Some(Self::AfterSequenceNumber(sequence_number)),
            (None, None) => None,
        }
    }
}

impl SourceError {
    /// Whether another receiver has taken the partition. To open it again takes it back.
    #[must_use]
    pub fn is_stolen(&self) -> bool {
        self.condition == LINK_STOLEN
    }
}

impl SourceOptions {
    /// How many events of one partition a source may hold or have handed over without getting them released: the
    /// prefetch count, but never less than one full batch, which could otherwise only end by its wait.
    #[must_use]
    pub fn unreleased_limit(&self) -> usize {
        self.prefetch.max(self.batch.max_events)
    }
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            max_events: 128,
            max_wait: Duration::from_millis(10),
        }
    }
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            batch: BatchOptions::default(),
            prefetch: 300,
        }
    }
}

/// The condition under which a link is detached for another receiver's sake.
const LINK_STOLEN: &str = "amqp:link:stolen";
