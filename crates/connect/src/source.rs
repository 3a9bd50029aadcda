//! Where events come from.
//!
//! A [`Source`] is polled by one thread, owns its connections and never waits. It collects events per partition into
//! batches (by count or by the wait of the oldest, see [`BatchOptions`]) and stops fetching a partition once
//! [`SourceOptions::prefetch`] of its events are out and not yet released: backpressure is credit.
//!
//! A service learns in one of two ways that an event is done with, and a source is of one kind for good ([`AnySource`]):
//!
//! | | [`Source`]: by checkpoint | [`SettlingSource`]: by settlement |
//! |---|---|---|
//! | the service | keeps events whatever is read | locks a message for its receiver |
//! | done is | a position, kept elsewhere | said of each message, to the service |
//! | a partition opens | at a [`StartPosition`] | at the front of the queue |
//! | what can be said of an event | nothing | a [`Settlement`] |
//! | a failure | goes back to the position | gives that one message back |
//!
//! Both traits are object-safe, and all calls are per batch, so that an engine is compiled once for all sources.

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::checkpoint::Checkpoint;
use crate::event::{Encoding, EnqueuedTime, EventBatch, PartitionId};
use crate::kafka::ClientStatistics;
use crate::service::ServiceError;
use crate::sink::ErrorClass;

/// A stream of event batches from the partitions of one hub, topic or the like.
///
/// Contract between a source and the one who polls it:
/// * Batches of a partition are handed over in order, without gap or repetition since `open`.
/// * Every batch handed over is given back with [`release`](Self::release), in any order, and before its partition is
///   opened again. Releasing gives the credit back; the next [`poll_batch`](Self::poll_batch) tells the service.
/// * `poll_batch` is also what drives connections, so it is polled after every `open`, `close` and `release`, and keeps
///   being polled while nothing is open.
pub trait Source: fmt::Debug + Send {
    /// The partitions that can be opened.
    fn partitions(&self) -> Vec<PartitionId>;

    /// How the messages of all its batches are encoded.
    fn encoding(&self) -> Encoding;

    /// Whether the sequence numbers of a partition have no holes, so that one that is left out is an event that was lost.
    /// A source of a log that is compacted says no. Means nothing for sources that settle.
    fn has_contiguous_numbers(&self) -> bool {
        true
    }

    /// Starts to fetch a partition. A partition that cannot be opened is reported as
    /// [`SourceEvent::PartitionClosed`]. A source that settles has no positions: the service delivers from the front.
    fn open(&mut self, partition: PartitionId, start: StartPosition);

    /// Stops to fetch a partition. None of its batches is handed over after this call, those not yet handed over are
    /// dropped, and no [`SourceEvent::PartitionClosed`] follows. Closing what is not open does nothing.
    ///
    /// A source that settles gives back to the service what it drops, and goes on to take settlements of what it has
    /// handed over.
    fn close(&mut self, partition: PartitionId);

    /// Says whether batches of a partition would only wait for now. While they would, none is handed over because of its
    /// age: the open batch goes on growing up to its full size. Once they would not, a batch that has waited long enough
    /// is handed over by the next [`poll_batch`](Self::poll_batch). Opening a partition ends the hold.
    fn hold(&mut self, _partition: PartitionId, _held: bool) {}

    /// Whether every open partition has as many unreleased events as it may have, so that only a release brings more.
    fn is_exhausted(&self) -> bool {
        false
    }

    /// The next batch or change of a partition. `Pending` registers the task to be woken.
    ///
    /// # Errors
    /// When the source as a whole cannot go on (wrong credentials, the hub is gone); the failure of a partition or of a
    /// connection that can be made again is not an error but [`SourceEvent::PartitionClosed`].
    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>>;

    /// The events of a batch are done with: gives their credit back and recycles the batch. A source that settles gives
    /// credit back when a settlement is confirmed, and here the memory alone.
    fn release(&mut self, batch: EventBatch);

    /// Why the source as a whole can't receive at the moment, if it can't: there is no connection, and it is being made
    /// again. Never a reason that concerns single partitions, which close with their error.
    #[inline]
    fn outage(&self) -> Option<&ServiceError> {
        None
    }

    /// Whether the service delivers, or would, what is in an open partition.
    fn is_attached(&self, partition: PartitionId) -> bool {
        let _ = partition;
        true
    }

    /// The number below which everything of an open partition has been handed over and released, whether or not an event has it; none
    /// where something has not been, or where the source knows of nothing but events.
    fn next_number(&self, partition: PartitionId) -> Option<i64> {
        let _ = partition;
        None
    }

    /// Whether [`next_number`](Self::next_number) accounts for numbers that belong to no event, so that everything of a log is done once
    /// it is at the end of the log.
    fn accounts_for_all_numbers(&self) -> bool {
        false
    }

    /// How many partitions the log has got since the source was made: behind its own, and none of them.
    fn added_partitions(&self) -> u32 {
        0
    }

    /// Identity of what the partitions are of, which a hub or topic that was deleted and created again does not share with the one before.
    /// `None` if the source knows of none. It changes while partitions are closed only: those that were open are closed first.
    fn log_id(&self) -> Option<&str> {
        None
    }

    /// How often the service has asked to be left alone for a while, since a quota is used up. A partition that it closes for that
    /// reason is not among these.
    fn slowed_down(&self) -> u64 {
        0
    }

    /// What the client's library has measured of its own work, if it does.
    fn client_statistics(&self) -> Option<ClientStatistics> {
        None
    }

