//! What became of every event that a load offered.
//!
//! Per stream: how far it was sent, and which sequence numbers the service acknowledged. An event that
//! was sent and not acknowledged is *unknown*: it may have arrived. It is not sent again, since that
//! would hide what the service did.

use connect::producer::Stages;
use connect::sink::ErrorClass;
use serde::{Deserialize, Serialize};

use super::{LATE_AFTER, attendance::Attendance, isolated::IsolatedCalls, plan::LoadPlan, schedule::Run};
use crate::{
    clock::RunTime,
    record::{DecodeError, LatencyRecording, Recorder, Recording, Window},
    verify::StreamSends,
};

/// The accounting of one worker.
#[derive(Debug, Clone)]
pub struct Accounting {
    streams: Vec<StreamSends>,
    counts: LoadCounts,
    measurement: Option<Measurement>,
    has_schedule: bool,
}

/// What is known of the events that were meant for the measured phase.
#[derive(Debug, Clone)]
struct Measurement {
    window: Window,
    punctuality: Punctuality,
    recorders: Option<Recorders>,
}

#[derive(Debug, Clone)]
struct Recorders {
    lateness: Recorder,
    acknowledge: Recorder,
    acknowledge_corrected: Recorder,
    isolated: IsolatedCalls,
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
    /// Sends, of one or more events each, that the service refused.
    #[serde(default)]
    pub refused: u64,
    /// Those of them that it refused because a quota was exhausted, and how often it asked to be left alone for that reason.
    #[serde(default)]
    pub throttled: u64,
}

/// How a load kept to its plan: the events that were meant for the measured phase, whenever they left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Punctuality {
    /// Events that left.
    pub sent: u64,
    /// Those of them that left later than [`LATE_AFTER`] because the generator was not there in time.
    pub late: u64,
    /// Those that left later than that because earlier sends were unanswered.
    pub held_back: u64,
    /// How much later than intended the latest of these left.
    pub held_back_longest_us: u64,
    /// Events that never left.
    pub never_sent: u64,
}

/// A send that waits for its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingSend {
    /// What was sent.
    pub run: Run,
    /// When it left.
    pub sent: RunTime,
}

/// The distributions that a load recorded of the events that it was meant to send in the measured phase.
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
    /// What the calls consisted of, where each had a connection of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolated: Option<IsolatedCalls>,
}

impl LoadRecordings {
    /// Adds what another worker recorded at the same time.
    ///
    /// # Errors
    /// [`DecodeError`] when one of the two is not a recording of ours.
    pub fn merge(&mut self, other: Self) -> Result<(), DecodeError> {
        Recording::merge_option(&mut self.lateness, other.lateness)?;
        if let Some(isolated) = other.isolated {
            *self.isolated.get_or_insert_default() += isolated;
        }
        self.acknowledge.merge(&other.acknowledge)?;
        self.acknowledge_corrected.merge(&other.acknowledge_corrected)
    }
}

impl std::ops::AddAssign for LoadCounts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.acknowledged += other.acknowledged;
        self.failed += other.failed;
        self.refused += other.refused;
        self.throttled += other.throttled;
    }
}

impl std::ops::AddAssign for Punctuality {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.late += other.late;
        self.held_back += other.held_back;
        self.held_back_longest_us = self.held_back_longest_us.max(other.held_back_longest_us);
        self.never_sent += other.never_sent;
    }
}

impl Punctuality {
    fn count(&mut self, intended: RunTime, now: RunTime, attendance: &Attendance) {
        self.sent += 1;
        let late_us = now.micros_since(intended);
        if late_us <= LATE_AFTER_US {
            return;
        }
        if attendance.own_lateness_us(intended, now) > LATE_AFTER_US {
            self.late += 1;
        } else {
            self.held_back += 1;
            self.held_back_longest_us = self.held_back_longest_us.max(late_us.unsigned_abs());
        }
    }
}

