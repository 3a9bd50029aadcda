//! The metrics of the Kafka front.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use listen::MetricsWriter;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::{KafkaFront, coordinator_metrics};

/// Collects the connections and requests of a front end.
#[derive(Debug)]
pub(crate) struct KafkaMetrics(pub(crate) Arc<KafkaFront>);

impl Collector for KafkaMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metrics = MetricsWriter::new(encoder);
        let (places, counters) = (self.0.gate.places(), &self.0.counters);
        metrics.gauge("parshall_kafka_connections", "Open Kafka connections.", places.taken())?;
        metrics.gauge(
            "parshall_kafka_connections_maximum",
            "Maximum number of Kafka connections.",
            places.maximum(),
        )?;
        metrics.counter(
            "parshall_kafka_connections_evicted",
            "Unauthenticated Kafka connections closed to make room for others.",
            places.evicted(),
        )?;
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        metrics.counter(
            "parshall_kafka_connections_accepted",
            "Kafka connections accepted.",
            load(&counters.accepted),
        )?;
        metrics.counter("parshall_kafka_requests", "Kafka requests received.", load(&counters.requests))?;
        metrics.counter(
            "parshall_kafka_requests_malformed",
            "Kafka connections closed because of a request that can't be read, or is not supported.",
            load(&counters.malformed),
        )?;
        let refusals = self.0.refusals.counts();
        let series = refusals.iter().map(|(request, error, count)| {
            ([("request", request.as_str()), ("error", error.as_str())], *count)
        });
        metrics.counters(
            "parshall_kafka_refusals",
            "Errors in answers to Kafka requests, by request and error, and connections closed without an answer.",
            series,
        )?;
        metrics.counter(
            "parshall_kafka_connections_unproven",
            "Kafka connections closed because their clients did not log in in time, or showed no new token before the old one ended.",
            load(&counters.unproven),
        )?;
        metrics.counter(
            "parshall_kafka_connections_stalled",
            "Kafka connections closed because their clients did not read their answers.",
            load(&counters.stalled),
        )?;
        metrics.counter(
            "parshall_kafka_logins_refused",
            "Kafka clients refused because of their credentials.",
            load(&counters.refused_logins),
        )?;
        metrics.counter(
            "parshall_kafka_topics_created_automatically",
            "Hubs created because a Kafka client asked for a topic that did not exist.",
            load(&counters.created_topics),
        )?;
        metrics.gauge(
            "parshall_kafka_fetch_sessions",
            "Open fetch sessions of Kafka clients.",
            load(&counters.fetch_sessions.sessions),
        )?;
        metrics.gauge(
            "parshall_kafka_fetch_session_partitions",
            "Partitions in these sessions.",
            load(&counters.fetch_sessions.partitions),
        )?;
        coordinator_metrics::encode(&mut metrics, &self.0.namespace, &self.0.coordinators)
    }
}
