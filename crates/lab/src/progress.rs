//! What a run tells about itself while it goes on.
//!
//! The runner makes a [`Progress`] snapshot about once a second and at every change of phase, and hands it to
//! an [`Observer`]. Snapshots are complete: an observer that misses some of them still shows the truth.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::figure;
use crate::results::Role;

/// Where a run is and what it sees at this moment. A figure that does not exist in the phase is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Name of the current case.
    pub case: String,
    /// Its number, counted from 1.
    pub case_number: usize,
    /// How many cases the run has.
    pub cases: usize,
    /// Number of the current trial, counted from 1.
    pub trial: u32,
    /// How many trials the case has; 0 if that depends on what they find out.
    pub trials: u32,
    /// The rate in events per second that this trial tries: in a search for the highest sustainable one, where `trials` is 0, or for
    /// the latency at it.
    pub tried_per_s: Option<f64>,
    /// How many trials such a search still takes at least after this one.
    pub least_remaining: Option<u32>,
    /// What the run is doing.
    pub phase: Phase,
    /// How long it has been doing so.
    pub phase_elapsed: Duration,
    /// How long the phase takes; `None` if that depends on what happens in it.
    pub phase_length: Option<Duration>,
    /// Events offered by the load per second.
    pub offered_per_s: Option<f64>,
    /// Events received by the pipeline per second, or by the sink where there is none.
    pub received_per_s: Option<f64>,
    /// Events forwarded by the pipeline per second, where there is one.
    pub forwarded_per_s: Option<f64>,
    /// Events in the source that the pipeline has not received yet.
    pub lag_events: Option<u64>,
    /// How many events there were in this trial so far.
    pub events: EventTotals,
    /// CPU and memory of the processes that run.
    pub roles: BTreeMap<Role, RoleProgress>,
}

impl Progress {
    /// Where the run is: `[2/4] fan_out=32, trial 1 of 3: measuring`. Without control characters.
    #[must_use]
    pub fn heading(&self) -> String {
        let trial = match (self.trials, self.tried_per_s) {
            (0, Some(rate)) => {
                let remaining = self.least_remaining.filter(|remaining| *remaining > 0);
                let remaining =
                    remaining.map_or_else(String::new, |least| format!(", at least {least} more"));
                format!(", probe {} at {}/s{remaining}", self.trial, figure::rate(rate))
            }
            (_, Some(rate)) => format!(", latency at {}/s", figure::rate(rate)),
            (0 | 1, None) => String::new(),
            (trials, None) => format!(", trial {} of {trials}", self.trial),
        };
        // Names come from users: nothing in them may move the cursor.
        let case = self.case.replace(char::is_control, " ");
        format!("[{}/{}] {case}{trial}: {}", self.case_number, self.cases, self.phase)
    }

    /// How long the phase has lasted, and how long it will if that is known: `15 s of 60 s`.
    #[must_use]
    pub fn clock(&self) -> String {
        let elapsed = self.phase_elapsed.as_secs();
        match self.phase_length {
            Some(length) => format!("{elapsed} s of {} s", length.as_secs_f64().ceil()),
            None => format!("{elapsed} s"),
        }
    }

    /// How much of the phase is over, from 0 to 1; `None` if its length is not known.
    #[must_use]
    pub fn share_done(&self) -> Option<f64> {
        let length = self.phase_length.filter(|length| !length.is_zero())?;
        Some((self.phase_elapsed.as_secs_f64() / length.as_secs_f64()).clamp(0.0, 1.0))
    }
}

/// Events of a trial since its processes started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventTotals {
    /// Sent by the load.
    pub sent: u64,
    /// Received by the pipeline, or by the sink where there is none.
    pub received: u64,
    /// Forwarded by the pipeline, where there is one.
    pub forwarded: u64,
    /// Received by the sink.
    pub arrived: u64,
}

/// What one process uses at this moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoleProgress {
    /// CPU since the last snapshot; 100 is everything that the role may use.
    pub cpu_percent: f64,
    /// Resident memory in bytes.
    pub memory_bytes: u64,
}

/// The phases of a trial, in their order. A trial skips those its load does not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Processes start and connect.
    Starting,
    /// A backlog is written before the pipeline starts.
    Filling,
    /// The load runs faster than it will, to use up the burst credit of a quota.
    Leading,
    /// The load runs and nothing is recorded yet.
    WarmUp,
    /// The load runs and is recorded.
    Measuring,
    /// The load has ended; what is under way still arrives.
    Draining,
    /// Streams are checked for loss, duplicates, order and content.
    Verifying,
    /// Processes are asked to end.
    Stopping,
}

/// Someone who watches a run: a display, a log, a test.
///
/// Called from the runner's thread: it must return at once and leave drawing to a thread of its own.
pub trait Observer: Send + Sync {
    /// Takes notice of a snapshot.
    fn progress(&self, progress: &Progress);

    /// Whether it wants to see the metrics of the relays as well, which costs them a little.
    fn wants_metrics(&self) -> bool {
        false
    }

    /// Takes notice of the metrics of all relays, in the OpenMetrics text format, each with the number of its process.
    fn relays(&self, metrics: &[(u32, &str)]) {
        let _ = metrics;
    }
}

/// Observers of one run: each sees all of it.
#[derive(Clone, Copy)]
pub struct Observers<'a>(pub &'a [&'a dyn Observer]);

impl Observer for Observers<'_> {
    fn progress(&self, progress: &Progress) {
        self.0.iter().for_each(|observer| observer.progress(progress));
    }

    fn wants_metrics(&self) -> bool {
        self.0.iter().any(|observer| observer.wants_metrics())
    }

    fn relays(&self, metrics: &[(u32, &str)]) {
        self.0.iter().for_each(|observer| observer.relays(metrics));
    }
}

impl fmt::Debug for Observers<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Observers").field(&self.0.len()).finish()
    }
}

/// The observer of a run that nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn progress(&self, _progress: &Progress) {}
}

impl Phase {
    /// The name that users read.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Filling => "filling",
            Self::Leading => "using up burst credit",
            Self::WarmUp => "warming up",
            Self::Measuring => "measuring",
            Self::Draining => "draining",
            Self::Verifying => "verifying",
            Self::Stopping => "stopping",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
