//! The search for the highest sustainable rate, as a pure state machine: which rate to try next, given how the last one
//! went.
//!
//! ```text
//! bracket   start, doubled while it passes, halved while it does not     short probes
//! bisect    between the highest that passed and the lowest that did not  short probes, down to the precision
//! hold      the rate that was found, `repeat` times in a row             long probes
//! ```
//!
//! A rate that does not hold takes the place of the lowest that failed. The search then falls, by one step of the
//! precision, then two, four, and so on, until a rate holds, and closes the gap that it left behind by holding rates in
//! it. So the result always is a rate that was held, and one above it by the precision at most that did not pass.
//!
//! A rate that the generator can't offer has not failed. The search goes below it all the same, since it can't measure
//! above, and remembers that it was the generator that set the bound.
//!
//! Where a probe shows that a quota gives burst credit, what passed before it shows little: [`Search::distrust`].
//!
//! A hold that did not pass while the lab or the machine was not itself is tried again, a few times, before it bounds anything.

/// What the search is given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SearchSettings {
    /// The first rate, in events per second; more than zero.
    pub(super) start: f64,
    /// The highest rate to try; at least `start`.
    pub(super) highest: f64,
    /// The share by which the two ends of the result may differ; more than zero.
    pub(super) precision: f64,
    /// How often a rate has to hold; at least once.
    pub(super) repeat: u32,
}

/// A search under way.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Search {
    settings: SearchSettings,
    stage: Stage,
    /// The highest rate that passed a short probe, and the lowest that did not, or could not be offered.
    passed: Option<f64>,
    upper: Option<f64>,
    bounds: Bounds,
}

/// What is known of the highest sustainable rate, in events per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Bounds {
    /// The highest rate that held.
    pub(super) held: Option<f64>,
    /// The lowest rate that failed.
    pub(super) failed: Option<f64>,
    /// The lowest rate that the generator could not offer.
    pub(super) not_offered: Option<f64>,
}

/// A rate to try.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Attempt {
    /// In events per second.
    pub(super) rate: f64,
    pub(super) purpose: Purpose,
}

pub(super) use crate::results::{ProbeOutcome as Outcome, ProbePurpose as Purpose};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Bracket {
        rate: f64,
    },
    Bisect {
        rate: f64,
    },
    /// `held` times so far; `falls` rates before this one did not hold.
    Hold {
        rate: f64,
        held: u32,
        falls: u32,
        /// Tries of this hold that were in doubt, and are not counted.
        doubted: u32,
    },
    Done,
}

impl Search {
    /// A search that has tried nothing yet.
    pub(super) fn new(settings: SearchSettings) -> Self {
        Self {
            settings,
            stage: Stage::Bracket { rate: settings.start },
            passed: None,
            upper: None,
            bounds: Bounds::default(),
        }
    }

    /// What is to be tried next; `None` when the search is over.
    pub(super) fn next(&self) -> Option<Attempt> {
        let (rate, purpose) = match self.stage {
            Stage::Bracket { rate } => (rate, Purpose::Bracket),
            Stage::Bisect { rate } => (rate, Purpose::Bisect),
            Stage::Hold { rate, .. } => (rate, Purpose::Hold),
            Stage::Done => return None,
        };
        Some(Attempt { rate, purpose })
    }

    /// Takes note of how [`Search::next`] went, and whether that may be the lab's or the machine's doing. Without effect when the
    /// search is over.
    pub(super) fn record(&mut self, outcome: Outcome, is_doubtful: bool) {
        let Some(Attempt { rate, .. }) = self.next() else {
            return;
        };
        if self.tries_again(outcome, is_doubtful) {
            if let Stage::Hold { doubted, .. } = &mut self.stage {
                *doubted += 1;
            }
            return;
        }
        match outcome {
            Outcome::Passed => {}
            Outcome::Failed => self.bounds.failed = lowest(self.bounds.failed, rate),
            Outcome::GeneratorLimited => {
                self.bounds.not_offered = lowest(self.bounds.not_offered, rate);
            }
        }
        self.stage = match (self.stage, outcome == Outcome::Passed) {
            (Stage::Bracket { .. } | Stage::Bisect { .. }, true) => {
                self.passed = Some(rate);
                self.narrow()
            }
            (Stage::Bracket { .. } | Stage::Bisect { .. }, false) => {
                self.upper = Some(rate);
                self.narrow()
            }
            (Stage::Hold { held, falls, .. }, true) => {
                let held = held + 1;
                if held < self.settings.repeat {
                    Stage::Hold { rate, held, falls, doubted: 0 }
                } else {
                    self.bounds.held = Some(rate);
                    self.close_the_gap(rate)
                }
            }
            (Stage::Hold { falls, .. }, false) => {
                self.upper = Some(rate);
                match self.bounds.held {
                    Some(held) => self.close_the_gap(held),
                    None => self.fall(rate, falls),
                }
            }
            (Stage::Done, _) => Stage::Done,
        };
    }

