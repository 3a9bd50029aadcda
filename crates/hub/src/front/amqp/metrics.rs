//! The metrics of the AMQP front.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::AmqpFront;
use crate::metrics::MetricsWriter;

/// Collects the connections and messages of a front end.
#[derive(Debug)]
pub(crate) struct AmqpMetrics(pub(crate) Arc<AmqpFront>);

impl Collector for AmqpMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metrics = MetricsWriter::new(encoder);
        let amqp = self.0.counters();
        metrics.gauge("parshall_amqp_connections", "AMQP connections open now.", amqp.open)?;
        metrics.gauge(
            "parshall_amqp_connections_maximum",
            "AMQP connections that there may be.",
            amqp.maximum,
        )?;
        metrics.counter("parshall_amqp_connections_accepted", "AMQP connections accepted.", amqp.accepted)?;
        metrics.counter(
            "parshall_amqp_connections_refused",
            "AMQP connections for which there was no room.",
            amqp.refused,
        )?;
        metrics.counter(
            "parshall_amqp_connections_evicted",
            "AMQP connections that made room for others before they had shown a token or a key.",
            amqp.evicted,
        )?;
        metrics.counter(
            "parshall_amqp_connections_unproven",
            "AMQP connections closed because they showed no token and no key in time.",
            amqp.unproven,
        )?;
        metrics.gauge(
            "parshall_amqp_partial_message_bytes",
            "Bytes of messages of which not all frames have come.",
            amqp.partial_bytes,
        )?;
        metrics.counter(
            "parshall_amqp_partial_messages_refused",
            "Messages refused because unfinished ones held as much memory as they may.",
            amqp.partial_refused,
        )?;
        Ok(())
    }
}
