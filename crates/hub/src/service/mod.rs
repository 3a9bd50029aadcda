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
mod config;
mod coordinators;
mod descriptors;
mod error;
mod queues;
mod time_control;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use access::storage::StorageConnectionString;
use access::{
    ConnectionString, Credential, DEVELOPMENT_KEY_VALUE, Endpoint, ROOT_KEY_NAME, Right, SharedAccessKey,
    TransportSecurity,
};
use prometheus_client::collector::Collector;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use crate::front::listener::Protocol;
pub use amqp_tokio::WEB_SOCKET_PATH;
pub use config::{Listener, ServiceConfig};
pub use error::{Openness, StartError};
pub use time_control::{AdvanceError, Advanced, Happened, TimeControl};

use blobs::BlobAccount;
pub(crate) use coordinators::Coordinators;
use descriptors::{Needs, Shares};
use listen::AcceptFailures;
use queues::QueueTime;

use crate::clock::{ClockKind, ServiceClock};
use crate::front::amqp::{AmqpFront, AmqpMetrics};
use crate::front::http::blob::{BlobFaults, BlobMetrics};
use crate::front::http::explorer::{ExplorerFront, ExplorerParts};
use crate::front::http::identity::{IdentityFront, IssuerMetrics};
use crate::front::http::operations::{CertificateMetrics, OperationsFront};
use crate::front::http::rest::{RestFront, RestMetrics};
use crate::front::kafka::{KafkaFront, KafkaMetrics};
use crate::front::listener::{self, Front as _};
use crate::front::messaging::MessagingFront;
use crate::identity::{DevelopmentIssuer, DevelopmentVariables, IdentityMetrics};
use crate::namespace::{Namespace, NamespaceMetrics, SignaturePolicy};
use crate::tls;