    /// Whatever passed so far may have been carried by something that does not last: it has to pass again. What failed has
    /// failed.
    pub(super) fn distrust(&mut self) {
        let (held, passed) = (self.bounds.held.take(), self.passed.take());
        self.stage = match (self.stage, held, passed) {
            (_, Some(rate), _) => hold(rate),
            (Stage::Bisect { .. }, None, Some(rate)) => Stage::Bracket { rate },
            (stage, None, _) => stage,
        };
    }

    /// Whether a present hold that went like this is tried once more before it bounds the search.
    pub(super) fn tries_again(&self, outcome: Outcome, is_doubtful: bool) -> bool {
        let is_in_doubt = outcome == Outcome::GeneratorLimited || (outcome == Outcome::Failed && is_doubtful);
        matches!(self.stage, Stage::Hold { doubted, .. } if is_in_doubt && doubted < MOST_DOUBTED)
    }

    /// How many probes follow the present one at least.
    pub(super) fn least_remaining(&self) -> u32 {
        // Each step of the bisection halves the logarithm of the range.
        let steps =
            |ratio: f64| (ratio.ln() / (1.0 + self.settings.precision).ln()).log2().ceil().max(0.0) as u32;
        match (self.stage, self.passed, self.upper) {
            (Stage::Bracket { .. }, ..) => steps(2.0) + self.settings.repeat,
            (Stage::Bisect { .. }, Some(passed), Some(upper)) => {
                steps((upper / passed).sqrt()) + self.settings.repeat
            }
            (Stage::Bisect { .. }, ..) => self.settings.repeat,
            (Stage::Hold { held, .. }, ..) => self.settings.repeat.saturating_sub(held + 1),
            (Stage::Done, ..) => 0,
        }
    }

    /// What is known so far; final when there is nothing more to try.
    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    fn narrow(&self) -> Stage {
        match (self.passed, self.upper) {
            (Some(passed), None) if passed >= self.settings.highest => hold(passed),
            (Some(passed), None) => Stage::Bracket { rate: (2.0 * passed).min(self.settings.highest) },
            (None, Some(upper)) if upper / 2.0 < self.lowest() => Stage::Done,
            (None, Some(upper)) => Stage::Bracket { rate: upper / 2.0 },
            (Some(passed), Some(upper)) if self.is_close(passed, upper) => hold(passed),
            (Some(passed), Some(upper)) => Stage::Bisect { rate: between(passed, upper) },
            // Nothing was tried, so there is nothing to narrow.
            (None, None) => Stage::Done,
        }
    }

    fn close_the_gap(&self, held: f64) -> Stage {
        match self.upper {
            Some(upper) if !self.is_close(held, upper) => hold(between(held, upper)),
            _ => Stage::Done,
        }
    }

    fn fall(&self, from: f64, falls: u32) -> Stage {
        let steps = 2_f64.powi(falls.min(MOST_DOUBLINGS) as i32);
        let rate = round(from / (1.0 + self.settings.precision).powf(steps));
        if rate < self.lowest() {
            return Stage::Done;
        }
        Stage::Hold { rate, held: 0, falls: falls + 1, doubted: 0 }
    }

    fn is_close(&self, low: f64, high: f64) -> bool {
        high <= low * (1.0 + self.settings.precision) * (1.0 + ROUNDING)
    }

    /// Below this the search gives up: a thousandth of the start, but at least one event per second.
    fn lowest(&self) -> f64 {
        let Self { settings, .. } = self;
        (settings.start / FURTHEST_BELOW).max(1.0).min(settings.start)
    }
}

fn hold(rate: f64) -> Stage {
    Stage::Hold { rate, held: 0, falls: 0, doubted: 0 }
}

