//! The forwarding of messages from a queue: concurrency as the bound (Little's law), dead letters, and versions of
//! systems that take a large buffer for each send.

mod concurrency;
mod occupancy;
#[cfg(test)]
mod tests;
mod versions;

pub use occupancy::{Occupancy, OccupancyParts};

use super::{Observation, Study, StudyColumn};
use crate::figure;
use crate::results::{Case, CrossCaseFinding, Figure, Finding, FindingKind, Severity, Shape, SourceShape};

/// The study; for every case whose pipeline reads a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueForward;

impl Study for QueueForward {
    fn is_about(&self, shape: &Shape) -> bool {
        matches!(shape.source(), Some(SourceShape::Queue { .. }))
    }

    fn columns(&self) -> &'static [StudyColumn] {
        const COLUMNS: [StudyColumn; 2] = [
            StudyColumn { figure: Figure::Redelivered, is_alarming: false },
            StudyColumn { figure: Figure::DeadLettered, is_alarming: true },
        ];
        &COLUMNS
    }

    fn bound(&self, observation: &Observation<'_>) -> Option<Finding> {
        concurrency::bound(observation)
    }

    fn findings(&self, observation: &Observation<'_>) -> Vec<Finding> {
        dead_letters(observation).into_iter().collect()
    }

    fn cross_case(&self, sweep: &str, cases: &[&Case]) -> Vec<CrossCaseFinding> {
        let bound = concurrency::finding(sweep, cases);
        bound.into_iter().chain(versions::findings(sweep, cases)).collect()
    }
}

/// Messages that failed so often that the service has put them aside. If no send was to fail on purpose, what is measured
/// has not done its work.
fn dead_letters(observation: &Observation<'_>) -> Option<Finding> {
    let delivery = observation.trial.delivery.as_ref()?;
    let dead_lettered = delivery.dead_lettered.filter(|count| *count > 0)?;
    let pipeline = observation.shape.pipeline.as_ref()?;
    let SourceShape::Queue { maximum_delivery_count, .. } = pipeline.source else {
        return None;
    };
    let severity = match pipeline.fails_on_purpose || observation.trial.interrupted {
        true => Severity::Warning,
        false => Severity::Failure,
    };
    let message = format!(
        "{} of {} sent went to the dead-letter queue (not lost), each after {} (`queues.maximum_delivery_count`)",
        observation.shape.noun.counted(dead_lettered),
        figure::count(delivery.sent),
        figure::counted(maximum_delivery_count, "failed delivery", "failed deliveries")
    );
    Some(Finding::new(severity, FindingKind::EventsDeadLettered, message))
}
