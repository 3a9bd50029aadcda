//! The figures by which two runs are compared.

use serde::{Deserialize, Serialize};

use crate::figure;
use crate::results::{Case, Trial};
use crate::statistics::Better;

/// A figure that every trial has a value of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Events forwarded per second.
    ForwardedPerS,
    /// CPU time of the measured role, in microseconds per forwarded event.
    CpuUsPerEvent,
    /// Its peak memory in bytes.
    MemoryPeakBytes,
    /// The median of the latency, in microseconds. Not where the load keeps the pipeline busy: there it is the time that
    /// events wait for their turn, which differs from run to run by more than builds do.
    LatencyP50Us,
    /// Its 99th percentile, in microseconds; likewise.
    LatencyP99Us,
}

impl Figure {
    /// All of them, the main one first.
    pub const ALL: [Self; 5] = [
        Self::ForwardedPerS,
        Self::CpuUsPerEvent,
        Self::MemoryPeakBytes,
        Self::LatencyP50Us,
        Self::LatencyP99Us,
    ];

    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ForwardedPerS => "forwarded/s",
            Self::CpuUsPerEvent => "CPU per event",
            Self::MemoryPeakBytes => "memory peak",
            Self::LatencyP50Us => "latency p50",
            Self::LatencyP99Us => "latency p99",
        }
    }

    /// Which of two values is the better one.
    #[must_use]
    pub const fn better(self) -> Better {
        match self {
            Self::ForwardedPerS => Better::Higher,
            Self::CpuUsPerEvent | Self::MemoryPeakBytes | Self::LatencyP50Us | Self::LatencyP99Us => {
                Better::Lower
            }
        }
    }

    /// A value for a person to read.
    #[must_use]
    pub fn text(self, value: f64) -> String {
        match self {
            Self::ForwardedPerS => figure::rate(value),
            Self::CpuUsPerEvent => format!("{:.0} ns", value * 1e3),
            Self::MemoryPeakBytes => figure::bytes(value),
            Self::LatencyP50Us | Self::LatencyP99Us => figure::duration_us(value),
        }
    }

    /// Its values in the trials of a case that reached their end; `None` if one of them has none.
    pub(super) fn of_trials(self, case: &Case) -> Option<Vec<f64>> {
        let whole = case.trials.iter().filter(|trial| !trial.interrupted);
        whole.map(|trial| self.of_trial(case, trial)).collect()
    }

    fn of_trial(self, case: &Case, trial: &Trial) -> Option<f64> {
        let role = trial.roles.get(&case.measured_role);
        match self {
            Self::ForwardedPerS => trial.forwarded_per_s,
            // Seconds per million are microseconds for each.
            Self::CpuUsPerEvent => Some(role?.per_million_events?.cpu_seconds),
            Self::MemoryPeakBytes => Some(role?.memory_peak_bytes as f64),
            Self::LatencyP50Us | Self::LatencyP99Us if is_kept_busy(case) => None,
            Self::LatencyP50Us => trial.latency_us.as_ref()?.p50.map(|us| us as f64),
            Self::LatencyP99Us => trial.latency_us.as_ref()?.p99.map(|us| us as f64),
        }
    }
}

/// Whether the load of a case is as much as the pipeline takes.
fn is_kept_busy(case: &Case) -> bool {
    let mode = case.params.get("load.mode").and_then(|mode| mode.as_str());
    matches!(mode, Some("saturate" | "backlog"))
}