/// A running service. Dropping it stops it too, without waiting for its clients' farewell.
#[derive(Debug)]
pub struct Service {
    namespace: Arc<Namespace>,
    /// Where AMQP is spoken over plain TCP.
    amqp: SocketAddr,
    served: Vec<Served>,
    blobs: Option<BlobAccount>,
    unserved_containers: usize,
    issuer: Option<Arc<DevelopmentIssuer>>,
    operations: Arc<OperationsFront>,
    time_control: Option<TimeControl>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// Tells the metrics of a service, for as long as there is anybody who asks.
#[derive(Clone, Debug)]
pub struct ServiceMetrics(Arc<OperationsFront>);

impl ServiceMetrics {
    /// All of them as they are now, in the OpenMetrics text format.
    pub async fn open_metrics(&self) -> String {
        self.0.open_metrics().await
    }
}

impl Service {
    /// Starts a service. All of its addresses are listened on when this returns, so clients can connect. Must be
    /// called inside a tokio runtime, which then runs the service.
    ///
    /// # Errors
    /// The namespace is refused, an address can't be listened on, or must not be.
    pub async fn start(config: ServiceConfig) -> Result<Self, StartError> {
        if config.clock == ClockKind::Controlled {
            time_control::check(&config)?;
        }
        let clock = Arc::new(ServiceClock::new(config.clock));
        let mut namespace = Namespace::on_clock(&config.namespace, Arc::clone(&clock))?;
        let issuer = config.development_identity.as_ref().map(DevelopmentIssuer::new).transpose()?;
        let issuer = issuer.map(Arc::new);
        if let Some(issuer) = &issuer {
            namespace.accept_tokens_of(issuer, &config.namespace.blob.account.name);
        }
        let namespace = Arc::new(namespace);
        let profile = &config.namespace.profile;
        for name in profile.service_time.entities.keys().chain(profile.capacity.entities.keys()) {
            if !namespace.has_entity_above(name) {
                tracing::warn!(name, "the service profile names an entity that does not exist");
            }
        }
        let newest_tls = config.namespace.profile.resolved().tls;
        let openness = match config.open_to_anyone {
            true => None,
            false => openness(&namespace),
        };
        let blob_openness = match config.open_to_anyone {
            true => None,
            false => blobs::openness(&config.namespace),
        };
        let identity_openness = (!config.open_to_anyone).then_some(Openness::DevelopmentIdentity);
        // Whoever reaches it can do everything, whatever the keys are.
        let explorer_openness = (!config.open_to_anyone).then_some(Openness::Explorer);
        let (mut bound, mut served) = (Vec::new(), Vec::new());
        for listener in config.listeners {
            let openness = match listener.protocol {
                Protocol::Blob => &blob_openness,
                Protocol::Identity => &identity_openness,
                Protocol::Amqp
                | Protocol::AmqpWebSocket
                | Protocol::Rest
                | Protocol::Kafka
                | Protocol::Operations => &openness,
                Protocol::Explorer => &explorer_openness,
            };
            let (mut listening, address) = listener.bind(openness.as_ref()).await?;
            if let (Some(newest), Some(tls)) = (newest_tls, &mut listening.tls) {
                *tls = tls::limited(tls, newest)?;
            }
            let (protocol, security) = (listening.protocol, listening.security());
            served.push(Served { protocol, security, address });
            bound.push(listening);
        }
        let amqp = address_of(&served, Protocol::Amqp, TransportSecurity::Plain);
        let amqp = amqp.ok_or(StartError::WithoutAmqp)?;
        let is_served = |protocol| served.iter().any(|served| served.protocol == protocol);
        if is_served(Protocol::Identity) && issuer.is_none() {
            return Err(StartError::WithoutIssuer);
        }
        let (serves_blobs, serves_kafka) = (is_served(Protocol::Blob), is_served(Protocol::Kafka));
        let serves_explorer = is_served(Protocol::Explorer);

        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let shares = Shares::of_process(Needs {
            serves_blobs,
            serves_kafka,
            serves_explorer,
            ..Needs::of(&config.namespace, &namespace)
        });
        let accept_failures = Arc::<AcceptFailures>::default();
        let amqp_front = AmqpFront::within(
            Arc::clone(&namespace),
            shares.amqp,
            shares.refusals,
            Arc::clone(&accept_failures),
        );
        let rest_front = RestFront::new(Arc::clone(&namespace));
        let mut clients = vec![Arc::clone(amqp_front.gate().clients())];
        let messaging_front = MessagingFront::new(Arc::clone(&amqp_front), Arc::clone(&rest_front));
        let mut collectors: Vec<Box<dyn Collector>> = vec![
            Box::new(NamespaceMetrics(Arc::clone(&namespace))),
            Box::new(AmqpMetrics(amqp_front)),
            Box::new(RestMetrics(Arc::clone(&rest_front))),
        ];
        // What was decided is brought to its end even if nobody serves Kafka any longer.
        let coordinators = match serves_kafka || namespace.has_coordinator_log() {
            true => Some(Coordinators::open(&namespace, seed())?),
            false => None,
        };
        if let Some(coordinators) = &coordinators {
            coordinators.start(&mut tasks, &stopped);
        }
        let groups = coordinators.as_ref().map(|coordinators| Arc::clone(&coordinators.groups));
        let kafka_front = coordinators.clone().filter(|_| serves_kafka).map(|coordinators| {
            let (namespace, failures) = (Arc::clone(&namespace), Arc::clone(&accept_failures));
            KafkaFront::new(namespace, coordinators, shares.kafka, failures)
        });
        if let Some(front) = &kafka_front {
            collectors.push(Box::new(KafkaMetrics(Arc::clone(front))));
            clients.push(Arc::clone(front.gate().clients()));
        }
        let (mut blobs, mut unserved_containers) = (None, 0);
        if serves_blobs {
            let front = blobs::front(&config.namespace, &namespace, shares.blob, &accept_failures)?;
            collectors.push(Box::new(BlobMetrics(Arc::clone(&front))));
            clients.push(Arc::clone(front.gate().clients()));
            blobs = Some(BlobAccount::start(&config.namespace, front, &mut tasks, &stopped));
        } else {
            unserved_containers = blobs::kept_containers(&config.namespace);
        }
        if unserved_containers > 0 {
            tracing::warn!(
                containers = unserved_containers,
                "the data directory contains blobs, but no address is configured to serve them"
            );
        }
        if let Some(identity) = namespace.identity() {
            identity.start(&mut tasks, &stopped);
            collectors.push(Box::new(IdentityMetrics(Arc::clone(identity))));
        }
        let identity_front = issuer.as_ref().map(|issuer| {
            IdentityFront::new(Arc::clone(issuer), shares.operations, Arc::clone(&accept_failures))
        });
        if let Some(front) = &identity_front {
            collectors.push(Box::new(IssuerMetrics(Arc::clone(front))));
        }
        if let Some(expiry) = config.certificate_expiry {
            collectors.push(Box::new(CertificateMetrics(expiry)));
        }
        let queues = QueueTime::new(Arc::clone(&namespace));
        let time_control = (config.clock == ClockKind::Controlled)
            .then(|| TimeControl::new(Arc::clone(&namespace), Arc::clone(&queues), coordinators));
        let explorer = serves_explorer.then(|| {
            let parts = ExplorerParts { namespace: Arc::clone(&namespace), groups, clients };
            ExplorerFront::new(parts, shares.explorer, Arc::clone(&accept_failures), stopped.clone())
        });
        let operations = OperationsFront::new(
            Arc::clone(&namespace),
            collectors,
            shares.operations,
            accept_failures,
            time_control.clone(),
            rest_front,
        );
        listener::serve_http_over_tls(&mut bound);
        for bound in bound {
            let stopped = stopped.clone();
            match bound.protocol {
                Protocol::Amqp | Protocol::AmqpWebSocket | Protocol::Rest => {
                    tasks.spawn(listener::serve(Arc::clone(&messaging_front), bound, stopped));
                }
                Protocol::Kafka => {
                    if let Some(front) = &kafka_front {
                        tasks.spawn(listener::serve(Arc::clone(front), bound, stopped));
                    }
                }
                Protocol::Blob => {
                    if let Some(blobs) = &blobs {
                        tasks.spawn(listener::serve(Arc::clone(&blobs.front), bound, stopped));
                    }
                }
                Protocol::Identity => {
                    if let Some(front) = &identity_front {
                        tasks.spawn(listener::serve(Arc::clone(front), bound, stopped));
                    }
                }
                Protocol::Operations => {
                    tasks.spawn(listener::serve(Arc::clone(&operations), bound, stopped));
                }
                Protocol::Explorer => {
                    if let Some(explorer) = &explorer {
                        tasks.spawn(listener::serve(Arc::clone(explorer), bound, stopped));
                    }
                }
            }
        }
        tasks.spawn(queues.drive(stopped.clone()));
        let stop_watching = stopped.clone();
        tasks.spawn(async move { clock.report_jumps(stop_watching).await });
        tasks.spawn(enforce_retention(Arc::clone(&namespace), stopped));
        Ok(Self {
            namespace,
            amqp,
            served,
            blobs,
            unserved_containers,
            issuer,
            operations,
            time_control,
            stop,
            tasks,
        })
    }

