//! How far a percentile can be trusted: what a reader needs before comparing two of them.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LatencyDistribution, Percentile};
use crate::statistics::{Block, CONFIDENCE, quantile_shares};

/// Between which values the true percentiles of a latency lie, all errors of measuring included: the sample (from how
/// the seconds of the measurement differ, see [`quantile_shares`]), the buckets of the histogram, and the clocks, whose
/// readings are cut to microseconds and which, on two machines, are known only within bounds. A percentile without
/// bounds has too few samples for them.
///
/// What differs from trial to trial is not in them: that is what trials are for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyPrecision {
    /// The probability with which such bounds enclose the true percentile.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub confidence: f64,
    /// Seconds of measurement whose differences the bounds come from.
    #[schemars(range(min = 5))]
    pub seconds: u64,
    /// How far a stated value may be above the recorded one at most, in percent: the width of a bucket.
    #[schemars(range(min = 0.0))]
    pub bucket_percent: f64,
    /// By how many microseconds the clocks at both ends may disagree after their correction; absent where both are one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_us: Option<u64>,
    /// Around the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub p50: Option<Bounds>,
    /// Around the 75th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p75: Option<Bounds>,
    /// Around the 95th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<Bounds>,
    /// Around the 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Bounds>,
    /// Around the 99.9th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999: Option<Bounds>,
}

/// Two latencies in microseconds with a true one between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// The lower one.
    pub low: u64,
    /// The upper one.
    pub high: u64,
}

impl LatencyPrecision {
    /// The precision of `all`, which was recorded in `seconds`. `None` where there are too few seconds to tell how much
    /// they differ.
    #[must_use]
    pub fn of<'a>(
        all: &LatencyDistribution,
        seconds: impl Iterator<Item = &'a LatencyDistribution>,
        clock_us: Option<u64>,
    ) -> Option<Self> {
        let all = &all.histogram;
        let seconds: Vec<_> =
            seconds.map(|second| &second.histogram).filter(|second| !second.is_empty()).collect();
        let around = |percentile| bounds(all, &seconds, percentile, clock_us.unwrap_or(0));
        let precision = Self {
            confidence: CONFIDENCE,
            seconds: seconds.len() as u64,
            bucket_percent: BUCKET_PERCENT,
            clock_us,
            p50: around(Percentile::P50),
            p75: around(Percentile::P75),
            p95: around(Percentile::P95),
            p99: around(Percentile::P99),
            p999: around(Percentile::P999),
        };
        // The median needs the fewest samples.
        precision.p50.is_some().then_some(precision)
    }
}

impl Bounds {
    /// Whether a latency lies between them, ends included.
    #[must_use]
    pub fn contain(&self, latency_us: u64) -> bool {
        (self.low..=self.high).contains(&latency_us)
    }
}

fn bounds(
    all: &Histogram<u64>,
    seconds: &[&Histogram<u64>],
    percentile: Percentile,
    clock_us: u64,
) -> Option<Bounds> {
    let value = percentile.of(all)?;
    let blocks: Vec<_> = seconds
        .iter()
        .map(|second| Block { samples: second.len(), at_most: second.count_between(0, value) })
        .collect();
    let (low, high) = quantile_shares(&blocks, percentile.quantile())?;
    let at = |share: f64| all.value_at_quantile(share);
    Some(Bounds {
        low: all.lowest_equivalent(at(low)).saturating_sub(CLOCK_STEP_US + clock_us),
        high: all.highest_equivalent(at(high)).saturating_add(CLOCK_STEP_US + clock_us),
    })
}

/// Three significant digits: the first bucket of a power of two is a 1,024th of its value wide.
const BUCKET_PERCENT: f64 = 100.0 / 1_024.0;

/// Both ends of a latency are cut to whole microseconds.
const CLOCK_STEP_US: u64 = 1;
