//! Percentiles, and how many samples each of them needs.
//!
//! The rule: a percentile is stated only if the sample is large enough for at least one value to lie beyond
//! it, that is, if `samples × (1 − percentile) ≥ 1`. With fewer samples it would be the maximum under a
//! grander name. p99 therefore needs 100 samples, and p99.9 needs 1,000.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A percentile that the lab states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Percentile {
    /// The median.
    P50,
    /// A quarter of the samples took longer.
    P75,
    /// One in 20 took longer.
    P95,
    /// One in 100 took longer.
    P99,
    /// One in 1,000 took longer.
    P999,
}

impl Percentile {
    /// The share of the sample at or below the percentile, 0 to 1.
    #[must_use]
    pub fn quantile(self) -> f64 {
        match self {
            Self::P50 => 0.5,
            Self::P75 => 0.75,
            Self::P95 => 0.95,
            Self::P99 => 0.99,
            Self::P999 => 0.999,
        }
    }

    /// How many samples the percentile needs to be stated.
    #[must_use]
    pub fn samples_needed(self) -> u64 {
        match self {
            Self::P50 => 2,
            Self::P75 => 4,
            Self::P95 => 20,
            Self::P99 => 100,
            Self::P999 => 1_000,
        }
    }

    /// The percentile of a histogram, or `None` if its samples do not support it.
    #[must_use]
    pub fn of(self, histogram: &Histogram<u64>) -> Option<u64> {
        (histogram.len() >= self.samples_needed()).then(|| histogram.value_at_quantile(self.quantile()))
    }
}

/// A point of the percentile curve: this share of the sample took at most this long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CurvePoint {
    /// 0 to below 100.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 100))]
    pub percentile: f64,
    /// In microseconds.
    pub latency_us: u64,
}

/// The curve of a histogram from the minimum up to the last percentile that its samples support (the rule of
/// this module), ten points to each factor of ten.
pub(super) fn curve(histogram: &Histogram<u64>) -> Vec<CurvePoint> {
    (0..MAXIMUM_POINTS)
        .map(|step| 10_f64.powf(-(step as f64) / 10.0))
        // A little tolerance, so that rounding does not withhold p99 from exactly 100 samples.
        .take_while(|beyond| histogram.len() as f64 * beyond >= 1.0 - 1e-9)
        .map(|beyond| CurvePoint {
            percentile: ((1.0 - beyond) * 100.0 * 1e7).round() / 1e7,
            latency_us: histogram.value_at_quantile(1.0 - beyond),
        })
        .collect()
}

/// Points of a curve at most: up to p99.9999, which takes a million samples.
const MAXIMUM_POINTS: usize = 61;

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Percentile; 5] =
        [Percentile::P50, Percentile::P75, Percentile::P95, Percentile::P99, Percentile::P999];

    fn histogram_of(samples: u64) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap();
        (1..=samples).for_each(|value| histogram.record(value).unwrap());
        histogram
    }

    #[test]
    fn a_percentile_needs_one_sample_beyond_it_and_one_less_is_refused() {
        for percentile in ALL {
            let needed = percentile.samples_needed();
            assert!((needed as f64 * (1.0 - percentile.quantile()) - 1.0).abs() < 1e-9);
            assert!(percentile.of(&histogram_of(needed)).is_some());
            assert_eq!(percentile.of(&histogram_of(needed - 1)), None);
        }
    }

    #[test]
    fn the_curve_ends_at_the_last_percentile_that_the_samples_support() {
        let last = |samples| curve(&histogram_of(samples)).last().unwrap().percentile;
        assert_eq!(last(100), 99.0);
        assert!(last(99) < 99.0);
        assert_eq!(last(1_000), 99.9);
        assert!(curve(&histogram_of(0)).is_empty());
    }

    #[test]
    fn the_curve_never_falls() {
        let points = curve(&histogram_of(5_000));
        assert_eq!(points[0].percentile, 0.0);
        assert!(points.windows(2).all(|pair| pair[0].latency_us <= pair[1].latency_us));
        assert!(points.windows(2).all(|pair| pair[0].percentile < pair[1].percentile));
    }
}
