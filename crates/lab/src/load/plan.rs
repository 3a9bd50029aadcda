//! The plan of a load: which event is meant to leave when, as a pure function of its seed.
//!
//! A plan is a set of streams; event `q` of stream `s` has an intended instant. Each stream derives
//! its own instants, so a worker that owns some of the streams needs to know nothing of the others,
//! and any division of the streams among workers offers the same events at the same instants:
//!
//! * `constant`: event `q` of stream `s` is number `q · streams + s` of the whole, and number `n` is
//!   due `n` intervals after the start;
//! * `poisson`: each stream is a Poisson process of its share of the rate with its own random numbers;
//!   together they are a Poisson process of the whole rate.
//!
//! Both place events on an axis that counts events instead of time, and a [`Course`] maps that axis to instants. So a
//! load may begin with a [`Lead`] at another rate, whatever the arrivals. In bursts ([`Pace::Burst`]) every event is due
//! with the first of its burst: number `n` of the whole lies where number `n - n mod burst` does.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::{Random, Rate};

use crate::clock::RunTime;

/// What is to be offered, by all workers of a load together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPlan {
    /// Everything random in the plan follows from it.
    pub seed: u64,
    /// How many streams are written; stream `s` goes to source partition `s mod partitions`.
    pub streams: u16,
    /// Events in one send at most.
    pub batch: u32,
    /// Sends that each worker may have unanswered at any time, at least 1.
    pub in_flight: u32,
    /// What determines the pace.
    pub pace: Pace,
}

/// What determines when events are offered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pace {
    /// A schedule that does not wait for anyone.
    Open {
        /// Events per second of all streams together.
        rate: Rate,
        /// How the instants are spread.
        arrivals: Arrivals,
        /// What comes before the rate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lead: Option<Lead>,
    },
    /// A loop: each worker sends its part of a burst, one event after the other, waits until all of it was answered, and
    /// goes on when the next burst is due. A burst that is held up delays those after it.
    Burst {
        /// Events per second of all streams together.
        rate: Rate,
        /// Events of a burst of all streams together, at least 1.
        burst: u32,
    },
    /// A worker sends again when a send was answered.
    Closed,
    /// As much as may be in flight, but never further ahead of what was forwarded than the
    /// orchestrator allows.
    Saturate,
    /// So many events as fast as they are taken, then no more.
    Backlog {
        /// How many, of all streams together.
        events: u64,
    },
}

impl Pace {
    /// Whether events have intended instants of their own.
    #[must_use]
    pub const fn has_plan(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Burst { .. })
    }
}

/// How an open load begins, if not at its rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lead {
    /// Events per second of all streams together.
    pub rate: Rate,
    /// For how long.
    pub length: Duration,
}

/// How the instants of an open load are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// At equal distances.
    Constant,
    /// As by many who do not know of each other: exponentially distributed distances.
    Poisson,
}

/// The events of one stream from some position on: sequence numbers with their intended instants.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamPlan {
    /// The sequence number of the next event.
    sequence: u32,
    course: Course,
    positions: Positions,
}

/// When what is due, as a function of a position: how many events of the whole plan are due before it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Course {
    start_us: f64,
    /// What [`Lead::length`] lasts, and how many events are due in it.
    lead_us: f64,
    lead_events: f64,
    lead_interval_us: f64,
    interval_us: f64,
}

#[derive(Debug, Clone, PartialEq)]
enum Positions {
    Constant {
        /// The next event's number in the whole plan.
        number: u64,
        /// How far apart the events of one stream are in it.
        streams: u64,
        /// How many neighbours in it are due together.
        burst: u64,
    },
    Poisson {
        random: Random,
        /// The mean distance of two events of one stream, in events of the whole plan.
        mean: f64,
        next: f64,
    },
}

impl Course {
    fn new(rate: Rate, lead: Option<Lead>, start: RunTime) -> Self {
        let interval_us = |rate: Rate| 1e6 / rate.events_per_second();
        let lead_us = lead.map_or(0.0, |lead| lead.length.as_secs_f64() * 1e6);
        let lead_interval_us = interval_us(lead.map_or(rate, |lead| lead.rate));
        Self {
            start_us: start.as_micros() as f64,
            lead_us,
            lead_events: lead_us / lead_interval_us,
            lead_interval_us,
            interval_us: interval_us(rate),
        }
    }

