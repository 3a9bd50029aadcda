//! The service as a whole: a namespace, its front ends on their addresses, and the retention that runs beside them.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use hub::namespace::{HubConfig, NamespaceConfig};
//! use hub::service::{Service, ServiceConfig};
//!
//! let namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("events", 4)]);
//! let service = Service::start(ServiceConfig::loopback(namespace)).await?;
//! let text = service.connection_string(Some("events")).reveal();
//! // … clients connect with `text` …
//! service.stop().await;
//! # Ok(())
//! # }
//! ```

mod blobs;
mod descriptors;
mod queues;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use access::storage::StorageConnectionString;
use access::{
    ConnectionString, Credential, DEVELOPMENT_KEY_VALUE, Endpoint, ROOT_KEY_NAME, Right, SharedAccessKey,
    TransportSecurity,
};
use prometheus_client::collector::Collector;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use amqp_tokio::WEB_SOCKET_PATH;

use blobs::{BlobEndpoint, BlobListeners};
use descriptors::{Needs, Shares};
use listen::AcceptFailures;

use crate::front::amqp::{AmqpFront, AmqpMetrics, Transport};
use crate::front::blob::{BlobFaults, BlobMetrics};
use crate::front::operations::OperationsFront;
use crate::namespace::{Namespace, NamespaceConfig, NamespaceError, NamespaceMetrics, SignaturePolicy};
use blob_store::BlobError;

/// What to serve, and where. Port 0 takes any free port.
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// The hubs and who may use them.
    pub namespace: NamespaceConfig,
    /// The address for AMQP over plain TCP.
    pub amqp: SocketAddr,
    /// The address for AMQP over TLS, with its certificate; none, if `None`.
    pub amqps: Option<(SocketAddr, Arc<ServerConfig>)>,
    /// The address for AMQP over WebSocket; none, if `None`.
    pub web_socket: Option<SocketAddr>,
    /// The address for AMQP over WebSocket and TLS, with its certificate; none, if `None`.
    pub web_socket_tls: Option<(SocketAddr, Arc<ServerConfig>)>,
    /// The address for `/health` and `/metrics`; none, if `None`.
    pub http: Option<SocketAddr>,
    /// The address for blobs over HTTP; none, if `None`.
    pub blob: Option<SocketAddr>,
    /// The address for blobs over HTTPS, with its certificate; none, if `None`.
    pub blob_tls: Option<(SocketAddr, Arc<ServerConfig>)>,
    /// Whether addresses that other machines reach may be listened on although everyone knows how to get in: inside of a
    /// container, say.
    pub open_to_anyone: bool,
}

impl ServiceConfig {
    /// A service on any free port of the loopback interface, for AMQP over plain TCP alone.
    #[must_use]
    pub const fn loopback(namespace: NamespaceConfig) -> Self {
        let amqp = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        Self {
            namespace,
            amqp,
            amqps: None,
            web_socket: None,
            web_socket_tls: None,
            http: None,
            blob: None,
            blob_tls: None,
            open_to_anyone: false,
        }
    }
}

/// A running service. Dropping it stops it too, without waiting for its clients' farewell.
#[derive(Debug)]
pub struct Service {
    namespace: Arc<Namespace>,
    amqp: SocketAddr,
    amqps: Option<SocketAddr>,
    web_socket: Option<SocketAddr>,
    web_socket_tls: Option<SocketAddr>,
    http: Option<SocketAddr>,
    blob: Option<BlobEndpoint>,
    unserved_containers: usize,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// Why a service did not start. Nothing is left running then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The namespace makes no sense.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// An address can't be listened on.
    #[error("{protocol} can't listen on {address}: {source}")]
    Listen {
        /// What should be spoken there.
        protocol: Protocol,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The blobs in the data directory can't be served.
    #[error("the blobs in {} can't be served: {source}", directory.display())]
    Blobs {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A container can't be made.
    #[error("blob.containers: {name} can't be made: {source}")]
    Container {
        /// Its name.
        name: String,
        /// Why not.
        source: BlobError,
    },
    /// Other machines could connect, and no secret would keep anyone out.
    #[error("{protocol} must not listen on {address}, where other machines may connect: {openness}")]
    OpenToAnyone {
        /// What should be spoken there.
        protocol: Protocol,
        /// The address.
        address: SocketAddr,
        /// What lets everyone in.
        openness: Openness,
    },
}

/// What is spoken on an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// AMQP over plain TCP.
    Amqp,
    /// AMQP over TLS.
    Amqps,
    /// AMQP over WebSocket.
    WebSocket,
    /// AMQP over WebSocket and TLS.
    WebSocketTls,
    /// HTTP, for health and metrics.
    Http,
    /// HTTP, for blobs.
    Blob,
    /// HTTP over TLS, for blobs.
    BlobTls,
}

/// What lets everyone in who knows no more than public documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Openness {
    /// Tokens are not verified.
    AcceptAny,
    /// A key has the value that every development emulator has.
    DevelopmentKey {
        /// The key's name.
        name: String,
    },
    /// The storage account's key has the value that every development emulator has.
    DevelopmentStorageKey,
}

