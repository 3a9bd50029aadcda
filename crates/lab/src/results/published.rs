//! Figures that others published for a case, to stand beside the measured ones: an entry of the section `published` of
//! a scenario, and of a case in the results.

use serde::{Deserialize, Serialize, Serializer};
use units::ByteSize;

/// What a study printed for a case; what it did not print is absent.
///
/// Scenario files may write the memory as `memory: 1 GB`; in results it is `memory_bytes`, a number.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The name of the case that the figures belong to.
    pub case: String,
    /// Events received by the pipeline per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_per_s: Option<f64>,
    /// Events forwarded by the pipeline per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded_per_s: Option<f64>,
    /// CPU of the pipeline, where 100 is everything it was allowed to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Memory of the pipeline.
    #[serde(
        default,
        rename = "memory_bytes",
        alias = "memory",
        serialize_with = "as_bytes",
        skip_serializing_if = "Option::is_none"
    )]
    pub memory: Option<ByteSize>,
    /// Who published it, and how it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

fn as_bytes<S: Serializer>(size: &Option<ByteSize>, serializer: S) -> Result<S::Ok, S::Error> {
    size.map(ByteSize::bytes).serialize(serializer)
}
