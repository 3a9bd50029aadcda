//! A figure with its spread over trials.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::statistics::{self, CONFIDENCE, median_interval};

/// Median, lowest and highest of one figure over the trials of a case, and where its true median lies.
///
/// The median of an even number of trials is the mean of the middle two. With few trials the spread says more
/// than a standard deviation would. The interval assumes nothing but that the trials are independent, so it takes six of
/// them (see [`median_interval`]); it is absent where there are fewer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The middle of the ordered values.
    pub median: f64,
    /// The lowest value.
    pub min: f64,
    /// The highest value.
    pub max: f64,
    /// Where the true median lies with [`CONFIDENCE`], if there are values enough to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<statistics::Interval>,
}

impl Summary {
    /// Summarises the values; `None` if there are none. Values that are not finite are left out, since they
    /// cannot be ordered and JSON cannot carry them.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Some(Self { median, min, max, interval: median_interval(&values, CONFIDENCE) })
    }

    /// One value that was measured or published once.
    #[must_use]
    pub const fn of_one(value: f64) -> Self {
        Self { median: value, min: value, max: value, interval: None }
    }

    /// Whether the trials differ at all.
    #[must_use]
    pub fn has_spread(&self) -> bool {
        self.max > self.min
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_values_have_no_summary() {
        assert_eq!(Summary::of([]), None);
        assert_eq!(Summary::of([f64::NAN]), None);
    }

    #[test]
    fn the_median_of_an_odd_count_is_the_middle_value_whatever_the_order() {
        let summary = Summary::of([9.0, 1.0, 4.0]).unwrap();
        assert_eq!((summary.median, summary.min, summary.max), (4.0, 1.0, 9.0));
    }

    #[test]
    fn the_median_of_an_even_count_is_the_mean_of_the_middle_two() {
        assert_eq!(Summary::of([1.0, 2.0, 4.0, 100.0]).unwrap().median, 3.0);
    }

    #[test]
    fn six_values_have_an_interval_and_five_have_none() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0, 6.0];
        assert_eq!(Summary::of(values[..5].iter().copied()).unwrap().interval, None);
        let summary = Summary::of(values).unwrap();
        let interval = summary.interval.unwrap();
        assert!(interval.contains(summary.median) && interval.confidence >= CONFIDENCE);
        assert_eq!(Summary::of_one(3.0).interval, None);
    }

    #[test]
    fn one_value_has_no_spread() {
        assert!(!Summary::of([7.0]).unwrap().has_spread());
        assert!(Summary::of([7.0, 7.5]).unwrap().has_spread());
    }
}
