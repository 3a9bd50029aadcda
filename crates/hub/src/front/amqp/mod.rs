//! Event Hubs and Service Bus over AMQP, as the official clients speak them.
//!
//! One task per connection owns the protocol engine and calls the store itself: no queue and no other task stands
//! between a socket and a log. What a burst of input causes (appends, their acknowledgements, replies) leaves in one
//! write; readers that wait are woken by the log and fill the output as far as credit and a byte budget allow.
//!
//! * `connection` is what every connection has, whichever service it uses: the task, its turns, and answers that wait. It
//!   names no service.
//! * `links` are what connections ask: what is at our end of a link. It alone knows which services there are.
//! * `event_hubs` are hubs: publishing, receiving, and management.
//! * `service_bus` are queues and topics: their links, messages and management.
//! * `conditions` are errors of any connection in the words that clients know.
//! * `leading` are sections that both services store in front of a message.
//! * `rejections` counts and reports what clients are refused.

mod conditions;
mod connection;
mod event_hubs;
mod leading;
mod links;
mod metrics;
mod rejections;
mod service_bus;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::amqp::Connection;
use ::amqp::connection::{Config, Credentials, CreditOverrun, OutcomeAnswers, SaslServer};
use amqp_tokio::{Driver, Stream};
use listen::{AcceptFailures, Place};
use tokio::sync::watch;
use tokio::time::Instant;

pub(super) use event_hubs::PUBLISHER;
pub(super) use links::node::Stored;
pub(super) use links::requests::bearer_refusal;
pub(crate) use metrics::AmqpMetrics;
pub(super) use service_bus::{EntityAddress, Part, SendLink, queue_error_sentence, queue_error_status};

use super::listener::{self, Bound, Front, Gate, HANDSHAKE_TIMEOUT, Protocol, WhenFull};
use crate::namespace::Namespace;
use crate::profile::{Shaper, Traffic};
use connection::refusal::{self, REFUSALS_MAX};
use connection::{ConnectionTask, PartialLimits, Proof, UNPROVEN_EACH, UNPROVEN_OUTPUT};
use rejections::Rejections;

/// The front end of one namespace.
#[derive(Debug)]
pub struct AmqpFront {
    namespace: Arc<Namespace>,
    container_id: String,
    gate: Gate,
    partial: Arc<PartialLimits>,
    accepted_connections: AtomicU64,
    unproven_connections: Arc<AtomicU64>,
    rejections: Arc<Rejections>,
}

/// What went through a front end, as it stood at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AmqpFrontCounterValues {
    /// Connections that are open now.
    pub open: u64,
    /// Connections that there may be.
    pub maximum: u64,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Connections for which there was no room.
    pub refused: u64,
    /// Connections that made room for others before they had proven themselves.
    pub evicted: u64,
    /// Connections closed because they had not proven themselves in time.
    pub unproven: u64,
    /// Bytes of incomplete messages, of which frames are outstanding.
    pub partial_bytes: u64,
    /// Messages refused because incomplete messages had reached their memory limit.
    pub partial_refused: u64,
}

impl AmqpFront {
    /// A front end for `namespace`, with as many connections as its configuration allows.
    #[must_use]
    pub fn new(namespace: Arc<Namespace>) -> Arc<Self> {
        let connections = namespace.maximum_connections();
        Self::within(namespace, connections, REFUSALS_MAX, Arc::default())
    }

    /// A front end with at most this many `connections` beside those that are told, `refusals` at a time, that there is
    /// no room. Failures to accept are counted in `accept_failures`.
    #[must_use]
    pub fn within(
        namespace: Arc<Namespace>,
        connections: u64,
        refusals: u64,
        accept_failures: Arc<AcceptFailures>,
    ) -> Arc<Self> {
        let container_id = format!("{}_G0", namespace.host());
        let largest_message = usize::try_from(namespace.largest_message()).unwrap_or(usize::MAX);
        let gate = Gate::new(connections, WhenFull::Refuse { at_once: refusals }, accept_failures)
            .shaped(Arc::clone(namespace.profile()), Traffic::Messaging);
        Arc::new(Self {
            namespace,
            container_id,
            gate,
            partial: Arc::new(PartialLimits::new(largest_message)),
            accepted_connections: AtomicU64::new(0),
            unproven_connections: Arc::default(),
            rejections: Arc::default(),
        })
    }

