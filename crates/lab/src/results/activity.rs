//! What went on inside the relay during the measured phase, as it counted itself.
//!
//! Only our own relay tells this. A system that is measured from the outside has none of it, and nothing is made up for
//! it. Of several instances it is the sum.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use relay::metrics::Metrics;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LatencyDistribution;
use crate::schema::by_name;

/// The counts of all relays of a trial together, or of all trials of a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelayActivity {
    /// How many relays were counted, over all trials.
    pub instances: u32,
    /// How long they were watched, each for itself: what [`RelayActivity::waiting_us`] is a part of.
    pub watched_us: u64,
    /// Batches of the source.
    pub batches: BatchCounts,
    /// Sends to the destination.
    pub sends: SendCounts,
    /// Accepted sends to each of several destinations, in the order of the pipeline's; absent where there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sinks: Vec<SinkSends>,
    /// Writings of checkpoints.
    pub checkpoints: CheckpointCounts,
    /// What the events took in all.
    #[serde(default, skip_serializing_if = "Stopwatches::is_empty")]
    pub stopwatches: Stopwatches,
    /// Partitions that were opened, by reason.
    pub opened: OpeningCounts,
    /// Partitions that stopped accepting batches, by reason.
    pub closed: ClosingCounts,
    /// Partitions won and lost; absent where they are not shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ownership: Option<OwnershipActivity>,
    /// How long the relays' loops slept, by what they waited for. Connections may have worked meanwhile.
    pub waiting_us: WaitingTimes,
    /// What happened in the trials as a whole: deliveries count the warm-up and the end, too.
    pub whole_trial: WholeTrial,
    /// Distributions of sizes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "by_name::<Size, SizeSummary>")]
    pub sizes: BTreeMap<Size, SizeSummary>,
}

/// Accepted sends to one of several destinations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SinkSends {
    /// How many there were.
    pub accepted: u64,
    /// What they took together, each from being handed over until it was accepted.
    pub total_us: u64,
}

/// Ownership of partitions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnershipActivity {
    /// How often claims are renewed.
    pub renew_us: u64,
    /// When a claim that is not renewed expires.
    pub expire_us: u64,
    /// Rounds and what failed in them.
    pub rounds: RoundCounts,
    /// Partitions claimed, by their state before the claim.
    pub gained: GainCounts,
    /// Partitions lost, by reason.
    pub lost: LossCounts,
    /// How often the consumer group of Kafka changed whose members the relays were, as the one of them counted it that was there
    /// for most; absent where partitions are claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebalances: Option<u64>,
}

/// What is measured in units of something rather than in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// Events per batch received.
    BatchEvents,
    /// Message bytes per batch received.
    BatchBytes,
    /// Events per accepted send.
    SendEvents,
    /// Message bytes per accepted send.
    SendBytes,
}

/// The figures of one distribution of sizes, exact up to 255 and within 1 % above.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeSummary {
    /// How many batches or sends there were.
    pub count: u64,
    /// The smallest.
    pub min: u64,
    /// The arithmetic mean.
    #[schemars(range(min = 0.0))]
    pub mean: f64,
    /// The median, from 2 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<u64>,
    /// From 20 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<u64>,
    /// From 100 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<u64>,
    /// The largest.
    pub max: u64,
}

