//! The load's end where events are sent by a [`Producer`], as a program that embeds one sends its own.
//!
//! Each send of the load is a call of the producer, and is answered when the call returns. So the load's modes mean what they
//! mean elsewhere: `closed` with 100 callers is a hundred threads that call in a loop, `open` calls by a plan in time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use connect::event::Encoding;
use connect::producer::{Fate, NewEvent, Producer, ProducerTarget, PropertyValue, SendFailure, TOO_LARGE};
use connect::sink::{
    ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, Sink, SinkBusy, SinkError,
};
use connect::source::ShutDown;
use futures_util::Stream as _;
use futures_util::stream::FuturesUnordered;

use super::backend::{Backend as _, DecodedMessage, MessageCodec as _, OpenedSink, StageLog};
use super::network::{BackendError, Network, NetworkCodec};
use super::protocol::Endpoint;
use super::{event_hubs, kafka, service_bus};
use crate::payload::{HEADER_PROPERTY, Header};
use crate::scenario::{self, Connections, Entity, Protocol};

/// A producer as a sink.
pub(super) struct ProducerSink {
    producer: Arc<Producer>,
    codec: NetworkCodec,
    /// Where it is noted what calls consist of that have a connection of their own.
    isolated: Option<Arc<StageLog>>,
    calls: FuturesUnordered<Call>,
    /// The memory of calls that were answered, for those to come.
    free: Vec<Events>,
}

/// The events of a call:
///
/// ```text
///   bodies  |body 0|body 1    |
///   ends           ^          ^
/// ```
#[derive(Debug, Default)]
struct Events {
    bodies: Vec<u8>,
    ends: Vec<usize>,
    /// Which events they are, where bodies have no room for that; else none.
    identities: Vec<[u8; Header::TEXT_LENGTH]>,
}

type Call = Pin<Box<dyn Future<Output = (SendOutcome, Events)> + Send>>;

impl ProducerSink {
    /// Connects what the producer keeps connected.
    pub(super) async fn connect(
        endpoint: &Endpoint,
        how: &scenario::Producer,
    ) -> Result<OpenedSink, BackendError> {
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
        let isolated = (how.connections == Connections::PerEvent).then(Arc::<StageLog>::default);
        let sink = Self {
            producer: Arc::new(producer),
            codec: Network.codec(endpoint.protocol),
            isolated: isolated.clone(),
            calls: FuturesUnordered::new(),
            free: Vec::new(),
        };
        Ok(OpenedSink { sink: Box::new(sink), stages: isolated })
    }

    fn call(&self, token: SendToken, events: Events) -> Call {
        let producer = Arc::clone(&self.producer);
        let isolated = self.isolated.clone();
        Box::pin(async move {
            let sent = match events.ends.len() {
                1 => {
                    let property = events.property(0);
                    let event = events.event(0, property.as_slice());
                    match isolated {
                        Some(log) => {
                            // Apart, so that other calls need no memory for it.
                            let sent = Box::pin(producer.send_isolated(&event)).await;
                            sent.map(|stages| log.note(token, stages)).map_err(|it| it.failure)
                        }
                        None => producer.send(&event).await,
                    }
                }
                _ => send_batch(&producer, &events).await,
            };
            (SendOutcome { token, result: sent.map_err(|failure| Box::new(failed(failure))) }, events)
        })
    }
}

impl Events {
    fn clear(&mut self) {
        self.bodies.clear();
        self.ends.clear();
        self.identities.clear();
    }

    fn push(&mut self, decoded: &DecodedMessage<'_>) {
        self.bodies.extend_from_slice(decoded.payload);
        self.ends.push(self.bodies.len());
        let identity = decoded.header.and_then(|header| header.try_into().ok());
        self.identities.extend(identity.map(Header::text_of_detached));
    }

    fn property(&self, index: usize) -> Option<(&str, PropertyValue<'_>)> {
        // Letters and digits.
        let text = str::from_utf8(self.identities.get(index)?).ok()?;
        Some((HEADER_PROPERTY, PropertyValue::Text(text)))
    }

    fn event<'a>(&'a self, index: usize, properties: &'a [(&'a str, PropertyValue<'a>)]) -> NewEvent<'a> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        NewEvent { properties, ..NewEvent::new(&self.bodies[start..self.ends[index]]) }
    }
}

async fn send_batch(producer: &Producer, events: &Events) -> Result<(), SendFailure> {
    let mut batch = producer.batch(None, None)?;
    let count = events.ends.len();
    for index in 0..count {
        let property = events.property(index);
        if !batch.push(&events.event(index, property.as_slice()))? {
            let taken = batch.len();
            return Err(SendFailure {
                fate: Fate::NotSent,
                class: ErrorClass::TooLarge,
                condition: TOO_LARGE.to_owned(),
                description: format!("a send takes {taken} of {count} events of this size"),
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
        let mut events = self.free.pop().unwrap_or_default();
        events.clear();
        for message in outgoing.messages() {
            if let Some(decoded) = self.codec.decode(message.as_ref()) {
                events.push(&decoded);
            }
        }
        self.calls.push(self.call(token, events));
        Ok(())
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        let before = outcomes.len();
        while let Poll::Ready(Some((outcome, events))) = Pin::new(&mut self.calls).poll_next(context) {
            outcomes.push(outcome);
            self.free.push(events);
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
