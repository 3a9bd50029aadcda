//! The embedded service as a role: made of what the scenario says of its hubs and queues.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hub::counters::CounterValues;
use hub::namespace::{HubConfig, NamespaceConfig, QueueConfig};
use hub::service::{Protocol, Service, ServiceConfig as ListenerConfig};
use partition_log::{LogLimits, WhenFull};
use queue_store::{Entity, Queue, QueueCounters, QueueOptions};
use units::ByteSize;

use super::backend::RunningService;
use super::network::BackendError;
use super::protocol::{QueueEntity, ServiceConfig, TlsAccess};
use super::tls;
use crate::results::EntityCounters;
use crate::scenario::{self, Secret};

/// The embedded service with the threads that it runs on.
#[derive(Debug)]
pub struct EmbeddedService {
    service: Service,
    queues: Vec<Arc<Queue>>,
    /// The file that says whom to trust over TLS.
    authority: Option<PathBuf>,
    runtime: tokio::runtime::Runtime,
}

impl RunningService for EmbeddedService {
    fn connection_string(&self) -> Secret {
        Secret::new(self.service.connection_string(None).reveal())
    }

    fn tls(&self) -> Option<TlsAccess> {
        let connection_string = self.service.tls_connection_string(None)?;
        Some(TlsAccess {
            connection_string: Secret::new(connection_string.reveal()),
            certificate_authority: self.authority.clone()?,
        })
    }

    fn storage_connection_string(&self) -> Option<Secret> {
        let string = self.service.storage_connection_string()?;
        Some(Secret::new(string.reveal()))
    }

    fn counters(&self) -> BTreeMap<String, EntityCounters> {
        let namespace = self.service.namespace();
        let hubs = namespace.hubs();
        let hubs = hubs.iter().map(|hub| (hub.name(), of_hub(hub.counters())));
        let queues = self.queues.iter();
        let queues = queues.map(|queue| (queue.name(), of_queue(queue.lifecycle_counters())));
        let all = hubs.chain(queues);
        all.map(|(name, counters)| (name.to_owned(), counters)).collect()
    }

    async fn stop(self) {
        self.service.stop().await;
        // A runtime must not be waited for inside another one; nothing runs on it any more.
        self.runtime.shutdown_background();
    }
}

/// Starts the service.
pub(super) async fn start(config: &ServiceConfig) -> Result<EmbeddedService, BackendError> {
    let hubs = config.hubs.iter().map(|entity| {
        let partitions = u16::try_from(entity.hub.partitions)?;
        Ok(HubConfig {
            consumer_groups: Some(entity.hub.consumer_group.clone())
                .filter(|group| !group.eq_ignore_ascii_case(hub::namespace::DEFAULT_CONSUMER_GROUP))
                .into_iter()
                .collect(),
            log: LogLimits {
                bytes: entity.log_per_partition,
                when_full: match config.when_full {
                    scenario::WhenFull::Throttle => WhenFull::Throttle,
                    scenario::WhenFull::Retention => WhenFull::Retention,
                },
                retention: None,
            },
            ..HubConfig::new(entity.hub.name.clone(), partitions)
        })
    });
    let mut namespace = NamespaceConfig::with_hubs(hubs.collect::<Result<_, BackendError>>()?);
    namespace.queues = config.queues.iter().map(queue).collect();
    if let Some(bytes) = config.largest_message {
        namespace.largest_message = bytes;
    }
    namespace.profile = config.profile.clone();
    namespace.storage.clone_from(&config.storage);
    namespace.blob.containers = config.blob_containers.clone().unwrap_or_default();
    if config.preallocate {
        let bytes = config
            .hubs
            .iter()
            .map(|entity| entity.log_per_partition.bytes().saturating_mul(u64::from(entity.hub.partitions)));
        namespace.idle_blocks = ByteSize::from_bytes(bytes.sum());
    }
    if let Some(address) = &config.address {
        namespace.host.clone_from(&address.advertise);
        close_to_strangers(&mut namespace)?;
    }
    let mut service = ListenerConfig::loopback(namespace);
    if config.blob_containers.is_some() {
        service = service.and(Protocol::Blob);
    }
    if let Some(address) = &config.address {
        service.listeners.iter_mut().for_each(|listener| listener.address.set_ip(address.listen));
    }
    // The role's own loop runs on one thread; the service takes what the machine gives it.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (service, authority) = match &config.tls {
        Some(directory) => {
            let started = tls::start(service, directory.clone());
            let (service, authority) = runtime.spawn(started).await??;
            (service, Some(authority))
        }
        None => (runtime.spawn(Service::start(service)).await??, None),
    };
    if config.preallocate {
        service.namespace().preallocate();
    }
    let queues = config.queues.iter();
    let queues = queues.filter_map(|queue| match service.namespace().queue_or_topic(&queue.name)? {
        Entity::Queue(queue) => Some(queue),
        Entity::Topic(_) => None,
    });
    Ok(EmbeddedService { queues: queues.collect(), service, authority, runtime })
}

/// Gives the service keys of its own: where other machines reach it, those of the development emulator would let everyone
/// in.
fn close_to_strangers(namespace: &mut NamespaceConfig) -> Result<(), BackendError> {
    for rule in &mut namespace.authorization_rules {
        rule.key = random_key()?.into();
    }
    namespace.blob.account.key = random_key()?.into();
    Ok(())
}

fn random_key() -> Result<String, BackendError> {
    let mut key = [0; 32];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut key))
        .map_err(BackendError::Key)?;
    Ok(STANDARD.encode(key))
}

fn of_hub(values: CounterValues) -> EntityCounters {
    EntityCounters {
        incoming_events: values.events_in,
        incoming_bytes: Some(values.bytes_in),
        outgoing_events: values.events_out,
        outgoing_bytes: Some(values.bytes_out),
        throttled: Some(values.batches_refused + values.batches_throttled),
        ..EntityCounters::default()
    }
}

fn of_queue(counters: QueueCounters) -> EntityCounters {
    EntityCounters {
        incoming_events: counters.enqueued,
        outgoing_events: counters.delivered,
        completed: Some(counters.completed),
        failed_deliveries: Some(counters.abandoned + counters.lock_expirations),
        dead_lettered: Some(counters.dead_lettered),
        ..EntityCounters::default()
    }
}

fn queue(entity: &QueueEntity) -> QueueConfig {
    QueueConfig {
        name: entity.name.clone(),
        options: QueueOptions {
            lock_duration: entity.lock_duration,
            maximum_delivery_count: entity.maximum_delivery_count,
            size_limit: entity.size_limit,
            ..QueueOptions::default()
        },
    }
}
