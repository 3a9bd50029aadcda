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
    instants: Instants,
}

#[derive(Debug, Clone, PartialEq)]
enum Instants {
    Constant {
        /// The next event's number in the whole plan.
        number: u64,
        /// How far apart the events of one stream are in it.
        streams: u64,
        interval_us: f64,
        start_us: f64,
    },
    Poisson {
        random: Random,
        mean_us: f64,
        next_us: f64,
    },
}

impl StreamPlan {
    /// The plan of `stream` in an open load that starts at `start`; `None` for the other paces, which
    /// have no schedule.
    #[must_use]
    pub fn new(plan: &LoadPlan, stream: u16, start: RunTime) -> Option<Self> {
        let Pace::Open { rate, arrivals } = plan.pace else {
            return None;
        };
        let interval_us = 1e6 / rate.events_per_second();
        let start_us = start.as_micros() as f64;
        let streams = u64::from(plan.streams);
        let instants = match arrivals {
            Arrivals::Constant => {
                Instants::Constant { number: u64::from(stream), streams, interval_us, start_us }
            }
            Arrivals::Poisson => {
                let mut random = Random::for_concern(plan.seed, u64::from(stream));
                let mean_us = interval_us * streams as f64;
                let next_us = start_us + random.exponential(mean_us);
                Instants::Poisson { random, mean_us, next_us }
            }
        };
        Some(Self { sequence: 0, instants })
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
        RunTime::from_micros(match &self.instants {
            // One multiplication from the start: a sum of intervals would drift.
            Instants::Constant { number, interval_us, start_us, .. } => {
                start_us + *number as f64 * interval_us
            }
            Instants::Poisson { next_us, .. } => *next_us,
        } as u64)
    }

    /// The intended instant of any event of the stream, where it does not follow from those before it.
    #[inline]
    #[must_use]
    pub fn intended_of(&self, sequence: u32) -> Option<RunTime> {
        let Instants::Constant { number, streams, interval_us, start_us } = &self.instants else {
            return None;
        };
        let distance = i128::from(sequence) - i128::from(self.sequence);
        let number = u64::try_from(i128::from(*number) + distance * i128::from(*streams)).ok()?;
        Some(RunTime::from_micros((start_us + number as f64 * interval_us) as u64))
    }

    /// Goes on to the event after the next one.
    #[inline]
    pub fn advance(&mut self) {
        self.sequence = self.sequence.saturating_add(1);
        match &mut self.instants {
            Instants::Constant { number, streams, .. } => *number += *streams,
            Instants::Poisson { random, mean_us, next_us } => *next_us += random.exponential(*mean_us),
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
        let Instants::Constant { number, streams, interval_us, start_us } = &mut self.instants else {
            return 0;
        };
        let next_us = *start_us + *number as f64 * *interval_us;
        let distance_us = *interval_us * *streams as f64;
        let due = (now.as_micros() as f64 - next_us) / distance_us;
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
            pace: Pace::Open { rate: Rate::per_second(rate).expect("a positive rate"), arrivals },
        }
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
