//! Figures of the published study that a case repeats.

use serde::{Deserialize, Serialize};

/// What the study printed for the same case; what it did not print is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Events received by the pipeline per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_per_s: Option<f64>,
    /// Events forwarded by the pipeline per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded_per_s: Option<f64>,
    /// CPU of the pipeline, where 100 is everything it was allowed to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Memory of the pipeline in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Who published it, and how it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}
