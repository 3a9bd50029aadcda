//! Sends batches of events.
//!
//! A batch is one transfer of the service's batch format, encoded straight into the connection's output:
//!
//! ```text
//!   [annotations: partition key]  Data( event )  Data( event )  ...
//!                                       └ a complete message: [annotations: partition key] sections...
//! ```
//!
//! A batch of one event is sent as a plain message, so that the largest event that one hub takes fits into another:
//!
//! ```text
//!   [annotations: partition key] sections...
//! ```
//!
//! All sends are unsettled and await the service's outcome, which comes for ranges of them.

use std::task::{Context, Poll};

use amqp::message::{FORMAT_AMQP, FORMAT_BATCH, encode};

use super::management::hub_properties;
use super::options::EventHubsOptions;
use crate::event::{Message, PartitionId};
use crate::service::{
    Address, Endpoint, ServiceConnection, ServiceError, Transmitter, format_of, partition_key_annotation,
    replace_annotations,
};
use crate::sink::{SendOutcome, SendToken, SinkBusy};

/// Sends to one hub over one connection, which it makes again when it breaks.
///
/// Whatever was sent and has no outcome when a link or the connection ends gets that error as its outcome, so every send
/// that was taken has exactly one outcome. While there is no connection everything is busy.
#[derive(Debug)]
pub struct Publisher {
    partitions: Vec<PartitionId>,
    /// One address for each partition, and the last one for the hub itself.
    transmitter: Transmitter,
    /// The encoded annotations of the batch at hand, or the event at hand.
    scratch: Vec<u8>,
}

/// Where a batch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination<'a> {
    /// To a partition, by its place among [`Publisher::partitions`].
    Partition(u32),
    /// To the partition that the service chooses by this key, of at most 128 characters: the same for the same key.
    Key(&'a str),
    /// To a partition of the service's choice.
    Any,
}

impl Publisher {
    /// Connects, and attaches a link to every partition. Made within a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// When the service cannot be reached, refuses the token or a link, or has no such hub.
    pub async fn connect(options: EventHubsOptions) -> Result<Self, ServiceError> {
        let endpoint = Endpoint::resolve(options)?;
        let mut connection = ServiceConnection::open(endpoint.clone()).await?;
        let partitions = hub_properties(&mut connection, &endpoint.options.entity).await?.partition_ids;
        let hub = &endpoint.options.entity;
        let to_partitions = partitions.iter().map(|partition| Address {
            node: format!("{hub}/Partitions/{partition}"),
            attached_at_once: true,
        });
        let to_hub = Address { node: hub.clone(), attached_at_once: false };
        let addresses = to_partitions.chain([to_hub]).collect();
        Ok(Self {
            partitions,
            transmitter: Transmitter::attached(endpoint, connection, addresses).await?,
            scratch: Vec::new(),
        })
    }

    /// The partitions of the hub, in ascending order.
    #[must_use]
    pub fn partitions(&self) -> &[PartitionId] {
        &self.partitions
    }