impl Service {
    /// Starts a service. All of its addresses are listened on when this returns, so clients can connect. Must be
    /// called inside a tokio runtime, which then runs the service.
    ///
    /// # Errors
    /// The namespace is refused, an address can't be listened on, or must not be.
    pub async fn start(config: ServiceConfig) -> Result<Self, StartError> {
        let namespace = Arc::new(Namespace::new(&config.namespace, SystemTime::now().into())?);
        let openness = match config.open_to_anyone {
            true => None,
            false => openness(&namespace),
        };
        let listen = |protocol, address| listen(openness.as_ref(), protocol, address);
        let amqp = listen(Protocol::Amqp, config.amqp).await?;
        let amqps = match config.amqps {
            Some((address, tls)) => Some((listen(Protocol::Amqps, address).await?, tls)),
            None => None,
        };
        let web_socket = match config.web_socket {
            Some(address) => Some(listen(Protocol::WebSocket, address).await?),
            None => None,
        };
        let web_socket_tls = match config.web_socket_tls {
            Some((address, tls)) => {
                let bound = listen(Protocol::WebSocketTls, address).await?;
                Some((bound, tls))
            }
            None => None,
        };
        let http = match config.http {
            Some(address) => Some(listen(Protocol::Http, address).await?),
            None => None,
        };
        let blob_openness = match config.open_to_anyone {
            true => None,
            false => blobs::openness(&config.namespace),
        };
        let listen = |protocol, address| self::listen(blob_openness.as_ref(), protocol, address);
        let blob = match config.blob {
            Some(address) => Some(listen(Protocol::Blob, address).await?),
            None => None,
        };
        let blob_tls = match config.blob_tls {
            Some((address, tls)) => Some((listen(Protocol::BlobTls, address).await?, tls)),
            None => None,
        };

        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let shares = Shares::of_process(Needs::of(&config.namespace, &namespace, blob.is_some()));
        let accept_failures = Arc::<AcceptFailures>::default();
        let front = AmqpFront::within(
            Arc::clone(&namespace),
            shares.amqp,
            shares.refusals,
            Arc::clone(&accept_failures),
        );
        let mut serve = |bound: Bound, tls, web_socket| {
            let transport = Transport { tls, web_socket };
            tasks.spawn(Arc::clone(&front).serve(bound.listener, transport, stopped.clone()));
            bound.address
        };
        let amqp = serve(amqp, None, false);
        let amqps = amqps.map(|(bound, tls)| serve(bound, Some(tls), false));
        let web_socket = web_socket.map(|bound| serve(bound, None, true));
        let web_socket_tls = web_socket_tls.map(|(bound, tls)| serve(bound, Some(tls), true));
        let listeners = BlobListeners { plain: blob, tls: blob_tls };
        let blob = match listeners.is_empty() {
            true => None,
            false => {
                let config = &config.namespace;
                let front = blobs::front(config, shares.blob, &accept_failures)?;
                Some(BlobEndpoint::start(config, front, listeners, &mut tasks, &stopped))
            }
        };
        let unserved_containers = match blob {
            Some(_) => 0,
            None => blobs::kept_containers(&config.namespace),
        };
        if unserved_containers > 0 {
            tracing::warn!(
                containers = unserved_containers,
                "there are blobs in the data directory, and no address to serve them at"
            );
        }
        let blob_front = blob.as_ref().map(|blob| Arc::clone(&blob.front));
        let http = http.map(|bound| {
            let mut collectors: Vec<Box<dyn Collector>> =
                vec![Box::new(NamespaceMetrics(Arc::clone(&namespace))), Box::new(AmqpMetrics(front))];
            if let Some(front) = blob_front {
                collectors.push(Box::new(BlobMetrics(front)));
            }
            let front = OperationsFront::new(collectors, accept_failures);
            tasks.spawn(front.serve(bound.listener, shares.http, stopped.clone()));
            bound.address
        });
        if let Some(store) = namespace.queues() {
            tasks.spawn(queues::drive(Arc::clone(store), stopped.clone()));
        }
        let (watched, stop_watching) = (Arc::clone(&namespace), stopped.clone());
        tasks.spawn(async move { watched.clock().report_jumps(stop_watching).await });
        tasks.spawn(enforce_retention(Arc::clone(&namespace), stopped));
        Ok(Self {
            namespace,
            amqp,
            amqps,
            web_socket,
            web_socket_tls,
            http,
            blob,
            unserved_containers,
            stop,
            tasks,
        })
    }

