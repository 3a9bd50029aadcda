//! Recording of latencies in a role, on the hot path.
//!
//! A [`Recorder`] keeps one [`LatencyDistribution`] for the present second; when the second is over
//! it is added to the total and kept as text for the interval log. An event is therefore recorded
//! once, in memory that stays in the cache. Roles read the clock once per chunk of received events
//! and record each event against that reading.
//!
//! Four rules keep the figures honest:
//! * the latency of an event counts from its *intended* instant, so that a generator that falls behind
//!   makes latencies longer, not fewer;
//! * an event belongs to the phase that it was meant for ([`Window`]), even if it arrives after its end;
//! * nothing is clamped: histograms grow, and negative differences are counted with the worst of them;
//! * a phase starts with a new recorder state, never with single fields reset.
//!
//! [`EncodedDistribution`] carries distributions to the orchestrator, which merges those of several
//! processes sample by sample.

mod encoded;
mod passage;
mod window;

pub use encoded::{DecodeError, EncodedDistribution};
pub use passage::{ReadRecords, ServedRecords};
pub use window::Window;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{clock::RunTime, results::LatencyDistribution};

/// Whether the roles record latencies. Without them a run still counts and verifies every event; what recording costs is
/// the difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LatencyRecording {
    /// Every event that belongs to the measured phase.
    #[default]
    On,
    /// None.
    Off,
}

/// Records the latencies of one stage in one role.
#[derive(Debug, Clone)]
pub struct Recorder {
    interval_start: RunTime,
    present: LatencyDistribution,
    total: LatencyDistribution,
    intervals: Vec<RecordedInterval>,
}

/// The latencies of one interval, about a second long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedInterval {
    /// When it began.
    pub start: RunTime,
    /// When it ended.
    pub end: RunTime,
    /// What was recorded in it.
    pub latency: EncodedDistribution,
}

/// Everything a recorder holds, on its way to the orchestrator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// All latencies.
    pub total: EncodedDistribution,
    /// The same, interval by interval. Intervals without a latency are left out.
    pub intervals: Vec<RecordedInterval>,
}

impl Recording {
    /// Adds what another worker or process recorded at the same time. Intervals that began within the same second
    /// become one.
    ///
    /// # Errors
    /// [`DecodeError`] when one of the two is not a recording of ours.
    pub fn merge(&mut self, other: &Self) -> Result<(), DecodeError> {
        let mut total = self.total.decode()?;
        total.merge(&other.total.decode()?);
        self.total = EncodedDistribution::of(&total);
        for interval in &other.intervals {
            let second = |interval: &RecordedInterval| interval.start.as_micros() / 1_000_000;
            match self.intervals.iter_mut().find(|own| second(own) == second(interval)) {
                None => self.intervals.push(interval.clone()),
                Some(own) => {
                    let mut latency = own.latency.decode()?;
                    latency.merge(&interval.latency.decode()?);
                    own.latency = EncodedDistribution::of(&latency);
                    own.start = own.start.min(interval.start);
                    own.end = own.end.max(interval.end);
                }
            }
        }
        self.intervals.sort_by_key(|interval| interval.start);
        Ok(())
    }

    /// Adds another recording where there may be none on either side.
    ///
    /// # Errors
    /// As [`Self::merge`].
    pub fn merge_option(own: &mut Option<Self>, other: Option<Self>) -> Result<(), DecodeError> {
        match (own.as_mut(), other) {
            (_, None) => Ok(()),
            (None, other) => {
                *own = other;
                Ok(())
            }
            (Some(own), Some(other)) => own.merge(&other),
        }
    }
}

impl Recorder {
    /// A recorder that starts at `now`.
    #[must_use]
    pub fn starting_at(now: RunTime) -> Self {
        Self {
            interval_start: now,
            present: LatencyDistribution::new(),
            total: LatencyDistribution::new(),
            intervals: Vec::new(),
        }
    }

    /// Records that something meant to happen at `from` had happened at `now`.
    #[inline]
    pub fn record(&mut self, from: RunTime, now: RunTime) {
        self.present.record(now.micros_since(from));
    }

