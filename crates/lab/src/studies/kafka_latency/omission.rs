//! Coordinated omission: a loop that waits for answers sends nothing while the service stands still, and so measures the stall
//! once, where everything that was due meanwhile would have waited for it.

use super::super::Observation;
use super::{differences, note};
use crate::figure::{counted, duration_us, ratio};
use crate::results::{Case, CrossCaseFinding, Figure, Finding, FindingKind, Severity};
use crate::scenario::LoadMode;

/// What the loop of a trial left out.
pub(super) fn finding(observation: &Observation<'_>) -> Option<Finding> {
    let trial = observation.trial;
    if observation.shape.load != LoadMode::Burst {
        return None;
    }
    let (intended, sent) = (trial.latency_us.as_ref()?, trial.uncorrected_latency_us.as_ref()?);
    let (intended_p99, sent_p99) = (intended.p99? as f64, sent.p99? as f64);
    let is_hidden = intended_p99 >= sent_p99 * VISIBLE && intended_p99 - sent_p99 >= VISIBLE_US;
    let late = trial.generator.as_ref().and_then(|generator| generator.held_back_events).unwrap_or(0);
    (is_hidden && late > 0).then(|| {
        let message = format!(
            "the loop was held up, and its own figures leave that out: from the send p99 is {}, from the intended instant {} \
             ({}). {} late because an earlier burst was not answered",
            duration_us(sent_p99),
            duration_us(intended_p99),
            ratio(intended_p99 / sent_p99),
            counted(late, "event left", "events left"),
        );
        Finding::new(Severity::Note, FindingKind::CoordinatedOmission, message)
    })
}

/// A loop beside the same load on a schedule.
pub(super) fn beside_open(sweep: &str, cases: &[&Case]) -> Option<CrossCaseFinding> {
    let of_mode = |mode| cases.iter().copied().filter(move |case| case.shape().load == mode);
    let is_same = |one: &Case, other: &Case| {
        differences(one, other).iter().all(|path| ["load.mode", "load.burst", "load.batch"].contains(path))
    };
    let pairs: Vec<(&Case, &Case)> = of_mode(LoadMode::Burst)
        .flat_map(|burst| of_mode(LoadMode::Open).map(move |open| (burst, open)))
        .filter(|(burst, open)| is_same(burst, open))
        .collect();
    let sentences: Vec<String> = pairs.iter().filter_map(|(burst, open)| sentence(burst, open)).collect();
    (!sentences.is_empty()).then(|| {
        let both = pairs.iter().flat_map(|(burst, open)| [*burst, *open]);
        let message = format!("p99 in bursts and on a schedule: {}", sentences.join("; "));
        note(FindingKind::CoordinatedOmission, sweep, both, message)
    })
}

fn sentence(burst: &Case, open: &Case) -> Option<String> {
    let p99 = |figure: Figure, case: &Case| figure.of_case(case).map(duration_us);
    Some(format!(
        "{}: {} from the send and {} from the intended instant of its burst of {}; {}: {} from that of each event",
        burst.name,
        p99(Figure::FromSendP99, burst)?,
        p99(Figure::LatencyP99, burst)?,
        burst.shape().burst_events?,
        open.name,
        p99(Figure::LatencyP99, open)?,
    ))
}

/// How many times as long is more than what a loop takes to send a burst.
const VISIBLE: f64 = 1.2;

/// Less is the time between two messages of a burst.
const VISIBLE_US: f64 = 1_000.0;
