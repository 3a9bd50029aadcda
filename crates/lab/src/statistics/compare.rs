//! The difference between two builds, and the verdict on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CONFIDENCE, FLOOR_PERCENT, Interval,
    ranks::{Cut, rank_sum_cut, signed_rank_cut},
};

/// How the trials of the two belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Design {
    /// They do not: two folders of results.
    Independent,
    /// The n-th trial of one ran beside the n-th of the other, in alternating order: drift hits both.
    Paired,
}

/// Which of two figures is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// The higher one, as of a throughput.
    Higher,
    /// The lower one, as of a latency.
    Lower,
}

/// What is asked of two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// How the trials belong together.
    pub design: Design,
    /// What is better.
    pub better: Better,
    /// The least confidence of the interval, 0 to 1.
    pub confidence: f64,
    /// Differences below so many percent are of no interest.
    pub floor_percent: f64,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// By how many percent the candidate's figure is above the baseline's (negative: below).
    pub difference_percent: f64,
    /// The interval of the difference, in percent; absent if there are too few trials for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_percent: Option<Interval>,
    /// What follows from it.
    pub verdict: Verdict,
}

/// What a comparison proves of the candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is better: the interval excludes zero, and the difference is at least the floor.
    Faster,
    /// It is worse, likewise.
    Slower,
    /// Whatever difference there may be is below the floor: the whole interval is within it.
    NoDifference,
    /// The trials do not decide it.
    NoVerdict {
        /// About how many more trials of each would, if the figures keep scattering as they do; at most
        /// [`MOST_MORE_TRIALS`]. None, where not their number but the machine is what is in doubt.
        more_trials: u32,
    },
}

/// Why two samples can't be compared.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NotComparable {
    /// One of them is empty.
    #[error("there are no trials to compare")]
    NoTrials,
    /// A ratio needs figures above zero.
    #[error("{value} has no ratio to another figure")]
    NotPositive {
        /// The figure.
        value: f64,
    },
    /// Pairs need two of each.
    #[error("{baseline} and {candidate} trials can't be paired")]
    Unpaired {
        /// Trials of the baseline.
        baseline: usize,
        /// Trials of the candidate.
        candidate: usize,
    },
}

impl Question {
    /// Which throughput is higher, at the lab's confidence and floor.
    #[must_use]
    pub const fn of_throughput(design: Design) -> Self {
        Self { design, better: Better::Higher, confidence: CONFIDENCE, floor_percent: FLOOR_PERCENT }
    }

    /// Which latency is lower, at the lab's confidence and floor.
    #[must_use]
    pub const fn of_latency(design: Design) -> Self {
        Self { better: Better::Lower, ..Self::of_throughput(design) }
    }

    /// The trials of each that an interval takes at least.
    #[must_use]
    pub fn least_trials(&self) -> u32 {
        let allowed = (1.0 - self.confidence) / 2.0;
        (1..MOST_MORE_TRIALS)
            .find(|trials| least_tail(self.design, *trials) <= allowed)
            .unwrap_or(MOST_MORE_TRIALS)
    }

    fn cut(&self, baseline: usize, candidate: usize) -> Option<Cut> {
        match self.design {
            Design::Independent => rank_sum_cut(baseline, candidate, self.confidence),
            Design::Paired => signed_rank_cut(baseline, self.confidence),
        }
    }

    fn verdict(&self, difference: f64, interval: Interval, trials: usize) -> Verdict {
        let floor = self.floor_percent;
        let is_relevant = difference.abs() >= floor;
        let is_better = (difference > 0.0) == (self.better == Better::Higher);
        if interval.low >= -floor && interval.high <= floor {
            Verdict::NoDifference
        } else if is_relevant && !interval.contains(0.0) {
            if is_better { Verdict::Faster } else { Verdict::Slower }
        } else {
            // Intervals shrink with the square root of the number of trials.
            let needed = if is_relevant { difference.abs() } else { floor - difference.abs() };
            let factor = (interval.half_width() / needed).powi(2);
            let more = (trials as f64 * (factor - 1.0)).ceil();
            // A quotient by nothing is infinite, and a cast of it the largest number.
            Verdict::NoVerdict { more_trials: (more.max(1.0) as u32).min(MOST_MORE_TRIALS) }
        }
    }
}

