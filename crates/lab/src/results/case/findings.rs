//! What a case's trials show: the runner's findings, and those that follow from counts, clocks and figures.

use super::{CasePlan, OrderExpectation};
use crate::figure;
use crate::results::{
    Delivery, Finding, FindingKind, MeasuredComponent, Role, Severity, SourceShape, Trial, examine,
};
use crate::scenario::EndBy;
use crate::studies::{self, Observation};

/// The runner's findings of every trial, and those that follow from the figures: counts of deliveries, clocks, and what
/// [`examine`] and the studies that the case is of read from all of them.
pub(super) fn findings(plan: &CasePlan, trials: &[Trial]) -> Vec<Finding> {
    let measured = MeasuredComponent::of(plan.system.as_ref(), plan.measured_role);
    let noun = plan.shape.noun;
    let mut findings = Vec::new();
    for trial in trials {
        let of_trial = |finding: Finding| Finding { trial: Some(trial.number), ..finding };
        findings.extend(trial.findings.iter().cloned().map(of_trial));
        findings.extend(delivery_findings(plan, trial).into_iter().map(of_trial));
        findings.extend(refusal_finding(trial).map(of_trial));
        findings.extend(restart_finding(plan, trial).map(of_trial));
        findings.extend(clock_finding(trial).map(of_trial));
        let observation =
            Observation { shape: &plan.shape, measured: &measured, measured_role: plan.measured_role, trial };
        let is_bound_by_quota = !trial.throttled().is_empty();
        let mut bounds = Vec::new();
        for study in studies::of(&plan.shape) {
            findings.extend(study.findings(&observation).into_iter().map(of_trial));
            if !trial.interrupted && !is_bound_by_quota {
                bounds.extend(study.bound(&observation).map(of_trial));
            }
        }
        let symptoms = examine(&plan.shape, &measured, plan.measured_role, trial, !bounds.is_empty());
        findings.extend(bounds);
        findings.extend(symptoms.iter().map(|symptom| of_trial(symptom.finding(noun))));
        if trial.interrupted {
            findings.push(of_trial(Finding::new(
                Severity::Warning,
                FindingKind::Interrupted,
                "interrupted: its figures are not part of the case's",
            )));
        }
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// What the counts of a trial mean. Those of an interrupted trial are of events still under way: no verdict
/// follows from missing ones, but corruption and disorder are what they are.
fn delivery_findings(plan: &CasePlan, trial: &Trial) -> Vec<Finding> {
    let unknown = trial.delivery.as_ref().and_then(|delivery| unknown_finding(plan, trial, delivery));
    let at_each =
        trial.deliveries().flat_map(|(name, delivery)| delivery_findings_at(plan, trial, name, delivery));
    at_each.chain(unknown).collect()
}

/// Sends that no service has answered; the same at every destination.
fn unknown_finding(plan: &CasePlan, trial: &Trial, delivery: &Delivery) -> Option<Finding> {
    let count = delivery.unknown.filter(|unknown| *unknown > 0)?;
    let severity = match is_tenth(count, delivery.sent) && !trial.interrupted {
        true => Severity::Failure,
        false => Severity::Warning,
    };
    let message = format!(
        "{} of {} sent were never acknowledged: whether they arrived is unknown",
        plan.shape.noun.counted(count),
        figure::count(delivery.sent)
    );
    Some(Finding::new(severity, FindingKind::OutcomeUnknown, message))
}

/// What the counts of one destination mean, which has a name if there are several.
fn delivery_findings_at(
    plan: &CasePlan,
    trial: &Trial,
    destination: Option<&str>,
    delivery: &Delivery,
) -> Vec<Finding> {
    let disorder = match plan.order {
        OrderExpectation::Kept => Severity::Failure,
        OrderExpectation::NotPromised => Severity::Note,
    };
    // One event that comes twice is one too many where that was promised. Elsewhere more than a few cost throughput.
    let once = plan.shape.pipeline.as_ref().is_some_and(|pipeline| pipeline.exactly_once);
    let repeated =
        delivery.duplicated.filter(|count| once || is_hundredth(*count, delivery.sent)).unwrap_or(0);
    let (repetition, consequence) = match once {
        true => (Severity::Failure, "with exactly-once delivery"),
        false => (Severity::Warning, "the throughput counts each event once"),
    };
    // It is expected of a queue whose messages are worked on side by side, so that its column says enough.
    let reordered = match plan.shape.source() {
        Some(SourceShape::Queue { .. }) => 0,
        Some(SourceShape::Log { .. }) | None => delivery.reordered.unwrap_or(0),
    };
    let noun = plan.shape.noun;
    let missing = if trial.interrupted { Severity::Note } else { Severity::Failure };
    let of_sent = |what: &str| format!("of {} sent {what}", figure::count(delivery.sent));
    [
        (
            delivery.lost,
            missing,
            FindingKind::EventsLost,
            format!(
                "{}{}",
                of_sent(match delivery.done {
                    None => "were acknowledged and never arrived",
                    Some(_) => "were acknowledged and never done",
                }),
                taken_by_retention(trial, delivery.lost)
            ),
        ),
        (
            delivery.corrupted.unwrap_or(0).saturating_sub(delivery.unidentified.unwrap_or(0)),
            Severity::Failure,
            FindingKind::EventsCorrupted,
            of_sent("arrived with changed content"),
        ),
        (
            delivery.unexpected.unwrap_or(0),
            Severity::Failure,
            FindingKind::EventsUnexpected,
            "arrived though they were never sent".to_owned(),
        ),
        (
            delivery.misplaced.unwrap_or(0),
            Severity::Failure,
            FindingKind::EventsMisplaced,
            "arrived at another partition than they were to go to".to_owned(),
        ),
        (
            repeated,
            repetition,
            FindingKind::EventsDuplicated,
            format!("{}; {consequence}", of_sent("arrived again")),
        ),
        (
            reordered,
            disorder,
            FindingKind::EventsReordered,
            of_sent("arrived after a later event of their stream"),
        ),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, severity, kind, text)| {
        let place = destination.map(|name| format!("at `{name}`: ")).unwrap_or_default();
        Finding::new(severity, kind, format!("{place}{} {text}", noun.counted(count)))
    })
    .collect()
}

/// What the end of an instance cost, which the scenario had asked for.
fn restart_finding(plan: &CasePlan, trial: &Trial) -> Option<Finding> {
    let restart = trial.restart.as_ref()?;
    let ended = match restart.by {
        EndBy::Kill => "was killed",
        EndBy::Stop => "was stopped",
    };
    let back = match restart.back_s {
        Some(back_s) => format!("and was back {:.1} s later", (back_s - restart.ended_s).max(0.0)),
        None => "and did not come back".to_owned(),
    };
    let changes = trial.relay.as_ref().and_then(|relay| relay.ownership?.rebalances);
    let changes = changes
        .map(|changes| format!("; its consumer group changed {}", figure::counted(changes, "time", "times")));
    let repeated = trial.delivery.as_ref().and_then(|delivery| delivery.duplicated);
    let repeated = repeated.map(|count| format!("; {} came again", plan.shape.noun.counted(count)));
    let message = format!(
        "an instance of the relay {ended} on purpose {:.1} s after the beginning of the measured phase, {back}{}{}",
        restart.ended_s,
        changes.unwrap_or_default(),
        repeated.unwrap_or_default()
    );
    Some(Finding::new(Severity::Note, FindingKind::RelayRestarted, message))
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
                "the service refused {} of the relay's {}, {} of them because a quota was exhausted",
                figure::count(refusals.refused),
                figure::counted(total, "send", "sends"),
                figure::count(refusals.throttled)
            ),
        )
        .with_hint("see `relay.log` for its reasons")
    })
}

/// More than a hundredth costs more than at-least-once delivery has to.
const fn is_hundredth(part: u64, whole: u64) -> bool {
    part.saturating_mul(100) > whole
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
            "; retention removed {} of them from the source before the relay read them",
            figure::count(missed)
        ),
    }
}

fn clock_finding(trial: &Trial) -> Option<Finding> {
    let negative = trial.latency_us.as_ref()?.negative?;
    let message = format!(
        "{} latencies were negative, down to {} µs: the clocks of two processes disagree",
        figure::count(negative.count),
        negative.min
    );
    Some(Finding::new(Severity::Warning, FindingKind::NegativeLatency, message))
}
