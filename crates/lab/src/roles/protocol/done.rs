//! How far a consumer that forwards nothing has done what it reads.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{clock::RunTime, scenario::Secret};

/// A consumer has done everything in a partition up to and including an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoneMark {
    /// The partition.
    pub partition: u32,
    /// The event, by its sequence number in the partition.
    pub sequence_number: i64,
    /// When that became known.
    pub at: RunTime,
}

/// How a sink learns what a consumer has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum DoneBy {
    /// By reports, each as [`Command::Done`](super::Command::Done).
    Reports,
    /// It looks at the checkpoints in the container [`CHECKPOINT_CONTAINER`](super::CHECKPOINT_CONTAINER).
    Checkpoints {
        /// The storage account.
        storage: Secret,
        /// The hub that is read.
        hub: String,
        /// The group that reads it.
        consumer_group: String,
    },
}

/// How often checkpoints are looked at, which is how exactly it is known when an event was done.
pub const CHECKPOINTS_EVERY: Duration = Duration::from_millis(100);