    /// Records the same latency for `count` events, as of a batch that is acknowledged whole.
    #[inline]
    pub fn record_many(&mut self, from: RunTime, now: RunTime, count: u64) {
        self.present.record_many(now.micros_since(from), count);
    }

    /// Closes the present interval if it has lasted a second. To be called a few times per second.
    pub fn tick(&mut self, now: RunTime) {
        if now.saturating_since(self.interval_start) >= INTERVAL {
            self.close_interval(now);
        }
    }

    /// Everything recorded, up to `now`.
    #[must_use]
    pub fn finish(mut self, now: RunTime) -> Recording {
        self.close_interval(now);
        Recording { total: EncodedDistribution::of(&self.total), intervals: self.intervals }
    }

    fn close_interval(&mut self, now: RunTime) {
        let start = std::mem::replace(&mut self.interval_start, now);
        if self.present.is_empty() {
            return;
        }
        self.total.merge(&self.present);
        self.intervals.push(RecordedInterval {
            start,
            end: now,
            latency: EncodedDistribution::of(&self.present),
        });
        // Cleared, not replaced: its memory is warm and has grown to what this stage needs.
        self.present.histogram.reset();
        self.present.negative = None;
    }
}

/// How long an interval of the log is.
const INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::NegativeLatencies;

    const fn at(microseconds: u64) -> RunTime {
        RunTime::from_micros(microseconds)
    }

    #[test]
    fn every_second_becomes_an_interval_and_all_of_them_are_the_total() {
        let mut recorder = Recorder::starting_at(at(0));
        recorder.record(at(0), at(100));
        recorder.tick(at(999_999));
        recorder.record(at(10), at(210));
        recorder.tick(at(1_000_000));
        recorder.tick(at(2_000_000));
        recorder.record_many(at(2_500_000), at(2_500_300), 7);
        let recording = recorder.finish(at(2_600_000));
        let spans: Vec<_> = recording
            .intervals
            .iter()
            .map(|interval| (interval.start.as_micros(), interval.end.as_micros()))
            .collect();
        assert_eq!(spans, [(0, 1_000_000), (2_000_000, 2_600_000)]);
        let total = recording.total.decode().expect("our own text");
        assert_eq!(total.histogram.len(), 9);
        let mut merged = LatencyDistribution::new();
        for interval in &recording.intervals {
            merged.merge(&interval.latency.decode().expect("our own text"));
        }
        assert_eq!(merged, total);
    }

    #[test]
    fn recordings_of_two_workers_become_one_second_by_second() {
        let record = |offset: u64, latencies: &[u64]| {
            let mut recorder = Recorder::starting_at(at(offset));
            for (second, latency) in (0..).zip(latencies) {
                recorder.record(at(0), at(*latency));
                recorder.tick(at(offset + (second + 1) * 1_000_000));
            }
            recorder.finish(at(offset + 10_000_000))
        };
        let mut merged = record(100, &[5, 6]);
        merged.merge(&record(300, &[7, 8, 9])).expect("our own text");
        assert_eq!(merged.total.decode().expect("our own text").histogram.len(), 5);
        assert_eq!(merged.intervals.len(), 3);
        assert_eq!((merged.intervals[0].start, merged.intervals[0].end), (at(100), at(1_000_300)));
    }

    #[test]
    fn negative_latencies_are_counted_with_the_worst_and_stay_out_of_the_histogram() {
        let mut recorder = Recorder::starting_at(at(0));
        recorder.record(at(50), at(20));
        recorder.record_many(at(90), at(50), 3);
        recorder.record(at(50), at(60));
        let total = recorder.finish(at(100)).total.decode().expect("our own text");
        assert_eq!(total.negative, Some(NegativeLatencies { count: 4, min: -40 }));
        assert_eq!(total.histogram.len(), 1);
    }

    #[test]
    fn a_latency_of_days_is_kept_whole() {
        let mut recorder = Recorder::starting_at(at(0));
        recorder.record(at(0), RunTime::LATEST);
        let total = recorder.finish(RunTime::LATEST).total.decode().expect("our own text");
        assert!(total.histogram.max() >= RunTime::LATEST.as_micros());
    }
}