impl Accounting {
    /// An empty accounting for the streams of `plan`.
    #[must_use]
    pub fn new(plan: &LoadPlan) -> Self {
        Self {
            streams: vec![StreamSends::default(); usize::from(plan.streams)],
            counts: LoadCounts::default(),
            measurement: None,
            has_schedule: plan.pace.has_plan(),
        }
    }

    /// Records that `run` left at `now`, by a worker with this `attendance`. The result is kept until the answer and
    /// given back with it.
    pub fn sent(&mut self, run: Run, now: RunTime, attendance: &Attendance) -> PendingSend {
        let sequences = run.sequences();
        self.streams[usize::from(run.stream)].sent = sequences.end;
        self.counts.sent += u64::from(run.count());
        if self.has_schedule
            && let Some(measurement) = &mut self.measurement
        {
            for (_, intended) in run.events() {
                if measurement.window.contains(intended) {
                    measurement.punctuality.count(intended, now, attendance);
                    if let Some(recorders) = &mut measurement.recorders {
                        recorders.lateness.record(intended, now);
                    }
                }
            }
        }
        PendingSend { run, sent: now }
    }

    /// Records that the service acknowledged a send at `now`.
    pub fn acknowledged(&mut self, pending: &PendingSend, now: RunTime) {
        let run = &pending.run;
        let count = u64::from(run.count());
        self.counts.acknowledged += count;
        self.streams[usize::from(run.stream)].acknowledged.insert(run.sequences());
        let Some(Measurement { window, recorders: Some(recorders), .. }) = &mut self.measurement else {
            return;
        };
        if self.has_schedule {
            for (_, intended) in run.events() {
                if window.contains(intended) {
                    recorders.acknowledge.record(pending.sent, now);
                    recorders.acknowledge_corrected.record(intended, now);
                }
            }
        } else if window.contains(run.released) {
            recorders.acknowledge.record_many(pending.sent, now, count);
            recorders.acknowledge_corrected.record_many(run.released, now, count);
        }
    }

    /// Records what a call with a connection of its own consisted of, of which `now` is known that it was acknowledged.
    pub fn consisted_of(&mut self, pending: &PendingSend, stages: &Stages, now: RunTime) {
        let Some(Measurement { window, recorders: Some(recorders), .. }) = &mut self.measurement else {
            return;
        };
        let is_measured = match self.has_schedule {
            true => pending.run.events().any(|(_, intended)| window.contains(intended)),
            false => window.contains(pending.run.released),
        };
        if is_measured {
            recorders.isolated.note(stages, now.micros_since(pending.sent).max(0).cast_unsigned());
        }
    }

    /// Records that a send will never be answered.
    pub fn failed(&mut self, pending: &PendingSend) {
        self.counts.failed += u64::from(pending.run.count());
    }

    /// Records that a send failed with an error of this class. One that could be made again at once may have been
    /// accepted: it broke off, or had no answer in time.
    pub fn refused(&mut self, pending: &PendingSend, class: ErrorClass) {
        self.failed(pending);
        match class {
            ErrorClass::Retryable => {}
            ErrorClass::Throttled { .. } => {
                self.counts.refused += 1;
                self.counts.throttled += 1;
            }
            ErrorClass::Fatal | ErrorClass::TooLarge => self.counts.refused += 1,
        }
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
        if let Some(Measurement { recorders: Some(recorders), .. }) = &mut self.measurement {
            recorders.lateness.tick(now);
            recorders.acknowledge.tick(now);
            recorders.acknowledge_corrected.tick(now);
        }
    }

    /// The measured phase begins: what is meant for `now` or later is counted, and recorded if that is wanted.
    pub fn begin_measurement(&mut self, now: RunTime, recording: LatencyRecording) {
        self.measurement = Some(Measurement {
            window: Window::beginning_at(now),
            punctuality: Punctuality::default(),
            recorders: (recording == LatencyRecording::On).then(|| Recorders {
                lateness: Recorder::starting_at(now),
                acknowledge: Recorder::starting_at(now),
                acknowledge_corrected: Recorder::starting_at(now),
                isolated: IsolatedCalls::default(),
            }),
        });
    }