    /// What is served: hubs, logs, counters.
    #[must_use]
    pub const fn namespace(&self) -> &Arc<Namespace> {
        &self.namespace
    }

    /// Where AMQP is spoken over plain TCP.
    #[must_use]
    pub const fn amqp_address(&self) -> SocketAddr {
        self.amqp
    }

    /// Where AMQP is spoken over TLS, if anywhere.
    #[must_use]
    pub const fn amqps_address(&self) -> Option<SocketAddr> {
        self.amqps
    }

    /// Where AMQP is spoken over WebSocket, if anywhere.
    #[must_use]
    pub const fn web_socket_address(&self) -> Option<SocketAddr> {
        self.web_socket
    }

    /// Where AMQP is spoken over WebSocket and TLS, if anywhere.
    #[must_use]
    pub const fn web_socket_tls_address(&self) -> Option<SocketAddr> {
        self.web_socket_tls
    }

    /// Where health and metrics are, if anywhere.
    #[must_use]
    pub const fn http_address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Where blobs are served over plain HTTP, if anywhere.
    #[must_use]
    pub fn blob_address(&self) -> Option<SocketAddr> {
        self.blob.as_ref()?.address
    }

    /// Where blobs are served over TLS, if anywhere.
    #[must_use]
    pub fn blob_tls_address(&self) -> Option<SocketAddr> {
        self.blob.as_ref()?.tls_address
    }

    /// How many containers there are in the data directory that are not served, since there is no address for blobs.
    #[must_use]
    pub const fn unserved_containers(&self) -> usize {
        self.unserved_containers
    }

    /// A switch for faults of blobs, where they are served: for tests in this process, which know when a fault is to begin
    /// and end. Users have the service profile.
    #[must_use]
    pub fn blob_faults(&self) -> Option<&BlobFaults> {
        self.blob.as_ref().map(|blob| blob.front.faults())
    }

    /// What a client of blob storage connects with over plain HTTP, where that is served.
    #[must_use]
    pub fn storage_connection_string(&self) -> Option<StorageConnectionString> {
        let blob = self.blob.as_ref()?;
        blob.connection_string(self.namespace.host())
    }

    /// The same over TLS, where that is served.
    #[must_use]
    pub fn storage_tls_connection_string(&self) -> Option<StorageConnectionString> {
        let blob = self.blob.as_ref()?;
        blob.tls_connection_string(self.namespace.host())
    }

    /// What a client connects with over plain TCP: for one hub, or for the whole namespace without `hub`. It has the
    /// development emulator's form, which makes clients do without TLS.
    #[must_use]
    pub fn connection_string(&self, hub: Option<&str>) -> ConnectionString {
        self.connection_string_of(self.amqp, TransportSecurity::Plain, hub)
    }

    /// The same over TLS, where that is served.
    #[must_use]
    pub fn tls_connection_string(&self, hub: Option<&str>) -> Option<ConnectionString> {
        self.amqps.map(|address| self.connection_string_of(address, TransportSecurity::Tls, hub))
    }

