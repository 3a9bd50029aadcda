//! Latency at a share of the rate that a case was found to carry.
//!
//! A load that always has more to offer keeps a queue in front of the pipeline, as long as it is allowed to be. How long an
//! event takes then follows from the length of that queue and the rate (Little's law), and says nothing about the pipeline.
//! So one more trial offers a share of the rate that was found, on a schedule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LatencySummary, Trial};

/// The trial at a share of the rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Paced {
    /// The share of the case's throughput that was offered, in percent.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 100.0))]
    pub share_percent: f64,
    /// That share of the throughput, in events per second.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub rate_per_s: f64,
    /// What came of it. No send failed on purpose.
    pub trial: Trial,
}

impl Paced {
    /// The latency, end to end from each event's intended instant, if the trial reached its end and the generator kept to its
    /// schedule.
    #[must_use]
    pub fn latency_us(&self) -> Option<&LatencySummary> {
        let kept_up = self.trial.generator.as_ref().is_none_or(|generator| generator.healthy);
        self.trial.latency_us.as_ref().filter(|_| kept_up && !self.trial.interrupted)
    }
}
