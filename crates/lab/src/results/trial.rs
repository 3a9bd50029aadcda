//! One trial: one repetition of a case, with every figure it gave.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Delivery, Destination, Finding, GeneratorHealth, Lag, LatencyDistribution, LatencyInterval,
    LatencySummary, Mean, OwnFigures, RelayActivity, RelayRestart, RemoteRole, Role, RoleUsage, Size, Stage,
};
use crate::schema::{NotNegative, by_name};

/// The figures of one trial. Rates are means over the measured phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// Counted from 1.
    #[schemars(range(min = 1))]
    pub number: u32,
    /// The trial did not reach its end. Its figures are shown and are not part of the case's.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schemars(extend("const" = true))]
    pub interrupted: bool,
    /// Start of the measured phase, in seconds since the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub started_s: Option<f64>,
    /// Length of the measured phase in seconds.
    #[schemars(range(min = 0.0))]
    pub duration_s: f64,
    /// How the load began, if not at its rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead: Option<Lead>,
    /// Seconds from the load's start until a role was first seen to be throttled; absent if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub throttled_after_s: Option<f64>,
    /// Events that the load offered to the service per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub offered_per_s: Option<f64>,
    /// Events that the pipeline received per second, those that it received again included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub received_per_s: Option<f64>,
    /// Different events that the pipeline forwarded, and the service accepted, per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub forwarded_per_s: Option<f64>,
    /// What came through per second with all repetitions; absent if nothing came twice. Every other rate of forwarded or
    /// received events counts each of them once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub with_duplicates_per_s: Option<f64>,
    /// Events that the service acknowledged to the load per second, where no pipeline is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub produced_per_s: Option<f64>,
    /// Different events that the sink received per second, where no pipeline is measured; or that a consumer has done which
    /// forwards nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub consumed_per_s: Option<f64>,
    /// Events that waited; absent where the load is a backlog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<Lag>,
    /// What each process used.
    #[schemars(schema_with = "by_name::<Role, RoleUsage>")]
    pub roles: BTreeMap<Role, RoleUsage>,
    /// End to end, from each event's intended instant to the sink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<LatencySummary>,
    /// The same from the instant at which the event really left, which forgives the generator's lateness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncorrected_latency_us: Option<LatencySummary>,
    /// Time per stage, in microseconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "by_name::<Stage, LatencySummary>")]
    pub stages: BTreeMap<Stage, LatencySummary>,
    /// What became of the events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// Where every event goes to several destinations: the figures of each, by the name that the scenario has for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub destinations: BTreeMap<String, Destination>,
    /// The service's own counters over the measured phase, by entity name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hub: BTreeMap<String, EntityCounters>,
    /// What services refused the roles in the whole trial, by what the roles counted themselves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "by_name::<Role, Refusals>")]
    pub refusals: BTreeMap<Role, Refusals>,
    /// The instance of the relay that ended in the measured phase on purpose, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<RelayRestart>,
    /// What went on inside our own relay; absent for a system that is measured from the outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayActivity>,
    /// The cores that the lab and its roles may use at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub machine_cores: Option<u32>,
    /// CPU time that the machine spent on anything but the roles in the measured phase, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub other_cpu_seconds: Option<f64>,
    /// Over how long, and on how many CPUs, the CPU time of roles and machine was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_sampling: Option<CpuSampling>,
    /// The roles that ran elsewhere, and how well their clocks are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote: Vec<RemoteRole>,
    /// What a system in the relay's place told of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_figures: Option<OwnFigures>,
    /// Whether generator and sink kept up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<GeneratorHealth>,
    /// What the runner noticed in this trial.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// The course of the trial, one entry per second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
    /// End-to-end latencies over time, one entry per second in which events arrived.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_intervals: Vec<LatencyInterval>,
}

/// The beginning of a load in a search for the highest rate: a faster part, which uses up most of the burst credit of a
/// quota before the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lead {
    /// Its rate in events per second.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub rate_per_s: f64,
    /// Its length in seconds.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub length_s: f64,
}

/// What a service refused a role.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Refusals {
    /// Sends that the service refused (load, relay), partitions that it closed (sink).
    pub refused: u64,
    /// Of these, because a quota was exhausted; over Kafka also how often the service answered and asked to be left alone then, as the
    /// client says.
    pub throttled: u64,
    /// Of how many; absent where that says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// What the service itself counted for one hub, queue or topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntityCounters {
    /// Events accepted from senders.
    pub incoming_events: u64,
    /// Their payload bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incoming_bytes: Option<u64>,
    /// Events given to receivers.
    pub outgoing_events: u64,
    /// Their payload bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outgoing_bytes: Option<u64>,
    /// Sends refused with `server-busy`; over Kafka, sends that a quota kept waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<u64>,
    /// Queues: messages that receivers completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<u64>,
    /// Queues: deliveries that came to nothing, because the receiver abandoned the message or its lock ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_deliveries: Option<u64>,
    /// Queues: messages that went to the dead-letter queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_lettered: Option<u64>,
}

