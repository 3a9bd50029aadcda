//! The load's end where events are sent by a [`Producer`], as a program that embeds one sends its own.
//!
//! Each send of the load is a call of the producer, and is answered when the call returns. So the load's modes mean what they
//! mean elsewhere: `closed` with 100 callers is a hundred threads that call in a loop, `open` calls by a plan in time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use connect::event::Encoding;
use connect::producer::{Fate, NewEvent, Producer, ProducerTarget, SendFailure, TOO_LARGE};
use connect::sink::{
    ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, Sink, SinkBusy, SinkError,
};
use connect::source::ShutDown;
use futures_util::Stream as _;
use futures_util::stream::FuturesUnordered;

use super::backend::{Backend as _, MessageCodec as _};
use super::network::{BackendError, Network, NetworkCodec};
use super::protocol::Endpoint;
use super::{event_hubs, kafka, service_bus};
use crate::scenario::{self, Connections, Entity, Protocol};

/// A producer as a sink.
pub(super) struct ProducerSink {
    producer: Arc<Producer>,
    codec: NetworkCodec,
    /// Whether each call has a connection of its own.
    is_isolated: bool,
    calls: FuturesUnordered<Call>,
}

type Call = Pin<Box<dyn Future<Output = SendOutcome> + Send>>;

impl ProducerSink {
    /// Connects what the producer keeps connected.
    pub(super) async fn connect(endpoint: &Endpoint, how: &scenario::Producer) -> Result<Self, BackendError> {
        let target = match (endpoint.protocol, &endpoint.entity) {
            (Protocol::Amqp, Entity::Hub(hub)) => {
                ProducerTarget::EventHubs(event_hubs::client_options(endpoint, hub)?)
            }
            (Protocol::Amqp, Entity::Queue(_) | Entity::Topic(_)) => {
                ProducerTarget::ServiceBus(service_bus::client_options(endpoint)?)
            }
            (Protocol::Kafka, entity) => ProducerTarget::Kafka(kafka::options(endpoint, entity)?),
            (Protocol::Http, _) => ProducerTarget::Http(service_bus::client_options(endpoint)?),
        };
        let producer = Producer::connect(target, how.options()).await?;
        Ok(Self {
            producer: Arc::new(producer),
            codec: Network.codec(endpoint.protocol),
            is_isolated: how.connections == Connections::PerEvent,
            calls: FuturesUnordered::new(),
        })
    }

    fn call(&self, token: SendToken, mut payloads: Vec<Bytes>) -> Call {
        let producer = Arc::clone(&self.producer);
        let is_isolated = self.is_isolated;
        Box::pin(async move {
            let sent = match (payloads.len(), payloads.pop()) {
                (1, Some(body)) => {
                    let event = NewEvent::new(&body);
                    match is_isolated {
                        true => producer.send_isolated(&event).await.map(drop).map_err(|it| it.failure),
                        false => producer.send(&event).await,
                    }
                }
                (_, last) => {
                    payloads.extend(last);
                    send_batch(&producer, &payloads).await
                }
            };
            SendOutcome { token, result: sent.map_err(|failure| Box::new(failed(failure))) }
        })
    }
}

async fn send_batch(producer: &Producer, payloads: &[Bytes]) -> Result<(), SendFailure> {
    let mut batch = producer.batch(None, None)?;
    for body in payloads {
        if !batch.push(&NewEvent::new(body))? {
            let taken = batch.len();
            return Err(SendFailure {
                fate: Fate::NotSent,
                class: ErrorClass::TooLarge,
                condition: TOO_LARGE.to_owned(),
                description: format!("a send takes {taken} of {} events of this size", payloads.len()),
            });
        }
    }
    producer.send_batch(batch).await
}

fn failed(failure: SendFailure) -> SendError {
    let SendFailure { class, condition, description, .. } = failure;
    SendError { class, condition, description }
}

impl Sink for ProducerSink {
    fn destinations(&self) -> u32 {
        // The service chooses the partition.
        1
    }

    fn takes(&self, encoding: Encoding) -> bool {
        encoding == self.codec.encoding()
    }

    fn max_batch_bytes(&self, _destination: u32) -> usize {
        LARGEST_SEND
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        message_len + OVERHEAD
    }

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        // A call waits for room by itself.
        Poll::Ready(Ok(()))
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        let payloads = outgoing.messages().filter_map(|message| {
            let decoded = self.codec.decode(message.as_ref())?;
            Some(Bytes::copy_from_slice(decoded.payload))
        });
        let payloads = payloads.collect();
        self.calls.push(self.call(token, payloads));
        Ok(())
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        let before = outcomes.len();
        while let Poll::Ready(Some(outcome)) = Pin::new(&mut self.calls).poll_next(context) {
            outcomes.push(outcome);
        }
        match outcomes.len() > before {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn shut_down(self: Box<Self>) -> ShutDown {
        let Self { producer, calls, .. } = *self;
        drop(calls);
        Box::pin(async move {
            if let Some(producer) = Arc::into_inner(producer) {
                producer.close().await;
            }
        })
    }
}

impl fmt::Debug for ProducerSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ProducerSink")
            .field("producer", &self.producer)
            .field("calls", &self.calls.len())
            .finish_non_exhaustive()
    }
}

/// The most that one send carries. Services take 1 MiB and more; some tiers of Service Bus take a quarter of it.
const LARGEST_SEND: usize = 240 * 1024;

/// At most what the protocols add to an event.
const OVERHEAD: usize = 64;
