//! Event Hubs and Service Bus over AMQP, as the official clients speak them.
//!
//! One task per connection owns the protocol engine and calls the store itself: no queue and no other task stands
//! between a socket and a log. What a burst of input causes (appends, their acknowledgements, replies) leaves in one
//! write; readers that wait are woken by the log and fill the output as far as credit and a byte budget allow.
//!
//! * `address` and `start` read what clients put into link addresses and filters.
//! * `connection` is the task: links come and go, events go to the right place. `links` says which links there can be.
//! * `outcomes` are those that wait: for a durable log, or for a service profile.
//! * `shaped` is what a service profile makes of a send; `late_replies` are those that it holds back.
//! * `runtime_metrics` and `idempotent` are what receivers and publishers may ask for beside.
//! * `publish` (transfers to log) and `deliver` (log to transfers) are the hot paths.
//! * `requests` answers `$cbs`, and with `management` and the `attributes` of entities also `$management`.
//! * `service_bus` are queues and topics: their links, messages and requests.
//! * `hasty` are clients that lose an answer that comes at once.
//! * `refusal` is what a connection gets for which there is no room.

mod address;
mod attributes;
mod connection;
mod deliver;
mod hasty;
mod idempotent;
mod late_replies;
mod links;
mod management;
mod outcomes;
mod publish;
mod refusal;
mod requests;
mod runtime_metrics;
mod service_bus;
mod shaped;
mod start;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::amqp::Connection;
use ::amqp::connection::{Config, Credentials, CreditOverrun, OutcomeAnswers, SaslServer};
use amqp_tokio::{Driver, Socket, Stream};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::Instant;

use crate::namespace::Namespace;
use crate::profile::Shaper;
use connection::ConnectionTask;
use idempotent::IdempotentProducers;
use refusal::REFUSALS_MAX;

/// What carries the bytes of AMQP over TCP.
#[derive(Debug, Clone, Default)]
pub struct Transport {
    /// With TLS, if there is a certificate.
    pub tls: Option<Arc<ServerConfig>>,
    /// In the messages of a WebSocket.
    pub web_socket: bool,
}

/// The front end of one namespace.
#[derive(Debug)]
pub struct AmqpFront {
    namespace: Arc<Namespace>,
    container_id: String,
    idempotent_producers: Arc<IdempotentProducers>,
    open_connections: AtomicU64,
    accepted_connections: AtomicU64,
    refused_connections: AtomicU64,
    /// Clients that are being told that there is no room.
    refusals: AtomicU64,
}

impl AmqpFront {
    /// A front end for `namespace`.
    #[must_use]
    pub fn new(namespace: Arc<Namespace>) -> Arc<Self> {
        let container_id = format!("{}_G0", namespace.host());
        Arc::new(Self {
            namespace,
            container_id,
            idempotent_producers: Arc::default(),
            open_connections: AtomicU64::new(0),
            accepted_connections: AtomicU64::new(0),
            refused_connections: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        })
    }

    /// Connections that are open now.
    #[must_use]
    pub fn open_connections(&self) -> u64 {
        self.open_connections.load(Ordering::Relaxed)
    }

    /// Connections accepted since the start.
    #[must_use]
    pub fn accepted_connections(&self) -> u64 {
        self.accepted_connections.load(Ordering::Relaxed)
    }

    /// Connections since the start for which there was no room.
    #[must_use]
    pub fn refused_connections(&self) -> u64 {
        self.refused_connections.load(Ordering::Relaxed)
    }

    /// Serves the connections that `listener` accepts, whose bytes travel by `transport`, until `stop` becomes true. Each
    /// connection is then closed in good order.
    pub async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        transport: Transport,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
                Some(ended) = connections.join_next() => {
                    report(ended);
                    continue;
                }
            };
            match accepted {
                Ok((socket, peer)) => {
                    tracing::debug!(%peer, "accepted");
                    let (front, transport, stop) =
                        (Arc::clone(&self), transport.clone(), stop.clone());
                    connections.spawn(async move { front.run(socket, transport, stop).await });
                }
                Err(error) => {
                    // Out of file descriptors, say: the connections that are there must go on.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
    }

    async fn run(
        self: Arc<Self>,
        socket: TcpStream,
        transport: Transport,
        stop: watch::Receiver<bool>,
    ) {
        // From the first byte on: who does not get on with the handshake takes room as well.
        let maximum = self.namespace.maximum_connections();
        let counted = Counted::within(&self.open_connections, maximum);
        let refusal = match &counted {
            Some(_) => None,
            None => {
                self.refused_connections.fetch_add(1, Ordering::Relaxed);
                match Counted::within(&self.refusals, REFUSALS_MAX) {
                    Some(refusal) => Some(refusal),
                    None => return,
                }
            }
        };
        let shaper = self.namespace.profile().map(|profile| profile.shaper());
        let stream = match open_stream(socket, transport, shaper.as_ref()).await {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%error, "the handshake of the transport failed"),
        };
        let driver = Driver::new(self.engine(), stream);
        if refusal.is_some() {
            return refusal::refuse(driver, maximum).await;
        }
        self.accepted_connections.fetch_add(1, Ordering::Relaxed);
        ConnectionTask::new(
            driver,
            Arc::clone(&self.namespace),
            Arc::clone(&self.idempotent_producers),
            shaper,
        )
        .run(stop)
        .await;
    }

    fn engine(&self) -> Connection {
        let defaults = Config::default();
        let largest_message =
            usize::try_from(self.namespace.largest_message()).unwrap_or(usize::MAX);
        let config = Config {
            // Two of the largest at least.
            partial_bytes_max: defaults
                .partial_bytes_max
                .max(largest_message.saturating_mul(2)),
            container_id: self.container_id.clone(),
            // The Python client sends before it has credit and does not look at it afterwards.
            credit_overrun: CreditOverrun::Tolerate,
            idle_timeout: Some(self.namespace.idle_timeout()),
            // A message may be locked no longer when it is settled.
            outcome_answers: OutcomeAnswers::Application,
            ..defaults
        };
        let namespace = Arc::clone(&self.namespace);
        let verify = Arc::new(move |credentials: &Credentials| match credentials {
            Credentials::Anonymous => true,
            Credentials::Plain { username, password } => {
                namespace.authorize_key(username, password).is_ok()
            }
        });
        Connection::server(config, SaslServer { verify }, Instant::now().into_std())
    }
}

/// One more of something that is bounded, for as long as this lives.
struct Counted<'a>(&'a AtomicU64);

impl<'a> Counted<'a> {
    /// Counts one more, unless there are `maximum` already.
    fn within(count: &'a AtomicU64, maximum: u64) -> Option<Self> {
        let more = |count| (count < maximum).then_some(count + 1);
        count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()
            .map(|_before| Self(count))
    }
}

impl Drop for Counted<'_> {
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

async fn open_stream(
    socket: TcpStream,
    transport: Transport,
    shaper: Option<&Shaper>,
) -> io::Result<Stream> {
    let shaper = shaper.filter(|shaper| shaper.shapes_bytes());
    let stream = match (shaper, transport.tls) {
        (None, None) => amqp_tokio::accept(socket)?,
        (None, Some(config)) => {
            amqp_tokio::accept_tls(socket, config, TRANSPORT_HANDSHAKE_TIMEOUT).await?
        }
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

/// Pause after a failed accept, so that a lasting failure does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
