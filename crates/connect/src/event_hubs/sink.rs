//! The partitions of a hub as destinations.

use std::task::{Context, Poll};

use super::options::EventHubsOptions;
use super::publisher::{Destination, Publisher};
use crate::event::Encoding;
use crate::service::ServiceError;
use crate::sink::{OutgoingBatch, SendOutcome, SendToken, Sink, SinkBusy, SinkError};
use crate::source::ShutDown;

/// A [`Sink`] whose destinations are the partitions of a hub, in the order of their ids. Each send is one batch, and what
/// an event carries is what it carried before, without annotations. Its partition key is kept only on demand, since the
/// service takes a key or a partition: see [`keep_keys`](Self::keep_keys).
#[derive(Debug)]
pub struct EventHubsSink {
    publisher: Publisher,
    keeps_keys: bool,
}

impl EventHubsSink {
    /// Connects, and attaches a link to every partition. Made within a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// When the service cannot be reached, refuses the token or a link, or has no such hub.
    pub async fn connect(options: EventHubsOptions) -> Result<Self, ServiceError> {
        let publisher = Publisher::connect(options).await?;
        Ok(Self { publisher, keeps_keys: false })
    }

    /// Sends events that have a partition key with it, to the partition that the service chooses by it instead of the
    /// destination. With a route by key to all partitions that is the same one, for keys of ASCII at the least.
    pub const fn keep_keys(&mut self) {
        self.keeps_keys = true;
    }
}

impl Sink for EventHubsSink {
    fn takes(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Amqp
    }

    fn destinations(&self) -> u32 {
        // Partition ids have 32 bits.
        self.publisher.partitions().len() as u32
    }

    fn sends_by_key(&self) -> bool {
        self.keeps_keys
    }

    fn max_batch_bytes(&self, destination: u32) -> usize {
        self.publisher.max_batch_bytes(Destination::Partition(destination))
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        Publisher::encoded_len(message_len)
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        self.publisher.poll_ready(context).map_err(SinkError::from)
    }

    #[inline]
    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        let key = match self.keeps_keys {
            true => outgoing.partition_key(),
            false => None,
        };
        let destination =
            key.map_or_else(|| Destination::Partition(outgoing.destination()), Destination::Key);
        self.publisher.publish(token, destination, outgoing.messages())
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        self.publisher.poll_outcomes(context, outcomes).map_err(SinkError::from)
    }

    fn outage(&self) -> Option<&ServiceError> {
        self.publisher.outage()
    }

    fn shut_down(self: Box<Self>) -> ShutDown {
        Box::pin(self.publisher.shut_down())
    }
}
