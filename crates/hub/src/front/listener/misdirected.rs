//! Clients that speak another protocol than their address is for.
//!
//! Most are a wrong port or a missing `UseDevelopmentEmulator=true`, and what the client reports of it is seldom helpful. So the
//! service says what it sees, by the first bytes, which it leaves where they are.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use access::TransportSecurity;
use amqp_tokio::Spoken;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::{HANDSHAKE_TIMEOUT, Protocol};

/// What an address is for, and when a client was last reported that had mistaken it.
#[derive(Debug)]
pub(super) struct Expectation {
    protocol: Protocol,
    security: TransportSecurity,
    /// Whether clients may begin with TLS although the address is for the clear.
    takes_tls: bool,
    reported: Mutex<Option<Instant>>,
}

impl Expectation {
    pub(super) const fn new(protocol: Protocol, security: TransportSecurity, takes_tls: bool) -> Self {
        Self { protocol, security, takes_tls, reported: Mutex::new(None) }
    }

    /// Looks at what the client says first, and reports it if it doesn't belong here. Waits no longer for it than for a
    /// handshake.
    pub(super) async fn compare(&self, socket: &TcpStream, peer: SocketAddr) -> Option<Spoken> {
        let mut first = [0; 4];
        let peeked = tokio::time::timeout(HANDSHAKE_TIMEOUT, socket.peek(&mut first)).await;
        let spoken = Spoken::of(&first[..peeked.ok()?.ok()?])?;
        if !self.admits(spoken) {
            self.report(spoken, peer);
        }
        Some(spoken)
    }

    fn report(&self, spoken: Spoken, peer: SocketAddr) {
        let (expected, advice) = (self.protocol.name_over(self.security), self.advice(spoken));
        match self.is_news() {
            true => tracing::warn!(%peer, "a client speaks {spoken} on the address for {expected}: {advice}"),
            false => tracing::debug!(%peer, "a client speaks {spoken} on the address for {expected}"),
        }
    }

    const fn admits(&self, spoken: Spoken) -> bool {
        match (self.security, self.protocol) {
            (TransportSecurity::Tls, _) => matches!(spoken, Spoken::Tls),
            (TransportSecurity::Plain, _) if matches!(spoken, Spoken::Tls) => self.takes_tls,
            (TransportSecurity::Plain, Protocol::Amqp) => matches!(spoken, Spoken::Amqp | Spoken::Http),
            (TransportSecurity::Plain, Protocol::Kafka) => matches!(spoken, Spoken::Kafka),
            (TransportSecurity::Plain, _) => matches!(spoken, Spoken::Http),
        }
    }

    const fn advice(&self, spoken: Spoken) -> &'static str {
        match (spoken, self.security, self.protocol) {
            (Spoken::Tls, _, Protocol::Amqp) => {
                "it needs an address for AMQP over TLS, or `UseDevelopmentEmulator=true` in its connection string to do \
                 without TLS"
            }
            (Spoken::Tls, _, Protocol::Kafka) => {
                "it needs an address for Kafka over TLS, or `security.protocol=SASL_PLAINTEXT`"
            }
            (Spoken::Kafka, TransportSecurity::Tls, Protocol::Kafka) => {
                "it does so without TLS; it needs `security.protocol=SASL_SSL`, or the address for plain Kafka"
            }
            (Spoken::Kafka, ..) => "it needs the address for Kafka",
            (Spoken::Tls, ..) => "it needs an address for TLS, or a URL that begins with http:// or ws://",
            (Spoken::Amqp, TransportSecurity::Tls, _) => {
                "it does so without TLS; `UseDevelopmentEmulator=true` in its connection string must go, or it needs the \
                 address for plain AMQP"
            }
            (Spoken::Amqp, _, Protocol::AmqpWebSocket) => {
                "it needs the address for AMQP, or to be told to use AMQP over WebSocket"
            }
            (Spoken::Amqp, ..) => "it needs the address for AMQP",
            (Spoken::Http, TransportSecurity::Tls, _) => {
                "it does so without TLS; its URL must begin with https:// or wss://"
            }
            (Spoken::Http, ..) => {
                "HTTP for events and messages, AMQP over WebSocket, blobs, health and metrics have addresses of their own"
            }
        }
    }

    /// Once in a while: a client that is wrong tries again and again, and anyone can be wrong on purpose.
    fn is_news(&self) -> bool {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = reported.is_none_or(|last| last.elapsed() >= REPORT_EVERY);
        if is_news {
            *reported = Some(Instant::now());
        }
        is_news
    }
}

const REPORT_EVERY: Duration = Duration::from_secs(60);