/// Counters that grow: what the results call each, and what of the relay's metrics it is.
macro_rules! counts {
    ($($(#[$about:meta])* $name:ident($metrics:ident) { $($(#[$what:meta])* $field:ident: $value:expr,)* })*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$what])* pub $field: u64,)*
        }

        impl $name {
            /// What a relay has counted by now.
            #[must_use]
            pub fn of($metrics: &Metrics) -> Self {
                Self { $($field: $value,)* }
            }

            /// How much each has grown since `began`.
            #[must_use]
            pub const fn since(self, began: Self) -> Self {
                Self { $($field: self.$field.saturating_sub(began.$field),)* }
            }

            /// These and those of another together.
            #[must_use]
            pub const fn plus(self, other: Self) -> Self {
                Self { $($field: self.$field.saturating_add(other.$field),)* }
            }

            /// Each with the name that the results give it.
            #[must_use]
            pub const fn named(self) -> [(&'static str, u64); [$(stringify!($field)),*].len()] {
                [$((stringify!($field), self.$field)),*]
            }
        }
    )*};
}

counts! {
    /// Batches of the source.
    BatchCounts(metrics) {
        /// Taken in.
        received: metrics.received_batches,
        /// Every event of them was accepted.
        completed: metrics.completed_batches,
        /// Given up: their partition stopped, and resumed from its checkpoint.
        failed: metrics.failed_batches,
    }

    /// Sends to the destination, each try by itself.
    SendCounts(metrics) {
        /// Handed to the sink.
        made: metrics.sends,
        /// Ended with an error, whatever it was.
        failed: metrics.failed_sends,
        /// Failed because the service asked to slow down.
        throttled: metrics.throttled_sends,
        /// Failed because there was no outcome in time.
        timed_out: metrics.timed_out_sends,
        /// Made again after a failure.
        repeated: metrics.retries,
        /// Made in parts, because the destination takes no more at once.
        split: metrics.split_sends,
        /// Not made, but failed on purpose.
        failed_on_purpose: metrics.injected_failures,
    }

    /// Writings of checkpoints.
    CheckpointCounts(metrics) {
        /// Done.
        written: metrics.checkpoints,
        /// Could not be done.
        failed: metrics.failed_checkpoints,
        /// Refused, because another relay had written.
        refused: metrics.refused_checkpoints,
    }

    /// What the events took in all. Where the next ones wait for the checkpoint of those before, these add up to the time that
    /// passed.
    Stopwatches(metrics) {
        /// Events that are done.
        events: metrics.completed_events,
        /// Microseconds from the start of each batch until the acceptance of its last event.
        batches_us: total_us(&metrics.process_us),
        /// Microseconds of all writings of checkpoints.
        checkpoints_us: total_us(&metrics.checkpoint_us),
    }

    /// Partitions that were opened.
    OpeningCounts(metrics) {
        /// When the relay began.
        start: metrics.opened_at_start,
        /// After a rest.
        rest: metrics.opened_after_rest,
        /// After they had been claimed.
        claim: metrics.opened_after_claim,
    }

    /// Partitions that ceased to take batches.
    ClosingCounts(metrics) {
        /// A batch had failed.
        batch: metrics.closed_after_batch,
        /// The checkpoint could not be written.
        checkpoint: metrics.closed_after_checkpoint,
        /// The service had closed them.
        service: metrics.closed_by_service,
        /// They were lost to another relay.
        loss: metrics.closed_after_loss,
        /// Their last owner had written once more when they were opened.
        fence: metrics.closed_by_fence,
        /// The relay stopped.
        stop: metrics.closed_at_stop,
    }

    /// Rounds of looking at all claims.
    RoundCounts(metrics) {
        /// Came to their end.
        completed: metrics.ownership_cycles,
        /// Claims that could not be renewed.
        failed_renewals: metrics.failed_renewals,
        /// Partitions released.
        returned: metrics.returned_partitions,
    }

    /// Partitions claimed.
    GainCounts(metrics) {
        /// Nobody owned them.
        free: metrics.claimed_free_partitions,
        /// Their owner had not renewed its claim.
        expired: metrics.claimed_expired_partitions,
        /// They bore the relay's name already.
        own: metrics.claimed_own_partitions,
        /// Taken from a relay with more than its share.
        stolen: metrics.stolen_partitions,
        /// The consumer group has given them.
        #[serde(default)]
        assigned: metrics.claimed_assigned_partitions,
    }

    /// Partitions lost.
    LossCounts(metrics) {
        /// Another relay has taken them.
        taken: metrics.taken_partitions,
        /// They were not renewed in time.
        expired: metrics.expired_partitions,
    }

    /// Microseconds of sleep.
    WaitingTimes(metrics) {
        /// No batch had come.
        source: metrics.waited_for_source_ns / 1_000,
        /// Every open partition had as many batches under way as it may.
        sends: metrics.waited_for_sends_ns / 1_000,
        /// The sink was busy.
        destination: metrics.waited_for_destination_ns / 1_000,
        /// As many bytes were held as may be.
        memory: metrics.waited_for_memory_ns / 1_000,
        /// No partition was open.
        partitions: metrics.waited_for_partitions_ns / 1_000,
    }

    /// What happened in trials as a whole.
    WholeTrial(metrics) {
        /// Batches that failed.
        failed_batches: metrics.failed_batches,
        /// Partitions that were opened again after a rest.
        restarts: metrics.opened_after_rest,
        /// Partitions lost.
        lost_partitions: metrics.lost_partitions,
        /// Partitions that were opened, for every reason.
        #[serde(default)]
        opened_partitions: metrics.opened_partitions,
        /// Partitions that ceased to take batches, for every reason.
        #[serde(default)]
        closed_partitions: metrics.opened_partitions - metrics.taking_partitions(),
        /// Partitions claimed.
        #[serde(default)]
        gained_partitions: metrics.claimed_partitions,
        /// Events that the source had already removed when they were due to be read.
        #[serde(default)]
        missed_events: metrics.missed_events,
        /// Partitions whose events the source had begun to number again.
        #[serde(default)]
        restarted_partitions: metrics.restarted_partitions,
        /// Sends made, each try by itself.
        #[serde(default)]
        sends: metrics.sends,
        /// Sends that the destination refused.
        #[serde(default)]
        refused_sends: metrics.failed_sends.saturating_sub(metrics.timed_out_sends),
        /// Refused sends for which the destination asked to slow down.
        #[serde(default)]
        throttled_sends: metrics.throttled_sends,
    }
}

impl RelayActivity {
    /// What one relay has counted so far. Its sizes come with the distributions.
    #[must_use]
    pub fn of(metrics: &Metrics) -> Self {
        let shared = metrics.ownership_renew_us > 0;
        Self {
            instances: 1,
            watched_us: 0,
            batches: BatchCounts::of(metrics),
            sends: SendCounts::of(metrics),
            sinks: metrics.sink_send_us.iter().map(SinkSends::of).collect(),
            checkpoints: CheckpointCounts::of(metrics),
            stopwatches: Stopwatches::of(metrics),
            opened: OpeningCounts::of(metrics),
            closed: ClosingCounts::of(metrics),
            ownership: shared.then(|| OwnershipActivity {
                renew_us: metrics.ownership_renew_us,
                expire_us: metrics.ownership_expire_us,
                rounds: RoundCounts::of(metrics),
                gained: GainCounts::of(metrics),
                lost: LossCounts::of(metrics),
                rebalances: Some(metrics.group_generations).filter(|generations| *generations > 0),
            }),
            waiting_us: WaitingTimes::of(metrics),
            whole_trial: WholeTrial::of(metrics),
            sizes: BTreeMap::new(),
        }
    }

    /// What a relay did between two readings; their sizes are for whoever has the distributions.
    #[must_use]
    pub fn between(began: &Self, ended: &Self, watched_us: u64) -> Self {
        Self {
            instances: ended.instances,
            watched_us,
            batches: ended.batches.since(began.batches),
            sends: ended.sends.since(began.sends),
            sinks: SinkSends::each(&ended.sinks, &began.sinks, u64::saturating_sub),
            checkpoints: ended.checkpoints.since(began.checkpoints),
            stopwatches: ended.stopwatches.since(began.stopwatches),
            opened: ended.opened.since(began.opened),
            closed: ended.closed.since(began.closed),
            ownership: ended.ownership.map(|ended| {
                let began = began.ownership.unwrap_or_default();
                OwnershipActivity {
                    rounds: ended.rounds.since(began.rounds),
                    gained: ended.gained.since(began.gained),
                    lost: ended.lost.since(began.lost),
                    rebalances: ended
                        .rebalances
                        .map(|ended| ended.saturating_sub(began.rebalances.unwrap_or(0))),
                    ..ended
                }
            }),
            waiting_us: ended.waiting_us.since(began.waiting_us),
            whole_trial: ended.whole_trial,
            sizes: BTreeMap::new(),
        }
    }

    /// All of these together; `None` if there are none. Sizes are left out: they come from merged distributions.
    #[must_use]
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let all = all.into_iter().cloned();
        all.reduce(|sum, other| Self {
            instances: sum.instances + other.instances,
            watched_us: sum.watched_us + other.watched_us,
            batches: sum.batches.plus(other.batches),
            sends: sum.sends.plus(other.sends),
            sinks: SinkSends::each(&sum.sinks, &other.sinks, u64::saturating_add),
            checkpoints: sum.checkpoints.plus(other.checkpoints),
            stopwatches: sum.stopwatches.plus(other.stopwatches),
            opened: sum.opened.plus(other.opened),
            closed: sum.closed.plus(other.closed),
            ownership: match (sum.ownership, other.ownership) {
                (Some(own), Some(other)) => Some(OwnershipActivity {
                    rounds: own.rounds.plus(other.rounds),
                    gained: own.gained.plus(other.gained),
                    lost: own.lost.plus(other.lost),
                    // Each of them counts the same ones.
                    rebalances: own.rebalances.max(other.rebalances),
                    ..own
                }),
                (own, other) => own.or(other),
            },
            waiting_us: sum.waiting_us.plus(other.waiting_us),
            whole_trial: sum.whole_trial.plus(other.whole_trial),
            sizes: BTreeMap::new(),
        })
        .map(|sum| Self { sizes: BTreeMap::new(), ..sum })
    }

    /// The same with the figures of these distributions.
    #[must_use]
    pub fn with_sizes(self, sizes: &BTreeMap<Size, LatencyDistribution>) -> Self {
        let sizes =
            sizes.iter().filter_map(|(size, distribution)| Some((*size, SizeSummary::of(distribution)?)));
        Self { sizes: sizes.collect(), ..self }
    }

    /// For which part of the watched time the loops slept because of one cause, in percent.
    #[must_use]
    pub fn waiting_percent(&self, waiting_us: u64) -> f64 {
        percent(waiting_us, self.watched_us)
    }

    /// The share of batches that failed, in percent.
    #[must_use]
    pub fn failed_batches_percent(&self) -> f64 {
        let BatchCounts { completed, failed, .. } = self.batches;
        percent(failed, completed + failed)
    }

    /// The share of sends that failed, in percent.
    #[must_use]
    pub fn failed_sends_percent(&self) -> f64 {
        percent(self.sends.failed, self.sends.made)
    }

    /// The share of writings that failed, in percent.
    #[must_use]
    pub fn failed_checkpoints_percent(&self) -> f64 {
        let CheckpointCounts { written, failed, .. } = self.checkpoints;
        percent(failed, written + failed)
    }
}