    /// How many sends await their outcome.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.transmitter.waiting()
    }

    /// The most bytes that the events of one send may encode to, each as [`encoded_len`](Self::encoded_len) says.
    ///
    /// # Panics
    /// When there is no such partition.
    #[must_use]
    pub fn max_batch_bytes(&self, destination: Destination<'_>) -> usize {
        self.transmitter.max_message_bytes(self.link_index(destination))
    }

    /// What an event of `message_len` bytes adds to a send without partition key.
    #[must_use]
    pub const fn encoded_len(message_len: usize) -> usize {
        message_len + encode::data_overhead(message_len)
    }

    /// Sends events, each an encoded message whose only annotations are those that go on, as one batch. The token comes back with the outcome.
    ///
    /// # Errors
    /// When the destination is busy. Nothing was sent in that case, and [`poll_ready`](Self::poll_ready)
    /// tells when to try again.
    ///
    /// # Panics
    /// When there is no such partition, or a message is longer than 4 GiB.
    #[inline]
    pub fn publish<'m>(
        &mut self,
        token: SendToken,
        destination: Destination<'_>,
        messages: impl IntoIterator<Item: Into<Message<'m>>>,
    ) -> Result<(), SinkBusy> {
        let link = self.link_index(destination);
        let Destination::Key(partition_key) = destination else {
            return self.transmitter.transmit_batch(token, link, messages);
        };
        let mut annotations = std::mem::take(&mut self.scratch);
        let messages = messages.into_iter().map(Into::into);
        let format = format_of(&messages);
        let sent = self.transmitter.transmit(token, link, format, |writer| {
            if format != FORMAT_AMQP {
                annotations.clear();
                partition_key_annotation(&mut annotations, partition_key);
                writer.put(&annotations);
            }
            for message in messages {
                let message: Message<'m> = message;
                let replaced = replace_annotations(&mut annotations, Some(partition_key), message.as_ref());
                let message = message.without_first(replaced);
                if format != FORMAT_AMQP {
                    writer.put_data_prefix(data_length(annotations.len() + message.as_ref().len()));
                }
                writer.put(&annotations);
                message.put(writer);
            }
        });
        self.scratch = annotations;
        sent
    }

    /// Sends `count` events whose bodies are `payload_len` bytes each, as one batch. `fill` writes the body of the event
    /// with the given index into the slice it is given, which holds what it wrote for the one before.
    ///
    /// # Errors
    /// As with [`publish`](Self::publish); `fill` was not called then.
    ///
    /// # Panics
    /// When there is no such partition, or a payload is longer than 4 GiB.
    #[inline]
    pub fn publish_payloads(
        &mut self,
        token: SendToken,
        destination: u32,
        count: usize,
        payload_len: usize,
        mut fill: impl FnMut(usize, &mut [u8]),
    ) -> Result<(), SinkBusy> {
        let link = self.link_index(Destination::Partition(destination));
        let mut event = std::mem::take(&mut self.scratch);
        event.clear();
        let (body_prefix, body_length) = encode::data_prefix_bytes(data_length(payload_len));
        let message_len = data_length(body_length + payload_len);
        encode::data_prefix(&mut event, message_len);
        event.extend_from_slice(&body_prefix[..body_length]);
        let payload_at = event.len();
        event.resize(payload_at + payload_len, 0);
        let sent = self.transmitter.transmit(token, link, FORMAT_BATCH, |writer| {
            for index in 0..count {
                fill(index, &mut event[payload_at..]);
                writer.put(&event);
            }
        });
        self.scratch = event;
        sent
    }

    /// Why there is no connection for sending, if there is none.
    #[must_use]
    pub fn outage(&self) -> Option<&ServiceError> {
        self.transmitter.outage()
    }

    /// Ready when a send that was refused as busy is worth another try; `Pending` registers the task to be woken.
    ///
    /// # Errors
    /// When there is no use in trying: wrong credentials, the hub is gone.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        self.transmitter.poll_ready(context)
    }

    /// Flushes, and appends the outcomes that have arrived to `outcomes`: ready if there was any. `Pending` registers the
    /// task to be woken.
    ///
    /// # Errors
    /// When there is no use in going on: wrong credentials, the hub is gone. Outcomes may have been appended.
    pub fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), ServiceError>> {
        self.transmitter.poll_outcomes(context, outcomes)
    }

    /// Closes the connection in good order, without waiting for outcomes. Dropping the publisher just ends it.
    pub async fn shut_down(self) {
        self.transmitter.shut_down().await;
    }

    fn link_index(&self, destination: Destination<'_>) -> usize {
        match destination {
            Destination::Partition(index) => {
                assert!(
                    (index as usize) < self.partitions.len(),
                    "the hub has {} partitions, not {index} and more",
                    self.partitions.len()
                );
                index as usize
            }
            Destination::Key(_) | Destination::Any => self.partitions.len(),
        }
    }
}

#[inline]
fn data_length(length: usize) -> u32 {
    u32::try_from(length).expect("a message is shorter than 4 GiB")
}
