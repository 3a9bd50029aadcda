//! The metrics of the AMQP front.

use std::fmt;
use std::sync::Arc;

use listen::MetricsWriter;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::AmqpFront;

/// Collects the connections and messages of a front end.
#[derive(Debug)]
pub(crate) struct AmqpMetrics(pub(crate) Arc<AmqpFront>);

impl Collector for AmqpMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metrics = MetricsWriter::new(encoder);
        let amqp = self.0.counters();
        metrics.gauge("parshall_amqp_connections", "Open AMQP connections.", amqp.open)?;
        metrics.gauge(
            "parshall_amqp_connections_maximum",
            "Maximum number of AMQP connections.",
            amqp.maximum,
        )?;
        metrics.counter("parshall_amqp_connections_accepted", "AMQP connections accepted.", amqp.accepted)?;
        metrics.counter(
            "parshall_amqp_connections_refused",
            "AMQP connections refused because the maximum was reached.",
            amqp.refused,
        )?;
        metrics.counter(
            "parshall_amqp_connections_evicted",
            "Unauthenticated AMQP connections closed to make room for others.",
            amqp.evicted,
        )?;
        metrics.counter(
            "parshall_amqp_connections_unproven",
            "AMQP connections closed because they presented neither token nor key in time.",
            amqp.unproven,
        )?;
        metrics.gauge(
            "parshall_amqp_partial_message_bytes",
            "Bytes of incomplete messages, of which frames are outstanding.",
            amqp.partial_bytes,
        )?;
        metrics.counter(
            "parshall_amqp_partial_messages_refused",
            "Messages refused because incomplete messages had reached their memory limit.",
            amqp.partial_refused,
        )?;
        let rejected = self.0.rejected_messages().into_iter();
        metrics.counters(
            "parshall_amqp_messages_rejected",
            "Messages rejected, by hub, queue, topic or node, and error condition.",
            rejected
                .map(|(entity, condition, count)| ([("entity", entity), ("condition", condition)], count)),
        )?;
        Ok(())
    }
}
