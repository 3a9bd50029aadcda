//! How far the clock of another machine is ahead of this one's, from questions that were answered in time.
//!
//! ```text
//! here    asked ────────────────────────────── heard        ahead = ((t1 − asked) + (t2 − heard)) / 2
//!               ╲                            ╱               ± half the round trip, however the way there and the way
//! there          t1 ── sampled, answered ── t2                 back share it
//! ```
//!
//! Each answer bounds the offset at its moment. Away from it the bounds widen by the [most that clocks
//! drift](MAX_DRIFT_PPM); where those of several answers overlap, the true offset is in what they have in common. So
//! one answer that travelled fast makes up for many that did not.

use crate::roles::protocol::ClockAnswer;

/// The answers of one role, in the order in which they came.
#[derive(Debug, Clone, Default)]
pub(super) struct ClockTrack {
    exchanges: Vec<Exchange>,
}

#[derive(Debug, Clone, Copy)]
struct Exchange {
    /// Midway between question and answer, by the clock here.
    at_ns: i64,
    ahead_ns: i64,
    /// Half the round trip.
    uncertainty_ns: i64,
}

/// Between which values an offset is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OffsetRange {
    pub(super) low_ns: i64,
    pub(super) high_ns: i64,
}

impl ClockTrack {
    /// Takes an answer that was heard at `heard_ns`.
    pub(super) fn note(&mut self, answer: &ClockAnswer, heard_ns: i64) {
        let there = answer.heard_ns.saturating_sub(answer.asked_ns);
        let back = answer.answered_ns.saturating_sub(heard_ns);
        let round_trip = there.saturating_sub(back);
        self.exchanges.push(Exchange {
            at_ns: middle(answer.asked_ns, heard_ns),
            ahead_ns: middle(there, back),
            // Rounded up. A clock that runs fast may make a very short one negative.
            uncertainty_ns: round_trip.max(0) / 2 + 1,
        });
    }

    /// How many answers came from `from_ns` to `to_ns`, and the shortest round trip of them.
    pub(super) fn exchanges(&self, from_ns: i64, to_ns: i64) -> (u64, Option<i64>) {
        let range = self.first_from(from_ns)..self.first_from(to_ns);
        let within = self.exchanges.get(range).unwrap_or_default();
        let shortest = within.iter().map(|exchange| exchange.uncertainty_ns * 2).min();
        (within.len() as u64, shortest)
    }

    /// The offset at a moment; `None` before the first answer.
    pub(super) fn at(&self, at_ns: i64) -> Option<OffsetRange> {
        let near = |window_ns: i64| {
            let range = self.first_from(at_ns - window_ns)..self.first_from(at_ns + window_ns);
            self.exchanges.get(range).filter(|near| !near.is_empty())
        };
        let nearest = || {
            let next = self.first_from(at_ns);
            let closest = [next.checked_sub(1), Some(next)].into_iter().flatten();
            let closest = closest.filter_map(|index| self.exchanges.get(index));
            closest.min_by_key(|exchange| (exchange.at_ns - at_ns).abs()).map(std::slice::from_ref)
        };
        let all = near(NEAR_NS).or_else(nearest)?;
        let ranges = all.iter().map(|exchange| exchange.seen_from(at_ns));
        let common = ranges.reduce(|one, other| OffsetRange {
            low_ns: one.low_ns.max(other.low_ns),
            high_ns: one.high_ns.min(other.high_ns),
        })?;
        if common.low_ns <= common.high_ns {
            return Some(common);
        }
        // The clock drifts faster than clocks do, or was set. Then it was somewhere between the nearest answers.
        let all = near(JUMP_NS).unwrap_or(all);
        all.iter().map(|exchange| exchange.seen_from(at_ns)).reduce(OffsetRange::with)
    }

    /// All that the offset may have been from `from_ns` to `to_ns`.
    pub(super) fn between(&self, from_ns: i64, to_ns: i64) -> Option<OffsetRange> {
        let step = to_ns.saturating_sub(from_ns).max(0) / STEPS;
        let moments = (0..=STEPS).map(|number| from_ns + step * number);
        let range = moments.filter_map(|at| self.at(at)).reduce(OffsetRange::with)?;
        // Bounds change no faster than clocks drift.
        let slack = drift(step / 2 + 1);
        Some(OffsetRange { low_ns: range.low_ns - slack, high_ns: range.high_ns + slack })
    }

    fn first_from(&self, at_ns: i64) -> usize {
        self.exchanges.partition_point(|exchange| exchange.at_ns < at_ns)
    }
}

impl Exchange {
    /// What it says of another moment.
    fn seen_from(&self, at_ns: i64) -> OffsetRange {
        let uncertainty = self.uncertainty_ns.saturating_add(drift((at_ns - self.at_ns).abs()));
        OffsetRange {
            low_ns: self.ahead_ns.saturating_sub(uncertainty),
            high_ns: self.ahead_ns.saturating_add(uncertainty),
        }
    }
}