    /// What went through so far.
    #[must_use]
    pub fn counters(&self) -> AmqpFrontCounterValues {
        let PartialLimits { unproven, proven, .. } = &*self.partial;
        let places = self.gate.places();
        AmqpFrontCounterValues {
            open: places.taken(),
            maximum: places.maximum(),
            accepted: self.accepted_connections.load(Ordering::Relaxed),
            refused: self.gate.refused(),
            evicted: places.evicted(),
            unproven: self.unproven_connections.load(Ordering::Relaxed),
            partial_bytes: (unproven.held() + proven.held()) as u64,
            partial_refused: unproven.refused() + proven.refused(),
        }
    }

    /// The messages rejected since the start: entity, condition, how many.
    pub(crate) fn rejected_messages(&self) -> Vec<(String, String, u64)> {
        self.rejections.counts()
    }

    /// Serves the connections that `bound` accepts until `stop` becomes true. Each connection is then closed in good order.
    pub async fn serve(self: Arc<Self>, bound: Bound, stop: watch::Receiver<bool>) {
        listener::serve(self, bound, stop).await;
    }

    async fn serve_stream(
        &self,
        stream: Stream,
        shaper: Option<Shaper>,
        place: Place,
        stop: watch::Receiver<bool>,
    ) {
        self.accepted_connections.fetch_add(1, Ordering::Relaxed);
        let overdue = Arc::clone(&self.unproven_connections);
        ConnectionTask::new(
            self.driver(stream),
            Arc::clone(&self.namespace),
            shaper,
            Proof::new(place, Arc::clone(&self.partial), overdue),
            Arc::clone(&self.rejections),
        )
        .run(stop)
        .await;
    }

    fn driver(&self, stream: Stream) -> Driver {
        let mut driver = Driver::new(self.engine(), stream);
        driver.set_output_high_water(Some(UNPROVEN_OUTPUT));
        driver
    }

    fn engine(&self) -> Connection {
        let config = Config {
            partial_bytes_max: UNPROVEN_EACH,
            partial_bytes: Some(Arc::clone(&self.partial.unproven)),
            container_id: self.container_id.clone(),
            // The Python client sends before it has credit and does not look at it afterwards.
            credit_overrun: CreditOverrun::Tolerate,
            idle_timeout: Some(self.namespace.idle_timeout()),
            // A message may be locked no longer when it is settled.
            outcome_answers: OutcomeAnswers::Application,
            ..Config::default()
        };
        let namespace = Arc::clone(&self.namespace);
        let verify = Arc::new(move |credentials: &Credentials| match credentials {
            Credentials::Anonymous => true,
            Credentials::Plain { username, password } => namespace.authorize_key(username, password).is_ok(),
        });
        Connection::server(config, SaslServer { verify }, Instant::now().into_std())
    }
}

impl Front for AmqpFront {
    fn gate(&self) -> &Gate {
        &self.gate
    }

    async fn serve_connection(&self, connection: listener::Connection) {
        let listener::Connection { stream, protocol, place, shaper, stop, .. } = connection;
        if let Some(stream) = open(stream, protocol).await {
            self.serve_stream(stream, shaper, place, stop).await;
        }
    }

    async fn refuse(&self, stream: Stream, protocol: Protocol) {
        if let Some(stream) = open(stream, protocol).await {
            refusal::refuse(self.driver(stream), self.gate.places().maximum()).await;
        }
    }
}

/// What is between the transport and AMQP.
async fn open(stream: Stream, protocol: Protocol) -> Option<Stream> {
    if protocol != Protocol::AmqpWebSocket {
        return Some(stream);
    }
    let opened = amqp_tokio::accept_web_socket(stream, HANDSHAKE_TIMEOUT).await;
    opened.inspect_err(|error| tracing::debug!(%error, "the WebSocket handshake failed")).ok()
}

/// Largest event or batch, in bytes: what the service takes in its standard tier and above.
pub(super) const MAX_MESSAGE_SIZE: u64 = 1024 * 1024;

#[cfg(test)]
mod tests;