    /// Stops: no connection is accepted any more, those that are there are closed in good order, and whoever does not
    /// say goodbye in time is dropped. Where events are kept on a disk, all of them are brought there; what can't be is
    /// logged. Returns when nothing runs any more.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_PATIENCE, ended).await.is_err() {
            self.tasks.shutdown().await;
        }
        if let Some(blob) = &self.blob {
            blob.close().await;
        }
        let namespace = Arc::clone(&self.namespace);
        match tokio::task::spawn_blocking(move || namespace.close()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "not everything is on the disk"),
            Err(error) => tracing::error!(%error, "bringing everything to the disk broke off"),
        }
    }

    fn connection_string_of(
        &self,
        address: SocketAddr,
        security: TransportSecurity,
        hub: Option<&str>,
    ) -> ConnectionString {
        let host = client_host(self.namespace.host(), address);
        let endpoint =
            |port| Endpoint::new(host.clone(), port).expect("hosts were checked, and bound ports are not 0");
        // The registered port goes without saying.
        let endpoint = Some(endpoint(None))
            .filter(|endpoint| endpoint.amqp_address(security).port == address.port())
            .unwrap_or_else(|| endpoint(Some(address.port())));
        ConnectionString {
            endpoint,
            credential: Credential::Key(best_key(&self.namespace)),
            entity_path: hub.map(str::to_owned),
            security,
        }
    }
}

impl Protocol {
    const fn name(self) -> &'static str {
        match self {
            Self::Amqp => "AMQP",
            Self::Amqps => "AMQP over TLS",
            Self::WebSocket => "AMQP over WebSocket",
            Self::WebSocketTls => "AMQP over WebSocket and TLS",
            Self::Http => "HTTP",
            Self::Blob => "blob storage",
            Self::BlobTls => "blob storage over TLS",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Openness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AcceptAny => f.write_str("`signatures: accept-any` lets everyone in"),
            Self::DevelopmentKey { name } => {
                write!(f, "the key `{name}` has the development emulator's value, which everyone knows")
            }
            Self::DevelopmentStorageKey => {
                f.write_str("`blob.account.key` has the development emulator's value, which everyone knows")
            }
        }
    }
}

/// A listener and the address that it really has.
#[derive(Debug)]
struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

async fn listen(
    openness: Option<&Openness>,
    protocol: Protocol,
    address: SocketAddr,
) -> Result<Bound, StartError> {
    if !address.ip().to_canonical().is_loopback()
        && let Some(openness) = openness.cloned()
    {
        return Err(StartError::OpenToAnyone { protocol, address, openness });
    }
    let failed = |source| StartError::Listen { protocol, address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Bound { listener, address })
}

/// What makes a namespace open to anyone, if anything does.
fn openness(namespace: &Namespace) -> Option<Openness> {
    if !namespace.is_open_to_anyone() {
        return None;
    }
    let known = namespace.rules().iter().find(|rule| rule.key.has_value(DEVELOPMENT_KEY_VALUE));
    Some(match known {
        Some(rule) if namespace.signatures() == SignaturePolicy::Verify => {
            Openness::DevelopmentKey { name: rule.key.name().to_owned() }
        }
        _ => Openness::AcceptAny,
    })
}

/// The host that clients dial. The namespace's name is the one that they know, but `localhost` is no good for an
/// address that it does not stand for.
fn client_host(host: &str, bound: SocketAddr) -> String {
    let ip = bound.ip();
    if host != "localhost" || ip.is_unspecified() || ip == Ipv4Addr::LOCALHOST {
        host.to_owned()
    } else {
        ip.to_string()
    }
}

/// The key that allows most; where there is none and none is asked for, the emulator's.
fn best_key(namespace: &Namespace) -> SharedAccessKey {
    let rules = namespace.rules();
    let everything = rules.iter().find(|rule| rule.rights.contains(Right::Manage));
    everything
        .or_else(|| rules.first())
        .map_or_else(|| SharedAccessKey::new(ROOT_KEY_NAME, DEVELOPMENT_KEY_VALUE), |rule| rule.key.clone())
}

/// Logs that are appended to look after themselves; this is for those that are not.
async fn enforce_retention(namespace: Arc<Namespace>, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(RETENTION_PERIOD);
    loop {
        tokio::select! {
            _ = ticks.tick() => namespace.enforce_retention(namespace.clock().now().into()),
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

/// Retention goes by whole segments, so finer steps would show nowhere.
const RETENTION_PERIOD: Duration = Duration::from_secs(1);

/// A little more than a connection takes for its farewell at the longest.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests;
