//! Whether both sides had the machine to themselves: a difference between two runs, one of which shared it, is not one
//! between builds.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::{Case, SHARED_MACHINE_PERCENT, Summary};

/// How much of the machine other processes used, in percent, over the trials of each side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtherCpu {
    /// Of the baseline.
    pub baseline_percent: Summary,
    /// Of the candidate.
    pub candidate_percent: Summary,
}

impl OtherCpu {
    /// `None` if either side does not know it.
    pub(super) fn of(baseline: &Case, candidate: &Case) -> Option<Self> {
        let side =
            |case: &Case| Summary::of(case.completed_trials().filter_map(|trial| trial.other_cpu_percent()));
        Some(Self { baseline_percent: side(baseline)?, candidate_percent: side(candidate)? })
    }

    /// Whether a side shared the machine in any trial, or had clearly less of it than the other.
    pub(super) fn is_in_doubt(&self) -> bool {
        let sides = [self.baseline_percent, self.candidate_percent];
        let is_shared = sides.iter().any(|side| side.max >= SHARED_MACHINE_PERCENT);
        let [baseline, candidate] = sides.map(|side| side.median);
        is_shared || (baseline - candidate).abs() >= SHARED_MACHINE_PERCENT / 2.0
    }
}

impl fmt::Display for OtherCpu {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |side: Summary| match side.max.round() > side.median.round() {
            true => format!("{:.0} % (at most {:.0} %)", side.median, side.max),
            false => format!("{:.0} %", side.median),
        };
        let [baseline, candidate] = [self.baseline_percent, self.candidate_percent].map(side);
        write!(
            formatter,
            "other processes used {baseline} of the machine in the baseline and {candidate} in the candidate"
        )
    }
}
