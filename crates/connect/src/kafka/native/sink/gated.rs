//! The sink of a producer with transactions: what leaves when is for its [`Gate`] to say, and nothing is sent again under another name.

use std::sync::Arc;
use std::task::Context;

use kafka::producer_batch::ProducerBatch;

use super::KafkaSink;
use crate::kafka::native::cluster::Cluster;
use crate::kafka::native::endpoint::Endpoint;
use crate::kafka::native::producer::Producer;
use crate::kafka::native::transaction::Gate;
use crate::service::ServiceError;
use crate::sink::SendOutcome;

impl KafkaSink {
    /// Connects for transactions. Nothing is sent before it is said as [who](Self::go_on_as).
    ///
    /// # Errors
    /// When no broker can be reached, the login is refused, or there is no such topic.
    pub(in crate::kafka::native) async fn connect_gated(
        endpoint: Arc<Endpoint>,
        gate: impl FnOnce(usize) -> Gate,
    ) -> Result<Self, ServiceError> {
        let cluster = Cluster::find(Arc::clone(&endpoint)).await?;
        let gate = gate(cluster.partitions());
        let produce = &endpoint.settings.produce;
        // Given up while the cluster still leaves the transaction open.
        let patience = (2 * endpoint.settings.request_timeout).min(produce.transaction_timeout / 2);
        let sink = Self::of(endpoint, cluster, Producer::None);
        Ok(Self { gate: Some(Box::new(gate)), patience, ..sink })
    }

    /// What holds batches back.
    ///
    /// # Panics
    /// When it was not connected for transactions.
    pub(in crate::kafka::native) fn gate(&mut self) -> &mut Gate {
        self.gate.as_mut().expect("it was connected for transactions")
    }

    /// Does all there is to do until the task would have to wait, and gives what has become of sends.
    ///
    /// # Errors
    /// One that trying again can't change.
    pub(in crate::kafka::native) fn drive_gated(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Result<(), ServiceError> {
        let driven = self.drive(context);
        outcomes.append(&mut self.outcomes);
        driven
    }

    /// Whether the brokers have answered all that has left.
    pub(in crate::kafka::native) fn is_quiet(&self) -> bool {
        self.going_again == 0 && self.destinations.iter().all(|destination| destination.under_way == 0)
    }

    /// Whether nothing waits besides.
    pub(in crate::kafka::native) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.is_quiet()
    }

    /// Whether a send was refused as busy, and nothing has changed since.
    pub(in crate::kafka::native) const fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// What was refused as busy may be taken now.
    pub(in crate::kafka::native) const fn unblock(&mut self) {
        self.is_blocked = false;
    }

    /// Forgets what has not left, and what would have to leave again. No outcomes follow.
    pub(in crate::kafka::native) fn forget_waiting(&mut self) {
        for destination in &mut self.destinations {
            destination.filling = ProducerBatch::default();
            destination.tokens.clear();
            destination.since = None;
            destination.is_queued = false;
            destination.again.clear();
        }
        self.queue.clear();
        (self.filled_bytes, self.going_again) = (0, 0);
    }

    /// Goes on as another producer, or as the same one in another epoch, which counts its records from 0. Nothing is under way.
    pub(in crate::kafka::native) fn go_on_as(&mut self, producer: (i64, i16)) {
        self.producer = Producer::Known(producer);
        for destination in &mut self.destinations {
            destination.forget_producer();
        }
    }
}
