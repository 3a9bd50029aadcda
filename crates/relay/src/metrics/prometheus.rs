//! The metrics as Prometheus reads them: the one list of their names.
//!
//! A name says what is counted and in which unit; durations are in seconds, as Prometheus has it.

use std::fmt;

use hdrhistogram::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::Metrics;

/// A counter or gauge: its name (Prometheus appends `_total` to counters), its help, and where it is.
type Plain = (&'static str, &'static str, fn(&Metrics) -> u64);

/// A distribution: name, help, where it is, how many of its units make one of the name, and the upper bounds of its buckets.
type Distribution = (
    &'static str,
    &'static str,
    fn(&Metrics) -> &Histogram<u64>,
    f64,
    &'static [u64],
);

/// The counters.
pub const COUNTERS: &[Plain] = &[
    (
        "parshall_relay_received_events",
        "Events received from the source",
        |metrics| metrics.received_events,
    ),
    (
        "parshall_relay_received_batches",
        "Batches received from the source",
        |metrics| metrics.received_batches,
    ),
    (
        "parshall_relay_received_message_bytes",
        "Message bytes received from the source",
        |metrics| metrics.received_bytes,
    ),
    (
        "parshall_relay_forwarded_events",
        "Events accepted by a destination",
        |metrics| metrics.forwarded_events,
    ),
    (
        "parshall_relay_forwarded_message_bytes",
        "Message bytes accepted by a destination",
        |metrics| metrics.forwarded_bytes,
    ),
    (
        "parshall_relay_completed_batches",
        "Batches of which every event was accepted",
        |metrics| metrics.completed_batches,
    ),
    (
        "parshall_relay_completed_events",
        "Events that the watermarks have passed",
        |metrics| metrics.completed_events,
    ),
    (
        "parshall_relay_doubtful_events",
        "Events of sends that timed out or broke off, accepted or not",
        |metrics| metrics.doubtful_events,
    ),
    (
        "parshall_relay_sends",
        "Sends handed to the sink, retries included",
        |metrics| metrics.sends,
    ),
    (
        "parshall_relay_send_retries",
        "Sends handed to the sink again",
        |metrics| metrics.retries,
    ),
    (
        "parshall_relay_throttled_sends",
        "Sends that the service asked to slow down",
        |metrics| metrics.throttled_sends,
    ),
    (
        "parshall_relay_timed_out_sends",
        "Sends without an outcome in time",
        |metrics| metrics.timed_out_sends,
    ),
    (
        "parshall_relay_late_outcomes",
        "Outcomes of sends that had been given up",
        |metrics| metrics.late_outcomes,
    ),
    (
        "parshall_relay_split_sends",
        "Groups sent in parts because of their size",
        |metrics| metrics.split_sends,
    ),
    (
        "parshall_relay_sink_busy",
        "Times that the sink was busy",
        |metrics| metrics.busy_sink,
    ),
    (
        "parshall_relay_injected_failures",
        "Sends that failed on purpose",
        |metrics| metrics.injected_failures,
    ),
    (
        "parshall_relay_failed_batches",
        "Batches that failed and stopped their partition",
        |metrics| metrics.failed_batches,
    ),
    (
        "parshall_relay_closed_partitions",
        "Partitions closed by the service",
        |metrics| metrics.closed_partitions,
    ),
    (
        "parshall_relay_opened_partitions",
        "Partitions opened, restarts included",
        |metrics| metrics.opened_partitions,
    ),
    (
        "parshall_relay_checkpoints",
        "Checkpoints written",
        |metrics| metrics.checkpoints,
    ),
    (
        "parshall_relay_failed_checkpoints",
        "Checkpoints that could not be written",
        |metrics| metrics.failed_checkpoints,
    ),
    (
        "parshall_relay_refused_checkpoints",
        "Checkpoints refused because another relay had written",
        |metrics| metrics.refused_checkpoints,
    ),
    (
        "parshall_relay_ownership_cycles",
        "Rounds of renewing and balancing claims",
        |metrics| metrics.ownership_cycles,
    ),
    (
        "parshall_relay_claimed_partitions",
        "Partitions claimed, stolen ones included",
        |metrics| metrics.claimed_partitions,
    ),
    (
        "parshall_relay_stolen_partitions",
        "Partitions taken from a relay with more than its share",
        |metrics| metrics.stolen_partitions,
    ),
    (
        "parshall_relay_lost_partitions",
        "Partitions lost to another relay or not renewed in time",
        |metrics| metrics.lost_partitions,
    ),
    (
        "parshall_relay_returned_partitions",
        "Partitions given back",
        |metrics| metrics.returned_partitions,
    ),
    (
        "parshall_relay_failed_renewals",
        "Claims that could not be renewed",
        |metrics| metrics.failed_renewals,
    ),
];

