//! What became of every event that a load offered.
//!
//! Per stream: how far it was sent, and which sequence numbers the service acknowledged. An event that
//! was sent and not acknowledged is *unknown*: it may have arrived. It is not sent again, since that
//! would hide what the service did.

use serde::{Deserialize, Serialize};

use super::{plan::LoadPlan, schedule::Run};
use crate::{
    clock::RunTime,
    record::{DecodeError, Recorder, Recording},
    verify::StreamSends,
};

/// The books of one worker.
#[derive(Debug, Clone)]
pub struct Accounting {
    streams: Vec<StreamSends>,
    counts: LoadCounts,
    late_after_us: i64,
    lateness: Recorder,
    acknowledge: Recorder,
    acknowledge_corrected: Recorder,
    has_schedule: bool,
}

/// Events so far, by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadCounts {
    /// Handed to the service's client.
    pub sent: u64,
    /// Acknowledged by the service.
    pub acknowledged: u64,
    /// Refused by the service, or without an answer when the connection ended.
    pub failed: u64,
    /// Sent later than intended by more than the tolerance.
    pub late: u64,
}

/// A send that waits for its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingSend {
    /// What was sent.
    pub run: Run,
    /// When it left.
    pub sent: RunTime,
}

/// The distributions that a load recorded since it was last told to begin a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadRecordings {
    /// From the intended instant until the event left; absent for a load without a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Recording>,
    /// From the instant at which the event left until it was acknowledged.
    pub acknowledge: Recording,
    /// From the intended instant until it was acknowledged.
    pub acknowledge_corrected: Recording,
}

impl LoadRecordings {
    /// Adds what another worker recorded at the same time.
    ///
    /// # Errors
    /// [`DecodeError`] when one of the two is not a recording of ours.
    pub fn merge(&mut self, other: Self) -> Result<(), DecodeError> {
        Recording::merge_option(&mut self.lateness, other.lateness)?;
        self.acknowledge.merge(&other.acknowledge)?;
        self.acknowledge_corrected
            .merge(&other.acknowledge_corrected)
    }
}

impl std::ops::AddAssign for LoadCounts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.acknowledged += other.acknowledged;
        self.failed += other.failed;
        self.late += other.late;
    }
}

impl Accounting {
    /// Empty books for the streams of `plan`. An event that leaves more than `late_after_us`
    /// microseconds after its intended instant counts as late.
    #[must_use]
    pub fn new(plan: &LoadPlan, late_after_us: u64, now: RunTime) -> Self {
        Self {
            streams: vec![StreamSends::default(); usize::from(plan.streams)],
            counts: LoadCounts::default(),
            late_after_us: i64::try_from(late_after_us).unwrap_or(i64::MAX),
            lateness: Recorder::starting_at(now),
            acknowledge: Recorder::starting_at(now),
            acknowledge_corrected: Recorder::starting_at(now),
            has_schedule: matches!(plan.pace, super::Pace::Open { .. }),
        }
    }

    /// Books that `run` left at `now`. The result is kept until the answer and given back with it.
    pub fn sent(&mut self, run: Run, now: RunTime) -> PendingSend {
        let sequences = run.sequences();
        self.streams[usize::from(run.stream)].sent = sequences.end;
        self.counts.sent += u64::from(run.count());
        if self.has_schedule {
            for (_, intended) in run.events() {
                self.lateness.record(intended, now);
                self.counts.late += u64::from(now.micros_since(intended) > self.late_after_us);
            }
        }
        PendingSend { run, sent: now }
    }

    /// Books that the service acknowledged a send at `now`.
    pub fn acknowledged(&mut self, pending: &PendingSend, now: RunTime) {
        let run = &pending.run;
        let count = u64::from(run.count());
        self.counts.acknowledged += count;
        self.streams[usize::from(run.stream)]
            .acknowledged
            .insert(run.sequences());
        self.acknowledge.record_many(pending.sent, now, count);
        if self.has_schedule {
            for (_, intended) in run.events() {
                self.acknowledge_corrected.record(intended, now);
            }
        } else {
            self.acknowledge_corrected
                .record_many(run.released, now, count);
        }
    }

    /// Books that a send was refused, or that nobody will ever answer it.
    pub fn failed(&mut self, pending: &PendingSend) {
        self.counts.failed += u64::from(pending.run.count());
    }

    /// The counts so far.
    #[must_use]
    pub const fn counts(&self) -> LoadCounts {
        self.counts
    }

    /// What each stream sent and the service acknowledged, by stream number.
    #[must_use]
    pub fn streams(&self) -> &[StreamSends] {
        &self.streams
    }

    /// Closes recording intervals that are over. To be called a few times per second.
    pub fn tick(&mut self, now: RunTime) {
        self.lateness.tick(now);
        self.acknowledge.tick(now);
        self.acknowledge_corrected.tick(now);
    }