/// Compares the trials of a candidate with those of a baseline. All figures must be above zero; the difference is that
/// of a typical candidate to a typical baseline, as a ratio.
///
/// More than [`MOST_RANKED_TRIALS`] of either are more than ranks are counted for: the last ones are used.
///
/// # Errors
/// [`NotComparable`] for figures that have no ratio, for no figures, and for pairs that are none.
pub fn compare(
    baseline: &[f64],
    candidate: &[f64],
    question: &Question,
) -> Result<Comparison, NotComparable> {
    if question.design == Design::Paired && baseline.len() != candidate.len() {
        return Err(NotComparable::Unpaired { baseline: baseline.len(), candidate: candidate.len() });
    }
    let (baseline, candidate) = (logarithms(baseline)?, logarithms(candidate)?);
    let mut shifts: Vec<f64> = match question.design {
        Design::Independent => {
            baseline.iter().flat_map(|before| candidate.iter().map(move |after| after - before)).collect()
        }
        Design::Paired => {
            let pairs: Vec<f64> =
                baseline.iter().zip(&candidate).map(|(before, after)| after - before).collect();
            (0..pairs.len())
                .flat_map(|first| (first..pairs.len()).map(move |second| (first, second)))
                .map(|(first, second)| f64::midpoint(pairs[first], pairs[second]))
                .collect()
        }
    };
    shifts.sort_by(f64::total_cmp);
    let percent = |shift: f64| shift.exp_m1() * 100.0;
    let difference_percent = percent(median(&shifts));
    let interval_percent = question.cut(baseline.len(), candidate.len()).map(|cut| Interval {
        low: percent(shifts[cut.index]),
        high: percent(shifts[shifts.len() - 1 - cut.index]),
        confidence: cut.confidence,
    });
    let trials = baseline.len().min(candidate.len());
    let verdict = match interval_percent {
        Some(interval) => question.verdict(difference_percent, interval, trials),
        None => {
            Verdict::NoVerdict { more_trials: question.least_trials().saturating_sub(trials as u32).max(1) }
        }
    };
    Ok(Comparison { difference_percent, interval_percent, verdict })
}

/// The probability of the most extreme arrangement: all pairs on one side, or all trials of one build above all others.
fn least_tail(design: Design, trials: u32) -> f64 {
    match design {
        Design::Independent => {
            let halves = (1..=trials).map(|number| f64::from(number) / f64::from(trials + number));
            halves.product()
        }
        Design::Paired => 0.5_f64.powi(trials as i32),
    }
}

fn logarithms(values: &[f64]) -> Result<Vec<f64>, NotComparable> {
    if values.is_empty() {
        return Err(NotComparable::NoTrials);
    }
    let values = &values[values.len().saturating_sub(MOST_RANKED_TRIALS)..];
    values
        .iter()
        .map(|value| {
            (value.is_finite() && *value > 0.0)
                .then(|| value.ln())
                .ok_or(NotComparable::NotPositive { value: *value })
        })
        .collect()
}

/// The middle of ordered values, of which there are some.
fn median(ordered: &[f64]) -> f64 {
    let middle = ordered.len() / 2;
    match ordered.len() % 2 {
        0 => f64::midpoint(ordered[middle - 1], ordered[middle]),
        _ => ordered[middle],
    }
}

/// The most trials that "no verdict" asks for: whoever needs more has asked the wrong question.
pub const MOST_MORE_TRIALS: u32 = 1_000;