impl SinkSends {
    fn of(histogram: &Histogram<u64>) -> Self {
        Self { accepted: histogram.len(), total_us: total_us(histogram) }
    }

    /// Each of these with the same one of others.
    fn each(these: &[Self], others: &[Self], of: impl Fn(u64, u64) -> u64) -> Vec<Self> {
        let length = these.len().max(others.len());
        let at = |all: &[Self], index| all.get(index).copied().unwrap_or_default();
        let pairs = (0..length).map(|index| (at(these, index), at(others, index)));
        pairs
            .map(|(this, other)| Self {
                accepted: of(this.accepted, other.accepted),
                total_us: of(this.total_us, other.total_us),
            })
            .collect()
    }
}

impl Stopwatches {
    /// Whether nothing was done, or another system did it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.events == 0 && self.batches_us == 0
    }
}

/// The sum of what a histogram has.
fn total_us(histogram: &Histogram<u64>) -> u64 {
    // Its samples are microseconds of one process.
    (histogram.mean() * histogram.len() as f64).round() as u64
}

impl SizeSummary {
    fn of(distribution: &LatencyDistribution) -> Option<Self> {
        let summary = distribution.summary()?;
        Some(Self {
            count: summary.count,
            min: summary.min?,
            mean: summary.mean?,
            p50: summary.p50,
            p95: summary.p95,
            p99: summary.p99,
            max: summary.max?,
        })
    }
}

