//! Latencies: the distribution that roles record, and the summary that results state.
//!
//! The unit is the microsecond, on both sides. Nothing is clamped and nothing is dropped: the histogram grows
//! to hold what it is given, and a negative latency (the clock of one process behind that of another) is
//! counted and shown beside the others.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::percentile::{CurvePoint, Percentile, curve};
use super::precision::LatencyPrecision;
use super::stage::Direction;

/// Latencies in microseconds, as recorded. Distributions merge, so percentiles over several processes or
/// trials come from all samples and are never an average of percentiles.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyDistribution {
    /// Every latency that is not negative.
    pub histogram: Histogram<u64>,
    /// The negative ones.
    pub negative: Option<NegativeLatencies>,
}

/// Latencies below zero: how many, and the worst of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NegativeLatencies {
    /// How many samples were negative.
    #[schemars(range(min = 1))]
    pub count: u64,
    /// The most negative one, in microseconds.
    #[schemars(extend("exclusiveMaximum" = 0))]
    pub min: i64,
}

/// The summary of a distribution, in microseconds (to the histogram's three significant digits).
///
/// Percentiles that the samples do not support are absent; see [`Percentile`] for the rule. Negative samples
/// are not part of the other figures, which are absent if there are no others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencySummary {
    /// Number of samples that are not negative.
    pub count: u64,
    /// The shortest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<u64>,
    /// The arithmetic mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub mean: Option<f64>,
    /// The median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<u64>,
    /// The 75th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p75: Option<u64>,
    /// The 95th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<u64>,
    /// The 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<u64>,
    /// The 99.9th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999: Option<u64>,
    /// The longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// Samples below zero, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative: Option<NegativeLatencies>,
    /// How far the percentiles can be trusted, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<LatencyPrecision>,
    /// Of a stage: whether it is a part of an event's way, or goes to a service and back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
}

impl LatencyDistribution {
    /// A distribution without samples, with three significant digits and no upper bound.
    #[must_use]
    pub fn new() -> Self {
        let histogram = Histogram::new(3).expect("three significant digits are within 0..=5");
        Self { histogram, negative: None }
    }

    /// Records one latency in microseconds.
    #[inline]
    pub fn record(&mut self, latency_us: i64) {
        self.record_many(latency_us, 1);
    }

    /// Records the same latency in microseconds `count` times, as of a batch that is acknowledged whole.
    #[inline]
    pub fn record_many(&mut self, latency_us: i64, count: u64) {
        match u64::try_from(latency_us) {
            // Not `saturating_record`: that one clamps to the present range instead of growing it.
            Ok(latency) => self
                .histogram
                .record_n(latency, count)
                .expect("a histogram that resizes itself holds every u64"),
            Err(_) if count > 0 => self.merge_negative(NegativeLatencies { count, min: latency_us }),
            Err(_) => {}
        }
    }

    /// Adds all samples of another distribution.
    ///
    /// # Panics
    /// Never for distributions of this type: an auto-resizing histogram accepts every other one.
    pub fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("a histogram that resizes itself accepts every other histogram");
        if let Some(negative) = other.negative {
            self.merge_negative(negative);
        }
    }

    /// The same samples, each longer by so many microseconds. Of negative ones only the count and the worst are known;
    /// they stay negative.
    #[must_use]
    pub fn shifted(&self, by_us: i64) -> Self {
        if by_us == 0 {
            return self.clone();
        }
        let negative = self.negative.map(|NegativeLatencies { count, min }| NegativeLatencies {
            count,
            min: min.saturating_add(by_us).min(-1),
        });
        let mut shifted = Self { negative, ..Self::new() };
        for bucket in self.histogram.iter_recorded() {
            let value = self.histogram.median_equivalent(bucket.value_iterated_to());
            let value = i64::try_from(value).unwrap_or(i64::MAX).saturating_add(by_us);
            shifted.record_many(value, bucket.count_at_value());
        }
        shifted
    }

    /// The median of all samples, the negative ones included; of those, the worst stands for all.
    #[must_use]
    pub fn median_us(&self) -> Option<i64> {
        let below = self.negative.map_or(0, |negative| negative.count);
        let all = self.histogram.len() + below;
        let rank = all.div_ceil(2);
        match (all, self.negative) {
            (0, _) => None,
            (_, Some(negative)) if rank <= below => Some(negative.min),
            _ => {
                let share = (rank - below) as f64 / self.histogram.len() as f64;
                i64::try_from(self.histogram.value_at_quantile(share)).ok()
            }
        }
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty() && self.negative.is_none()
    }

    /// The summary; `None` if nothing was recorded.
    #[must_use]
    pub fn summary(&self) -> Option<LatencySummary> {
        let histogram = &self.histogram;
        let has_samples = !histogram.is_empty();
        (!self.is_empty()).then(|| LatencySummary {
            count: histogram.len(),
            min: has_samples.then(|| histogram.min()),
            mean: has_samples.then(|| (histogram.mean() * 1_000.0).round() / 1_000.0),
            p50: Percentile::P50.of(histogram),
            p75: Percentile::P75.of(histogram),
            p95: Percentile::P95.of(histogram),
            p99: Percentile::P99.of(histogram),
            p999: Percentile::P999.of(histogram),
            max: has_samples.then(|| histogram.max()),
            negative: self.negative,
            precision: None,
            direction: None,
        })
    }

    /// The summary with its precision, which the distributions of the single seconds tell, and by how much the clocks at
    /// both ends may be off.
    #[must_use]
    pub fn summary_of_seconds<'a>(
        &self,
        seconds: impl Iterator<Item = &'a Self>,
        clock_us: Option<u64>,
    ) -> Option<LatencySummary> {
        let precision = LatencyPrecision::of(self, seconds, clock_us);
        Some(LatencySummary { precision, ..self.summary()? })
    }

    /// The percentile curve, up to the last percentile that the samples support.
    #[must_use]
    pub fn curve(&self) -> Vec<CurvePoint> {
        curve(&self.histogram)
    }

    fn merge_negative(&mut self, other: NegativeLatencies) {
        let known = self.negative.get_or_insert(NegativeLatencies { count: 0, min: other.min });
        known.count += other.count;
        known.min = known.min.min(other.min);
    }
}

