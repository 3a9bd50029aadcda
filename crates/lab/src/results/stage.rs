//! The stages into which the time of an event, or of a batch, divides.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LatencyDistribution, LatencySummary};

/// One stage. To destination and delivery follow one another and add up to the end-to-end latency. Lateness, in hub and
/// queue are parts of to destination. What the roles wait for in between are answers, which take the way there *and* back:
/// these [round trips](Direction::RoundTrip) overlap with the stages in one direction and add up to nothing.
///
/// To destination, delivery, lateness, in hub and acknowledge are of events, the others of batches in the pipeline. Batch
/// send is the part of process after the routing, and a send is one of the sends that a batch send consists of.
/// Checkpoints and rounds of ownership are written beside all that and hold no batch up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// From the intended instant until the append to the log that the sink reads.
    ToDestination,
    /// From the append to the destination's log until the sink had the event.
    Delivery,
    /// From the intended instant until the event left for the service: whatever the generator waited for.
    Lateness,
    /// From the append to the source's log until the pipeline had the event's batch, the filling of which is part of it.
    InHub,
    /// One batch in the pipeline: from its arrival until it was its turn.
    Queue,
    /// From the send until the service's answer that it accepted the event.
    Acknowledge,
    /// One batch in the pipeline: from its turn until the answer that everything of it was accepted.
    Process,
    /// From the first send of one batch to its last outcome.
    BatchSend,
    /// One send to one destination, from the handing over to its acceptance. One that is tried again begins again.
    Send,
    /// One settlement of a peek-locked message.
    Settle,
    /// One checkpoint write.
    Checkpoint,
    /// One round of reading all claims and renewing one's own.
    Ownership,
    /// From the end of one message until the next is worked on in its place.
    Vacant,
}

/// Which way a stage goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// With the event, towards the sink.
    OneWay,
    /// To a service and back: no event waits for the way back.
    RoundTrip,
}

impl Stage {
    /// Those that add up to the end-to-end latency of an event.
    pub const WHOLE: [Self; 2] = [Self::ToDestination, Self::Delivery];

    /// The name that `results.json` uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ToDestination => "to_destination",
            Self::Delivery => "delivery",
            Self::Lateness => "lateness",
            Self::InHub => "in_hub",
            Self::Queue => "queue",
            Self::Acknowledge => "acknowledge",
            Self::Process => "process",
            Self::BatchSend => "batch_send",
            Self::Send => "send",
            Self::Settle => "settle",
            Self::Checkpoint => "checkpoint",
            Self::Ownership => "ownership",
            Self::Vacant => "vacant",
        }
    }

    /// Which way it goes; `None` for what is no part of an event's way.
    #[must_use]
    pub const fn direction(self) -> Option<Direction> {
        match self {
            Self::ToDestination | Self::Delivery | Self::Lateness | Self::InHub | Self::Queue => {
                Some(Direction::OneWay)
            }
            Self::Acknowledge
            | Self::Process
            | Self::BatchSend
            | Self::Send
            | Self::Settle
            | Self::Checkpoint
            | Self::Ownership => Some(Direction::RoundTrip),
            Self::Vacant => None,
        }
    }

    /// The summary of its samples with its direction; `None` if there are none.
    pub(super) fn summary(self, distribution: &LatencyDistribution) -> Option<LatencySummary> {
        Some(LatencySummary { direction: self.direction(), ..distribution.summary()? })
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.name().replace('_', " "))
    }
}
