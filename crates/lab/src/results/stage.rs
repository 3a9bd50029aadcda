//! The stages into which the time of an event, or of a batch, divides.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One stage. The first five follow one event from its intended instant to the sink and add up to the whole;
/// the last four are the pipeline's own work on a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// From the intended instant until the generator got to the event.
    Lateness,
    /// From there until the event left for the service: waiting for credit, for its batch to fill.
    ClientQueue,
    /// From the send until the service accepted it.
    Acknowledge,
    /// From the append to the source log until the event left the service towards the pipeline.
    InHub,
    /// From the pipeline's accepted send until the sink had the event.
    Delivery,
    /// One batch in the pipeline: from its arrival until everything of it was sent and checkpointed.
    Process,
    /// One send to one destination, with its retries.
    Send,
    /// One checkpoint write.
    Checkpoint,
    /// One settlement of a peek-locked message.
    Settle,
}

impl Stage {
    /// The name that `results.json` uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lateness => "lateness",
            Self::ClientQueue => "client_queue",
            Self::Acknowledge => "acknowledge",
            Self::InHub => "in_hub",
            Self::Delivery => "delivery",
            Self::Process => "process",
            Self::Send => "send",
            Self::Checkpoint => "checkpoint",
            Self::Settle => "settle",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.name().replace('_', " "))
    }
}
