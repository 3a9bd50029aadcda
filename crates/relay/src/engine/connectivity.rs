//! What is wrong at either end, at the store or with the claims: what ends the relay, what is waited for, and how a partition
//! comes back.
//!
//! An error that trying again can't change ends the relay: a right that is missing, a hub or consumer group that was never
//! there, a partition that does not exist. Sources and sinks know what had been there before, and call its absence
//! retryable; so does the sink's side here, whose links were all attached when the relay began.

use std::time::{Duration, Instant, SystemTime};

use connect::event::PartitionId;
use connect::retry::{RetryMode, RetryPolicy};
use connect::sink::{ErrorClass, SendError, SinkError};
use connect::source::SourceError;

use super::partition::{Completes, Partition, State};
use super::{Relay, RelayError, unreadable};
use crate::health::troubles::{Cause, News};
use crate::health::{Health, LastError, PartitionProgress, Partitions, Place, Position, Reason};
use crate::metrics::{Closing, Loss};

impl Relay {
    /// The service has closed a partition, or would not open it.
    pub(super) fn close_by_service(&mut self, partition: PartitionId, error: SourceError) {
        self.metrics.closed_partitions += 1;
        if matches!(error.class, ErrorClass::Throttled { .. }) {
            self.metrics.throttled_partitions += 1;
        }
        if self.source.settles() {
            // It makes its links again by itself; one that cannot has nothing more to say.
            self.fail_source(error);
            return;
        }
        let index = self.indices.get(&partition).copied();
        if index.is_some_and(|index| self.position_refused(index, &error)) {
            return;
        }
        // An event that can't be read is one event; the partition is there.
        if error.class == ErrorClass::Fatal && error.condition != DECODE_ERROR {
            self.fail(error.into());
            return;
        }
        if self.sharing.is_some() && error.is_stolen() {
            self.lose(partition, Loss::Taken, &error);
        } else if let Some(index) = index {
            self.stop_partition(index, Closing::Service, &error);
        }
    }

    /// A send was refused, or came to nothing.
    #[cold]
    pub(super) fn note_refusal(&mut self, sink: u32, error: &SendError) {
        self.troubles.occurs(Place::Sink, error, self.now);
        // Where each message is settled, a destination that is gone would cost all of them a delivery, again and again, until
        // they are dead letters.
        let is_lasting = match error.condition.as_str() {
            UNAUTHORIZED => true,
            NOT_FOUND | ENTITY_DISABLED => self.source.settles(),
            _ => false,
        };
        if error.class == ErrorClass::Fatal && is_lasting {
            let SendError { condition, description, .. } = error.clone();
            self.fail(RelayError::Sink {
                index: sink as usize,
                source: SinkError { condition, description },
            });
        }
    }

    /// A partition has stopped for this reason. Returns how long it rests.
    pub(super) fn note_stop(&mut self, index: usize, closing: Closing, cause: &dyn Cause) -> Duration {
        let now = self.now;
        let partition = &mut self.partitions[index];
        tracing::debug!(partition = partition.id.0, %cause, "the partition stops");
        let place = match closing {
            Closing::Service => Place::Source,
            // The source is there, and may be read as far as it goes.
            Closing::Batch if cause.condition() == unreadable::CONDITION => Place::Relay,
            Closing::Batch => Place::Sink,
            Closing::Checkpoint => Place::Checkpoints,
            Closing::Loss | Closing::Fence => Place::Ownership,
            Closing::Stop => Place::Relay,
        };
        if place == Place::Source && self.source.outage().is_some() {
            // The connection is made again with delays of its own, and told of as one.
            return self.options.restart_after;
        }
        self.troubles.holds(place, partition.id, cause, now);
        partition.rests = partition.rests.saturating_add(1);
        let policy = RetryPolicy {
            attempts: u32::MAX,
            mode: RetryMode::Exponential,
            delay: self.options.restart_after,
            max_delay: self.options.restart_after.max(REST_MAX),
            jitter: match partition.rests {
                1 => 0.0,
                _ => REST_JITTER,
            },
            seed: self.options.seed,
            try_timeout: Duration::ZERO,
        };
        policy.delay_after(partition.rests, u64::from(partition.id.0)).unwrap_or(self.options.restart_after)
    }