    /// Forgets the distributions: what is recorded from `now` on is the measurement. Counts and
    /// acknowledged ranges go on.
    pub fn begin_measurement(&mut self, now: RunTime) {
        self.take_recorders(now);
    }

    /// The distributions recorded since [`Self::begin_measurement`], up to `now`.
    pub fn end_measurement(&mut self, now: RunTime) -> LoadRecordings {
        let [lateness, acknowledge, acknowledge_corrected] = self.take_recorders(now);
        LoadRecordings {
            lateness: self.has_schedule.then(|| lateness.finish(now)),
            acknowledge: acknowledge.finish(now),
            acknowledge_corrected: acknowledge_corrected.finish(now),
        }
    }

    fn take_recorders(&mut self, now: RunTime) -> [Recorder; 3] {
        [
            &mut self.lateness,
            &mut self.acknowledge,
            &mut self.acknowledge_corrected,
        ]
        .map(|recorder| std::mem::replace(recorder, Recorder::starting_at(now)))
    }
}

#[cfg(test)]
mod tests {
    use units::Rate;

    use super::*;
    use crate::load::{Arrivals, Pace, Schedule, Worker};

    const fn at(microseconds: u64) -> RunTime {
        RunTime::from_micros(microseconds)
    }

    fn plan(pace: Pace) -> LoadPlan {
        LoadPlan {
            seed: 1,
            streams: 2,
            batch: 10,
            in_flight: 10,
            pace,
        }
    }

    fn runs(plan: LoadPlan, now: u64) -> Vec<Run> {
        let mut runs = Vec::new();
        Schedule::new(plan, Worker::ONLY, at(0)).release(at(now), u32::MAX, &mut runs);
        runs
    }

    #[test]
    fn answers_in_any_order_become_ranges_and_a_refusal_leaves_a_gap() {
        let plan = plan(Pace::Backlog { events: 60 });
        let mut accounting = Accounting::new(&plan, 0, at(0));
        let pending: Vec<_> = runs(plan, 1)
            .into_iter()
            .map(|run| accounting.sent(run, at(2)))
            .collect();
        // Sends alternate between the two streams: 0 2 4 are stream 0, 1 3 5 are stream 1.
        for send in [4, 1, 3, 0] {
            accounting.acknowledged(&pending[send], at(500));
        }
        accounting.failed(&pending[2]);
        let streams = accounting.streams();
        let gaps = |stream: usize| streams[stream].acknowledged.gaps_below(30);
        assert_eq!(gaps(0).len(), 1);
        assert_eq!(gaps(0)[0], 10..20);
        assert_eq!((gaps(1).len(), gaps(1)[0].clone()), (1, 20..30));
        assert_eq!((streams[0].sent, streams[1].sent), (30, 30));
        let counts = accounting.counts();
        assert_eq!(
            (counts.sent, counts.acknowledged, counts.failed),
            (60, 40, 10)
        );
    }

    #[test]
    fn lateness_counts_from_the_plan_and_acknowledgement_from_both() {
        let plan = plan(Pace::Open {
            rate: Rate::per_second(1e6).expect("a positive rate"),
            arrivals: Arrivals::Constant,
        });
        let mut accounting = Accounting::new(&plan, 25, at(0));
        // Stream 0 is due at 0, 2, 4, 6, 8 and stream 1 at 1, 3, 5, 7, 9.
        for run in runs(plan, 9) {
            let pending = accounting.sent(run, at(30));
            accounting.acknowledged(&pending, at(100));
        }
        assert_eq!(accounting.counts().late, 5, "0 to 4 are later than 25 µs");
        let recordings = accounting.end_measurement(at(200));
        let summary = |recording: &Recording| {
            let distribution = recording.total.decode().expect("our own text");
            let summary = distribution.summary().expect("ten events");
            (summary.count, summary.min, summary.max)
        };
        let lateness = recordings.lateness.expect("an open load has a schedule");
        assert_eq!(summary(&lateness), (10, 21, 30));
        assert_eq!(summary(&recordings.acknowledge), (10, 70, 70));
        assert_eq!(summary(&recordings.acknowledge_corrected), (10, 91, 100));
    }

    #[test]
    fn a_measurement_forgets_what_was_recorded_before_and_keeps_the_counts() {
        let plan = plan(Pace::Closed);
        let mut accounting = Accounting::new(&plan, 0, at(0));
        let pending = accounting.sent(runs(plan, 1).remove(0), at(1));
        accounting.acknowledged(&pending, at(50));
        accounting.begin_measurement(at(60));
        let recordings = accounting.end_measurement(at(70));
        assert_eq!(recordings.lateness, None);
        let recorded = recordings.acknowledge.total.decode().expect("our own text");
        assert!(recorded.is_empty());
        assert_eq!(accounting.counts().acknowledged, 10);
    }
}
