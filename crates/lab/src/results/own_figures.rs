//! What a system in the relay's place reported of itself: what its work costs inside.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Figures of the measured phase that cannot be seen from the outside. What the system does not tell is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnFigures {
    /// Bytes that it allocated for each event that it forwarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub allocated_bytes_per_event: Option<f64>,
    /// For how much of the time its garbage collector ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub collecting_percent: Option<f64>,
    /// The bytes of its heap at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heap_bytes: Option<u64>,
}
