//! What roles count, and when they read it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{clock::RunTime, load::LoadCounts, results::EntityCounters, verify::Counts};

/// Counters with the moment at which they were read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// When.
    pub at: RunTime,
    /// What.
    pub counters: Counters,
    /// What the process has done on its sockets.
    #[serde(default)]
    pub sockets: SocketUse,
}

/// What the sockets of a role's process have done so far. Every figure only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketUse {
    /// Calls that read something.
    pub reads: u64,
    /// Calls that wrote something.
    pub writes: u64,
    /// Bytes that came.
    pub bytes_read: u64,
    /// Bytes that went.
    pub bytes_written: u64,
    /// Connections that it opened to others.
    #[serde(default)]
    pub connections: u64,
}

impl Counted {
    /// These counters as of `at`, with what this process has done on its sockets until now.
    #[must_use]
    pub fn new(at: RunTime, counters: Counters) -> Self {
        let sockets = amqp_tokio::SocketUse::of_this_process();
        Self {
            at,
            counters,
            sockets: SocketUse {
                reads: sockets.reads,
                writes: sockets.writes,
                bytes_read: sockets.bytes_read,
                bytes_written: sockets.bytes_written,
                connections: sockets.connections,
            },
        }
    }
}

impl SocketUse {
    /// What was done since `began`.
    #[must_use]
    pub const fn since(self, began: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(began.reads),
            writes: self.writes.saturating_sub(began.writes),
            bytes_read: self.bytes_read.saturating_sub(began.bytes_read),
            bytes_written: self.bytes_written.saturating_sub(began.bytes_written),
            connections: self.connections.saturating_sub(began.connections),
        }
    }
}

impl std::ops::Add for SocketUse {
    type Output = Self;

    /// Those of two processes together.
    fn add(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            bytes_read: self.bytes_read + other.bytes_read,
            bytes_written: self.bytes_written + other.bytes_written,
            connections: self.connections + other.connections,
        }
    }
}

/// The counters of one role. All grow, except [`SinkCounters::missing`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Counters {
    /// By entity name.
    Service(BTreeMap<String, EntityCounters>),
    /// The generator's.
    Load(LoadCounters),
    /// The pipeline's.
    Relay(RelayCounters),
    /// Nobody knows what a command in its place counts of events. It may tell what it costs inside.
    External(#[serde(default, skip_serializing_if = "Option::is_none")] Option<ExternalReading>),
    /// The receiver's.
    Sink(SinkCounters),
}

/// What a command in the relay's place reported of itself, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalReading {
    /// When the line came.
    pub at: RunTime,
    /// What it said.
    pub figures: ExternalFigures,
}

/// What a command can tell of itself, as `docs/external-systems.md` has it. What else it tells is not looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExternalFigures {
    /// Bytes that it has allocated since its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
    /// For how many microseconds its garbage collector has run since its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collecting_us: Option<u64>,
    /// The bytes that its heap takes at present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap_bytes: Option<u64>,
}

/// What a generator counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadCounters {
    /// Events by what became of them.
    pub events: LoadCounts,
    /// For how many microseconds it stood still because it was far enough ahead.
    pub held_us: u64,
}

/// What a pipeline counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayCounters {
    /// Events received from the source, those received again included.
    pub received: u64,
    /// Events that the destination accepted, those sent again included.
    pub forwarded: u64,
    /// Events of sends whose failure does not prove that they did not arrive (a time-out, a lost connection).
    pub doubtful: u64,
    /// Events of the source up to which everything has been accepted: the sum of the watermarks' progress. Each
    /// event counts once, however often it is received.
    pub completed: u64,
    /// Partitions opened, those opened again included. What was on the way when a partition was closed arrived nowhere.
    pub opened: u64,
    /// Partitions owned at present; all that the instance has where they are not shared.
    pub owned: u64,
    /// Events that the source's retention took before they were read. They will never be completed.
    #[serde(default)]
    pub missed: u64,
    /// Sends that the destination refused because a quota was exhausted.
    #[serde(default)]
    pub throttled: u64,
    /// When the first send was accepted.
    pub first_forwarded: Option<RunTime>,
    /// When the last one was.
    pub last_forwarded: Option<RunTime>,
}

/// What a receiver counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkCounters {
    /// Events by what they turned out to be.
    pub events: Counts,
    /// Different events.
    pub distinct: u64,
    /// Partitions opened, those opened again included.
    pub opened: u64,
    /// Different events that are in the dead-letter queue of the source.
    #[serde(default)]
    pub dead_lettered: u64,
    /// Partitions that the service closed because a quota was exhausted, and times that it asked to be left alone for that reason.
    #[serde(default)]
    pub throttled: u64,
    /// Partitions that the service closed, for whatever reason.
    #[serde(default)]
    pub closed: u64,
    /// Events that the destination's retention took before they were read.
    #[serde(default)]
    pub missed: u64,
    /// Events that were read and that the consumer has not done yet.
    #[serde(default)]
    pub undone: u64,
    /// Partitions of which the consumer says that it has done more than was read.
    #[serde(default)]
    pub ahead: u64,
    /// Whether it reads nothing before everything has been sent, so that none of this says anything until then.
    #[serde(default)]
    pub reads_at_the_end: bool,
    /// Acknowledged events that have not been seen yet; known after [`Command::Expect`].
    pub missing: Option<u64>,
}
