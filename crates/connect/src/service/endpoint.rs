//! Where a client connects, resolved once: address, certificates, names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use access::{Credential, ServiceAddress, TransportSecurity, is_loopback};
use amqp::connection::Config;
use amqp::{Symbol, Value};
use amqp_tokio::{ClientTls, Stream};
use rustls::pki_types::ServerName;

use super::error::ServiceError;
use super::options::{ClientOptions, Transport};

/// What it takes to connect, as often as need be.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) options: ClientOptions,
    pub(crate) address: ServiceAddress,
    /// None for plain TCP.
    pub(crate) tls: Option<ClientTls>,
    /// The name of this client, unlike that of any other.
    pub(crate) container_id: String,
    /// What else a connection is used for.
    pub(crate) other_claims: Vec<EntityClaim>,
}

/// An entity, and what proves the right to use it.
#[derive(Debug)]
pub(crate) struct EntityClaim {
    pub(crate) entity: String,
    pub(crate) credential: Credential,
}

impl Endpoint {
    /// Reads the certificates.
    ///
    /// # Errors
    /// When they cannot be read, or the host's name cannot be in a certificate.
    pub(crate) fn resolve(options: impl Into<ClientOptions>) -> Result<Arc<Self>, ServiceError> {
        Self::for_amqp(options.into(), Vec::new())
    }

    /// The same for a connection that is used for `other` as well, whose entity is in the same namespace.
    ///
    /// # Errors
    /// As with [`resolve`](Self::resolve).
    pub(crate) fn resolve_with(
        options: ClientOptions,
        other: &ClientOptions,
    ) -> Result<Arc<Self>, ServiceError> {
        let claim = EntityClaim {
            entity: other.entity.clone(),
            credential: other.connection_string.credential.clone(),
        };
        Self::for_amqp(options, vec![claim])
    }

    fn for_amqp(options: ClientOptions, other_claims: Vec<EntityClaim>) -> Result<Arc<Self>, ServiceError> {
        let address = match options.transport {
            Transport::Tcp => options.connection_string.amqp_address(),
            Transport::WebSocket => options.connection_string.web_socket_address(),
        };
        Self::at(address, options, other_claims)
    }

    /// The same for the REST interface: at the port that the connection string names, or the usual one of HTTP with TLS. Without TLS,
    /// at that of AMQP, where the embedded service speaks both.
    ///
    /// # Errors
    /// As with [`resolve`](Self::resolve).
    pub(crate) fn for_http(options: ClientOptions) -> Result<Arc<Self>, ServiceError> {
        let address = match options.connection_string.security {
            TransportSecurity::Plain => options.connection_string.amqp_address(),
            TransportSecurity::Tls => options.connection_string.web_socket_address(),
        };
        Self::at(address, ClientOptions { transport: Transport::Tcp, ..options }, Vec::new())
    }

    fn at(
        address: ServiceAddress,
        options: ClientOptions,
        other_claims: Vec<EntityClaim>,
    ) -> Result<Arc<Self>, ServiceError> {
        let others = other_claims.iter().map(|claim| &claim.credential);
        if std::iter::once(&options.connection_string.credential)
            .chain(others)
            .any(|one| *one == Credential::Identity)
            && address.security == TransportSecurity::Plain
            && !is_loopback(&address.host)
        {
            let what = format!("{} would be sent bearer tokens without TLS", address.host);
            return Err(ServiceError::fatal("connection:address", what));
        }
        let tls = match address.security {
            TransportSecurity::Plain => None,
            TransportSecurity::Tls => Some(client_tls(&options, &address.host)?),
        };
        Ok(Arc::new(Self { options, address, tls, container_id: container_id(), other_claims }))
    }

    /// A stream of bytes to the service.
    ///
    /// # Errors
    /// When it cannot be reached, is not who it should be, or does not speak the transport.
    pub(crate) async fn dial(&self) -> Result<Stream, ServiceError> {
        let ServiceAddress { host, port, .. } = &self.address;
        let limit = self.options.connect_timeout;
        let stream = amqp_tokio::connect(host, *port, self.tls.clone(), limit).await?;
        Ok(match self.options.transport {
            Transport::Tcp => stream,
            Transport::WebSocket => amqp_tokio::connect_web_socket(stream, host, *port, limit).await?,
        })
    }

