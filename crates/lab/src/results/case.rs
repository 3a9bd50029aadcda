//! One case of a scenario: a row of the table, aggregated from its trials.
//!
//! How trials become a case:
//! * rates, CPU and memory: median, lowest and highest over the trials;
//! * latencies and stages: the merged distributions, so that a percentile counts every sample once;
//! * deliveries: sums, since an event lost in any trial is lost;
//! * an interrupted trial contributes its findings but no figure: what it lacks may just be under way.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::figure;

use super::{
    Capacity, Carried, CurvePoint, Delivery, Finding, FindingKind, LatencyDistribution,
    LatencySummary, MeasuredSystem, ParshallRatio, Published, RelayActivity, Role, RoleUsage,
    Settings, Severity, Size, Stage, Subject, Summary, Trial, TrialRecord, examine,
};

/// A case with its trials, its figures and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The axis and its value, as in `fan_out=32`.
    pub name: String,
    /// The sweep that the case is a point of; absent in a scenario without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<String>,
    /// The settings that make the case, by their path in the scenario.
    pub params: BTreeMap<String, serde_json::Value>,
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
    /// Events forwarded by the pipeline per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded_per_s: Option<Summary>,
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
    pub stages: BTreeMap<Stage, LatencySummary>,
    /// What went on inside our own relay, over all trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayActivity>,
    /// What became of the events, over all trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// The same case in the published study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
    /// Our relay over this system, where both are in these results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parshall_ratio: Option<ParshallRatio>,
    /// The search for the highest sustainable rate, if there was one. The trials are then those that held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// What the lab noticed, heaviest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// The verdict on a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
            Summary::of(
                complete
                    .iter()
                    .filter_map(|trial| trial.roles.get(&plan.measured_role))
                    .map(figure),
            )
        };
        let recorded = || {
            let complete = records.iter().filter(|record| !record.trial.interrupted);
            complete.map(|record| &record.distributions)
        };
        let latency = merged(recorded().map(|each| &each.latency));
        let uncorrected_latency = merged(recorded().map(|each| &each.uncorrected_latency));
        let seconds = recorded().flat_map(|each| &each.intervals);
        let latency_us = latency.summary_of_seconds(seconds.map(|second| &second.latency));
        let mut stages: BTreeMap<Stage, LatencyDistribution> = BTreeMap::new();
        for (stage, distribution) in recorded().flat_map(|each| &each.stages) {
            stages.entry(*stage).or_default().merge(distribution);
        }
        let mut sizes: BTreeMap<Size, LatencyDistribution> = BTreeMap::new();
        for (size, distribution) in recorded().flat_map(|each| &each.sizes) {
            sizes.entry(*size).or_default().merge(distribution);
        }

        let offered_per_s = over_trials(|trial| trial.offered_per_s);
        let received_per_s = over_trials(|trial| trial.received_per_s);
        let forwarded_per_s = over_trials(|trial| trial.forwarded_per_s);
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
            system: plan.system.clone(),
            status,
            passed: status == Status::Passed,
            measured_role: plan.measured_role,
            planned_trials: plan.trials,
            offered_per_s,
            received_per_s,
            forwarded_per_s,
            cpu_percent,
            memory_peak_bytes,
            latency_us,
            uncorrected_latency_us: uncorrected_latency.summary(),
            latency_curve: latency.curve(),
            uncorrected_latency_curve: uncorrected_latency.curve(),
            stages: stages
                .iter()
                .filter_map(|(stage, each)| Some((*stage, each.summary()?)))
                .collect(),
            relay,
            delivery,
            published: plan.published.clone(),
            parshall_ratio: None,
            capacity: None,
            findings,
            trials,
        }
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
        self.status == Status::Skipped
            || self.completed_trials().count() >= self.planned_trials as usize
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

    /// Forwarded events per second over the published figure; if the study has none, received over received.
    #[must_use]
    pub fn ratio_to_published(&self) -> Option<f64> {
        let published = self.published.as_ref()?;
        let ratio = |measured: Option<Summary>, figure: Option<f64>| {
            let (measured, figure) = (measured?.median, figure?);
            (figure > 0.0).then(|| measured / figure)
        };
        ratio(self.forwarded_per_s, published.forwarded_per_s)
            .or_else(|| ratio(self.received_per_s, published.received_per_s))
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

/// The runner's findings of every trial, and those that follow from the figures: counts of deliveries, clocks, and what
/// [`examine`] reads from all of them.
fn findings(plan: &CasePlan, trials: &[Trial]) -> Vec<Finding> {
    let settings = Settings::of(&plan.params);
    let subject = Subject::of(plan.system.as_ref());
    let mut findings = Vec::new();
    for trial in trials {
        let of_trial = |finding: Finding| Finding {
            trial: Some(trial.number),
            ..finding
        };
        findings.extend(trial.findings.iter().cloned().map(of_trial));
        findings.extend(delivery_findings(plan, trial).into_iter().map(of_trial));
        findings.extend(dead_letter_finding(plan, trial).map(of_trial));
        findings.extend(refusal_finding(trial).map(of_trial));
        findings.extend(clock_finding(trial).map(of_trial));
        let symptoms = examine(&settings, &subject, plan.measured_role, trial).into_iter();
        findings.extend(symptoms.map(Finding::from).map(of_trial));
        if trial.interrupted {
            findings.push(of_trial(Finding::new(
                Severity::Warning,
                FindingKind::Interrupted,
                "interrupted: its figures are not part of the case's",
            )));
        }
    }
    let carried = Carried::of(&plan.params);
    for finding in &mut findings {
        finding.message = carried.reworded(&finding.message);
        finding.hint = finding.hint.as_deref().map(|hint| carried.reworded(hint));
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// What the counts of a trial mean. Those of an interrupted trial are of events still under way: no verdict
/// follows from missing ones, but corruption and disorder are what they are.
fn delivery_findings(plan: &CasePlan, trial: &Trial) -> Vec<Finding> {
    let Some(delivery) = &trial.delivery else {
        return Vec::new();
    };
    let disorder = match plan.order {
        OrderExpectation::Kept => Severity::Failure,
        OrderExpectation::NotPromised => Severity::Note,
    };
    // Of a queue whose messages are worked on side by side nobody expects it, so that its column says enough.
    let reordered = match Carried::of(&plan.params) {
        Carried::Events => delivery.reordered,
        Carried::Messages => 0,
    };
    let missing = if trial.interrupted {
        Severity::Note
    } else {
        Severity::Failure
    };
    let of_sent = |what: &str| format!("of {} sent {what}", figure::count(delivery.sent));
    [
        (
            delivery.lost,
            missing,
            FindingKind::EventsLost,
            format!(
                "{}{}",
                of_sent("were acknowledged and never arrived"),
                taken_by_retention(trial, delivery.lost)
            ),
        ),
        (
            delivery.corrupted,
            Severity::Failure,
            FindingKind::EventsCorrupted,
            of_sent("arrived with other content than they were sent with"),
        ),
        (
            delivery.unexpected.unwrap_or(0),
            Severity::Failure,
            FindingKind::EventsUnexpected,
            "arrived though they were never sent".to_owned(),
        ),
        (
            reordered,
            disorder,
            FindingKind::EventsReordered,
            of_sent("arrived after a later event of their stream"),
        ),
        (
            delivery.unknown.unwrap_or(0),
            match is_tenth(delivery.unknown.unwrap_or(0), delivery.sent) && !trial.interrupted {
                true => Severity::Failure,
                false => Severity::Warning,
            },
            FindingKind::OutcomeUnknown,
            of_sent("were never acknowledged, so nothing is claimed about them"),
        ),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, severity, kind, text)| {
        Finding::new(
            severity,
            kind,
            format!("{} {text}", figure::counted(count, "event", "events")),
        )
    })
    .collect()
}

/// A relay of which the service refused a tenth of the sends was not measured at what it can do.
fn refusal_finding(trial: &Trial) -> Option<Finding> {
    let refusals = trial.refusals.get(&Role::Relay)?;
    let total = refusals.total?;
    (is_tenth(refusals.refused, total) && !trial.interrupted).then(|| {
        Finding::new(
            Severity::Failure,
            FindingKind::SendErrors,
            format!(
                "the service refused {} of the relay's {}, {} of them because a quota was used up",
                figure::count(refusals.refused),
                figure::counted(total, "send", "sends"),
                figure::count(refusals.throttled)
            ),
        )
        .with_hint("relay.log has each of its reasons once")
    })
}

/// A tenth and more is no accident.
const fn is_tenth(part: u64, whole: u64) -> bool {
    part > 0 && part.saturating_mul(10) >= whole
}

/// Why events are missing that the relay never had.
fn taken_by_retention(trial: &Trial, lost: u64) -> String {
    let relay = trial.relay.as_ref();
    match relay.map_or(0, |relay| relay.whole_trial.missed_events.min(lost)) {
        0 => String::new(),
        missed => format!(
            "; the source's retention took {} of them before the relay read them",
            figure::count(missed)
        ),
    }
}

/// Messages that came to nothing so often that the service has put them aside. If no send was to fail on purpose, what is
/// measured has not done its work.
fn dead_letter_finding(plan: &CasePlan, trial: &Trial) -> Option<Finding> {
    let delivery = trial.delivery.as_ref()?;
    let dead_lettered = delivery.dead_lettered.filter(|count| *count > 0)?;
    let most = plan.params.get("queues.maximum_delivery_count")?.as_u64()?;
    let is_on_purpose = plan
        .params
        .get("relay.failure_ratio")
        .and_then(serde_json::Value::as_f64)
        .is_some_and(|ratio| ratio > 0.0);
    let severity = match is_on_purpose || trial.interrupted {
        true => Severity::Warning,
        false => Severity::Failure,
    };
    let message = format!(
        "{} of {} sent are in the dead-letter queue and not lost: {} came to nothing for each of them, as often as \
         queues.maximum_delivery_count allows",
        figure::counted(dead_lettered, "message", "messages"),
        figure::count(delivery.sent),
        figure::counted(most, "delivery", "deliveries")
    );
    Some(Finding::new(
        severity,
        FindingKind::EventsDeadLettered,
        message,
    ))
}

fn clock_finding(trial: &Trial) -> Option<Finding> {
    let negative = trial.latency_us.as_ref()?.negative?;
    let message = format!(
        "{} latencies were negative, down to {} µs: the clocks of two processes disagree",
        figure::count(negative.count),
        negative.min
    );
    Some(Finding::new(
        Severity::Warning,
        FindingKind::NegativeLatency,
        message,
    ))
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
mod tests {
    use super::super::{Distributions, GeneratorHealth, Refusals};
    use super::*;

    fn plan(trials: u32) -> CasePlan {
        CasePlan {
            name: "fan_out=32".to_owned(),
            sweep: Some("fan_out".to_owned()),
            params: BTreeMap::from([("relay.fan_out".to_owned(), 32.into())]),
            system: None,
            measured_role: Role::Relay,
            trials,
            published: Some(Published {
                case: "fan_out=32".to_owned(),
                forwarded_per_s: Some(1_000.0),
                ..Published::default()
            }),
            order: OrderExpectation::Kept,
        }
    }

    fn record(
        number: u32,
        forwarded_per_s: f64,
        latencies: impl IntoIterator<Item = i64>,
    ) -> TrialRecord {
        let mut distributions = Distributions::default();
        latencies
            .into_iter()
            .for_each(|latency| distributions.latency.record(latency));
        let trial = Trial {
            number,
            duration_s: 10.0,
            forwarded_per_s: Some(forwarded_per_s),
            delivery: Some(Delivery {
                sent: 100,
                received: 100,
                ..Delivery::default()
            }),
            ..Trial::default()
        };
        TrialRecord::new(trial, distributions)
    }

    #[test]
    fn percentiles_of_a_case_come_from_all_samples_and_not_from_the_trials_percentiles() {
        let case = Case::from_trials(
            &plan(2),
            &[record(1, 1.0, 1..=900), record(2, 1.0, [5_000; 100])],
        );
        let latency = case.latency_us.unwrap();
        assert_eq!((latency.count, latency.p50), (1_000, Some(500)));
        assert!(
            latency.p999.is_some(),
            "together the trials support what neither does alone"
        );
        assert!(
            case.trials
                .iter()
                .all(|trial| trial.latency_us.as_ref().unwrap().p999.is_none())
        );
    }

    #[test]
    fn rates_have_their_spread_and_the_ratio_is_of_the_median() {
        let records = [
            record(1, 3_000.0, []),
            record(2, 1_000.0, []),
            record(3, 2_000.0, []),
        ];
        let case = Case::from_trials(&plan(3), &records);
        let summary = case.forwarded_per_s.unwrap();
        assert_eq!(
            (summary.median, summary.min, summary.max),
            (2_000.0, 1_000.0, 3_000.0)
        );
        assert_eq!(case.ratio_to_published(), Some(2.0));
        assert_eq!(case.status, Status::Passed);
    }

    #[test]
    fn an_event_lost_in_one_trial_fails_the_case() {
        let mut records = [record(1, 1.0, []), record(2, 9.0, [])];
        records[1].trial.delivery.as_mut().unwrap().lost = 1;
        let case = Case::from_trials(&plan(2), &records);
        assert_eq!(case.status, Status::Failed);
        assert_eq!(case.delivery.unwrap().lost, 1);
        assert_eq!(
            (case.findings[0].kind, case.findings[0].trial),
            (FindingKind::EventsLost, Some(2))
        );
    }

    #[test]
    fn a_tenth_of_sends_without_an_outcome_fails_a_case_and_less_does_not() {
        let unknown = |unknown| {
            let mut record = record(1, 1.0, []);
            record.trial.delivery.as_mut().unwrap().unknown = Some(unknown);
            Case::from_trials(&plan(1), &[record]).status
        };
        assert_eq!((unknown(9), unknown(10)), (Status::Passed, Status::Failed));
    }

    #[test]
    fn a_throttled_case_says_so_by_what_its_clients_counted_and_advises_to_raise_nothing() {
        let mut throttled = record(1, 1.0, []);
        let refusals = |refused| Refusals {
            refused,
            throttled: refused,
            total: Some(1_000),
        };
        throttled.trial.refusals.insert(Role::Load, refusals(50));
        throttled.trial.refusals.insert(Role::Relay, refusals(99));
        throttled.trial.relay = Some(RelayActivity::default());
        let case = Case::from_trials(&plan(1), &[throttled.clone()]);
        assert_eq!(case.status, Status::Passed);
        let quota = &case.findings[0];
        assert_eq!(quota.kind, FindingKind::LimitedByQuota);
        assert!(
            quota.message.contains("load: 50, relay: 99"),
            "{}",
            quota.message
        );
        let hints = case
            .findings
            .iter()
            .filter_map(|finding| finding.hint.as_deref());
        assert!(hints.clone().all(|hint| !hint.contains("raise")));

        throttled.trial.refusals.insert(Role::Relay, refusals(100));
        let case = Case::from_trials(&plan(1), &[throttled]);
        assert_eq!(case.status, Status::Failed);
        assert_eq!(case.findings[0].kind, FindingKind::SendErrors);
    }

    #[test]
    fn events_that_retention_took_fail_a_case_and_are_not_the_relays_loss() {
        let mut missed = record(1, 1.0, []);
        missed.trial.delivery.as_mut().unwrap().lost = 30;
        let mut relay = RelayActivity::default();
        relay.whole_trial.missed_events = 25;
        missed.trial.relay = Some(relay);
        let case = Case::from_trials(&plan(1), &[missed]);
        assert_eq!(case.status, Status::Failed);
        let of = |kind| {
            let mut findings = case.findings.iter();
            let finding = findings.find(|finding| finding.kind == kind);
            finding.expect("there is one").message.clone()
        };
        let expected = "the source's retention took 25 events before the relay read them";
        assert_eq!(of(FindingKind::EventsMissed), expected);
        assert!(of(FindingKind::EventsLost).contains("retention took 25 of them"));
    }

    #[test]
    fn disorder_fails_a_case_only_if_order_was_promised() {
        let mut disordered = record(1, 1.0, []);
        disordered.trial.delivery.as_mut().unwrap().reordered = 3;
        let unordered = CasePlan {
            order: OrderExpectation::NotPromised,
            ..plan(1)
        };
        let records = [disordered];
        assert_eq!(Case::from_trials(&plan(1), &records).status, Status::Failed);
        assert_eq!(
            Case::from_trials(&unordered, &records).status,
            Status::Passed
        );
    }

    #[test]
    fn an_unhealthy_generator_makes_the_case_invalid_and_a_loss_outweighs_it() {
        let mut unhealthy = record(1, 1.0, []);
        unhealthy.trial.generator = Some(GeneratorHealth {
            healthy: false,
            late_events: None,
            never_sent_events: None,
            lateness_us: None,
            sink_lag_peak_events: None,
        });
        assert_eq!(
            Case::from_trials(&plan(1), &[unhealthy.clone()]).status,
            Status::Invalid
        );
        unhealthy.trial.delivery.as_mut().unwrap().lost = 1;
        assert_eq!(
            Case::from_trials(&plan(1), &[unhealthy]).status,
            Status::Failed
        );
    }

    #[test]
    fn an_interrupted_trial_gives_no_figure_and_leaves_the_case_incomplete() {
        let mut interrupted = record(2, 99.0, [1_000_000]);
        interrupted.trial.interrupted = true;
        interrupted.trial.delivery.as_mut().unwrap().lost = 50;
        let case = Case::from_trials(&plan(2), &[record(1, 7.0, [3]), interrupted]);
        assert_eq!(case.status, Status::Incomplete);
        assert_eq!(case.forwarded_per_s.unwrap().max, 7.0);
        assert_eq!(case.latency_us.unwrap().max, Some(3));
        assert_eq!((case.delivery.unwrap().lost, case.trials.len()), (0, 2));
    }

    #[test]
    fn a_case_without_trials_has_no_figures_and_is_incomplete() {
        let case = Case::from_trials(&plan(3), &[]);
        assert_eq!(case.status, Status::Incomplete);
        let json = serde_json::to_value(&case).unwrap();
        for absent in [
            "received_per_s",
            "latency_us",
            "delivery",
            "stages",
            "memory_peak_bytes",
        ] {
            assert!(json.get(absent).is_none(), "{absent} was not measured");
        }
    }

    #[test]
    fn negative_latencies_are_a_warning_and_not_a_failure() {
        let case = Case::from_trials(&plan(1), &[record(1, 1.0, [-8, 5])]);
        assert_eq!(case.status, Status::Passed);
        assert_eq!(case.findings[0].kind, FindingKind::NegativeLatency);
        assert_eq!(case.latency_us.unwrap().negative.unwrap().min, -8);
    }
}
