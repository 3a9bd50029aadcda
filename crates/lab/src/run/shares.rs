//! An event's share of what its batch takes: the stopwatches of the study of consumers.
//!
//! That study divides what a batch and its checkpoint take by the number of events. So does this, so that one over the total is the
//! rate that the stopwatches expect.

use std::collections::BTreeMap;

use super::plan::TrialPlan;
use crate::results::{Mean, RelayActivity, Stage, Stopwatches};

/// The shares, where our relay archives events beside another destination.
pub(super) fn means(plan: &TrialPlan<'_>, relay: Option<&RelayActivity>) -> BTreeMap<Stage, Mean> {
    let archives = plan.topology.destinations().any(|destination| destination.is_archive());
    let relay = relay.filter(|_| archives && !plan.is_external());
    relay.map(|relay| shares(relay.stopwatches, plan.parameters.relay.checkpoint_wait)).unwrap_or_default()
}

/// A checkpoint that nothing waits for takes nothing of an event's time.
fn shares(stopwatches: Stopwatches, awaits_checkpoint: bool) -> BTreeMap<Stage, Mean> {
    let Stopwatches { events: records, batches_us, checkpoints_us } = stopwatches;
    let mean = |total_us| Mean { records, total_us };
    match awaits_checkpoint {
        true => BTreeMap::from([
            (Stage::CheckpointShare, mean(checkpoints_us)),
            (Stage::Total, mean(batches_us + checkpoints_us)),
        ]),
        false => BTreeMap::from([(Stage::Total, mean(batches_us))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_its_share_of_its_batch_and_of_the_checkpoint_that_is_waited_for() {
        let stopwatches = Stopwatches { events: 20, batches_us: 560, checkpoints_us: 50 };
        let mean = |awaits, stage| shares(stopwatches, awaits).get(&stage).and_then(|mean| mean.mean_us());
        assert_eq!(mean(true, Stage::Total), Some(30.5));
        assert_eq!(mean(true, Stage::CheckpointShare), Some(2.5));
        assert_eq!(mean(false, Stage::Total), Some(28.0));
        assert_eq!(mean(false, Stage::CheckpointShare), None);
    }
}
