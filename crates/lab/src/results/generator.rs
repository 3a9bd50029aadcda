//! Whether the lab itself kept up: the condition for believing the other figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LatencySummary;

/// The generator and the sink of one trial, judged by the runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GeneratorHealth {
    /// Whether the generator kept to its plan. `false` makes the case invalid.
    pub healthy: bool,
    /// Events of the plan that left later than their intended instant by more than the scenario tolerates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_events: Option<u64>,
    /// Events of the plan that were not sent before the phase ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub never_sent_events: Option<u64>,
    /// How much later than intended events left, in microseconds. Absent for loads without a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_us: Option<LatencySummary>,
    /// The highest number of events that waited for the sink at the end of a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink_lag_peak_events: Option<u64>,
}
