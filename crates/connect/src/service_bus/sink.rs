//! Sends to a queue or topic.

use std::task::{Context, Poll, ready};

use amqp::message::{FORMAT_AMQP, encode};

use crate::event::{Encoding, Event, EventBatch, Message};
use crate::service::{
    Address, ClientOptions, Endpoint, ServiceConnection, ServiceError, Transmitter, format_of,
    replace_annotations,
};
use crate::sink::{ErrorClass, OutgoingBatch, SendOutcome, SendToken, SendUnit, Sink, SinkBusy, SinkError};
use crate::source::ShutDown;

/// A [`Sink`] with one destination, a queue or topic. What a message carries is what it carried before, its partition key
/// included, without header and other annotations.
#[derive(Debug)]
pub struct ServiceBusSink {
    transmitter: Transmitter,
    unit: SendUnit,
    /// The encoded annotations of the message at hand.
    scratch: Vec<u8>,
}

impl ServiceBusSink {
    /// Connects, and attaches the link to the entity of the options. Made within a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// When the service cannot be reached, refuses the token or the link, or has no such entity.
    pub async fn connect(options: ClientOptions, unit: SendUnit) -> Result<Self, ServiceError> {
        let endpoint = Endpoint::resolve(options)?;
        let connection = ServiceConnection::open(endpoint.clone()).await?;
        let address = Address { node: endpoint.options.entity.clone(), attached_at_once: true };
        let transmitter = Transmitter::attached(endpoint, connection, vec![address]).await?;
        Ok(Self { transmitter, unit, scratch: Vec::new() })
    }

    /// An entity that is gone or closed to us ends the sink: message after message would fail, and each be abandoned until
    /// it is a dead letter.
    fn check_refusal(&self) -> Result<(), SinkError> {
        match self.transmitter.refusal(ENTITY) {
            Some(error) if error.class == ErrorClass::Fatal => Err(error.clone().into()),
            _ => Ok(()),
        }
    }
}

impl Sink for ServiceBusSink {
    fn takes(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Amqp
    }

    fn destinations(&self) -> u32 {
        1
    }

    fn send_unit(&self) -> SendUnit {
        self.unit
    }

    fn max_batch_bytes(&self, _destination: u32) -> usize {
        self.transmitter.max_message_bytes(ENTITY)
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        match self.unit {
            SendUnit::Batch => message_len + encode::data_overhead(message_len),
            SendUnit::Event => message_len,
        }
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        let polled = self.transmitter.poll_ready(context);
        self.check_refusal()?;
        ready!(polled)?;
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        let events = outgoing.events();
        assert!(
            self.unit == SendUnit::Batch || events.len() == 1,
            "each send is of one event, as the sink asks"
        );
        let format = format_of(&events);
        let scratch = &mut self.scratch;
        self.transmitter.transmit(token, ENTITY, format, |writer| {
            for (batch, event) in events {
                let message = annotated(scratch, batch, event);
                if format != FORMAT_AMQP {
                    let length = u32::try_from(scratch.len() + message.as_ref().len())
                        .expect("a message is shorter than 4 GiB");
                    writer.put_data_prefix(length);
                }
                if !scratch.is_empty() {
                    writer.put(scratch);
                }
                message.put(writer);
            }
        })
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        let polled = self.transmitter.poll_outcomes(context, outcomes);
        self.check_refusal()?;
        polled.map_err(SinkError::from)
    }

    fn outage(&self) -> Option<&ServiceError> {
        self.transmitter.outage()
    }

    fn shut_down(self: Box<Self>) -> ShutDown {
        Box::pin(self.transmitter.shut_down())
    }
}

/// Replaces what is in `scratch` by annotations, and returns the message: both together are what an event is where it goes.
#[inline]
pub(super) fn annotated<'b>(scratch: &mut Vec<u8>, batch: &'b EventBatch, event: &Event) -> Message<'b> {
    let key = batch.partition_key(event).and_then(|key| std::str::from_utf8(key).ok());
    let message = batch.shared_message(event);
    message.without_first(replace_annotations(scratch, key, message.as_ref()))
}

/// The place of the one address.
const ENTITY: usize = 0;
