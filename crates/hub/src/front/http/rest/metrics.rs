//! The metrics of the REST front.

use std::fmt;
use std::sync::Arc;

use listen::MetricsWriter;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::RestFront;

/// Collects the connections and requests of a front end.
#[derive(Debug)]
pub(crate) struct RestMetrics(pub(crate) Arc<RestFront>);

impl Collector for RestMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metrics = MetricsWriter::new(encoder);
        let counters = &self.0.counters;
        let (open, accepted) = counters.connections();
        let (bytes_in, bytes_out) = counters.bytes();
        metrics.gauge("parshall_rest_connections", "Open connections that speak HTTP.", open)?;
        metrics.counter(
            "parshall_rest_connections_accepted",
            "Connections that spoke HTTP to hubs, queues and topics.",
            accepted,
        )?;
        let requests = counters
            .requests()
            .map(|(operation, status, count)| ([("operation", operation.name()), ("status", status)], count));
        let help = "HTTP requests answered, by what was asked for and the status.";
        metrics.counters("parshall_rest_requests", help, requests)?;
        metrics.counter("parshall_rest_bytes_in", "Bytes of bodies of HTTP requests.", bytes_in)?;
        metrics.counter("parshall_rest_bytes_out", "Bytes of bodies of replies over HTTP.", bytes_out)
    }
}
