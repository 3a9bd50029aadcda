//! The embedded service as a role: made of what the scenario says of its entities.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use access::TransportSecurity;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hub::counters::CounterValues;
use hub::namespace::{HubConfig, NamespaceConfig, QueueConfig, SubscriptionConfig, TopicConfig};
use hub::service::{Protocol, Service, ServiceConfig as ListenerConfig};
use partition_log::{LogLimits, WhenFull};
use queue_store::{Queue, QueueCounters, QueueOptions, TopicOptions};
use units::ByteSize;

use super::backend::RunningService;
use super::network::BackendError;
use super::protocol::{EntryPoint, SINK_CONSUMER_GROUP, ServiceConfig};
use super::tls;
use crate::clock::RunClock;
use crate::record::{ReadRecords, ServedRecords};
use crate::results::EntityCounters;
use crate::scenario::{self, Connection, Entity, Hub, KafkaProperties, Secret, Topic, Transport, kafka};

/// The embedded service with the threads that it runs on.
#[derive(Debug)]
pub struct EmbeddedService {
    service: Service,
    /// Its queues, and those of subscriptions.
    queues: Vec<Arc<Queue>>,
    /// How it is reached.
    connections: BTreeSet<Connection>,
    /// The file that says whom to trust over TLS.
    authority: Option<PathBuf>,
    runtime: tokio::runtime::Runtime,
}

impl RunningService for EmbeddedService {
    fn entry_points(&self) -> Vec<EntryPoint> {
        let entry_point = |connection: &Connection| {
            let string =
                self.service.connection_string_over(protocol(*connection), security(*connection), None)?;
            let certificate_authority = self.authority.clone().filter(|_| connection.tls);
            let kafka = match connection.protocol {
                scenario::Protocol::Amqp | scenario::Protocol::Http => KafkaProperties::default(),
                scenario::Protocol::Kafka => kafka::of_namespace(&string, certificate_authority.as_deref()),
            };
            Some(EntryPoint {
                connection: *connection,
                connection_string: Secret::new(string.reveal()),
                kafka,
                certificate_authority,
            })
        };
        self.connections.iter().filter_map(entry_point).collect()
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

    fn served(&self, clock: RunClock, entity: &str, read: &ReadRecords) -> Option<ServedRecords> {
        let epoch = Instant::now().checked_sub(Duration::from_micros(clock.now().as_micros()))?;
        let hubs = self.service.namespace().hubs();
        let hub = hubs.iter().find(|hub| hub.name() == entity)?;
        let partition = hub.partitions().get(usize::try_from(read.partition).ok()?)?;
        let sums = partition.times()?.over(read.first..read.end, epoch)?;
        Some(ServedRecords {
            records: sums.records,
            received_us: sums.received_us,
            appended_us: sums.appended_us,
            visible_us: sums.visible_us,
            asked_us: sums.asked_us,
        })
    }

    async fn stop(self) {
        self.service.stop().await;
        // A runtime must not be waited for inside another one; nothing runs on it any more.
        self.runtime.shutdown_background();
    }
}

/// Starts the service.
pub(super) async fn start(config: &ServiceConfig) -> Result<EmbeddedService, BackendError> {
    let mut namespace = NamespaceConfig::with_hubs(Vec::new());
    for entity in &config.entities {
        match entity {
            Entity::Hub(hub) => namespace.hubs.push(of_scenario(hub, config)?),
            Entity::Queue(queue) => namespace.queues.push(QueueConfig {
                name: queue.name.clone(),
                options: QueueOptions { size_limit: config.size_of_each, ..options(queue) },
            }),
            Entity::Topic(topic) => namespace.topics.push(topic_config(topic, config.size_of_each)),
            // It is among the containers of the configuration.
            Entity::Container(_) => {}
        }
    }
    let of_messages = config.entities.iter().filter_map(Entity::of_messages);
    if let Some(bytes) = of_messages.map(|queue| queue.largest_message).max() {
        namespace.largest_message = bytes;
    }
    namespace.profile = config.profile.clone();
    namespace.storage.clone_from(&config.storage);
    namespace.blob.containers = config.blob_containers.clone().unwrap_or_default();
    if config.preallocate {
        let bytes = namespace
            .hubs
            .iter()
            .map(|hub| hub.log.unwrap_or_default().bytes.bytes() * u64::from(hub.partitions));
        namespace.idle_blocks = ByteSize::from_bytes(bytes.sum());
    }
    if let Some(address) = &config.address {
        namespace.host.clone_from(&address.advertise);
        close_to_strangers(&mut namespace)?;
    }
    let mut listeners = ListenerConfig::loopback(namespace);
    if config.blob_containers.is_some() {
        listeners = listeners.and(Protocol::Blob);
    }
    let mut connections = config.connections.clone();
    connections.insert(Connection::default());
    let others = connections.iter().filter(|connection| **connection != Connection::default());
    let (encrypted, plain): (Vec<Connection>, Vec<Connection>) =
        others.partition(|connection| connection.tls);
    for connection in plain {
        listeners = listeners.and(protocol(connection));
    }
    if let Some(address) = &config.address {
        listeners.listeners.iter_mut().for_each(|listener| listener.address.set_ip(address.listen));
    }
    // The role's own loop runs on one thread; the service takes what the machine gives it.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (service, authority) = match encrypted.is_empty() {
        true => (runtime.spawn(Service::start(listeners)).await??, None),
        false => {
            let encrypted = encrypted.into_iter().map(protocol).collect();
            let started = tls::start(listeners, encrypted, config.certificates.clone());
            let (service, authority) = runtime.spawn(started).await??;
            (service, Some(authority))
        }
    };
    if config.preallocate {
        service.namespace().preallocate();
    }
    for partition in service.namespace().hubs().iter().flat_map(|hub| hub.partitions()) {
        partition.watch_times(WATCHED_BATCHES);
    }
    let entities = config.entities.iter();
    let entities = entities.filter_map(|entity| service.namespace().queue_or_topic(entity.name()));
    let queues = entities.flat_map(|entity| match entity {
        queue_store::Entity::Queue(queue) => vec![queue],
        queue_store::Entity::Topic(topic) => {
            topic.subscriptions().iter().map(|subscription| Arc::clone(subscription.queue())).collect()
        }
    });
    Ok(EmbeddedService { queues: queues.collect(), service, connections, authority, runtime })
}

