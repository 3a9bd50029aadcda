//! One case of a scenario: a row of the table, aggregated from its trials.
//!
//! How trials become a case:
//! * rates, CPU and memory: median, lowest and highest over the trials;
//! * latencies and stages: the merged distributions, so that a percentile counts every sample once;
//! * deliveries: sums, since an event lost in any trial is lost;
//! * an interrupted trial contributes its findings but no figure: what it lacks may just be under way.
//!
//! `findings` has what follows from the trials for the verdict.

mod findings;

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::findings::findings;
use super::trial::summaries;
use super::{
    Capacity, Cost, CurvePoint, Delivery, DestinationSummary, Figure, Finding, FindingKind,
    LatencyDistribution, LatencySummary, Mean, MeasuredSystem, Paced, ParshallRatio, Published,
    RelayActivity, Role, RoleUsage, Severity, Shape, Stage, Summary, Trial, TrialRecord,
};
use crate::scenario::LoadMode;
use crate::schema::by_name;

/// A case with its trials, its figures and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The axis and its value, as in `fan_out=32`.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The sweep that the case is a point of; absent in a scenario without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<String>,
    /// The settings that make the case, by their path in the scenario.
    pub params: BTreeMap<String, serde_json::Value>,
    /// What findings need to know of these settings; absent in results of older versions, see [`Case::shape`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// The verdict.
    pub status: Status,
    /// Whether the verdict is [`Status::Passed`].
    pub passed: bool,
    /// The system in the relay's place; absent where that is our relay over plain TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<MeasuredSystem>,
    /// The role that `cpu_percent` and `memory_peak_bytes` are about.
    pub measured_role: Role,
    /// How many trials the case was planned to have.
    pub planned_trials: u32,
    /// Every trial that has run.
    pub trials: Vec<Trial>,
    /// Events offered by the load per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_per_s: Option<Summary>,
    /// Events received by the pipeline per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_per_s: Option<Summary>,
    /// Different events forwarded by the pipeline per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded_per_s: Option<Summary>,
    /// What came through per second with all repetitions, where anything came twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_duplicates_per_s: Option<Summary>,
    /// Events acknowledged to the load per second, where no pipeline is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub produced_per_s: Option<Summary>,
    /// Different events received by the sink per second, where no pipeline is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumed_per_s: Option<Summary>,
    /// CPU of the measured role; 100 is everything that it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<Summary>,
    /// Peak memory of the measured role in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<Summary>,
    /// End to end, from each event's intended instant to the sink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<LatencySummary>,
    /// The same from the instant at which the event really left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncorrected_latency_us: Option<LatencySummary>,
    /// The percentile curve of `latency_us`, to the last percentile that the samples support.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_curve: Vec<CurvePoint>,
    /// The percentile curve of `uncorrected_latency_us`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncorrected_latency_curve: Vec<CurvePoint>,
    /// Time per stage, in microseconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "by_name::<Stage, LatencySummary>")]
    pub stages: BTreeMap<Stage, LatencySummary>,
    /// What went on inside our own relay, over all trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayActivity>,
    /// What became of the events, over all trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// Where every event goes to several destinations: the figures of each, by the name that the scenario has for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub destinations: BTreeMap<String, DestinationSummary>,
    /// The same case in the published study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
    /// Our relay over this system, where both are in these results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parshall_ratio: Option<ParshallRatio>,
    /// The search for the highest sustainable rate, if there was one. The trials are then those that held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// The latency at a share of the throughput, for a load that always has more to offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paced: Option<Paced>,
    /// What a million events cost, beside the rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// What the lab noticed, heaviest first. Empty if nothing stood out, and always there.
    #[serde(default)]
    pub findings: Vec<Finding>,
}

/// A measured throughput over a published one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PublishedRatio<'a> {
    /// Of which figure.
    pub figure: Figure,
    /// Measured over published.
    pub ratio: f64,
    /// What was published, in events per second.
    pub published: f64,
    /// Who published it, and how it was measured.
    pub source: &'a str,
}

/// The verdict on a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Every event is accounted for, and the lab kept up.
    Passed,
    /// Events were lost, corrupted or out of promised order, or a process failed.
    Failed,
    /// The lab itself did not keep up: the figures must not be used.
    Invalid,
    /// Trials are missing or were cut short; nothing is wrong with what ran.
    Incomplete,
    /// This machine can't run the case. It speaks neither for nor against the run.
    Skipped,
}

/// Whether the case promises the order of events within a stream and a destination partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OrderExpectation {
    /// An event out of order fails the case.
    #[default]
    Kept,
    /// The dispatch strategy gives order up for speed; it is counted and noted.
    NotPromised,
}

