//! A consumer that writes each event to a topic and to an archive and records its progress: what bounds each way of doing it, and
//! whether its rate and its stopwatches tell one story.

mod concurrency;
mod stopwatches;
#[cfg(test)]
mod tests;

use super::{Observation, Study, StudyColumn, note};
use crate::results::{Case, CrossCaseFinding, Figure, Finding, Shape};

/// The study; for every case whose pipeline archives events beside another destination.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConsumerStrategies;

impl Study for ConsumerStrategies {
    fn is_about(&self, shape: &Shape) -> bool {
        shape.pipeline.as_ref().is_some_and(|pipeline| pipeline.archiving.is_some())
    }

    /// The study's stopwatches.
    fn columns(&self) -> &'static [StudyColumn] {
        const COLUMNS: [StudyColumn; 4] = [
            StudyColumn { figure: Figure::ForwardMean, is_alarming: false },
            StudyColumn { figure: Figure::ArchiveMean, is_alarming: false },
            StudyColumn { figure: Figure::CheckpointShareMean, is_alarming: false },
            StudyColumn { figure: Figure::TotalMean, is_alarming: false },
        ];
        &COLUMNS
    }

    fn bound(&self, observation: &Observation<'_>) -> Option<Finding> {
        concurrency::bound(observation)
    }

    fn cross_case(&self, sweep: &str, cases: &[&Case]) -> Vec<CrossCaseFinding> {
        let valid: Vec<&Case> = cases.iter().copied().filter(|case| case.passed).collect();
        let found = [
            stopwatches::one_story(sweep, &valid),
            concurrency::unstated(sweep, &valid),
            concurrency::bounds(sweep, &valid),
            stopwatches::twin(sweep, &valid),
            concurrency::ordered(sweep, &valid),
        ];
        found.into_iter().flatten().collect()
    }
}

/// Whether the case takes up the next events only when a checkpoint covers those before.
fn awaits_checkpoint(case: &Case) -> bool {
    let shape = case.shape();
    let archiving = shape.pipeline.as_ref().and_then(|pipeline| pipeline.archiving.as_ref());
    archiving.is_some_and(|archiving| archiving.awaits_checkpoint)
}
