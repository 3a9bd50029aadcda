//! What a run found out: the content of `results.json`, and nothing about how it was found.
//!
//! ```text
//! Results ── environment
//!         └─ cases ── trials ── intervals          one figure per second
//!                  │         └─ roles, latency …   every figure of one trial
//!                  └─ the same figures over all trials: median, min, max; merged latencies
//! ```
//!
//! The runner fills a [`Trial`] and the [`Distributions`] it recorded, [`Case::from_trials`] makes one row of
//! the table of them, and the reports read only these types. The JSON form is stable and published as
//! `schema/results.schema.json`. A figure that was not measured is absent; zero means that it was measured
//! and was zero. Names end in their unit; the exceptions are [`Case::stages`] and [`Trial::stages`], whose
//! summaries count microseconds like `latency_us`. What the figures mean is read from them by [`examine`].

mod activity;
mod capacity;
mod case;
mod chrony;
mod cost;
mod course;
mod cross_case;
mod delivery;
mod destination;
mod diagnosis;
mod environment;
mod figures;
mod finding;
#[cfg(test)]
pub(crate) mod fixture;
mod generator;
mod latency;
mod measured_component;
mod noun;
mod own_figures;
mod paced;
mod percentile;
mod precision;
mod published;
mod remote;
mod restart;
mod role;
mod shape;
mod side_by_side;
mod stage;
mod summary;
mod trial;

pub use activity::{
    BatchCounts, CheckpointCounts, ClosingCounts, GainCounts, LossCounts, OpeningCounts, OwnershipActivity,
    RelayActivity, RoundCounts, SendCounts, SinkSends, Size, SizeSummary, Stopwatches, WaitingTimes,
    WholeTrial,
};
pub use capacity::{Capacity, Conclusion, Probe, ProbeOutcome, ProbePurpose};
pub use case::{Case, CasePlan, OrderExpectation, PublishedRatio, Status};
pub use chrony::Chrony;
pub use cost::{Cost, Prices, RoleCost, ServiceCost};
pub use course::{Lag, LatencyInterval};
pub use cross_case::CrossCaseFinding;
pub use delivery::Delivery;
pub use destination::{Destination, DestinationSummary};
pub use diagnosis::{Ahead, Symptom, WaitingFor, examine};
pub(crate) use diagnosis::{
    FULL_CPU_PERCENT, LITTLE_PERCENT, LOW_CPU_PERCENT, SHARED_MACHINE_PERCENT, is_used_up, lag_events,
};
pub use environment::{Environment, OuterLimits, RunIdentity, Timestamp};
pub use figures::{Definition, Figure, Quantity};
pub use finding::{Finding, FindingKind, Severity};
pub use generator::GeneratorHealth;
pub use latency::{LatencyDistribution, LatencySummary, NegativeLatencies};
pub use measured_component::MeasuredComponent;
pub use noun::Noun;
pub use own_figures::OwnFigures;
pub use paced::Paced;
pub use percentile::{CurvePoint, Percentile};
pub use precision::{Bounds, LatencyPrecision};
pub use published::Published;
pub use remote::{ClockOffset, Machine, RemoteRole};
pub use restart::RelayRestart;
pub use role::{Limit, LimitMechanism, PerMillionEvents, Role, RoleUsage};
pub use shape::{ArchivingShape, ClientShape, KafkaShape, PipelineShape, ProducerShape, Shape, SourceShape};
pub(crate) use side_by_side::without_system;
pub use side_by_side::{MeasuredSystem, ParshallRatio, RatioRange};
pub use stage::{Direction, Mean, Stage};
pub use summary::Summary;
pub use trial::{
    CpuSampling, Distributions, EntityCounters, Interval, IntervalDistribution, Lead, Refusals, Trial,
    TrialRecord,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything one `parshall run` found out; the root object of `results.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// Version of this format: always [`Results::SCHEMA`].
    #[schemars(extend("const" = Results::SCHEMA))]
    pub schema: u32,
    /// Name of the scenario.
    #[schemars(length(min = 1))]
    pub scenario: String,
    /// One sentence that says what the scenario does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether every planned case has all its trials. `false` while the run goes on and after an interruption.
    pub complete: bool,
    /// Names of the planned cases that have not run (yet), in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Machine, version, target and command of the run.
    pub environment: Environment,
    /// The prices that the run was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
    /// One entry per case that has at least begun.
    pub cases: Vec<Case>,
    /// What cases show only beside one another.
    #[serde(default)]
    pub findings: Vec<CrossCaseFinding>,
}

impl Results {
    /// The version of the format that this build writes and reads.
    pub const SCHEMA: u32 = 1;

    /// Results of a run that has not measured anything yet and plans the named cases.
    #[must_use]
    pub fn new(scenario: &str, environment: Environment, planned_cases: Vec<String>) -> Self {
        Self {
            schema: Self::SCHEMA,
            scenario: scenario.to_owned(),
            description: None,
            complete: planned_cases.is_empty(),
            missing: planned_cases,
            environment,
            prices: None,
            cases: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Adds a case, or replaces the case of the same name (a case grows from trial to trial), and keeps
    /// [`Results::complete`], [`Results::missing`], [`Results::findings`], each [`Case::parshall_ratio`] and [`Case::cost`] true.
    pub fn put(&mut self, mut case: Case) {
        case.cost = Cost::of(&case, self.prices.as_ref());
        self.missing.retain(|name| *name != case.name);
        match self.cases.iter_mut().find(|known| known.name == case.name) {
            Some(known) => *known = case,
            None => self.cases.push(case),
        }
        side_by_side::relate(&mut self.cases);
        self.findings = cross_case::findings(&self.cases);
        self.complete = self.missing.is_empty() && self.cases.iter().all(Case::is_complete);
    }

    /// The shape of its cases, which differ in their settings alone.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.cases.first().map(|case| case.shape().into_owned()).unwrap_or_default()
    }

    /// Whether the run is complete, a case passed, and every other one did that this machine can run: the condition for exit
    /// status 0. A run in which every case was skipped has measured nothing, which is no success.
    #[must_use]
    pub fn passed(&self) -> bool {
        let is_good = |case: &Case| case.passed || case.status == Status::Skipped;
        self.complete && self.cases.iter().all(is_good) && self.cases.iter().any(|case| case.passed)
    }
}

#[cfg(test)]
mod tests {
    use crate::report::sample;

    #[test]
    fn a_skipped_case_is_neither_missing_nor_a_failure() {
        let results = sample::skipping();
        assert!(results.complete && results.missing.is_empty() && results.passed());
        assert!(!results.cases[3].passed);
    }
}
