//! Whether a trial was in a steady state: what waited at the edges of the measured phase, and latencies over time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{IntervalDistribution, Percentile};

/// The lag: events that the service has acknowledged to the load and that what is measured has not carried yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lag {
    /// When the measured phase began.
    pub begin_events: u64,
    /// When it ended.
    pub end_events: u64,
    /// At most, of about ten readings per second.
    pub peak_events: u64,
}

/// The latencies of one interval of a trial, about a second long. An event belongs to the interval in which it
/// arrived, so the last intervals may lie behind the end of the measured phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyInterval {
    /// End of the interval, counted from the start of the measured phase.
    #[schemars(range(min = 0.0))]
    pub at_s: f64,
    /// Its length.
    #[schemars(range(min = 0.0))]
    pub length_s: f64,
    /// How many events of the measured phase arrived in it.
    pub count: u64,
    /// The median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<u64>,
    /// The 99th percentile, from 100 events on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<u64>,
    /// The longest.
    pub max_us: u64,
}

impl LatencyInterval {
    /// The figures of an interval; `None` if no event arrived in it.
    pub(super) fn of(interval: &IntervalDistribution) -> Option<Self> {
        let histogram = &interval.latency.histogram;
        (!histogram.is_empty()).then(|| Self {
            at_s: (interval.start + interval.length).as_secs_f64(),
            length_s: interval.length.as_secs_f64(),
            count: histogram.len(),
            p50_us: Percentile::P50.of(histogram),
            p99_us: Percentile::P99.of(histogram),
            max_us: histogram.max(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::results::LatencyDistribution;

    #[test]
    fn an_interval_states_what_its_events_support() {
        let interval = |latencies: std::ops::RangeInclusive<i64>| {
            let mut latency = LatencyDistribution::new();
            latencies.for_each(|each| latency.record(each));
            let (start, length) = (Duration::from_secs(2), Duration::from_millis(1_500));
            LatencyInterval::of(&IntervalDistribution { start, length, latency })
        };
        let expected = LatencyInterval {
            at_s: 3.5,
            length_s: 1.5,
            count: 100,
            p50_us: Some(50),
            p99_us: Some(99),
            max_us: 100,
        };
        assert_eq!(interval(1..=100), Some(expected));
        assert_eq!(interval(1..=99).and_then(|interval| interval.p99_us), None);
        assert_eq!(interval(-3..=-1), None, "negative latencies are no latencies");
    }
}