    /// When the event at `position` is due. One multiplication from the start of either part: a sum of intervals would
    /// drift.
    #[inline]
    fn instant_us(&self, position: f64) -> f64 {
        if position < self.lead_events {
            self.start_us + position * self.lead_interval_us
        } else {
            self.start_us + self.lead_us + (position - self.lead_events) * self.interval_us
        }
    }

    /// The position of what is due at an instant; below 0 before the start.
    fn position(&self, instant_us: f64) -> f64 {
        let since_start_us = instant_us - self.start_us;
        if since_start_us < self.lead_us {
            since_start_us / self.lead_interval_us
        } else {
            self.lead_events + (since_start_us - self.lead_us) / self.interval_us
        }
    }
}

impl StreamPlan {
    /// The plan of `stream` in a load that starts at `start`; `None` for paces that have no schedule.
    #[must_use]
    pub fn new(plan: &LoadPlan, stream: u16, start: RunTime) -> Option<Self> {
        let (rate, arrivals, lead, burst) = match plan.pace {
            Pace::Open { rate, arrivals, lead } => (rate, arrivals, lead, 1),
            Pace::Burst { rate, burst } => (rate, Arrivals::Constant, None, u64::from(burst.max(1))),
            Pace::Closed | Pace::Saturate | Pace::Backlog { .. } => return None,
        };
        let streams = u64::from(plan.streams);
        let positions = match arrivals {
            Arrivals::Constant => Positions::Constant { number: u64::from(stream), streams, burst },
            Arrivals::Poisson => {
                let mut random = Random::for_concern(plan.seed, u64::from(stream));
                let mean = streams as f64;
                let next = random.exponential(mean);
                Positions::Poisson { random, mean, next }
            }
        };
        Some(Self { sequence: 0, course: Course::new(rate, lead, start), positions })
    }

    /// The next event's sequence number.
    #[must_use]
    pub const fn sequence(&self) -> u32 {
        self.sequence
    }

    /// The next event's intended instant.
    #[inline]
    #[must_use]
    pub fn intended(&self) -> RunTime {
        let position = match &self.positions {
            Positions::Constant { number, burst, .. } => first_of_burst(*number, *burst) as f64,
            Positions::Poisson { next, .. } => *next,
        };
        RunTime::from_micros(self.course.instant_us(position) as u64)
    }

    /// The intended instant of any event of the stream, where it does not follow from those before it.
    #[inline]
    #[must_use]
    pub fn intended_of(&self, sequence: u32) -> Option<RunTime> {
        let Positions::Constant { number, streams, burst } = &self.positions else {
            return None;
        };
        let distance = i128::from(sequence) - i128::from(self.sequence);
        let number = u64::try_from(i128::from(*number) + distance * i128::from(*streams)).ok()?;
        let position = first_of_burst(number, *burst) as f64;
        Some(RunTime::from_micros(self.course.instant_us(position) as u64))
    }

    /// Goes on to the event after the next one.
    #[inline]
    pub fn advance(&mut self) {
        self.sequence = self.sequence.saturating_add(1);
        match &mut self.positions {
            Positions::Constant { number, streams, .. } => *number += *streams,
            Positions::Poisson { random, mean, next } => *next += random.exponential(*mean),
        }
    }

    /// How many events from here on are due before `now`.
    #[must_use]
    pub fn due_before(&self, now: RunTime) -> u64 {
        let mut plan = self.clone();
        let mut due = plan.skip_nearly_to(now);
        while plan.intended() < now && plan.intended() < RunTime::LATEST {
            plan.advance();
            due += 1;
        }
        due
    }

    /// Skips events at equal distances that are due by `now`, all but the last few, and returns how many.
    fn skip_nearly_to(&mut self, now: RunTime) -> u64 {
        // Who is due with an earlier one is due before its own position, so that none is skipped which is not.
        let Positions::Constant { number, streams, .. } = &mut self.positions else {
            return 0;
        };
        let due = (self.course.position(now.as_micros() as f64) - *number as f64) / *streams as f64;
        // A cast of what is negative or infinite ends at the type's limits, and few enough are left for rounding.
        let skipped = (due as u64).saturating_sub(2);
        *number += skipped * *streams;
        skipped
    }
}

/// Which of the workers of a load this one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    /// From 0.
    pub index: u16,
    /// How many there are, at least 1.
    pub count: u16,
}