impl Size {
    /// The name that users read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BatchEvents => "events per batch received",
            Self::BatchBytes => "bytes per batch received",
            Self::SendEvents => "events per send",
            Self::SendBytes => "bytes per send",
        }
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 * 100.0 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(received: u64, lost: u64) -> RelayActivity {
        RelayActivity {
            instances: 1,
            watched_us: 1_000,
            batches: BatchCounts { received, completed: received - 1, failed: 1 },
            ownership: Some(OwnershipActivity {
                renew_us: 10,
                lost: LossCounts { taken: lost, ..LossCounts::default() },
                ..OwnershipActivity::default()
            }),
            whole_trial: WholeTrial { lost_partitions: lost, ..WholeTrial::default() },
            ..RelayActivity::default()
        }
    }

    #[test]
    fn what_happened_between_two_readings_is_their_difference_and_settings_stay() {
        let grown = RelayActivity::between(&activity(10, 1), &activity(60, 3), 500);
        assert_eq!((grown.batches.received, grown.batches.failed), (50, 0));
        assert_eq!(grown.watched_us, 500);
        let ownership = grown.ownership.expect("partitions are shared");
        assert_eq!((ownership.renew_us, ownership.lost.taken), (10, 2));
        assert_eq!(grown.whole_trial.lost_partitions, 3);
    }

    #[test]
    fn instances_add_up_and_none_are_none() {
        assert_eq!(RelayActivity::sum([]), None);
        let sum = RelayActivity::sum([&activity(10, 1), &activity(20, 0)]).expect("two");
        assert_eq!((sum.instances, sum.batches.received), (2, 30));
        assert_eq!(sum.ownership.expect("shared").lost.taken, 1);
        assert!((sum.failed_batches_percent() - 2.0 / 30.0 * 100.0).abs() < 1e-9);
        assert_eq!(RelayActivity::default().failed_sends_percent(), 0.0);
    }

    #[test]
    fn counts_are_named_as_the_results_name_them() {
        let counts = activity(3, 0).batches;
        assert_eq!(counts.named(), [("received", 3), ("completed", 2), ("failed", 1)]);
        let json = serde_json::to_value(counts).expect("plain data");
        assert!(counts.named().iter().all(|(name, _)| json.get(name).is_some()));
    }
}