impl OffsetRange {
    pub(super) const fn middle_ns(self) -> i64 {
        middle(self.low_ns, self.high_ns)
    }

    /// How far the truth may be from the middle.
    pub(super) const fn bound_ns(self) -> i64 {
        self.high_ns - self.middle_ns()
    }

    fn with(self, other: Self) -> Self {
        Self { low_ns: self.low_ns.min(other.low_ns), high_ns: self.high_ns.max(other.high_ns) }
    }
}

const fn middle(one: i64, other: i64) -> i64 {
    one.midpoint(other)
}

/// How much two clocks may drift apart in a time.
const fn drift(time_ns: i64) -> i64 {
    time_ns / 1_000_000 * MAX_DRIFT_PPM + MAX_DRIFT_PPM * (time_ns % 1_000_000) / 1_000_000 + 1
}

/// Two crystals that are each off by 50 parts in a million, in opposite directions. Clocks that are disciplined by NTP do
/// better, except while they are being corrected.
const MAX_DRIFT_PPM: i64 = 100;

/// Answers farther away say less than nearer ones, whatever their round trips.
const NEAR_NS: i64 = 10_000_000_000;

/// Around a jump, only those this near are taken.
const JUMP_NS: i64 = 1_000_000_000;

const STEPS: i64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const SECOND: i64 = 1_000 * MS;

    /// Answers ten times a second, of a clock that is `ahead` of this one, after `ways` there and back.
    fn track(ahead: impl Fn(i64) -> i64, ways: impl Fn(i64) -> [i64; 2], seconds: i64) -> ClockTrack {
        let mut track = ClockTrack::default();
        for number in 0..seconds * 10 {
            let asked_ns = number * SECOND / 10;
            let [there, back] = ways(number);
            let heard_there = asked_ns + there;
            let answered = heard_there + 3_000;
            let answer = ClockAnswer {
                asked_ns,
                heard_ns: heard_there + ahead(heard_there),
                answered_ns: answered + ahead(answered),
                usage: None,
            };
            track.note(&answer, answered + back);
        }
        track
    }

    fn contains(range: OffsetRange, offset: i64) -> bool {
        (range.low_ns..=range.high_ns).contains(&offset)
    }

    #[test]
    fn the_offset_is_within_half_the_shortest_round_trip_however_it_is_shared() {
        let ahead = -7_000_000 * MS;
        for ways in [[50_000, 50_000], [95_000, 5_000], [0, 100_000]] {
            // Nine of ten answers are held up for 3 ms on the way back.
            let held_up = |number: i64| [ways[0], ways[1] + if number % 10 == 4 { 0 } else { 3 * MS }];
            let track = track(|_| ahead, held_up, 5);
            let range = track.at(2 * SECOND).expect("there are answers");
            assert!(contains(range, ahead), "{range:?}");
            let bound = range.bound_ns();
            assert!((50_000..50_000 + drift(SECOND)).contains(&bound), "{ways:?}: {bound}");
            assert_eq!(track.exchanges(0, 5 * SECOND), (50, Some(100_002)));
        }
    }

    #[test]
    fn a_clock_that_drifts_stays_within_the_bounds_of_every_second() {
        let ahead = |at: i64| 5 * MS + at / 1_000_000 * 60;
        let track = track(ahead, |number| [20_000 + number % 7 * 10_000, 30_000], 30);
        for second in 0..29 {
            let (from, to) = (second * SECOND, (second + 1) * SECOND);
            let range = track.between(from, to).expect("there are answers");
            assert!(contains(range, ahead(from)) && contains(range, ahead(to)), "{second}: {range:?}");
            assert!(range.bound_ns() < 120_000, "{second}: {range:?}");
        }
    }

    #[test]
    fn a_clock_that_was_set_is_as_uncertain_as_the_jump_is_wide() {
        let jump = |at: i64| if at < 3 * SECOND { 0 } else { 40 * MS };
        let track = track(jump, |_| [10_000, 10_000], 6);
        let range = track.at(3 * SECOND).expect("there are answers");
        assert!(contains(range, 0) && contains(range, 40 * MS), "{range:?}");
    }

    #[test]
    fn without_an_answer_nothing_is_known_and_far_from_one_little() {
        assert_eq!(ClockTrack::default().at(0), None);
        assert_eq!(ClockTrack::default().between(0, 1), None);
        let track = track(|_| 5, |_| [1_000, 1_000], 1);
        let range = track.at(1_000 * SECOND).expect("there is a nearest one");
        assert!(contains(range, 5) && range.bound_ns() > 99 * MS, "{range:?}");
    }
}