/// The most trials of one side that a comparison looks at; counting ranks grows with the third power.
pub const MOST_RANKED_TRIALS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const THROUGHPUT: Question = Question::of_throughput(Design::Paired);

    fn independent(question: Question) -> Question {
        Question { design: Design::Independent, ..question }
    }

    #[test]
    fn a_shift_of_every_trial_is_found_as_a_ratio_and_has_a_side() {
        let baseline: Vec<f64> = (0..10).map(|trial| 1_000.0 + f64::from(trial)).collect();
        let candidate: Vec<f64> = baseline.iter().map(|value| value * 1.1).collect();
        let latency = Question::of_latency(Design::Paired);
        for (question, expected) in [
            (THROUGHPUT, Verdict::Faster),
            (latency, Verdict::Slower),
            (independent(THROUGHPUT), Verdict::Faster),
            (independent(latency), Verdict::Slower),
        ] {
            let comparison = compare(&baseline, &candidate, &question).expect("they compare");
            assert!((comparison.difference_percent - 10.0).abs() < 0.2);
            let interval = comparison.interval_percent.expect("ten trials have one");
            assert!(interval.contains(10.0) && interval.confidence >= 0.95);
            assert_eq!(comparison.verdict, expected);
        }
        let back = compare(&candidate, &baseline, &THROUGHPUT).expect("they compare");
        assert_eq!(back.verdict, Verdict::Slower);
    }

    #[test]
    fn equal_samples_do_not_differ_and_noisy_ones_have_no_verdict() {
        let quiet = [100.0, 100.1, 99.9, 100.0, 100.05, 99.95];
        let loud = [100.0, 130.0, 70.0, 90.0, 115.0, 85.0];
        for question in [THROUGHPUT, independent(THROUGHPUT)] {
            let verdict =
                |candidate: &[f64]| compare(&quiet, candidate, &question).expect("they compare").verdict;
            assert_eq!(verdict(&quiet), Verdict::NoDifference);
            let Verdict::NoVerdict { more_trials } = verdict(&loud) else {
                panic!("six loud trials prove nothing");
            };
            assert!(more_trials > 20, "{more_trials}");
        }
    }

    #[test]
    fn too_few_trials_have_no_interval_and_report_how_many_are_missing() {
        let values = [100.0, 101.0, 102.0, 103.0];
        let verdict = |trials: usize, question: &Question| {
            let comparison = compare(&values[..trials], &values[..trials], question).expect("they compare");
            (comparison.interval_percent.is_some(), comparison.verdict)
        };
        assert_eq!(verdict(1, &THROUGHPUT), (false, Verdict::NoVerdict { more_trials: 5 }));
        assert_eq!(verdict(4, &THROUGHPUT), (false, Verdict::NoVerdict { more_trials: 2 }));
        let independent = independent(THROUGHPUT);
        assert_eq!(verdict(3, &independent), (false, Verdict::NoVerdict { more_trials: 1 }));
        assert!(verdict(4, &independent).0);
        assert_eq!((THROUGHPUT.least_trials(), independent.least_trials()), (6, 4));
    }

    #[test]
    fn figures_without_a_ratio_are_refused() {
        let compared = |one: &[f64], other: &[f64]| compare(one, other, &THROUGHPUT);
        assert_eq!(compared(&[], &[]), Err(NotComparable::NoTrials));
        assert_eq!(compared(&[1.0], &[0.0]), Err(NotComparable::NotPositive { value: 0.0 }));
        assert!(compared(&[f64::NAN], &[1.0]).is_err());
        let unpaired = NotComparable::Unpaired { baseline: 2, candidate: 1 };
        assert_eq!(compared(&[1.0, 1.0], &[1.0]), Err(unpaired));
    }

    #[test]
    fn a_difference_just_at_the_floor_asks_for_a_bounded_number_of_trials() {
        let baseline = [100.0; 6];
        let candidate = [99.0, 105.0, 101.0, 102.9, 101.0, 103.0];
        let question = Question { floor_percent: 1.999_999, ..THROUGHPUT };
        let comparison = compare(&baseline, &candidate, &question).expect("they compare");
        let Verdict::NoVerdict { more_trials } = comparison.verdict else {
            panic!("{comparison:?}");
        };
        assert!((1..=MOST_MORE_TRIALS).contains(&more_trials));
    }
}