/// What the service calls the protocol of a connection.
const fn protocol(connection: Connection) -> Protocol {
    match (connection.protocol, connection.transport) {
        (scenario::Protocol::Amqp, Transport::Tcp) => Protocol::Amqp,
        (scenario::Protocol::Amqp, Transport::WebSocket) => Protocol::AmqpWebSocket,
        // The checks of the scenario leave it TCP alone.
        (scenario::Protocol::Kafka, Transport::Tcp | Transport::WebSocket) => Protocol::Kafka,
        (scenario::Protocol::Http, Transport::Tcp | Transport::WebSocket) => Protocol::Rest,
    }
}

const fn security(connection: Connection) -> TransportSecurity {
    match connection.tls {
        true => TransportSecurity::Tls,
        false => TransportSecurity::Plain,
    }
}

fn of_scenario(hub: &Hub, config: &ServiceConfig) -> Result<HubConfig, BackendError> {
    let is_there = [hub::namespace::DEFAULT_CONSUMER_GROUP, SINK_CONSUMER_GROUP];
    let is_there = is_there.iter().any(|name| name.eq_ignore_ascii_case(&hub.consumer_group));
    let own = (!is_there).then(|| hub.consumer_group.clone());
    Ok(HubConfig {
        consumer_groups: own.into_iter().chain([SINK_CONSUMER_GROUP.to_owned()]).collect(),
        log: Some(LogLimits {
            bytes: hub.share_of(config.size_of_each),
            when_full: match config.when_full {
                scenario::WhenFull::Throttle => WhenFull::Throttle,
                scenario::WhenFull::Retention => WhenFull::Retention,
            },
            retention: None,
        }),
        ..HubConfig::new(hub.name.clone(), u16::try_from(hub.partitions)?)
    })
}

fn topic_config(topic: &Topic, size_limit: ByteSize) -> TopicConfig {
    let subscription = |name: &String| SubscriptionConfig {
        name: name.clone(),
        options: options(&topic.queue),
        rules: None,
    };
    TopicConfig {
        name: topic.queue.name.clone(),
        options: TopicOptions { size_limit, ..TopicOptions::default() },
        subscriptions: topic.subscriptions.iter().map(subscription).collect(),
    }
}

/// How a queue, or a subscription, treats its messages.
fn options(queue: &scenario::Queue) -> QueueOptions {
    QueueOptions {
        lock_duration: queue.lock_duration,
        maximum_delivery_count: queue.maximum_delivery_count,
        ..QueueOptions::default()
    }
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

/// Of each partition, for how many requests of Kafka's clients it is remembered when they came and were answered: those of a minute and
/// a half at 10,000/s, if each has one record.
const WATCHED_BATCHES: usize = 1 << 20;
