//! The stages into which the time of an event, or of a batch, divides.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One stage. Lateness, acknowledge, in hub and delivery are of events, the others of batches in the pipeline. One
/// after the other, lateness, acknowledge, in hub, queue, process and delivery lead from an event's intended instant to
/// the sink; what they have in common twice are the ways back of two acknowledgements. Batch send is the part of
/// process after the routing, and a send is one of the sends that a batch send consists of. Checkpoints and rounds of
/// ownership are written beside all that and hold no batch up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// From the intended instant until the event left for the service: whatever the generator waited for.
    Lateness,
    /// From the send until the service accepted it.
    Acknowledge,
    /// From the append to the source's log until the pipeline had the event's batch, the filling of which is part of it.
    InHub,
    /// From the append to the destination's log until the sink had the event.
    Delivery,
    /// One batch in the pipeline: from its arrival until it was its turn.
    Queue,
    /// From there until everything of it was accepted.
    Process,
    /// From the first send of one batch to its last outcome.
    BatchSend,
    /// One send to one destination, from the handing over to its acceptance. One that is tried again begins again.
    Send,
    /// One checkpoint write.
    Checkpoint,
    /// One round of reading all claims and renewing one's own.
    Ownership,
    /// One settlement of a peek-locked message.
    Settle,
    /// From the end of one message until the next is worked on in its place.
    Vacant,
}

impl Stage {
    /// The name that `results.json` uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lateness => "lateness",
            Self::Acknowledge => "acknowledge",
            Self::InHub => "in_hub",
            Self::Delivery => "delivery",
            Self::Queue => "queue",
            Self::Process => "process",
            Self::BatchSend => "batch_send",
            Self::Send => "send",
            Self::Checkpoint => "checkpoint",
            Self::Ownership => "ownership",
            Self::Settle => "settle",
            Self::Vacant => "vacant",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.name().replace('_', " "))
    }
}