    /// It ends: what is meant for `now` or later is not recorded any more. Events that were meant for it before are, even
    /// if they leave or are acknowledged later.
    pub const fn end_measurement(&mut self, now: RunTime) {
        if let Some(measurement) = &mut self.measurement {
            measurement.window.end_at(now);
        }
    }

    /// The measured phase, if it has begun.
    #[must_use]
    pub fn window(&self) -> Option<Window> {
        self.measurement.as_ref().map(|measurement| measurement.window)
    }

    /// How the plan was kept in the measured phase.
    #[must_use]
    pub fn punctuality(&self) -> Punctuality {
        self.measurement.as_ref().map_or_else(Punctuality::default, |measurement| measurement.punctuality)
    }

    /// What was recorded, up to `now`; `None` if nothing was to be, or no measurement was begun.
    pub fn take_recordings(&mut self, now: RunTime) -> Option<LoadRecordings> {
        let recorders = self.measurement.as_mut()?.recorders.take()?;
        Some(LoadRecordings {
            lateness: self.has_schedule.then(|| recorders.lateness.finish(now)),
            acknowledge: recorders.acknowledge.finish(now),
            acknowledge_corrected: recorders.acknowledge_corrected.finish(now),
            isolated: (recorders.isolated.calls > 0).then_some(recorders.isolated),
        })
    }
}

const LATE_AFTER_US: i64 = LATE_AFTER.as_micros() as i64;

#[cfg(test)]
mod tests {
    use units::Rate;

    use super::*;
    use crate::load::{Arrivals, Pace, Schedule, Worker};

    const fn at(microseconds: u64) -> RunTime {
        RunTime::from_micros(microseconds)
    }

    fn plan(pace: Pace) -> LoadPlan {
        LoadPlan { seed: 1, streams: 2, batch: 10, in_flight: 10, pace }
    }

    fn runs(plan: LoadPlan, now: u64) -> Vec<Run> {
        let mut runs = Vec::new();
        Schedule::new(plan, Worker::ONLY, at(0)).release(at(now), u32::MAX, &mut runs);
        runs
    }

    #[test]
    fn answers_in_any_order_become_ranges_and_a_refusal_leaves_a_gap() {
        let plan = plan(Pace::Backlog { events: 60 });
        let mut accounting = Accounting::new(&plan);
        let pending: Vec<_> = runs(plan, 1)
            .into_iter()
            .map(|run| accounting.sent(run, at(2), &Attendance::default()))
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
        assert_eq!((counts.sent, counts.acknowledged, counts.failed), (60, 40, 10));
    }

    #[test]
    fn refusals_are_distinguished_from_unanswered_sends() {
        let plan = plan(Pace::Backlog { events: 40 });
        let mut accounting = Accounting::new(&plan);
        let pending: Vec<_> = runs(plan, 1)
            .into_iter()
            .map(|run| accounting.sent(run, at(2), &Attendance::default()))
            .collect();
        let busy = ErrorClass::Throttled { retry_after: std::time::Duration::from_secs(4) };
        accounting.refused(&pending[0], busy);
        accounting.refused(&pending[1], ErrorClass::Fatal);
        accounting.refused(&pending[2], ErrorClass::Retryable);
        accounting.failed(&pending[3]);
        let counts = accounting.counts();
        assert_eq!((counts.failed, counts.refused, counts.throttled), (40, 2, 1));
    }

