//! What belongs to single studies: their columns, and the findings that only they make.
//!
//! General code asks for the studies that a case is of, by its shape, and knows none by name. A new study is a scenario
//! file, one file (or folder) in here with an entry in `ALL`, and whatever it measures that nothing measured before.

mod connection_ports;
mod consumer_strategies;
mod ingestion;
mod kafka_latency;
mod published_twin;
mod queue_forward;

pub use queue_forward::{Occupancy, OccupancyParts};

use crate::results::{
    Case, CrossCaseFinding, Figure, Finding, FindingKind, MeasuredComponent, Role, RoleUsage, Severity,
    Shape, Trial,
};

/// What one study adds to what is said of every case.
pub trait Study: Sync {
    /// Whether cases of this shape are of the study.
    fn is_about(&self, shape: &Shape) -> bool;

    /// Its columns of the result table, beside those of every table.
    fn columns(&self) -> &'static [StudyColumn] {
        &[]
    }

    /// The latencies of its table, from the intended instant, where p50 and p99 do not say enough.
    fn latencies(&self) -> Option<&'static [Figure]> {
        None
    }

    /// What bounded the rate of a trial, if the study explains it: nothing else is blamed for idle CPU then. Not asked
    /// where a quota was the bound.
    fn bound(&self, observation: &Observation<'_>) -> Option<Finding> {
        let _ = observation;
        None
    }

    /// What else it says of a trial.
    fn findings(&self, observation: &Observation<'_>) -> Vec<Finding> {
        let _ = observation;
        Vec::new()
    }

    /// What the cases of one sweep show only beside one another.
    fn cross_case(&self, sweep: &str, cases: &[&Case]) -> Vec<CrossCaseFinding> {
        let _ = (sweep, cases);
        Vec::new()
    }
}

/// A trial with what is known of its case.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// The shape of the case.
    pub shape: &'a Shape,
    /// What is measured.
    pub measured: &'a MeasuredComponent,
    /// By the processes of which role.
    pub measured_role: Role,
    /// The trial.
    pub trial: &'a Trial,
}

impl<'a> Observation<'a> {
    /// What the measured role used.
    #[must_use]
    pub fn usage(&self) -> Option<&'a RoleUsage> {
        self.trial.roles.get(&self.measured_role)
    }
}

/// A column that is shown where a case has the figure above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StudyColumn {
    /// What it shows.
    pub figure: Figure,
    /// Whether a value above zero speaks against the case.
    pub is_alarming: bool,
}

/// The studies that cases of this shape are of.
pub fn of(shape: &Shape) -> impl Iterator<Item = &'static dyn Study> {
    ALL.into_iter().filter(|study| study.is_about(shape))
}

/// Every study that adds something of its own.
const ALL: [&dyn Study; 4] = [
    &queue_forward::QueueForward,
    &kafka_latency::KafkaLatency,
    &ingestion::Ingestion,
    &consumer_strategies::ConsumerStrategies,
];

/// A note about several cases of a sweep.
fn note<'a>(
    kind: FindingKind,
    sweep: &str,
    cases: impl IntoIterator<Item = &'a Case>,
    message: String,
) -> CrossCaseFinding {
    let mut names: Vec<String> = Vec::new();
    for case in cases {
        if !names.contains(&case.name) {
            names.push(case.name.clone());
        }
    }
    CrossCaseFinding {
        severity: Severity::Note,
        kind,
        sweep: sweep.to_owned(),
        cases: names,
        message,
        hint: None,
    }
}
