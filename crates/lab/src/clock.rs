//! The one clock of a run.
//!
//! A role on the lab's machine reads `CLOCK_MONOTONIC`, which is the same for all
//! processes of the machine. The orchestrator picks the run's epoch once and hands it to every role;
//! from then on an instant is a [`RunTime`]: microseconds since that epoch. Latencies between
//! processes are therefore exact differences, not estimates across two clocks.
//!
//! The clock of another machine counts from another moment. A role there gets the epoch as its own clock
//! shows it ([`RunClock::as_shown_by`]), by the offset that was estimated for it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// An instant of a run, in microseconds since the run's epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunTime(u64);

impl RunTime {
    /// The epoch itself.
    pub const EPOCH: Self = Self(0);

    /// The latest instant that a payload header can carry (40 bits: about 12.7 days).
    pub const LATEST: Self = Self((1 << 40) - 1);

    /// The instant `microseconds` after the epoch; later ones than [`Self::LATEST`] become it.
    #[must_use]
    pub const fn from_micros(microseconds: u64) -> Self {
        if microseconds > Self::LATEST.0 { Self::LATEST } else { Self(microseconds) }
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Microseconds from `earlier` to `self`: negative when `earlier` is in fact later.
    #[must_use]
    pub const fn micros_since(self, earlier: Self) -> i64 {
        // Both are below 2^40, so neither cast can lose anything.
        self.0 as i64 - earlier.0 as i64
    }

    /// The time from `earlier` to `self`, zero when `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// The instant `duration` earlier, the epoch at the earliest.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        let microseconds = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(microseconds))
    }

    /// The instant `duration` later (at most [`Self::LATEST`]).
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let microseconds = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Self::from_micros(self.0.saturating_add(microseconds))
    }
}

/// The wall clock beside the run's, as both were at one moment. Dates that the service gives are by the wall clock of the
/// same machine, to the millisecond, cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallClock {
    /// Unix time less run time.
    ahead_us: i64,
}

/// Reads the run's time. Cheap to copy; serialised as its epoch, so that all roles share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunClock {
    /// The epoch on `CLOCK_MONOTONIC`, in nanoseconds since the machine started. Negative on a machine that started
    /// after it.
    epoch_ns: i64,
}

impl RunClock {
    /// A clock whose epoch is this moment.
    #[must_use]
    pub fn starting_now() -> Self {
        Self { epoch_ns: monotonic_ns() }
    }

    /// The present instant. One reading costs about 20 ns: take one per chunk, not one per event.
    #[must_use]
    pub fn now(&self) -> RunTime {
        let since_epoch = monotonic_ns().saturating_sub(self.epoch_ns);
        RunTime::from_micros(u64::try_from(since_epoch).unwrap_or(0) / 1_000)
    }

    /// The same clock for a machine whose `CLOCK_MONOTONIC` is so far ahead of this one's.
    #[must_use]
    pub const fn as_shown_by(&self, ahead_ns: i64) -> Self {
        Self { epoch_ns: self.epoch_ns.saturating_add(ahead_ns) }
    }

    /// What `CLOCK_MONOTONIC` of this machine shows at an instant of the run, in nanoseconds.
    #[must_use]
    pub const fn monotonic_ns(&self, at: RunTime) -> i64 {
        // Below 2^40 microseconds, so nothing can be lost.
        self.epoch_ns.saturating_add(at.as_micros() as i64 * 1_000)
    }
}

impl WallClock {
    /// The wall clock of the moment that the run's clock calls `now`.
    #[must_use]
    pub fn at(now: RunTime) -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        Self::showing(unix.unwrap_or_default(), now)
    }

    fn showing(unix: Duration, now: RunTime) -> Self {
        let unix_us = i64::try_from(unix.as_micros()).unwrap_or(i64::MAX);
        Self { ahead_us: unix_us - now.as_micros() as i64 }
    }

    /// When it was that date; the epoch of the run for all dates before it.
    #[must_use]
    pub const fn run_time(self, unix_ms: i64) -> RunTime {
        let since_epoch = unix_ms.saturating_mul(1_000).saturating_sub(self.ahead_us);
        if since_epoch < 0 { RunTime::EPOCH } else { RunTime::from_micros(since_epoch as u64) }
    }
}

/// What `CLOCK_MONOTONIC` of this machine shows now, in nanoseconds.
pub(crate) fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_signed_and_the_end_of_the_header_field_is_the_latest_instant() {
        let early = RunTime::from_micros(10);
        let late = early.plus(Duration::from_micros(32));
        assert_eq!(late.micros_since(early), 32);
        assert_eq!(early.micros_since(late), -32);
        assert_eq!(early.saturating_since(late), Duration::ZERO);
        assert_eq!(RunTime::from_micros(u64::MAX), RunTime::LATEST);
        assert_eq!(early.plus(Duration::MAX), RunTime::LATEST);
        assert_eq!(late.minus(Duration::from_micros(32)), early);
        assert_eq!(early.minus(Duration::MAX), RunTime::EPOCH);
    }

    #[test]
    fn dates_become_instants_of_the_run_and_those_before_it_its_epoch() {
        let now = RunTime::from_micros(2_000_300);
        let wall = WallClock::showing(Duration::from_micros(1_700_000_000_000_500), now);
        // Half a millisecond before now, since dates are cut to milliseconds.
        assert_eq!(wall.run_time(1_700_000_000_000), RunTime::from_micros(1_999_800));
        assert_eq!(wall.run_time(1_700_000_000_001), RunTime::from_micros(2_000_800));
        assert_eq!(wall.run_time(1_699_999_990_000), RunTime::EPOCH);
        assert_eq!(wall.run_time(i64::MIN), RunTime::EPOCH);
        assert_eq!(wall.run_time(i64::MAX), RunTime::LATEST);
    }

    #[test]
    fn a_clock_that_crossed_a_process_border_reads_the_same_time() {
        let clock = RunClock::starting_now();
        let line = serde_json::to_string(&clock).expect("a clock serialises");
        let other: RunClock = serde_json::from_str(&line).expect("and is read back");
        let before = clock.now();
        let between = other.now();
        assert!(before <= between && between <= clock.now());
    }

    #[test]
    fn a_clock_for_a_machine_that_is_ahead_shows_less_where_it_is_not() {
        let clock = RunClock::starting_now();
        let at = RunTime::from_micros(7);
        let ahead = clock.as_shown_by(5_000);
        assert_eq!(ahead.monotonic_ns(at) - clock.monotonic_ns(at), 5_000);
        assert_eq!(clock.as_shown_by(i64::MAX).now(), RunTime::EPOCH, "not reached yet");
        let started_later = clock.as_shown_by(-monotonic_ns());
        let line = serde_json::to_string(&started_later).expect("a clock serialises");
        assert_eq!(serde_json::from_str::<RunClock>(&line).expect("and is read back"), started_later);
    }
}
