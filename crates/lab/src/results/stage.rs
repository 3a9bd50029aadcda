//! The stages into which the time of an event, or of a batch, divides.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LatencyDistribution, LatencySummary};

/// One stage. To destination and delivery follow one another and add up to the end-to-end latency. So do, of a record between two
/// clients of Kafka, waiting, produce, publish, commit, catch-up and fetch, of which there are means alone. Those of a call with a
/// connection of its own, from turn to close, add up to acknowledge in the same way. Lateness, in hub and
/// queue are parts of to destination. What the roles wait for in between are answers, which take the way there *and* back:
/// these [round trips](Direction::RoundTrip) overlap with the stages in one direction and add up to nothing.
///
/// To destination, delivery, lateness, in hub, acknowledge and those of a record are of events, the others of batches in the pipeline. Batch
/// send is the part of process after the routing, and a send is one of the sends that a batch send consists of.
/// Checkpoints and rounds of ownership are written beside all that and hold no batch up, unless a pipeline is told to wait for its
/// checkpoints. Where it archives events beside another destination, sends are told apart as forward and archive, and the shares of an
/// event in its batch are known as means.
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
    /// One send to one destination, from the handing over to its acceptance. One that is tried again begins again. In a call with a
    /// connection of its own: from the event to its acknowledgement.
    Send,
    /// One of the sends to a hub, queue or topic, where there is an archive beside it.
    Forward,
    /// One of the sends to an archive, where there is another destination beside it.
    Archive,
    /// One settlement of a peek-locked message.
    Settle,
    /// One checkpoint write.
    Checkpoint,
    /// The share of an event in the writing of the checkpoint that it waits for, with those of its batch.
    CheckpointShare,
    /// The share of an event in the time of its batch: from its turn until everything of it was accepted and, where the next one waits for
    /// that, until the checkpoint was written.
    Total,
    /// One round of reading all claims and renewing one's own.
    Ownership,
    /// From the end of one message until the next is worked on in its place.
    Vacant,
    /// A record: from its intended instant until it was given to the producer's client.
    Waiting,
    /// A record: from there until the service had the request that it came in.
    Produce,
    /// A record: from there until it was in the log.
    Publish,
    /// A record: from there until readers could have it.
    Commit,
    /// A record: from there until the consumer's client asked for it, if it had not before.
    CatchUp,
    /// A record: from there until the sink had it.
    Fetch,
    /// From the intended instant until the service's answer that it accepted the event.
    Answer,
    /// A call with a connection of its own: while others were worked on in the thread of its caller, before it and after it.
    Turn,
    /// Such a call: until there was a connection of TCP.
    Connect,
    /// Such a call: the handshake of TLS.
    Tls,
    /// Such a call: the login, or the declaration to do without.
    Sasl,
    /// Such a call: until the service had opened the connection. On Kafka all that is done before the first record.
    Open,
    /// Such a call: until the service had granted the claims of the token.
    Claims,
    /// Such a call: until there was a link with credit.
    Attach,
    /// Such a call: from the acknowledgement until the connection was closed.
    Close,
}

/// The mean of a stage whose parts are not known one by one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mean {
    /// Of how many records.
    pub records: u64,
    /// What it took of all of them together, in microseconds.
    pub total_us: u64,
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

    /// Those that add up to the end-to-end latency of a record between two clients of Kafka, in their order.
    pub const OF_RECORD: [Self; 6] =
        [Self::Waiting, Self::Produce, Self::Publish, Self::Commit, Self::CatchUp, Self::Fetch];

    /// What a call with a connection of its own does before it sends, in its order.
    pub const SET_UP: [Self; 6] =
        [Self::Connect, Self::Tls, Self::Sasl, Self::Open, Self::Claims, Self::Attach];

    /// Those that add up to such a call, in their order. No protocol has all of them.
    pub const OF_ISOLATED_CALL: [Self; 9] = [
        Self::Turn,
        Self::Connect,
        Self::Tls,
        Self::Sasl,
        Self::Open,
        Self::Claims,
        Self::Attach,
        Self::Send,
        Self::Close,
    ];

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
            Self::Forward => "forward",
            Self::Archive => "archive",
            Self::Settle => "settle",
            Self::Checkpoint => "checkpoint",
            Self::CheckpointShare => "checkpoint_share",
            Self::Total => "total",
            Self::Ownership => "ownership",
            Self::Vacant => "vacant",
            Self::Waiting => "waiting",
            Self::Produce => "produce",
            Self::Publish => "publish",
            Self::Commit => "commit",
            Self::CatchUp => "catch_up",
            Self::Fetch => "fetch",
            Self::Answer => "answer",
            Self::Turn => "turn",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Sasl => "sasl",
            Self::Open => "open",
            Self::Claims => "claims",
            Self::Attach => "attach",
            Self::Close => "close",
        }
    }

    /// Which way it goes; `None` for what is no part of an event's way.
    #[must_use]
    pub const fn direction(self) -> Option<Direction> {
        match self {
            Self::ToDestination
            | Self::Delivery
            | Self::Lateness
            | Self::InHub
            | Self::Queue
            | Self::Waiting
            | Self::Produce
            | Self::Publish
            | Self::Commit
            | Self::CatchUp
            | Self::Fetch => Some(Direction::OneWay),
            Self::Acknowledge
            | Self::Process
            | Self::BatchSend
            | Self::Send
            | Self::Forward
            | Self::Archive
            | Self::Settle
            | Self::Checkpoint
            | Self::Ownership
            | Self::Answer
            | Self::Connect
            | Self::Tls
            | Self::Sasl
            | Self::Open
            | Self::Claims
            | Self::Attach
            | Self::Close => Some(Direction::RoundTrip),
            Self::Vacant | Self::Turn | Self::CheckpointShare | Self::Total => None,
        }
    }

    /// The summary of its samples with its direction; `None` if there are none.
    pub(super) fn summary(self, distribution: &LatencyDistribution) -> Option<LatencySummary> {
        Some(LatencySummary { direction: self.direction(), ..distribution.summary()? })
    }

    /// The summary of a mean with its direction; `None` of nothing.
    pub(super) fn summary_of_mean(self, mean: Mean) -> Option<LatencySummary> {
        Some(LatencySummary {
            count: mean.records,
            mean: Some((mean.mean_us()? * 1_000.0).round() / 1_000.0),
            direction: self.direction(),
            ..LatencySummary::default()
        })
    }
}

impl Mean {
    /// In microseconds.
    #[must_use]
    pub fn mean_us(self) -> Option<f64> {
        (self.records > 0).then(|| self.total_us as f64 / self.records as f64)
    }
}

impl std::ops::AddAssign for Mean {
    fn add_assign(&mut self, other: Self) {
        self.records += other.records;
        self.total_us += other.total_us;
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls | Self::Sasl => formatter.pad(&self.name().to_uppercase()),
            _ => formatter.pad(&self.name().replace('_', " ")),
        }
    }
}
