//! The metrics as Prometheus reads them.

use std::fmt;

use hdrhistogram::Histogram;
use listen::MetricsWriter;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::table::{CAUSES, COUNTERS, DISTRIBUTIONS, DURATIONS_US, FILTERED, GAUGES, INTERVALS, SINK_SEND};
use super::{Metrics, health};

/// The metrics in the OpenMetrics text format.
#[must_use]
pub fn render(metrics: Metrics) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Copied(metrics)));
    listen::open_metrics(&registry)
}

/// The metrics of several relays: each family once, its samples labelled by topic. A relay without a topic is alone.
#[must_use]
pub(super) fn render_all(relays: &[(Option<String>, Metrics)]) -> String {
    let texts: Vec<_> =
        relays.iter().map(|(topic, metrics)| (topic.as_deref(), render(metrics.clone()))).collect();
    match texts.as_slice() {
        [(None, text), ..] => text.clone(),
        texts => listen::merged(
            "topic",
            texts.iter().map(|(topic, text)| (topic.unwrap_or_default(), text.as_str())),
        ),
    }
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
            let (totals, buckets) = classic(histogram(metrics), *unit, bounds);
            writer.histogram(name, help, totals, &buckets)?;
        }
        let of_sinks = match &metrics.sink_send_us[..] {
            [] => std::slice::from_ref(&metrics.send_us),
            several => several,
        };
        let series = (0_u32..).zip(of_sinks).map(|(sink, histogram)| {
            let (totals, buckets) = classic(histogram, 1e6, DURATIONS_US);
            ([("sink", sink.to_string())], totals, buckets)
        });
        writer.histograms(SINK_SEND.0, SINK_SEND.1, series)?;
        let filtered = (0_u32..).zip(&metrics.filtered_events);
        let series = filtered.map(|(sink, events)| ([("sink", sink.to_string())], *events));
        writer.counters(FILTERED.0, FILTERED.1, series)?;
        health::encode(&metrics.health, &mut writer)
    }
}

/// The sum and the count of what a histogram has, and its buckets.
fn classic(histogram: &Histogram<u64>, unit: f64, bounds: &[u64]) -> ((f64, u64), Vec<(f64, u64)>) {
    let sum = histogram.mean() * histogram.len() as f64 / unit;
    ((sum, histogram.len()), buckets(histogram, unit, bounds))
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
        record_count(&mut metrics.send_us, 400);
        let text = render(metrics);
        for line in [
            r#"parshall_relay_sink_send_seconds_bucket{le="0.0005",sink="0"} 1"#,
            r#"parshall_relay_sink_send_seconds_count{sink="0"} 1"#,
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

    #[test]
    fn families_of_several_relays_are_written_once_with_the_topic_as_a_label() {
        let relay = |topic: &str, events| {
            let mut metrics = Metrics::new();
            metrics.received_events = events;
            record_count(&mut metrics.process_us, 3);
            (Some(topic.to_owned()), metrics)
        };
        let text = render_all(&[relay("orders", 5), relay("returns", 7)]);
        for line in [
            r#"parshall_relay_received_events_total{topic="orders"} 5"#,
            r#"parshall_relay_received_events_total{topic="returns"} 7"#,
            r#"parshall_relay_connected{topic="orders",side="sink"} 0.0"#,
            r#"parshall_relay_process_seconds_bucket{topic="returns",le="0.000005"} 1"#,
        ] {
            assert!(text.lines().any(|have| have == line), "{line} is not in:\n{text}");
        }
        for comment in text.lines().filter(|line| line.starts_with('#')) {
            assert_eq!(text.lines().filter(|line| *line == comment).count(), 1, "{comment}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
