//! Whether the lab itself kept up: the condition for believing the other figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LatencySummary;

/// The generator and the sink of one trial, judged by the runner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GeneratorHealth {
    /// Whether the generator kept to its plan. `false` makes the case invalid.
    pub healthy: bool,
    /// Events meant for the measured phase that left more than 10 ms late because the generator was not there in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_events: Option<u64>,
    /// Events meant for the measured phase that left more than 10 ms late because earlier sends were unanswered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back_events: Option<u64>,
    /// How much later than intended the latest of these left, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back_longest_us: Option<u64>,
    /// Events meant for the measured phase that never left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub never_sent_events: Option<u64>,
    /// How much later than intended events left, in microseconds. Absent for loads without a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_us: Option<LatencySummary>,
    /// The highest number of events that waited for the sink at the end of a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink_lag_peak_events: Option<u64>,
}