/// What is known of a case before it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct CasePlan {
    /// The axis and its value, as in `fan_out=32`.
    pub name: String,
    /// The sweep that the case is a point of.
    pub sweep: Option<String>,
    /// The settings that make the case, by their path in the scenario.
    pub params: BTreeMap<String, serde_json::Value>,
    /// What findings need to know of them.
    pub shape: Shape,
    /// The system in the relay's place; `None` for our relay over plain TCP.
    pub system: Option<MeasuredSystem>,
    /// The role that is measured.
    pub measured_role: Role,
    /// How many trials it is to have.
    pub trials: u32,
    /// What the study printed for it.
    pub published: Option<Published>,
    /// Whether order is promised.
    pub order: OrderExpectation,
}

impl Case {
    /// Aggregates the trials that have run so far, as the module describes, and judges the case.
    #[must_use]
    pub fn from_trials(plan: &CasePlan, records: &[TrialRecord]) -> Self {
        let trials: Vec<Trial> = records.iter().map(|record| record.trial.clone()).collect();
        let complete: Vec<&Trial> = trials.iter().filter(|trial| !trial.interrupted).collect();
        let over_trials = |figure: fn(&Trial) -> Option<f64>| {
            Summary::of(complete.iter().filter_map(|trial| figure(trial)))
        };
        let over_usages = |figure: fn(&RoleUsage) -> f64| {
            Summary::of(complete.iter().filter_map(|trial| trial.roles.get(&plan.measured_role)).map(figure))
        };
        let recorded = || {
            let complete = records.iter().filter(|record| !record.trial.interrupted);
            complete.map(|record| &record.distributions)
        };
        let latency = merged(recorded().map(|each| &each.latency));
        let uncorrected_latency = merged(recorded().map(|each| &each.uncorrected_latency));
        let seconds = recorded().flat_map(|each| &each.intervals);
        let latency_us = latency.summary_of_seconds(
            seconds.map(|second| &second.latency),
            recorded().filter_map(|each| each.clock_us).max(),
        );
        let stages = merged_by(recorded().flat_map(|each| &each.stages));
        let mut means: BTreeMap<Stage, Mean> = BTreeMap::new();
        for (stage, mean) in recorded().flat_map(|each| &each.means) {
            *means.entry(*stage).or_default() += *mean;
        }
        let sizes = merged_by(recorded().flat_map(|each| &each.sizes));
        let latencies = merged_by(recorded().flat_map(|each| &each.destinations));

        let offered_per_s = over_trials(|trial| trial.offered_per_s);
        let received_per_s = over_trials(|trial| trial.received_per_s);
        let forwarded_per_s = over_trials(|trial| trial.forwarded_per_s);
        let with_duplicates_per_s = over_trials(|trial| trial.with_duplicates_per_s);
        let produced_per_s = over_trials(|trial| trial.produced_per_s);
        let consumed_per_s = over_trials(|trial| trial.consumed_per_s);
        let cpu_percent = over_usages(|usage| usage.cpu_percent);
        let memory_peak_bytes = over_usages(|usage| usage.memory_peak_bytes as f64);
        let delivery = Delivery::sum(complete.iter().filter_map(|trial| trial.delivery.as_ref()));
        let relay = RelayActivity::sum(complete.iter().filter_map(|trial| trial.relay.as_ref()))
            .map(|relay| relay.with_sizes(&sizes));
        let findings = findings(plan, &trials);
        let status = status(plan, &trials, &findings);
        Self {
            name: plan.name.clone(),
            sweep: plan.sweep.clone(),
            params: plan.params.clone(),
            shape: Some(plan.shape.clone()),
            system: plan.system.clone(),
            status,
            passed: status == Status::Passed,
            measured_role: plan.measured_role,
            planned_trials: plan.trials,
            offered_per_s,
            received_per_s,
            forwarded_per_s,
            with_duplicates_per_s,
            produced_per_s,
            consumed_per_s,
            cpu_percent,
            memory_peak_bytes,
            latency_us,
            uncorrected_latency_us: uncorrected_latency.summary(),
            latency_curve: latency.curve(),
            uncorrected_latency_curve: uncorrected_latency.curve(),
            stages: summaries(&stages, &means),
            relay,
            delivery,
            destinations: DestinationSummary::of_trials(&complete, &latencies),
            published: plan.published.clone(),
            parshall_ratio: None,
            capacity: None,
            paced: None,
            cost: None,
            findings,
            trials,
        }
    }

