//! The latency of records over Kafka, from the send to the reader: which setting bounds its tail, what a loop that is held up
//! leaves out, and how far the figures of the published study can be told apart.

mod omission;
mod published;
mod settings;
mod sleeping;
#[cfg(test)]
mod tests;

use super::{Observation, Study, note};
use crate::figure;
use crate::results::{Case, CrossCaseFinding, Figure, Finding, FindingKind, Severity, Shape};

/// The study; for every case in which clients of Kafka send and receive and nothing is between them.
#[derive(Debug, Clone, Copy)]
pub(super) struct KafkaLatency;

impl Study for KafkaLatency {
    fn is_about(&self, shape: &Shape) -> bool {
        shape.kafka.is_some()
            && shape.pipeline.is_none()
            && shape.producer.is_none()
            && !shape.always_offers_more()
    }

    /// Those of the published table.
    fn latencies(&self) -> Option<&'static [Figure]> {
        const LATENCIES: [Figure; 6] = [
            Figure::LatencyMin,
            Figure::LatencyMean,
            Figure::LatencyP75,
            Figure::LatencyP95,
            Figure::LatencyP99,
            Figure::LatencyMax,
        ];
        Some(&LATENCIES)
    }

    fn findings(&self, observation: &Observation<'_>) -> Vec<Finding> {
        first_second(observation).into_iter().chain(omission::finding(observation)).collect()
    }

    fn cross_case(&self, sweep: &str, cases: &[&Case]) -> Vec<CrossCaseFinding> {
        // What a generator that was late or a machine that was busy did is no setting's doing.
        let valid: Vec<&Case> = cases.iter().copied().filter(|case| case.passed).collect();
        let settings = settings::findings(sweep, &valid);
        let others = [
            omission::beside_open(sweep, &valid),
            sleeping::finding(sweep, &valid),
            published::tail(sweep, cases),
            published::repeated(sweep, cases),
        ];
        settings.into_iter().chain(others.into_iter().flatten()).collect()
    }
}

/// A client is slow at first: it connects, asks who leads a partition, and touches its memory for the first time.
fn first_second(observation: &Observation<'_>) -> Option<Finding> {
    let (first, others) = observation.trial.latency_intervals.split_first()?;
    let longest = others.iter().map(|second| second.max_us).max()?;
    let is_first = first.at_s <= FIRST_SECOND_S && first.max_us as f64 >= longest as f64 * MUCH_LONGER;
    is_first.then(|| {
        let message = format!(
            "the first second of the measured phase bounds the tail: {} at most in it, {} in the other {}",
            figure::duration_us(first.max_us as f64),
            figure::duration_us(longest as f64),
            figure::counted(others.len() as u64, "second", "seconds"),
        );
        let advice = "raise `phases.warm_up`, so that clients are connected and warm when it begins";
        Finding::new(Severity::Note, FindingKind::FirstSecond, message).with_hint(advice)
    })
}

/// The paths of the parameters in which two cases differ. The seed of a load at equal distances changes nothing.
fn differences<'a>(one: &'a Case, other: &'a Case) -> Vec<&'a str> {
    let paths = one.params.keys().chain(other.params.keys());
    let mut paths: Vec<&str> = paths
        .map(String::as_str)
        .filter(|path| *path != SEED && one.params.get(*path) != other.params.get(*path))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

const SEED: &str = "load.seed";

/// Seconds of a trial end a little after they should.
const FIRST_SECOND_S: f64 = 1.5;

/// How many times as long as ever again is more than what differs from second to second.
const MUCH_LONGER: f64 = 2.0;
