//! Intervals from order statistics: where a median or a percentile of the truth lies among the values that were seen.
//!
//! How many of `n` independent values lie below the true quantile `q` is binomial with `n` and `q`, whatever their
//! distribution. So a rank below and a rank above enclose it with a probability that can be computed.

use super::Interval;

/// The interval of the true median of what `values` are a sample of. No assumption but independence.
///
/// `None` when so few values cannot reach `confidence`: at 95 % it takes six, at 90 % five. Values that are not finite
/// are left out.
#[must_use]
pub fn median_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    let mut values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let Ranks { low, high, confidence } = quantile_ranks(values.len() as u64, 0.5, confidence)?;
    Some(Interval { low: values[low as usize - 1], high: values[high as usize - 1], confidence })
}

/// How many trials [`median_interval`] needs for `confidence`.
#[must_use]
pub fn trials_for_median_interval(confidence: f64) -> u32 {
    (1..MOST_TRIALS)
        .find(|trials| quantile_ranks(u64::from(*trials), 0.5, confidence).is_some())
        .unwrap_or(MOST_TRIALS)
}

/// Two ranks of a sample, counted from 1 in ascending order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranks {
    /// The lower one.
    pub low: u64,
    /// The upper one.
    pub high: u64,
    /// The probability that the values of these ranks enclose the true quantile.
    pub confidence: f64,
}

/// The ranks whose values enclose the true `quantile` (0 to 1, exclusive) of what a sample of `count` independent
/// values is from, with at least `confidence`. Each side gets half of the error.
///
/// `None` when the sample is too small for it: then no pair of its values would do.
#[must_use]
pub fn quantile_ranks(count: u64, quantile: f64, confidence: f64) -> Option<Ranks> {
    let is_share = |value: f64| value > 0.0 && value < 1.0;
    if count == 0 || !is_share(quantile) || !is_share(confidence) {
        return None;
    }
    let allowed = (1.0 - confidence) / 2.0;
    let (low, below) = lower_rank(count, quantile, allowed)?;
    // From above, everything is mirrored.
    let (mirrored, above) = lower_rank(count, 1.0 - quantile, allowed)?;
    Some(Ranks { low, high: count + 1 - mirrored, confidence: 1.0 - below - above })
}

/// The highest rank whose value is above the true quantile with a probability of at most `allowed`, and that
/// probability.
fn lower_rank(count: u64, quantile: f64, allowed: f64) -> Option<(u64, f64)> {
    // The value of rank r is above the quantile if at most r - 1 values are below it.
    let odds = quantile / (1.0 - quantile);
    let spread = (count as f64 * quantile * (1.0 - quantile)).sqrt();
    let mean = count as f64 * quantile;
    // What lies further out than this cannot add up to anything that matters (less than 1e-20 of it).
    let start = (mean - 10.0 * spread - 50.0).max(0.0).floor() as u64;
    let mut term = log_binomial_term(count, start, quantile).exp();
    let (mut tail, mut found) = (0.0, None);
    for successes in start..count {
        tail += term;
        if tail > allowed * (1.0 + 1e-9) {
            break;
        }
        found = Some((successes + 1, tail));
        term *= odds * (count - successes) as f64 / (successes + 1) as f64;
    }
    found
}

/// The logarithm of the probability of exactly `successes` among `count`.
fn log_binomial_term(count: u64, successes: u64, probability: f64) -> f64 {
    log_factorial(count) - log_factorial(successes) - log_factorial(count - successes)
        + successes as f64 * probability.ln()
        + (count - successes) as f64 * (-probability).ln_1p()
}

/// The logarithm of a factorial: exact sums for small numbers, Stirling's series for others (good to 1e-12).
fn log_factorial(number: u64) -> f64 {
    if number < 32 {
        return (2..=number).map(|factor| (factor as f64).ln()).sum();
    }
    let x = number as f64;
    (x + 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3))
        + 1.0 / (1260.0 * x.powi(5))
}

/// No scenario repeats itself more often.
const MOST_TRIALS: u32 = 1_000;

#[cfg(test)]
mod tests {
    use units::Random;

    use super::*;

    #[test]
    fn a_median_has_an_interval_from_six_trials_on_and_not_from_five() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0, 6.0];
        assert_eq!(median_interval(&values[..5], 0.95), None);
        let interval = median_interval(&values, 0.95).expect("six trials do");
        assert_eq!((interval.low, interval.high), (1.0, 6.0));
        assert!((interval.confidence - (1.0 - 2.0 / 64.0)).abs() < 1e-12);
        assert_eq!(trials_for_median_interval(0.95), 6);
        assert_eq!(trials_for_median_interval(0.90), 5);
        assert_eq!(median_interval(&[f64::NAN; 20], 0.95), None);
    }

    #[test]
    fn ranks_are_those_of_the_binomial_tables() {
        // 20 values, median, 95 %: ranks 6 and 15 with 95.86 %.
        let ranks = quantile_ranks(20, 0.5, 0.95).expect("20 values do");
        assert_eq!((ranks.low, ranks.high), (6, 15));
        assert!((ranks.confidence - 0.958_6).abs() < 1e-4);
        // A p99 of 100 values has no upper bound within them.
        assert_eq!(quantile_ranks(100, 0.99, 0.95), None);
        assert!(quantile_ranks(1_000, 0.99, 0.95).is_some());
    }

    #[test]
    fn large_samples_approach_the_normal_distribution() {
        for (count, quantile) in [(1_000_000_u64, 0.5_f64), (50_000_000, 0.999), (300_000, 0.99)] {
            let ranks = quantile_ranks(count, quantile, 0.95).expect("large samples do");
            let mean = count as f64 * quantile;
            let spread = (mean * (1.0 - quantile)).sqrt();
            let low = (mean - ranks.low as f64) / spread;
            let high = (ranks.high as f64 - mean) / spread;
            assert!((low - 1.96).abs() < 0.08 && (high - 1.96).abs() < 0.08, "{low} {high}");
            assert!((0.95..0.952).contains(&ranks.confidence), "{ranks:?}");
        }
    }

    #[test]
    fn the_true_median_is_covered_as_often_as_is_claimed() {
        let mut random = Random::from_seed(5);
        for trials in [6, 10, 20] {
            let mut covered = 0.0;
            let mut claimed = 0.0;
            const RUNS: usize = 4_000;
            for _ in 0..RUNS {
                // A skewed distribution, whose median is the logarithm of two.
                let values: Vec<f64> = (0..trials).map(|_| random.exponential(1.0)).collect();
                let interval = median_interval(&values, 0.95).expect("six or more");
                claimed = interval.confidence;
                covered += f64::from(u8::from(interval.contains(std::f64::consts::LN_2)));
            }
            let share = covered / RUNS as f64;
            let error = (claimed * (1.0 - claimed) / RUNS as f64).sqrt();
            assert!((share - claimed).abs() < 4.0 * error, "{trials}: {share}, claimed {claimed}");
        }
    }
}