fn lowest(known: Option<f64>, rate: f64) -> Option<f64> {
    Some(known.map_or(rate, |known| known.min(rate)))
}

/// The geometric mean: the middle of a range whose precision is a ratio. Rounded, but never onto an end.
fn between(low: f64, high: f64) -> f64 {
    let middle = (low * high).sqrt();
    let rounded = round(middle);
    if rounded > low && rounded < high { rounded } else { middle }
}

/// Four digits say enough: the precision is half a percent at best.
fn round(rate: f64) -> f64 {
    let unit = 10_f64.powi(rate.log10().floor() as i32 - 3);
    if unit < 1.0 {
        // Powers below one are not exact; dividing by their inverse is.
        let inverse = unit.recip().round();
        (rate * inverse).round() / inverse
    } else {
        (rate / unit).round() * unit
    }
}

/// How often a hold is tried again that the lab or the machine may have spoilt.
const MOST_DOUBTED: u32 = 2;

/// How far below the start a rate is looked for.
const FURTHEST_BELOW: f64 = 1024.0;

/// Further doublings of a fall would leave the numbers, long after they have left the range.
const MOST_DOUBLINGS: u32 = 30;

/// Rates are computed; this much is no difference.
const ROUNDING: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use units::Random;

    use super::*;

    const SETTINGS: SearchSettings =
        SearchSettings { start: 10_000.0, highest: 100_000_000.0, precision: 0.05, repeat: 2 };

    /// Asks `world` until the search ends, and gives back what was tried.
    fn run(
        settings: SearchSettings,
        mut world: impl FnMut(Attempt) -> Outcome,
    ) -> (Bounds, Vec<(Attempt, Outcome)>) {
        let mut search = Search::new(settings);
        let mut tried = Vec::new();
        while let Some(attempt) = search.next() {
            let outcome = world(attempt);
            search.record(outcome, false);
            tried.push((attempt, outcome));
            assert!(tried.len() <= most_probes(settings), "{settings:?}: {tried:?}");
        }
        (search.bounds(), tried)
    }

    /// Doublings up or down, bisection of one doubling, falls that double, bisection of the largest fall.
    fn most_probes(settings: SearchSettings) -> usize {
        let steps_in = |ratio: f64| ratio.ln() / (1.0 + settings.precision).ln();
        let doublings = (settings.highest / settings.start).log2().ceil() + 1.0;
        let bracket = doublings.max(FURTHEST_BELOW.log2() + 1.0);
        let bisect = steps_in(2.0).log2().max(0.0).ceil() + 2.0;
        let falls = (steps_in(settings.highest).max(1.0) + 2.0).log2().ceil() + 1.0;
        (bracket + bisect + f64::from(settings.repeat * (1 + MOST_DOUBTED)) * (2.0 * falls + 3.0)) as usize
    }

    fn capacity(of: f64) -> impl FnMut(Attempt) -> Outcome {
        move |attempt| match attempt.rate <= of {
            true => Outcome::Passed,
            false => Outcome::Failed,
        }
    }

    #[test]
    fn a_known_capacity_is_enclosed_as_closely_as_asked() {
        let (bounds, tried) = run(SETTINGS, capacity(123_456.0));
        let (held, failed) = (bounds.held.unwrap(), bounds.failed.unwrap());
        assert!(held <= 123_456.0 && 123_456.0 < failed);
        assert!(failed <= held * 1.050_001, "{held} to {failed}");
        assert_eq!(bounds.not_offered, None);
        let purposes: Vec<_> = tried.iter().map(|(attempt, _)| attempt.purpose).collect();
        assert!(purposes.is_sorted(), "bracket, bisect, hold: {purposes:?}");
        let held_for = tried.iter().filter(|(attempt, _)| attempt.purpose == Purpose::Hold);
        assert_eq!(held_for.count(), 2);
        let rates: Vec<_> = tried.iter().map(|(attempt, _)| attempt.rate).collect();
        assert_eq!(rates[..5], [1e4, 2e4, 4e4, 8e4, 1.6e5]);
    }

    #[test]
    fn a_capacity_below_the_start_is_found_by_halving() {
        let (bounds, tried) = run(SETTINGS, capacity(900.0));
        assert!(bounds.held.unwrap() <= 900.0 && bounds.failed.unwrap() > 900.0);
        assert_eq!(tried[1].0.rate, 5_000.0);
    }

    #[test]
    fn a_search_in_which_nothing_passes_ends_without_a_rate() {
        let (bounds, tried) = run(SETTINGS, |_| Outcome::Failed);
        assert_eq!(bounds.held, None);
        assert!(bounds.failed.unwrap() < 20.0);
        assert!(tried.len() <= 11);
    }

    #[test]
    fn a_capacity_above_the_generators_is_at_least_what_the_generator_could_offer() {
        let (bounds, _) = run(SETTINGS, |attempt| match attempt.rate <= 70_000.0 {
            true => Outcome::Passed,
            false => Outcome::GeneratorLimited,
        });
        assert_eq!(bounds.failed, None, "an overloaded generator fails no rate");
        let (held, limit) = (bounds.held.unwrap(), bounds.not_offered.unwrap());
        assert!(held <= 70_000.0 && limit > 70_000.0 && limit <= held * 1.050_001);
    }

    #[test]
    fn a_hold_that_the_machine_may_have_spoilt_bounds_nothing_until_it_fails_again_and_again() {
        let holding = || {
            let mut search = Search::new(SearchSettings { highest: 10_000.0, ..SETTINGS });
            search.record(Outcome::Passed, false);
            assert_eq!(search.next().unwrap().purpose, Purpose::Hold);
            search
        };
        let mut search = holding();
        for outcome in [Outcome::Failed, Outcome::GeneratorLimited] {
            search.record(outcome, true);
            assert_eq!((search.next().unwrap().rate, search.bounds()), (10_000.0, Bounds::default()));
        }
        let mut lucky = search.clone();
        lucky.record(Outcome::Passed, true);
        lucky.record(Outcome::Passed, true);
        assert_eq!((lucky.bounds().held, lucky.next()), (Some(10_000.0), None));
        search.record(Outcome::Failed, true);
        assert_eq!(search.bounds().failed, Some(10_000.0));
        assert!(search.next().unwrap().rate < 10_000.0);
        let mut certain = holding();
        certain.record(Outcome::Failed, false);
        assert_eq!(certain.bounds().failed, Some(10_000.0), "nothing is in doubt");
    }

    #[test]
    fn what_passed_before_a_credit_was_seen_has_to_pass_again() {
        // The credit carries the first probes up to 100,000/s; from the first one that it does not, it is known.
        let mut search = Search::new(SETTINGS);
        let mut is_known = false;
        let mut rates = Vec::new();
        while let Some(Attempt { rate, .. }) = search.next() {
            let carried = if is_known { 31_000.0 } else { 100_000.0 };
            let outcome = if rate <= carried { Outcome::Passed } else { Outcome::Failed };
            search.record(outcome, false);
            if outcome == Outcome::Failed && !is_known {
                is_known = true;
                search.distrust();
            }
            rates.push(rate);
        }
        assert_eq!(rates[..7], [1e4, 2e4, 4e4, 8e4, 1.6e5, 8e4, 4e4]);
        let (held, failed) = (search.bounds().held.unwrap(), search.bounds().failed.unwrap());
        assert!(held <= 31_000.0 && failed > 31_000.0 && failed <= held * 1.050_001, "{held} to {failed}");
    }

    #[test]
    fn a_rate_that_held_before_a_credit_was_seen_has_to_hold_again() {
        let mut search = Search::new(SearchSettings { repeat: 1, ..SETTINGS });
        let until_held = |search: &mut Search| {
            while search.bounds().held.is_none() {
                let Attempt { rate, purpose } = search.next().unwrap();
                let is_hard = purpose == Purpose::Hold && rate > 15_000.0;
                search.record(
                    if rate > 30_000.0 || is_hard { Outcome::Failed } else { Outcome::Passed },
                    false,
                );
            }
        };
        until_held(&mut search);
        let held = search.bounds().held.unwrap();
        assert_eq!(
            search.next().map(|attempt| attempt.purpose),
            Some(Purpose::Hold),
            "a gap is left to close"
        );
        search.record(Outcome::Failed, false);
        search.distrust();
        assert_eq!(search.bounds().held, None);
        assert_eq!(search.next(), Some(Attempt { rate: held, purpose: Purpose::Hold }));
    }

    #[test]
    fn what_is_said_to_remain_at_least_does() {
        let mut search = Search::new(SETTINGS);
        let mut said = Vec::new();
        while let Some(attempt) = search.next() {
            said.push(search.least_remaining() as usize);
            search.record(capacity(123_456.0)(attempt), false);
        }
        for (index, least) in said.iter().enumerate() {
            let remained = said.len() - index - 1;
            assert!(*least <= remained, "{least} after probe {index} of {}", said.len());
        }
        assert_eq!((said[0], said.last()), (6, Some(&0)), "four halvings of an octave, two holds");
    }

    #[test]
    fn a_capacity_above_the_highest_rate_ends_there() {
        let settings = SearchSettings { highest: 35_000.0, ..SETTINGS };
        let (bounds, tried) = run(settings, capacity(1e9));
        assert_eq!((bounds.held, bounds.failed), (Some(35_000.0), None));
        assert_eq!(tried.len(), 5, "10, 20, 35 thousand, and two holds");
    }

    #[test]
    fn a_rate_that_passes_a_short_probe_and_does_not_hold_is_not_the_result() {
        // Holding is harder: a short probe does not see what comes slowly.
        let (bounds, _) = run(SETTINGS, |attempt| {
            let capacity = match attempt.purpose {
                Purpose::Hold => 60_000.0,
                Purpose::Bracket | Purpose::Bisect => 100_000.0,
            };
            match attempt.rate <= capacity {
                true => Outcome::Passed,
                false => Outcome::Failed,
            }
        });
        let (held, failed) = (bounds.held.unwrap(), bounds.failed.unwrap());
        assert!(held <= 60_000.0 && failed > 60_000.0, "{held} to {failed}");
        assert!(failed <= held * 1.050_001, "{held} to {failed}");
    }

    proptest! {
        /// Near the edge a rate passes or fails by chance; the generator gives out somewhere.
        #[test]
        fn every_search_ends_with_ends_that_belong_together(
            seed: u64,
            edge in 0.0_f64..9.0,
            noise in 0.0_f64..0.3,
            generator in 0.0_f64..9.0,
            start in 0.0_f64..6.0,
            precision in 0.005_f64..0.5,
            repeat in 1_u32..5,
        ) {
            let [edge, generator, start] = [edge, generator, start].map(|digits| 10_f64.powf(digits));
            let settings = SearchSettings { start, highest: 1e8, precision, repeat };
            let mut random = Random::from_seed(seed);
            let (bounds, tried) = run(settings, |attempt| {
                let chance = (random.exponential(1.0) - 1.0).clamp(-1.0, 1.0);
                if attempt.rate > generator {
                    Outcome::GeneratorLimited
                } else if attempt.rate <= edge * (1.0 + noise * chance) {
                    Outcome::Passed
                } else {
                    Outcome::Failed
                }
            });
            if let Some(held) = bounds.held {
                prop_assert!(held <= edge * (1.0 + noise) && held <= generator);
                let upper = [bounds.failed, bounds.not_offered].into_iter().flatten().reduce(f64::min);
                match upper {
                    Some(upper) => prop_assert!(
                        upper > held && upper <= held * (1.0 + precision) * 1.000_001,
                        "{held} to {upper}"
                    ),
                    None => prop_assert_eq!(held, settings.highest),
                }
                let holds = tried.iter().filter(|(attempt, outcome)| {
                    (attempt.rate, attempt.purpose, *outcome) == (held, Purpose::Hold, Outcome::Passed)
                });
                prop_assert_eq!(holds.count(), repeat as usize);
            }
            if let Some(failed) = bounds.failed {
                prop_assert!(failed >= edge * (1.0 - noise));
            }
            if let Some(limit) = bounds.not_offered {
                prop_assert!(limit > generator);
            }
        }

        #[test]
        fn whatever_happens_the_number_of_probes_is_bounded(
            outcomes in proptest::collection::vec(0_u8..3, 400),
            precision in 0.005_f64..0.5,
            repeat in 1_u32..21,
        ) {
            let settings = SearchSettings { precision, repeat, ..SETTINGS };
            let mut outcomes = outcomes.into_iter().cycle();
            run(settings, |_| match outcomes.next() {
                Some(0) => Outcome::Passed,
                Some(1) => Outcome::Failed,
                _ => Outcome::GeneratorLimited,
            });
        }
    }
}
