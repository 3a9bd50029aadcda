//! What limited a trial: symptoms that are found in its figures, with their causes and the setting to change.
//!
//! The published study of the fan-out ends with what to look at when throughput, latency or duplicates are not what one
//! expects. [`examine`] looks at just that: a pure function of a trial and the case's settings. A [`Symptom`] is a figure
//! that stands out, with the figures it was found by; it has a severity, a sentence and an advice that names the setting
//! to change. What is not known, as of a system that is measured from the outside, is not guessed.

mod advice;
mod examine;
mod sentence;
#[cfg(test)]
mod tests;
mod thresholds;

pub use examine::examine;
pub(crate) use examine::{is_used_up, lag_events};
pub(crate) use thresholds::{FULL_CPU_PERCENT, LITTLE_PERCENT, LOW_CPU_PERCENT, SHARED_MACHINE_PERCENT};

use super::{Finding, FindingKind, MeasuredComponent, Noun, PipelineShape, Severity, SourceShape};

/// A figure that stands out, with those by which it was found.
#[derive(Debug, Clone, PartialEq)]
pub enum Symptom {
    /// CPU was left over though there was more to be carried.
    LowUtilisation {
        /// Whose CPU.
        measured: MeasuredComponent,
        /// CPU of the measured role; 100 is all that it may use.
        cpu_percent: f64,
        /// What it forwarded, where that is known.
        forwarded_per_s: Option<f64>,
        /// What kept it from doing more.
        waiting_for: WaitingFor,
    },
    /// Batches were far from full.
    SmallBatches {
        /// Events per batch received, on average.
        mean: f64,
        /// Events of a full batch.
        full: u64,
        /// How long a batch waits to be full.
        wait_us: u64,
        /// Whether events lay in the source meanwhile.
        more_was_there: bool,
    },
    /// The slowest sends took far longer than most.
    SendTail {
        /// The median of a send.
        p50_us: u64,
        /// The 99th percentile.
        p99_us: u64,
        /// How long a try may take.
        try_timeout_us: Option<u64>,
    },
    /// Sends failed.
    SendErrors {
        /// How many.
        failed: u64,
        /// Of how many.
        made: u64,
        /// Those without an outcome in time.
        timed_out: u64,
    },
    /// Batches failed, other than on purpose.
    ProcessingErrors {
        /// How many.
        failed: u64,
        /// Of how many.
        batches: u64,
        /// How often partitions stood still and were opened again.
        restarts: u64,
    },
    /// Checkpoints take so long that claims may not be renewed in time.
    SlowCheckpoints {
        /// The 99th percentile of a checkpoint, or of a round of renewal divided by its requests if that is longer.
        p99_us: u64,
        /// How often claims are renewed.
        renew_us: u64,
        /// When a claim expires.
        expire_us: u64,
    },
    /// Checkpoints could not be written.
    CheckpointErrors {
        /// How many.
        failed: u64,
        /// Of how many.
        attempts: u64,
    },
    /// The measured role came close to its memory limit.
    MemoryNearLimit {
        /// Whose memory.
        measured: MeasuredComponent,
        /// The most that it held.
        peak_bytes: u64,
        /// What it may hold.
        limit_bytes: u64,
    },
    /// Events arrived more than once, and partitions changed hands.
    DuplicatesAfterLoss {
        /// How many events.
        duplicated: u64,
        /// How many partitions were lost in the trial.
        lost_partitions: u64,
    },
    /// Something that is not of the run used the machine as well.
    MachineShared {
        /// Cores that it used on average.
        other_cores: f64,
        /// Cores that there are.
        cores: f64,
    },
    /// The generator did not keep to its plan.
    GeneratorUnhealthy {
        /// Events that left too late.
        late: Option<u64>,
        /// Events that never left.
        never_sent: Option<u64>,
    },
    /// The source's retention took events before the relay read them.
    EventsMissed {
        /// How many.
        missed: u64,
    },
    /// The service refused sends because a quota was exhausted.
    BoundByQuota {
        /// Refused sends by entity.
        throttled: Vec<(String, u64)>,
        /// Seconds of the measured phase.
        duration_s: f64,
        /// Whether a full log refuses sends, too.
        full_log_throttles: bool,
    },
}

