//! What every front does with its sockets: accept within bounds, do the handshake of TLS, delay bytes as a service profile
//! has it, and stop.
//!
//! ```text
//!  socket ─ accepted ─ has a place ─ delay line ─ TLS ─▶ Front::serve
//!                    └ there is none ─ TLS ─▶ Front::refuse, or it waits
//! ```
//!
//! A connection takes its place before its first byte: a client that does not finish the handshake takes room as well.
//! What delays bytes lies beneath everything that takes round trips, so that every handshake costs its own.

mod clients;
mod misdirected;
mod protocol;

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use access::TransportSecurity;
use amqp_tokio::{Socket, Spoken, Stream};
use listen::{AcceptFailures, Acceptor, Place, Places};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use crate::profile::{ProfileSwitch, Replacements, Shaper, Traffic};

pub(crate) use clients::Clients;
use misdirected::Expectation;
pub use protocol::Protocol;

/// A socket that is listened on.
#[derive(Debug)]
pub struct Bound {
    /// The socket.
    pub listener: TcpListener,
    /// What is spoken there.
    pub protocol: Protocol,
    /// The certificate, where it is spoken over TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// The certificate for clients that begin with TLS where it is spoken in the clear; without one they are not served.
    pub tls_besides: Option<Arc<ServerConfig>>,
}

impl Bound {
    /// Whether what is spoken there is encrypted.
    #[must_use]
    pub const fn security(&self) -> TransportSecurity {
        match self.tls {
            Some(_) => TransportSecurity::Tls,
            None => TransportSecurity::Plain,
        }
    }
}

/// Has clients of AMQP's and HTTP's addresses choose HTTP/2 over TLS, and gives addresses in the clear the certificate of the others,
/// if there is one: so a client needs to know one port only.
pub(crate) fn serve_http_over_tls(bound: &mut [Bound]) {
    let is_for_messages = |bound: &&mut Bound| matches!(bound.protocol, Protocol::Amqp | Protocol::Rest);
    let mut certificate = None;
    for bound in bound.iter_mut().filter(is_for_messages) {
        if let Some(tls) = &mut bound.tls {
            // Clients of AMQP name no protocol.
            let mut with_names = ServerConfig::clone(tls);
            with_names.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            *tls = Arc::new(with_names);
            certificate.get_or_insert_with(|| Arc::clone(tls));
        }
    }
    for bound in bound.iter_mut().filter(is_for_messages).filter(|bound| bound.tls.is_none()) {
        bound.tls_besides = certificate.clone();
    }
}

/// What serves the connections that are accepted.
pub(crate) trait Front: Send + Sync + 'static {
    /// How many connections there may be, and what happens to them before they get here.
    fn gate(&self) -> &Gate;

    /// Serves a connection until it ends, or until its `stop` becomes true.
    fn serve_connection(&self, connection: Connection) -> impl Future<Output = ()> + Send;

    /// Refuses a client, since there is no room. Not called where clients [wait](WhenFull::Wait).
    fn refuse(&self, stream: Stream, protocol: Protocol) -> impl Future<Output = ()> + Send {
        drop((stream, protocol));
        std::future::ready(())
    }
}

/// A connection that has its place and has done its handshakes.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) protocol: Protocol,
    pub(crate) security: TransportSecurity,
    /// What the client said first, beneath any TLS, if it said anything.
    pub(crate) spoken: Option<Spoken>,
    pub(crate) peer: SocketAddr,
    /// Where the client found us.
    pub(crate) local: SocketAddr,
    pub(crate) place: Place,
    /// What the service profile does to it.
    pub(crate) shaper: Option<Shaper>,
    /// Becomes true when the connection is to end, since the service stops or is shaped in another way.
    pub(crate) stop: watch::Receiver<bool>,
}

/// The way in to one front, over all of its listeners.
#[derive(Debug)]
pub(crate) struct Gate {
    places: Arc<Places>,
    clients: Arc<Clients>,
    when_full: WhenFull,
    failures: Arc<AcceptFailures>,
    shaping: Option<(Arc<ProfileSwitch>, Traffic)>,
    refused: AtomicU64,
    /// Clients that are being refused at present.
    refusing: Arc<AtomicU64>,
}

/// What becomes of a client for which there is no room, not even that of a connection that has proven nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// It waits until there is.
    Wait,
    /// It gets a refusal, up to `at_once` clients at a time; the sockets of further ones are closed.
    Refuse { at_once: u64 },
}

impl Gate {
    /// For at most this many `connections`. Failures to accept are counted in `failures`.
    pub(crate) fn new(connections: u64, when_full: WhenFull, failures: Arc<AcceptFailures>) -> Self {
        Self {
            places: Places::new(connections),
            clients: Arc::default(),
            when_full,
            failures,
            shaping: None,
            refused: AtomicU64::new(0),
            refusing: Arc::default(),
        }
    }

    /// The same, shaped by the present `profile` as this kind of traffic.
    pub(crate) fn shaped(self, profile: Arc<ProfileSwitch>, traffic: Traffic) -> Self {
        Self { shaping: Some((profile, traffic)), ..self }
    }

    /// The places for connections.
    pub(crate) const fn places(&self) -> &Arc<Places> {
        &self.places
    }

    /// Who is connected.
    pub(crate) const fn clients(&self) -> &Arc<Clients> {
        &self.clients
    }

    /// Connections since the start for which there was no room.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// What the service profile does to the next connection.
    fn shaper(&self) -> Option<Shaper> {
        let (profile, traffic) = self.shaping.as_ref()?;
        Some(profile.present()?.shaper(*traffic))
    }

    /// Tells when connections are shaped in another way.
    fn replacements(&self) -> Replacements {
        self.shaping.as_ref().map_or_else(Replacements::never, |(profile, _)| profile.replacements())
    }