/// The gauges.
pub const GAUGES: &[Plain] = &[
    (
        "parshall_relay_batches_in_flight",
        "Batches under way",
        |metrics| metrics.batches_in_flight,
    ),
    (
        "parshall_relay_held_message_bytes",
        "Message bytes held",
        |metrics| metrics.held_bytes,
    ),
    (
        "parshall_relay_owned_partitions",
        "Partitions owned",
        |metrics| metrics.owned_partitions,
    ),
    (
        "parshall_relay_open_partitions",
        "Partitions open",
        |metrics| metrics.open_partitions,
    ),
];

/// The distributions.
pub const DISTRIBUTIONS: &[Distribution] = &[
    (
        "parshall_relay_queue_seconds",
        "How long a batch waited for its turn after it was received",
        |metrics| &metrics.queue_us,
        1e6,
        DURATIONS_US,
    ),
    (
        "parshall_relay_process_seconds",
        "From taking a batch up to the acceptance of its last event",
        |metrics| &metrics.process_us,
        1e6,
        DURATIONS_US,
    ),
    (
        "parshall_relay_send_seconds",
        "From the first send of a batch to its last outcome",
        |metrics| &metrics.send_us,
        1e6,
        DURATIONS_US,
    ),
    (
        "parshall_relay_checkpoint_seconds",
        "How long writing a checkpoint took",
        |metrics| &metrics.checkpoint_us,
        1e6,
        DURATIONS_US,
    ),
    (
        "parshall_relay_batch_events",
        "Events per batch received",
        |metrics| &metrics.batch_events,
        1.0,
        COUNTS,
    ),
];

/// The metrics in the OpenMetrics text format.
#[must_use]
pub fn render(metrics: Metrics) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Copied(metrics)));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes any text");
    text
}

/// A copy of the metrics that a registry reads once.
#[derive(Debug)]
struct Copied(Metrics);

impl Collector for Copied {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(metrics) = self;
        for (name, help, value) in COUNTERS {
            let counter = ConstCounter::new(value(metrics));
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        for (name, help, value) in GAUGES {
            let gauge = ConstGauge::new(i64::try_from(value(metrics)).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        for (name, help, histogram, unit, bounds) in DISTRIBUTIONS {
            let histogram = histogram(metrics);
            let sum = histogram.mean() * histogram.len() as f64 / unit;
            let buckets = buckets(histogram, *unit, bounds);
            encoder
                .encode_descriptor(name, help, None, MetricType::Histogram)?
                .encode_histogram::<NoLabelSet>(sum, histogram.len(), &buckets, None)?;
        }
        Ok(())
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

/// From a file write to a send that waits for its time-out, in microseconds.
const DURATIONS_US: &[u64] = &[
    5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

const COUNTS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096];

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
            assert!(
                text.lines().any(|have| have == line),
                "{line} is not in:\n{text}"
            );
        }
    }

    #[test]
    fn every_name_is_there_once_and_says_its_unit() {
        let plain = COUNTERS.iter().chain(GAUGES).map(|metric| metric.0);
        let mut names: Vec<_> = plain
            .chain(DISTRIBUTIONS.iter().map(|metric| metric.0))
            .collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.iter().all(|name| name.starts_with("parshall_relay_")));
        let timed = DISTRIBUTIONS.iter().filter(|metric| metric.3 > 1.0);
        assert!(
            timed
                .map(|metric| metric.0)
                .all(|name| name.ends_with("_seconds"))
        );
    }
}