/// One second of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// End of the second, counted from the start of the measured phase.
    #[schemars(range(min = 0.0))]
    pub at_s: f64,
    /// Events offered per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub offered_per_s: Option<f64>,
    /// Events received by the pipeline per second, or by the sink where there is none; or done by a consumer that forwards
    /// nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub received_per_s: Option<f64>,
    /// Events forwarded by the pipeline per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub forwarded_per_s: Option<f64>,
    /// Events that wait at the end of the second: acknowledged to the load and not yet carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_events: Option<u64>,
    /// The most that waited at any reading in the second, of about ten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_peak_events: Option<u64>,
    /// CPU per role; 100 is everything that the role may use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "by_name::<Role, NotNegative>")]
    pub cpu_percent: BTreeMap<Role, f64>,
    /// Resident memory per role.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "by_name::<Role, u64>")]
    pub memory_bytes: BTreeMap<Role, u64>,
}

/// How CPU time was counted: from just before the measured phase until just after it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuSampling {
    /// From the first to the last sample, in seconds.
    #[schemars(range(min = 0.0))]
    pub seconds: f64,
    /// CPUs of the machine that the run may use.
    #[schemars(range(min = 1))]
    pub cpus: u32,
}

/// The distributions behind a trial's summaries, which a case merges over its trials.
#[derive(Debug, Clone, Default)]
pub struct Distributions {
    /// End to end, from the intended instant.
    pub latency: LatencyDistribution,
    /// End to end, from the real send.
    pub uncorrected_latency: LatencyDistribution,
    /// End to end, from the intended instant, at each of several destinations.
    pub destinations: BTreeMap<String, LatencyDistribution>,
    /// Per stage.
    pub stages: BTreeMap<Stage, LatencyDistribution>,
    /// Means of stages of which no more is known.
    pub means: BTreeMap<Stage, Mean>,
    /// Sizes inside the relay.
    pub sizes: BTreeMap<Size, LatencyDistribution>,
    /// End-to-end latencies second by second, for the interval log; may be empty.
    pub intervals: Vec<IntervalDistribution>,
    /// By how many microseconds the clocks at both ends of a latency may disagree; `None` where both are one.
    pub clock_us: Option<u64>,
}

/// The latencies of one interval of a trial.
#[derive(Debug, Clone)]
pub struct IntervalDistribution {
    /// Start of the interval, counted from the start of the measured phase.
    pub start: Duration,
    /// Its length.
    pub length: Duration,
    /// What was recorded in it.
    pub latency: LatencyDistribution,
}

/// A trial with the distributions it was summarised from.
#[derive(Debug, Clone, Default)]
pub struct TrialRecord {
    /// The figures.
    pub trial: Trial,
    /// What they come from.
    pub distributions: Distributions,
}

impl Trial {
    /// What was throttled, and where: by the service's own counters, or else by what its clients were told.
    #[must_use]
    pub fn throttled(&self) -> Vec<(String, u64)> {
        let of_service = self.hub.iter();
        let of_service: Vec<_> = of_service
            .filter_map(|(name, counters)| Some((name.clone(), counters.throttled?)))
            .filter(|(_, throttled)| *throttled > 0)
            .collect();
        if !of_service.is_empty() {
            return of_service;
        }
        let of_clients = self.refusals.iter();
        of_clients
            .map(|(role, refusals)| (role.to_string(), refusals.throttled))
            .filter(|(_, throttled)| *throttled > 0)
            .collect()
    }
}

impl TrialRecord {
    /// The record of a trial; its summaries of latencies, stages and sizes are set from `distributions`.
    #[must_use]
    pub fn new(trial: Trial, distributions: Distributions) -> Self {
        let seconds = distributions.intervals.iter();
        let mut destinations = trial.destinations;
        for (name, latency) in &distributions.destinations {
            destinations.entry(name.clone()).or_default().latency_us = latency.summary();
        }
        let trial = Trial {
            destinations,
            latency_us: distributions
                .latency
                .summary_of_seconds(seconds.map(|second| &second.latency), distributions.clock_us),
            uncorrected_latency_us: distributions.uncorrected_latency.summary(),
            latency_intervals: distributions.intervals.iter().filter_map(LatencyInterval::of).collect(),
            stages: summaries(&distributions.stages, &distributions.means),
            relay: trial.relay.map(|relay| relay.with_sizes(&distributions.sizes)),
            ..trial
        };
        Self { trial, distributions }
    }
}

/// What is known of each stage: a distribution, or a mean.
pub(super) fn summaries(
    stages: &BTreeMap<Stage, LatencyDistribution>,
    means: &BTreeMap<Stage, Mean>,
) -> BTreeMap<Stage, LatencySummary> {
    let stages = stages.iter().filter_map(|(stage, each)| Some((*stage, stage.summary(each)?)));
    let means = means.iter().filter_map(|(stage, mean)| Some((*stage, stage.summary_of_mean(*mean)?)));
    stages.chain(means).collect()
}

fn is_false(value: &bool) -> bool {
    !value
}
