//! Figures that others published for a case, to stand beside the measured ones.

use serde::{Deserialize, Serialize};
use units::ByteSize;

/// One entry of the section `published`. A figure that was not published is absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The name of the case that the figures belong to.
    pub case: String,
    /// Events received by the relay per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_per_s: Option<f64>,
    /// Events forwarded by the relay per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded_per_s: Option<f64>,
    /// Use of the cores that the relay was limited to, in percent of one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Memory of the relay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// Who published it, and with what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}
