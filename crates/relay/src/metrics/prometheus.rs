//! The metrics as Prometheus reads them.

use std::fmt;

use hdrhistogram::Histogram;
use listen::MetricsWriter;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::table::{CAUSES, COUNTERS, DISTRIBUTIONS, GAUGES, INTERVALS};
use super::{Metrics, health};

/// The metrics in the OpenMetrics text format.
#[must_use]
pub fn render(metrics: Metrics) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Copied(metrics)));
    listen::open_metrics(&registry)
}

/// A copy of the metrics that a registry reads once.
#[derive(Debug)]
struct Copied(Metrics);

impl Collector for Copied {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (Self(metrics), mut writer) = (self, MetricsWriter::new(encoder));
        for (name, help, value) in COUNTERS {
            writer.counter(name, help, value(metrics))?;
        }
        for (name, help, label, causes) in CAUSES {
            let series = causes.iter().map(|(cause, value)| ([(*label, *cause)], value(metrics)));
            writer.counters(name, help, series)?;
        }
        for (name, help, value) in INTERVALS {
            writer.gauge(name, help, value(metrics) as f64 / 1e6)?;
        }
        for (name, help, value) in GAUGES {
            writer.gauge(name, help, value(metrics))?;
        }
        for (name, help, histogram, unit, bounds) in DISTRIBUTIONS {
            let histogram = histogram(metrics);
            let sum = histogram.mean() * histogram.len() as f64 / unit;
            writer.histogram(name, help, (sum, histogram.len()), &buckets(histogram, *unit, bounds))?;
        }
        health::encode(&metrics.health, &mut writer)
    }
}

/// Upper bound and count of each bucket; the last one has no bound.
fn buckets(histogram: &Histogram<u64>, unit: f64, bounds: &[u64]) -> Vec<(f64, u64)> {
    let mut buckets = Vec::with_capacity(bounds.len() + 1);
    let mut below = 0;
    for &bound in bounds {
        buckets.push((bound as f64 / unit, histogram.count_between(below, bound)));
        below = bound + 1;
    }
    let counted: u64 = buckets.iter().map(|(_, count)| count).sum();
    buckets.push((f64::INFINITY, histogram.len().saturating_sub(counted)));
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::record_count;

    #[test]
    fn counters_gauges_and_distributions_are_written_with_their_units() {
        let mut metrics = Metrics::new();
        metrics.received_events = 256;
        metrics.open_partitions = 2;
        for us in [3, 2_000, 2_000, 90_000_000] {
            record_count(&mut metrics.process_us, us);
        }
        let text = render(metrics);
        for line in [
            "# TYPE parshall_relay_received_events counter",
            "parshall_relay_received_events_total 256",
            "parshall_relay_open_partitions 2",
            r#"parshall_relay_process_seconds_bucket{le="0.000005"} 1"#,
            r#"parshall_relay_process_seconds_bucket{le="0.0025"} 3"#,
            r#"parshall_relay_process_seconds_bucket{le="60.0"} 3"#,
            r#"parshall_relay_process_seconds_bucket{le="+Inf"} 4"#,
            "parshall_relay_process_seconds_count 4",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} is not in:\n{text}");
        }
    }
}
