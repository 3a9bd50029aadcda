//! The steps of a transform, as files write them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One step. A step sees what those before it have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Events for which this condition is true go on; the others are done with.
    Filter(String),
    /// Properties get other names, each with its value as it is. One that has the new name already is replaced.
    Rename(BTreeMap<String, String>),
    /// Properties get the values of expressions. One whose value is null is dropped.
    Set(BTreeMap<String, String>),
    /// Properties are dropped.
    Drop(Vec<String>),
}