impl Worker {
    /// The worker that does everything.
    pub const ONLY: Self = Self { index: 0, count: 1 };

    /// The streams that this worker writes.
    pub fn streams(self, plan: &LoadPlan) -> impl Iterator<Item = u16> {
        (self.index..plan.streams).step_by(usize::from(self.count.max(1)))
    }

    /// Its part of `total` things that are divided among all workers as evenly as possible.
    #[must_use]
    pub fn share_of(self, total: u64) -> u64 {
        share(total, self.index, self.count)
    }
}

/// The number of the event with which event `number` of the whole is due.
const fn first_of_burst(number: u64, burst: u64) -> u64 {
    number - number % burst
}

/// The part of `total` that belongs to `index` of `count`: the parts differ by one at most and add up.
pub(super) fn share(total: u64, index: u16, count: u16) -> u64 {
    let count = u64::from(count.max(1));
    total / count + u64::from(u64::from(index) < total % count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(rate: f64, arrivals: Arrivals) -> LoadPlan {
        LoadPlan {
            seed: 5,
            streams: 4,
            batch: 10,
            in_flight: 100,
            pace: Pace::Open { rate: per_second(rate), arrivals, lead: None },
        }
    }

    /// 10,000/s for 1.5 s, then 3,000/s.
    fn with_lead(arrivals: Arrivals) -> LoadPlan {
        let lead = Some(Lead { rate: per_second(10_000.0), length: Duration::from_millis(1_500) });
        LoadPlan { pace: Pace::Open { rate: per_second(3_000.0), arrivals, lead }, ..open(1.0, arrivals) }
    }

    fn per_second(rate: f64) -> Rate {
        Rate::per_second(rate).expect("a positive rate")
    }

    fn instants(plan: &LoadPlan, stream: u16, count: usize) -> Vec<u64> {
        let start = RunTime::from_micros(1_000);
        let mut stream = StreamPlan::new(plan, stream, start).expect("an open load");
        std::iter::repeat_with(|| {
            let intended = stream.intended().as_micros();
            stream.advance();
            intended
        })
        .take(count)
        .collect()
    }

    #[test]
    fn constant_arrivals_interleave_the_streams_at_equal_distances() {
        let plan = open(10_000.0, Arrivals::Constant);
        assert_eq!(instants(&plan, 0, 3), [1_000, 1_400, 1_800]);
        assert_eq!(instants(&plan, 3, 3), [1_300, 1_700, 2_100]);
    }

    #[test]
    fn a_constant_plan_does_not_drift_at_an_awkward_rate() {
        let plan = open(3.0, Arrivals::Constant);
        // Event 300 of stream 1 is number 1201 of the whole, due 1201/3 s after the start.
        let last = instants(&plan, 1, 301)[300];
        assert_eq!(last, 1_000 + 400_333_333);
    }

    #[test]
    fn poisson_streams_together_have_the_whole_rate_and_differ_from_one_another() {
        let plan = open(10_000.0, Arrivals::Poisson);
        let end = RunTime::from_micros(10_001_000);
        let start = RunTime::from_micros(1_000);
        let due: u64 = (0..4)
            .map(|stream| StreamPlan::new(&plan, stream, start).expect("an open load").due_before(end))
            .sum();
        // Ten seconds of 10,000/s; five standard deviations.
        assert!(due.abs_diff(100_000) < 1_600, "{due}");
        assert_ne!(instants(&plan, 0, 5), instants(&plan, 1, 5));
        assert_eq!(instants(&plan, 1, 50), instants(&plan, 1, 50));
    }

    #[test]
    fn due_events_are_counted_up_to_the_instant() {
        let plan = open(10_000.0, Arrivals::Constant);
        let stream = StreamPlan::new(&plan, 0, RunTime::EPOCH).expect("an open load");
        for (now, due) in [(0, 0), (1, 1), (400, 1), (401, 2), (4_001, 11)] {
            assert_eq!(stream.due_before(RunTime::from_micros(now)), due, "at {now}");
        }
    }

    #[test]
    fn a_constant_lead_goes_over_into_the_rate_without_a_jump_or_drift() {
        let plan = with_lead(Arrivals::Constant);
        // 15,000 events in the lead: the last of stream 3 is number 14,999, and event 3,750 of stream 0 opens the rate.
        assert_eq!(instants(&plan, 3, 3_750)[3_749], 1_000 + 1_499_900);
        assert_eq!(instants(&plan, 0, 3_751)[3_750], 1_000 + 1_500_000);
        let all = instants(&plan, 1, 30_000);
        assert!(all.is_sorted());
        // Event 29,999 of stream 1 is number 119,997: 104,997 intervals of the rate after the lead.
        assert_eq!(all[29_999], 1_000 + 1_500_000 + 34_999_000);
        let stream = StreamPlan::new(&plan, 1, RunTime::from_micros(1_000)).expect("an open load");
        for sequence in [0, 1, 3_749, 3_750, 3_751, 29_999] {
            let intended = stream.intended_of(sequence).expect("at equal distances");
            assert_eq!(intended.as_micros(), all[sequence as usize]);
        }
    }

    #[test]
    fn a_lead_has_its_own_mean_rate_whatever_the_arrivals() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let plan = with_lead(arrivals);
            let due = |seconds: f64| -> u64 {
                let now = RunTime::from_micros((seconds * 1e6) as u64);
                let stream = |stream| StreamPlan::new(&plan, stream, RunTime::EPOCH).expect("an open load");
                (0..4).map(|number| stream(number).due_before(now)).sum()
            };
            // Five standard deviations of a Poisson process.
            let is_near = |due: u64, mean: f64| (due as f64 - mean).abs() <= 5.0 * mean.sqrt();
            assert!(is_near(due(1.5), 15_000.0), "{arrivals:?}: {}", due(1.5));
            assert!(is_near(due(11.5) - due(1.5), 30_000.0), "{arrivals:?}: {}", due(11.5));
            assert!((0..4).all(|stream| instants(&plan, stream, 9_000).is_sorted()));
        }
    }

    #[test]
    fn due_events_are_counted_across_the_end_of_a_lead() {
        let plan = with_lead(Arrivals::Constant);
        let stream = StreamPlan::new(&plan, 2, RunTime::EPOCH).expect("an open load");
        let all: Vec<_> = (0..9_000).filter_map(|sequence| stream.intended_of(sequence)).collect();
        for now in [0, 199, 1_499_800, 1_500_666, 1_500_667, 1_502_001, 4_000_000] {
            let now = RunTime::from_micros(now);
            let counted = all.iter().filter(|intended| **intended < now).count() as u64;
            assert_eq!(stream.due_before(now), counted, "at {}", now.as_micros());
        }
    }

    #[test]
    fn the_events_of_a_burst_are_due_together_and_its_rate_is_that_of_the_whole() {
        let plan = LoadPlan {
            pace: Pace::Burst { rate: per_second(100.0), burst: 10 },
            ..open(1.0, Arrivals::Constant)
        };
        // Numbers 0, 4, 8 of the whole are of the first burst, 12 and 16 of the second, 20 of the third.
        assert_eq!(instants(&plan, 0, 6), [1_000, 1_000, 1_000, 101_000, 101_000, 201_000]);
        assert_eq!(instants(&plan, 3, 4), [1_000, 1_000, 101_000, 101_000]);
        let start = RunTime::from_micros(1_000);
        let streams = || (0..4).map(|number| StreamPlan::new(&plan, number, start).expect("a schedule"));
        for (now, due) in [(1_000, 0), (1_001, 10), (101_000, 10), (101_001, 20), (10_001_000, 1_000)] {
            let counted: u64 = streams().map(|stream| stream.due_before(RunTime::from_micros(now))).sum();
            assert_eq!(counted, due, "at {now}");
        }
        let all = instants(&plan, 2, 500);
        let stream = streams().nth(2).expect("there are four");
        for sequence in [0, 1, 2, 3, 499] {
            let intended = stream.intended_of(sequence).expect("it follows from the number");
            assert_eq!(intended.as_micros(), all[sequence as usize]);
        }
    }

    #[test]
    fn workers_divide_the_streams_and_the_totals_without_remainder() {
        let plan = LoadPlan { streams: 11, ..open(1.0, Arrivals::Constant) };
        for count in 1..=12 {
            let workers = (0..count).map(|index| Worker { index, count });
            let mut streams: Vec<_> =
                workers.clone().flat_map(|worker| worker.streams(&plan).collect::<Vec<_>>()).collect();
            streams.sort_unstable();
            assert_eq!(streams, (0..11).collect::<Vec<_>>());
            assert_eq!(workers.map(|worker| worker.share_of(100)).sum::<u64>(), 100);
        }
    }
}
