//! Why a trial did not reach its end.

use std::time::Duration;

use crate::{
    limits::AdmitError,
    record::DecodeError,
    results::{Finding, FindingKind, Role, Severity},
    roles::{process::LaunchError, with_causes},
};

/// Why one trial did not reach its end. The others go on, unless it was cancelled.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// A role can't be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A role can't be put under its limits.
    #[error(transparent)]
    Admit(#[from] AdmitError),
    /// A role failed, died, or spoke nonsense.
    #[error("{member} failed: {reason} ({end})")]
    RoleFailed {
        /// What it was.
        role: Role,
        /// Which of its kind, as a sentence calls it: `the relay-2`, or the name of the system that is measured.
        member: String,
        /// What it said, or what was noticed.
        reason: String,
        /// How its process ended.
        end: String,
        /// The last lines of its log.
        log: Vec<String>,
    },
    /// A role that was to run elsewhere did not start.
    #[error(transparent)]
    NotStarted(Box<NotStarted>),
    /// Something took too long.
    #[error("{what} {} {}", if *is_stalled { "made no progress for" } else { "took longer than" }, units::duration::text(*after))]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
        /// Whether there was a standstill, rather than too little progress.
        is_stalled: bool,
    },
    /// A role's distributions can't be read.
    #[error("the recording of the {role} can't be read")]
    Recording {
        /// Which.
        role: Role,
        /// Why.
        source: DecodeError,
    },
    /// A folder of the trial can't be made.
    #[error("the folder {} can't be created", path.display())]
    Folder {
        /// Which.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no port for a service.
    #[error("no port is free for the service")]
    NoPort(#[source] std::io::Error),
    /// Somebody wished the run to end.
    #[error("the run was interrupted")]
    Cancelled,
}

/// A role that was to run elsewhere did not start.
#[derive(Debug, thiserror::Error)]
#[error("{member} did not start: `{command}` {reason} ({end})")]
pub struct NotStarted {
    /// Which, as a sentence calls it.
    pub member: String,
    /// What should have started it.
    pub command: String,
    /// What was noticed.
    pub reason: String,
    /// How that command ended.
    pub end: String,
    /// What can be done.
    pub advice: String,
    /// The last lines of its standard error.
    pub log: Vec<String>,
}

impl TrialError {
    /// The error as the results tell it.
    #[must_use]
    pub fn finding(&self, trial: u32) -> Finding {
        let (severity, kind) = match self {
            Self::Cancelled => (Severity::Note, FindingKind::Interrupted),
            Self::RoleFailed { .. }
            | Self::NotStarted { .. }
            | Self::Launch(_)
            | Self::Admit(_)
            | Self::Recording { .. } => (Severity::Failure, FindingKind::RoleFailed),
            Self::TimedOut { .. } | Self::Folder { .. } | Self::NoPort(_) => {
                (Severity::Failure, FindingKind::Other)
            }
        };
        let mut finding = Finding::new(severity, kind, with_causes(self));
        finding.trial = Some(trial);
        let last_lines = |log: &[String]| format!("last lines of its log:\n{}", log.join("\n"));
        finding.hint = match self {
            Self::RoleFailed { log, .. } if !log.is_empty() => Some(last_lines(log)),
            Self::NotStarted(not_started) => Some(match &not_started.log[..] {
                [] => not_started.advice.clone(),
                log => format!("{}; {}", not_started.advice, last_lines(log)),
            }),
            _ => None,
        };
        finding
    }
}