impl Default for LatencyDistribution {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(values: impl IntoIterator<Item = i64>) -> LatencyDistribution {
        let mut distribution = LatencyDistribution::new();
        values.into_iter().for_each(|value| distribution.record(value));
        distribution
    }

    #[test]
    fn an_empty_distribution_has_no_summary() {
        assert_eq!(LatencyDistribution::new().summary(), None);
        assert!(LatencyDistribution::new().is_empty());
    }

    #[test]
    fn unsupported_percentiles_are_absent_from_the_json() {
        let summary = distribution(1..=100).summary().unwrap();
        assert_eq!((summary.p50, summary.p99, summary.p999), (Some(50), Some(99), None));
        let json = serde_json::to_value(&summary).unwrap();
        assert!(json.get("p999").is_none());
        assert!(json.get("negative").is_none());
    }

    #[test]
    fn negative_latencies_are_counted_and_kept_out_of_the_percentiles() {
        let summary = distribution([-5, -70, 10, 20]).summary().unwrap();
        assert_eq!(summary.negative, Some(NegativeLatencies { count: 2, min: -70 }));
        assert_eq!((summary.count, summary.min, summary.max), (2, Some(10), Some(20)));
    }

    #[test]
    fn latencies_that_are_all_negative_are_shown_and_have_no_other_figure() {
        let summary = distribution([-5, -70]).summary().unwrap();
        assert_eq!(
            serde_json::to_value(&summary).unwrap(),
            serde_json::json!({"count": 0, "negative": {"count": 2, "min": -70}})
        );
    }

    #[test]
    fn merging_equals_recording_everything_in_one_place() {
        let mut merged = distribution((-3..500).step_by(3));
        merged.merge(&distribution((-2_000_000..9_000_000).step_by(77_777)));
        let expected = distribution((-3..500).step_by(3).chain((-2_000_000..9_000_000).step_by(77_777)));
        assert_eq!(merged.summary(), expected.summary());
    }

    #[test]
    fn a_batch_counts_every_event_of_it() {
        let mut batch = distribution([]);
        batch.record_many(40, 128);
        batch.record_many(-2, 3);
        batch.record_many(-9, 0);
        assert_eq!(batch.histogram.len(), 128);
        assert_eq!(batch.negative, Some(NegativeLatencies { count: 3, min: -2 }));
    }

    #[test]
    fn shifted_samples_keep_their_distances_and_fall_below_zero_in_sight() {
        let original = distribution([100, 200, 300, 2_000_000]);
        let shifted = original.shifted(-150);
        assert_eq!(shifted.negative, Some(NegativeLatencies { count: 1, min: -50 }));
        assert_eq!((shifted.histogram.len(), shifted.histogram.min()), (3, 50));
        assert!(shifted.histogram.max().abs_diff(1_999_850) < 2_000, "{}", shifted.histogram.max());
        assert_eq!(shifted.shifted(150).negative, Some(NegativeLatencies { count: 1, min: -1 }));
        assert_eq!(original.shifted(0), original);
    }

    #[test]
    fn the_median_counts_negative_samples() {
        assert_eq!(distribution([]).median_us(), None);
        assert_eq!(distribution([-9, 10, 20]).median_us(), Some(10));
        assert_eq!(distribution([-9, -8, 20]).median_us(), Some(-9));
        assert_eq!(distribution([1, 2, 3]).median_us(), Some(2));
    }

    #[test]
    fn a_latency_of_an_hour_is_not_clamped() {
        let hour_us = 3_600_000_000;
        let summary = distribution([1, hour_us]).summary().unwrap();
        assert!(summary.max >= Some(hour_us as u64));
    }
}
