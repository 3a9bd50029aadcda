//! What a case's trials show: the runner's findings, and those that follow from counts, clocks and figures.

use super::{CasePlan, OrderExpectation};
use crate::figure;
use crate::results::{Carried, Finding, FindingKind, Role, Settings, Severity, Subject, Trial, examine};

/// The runner's findings of every trial, and those that follow from the figures: counts of deliveries, clocks, and what
/// [`examine`] reads from all of them.
pub(super) fn findings(plan: &CasePlan, trials: &[Trial]) -> Vec<Finding> {
    let settings = Settings::of(&plan.params);
    let subject = Subject::of(plan.system.as_ref());
    let mut findings = Vec::new();
    for trial in trials {
        let of_trial = |finding: Finding| Finding { trial: Some(trial.number), ..finding };
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
    // It is not expected of a queue whose messages are worked on side by side, so that its column says enough.
    let reordered = match Carried::of(&plan.params) {
        Carried::Events => delivery.reordered,
        Carried::Messages => 0,
    };
    let missing = if trial.interrupted { Severity::Note } else { Severity::Failure };
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
        Finding::new(severity, kind, format!("{} {text}", figure::counted(count, "event", "events")))
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
    Some(Finding::new(severity, FindingKind::EventsDeadLettered, message))
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
