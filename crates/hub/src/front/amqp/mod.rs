//! Event Hubs and Service Bus over AMQP, as the official clients speak them.
//!
//! One task per connection owns the protocol engine and calls the store itself: no queue and no other task stands
//! between a socket and a log. What a burst of input causes (appends, their acknowledgements, replies) leaves in one
//! write; readers that wait are woken by the log and fill the output as far as credit and a byte budget allow.
//!
//! * `connection` is what every connection has, whichever service it uses: the task, links, authorisation, requests, and
//!   answers that wait.
//! * `event_hubs` are hubs: publishing, receiving, and management.
//! * `service_bus` are queues and topics: their links, messages and management.
//! * `leading` are sections that both services store in front of a message; `recycled` is memory that both use again.

mod connection;
mod event_hubs;
mod leading;
mod metrics;
mod recycled;
mod service_bus;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::amqp::Connection;
use ::amqp::connection::{Config, Credentials, CreditOverrun, OutcomeAnswers, SaslServer};
use amqp_tokio::{Driver, Socket, Stream};
use listen::{AcceptFailures, Acceptor, Place, Places};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::Instant;

pub(crate) use metrics::AmqpMetrics;

use crate::namespace::Namespace;
use crate::profile::Shaper;
use connection::refusal::{self, REFUSALS_MAX};
use connection::{ConnectionTask, PartialLimits, Proof, UNPROVEN_EACH, UNPROVEN_OUTPUT};
use event_hubs::idempotent::IdempotentProducers;

/// What carries the bytes of AMQP over TCP.
#[derive(Debug, Clone, Default)]
pub struct Transport {
    /// With TLS, if there is a certificate.
    pub tls: Option<Arc<ServerConfig>>,
    /// In the messages of a WebSocket.
    pub web_socket: bool,
}

impl Transport {
    const fn name(&self) -> &'static str {
        match (self.tls.is_some(), self.web_socket) {
            (false, false) => "AMQP",
            (true, false) => "AMQP over TLS",
            (false, true) => "AMQP over WebSocket",
            (true, true) => "AMQP over WebSocket and TLS",
        }
    }
}

