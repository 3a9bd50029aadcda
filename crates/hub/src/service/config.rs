//! What is to be served, and where.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

use access::TransportSecurity;
use rustls::ServerConfig;
use tokio::net::TcpListener;

use super::{Openness, StartError};
use crate::clock::ClockKind;
use crate::front::listener::{Bound, Protocol};
use crate::identity::DevelopmentIdentityConfig;
use crate::namespace::NamespaceConfig;

/// What to serve, and where.
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// The hubs and who may use them.
    pub namespace: NamespaceConfig,
    /// What is spoken where; among others AMQP over plain TCP, where connection strings lead.
    pub listeners: Vec<Listener>,
    /// Whether addresses that other machines reach may be listened on although everyone knows how to get in: inside of a
    /// container, say.
    pub open_to_anyone: bool,
    /// The issuer of tokens for development, if there is to be one: where [`Protocol::Identity`] is served.
    pub development_identity: Option<DevelopmentIdentityConfig>,
    /// When the certificate of the listeners expires, for the metrics.
    pub certificate_expiry: Option<SystemTime>,
    /// Who moves the service's clock. A controlled one needs loopback addresses, and a namespace in memory.
    pub clock: ClockKind,
}

/// An address to listen on.
#[derive(Debug, Clone)]
pub struct Listener {
    /// What is spoken there.
    pub protocol: Protocol,
    /// The address. Port 0 takes any free port.
    pub address: SocketAddr,
    /// The certificate, if it is spoken over TLS.
    pub tls: Option<Arc<ServerConfig>>,
}

impl ServiceConfig {
    /// A service on any free port of the loopback interface, for AMQP over plain TCP alone.
    #[must_use]
    pub fn loopback(namespace: NamespaceConfig) -> Self {
        let nothing = Self {
            namespace,
            listeners: Vec::new(),
            open_to_anyone: false,
            development_identity: None,
            certificate_expiry: None,
            clock: ClockKind::Machine,
        };
        nothing.and(Protocol::Amqp)
    }

    /// The same, and another protocol on any free port of the loopback interface.
    #[must_use]
    pub fn and(mut self, protocol: Protocol) -> Self {
        self.listeners.push(Listener::plain(protocol, LOOPBACK));
        self
    }

    /// The same, with a clock that [`TimeControl`](super::TimeControl) advances.
    #[must_use]
    pub fn with_time_control(self) -> Self {
        Self { clock: ClockKind::Controlled, ..self }
    }

    /// The same, and another protocol over TLS on any free port of the loopback interface.
    #[must_use]
    pub fn and_tls(mut self, protocol: Protocol, tls: Arc<ServerConfig>) -> Self {
        self.listeners.push(Listener { tls: Some(tls), ..Listener::plain(protocol, LOOPBACK) });
        self
    }
}

impl Listener {
    /// An address where a protocol is spoken in the clear.
    #[must_use]
    pub const fn plain(protocol: Protocol, address: SocketAddr) -> Self {
        Self { protocol, address, tls: None }
    }

    /// Listens, and gives the address that this really is. `openness` is what lets everyone in, if anything does.
    pub(super) async fn bind(self, openness: Option<&Openness>) -> Result<(Bound, SocketAddr), StartError> {
        let Self { protocol, address, tls } = self;
        if tls.is_some() && !protocol.has_tls() {
            return Err(StartError::WithoutTls { protocol });
        }
        let security = if tls.is_some() { TransportSecurity::Tls } else { TransportSecurity::Plain };
        if !address.ip().to_canonical().is_loopback()
            && let Some(openness) = openness.cloned()
        {
            return Err(StartError::OpenToAnyone { protocol, security, address, openness });
        }
        let failed = |source| StartError::Listen { protocol, security, address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok((Bound { listener, protocol, tls, tls_besides: None }, address))
    }
}

/// Any free port of the loopback interface.
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