    /// The same, calling `connected` between the connection of TCP and the handshake of TLS, if there is one. The caller limits its time.
    ///
    /// # Errors
    /// As with [`dial`](Self::dial).
    pub(crate) async fn dial_in_stages(&self, connected: impl FnOnce()) -> Result<Stream, ServiceError> {
        let ServiceAddress { host, port, .. } = &self.address;
        let stream = amqp_tokio::connect_plain(host, *port).await?;
        let stream = match &self.tls {
            None => stream,
            Some(tls) => {
                connected();
                amqp_tokio::connect_tls(stream, host, *port, tls.clone()).await?
            }
        };
        Ok(match self.options.transport {
            Transport::Tcp => stream,
            Transport::WebSocket => {
                amqp_tokio::connect_web_socket(stream, host, *port, self.options.connect_timeout).await?
            }
        })
    }

    /// The settings of a connection of this client.
    pub(crate) fn config(&self) -> Config {
        Config {
            container_id: self.container_id.clone(),
            hostname: Some(self.address.host.clone()),
            links_max: LINKS_MAX,
            handshake_timeout: self.options.connect_timeout,
            // A silent connection is given up after twice this, as by the official clients.
            idle_timeout: Some(Duration::from_secs(30)),
            // That the service can't be reached shows in health long before.
            probe_after: Some(self.options.probe_after),
            properties: vec![
                (Symbol::from_static("product"), Value::from("parshall")),
                (Symbol::from_static("version"), Value::from(env!("CARGO_PKG_VERSION"))),
            ],
            ..Config::default()
        }
    }

    /// The URI of the entity, which is what tokens are about: they hold for everything beneath it.
    pub(crate) fn audience(&self) -> String {
        self.audience_of(&self.options.entity)
    }

    /// The same of another entity of the namespace.
    pub(crate) fn audience_of(&self, entity: &str) -> String {
        let host = &self.address.host;
        match host.contains(':') {
            true => format!("sb://[{host}]/{entity}"),
            false => format!("sb://{host}/{entity}"),
        }
    }
}

/// Maximum number of links of a connection: what the embedded service takes.
pub(super) const LINKS_MAX: usize = 4_096;

fn client_tls(options: &ClientOptions, host: &str) -> Result<ClientTls, ServiceError> {
    let unusable = |what: String| ServiceError::fatal("connection:certificates", what);
    let server_name = ServerName::try_from(host.to_owned())
        .map_err(|error| unusable(format!("{host} is not a valid name for a certificate: {error}")))?;
    let file = options.certificate_authority.as_deref();
    let config = trust::client_config(file).map_err(unusable)?;
    Ok(ClientTls { config, server_name })
}

fn container_id() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let started =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("parshall-{:x}-{started:x}-{number:x}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(connection_string: &str, file: Option<&[u8]>) -> Result<Arc<Endpoint>, ServiceError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authority.pem");
        let mut options = ClientOptions::new(connection_string.parse().unwrap(), "hub");
        options.certificate_authority = file.map(|content| {
            std::fs::write(&path, content).unwrap();
            path.clone()
        });
        Endpoint::resolve(options)
    }

    #[test]
    fn an_emulators_string_needs_no_certificates_and_the_audience_has_no_port() {
        let emulator =
            "Endpoint=sb://[::1]:5679;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true";
        let endpoint = resolve(emulator, Some(b"not read at all")).unwrap();
        assert!(endpoint.tls.is_none());
        assert_eq!((endpoint.address.port, endpoint.audience().as_str()), (5679, "sb://[::1]/hub"));
        assert_ne!(endpoint.container_id, resolve(emulator, None).unwrap().container_id);
    }

    #[test]
    fn a_certificate_authority_that_cannot_be_used_is_named() {
        let service = "Endpoint=sb://ns.example.com;SharedAccessKeyName=a;SharedAccessKey=b";
        let refused = resolve(service, Some(b"nothing in here")).unwrap_err();
        assert!(refused.description.contains("authority.pem"), "{refused}");
        assert_eq!(refused.class, crate::sink::ErrorClass::Fatal);
    }
}