/// The front end of one namespace.
#[derive(Debug)]
pub struct AmqpFront {
    namespace: Arc<Namespace>,
    container_id: String,
    idempotent_producers: Arc<IdempotentProducers>,
    places: Arc<Places>,
    partial: Arc<PartialLimits>,
    accept_failures: Arc<AcceptFailures>,
    accepted_connections: AtomicU64,
    refused_connections: AtomicU64,
    unproven_connections: Arc<AtomicU64>,
    /// Clients that are being told that there is no room.
    refusals: Arc<AtomicU64>,
    refusals_max: u64,
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
    /// Bytes of messages of which not all frames have come.
    pub partial_bytes: u64,
    /// Messages refused because unfinished ones held as much memory as they may.
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
        Arc::new(Self {
            namespace,
            container_id,
            idempotent_producers: Arc::default(),
            places: Places::new(connections),
            partial: Arc::new(PartialLimits::new(largest_message)),
            accept_failures,
            accepted_connections: AtomicU64::new(0),
            refused_connections: AtomicU64::new(0),
            unproven_connections: Arc::default(),
            refusals: Arc::default(),
            refusals_max: refusals,
        })
    }

    /// What went through so far.
    #[must_use]
    pub fn counters(&self) -> AmqpFrontCounterValues {
        let PartialLimits { unproven, proven, .. } = &*self.partial;
        AmqpFrontCounterValues {
            open: self.places.taken(),
            maximum: self.places.maximum(),
            accepted: self.accepted_connections.load(Ordering::Relaxed),
            refused: self.refused_connections.load(Ordering::Relaxed),
            evicted: self.places.evicted(),
            unproven: self.unproven_connections.load(Ordering::Relaxed),
            partial_bytes: (unproven.held() + proven.held()) as u64,
            partial_refused: unproven.refused() + proven.refused(),
        }
    }

    /// Serves the connections that `listener` accepts, whose bytes travel by `transport`, until `stop` becomes true. Each
    /// connection is then closed in good order.
    pub async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        transport: Transport,
        mut stop: watch::Receiver<bool>,
    ) {
        let failures = Arc::clone(&self.accept_failures);
        let mut acceptor = Acceptor::new(listener, transport.name(), failures);
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let (socket, peer) = tokio::select! {
                accepted = acceptor.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
                Some(ended) = connections.join_next() => {
                    report(ended);
                    continue;
                }
            };
            // From the first byte on: a client that does not finish the handshake takes room as well.
            let place = tokio::select! {
                place = self.places.admit() => place,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            tracing::debug!(%peer, "accepted");
            let (front, transport, stop) = (Arc::clone(&self), transport.clone(), stop.clone());
            if let Some(place) = place {
                connections.spawn(async move { front.run(socket, transport, place, stop).await });
                continue;
            }
            self.refused_connections.fetch_add(1, Ordering::Relaxed);
            if let Some(refusal) = Counted::within(&self.refusals, self.refusals_max) {
                connections.spawn(async move {
                    front.refuse(socket, transport).await;
                    drop(refusal);
                });
            }
        }
        drop(acceptor);
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
    }

    async fn run(
        self: Arc<Self>,
        socket: TcpStream,
        transport: Transport,
        place: Place,
        stop: watch::Receiver<bool>,
    ) {
        let lost = place.lost();
        tokio::select! {
            () = self.serve_socket(socket, transport, place, stop) => {}
            () = lost => tracing::debug!("a connection that had proven nothing made room for another"),
        }
    }

    async fn serve_socket(
        &self,
        socket: TcpStream,
        transport: Transport,
        place: Place,
        stop: watch::Receiver<bool>,
    ) {
        let shaper = self.namespace.profile().map(|profile| profile.shaper());
        match open_stream(socket, transport, shaper.as_ref()).await {
            Ok(stream) => self.serve_stream(stream, shaper, place, stop).await,
            Err(error) => tracing::debug!(%error, "the handshake of the transport failed"),
        }
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
            Arc::clone(&self.idempotent_producers),
            shaper,
            Proof::new(place, Arc::clone(&self.partial), overdue),
        )
        .run(stop)
        .await;
    }

    /// Tells a client that there is no room.
    async fn refuse(&self, socket: TcpStream, transport: Transport) {
        match open_stream(socket, transport, None).await {
            Ok(stream) => refusal::refuse(self.driver(stream), self.places.maximum()).await,
            Err(error) => tracing::debug!(%error, "the handshake of the transport failed"),
        }
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

/// One more of something that is bounded, for as long as this lives.
struct Counted(Arc<AtomicU64>);

impl Counted {
    /// Counts one more, unless there are `maximum` already.
    fn within(count: &Arc<AtomicU64>, maximum: u64) -> Option<Self> {
        let more = |count| (count < maximum).then_some(count + 1);
        count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()
            .map(|_before| Self(Arc::clone(count)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection's task ends by itself, or by a mistake of ours, which costs that connection and must not stay unknown.
fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "the task of a connection broke off");
    }
}

async fn open_stream(socket: TcpStream, transport: Transport, shaper: Option<&Shaper>) -> io::Result<Stream> {
    let shaper = shaper.filter(|shaper| shaper.shapes_bytes());
    let stream = match (shaper, transport.tls) {
        (None, None) => amqp_tokio::accept(socket)?,
        (None, Some(config)) => amqp_tokio::accept_tls(socket, config, TRANSPORT_HANDSHAKE_TIMEOUT).await?,
        // What delays bytes lies beneath everything that takes round trips.
        (Some(shaper), tls) => {
            socket.set_nodelay(true)?;
            let line = shaper.delay_line(Socket::from(socket));
            let line = Stream::Other(Box::new(line));
            match tls {
                None => line,
                Some(config) => {
                    amqp_tokio::accept_tls_over(line, config, TRANSPORT_HANDSHAKE_TIMEOUT).await?
                }
            }
        }
    };
    if transport.web_socket {
        amqp_tokio::accept_web_socket(stream, TRANSPORT_HANDSHAKE_TIMEOUT).await
    } else {
        Ok(stream)
    }
}

/// Largest event or batch, in bytes: what the service takes in its standard tier and above.
const MAX_MESSAGE_SIZE: u64 = 1024 * 1024;

/// How long a client may take for its part of each handshake below AMQP: TLS, WebSocket.
const TRANSPORT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