    #[test]
    fn lateness_counts_from_the_plan_and_acknowledgement_from_both() {
        let plan = plan(Pace::Open {
            rate: Rate::per_second(1e6).expect("a positive rate"),
            arrivals: Arrivals::Constant,
            lead: None,
        });
        let mut accounting = Accounting::new(&plan);
        accounting.begin_measurement(at(0), LatencyRecording::On);
        // Stream 0 is due at 0, 2, 4, 6, 8 and stream 1 at 1, 3, 5, 7, 9.
        for run in runs(plan, 9) {
            let pending = accounting.sent(run, at(30), &Attendance::default());
            accounting.acknowledged(&pending, at(100));
        }
        let recordings = accounting.take_recordings(at(200)).expect("begun");
        let summary = |recording: &Recording| {
            let distribution = recording.total.decode().expect("our own text");
            let summary = distribution.summary().expect("ten events");
            (summary.count, summary.min, summary.max)
        };
        let lateness = recordings.lateness.expect("an open load has a schedule");
        assert_eq!(summary(&lateness), (10, Some(21), Some(30)));
        assert_eq!(summary(&recordings.acknowledge), (10, Some(70), Some(70)));
        assert_eq!(summary(&recordings.acknowledge_corrected), (10, Some(91), Some(100)));
    }

    #[test]
    fn only_what_was_meant_for_the_phase_is_late_and_what_waited_for_answers_is_held_back() {
        let plan = plan(Pace::Open {
            rate: Rate::per_second(1e3).expect("a positive rate"),
            arrivals: Arrivals::Constant,
            lead: None,
        });
        let of_phase = |slept: Attendance| {
            let mut accounting = Accounting::new(&plan);
            accounting.begin_measurement(at(10_000), LatencyRecording::Off);
            accounting.end_measurement(at(40_000));
            for run in runs(plan, 59_000) {
                accounting.sent(run, at(59_000), &slept);
            }
            assert_eq!(accounting.take_recordings(at(60_000)), None);
            accounting.punctuality()
        };
        // The whole plan of 60 events left at its end, at most ten events of a stream in each send.
        let late = of_phase(Attendance::default());
        assert_eq!(late, Punctuality { sent: 30, late: 30, ..Punctuality::default() });
        let mut waited = Attendance::default();
        waited.sleep(at(0), at(58_000), at(0));
        waited.awake(at(58_000));
        let held_back = of_phase(waited);
        let expected =
            Punctuality { sent: 30, held_back: 30, held_back_longest_us: 49_000, ..Punctuality::default() };
        assert_eq!(held_back, expected);
    }

    #[test]
    fn what_was_meant_for_the_phase_is_recorded_whenever_it_is_acknowledged_and_nothing_else_is() {
        let plan = plan(Pace::Open {
            rate: Rate::per_second(1e6).expect("a positive rate"),
            arrivals: Arrivals::Constant,
            lead: None,
        });
        let mut accounting = Accounting::new(&plan);
        // Stream 0 is due at 0, 2, 4, …, 18 and stream 1 at 1, 3, 5, …, 19.
        accounting.begin_measurement(at(5), LatencyRecording::On);
        accounting.end_measurement(at(15));
        let pending: Vec<_> = runs(plan, 19)
            .into_iter()
            .map(|run| accounting.sent(run, at(19), &Attendance::default()))
            .collect();
        for pending in &pending {
            accounting.acknowledged(pending, at(5_000_000));
        }
        let recordings = accounting.take_recordings(at(5_000_001)).expect("begun");
        for recording in [
            recordings.lateness.expect("an open load has a schedule"),
            recordings.acknowledge,
            recordings.acknowledge_corrected.clone(),
        ] {
            let recorded = recording.total.decode().expect("our own text");
            assert_eq!(recorded.histogram.len(), 10, "5 to 14");
        }
        let corrected = recordings.acknowledge_corrected.total;
        let corrected = corrected.decode().expect("our own text");
        assert!(corrected.histogram.min() >= 4_990_000, "after the end of the phase");
        assert_eq!(accounting.counts().acknowledged, 20);
    }

    #[test]
    fn without_a_measurement_nothing_is_recorded_and_everything_is_counted() {
        let plan = plan(Pace::Closed);
        let mut accounting = Accounting::new(&plan);
        let pending = accounting.sent(runs(plan, 1).remove(0), at(1), &Attendance::default());
        accounting.acknowledged(&pending, at(50));
        assert_eq!(accounting.take_recordings(at(70)), None);
        assert_eq!(accounting.counts().acknowledged, 10);
    }
}
