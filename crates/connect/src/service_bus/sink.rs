//! Sends to a queue or topic.

use std::task::{Context, Poll, ready};

use amqp::message::{FORMAT_AMQP, encode};

use crate::service::{
    Address, ClientOptions, Endpoint, ServiceConnection, ServiceError, Transmitter,
};
use crate::sink::{
    ErrorClass, OutgoingBatch, SendOutcome, SendToken, SendUnit, Sink, SinkBusy, SinkError,
};

/// A [`Sink`] with one destination, a queue or topic. What a message carries is what it carried before, without header and
/// annotations.
#[derive(Debug)]
pub struct ServiceBusSink {
    transmitter: Transmitter,
    unit: SendUnit,
}

impl ServiceBusSink {
    /// Connects, and attaches the link to the entity of the options. Made within a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// When the service cannot be reached, refuses the token or the link, or has no such entity.
    pub async fn connect(options: ClientOptions, unit: SendUnit) -> Result<Self, ServiceError> {
        let endpoint = Endpoint::resolve(options)?;
        let connection = ServiceConnection::open(endpoint.clone()).await?;
        let address = Address {
            node: endpoint.options.entity.clone(),
            attached_at_once: true,
        };
        let transmitter = Transmitter::attached(endpoint, connection, vec![address]).await?;
        Ok(Self { transmitter, unit })
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
        let mut messages = outgoing.messages();
        match self.unit {
            SendUnit::Batch => self.transmitter.transmit_batch(token, ENTITY, messages),
            SendUnit::Event => {
                let message = messages.next().filter(|_| messages.len() == 0);
                let message = message.expect("each send is of one event, as the sink asks");
                self.transmitter
                    .transmit(token, ENTITY, FORMAT_AMQP, |writer| writer.put(message))
            }
        }
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

    async fn shut_down(self) {
        self.transmitter.shut_down().await;
    }
}

/// The place of the one address.
const ENTITY: usize = 0;