/// What a pipeline with CPU to spare waited for.
#[derive(Debug, Clone, PartialEq)]
pub enum WaitingFor {
    /// A core: it had something to do for longer than it had a CPU to do it on.
    Core {
        /// For how much of the time it had something to do.
        runnable_percent: f64,
    },
    /// The machine: all roles together, and what else ran there, used it up.
    Machine {
        /// Cores that were used on average.
        used_cores: f64,
        /// Cores that there are.
        cores: f64,
    },
    /// The embedded service, which used all that it may.
    Service {
        /// Its CPU.
        cpu_percent: f64,
    },
    /// Something to carry.
    Generator {
        /// For how much of the time.
        percent: f64,
        /// Events that lay in the source, in the middle of the seconds of the trial.
        lag_events: u64,
    },
    /// Events that were in the source and had not come.
    Credit {
        /// For how much of the time.
        percent: f64,
        /// Events that lay in the source, in the middle of the seconds of the trial.
        lag_events: u64,
        /// What bounds how many are on their way.
        ahead: Ahead,
    },
    /// Outcomes of sends, while as much was under way as may be.
    Sends {
        /// For how much of the time.
        percent: f64,
        /// How long all sends of a batch took in the middle.
        p50_us: Option<u64>,
        /// What bounds how many are in flight.
        ahead: Ahead,
    },
    /// A destination that took no more.
    Destination {
        /// For how much of the time.
        percent: f64,
    },
    /// Room for further batches.
    Memory {
        /// For how much of the time.
        percent: f64,
    },
    /// A partition that was open.
    Partitions {
        /// For how much of the time.
        percent: f64,
        /// How often one was opened again after a failure.
        restarts: u64,
    },
    /// Checkpoints that could not be written, which kept partitions closed.
    Checkpoints {
        /// For how much of the time.
        percent: f64,
        /// How often a partition was closed for that.
        closings: u64,
    },
    /// Nothing that can be seen from the outside.
    Unknown,
}

impl Symptom {
    /// The class of the finding, which does not change.
    #[must_use]
    pub const fn kind(&self) -> FindingKind {
        match self {
            Self::LowUtilisation { .. } => FindingKind::LowUtilisation,
            Self::SmallBatches { .. } => FindingKind::SmallBatches,
            Self::SendTail { .. } => FindingKind::SendTail,
            Self::SendErrors { .. } => FindingKind::SendErrors,
            Self::ProcessingErrors { .. } => FindingKind::ProcessingErrors,
            Self::SlowCheckpoints { .. } => FindingKind::SlowCheckpoints,
            Self::CheckpointErrors { .. } => FindingKind::CheckpointErrors,
            Self::MemoryNearLimit { .. } => FindingKind::MemoryNearLimit,
            Self::DuplicatesAfterLoss { .. } => FindingKind::DuplicatesAfterLoss,
            Self::GeneratorUnhealthy { .. } => FindingKind::GeneratorOverloaded,
            Self::BoundByQuota { .. } => FindingKind::LimitedByQuota,
            Self::EventsMissed { .. } => FindingKind::EventsMissed,
            Self::MachineShared { .. } => FindingKind::MachineShared,
        }
    }

    /// What it means for the verdict.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::EventsMissed { .. } => Severity::Failure,
            Self::GeneratorUnhealthy { .. } => Severity::Invalid,
            Self::SendErrors { .. }
            | Self::ProcessingErrors { .. }
            | Self::SlowCheckpoints { .. }
            | Self::CheckpointErrors { .. }
            | Self::MemoryNearLimit { .. }
            | Self::MachineShared { .. }
            | Self::DuplicatesAfterLoss { .. } => Severity::Warning,
            Self::LowUtilisation { .. }
            | Self::SmallBatches { .. }
            | Self::SendTail { .. }
            | Self::BoundByQuota { .. } => Severity::Note,
        }
    }
}

/// What bounds how much of the source is on its way or in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// So many events per partition: `relay.prefetch`.
    Events(u64),
    /// What the distance to the service asks for.
    Adaptive,
    /// Of a queue: the messages that are worked on at once.
    Concurrency,
}

impl Ahead {
    fn of(pipeline: &PipelineShape) -> Self {
        match (pipeline.source, pipeline.prefetch) {
            (SourceShape::Queue { .. }, _) => Self::Concurrency,
            (SourceShape::Log { .. }, Some(events)) => Self::Events(events),
            (SourceShape::Log { .. }, None) => Self::Adaptive,
        }
    }
}

impl Symptom {
    /// The finding that says it about these.
    #[must_use]
    pub fn finding(&self, noun: Noun) -> Finding {
        Finding::new(self.severity(), self.kind(), self.sentence(noun)).with_hint(self.advice(noun))
    }
}
