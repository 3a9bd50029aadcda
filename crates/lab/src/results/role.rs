//! The processes of a run, and what each of them was allowed to use and did use.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A process of the lab. Every role runs in a process of its own, so that its CPU and memory are its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Produces the events.
    Load,
    /// The service that the lab starts, where the target is not a remote one. Results and scenarios call it `hub`.
    #[serde(rename = "hub")]
    Service,
    /// The pipeline that is measured: Parshall's relay, or the scenario's external command.
    Relay,
    /// Receives what the pipeline forwarded, and verifies it.
    Sink,
}

impl Role {
    /// All roles, in the order in which events meet them.
    pub const ALL: [Self; 4] = [Self::Load, Self::Service, Self::Relay, Self::Sink];

    /// The name that users read and that `results.json` uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Service => "hub",
            Self::Relay => "relay",
            Self::Sink => "sink",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// By what means the limits of a role were put on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitMechanism {
    /// The unified control-group hierarchy: CPU quota and memory ceiling.
    CgroupV2,
    /// The older control-group hierarchies: CPU quota and memory ceiling.
    CgroupV1,
    /// The process was pinned to as many cores; its memory was watched, not bounded.
    Affinity,
    /// Nothing bounds the role.
    None,
}

impl LimitMechanism {
    /// The name that users read and that `results.json` uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CgroupV2 => "cgroup v2",
            Self::CgroupV1 => "cgroup v1",
            Self::Affinity => "CPU affinity",
            Self::None => "none",
        }
    }
}

impl fmt::Display for LimitMechanism {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// The limits of one role in one trial, as they were in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// What enforces them.
    pub mechanism: LimitMechanism,
    /// Cores that the role may use at most; absent if it may use all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub cores: Option<f64>,
    /// Memory that the role may use at most, in bytes; absent if unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// What a reader has to know: that a limit was asked for and could not be set, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What one role used during the measured phase of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleUsage {
    /// CPU time over elapsed time, where 100 is everything that the role was allowed to use: its limit in
    /// cores, or all cores of the machine if it has none. The published studies count in the same way.
    #[schemars(range(min = 0.0))]
    pub cpu_percent: f64,
    /// CPU time, user and system, in seconds.
    #[schemars(range(min = 0.0))]
    pub cpu_seconds: f64,
    /// Highest resident memory, in bytes.
    pub memory_peak_bytes: u64,
    /// Mean of the resident memory over the samples, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_average_bytes: Option<u64>,
    /// What a million forwarded events cost; absent where none was forwarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_million_events: Option<PerMillionEvents>,
    /// Connections that its processes opened, from their start to the end of the phase: those that are kept are opened before it.
    /// Absent for a process that is not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_opened: Option<u64>,
    /// The limits in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// What one role used in the measured phase, for each million events that the pipeline forwarded in it; without one, that were
/// acknowledged to the load, or that the sink received.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PerMillionEvents {
    /// CPU time in seconds; also: microseconds per event.
    #[schemars(range(min = 0.0))]
    pub cpu_seconds: f64,
    /// Times that a thread gave up its CPU or lost it.
    #[schemars(range(min = 0.0))]
    pub context_switches: f64,
    /// System calls that read or wrote something: sockets, files, and the descriptors by which threads wake one
    /// another. Waiting (`epoll_wait`, `futex`) is not in it; the context switches tell of that. Absent for a process
    /// that is not ours, whose calls on sockets nobody counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub system_calls: Option<f64>,
    /// Bytes that came over sockets, what the protocol adds included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub bytes_received: Option<f64>,
    /// Bytes that went over sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub bytes_sent: Option<f64>,
}