    /// Batches of a partition come to their end again.
    #[cold]
    pub(super) fn note_progress(&mut self, index: usize) {
        let partition = &mut self.partitions[index];
        partition.rests = 0;
        for place in [Place::Sink, Place::Relay] {
            self.troubles.heals(place, partition.id, self.now);
        }
    }

    /// Looks at both ends, and tells the log what has changed.
    pub(super) fn poll_health(&mut self) {
        let now = self.now;
        let source = self.source.outage().map(|error| error as &dyn Cause);
        self.troubles.outage(Place::Source, source, now);
        let sink = self.outlets.outage().map(|error| error as &dyn Cause);
        self.troubles.outage(Place::Sink, sink, now);
        if self.source.added_partitions() > self.uncarried {
            self.note_growth();
        }
        if self.troubles.is_empty() {
            return;
        }
        self.heal_attached();
        for news in self.troubles.news(now) {
            log(&news);
        }
    }

    /// The source has more partitions than it had when the relay was made, whose partitions do not change.
    #[cold]
    fn note_growth(&mut self) {
        self.uncarried = self.source.added_partitions();
        self.grown_at = self.now;
        let added = self.added_partitions();
        tracing::warn!(partitions = %Partitions(&added), "partitions were added to the source: {RESTART}");
    }

    /// Those that were added to the source, which numbers them in the order in which they came.
    fn added_partitions(&self) -> Vec<PartitionId> {
        let first = self.partitions.iter().map(|partition| partition.id.0 + 1).max().unwrap_or(0);
        (first..first.saturating_add(self.uncarried)).map(PartitionId).collect()
    }

    /// What the service had closed is well as soon as it is attached again.
    fn heal_attached(&mut self) {
        for partition in self.troubles.held(Place::Source) {
            let index = self.indices[&partition];
            if self.partitions[index].state.takes_batches() && self.source.is_attached(partition) {
                self.partitions[index].rests = 0;
                self.troubles.heals(Place::Source, partition, self.now);
            }
        }
    }

    /// How the relay is, for who asked.
    pub(super) fn health(&self) -> Health {
        let last_errors = self.troubles.last_errors().iter();
        Health {
            source_connected: self.source.outage().is_none(),
            sink_connected: self.outlets.outage().is_none(),
            reasons: self.reasons(),
            last_errors: last_errors
                .map(|(place, class, condition, at)| LastError {
                    place: *place,
                    class: *class,
                    condition: condition.clone(),
                    at: self.wall(*at),
                })
                .collect(),
            last_checkpoint: self.metrics.last_checkpoint_at.map(|at| self.wall(at)),
            partitions: self
                .partitions
                .iter()
                .filter(|partition| partition.completion == Completes::ByCheckpoint)
                .filter(|partition| partition.state != State::Unowned)
                .map(|partition| self.progress_of(partition))
                .collect(),
            // The handles know more of that.
            lags: Vec::new(),
        }
    }

    /// What the clock on the wall showed at that time.
    fn wall(&self, at: Instant) -> SystemTime {
        self.store.now() - self.now.saturating_duration_since(at)
    }

