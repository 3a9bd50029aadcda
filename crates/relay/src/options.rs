//! What can be chosen about a relay.

use std::path::PathBuf;
use std::time::Duration;

use connect::checkpoint::ConsumerGroup;
use connect::retry::RetryPolicy;
use connect::source::StartPosition;
use serde::{Deserialize, Serialize};

use crate::ownership::OwnershipOptions;
use crate::route::Route;

/// The choices of one relay. How its source batches and prefetches is chosen where the source is made.
#[derive(Clone, Debug)]
pub struct RelayOptions {
    /// Whose progress is kept in the checkpoint store.
    pub group: ConsumerGroup,
    /// How an event finds its destination.
    pub route: Route,
    /// Events go to the first this many destinations of each sink, or to all that it has if those are fewer; at least 1.
    pub fan_out: u32,
    /// What goes from sink to sink by itself. Of no account for sources that settle.
    pub dispatch_unit: DispatchUnit,
    /// How many events may be in work at once, those of all partitions together: taken up and not yet accepted by every
    /// sink. Where batches are the unit, one is always let in.
    pub events_at_once: usize,
    /// Whether it is found out how many events at once are worth it, up to `events_at_once`. Only where events are the unit.
    pub adapt_events: bool,
    /// In which order a sink gets events, where they are the unit.
    pub order: Order,
    /// How many sinks may have the events of one unit at once; at least 1. What comes later in the list of sinks waits
    /// until those before have accepted the whole unit.
    pub sinks_at_once: usize,
    /// What the random route and the injected failures are drawn from.
    pub seed: u64,
    /// How many sends from one partition to one destination may be under way at once; at least 1. With 1 the events of a
    /// partition reach each destination in order even when a send fails; with more, what was sent after a failed one may
    /// be there first.
    pub in_flight: usize,
    /// Nothing more is taken from the source while this many message bytes are held. One batch is always let in.
    pub max_held_bytes: usize,
    /// When a send is tried again and given up, and how long one try may take; also for writing checkpoints.
    pub retry: RetryPolicy,
    /// The tries of each sink, in their order, but for how long one may take; where it has none, those of `retry`.
    pub sink_retries: Vec<Option<RetryPolicy>>,
    /// When progress is written.
    pub checkpoint: CheckpointPolicy,
    /// Whether the next batch of a partition begins only when the checkpoint that covers those before is written. Only with
    /// [`CheckpointPolicy::EachBatch`].
    pub await_checkpoint: bool,
    /// Where a partition starts that has no checkpoint.
    pub start_position: StartPosition,
    /// What happens when the source no longer has events that were not read yet.
    pub missed_events: MissedEvents,
    /// What becomes of events that a destination refuses for good.
    pub poison_events: PoisonEvents,
    /// The probability, 0 to 1, that a send to a destination fails on purpose instead of being made. The batch counts as
    /// failed then.
    pub failure_ratio: f64,
    /// How long a partition with a failed batch rests before it resumes from its checkpoint; longer and longer, up to 30 s,
    /// while its batches fail one after the other.
    pub restart_after: Duration,
    /// How long a graceful stop waits for what is under way.
    pub stop_timeout: Duration,
    /// How the partitions are shared with other relays; without it all partitions of the source are this relay's alone.
    pub ownership: Option<OwnershipOptions>,
}

/// The choices of a relay whose source settles each message: those of [`RelayOptions`] that have a meaning without
/// checkpoints. How many messages are in work at once is chosen where the source is made.
#[derive(Clone, Debug)]
pub struct SettlingOptions {
    /// How a message finds its destination.
    pub route: Route,
    /// Messages go to the first this many destinations of each sink, or to all that it has if those are fewer; at least 1.
    pub fan_out: u32,
    /// How many sinks may have the messages of one batch at once; at least 1.
    pub sinks_at_once: usize,
    /// What the random route and the injected failures are drawn from.
    pub seed: u64,
    /// When a send is tried again and given up, and how long one try may take. Messages of a send that is given up are
    /// abandoned.
    pub retry: RetryPolicy,
    /// The tries of each sink, as in [`RelayOptions::sink_retries`].
    pub sink_retries: Vec<Option<RetryPolicy>>,
    /// The probability, 0 to 1, that a send fails on purpose instead of being made. Its messages are abandoned then.
    pub failure_ratio: f64,
    /// How long a graceful stop waits for what is under way.
    pub stop_timeout: Duration,
}