    async fn admit(&self) -> Admitted {
        match self.when_full {
            WhenFull::Wait => Admitted::To(self.places.admit_or_wait().await),
            WhenFull::Refuse { at_once } => match self.places.admit().await {
                Some(place) => Admitted::To(place),
                None => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    Admitted::Refused(Counted::within(&self.refusing, at_once))
                }
            },
        }
    }
}

/// What a client gets.
enum Admitted {
    To(Place),
    /// The news that there is no room, if not too many get it already.
    Refused(Option<Counted>),
}

/// Serves the connections that `bound` accepts until `stop` becomes true. Returns when each of them has ended.
pub(crate) async fn serve<F: Front>(front: Arc<F>, bound: Bound, mut stop: watch::Receiver<bool>) {
    let (protocol, security) = (bound.protocol, bound.security());
    let Bound { listener, tls, tls_besides, .. } = bound;
    let mut acceptor =
        Acceptor::new(listener, protocol.name_over(security), Arc::clone(&front.gate().failures));
    let expectation = Arc::new(Expectation::new(protocol, security, tls_besides.is_some()));
    let mut connections = JoinSet::new();
    let mut replacements = front.gate().replacements();
    // Ends the connections that began under one profile.
    let mut end = watch::Sender::new(false);
    loop {
        let (socket, peer) = tokio::select! {
            accepted = acceptor.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
            () = replacements.next() => {
                end.send_replace(true);
                end = watch::Sender::new(false);
                continue;
            }
            Some(ended) = connections.join_next() => {
                report(ended);
                continue;
            }
        };
        let admitted = tokio::select! {
            admitted = front.gate().admit() => admitted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let (front, tls, mut stop) = (Arc::clone(&front), tls.clone(), end.subscribe());
        match admitted {
            Admitted::To(place) => {
                tracing::debug!(%peer, "accepted");
                let shaper = front.gate().shaper();
                let (expectation, tls_besides) = (Arc::clone(&expectation), tls_besides.clone());
                let listed = front.gate().clients.list(peer, protocol);
                connections.spawn(async move {
                    let _listed = listed;
                    let lost = place.lost();
                    let serving = async {
                        let spoken = tokio::select! {
                            spoken = expectation.compare(&socket, peer) => spoken,
                            _ = stop.wait_for(|stop| *stop) => return,
                        };
                        let (tls, security) = match (tls, tls_besides, spoken) {
                            (None, Some(tls), Some(Spoken::Tls)) => (Some(tls), TransportSecurity::Tls),
                            (tls, ..) => (tls, security),
                        };
                        // A socket without an address is closed.
                        let Ok(local) = socket.local_addr() else {
                            return;
                        };
                        if let Some(stream) = handshake(socket, tls, shaper.as_ref(), &mut stop).await {
                            let connection = Connection {
                                stream,
                                protocol,
                                security,
                                spoken,
                                peer,
                                local,
                                place,
                                shaper,
                                stop,
                            };
                            front.serve_connection(connection).await;
                        }
                    };
                    tokio::select! {
                        () = serving => {}
                        () = lost => tracing::debug!(%peer, "an unauthenticated connection was closed to make room"),
                    }
                });
            }
            Admitted::Refused(Some(refusal)) => {
                connections.spawn(async move {
                    if let Some(stream) = handshake(socket, tls, None, &mut stop).await {
                        front.refuse(stream, protocol).await;
                    }
                    drop(refusal);
                });
            }
            Admitted::Refused(None) => {}
        }
    }
    drop(acceptor);
    end.send_replace(true);
    while let Some(ended) = connections.join_next().await {
        report(ended);
    }
}

/// What is above TCP and beneath the protocol. `None` if that does not come about, or not before `stop`.
async fn handshake(
    socket: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    shaper: Option<&Shaper>,
    stop: &mut watch::Receiver<bool>,
) -> Option<Stream> {
    let opened = tokio::select! {
        opened = open(socket, tls, shaper) => opened,
        _ = stop.wait_for(|stop| *stop) => return None,
    };
    opened.inspect_err(|error| tracing::debug!(%error, "the transport handshake failed")).ok()
}

async fn open(
    socket: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    shaper: Option<&Shaper>,
) -> io::Result<Stream> {
    let Some(shaper) = shaper.filter(|shaper| shaper.shapes_bytes()) else {
        return match tls {
            None => amqp_tokio::accept(socket),
            Some(config) => amqp_tokio::accept_tls(socket, config, HANDSHAKE_TIMEOUT).await,
        };
    };
    socket.set_nodelay(true)?;
    let line = Stream::Other(Box::new(shaper.delay_line(Socket::from(socket))));
    match tls {
        None => Ok(line),
        Some(config) => amqp_tokio::accept_tls_over(line, config, HANDSHAKE_TIMEOUT).await,
    }
}

/// A connection's task ends by itself, or by a mistake of ours, which costs that connection and must not stay unknown.
fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "the task of a connection panicked");
    }
}

/// One more of something that is bounded, for as long as this lives.
#[derive(Debug)]
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

/// The host that clients dial. The namespace's name is the one that they know, but `localhost` is no good for an
/// address that it does not stand for.
pub(crate) fn client_host(host: &str, bound: SocketAddr) -> String {
    let ip = bound.ip();
    if host != "localhost" || ip.is_unspecified() || ip == Ipv4Addr::LOCALHOST {
        host.to_owned()
    } else {
        ip.to_string()
    }
}

/// How long a client may take for its part of each handshake below its protocol: TLS, WebSocket.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may take until it has shown a token or a key: as long as the service gives it.
pub(crate) const PROOF_PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