    /// Says goodbye to the service, which does not take long whatever the service does. A source that is just dropped is
    /// gone as well; the service takes it for one that failed.
    fn shut_down(self: Box<Self>) -> ShutDown {
        Box::pin(std::future::ready(()))
    }
}

/// A source whose service has locked what it delivered, until it learns what is to become of it.
pub trait SettlingSource: Source {
    /// Says what is to become of some events of a batch that was handed over and not yet released, by their indices. Each
    /// event is settled once. The next [`poll_batch`](Source::poll_batch) tells the service, in ranges; what the service
    /// made of it comes as [`SourceEvent::Settled`].
    fn settle(&mut self, batch: &EventBatch, events: &[u32], settlement: Settlement);

    /// Whether everything that was settled or given back is confirmed by the service, or given up, and nothing more can
    /// come of what was closed.
    fn is_settled(&self) -> bool;
}

/// A source of either kind.
#[derive(Debug)]
pub enum AnySource {
    /// The service keeps its events, and the user how far it got.
    ByCheckpoint(Box<dyn Source>),
    /// Each event is settled.
    BySettlement(Box<dyn SettlingSource>),
}

/// The end of a source or sink, to be awaited.
pub type ShutDown = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What is to become of a message that was received under a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Done: the service deletes it.
    Complete,
    /// Failed: the service delivers it again, and counts how often.
    Abandon,
    /// Not begun: the service delivers it again, as if it had not been delivered.
    Release,
    /// Can never be done: the service puts it aside, into the dead-letter queue.
    DeadLetter,
}

/// What a source has to say.
#[derive(Debug)]
pub enum SourceEvent {
    /// The next events of a partition; at least one.
    Batch(EventBatch),
    /// A partition ended without having been asked to: its link was detached, stolen, or its connection failed.
    /// Sources that settle make their links again by themselves instead.
    PartitionClosed {
        /// The partition, which may be opened again.
        partition: PartitionId,
        /// Why.
        error: SourceError,
    },
    /// The service has answered settlements, or never will.
    Settled(Settled),
    /// Locks of messages that are in work for long were renewed, or could not be.
    LocksRenewed {
        /// Messages that are locked for longer now.
        renewed: u32,
        /// Messages whose lock will expire, or has.
        failed: u32,
    },
}

/// What became of settlements of messages that followed one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// What was to become of them.
    pub settlement: Settlement,
    /// How many they are.
    pub messages: u32,
    /// What the service made of it.
    pub result: SettlementResult,
    /// From telling the service to its answer.
    pub elapsed: Duration,
}

/// What a service made of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettlementResult {
    /// It is as was said.
    Confirmed,
    /// The service has put the messages into the dead-letter queue instead.
    DeadLettered,
    /// The lock had expired before: the messages come again, or were settled by another receiver.
    LockLost,
    /// There was no answer, or a refusal for another reason: the messages may come again.
    Failed,
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

impl AnySource {
    /// A source whose progress is kept as checkpoints.
    #[must_use]
    pub fn by_checkpoint(source: impl Source + 'static) -> Self {
        Self::ByCheckpoint(Box::new(source))
    }

    /// A source whose events are settled.
    #[must_use]
    pub fn by_settlement(source: impl SettlingSource + 'static) -> Self {
        Self::BySettlement(Box::new(source))
    }

    /// Whether each event is to be settled.
    #[inline]
    #[must_use]
    pub const fn settles(&self) -> bool {
        matches!(self, Self::BySettlement(_))
    }

    /// Settles events of a source that settles, see [`SettlingSource::settle`]; of any other there is nothing to be said.
    #[inline]
    pub fn settle(&mut self, batch: &EventBatch, events: &[u32], settlement: Settlement) {
        if let Self::BySettlement(source) = self {
            source.settle(batch, events, settlement);
        }
    }

    /// Whether no settlement is under way.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        match self {
            Self::ByCheckpoint(_) => true,
            Self::BySettlement(source) => source.is_settled(),
        }
    }

    /// Says goodbye to the service, see [`Source::shut_down`].
    #[must_use]
    pub fn shut_down(self) -> ShutDown {
        match self {
            Self::ByCheckpoint(source) => source.shut_down(),
            Self::BySettlement(source) => source.shut_down(),
        }
    }
}

impl Deref for AnySource {
    type Target = dyn Source;

    #[inline]
    fn deref(&self) -> &(dyn Source + 'static) {
        match self {
            Self::ByCheckpoint(source) => &**source,
            Self::BySettlement(source) => &**source,
        }
    }
}

impl DerefMut for AnySource {
    #[inline]
    fn deref_mut(&mut self) -> &mut (dyn Source + 'static) {
        match self {
            Self::ByCheckpoint(source) => &mut **source,
            Self::BySettlement(source) => &mut **source,
        }
    }
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
    /// Whether the service refused where to start: the partition has no such offset or sequence number, or none yet.
    #[must_use]
    pub fn is_position_refused(&self) -> bool {
        self.condition == ARGUMENT_ERROR || self.condition == OFFSET_OUT_OF_RANGE
    }

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
        Self { max_events: 128, max_wait: Duration::from_millis(10) }
    }
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self { batch: BatchOptions::default(), prefetch: 300 }
    }
}

/// The condition under which a link is refused whose filter asks for what lies beyond the end.
const ARGUMENT_ERROR: &str = "com.microsoft:argument-error";

/// The error under which a broker of Kafka refuses the same.
pub(crate) const OFFSET_OUT_OF_RANGE: &str = "OFFSET_OUT_OF_RANGE";

/// The condition under which a link is detached for another receiver's sake.
const LINK_STOLEN: &str = "amqp:link:stolen";
