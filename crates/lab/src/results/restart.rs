//! An instance of the relay that ended in the measured phase on purpose, and was started again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scenario::EndBy;

/// How and when it ended, counted from the beginning of the measured phase.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelayRestart {
    /// How it ended.
    pub by: EndBy,
    /// When, in seconds.
    #[schemars(range(min = 0.0))]
    pub ended_s: f64,
    /// When its successor was connected and began, in seconds; absent if it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub back_s: Option<f64>,
}