    /// What is served: hubs, logs, counters.
    #[must_use]
    pub const fn namespace(&self) -> &Arc<Namespace> {
        &self.namespace
    }

    /// What it counts, whether or not it is served over HTTP.
    #[must_use]
    pub fn metrics(&self) -> ServiceMetrics {
        ServiceMetrics(Arc::clone(&self.operations))
    }

    /// What advances its clock, if that is [controlled](ClockKind::Controlled).
    #[must_use]
    pub const fn time_control(&self) -> Option<&TimeControl> {
        self.time_control.as_ref()
    }

    /// Where AMQP is spoken over plain TCP.
    #[must_use]
    pub const fn amqp_address(&self) -> SocketAddr {
        self.amqp
    }

    /// Where a protocol is spoken in the clear, if anywhere: the first address, if there are several.
    #[must_use]
    pub fn address(&self, protocol: Protocol) -> Option<SocketAddr> {
        address_of(&self.served, protocol, TransportSecurity::Plain)
    }

    /// Where it is spoken over TLS, if anywhere.
    #[must_use]
    pub fn tls_address(&self, protocol: Protocol) -> Option<SocketAddr> {
        address_of(&self.served, protocol, TransportSecurity::Tls)
    }

    /// What programs need that ask the development issuer for tokens, if there is one.
    #[must_use]
    pub fn development_identity(&self) -> Option<DevelopmentVariables> {
        self.issuer.as_ref().map(|issuer| issuer.variables())
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
        self.blobs.as_ref().map(|blobs| blobs.front.faults())
    }

    /// What a client of blob storage connects with over plain HTTP, where that is served.
    #[must_use]
    pub fn storage_connection_string(&self) -> Option<StorageConnectionString> {
        self.storage_connection_string_over(TransportSecurity::Plain)
    }

    /// The same over TLS, where that is served.
    #[must_use]
    pub fn storage_tls_connection_string(&self) -> Option<StorageConnectionString> {
        self.storage_connection_string_over(TransportSecurity::Tls)
    }

    fn storage_connection_string_over(&self, security: TransportSecurity) -> Option<StorageConnectionString> {
        let address = address_of(&self.served, Protocol::Blob, security)?;
        Some(self.blobs.as_ref()?.connection_string(self.namespace.host(), address, security))
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
        self.connection_string_over(Protocol::Amqp, TransportSecurity::Tls, hub)
    }

    /// What a client connects with that speaks AMQP in this form, where that is served.
    #[must_use]
    pub fn connection_string_over(
        &self,
        protocol: Protocol,
        security: TransportSecurity,
        hub: Option<&str>,
    ) -> Option<ConnectionString> {
        let address = address_of(&self.served, protocol, security)?;
        Some(self.connection_string_of(address, security, hub))
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
        if let Some(blobs) = &self.blobs {
            blobs.close().await;
        }
        let namespace = Arc::clone(&self.namespace);
        match tokio::task::spawn_blocking(move || namespace.close()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "not everything could be written to the disk"),
            Err(error) => tracing::error!(%error, "writing everything to the disk was interrupted"),
        }
    }

    fn connection_string_of(
        &self,
        address: SocketAddr,
        security: TransportSecurity,
        hub: Option<&str>,
    ) -> ConnectionString {
        let host = listener::client_host(self.namespace.host(), address);
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

/// What is spoken where.
#[derive(Debug, Clone, Copy)]
struct Served {
    protocol: Protocol,
    security: TransportSecurity,
    address: SocketAddr,
}

fn address_of(served: &[Served], protocol: Protocol, security: TransportSecurity) -> Option<SocketAddr> {
    let found = served.iter().find(|served| served.protocol == protocol && served.security == security);
    found.map(|served| served.address)
}

/// Different from one start to the next.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    units::mix(now.as_nanos() as u64, std::process::id().into(), 0)
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
            _ = ticks.tick() => namespace.enforce_retention(namespace.clock().unix_time()),
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
