//! How far a saturating load may be ahead of what is measured.
//!
//! Our relay between hubs gets what the scenario says. The speed of a command is unknown beforehand, and what it has
//! not carried when the load ends must arrive before the trial ends. So the load is ahead of a command by a few seconds
//! of its own work, and by little while the command has not carried anything yet. The same goes for our relay from or
//! to queues, whose speed follows from how many messages it may work on at once.

use super::plan::TrialPlan;
use crate::scenario::LoadMode;

/// The lead of a saturating load, in events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MaxLag {
    present: u64,
    least: u64,
    most: u64,
    /// Whether it follows the speed of what is measured.
    follows: bool,
}

impl MaxLag {
    /// The lead in a trial; `None` where the load does not follow what is measured.
    pub(super) fn of(plan: &TrialPlan<'_>) -> Option<Self> {
        if plan.mode() != LoadMode::Saturate {
            return None;
        }
        let most = plan.parameters.lag_limit();
        let mut entities = plan.topology.in_order().into_iter();
        Some(match entities.all(|(_, entity)| entity.is_log()) {
            true if !plan.is_external() => Self::constant(most),
            true => Self::following(LEAST, most),
            false => Self::following(LEAST_OF_QUEUE, most),
        })
    }

    /// A lead of `most` events from the beginning.
    const fn constant(most: u64) -> Self {
        Self { present: most, least: most, most, follows: false }
    }

    /// A lead that grows with what is forwarded, from `least` up to `most` events.
    fn following(least: u64, most: u64) -> Self {
        let least = least.min(most);
        Self { present: least, least, most, follows: true }
    }

    /// The lead of this moment.
    pub(super) const fn events(self) -> u64 {
        self.present
    }

    /// The pipeline has lately forwarded so many events per second.
    pub(super) fn note(&mut self, forwarded_per_s: f64) {
        if self.follows {
            let wanted = (forwarded_per_s * SECONDS) as u64;
            self.present = wanted.clamp(self.least, self.most);
        }
    }
}

/// What a command may have before it in seconds of its work: enough for a partition or two that rest, and far less than
/// the time to drain.
const SECONDS: f64 = 4.0;

/// A full batch for each of many partitions, and what a fast command carries between two readings.
const LEAST: u64 = 20_000;

/// Several times what any command works on at once, and what one that forwards a hundred per second can still drain.
const LEAST_OF_QUEUE: u64 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_relay_gets_what_the_scenario_says() {
        let mut lead = MaxLag::constant(2_000_000);
        lead.note(10.0);
        assert_eq!(lead.events(), 2_000_000);
    }

    #[test]
    fn a_command_gets_a_few_seconds_of_its_own_work() {
        let mut lead = MaxLag::following(LEAST, 2_000_000);
        assert_eq!(lead.events(), 20_000);
        lead.note(12_000.0);
        assert_eq!(lead.events(), 48_000);
        lead.note(5_000_000.0);
        assert_eq!(lead.events(), 2_000_000);
        lead.note(0.0);
        assert_eq!(lead.events(), 20_000);
    }

    #[test]
    fn a_small_lead_stays_small() {
        let mut lead = MaxLag::following(LEAST, 500);
        lead.note(12_000.0);
        assert_eq!(lead.events(), 500);
    }
}
