//! Roles on other machines: what they ran on, and how well their clocks are known.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Chrony, Role, environment};
use crate::limits::{available_cores, outer_limits};

/// A role that was started by a command of the scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoteRole {
    /// Which.
    pub role: Role,
    /// Which of its instances, from 1.
    pub instance: u32,
    /// What it ran on.
    pub machine: Machine,
    /// Its clock against the lab's; absent if the trial ended before the measured phase did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockOffset>,
}

/// The machine of a role. No host name, no user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The processor, as it calls itself.
    pub cpu_model: String,
    /// Logical cores that the role may use.
    pub cores: u32,
    /// Cores that a quota allows, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_limit: Option<f64>,
    /// Memory of the machine in bytes.
    pub memory_bytes: u64,
    /// Memory that the role may use in bytes, if that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// Operating system and kernel release.
    pub kernel: String,
    /// Its wall clock, where chrony runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chrony: Option<Chrony>,
}

/// How far the monotonic clock of a role's machine was ahead of that of the lab's in the measured phase. Machines count
/// from their start, so that even a large offset means nothing but a difference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClockOffset {
    /// In the middle of the measured phase, in microseconds.
    pub offset_us: f64,
    /// How far the true offset may be from what latencies are corrected by, at any time of the measured phase, in
    /// microseconds: half the shortest round trips, and what clocks may drift between them.
    pub bound_us: f64,
    /// How much it grew in the measured phase, in microseconds.
    pub drift_us: f64,
    /// The shortest round trip, in microseconds.
    pub round_trip_us: f64,
    /// How many questions were answered.
    pub exchanges: u64,
}

impl Machine {
    /// That of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        let limits = outer_limits().unwrap_or_default();
        Self {
            cpu_model: environment::own_cpu_model(),
            cores: available_cores(),
            core_limit: limits.cores,
            memory_bytes: environment::own_memory_bytes(),
            memory_limit_bytes: limits.memory_bytes,
            kernel: environment::own_kernel(),
            chrony: Chrony::of_this_machine(),
        }
    }
}