/// What goes from sink to sink by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatchUnit {
    /// A batch: what its sinks get is regrouped, several batches may go together, and their order is kept.
    #[default]
    Batch,
    /// An event: it goes to its next sink when one before has accepted it, whatever becomes of the others, and each send has
    /// one event.
    Event,
}

/// In which order a sink gets events that go to it one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// As they are taken up, as long as no send fails.
    #[default]
    None,
    /// Those of a partition one after the other.
    Partition,
    /// Those of a partition that have their partition key in common one after the other. Events without a key have no order.
    Key,
}

/// When progress is written to the checkpoint store. Written as `each-batch` or as `{every: 1 s}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointPolicy {
    /// After every batch. While one checkpoint of a partition is being written, the batches that complete are covered by
    /// the next.
    #[default]
    EachBatch,
    /// At most this often per partition, and when a partition or the relay stops.
    Every(#[serde(with = "units::duration")] Duration),
}

/// What a relay does when events are missing, because retention took them before they were read, or the source has begun to
/// number its events again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissedEvents {
    /// Logs and counts them, and goes on: after the gap, or with the oldest event of the new numbers.
    #[default]
    Report,
    /// Stops in good order with an error. No checkpoint passes the gap.
    Stop,
}

/// What a relay does with an event that a destination refuses for good, because it is too large for it or malformed in its
/// eyes. In every case the event is logged with its place, and counted. Sources that settle abandon such a message, and the
/// service makes it a dead letter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoisonEvents {
    /// Its partition waits, and tries now and then; the others go on.
    #[default]
    Hold,
    /// The relay stops in good order with an error. No checkpoint passes the event.
    Stop,
    /// It is appended to this file, one line of JSON for each, and its partition goes on.
    DeadLetter(PathBuf),
}

impl RelayOptions {
    /// The defaults for a consumer group: everything to one destination, in order.
    #[must_use]
    pub fn new(group: ConsumerGroup) -> Self {
        Self {
            group,
            route: Route::Random,
            fan_out: 1,
            dispatch_unit: DispatchUnit::Batch,
            events_at_once: usize::MAX,
            adapt_events: false,
            order: Order::None,
            sinks_at_once: usize::MAX,
            seed: 0,
            in_flight: 1,
            max_held_bytes: 64 << 20,
            retry: RetryPolicy::default(),
            sink_retries: Vec::new(),
            checkpoint: CheckpointPolicy::EachBatch,
            await_checkpoint: false,
            start_position: StartPosition::Earliest,
            missed_events: MissedEvents::default(),
            poison_events: PoisonEvents::default(),
            failure_ratio: 0.0,
            restart_after: Duration::from_secs(1),
            stop_timeout: Duration::from_secs(10),
            ownership: None,
        }
    }
}

impl RelayOptions {
    /// The tries of a send to one of the sinks.
    pub(crate) fn retry_at(&self, sink: u32) -> &RetryPolicy {
        self.sink_retries.get(sink as usize).and_then(Option::as_ref).unwrap_or(&self.retry)
    }
}

/// The defaults of a relay that keeps no checkpoints, and so needs no consumer group.
impl Default for RelayOptions {
    fn default() -> Self {
        Self::new(ConsumerGroup::new("", "", ""))
    }
}

impl Default for SettlingOptions {
    fn default() -> Self {
        let usual = RelayOptions::default();
        Self {
            route: usual.route,
            fan_out: usual.fan_out,
            sinks_at_once: usual.sinks_at_once,
            seed: usual.seed,
            retry: usual.retry,
            sink_retries: Vec::new(),
            failure_ratio: usual.failure_ratio,
            stop_timeout: usual.stop_timeout,
        }
    }
}

impl From<SettlingOptions> for RelayOptions {
    fn from(options: SettlingOptions) -> Self {
        Self {
            route: options.route,
            fan_out: options.fan_out,
            sinks_at_once: options.sinks_at_once,
            seed: options.seed,
            retry: options.retry,
            sink_retries: options.sink_retries,
            failure_ratio: options.failure_ratio,
            stop_timeout: options.stop_timeout,
            // The source bounds what it hands over by number, and has to be driven for the locks' sake.
            max_held_bytes: usize::MAX,
            ..Self::default()
        }
    }
}
