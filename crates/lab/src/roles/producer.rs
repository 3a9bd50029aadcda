//! The load's end where events are sent by a [`Producer`], as a program that embeds one sends its own.
//!
//! Each send of the load is a call of the producer, and is answered when the call returns. So the load's modes mean what they
//! mean elsewhere: `closed` with 100 callers is a hundred threads that call in a loop, `open` calls by a plan in time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use connect::event::Encoding;
use connect::producer::{Fate, NewEvent, Producer, ProducerTarget, PropertyValue, SendFailure, TOO_LARGE};
use connect::sink::{
    ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, Sink, SinkBusy, SinkError,
};
use connect::source::ShutDown;
use futures_util::Stream as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::backend::{Backend as _, DecodedMessage, MessageCodec as _, OpenedSink, StageLog};
use super::network::{BackendError, Network, NetworkCodec};
use super::protocol::Endpoint;
use super::{event_hubs, kafka, service_bus};
use crate::payload::{HEADER_PROPERTY, Header};
use crate::scenario::{self, Buffering, Connections, Entity, Protocol};

/// A producer as a sink.
pub(super) struct ProducerSink {
    program: Arc<Program>,
    codec: NetworkCodec,
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

/// What the callers have in common: the producer, and the core that its program has.
struct Program {
    producer: Producer,
    how: scenario::Producer,
    /// Where it is noted what calls consist of that have a connection of their own.
    isolated: Option<Arc<StageLog>>,
    /// Where a call with several events goes over a connection of its own.
    target: ProducerTarget,
    /// When the core is free.
    core: Mutex<Instant>,
}

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
            (_, Entity::Container(_)) => return Err(BackendError::NoLoadOfArchive),
            (Protocol::Kafka, entity) => ProducerTarget::Kafka(kafka::options(endpoint, entity)?),
            (Protocol::Http, _) => ProducerTarget::Http(service_bus::client_options(endpoint)?),
        };
        let producer = Producer::connect(target.clone(), how.options()).await?;
        let isolated = (how.connections == Connections::PerEvent).then(Arc::<StageLog>::default);
        let core = Mutex::new(Instant::now());
        let program = Program { producer, how: *how, target, isolated: isolated.clone(), core };
        let sink = Self {
            program: Arc::new(program),
            codec: Network.codec(endpoint),
            calls: FuturesUnordered::new(),
            free: Vec::new(),
        };
        Ok(OpenedSink { sink: Box::new(sink), stages: isolated })
    }

    fn call(&self, token: SendToken, events: Events) -> Call {
        let program = Arc::clone(&self.program);
        Box::pin(async move {
            let sent = program.send(token, &events).await;
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

impl Program {
    async fn send(&self, token: SendToken, events: &Events) -> Result<(), SendFailure> {
        match (events.ends.len(), &self.isolated) {
            // What a connection needs is apart, so that other calls need no memory for it.
            (1, Some(log)) => Box::pin(self.send_isolated(token, events, log)).await,
            (_, Some(_)) => Box::pin(self.converse(events)).await,
            (1, None) => {
                self.take_core(0, 1).await;
                self.back_off().await;
                let property = events.property(0);
                self.producer.send(&events.event(0, property.as_slice())).await
            }
            (_, None) => {
                self.take_core(0, 1).await;
                send_batch(&self.producer, events).await
            }
        }
    }

    async fn send_isolated(
        &self,
        token: SendToken,
        events: &Events,
        log: &StageLog,
    ) -> Result<(), SendFailure> {
        self.take_core(1, 1).await;
        let property = events.property(0);
        let sent = self.producer.send_isolated(&events.event(0, property.as_slice())).await;
        sent.map(|stages| log.note(token, stages)).map_err(|it| it.failure)
    }

    /// Sends several events over a connection that is made for them.
    async fn converse(&self, events: &Events) -> Result<(), SendFailure> {
        self.take_core(1, 0).await;
        let how = scenario::Producer { connections: Connections::Single, ..self.how };
        let producer = Producer::connect(self.target.clone(), how.options()).await?;
        let sent = match self.how.one_by_one {
            false => {
                self.take_core(0, 1).await;
                send_batch(&producer, events).await
            }
            true => self.send_in_turn(&producer, events).await,
        };
        producer.close().await;
        sent
    }

    async fn send_in_turn(&self, producer: &Producer, events: &Events) -> Result<(), SendFailure> {
        for index in 0..events.ends.len() {
            self.take_core(0, 1).await;
            let property = events.property(index);
            producer.send(&events.event(index, property.as_slice())).await?;
        }
        Ok(())
    }

    /// Waits while too many events have no answer.
    async fn back_off(&self) {
        let Some(most) = self.how.max_pending else {
            return;
        };
        while self.producer.pending() >= u64::from(most) && !self.producer.has_ended() {
            tokio::time::sleep(BACK_OFF).await;
        }
    }

    /// Waits for the core, and until it has done what so many connections and sends ask of it.
    async fn take_core(&self, connections: u32, sends: u32) {
        let time = self.how.client_time;
        let busy = time.connection * connections + time.send * sends;
        if busy.is_zero() || self.how.buffering != Buffering::None {
            return;
        }
        let until = {
            let mut free_at = self.core.lock().unwrap_or_else(PoisonError::into_inner);
            *free_at = (*free_at).max(Instant::now()) + busy;
            *free_at
        };
        tokio::time::sleep_until(until).await;
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
        let Self { program, calls, .. } = *self;
        drop(calls);
        Box::pin(async move {
            if let Some(program) = Arc::into_inner(program) {
                program.producer.close().await;
            }
        })
    }
}

impl fmt::Debug for ProducerSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ProducerSink")
            .field("producer", &self.program.producer)
            .field("calls", &self.calls.len())
            .finish_non_exhaustive()
    }
}

/// How long a call waits that finds too many events without an answer, as the published study's does.
const BACK_OFF: Duration = Duration::from_millis(20);

/// The most that one send carries. Services take 1 MiB and more; some tiers of Service Bus take a quarter of it.
const LARGEST_SEND: usize = 240 * 1024;

/// At most what the protocols add to an event.
const OVERHEAD: usize = 64;