    /// The case with a trial at `share_percent` of its throughput. Its events count like those of the other trials. If the generator
    /// did not keep up, there is no latency, and the other figures stand.
    #[must_use]
    pub fn with_paced(
        mut self,
        plan: &CasePlan,
        share_percent: f64,
        rate_per_s: f64,
        record: &TrialRecord,
    ) -> Self {
        let shape = Shape { load: LoadMode::Open, ..plan.shape.clone() };
        let trial = record.trial.clone();
        let found = findings(&CasePlan { shape, ..plan.clone() }, std::slice::from_ref(&trial));
        // What explains the rate of an open load explains nothing about the case.
        let found = found.into_iter().filter(|finding| finding.severity < Severity::Note);
        self.findings.extend(found.map(|finding| Finding {
            severity: match finding.severity {
                Severity::Invalid => Severity::Warning,
                severity => severity,
            },
            message: format!("at {share_percent} % of the rate: {}", finding.message),
            trial: None,
            ..finding
        }));
        self.findings.sort_by_key(|finding| finding.severity);
        self.delivery = Delivery::sum(self.delivery.iter().chain(&trial.delivery));
        if self.findings.iter().any(|finding| finding.severity == Severity::Failure) {
            self.status = Status::Failed;
        } else if trial.interrupted {
            self.status = Status::Incomplete;
        }
        self.passed = self.status == Status::Passed;
        self.paced = Some(Paced { share_percent, rate_per_s, trial });
        self
    }

    /// A case that this machine can't run, and why.
    #[must_use]
    pub fn skipped(plan: &CasePlan, reason: impl Into<String>) -> Self {
        let finding = Finding::new(Severity::Note, FindingKind::CaseSkipped, reason);
        Self {
            status: Status::Skipped,
            passed: false,
            findings: vec![finding],
            ..Self::from_trials(plan, &[])
        }
    }

    /// Whether all planned trials ran to their end, as far as this machine can run them.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        if let Some(capacity) = &self.capacity {
            return capacity.is_complete();
        }
        let is_interrupted = self.paced.as_ref().is_some_and(|paced| paced.trial.interrupted);
        let has_trials = self.completed_trials().count() >= self.planned_trials as usize;
        self.status == Status::Skipped || (has_trials && !is_interrupted)
    }

    /// The trials that the figures come from.
    pub fn completed_trials(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| !trial.interrupted)
    }

    /// Median and spread over the trials of a figure that is not aggregated in that way, such as a percentile
    /// of the latency.
    #[must_use]
    pub fn over_trials(&self, figure: impl Fn(&Trial) -> Option<f64>) -> Option<Summary> {
        Summary::of(self.completed_trials().filter_map(figure))
    }

    /// Whether the lab noticed something of this kind.
    #[must_use]
    pub fn has(&self, kind: FindingKind) -> bool {
        self.findings.iter().any(|finding| finding.kind == kind)
    }

    /// Its shape. Results of older versions do not say it; there it follows from the parameters.
    #[must_use]
    pub fn shape(&self) -> Cow<'_, Shape> {
        match &self.shape {
            Some(shape) => Cow::Borrowed(shape),
            None => Cow::Owned(Shape::of_older_results(&self.params)),
        }
    }

    /// What it carried per second: the first of [`Figure::THROUGHPUT`] that it has.
    #[must_use]
    pub fn throughput(&self) -> Option<Summary> {
        Figure::THROUGHPUT.into_iter().find_map(|figure| figure.summary(self))
    }

    /// The throughput over the published one. There is none where it would mean nothing: for another system than our relay,
    /// for a load whose rate was chosen, and for a figure without its source.
    #[must_use]
    pub fn ratio_to_published(&self) -> Option<PublishedRatio<'_>> {
        let published = self.published.as_ref()?;
        let is_ours = self.system.as_ref().is_none_or(|system| system.ours);
        let is_found = self.shape().always_offers_more() || self.capacity.is_some();
        let source = published.source.as_deref().filter(|_| is_ours && is_found)?;
        Figure::THROUGHPUT.into_iter().find_map(|figure| {
            let (measured, published) = (figure.of_case(self)?, published.get(figure)?);
            (published > 0.0).then(|| PublishedRatio {
                figure,
                ratio: measured / published,
                published,
                source,
            })
        })
    }
}

impl Status {
    /// The name that users read and that `results.json` uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
            Self::Incomplete => "incomplete",
            Self::Skipped => "skipped",
        }
    }
}

fn merged<'a>(distributions: impl Iterator<Item = &'a LatencyDistribution>) -> LatencyDistribution {
    distributions.fold(LatencyDistribution::new(), |mut all, each| {
        all.merge(each);
        all
    })
}

fn merged_by<'a, K: Ord + Clone + 'a>(
    distributions: impl Iterator<Item = (&'a K, &'a LatencyDistribution)>,
) -> BTreeMap<K, LatencyDistribution> {
    let mut all: BTreeMap<K, LatencyDistribution> = BTreeMap::new();
    for (key, each) in distributions {
        all.entry(key.clone()).or_default().merge(each);
    }
    all
}

fn status(plan: &CasePlan, trials: &[Trial], findings: &[Finding]) -> Status {
    let has = |severity| findings.iter().any(|finding| finding.severity == severity);
    let complete = trials.iter().filter(|trial| !trial.interrupted);
    if has(Severity::Failure) {
        Status::Failed
    } else if has(Severity::Invalid) {
        Status::Invalid
    } else if complete.count() < plan.trials as usize {
        Status::Incomplete
    } else {
        Status::Passed
    }
}

#[cfg(test)]
mod tests;