    pub(super) fn reasons(&self) -> Vec<Reason> {
        let mut reasons = self.troubles.reasons(self.now);
        if self.uncarried > 0 {
            reasons.push(Reason {
                place: Place::Source,
                condition: "partitions-added".to_owned(),
                description: format!("partitions were added to it: {RESTART}"),
                lasted: self.now.saturating_duration_since(self.grown_at),
                partitions: self.added_partitions(),
            });
        }
        reasons.extend(self.standstill());
        let mut own = |place, condition: &str, description: &str, partitions| {
            reasons.push(Reason {
                place,
                condition: condition.to_owned(),
                description: description.to_owned(),
                lasted: self.now.saturating_duration_since(self.began),
                partitions,
            });
        };
        if self.stop_by.is_some() {
            let description = match &self.failure {
                None => "it stops".to_owned(),
                Some(error) => format!("it stops: {error}"),
            };
            own(Place::Relay, "stopping", &description, Vec::new());
        } else if self.sharing.as_ref().is_some_and(|sharing| !sharing.has_begun()) {
            let description = "the claims of other relays are being read";
            own(Place::Ownership, "starting", description, Vec::new());
        } else {
            let opening = self.opening();
            if !opening.is_empty() {
                let description = "partitions are being opened";
                own(Place::Source, "opening", description, opening);
            }
        }
        reasons
    }

    /// Partitions that are ours and not open, without anything being known to be wrong.
    fn opening(&self) -> Vec<PartitionId> {
        if self.source.outage().is_some() {
            return Vec::new();
        }
        let places = [Place::Source, Place::Sink, Place::Checkpoints, Place::Relay];
        let held = places.map(|place| self.troubles.held(place));
        let is_open = |partition: &Partition| {
            matches!(partition.state, State::Unowned | State::Ending | State::Closed)
                || partition.state.takes_batches() && self.source.is_attached(partition.id)
        };
        self.partitions
            .iter()
            .filter(|partition| !is_open(partition))
            .map(|partition| partition.id)
            .filter(|id| !held.iter().any(|held| held.contains(id)))
            .collect()
    }

    pub(super) fn progress_of(&self, partition: &Partition) -> PartitionProgress {
        let under_way = partition.in_flight.first();
        let oldest = match under_way {
            Some(&slot) => self.slots.in_flight(slot).oldest(),
            None => partition.parked.front().and_then(|parked| parked.batch.events().first()),
        };
        let position = match partition.watermark.position() {
            Some(position) => Position::After(position.sequence_number),
            None => partition.placed,
        };
        // Where nothing is held, numbers without an event are done that lie behind the last one.
        let next = match (oldest, partition.state) {
            (None, State::Open) => self.source.next_number(partition.id),
            _ => None,
        };
        PartitionProgress {
            partition: partition.id,
            position: match (position, next) {
                (Position::After(number), Some(next)) => Position::After(number.max(next - 1)),
                (Position::Beginning | Position::Unknown, Some(next @ 1..)) => Position::After(next - 1),
                (Position::Unknown, Some(_)) => Position::Beginning,
                (position, _) => position,
            },
            oldest_held: oldest.map(|event| event.enqueued_time),
            moved: partition.moved_at.map(|at| self.wall(at)),
        }
    }
}

fn log(news: &News) {
    match news {
        News::Began { place, condition, text, partitions } => {
            let partitions = (!partitions.is_empty()).then_some(partitions);
            tracing::warn!(%place, condition, partitions, "{text}");
        }
        News::Over { place, condition, lasted, count } => {
            tracing::info!(%place, condition, count, "over after {:.1} s", lasted.as_secs_f64());
        }
    }
}

/// What becomes of partitions that were added.
const RESTART: &str = "they are carried when the relay is started again";

/// No partition that fails again and again rests for longer, unless the options have it rest that long at once.
const REST_MAX: Duration = Duration::from_secs(30);

/// By what part of itself a rest may be shortened: partitions that failed together do not come back together.
const REST_JITTER: f64 = 0.2;

/// The right is missing, or the key is wrong.
const UNAUTHORIZED: &str = "amqp:unauthorized-access";

/// The entity is not there.
const NOT_FOUND: &str = "amqp:not-found";

/// The entity was switched off.
const ENTITY_DISABLED: &str = "com.microsoft:entity-disabled";

/// An event can't be read.
const DECODE_ERROR: &str = "amqp:decode-error";
