//! A pipeline: where events come from, where they go, and the choices of the relay between.
//!
//! [`PipelineConfig`] says it, be it read from a file or made by the lab from a scenario, and [`PipelineConfig::open`]
//! connects it into a [`Relay`](relay::Relay). [`vocabulary`] holds the words that files and scenarios share. As a file:
//!
//! ```yaml
//! source:
//!   event_hubs:
//!     connection_string: ${SOURCE_CONNECTION_STRING:?the namespace to read from}
//!     hub: orders
//!     consumer_group: $Default
//! sink:
//!   event_hubs:
//!     connection_string: ${SINK_CONNECTION_STRING:?the namespace to write to}
//!     hub: orders-by-region
//! checkpoint:
//!   store: {files: ./checkpoints}  # or {blob: {connection_string: "${STORAGE}", container: checkpoints}}
//!   write: each-batch              # or {every: 1 s}
//! missed_events: report            # or stop: when retention took events that were not read yet
//! poison_events: hold              # or stop, or {dead_letter: FILE}, or {dead_letter: {service_bus: {...}}} or another
//!                                  # sink: when a destination refuses an event for good
//! route: key                       # random, key, round-robin, same-partition
//! batch: {events: 128, wait: 10 ms}
//! ownership: {mode: greedy, renew: 10 s, expire: 60 s}     # or balanced, static; with an `identity`
//! metrics: 127.0.0.1:9464
//! open_telemetry: {endpoint: "http://localhost:4318", traces: 0.01, metrics: 60 s}
//! ```
//!
//! Every event can go to several sinks; it is done with once all have accepted it:
//!
//! ```yaml
//! source:
//!   event_hubs: {connection_string: "${SOURCE}", hub: orders}
//! sinks:
//! - service_bus: {connection_string: "${SINK}", topic: orders}
//! - event_hubs: {connection_string: "${SINK}", hub: archive}
//! checkpoint: {store: {files: ./checkpoints}}
//! dispatch: {events: 1000, sinks: 1}     # at once; without a bound where it is left out. Or event by event: serial,
//!                                        # parallel-sinks, {strategy: parallel-events, events: 64}, parallel
//! ```
//!
//! From a queue or subscription, messages are settled one by one, so there is no checkpoint and nothing to share:
//!
//! ```yaml
//! source:
//!   service_bus: {connection_string: "${SOURCE}", queue: orders, concurrency: 256, prefetch: 0, lock_renewal: 5 min}
//! sink:
//!   service_bus: {connection_string: "${SINK}", queue: forwarded, send: single}     # or batch; or a topic, or event_hubs
//! ```
//!
//! Topics of Kafka are at either end, too, and progress may be kept as the committed offsets of the source's group:
//!
//! ```yaml
//! source:
//!   kafka: {bootstrap: "localhost:9092", topic: orders, group: mirror, properties: {security.protocol: plaintext}}
//! sink:
//!   kafka: {connection_string: "${SINK}", topic: orders, properties: {compression.type: lz4}}    # or bootstrap
//! checkpoint: {store: group}
//! ownership: {mode: group}         # or none, if no other relay or consumer is in the group
//! route: same-partition
//! delivery: exactly-once                 # or at-least-once; the store is the sink's transactions then
//! ```
//!
//! An archive keeps every event, as a blob or a file:
//!
//! ```yaml
//! sinks:
//! - service_bus: {connection_string: "${SINK}", topic: verified}
//! - archive: {to: {blob: {connection_string: "${STORAGE}", container: archive}}, files: per-event}
//! ```
//!
//! On their way events can be filtered and changed, and a sink can have a condition:
//!
//! ```yaml
//! transform:
//! - filter: 'properties.region == "eu"'
//! - rename: {device_id: device}
//! sinks:
//! - service_bus: {connection_string: "${SINK}", topic: orders, when: 'properties.kind == "order"'}
//! - event_hubs: {connection_string: "${SINK}", hub: all}
//! ```
//!
//! Reading is strict: an unknown key, a wrong type, a value out of range or a variable without a value is an error with
//! the place where it stands. What is not in the file has the defaults of [`PipelineConfig`]'s parts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use access::ConnectionString;
use connect::archive::{ArchiveOptions, ArchiveSource};
use connect::checkpoint::ConsumerGroup;
use connect::checkpoint::blobs::BlobStoreOptions;
use connect::kafka::{GroupOffsetStore, KafkaOptions};
use connect::service::Transport;
use connect::service_bus::{Entity, ReceiveOptions};
use connect::sink::SendUnit;
use connect::source::SourceOptions;
use settings::{Document, SettingsError};

use relay::route::Route;
use relay::{RelayOptions, SettlingOptions};
use topics::TopicPattern;
use transform::Program;
use vocabulary::{Ownership, Settlement};

mod archive;
mod bucket;
mod connecting;
mod dispatch;
mod exactly_once;
mod file;
pub mod kafka;
mod kafka_ends;
mod open_telemetry;
mod poison;
mod service_bus;
#[cfg(test)]
mod tests;
pub mod topics;
mod transactional;
pub mod transforming;
mod validate;
pub mod vocabulary;

pub use connecting::{ConnectError, EndError, OpenPipeline};

/// A pipeline that is in order. Nothing has been connected yet.
#[derive(Clone, Debug)]
pub struct PipelineConfig {
    /// Where events come from.
    pub source: SourceConfig,
    /// Where they go: every event to each of these, and it is done with once all have accepted it. At least one.
    pub sinks: Vec<SinkConfig>,
    /// Where events go that a destination refuses for good, each as a message that says why; as the engine's options say, if left
    /// out.
    pub dead_letters: Option<SinkConfig>,
    /// Events go to the first this many destinations of each sink; to all of them where it is left out.
    pub fan_out: Option<u32>,
    /// Where the metrics are to be had over HTTP; nowhere if left out.
    pub metrics: Option<SocketAddr>,
    /// What events go through before they are sent.
    pub transform: Option<Arc<Program>>,
    /// What is exported over OTLP, as far as the environment does not say it.
    pub open_telemetry: telemetry::options::Settings,
    /// The choices of the engine. The fan-out and the ownership in them follow from what stands above.
    pub relay: RelayOptions,
}

/// A kind of source, with what only that kind has.
#[derive(Clone, Debug)]
pub enum SourceConfig {
    /// A hub over AMQP.
    EventHubs(Box<EventHubsSourceConfig>),
    /// A topic of Kafka.
    Kafka(Box<KafkaSourceConfig>),
    /// A queue or subscription over AMQP.
    ServiceBus(Box<ServiceBusSourceConfig>),
}

/// A hub to read, and where it is kept how far.
#[derive(Clone, Debug)]
pub struct EventHubsSourceConfig {
    /// The namespace and the right to listen.
    pub connection_string: ConnectionString,
    /// The hub.
    pub hub: String,
    /// The consumer group.
    pub consumer_group: String,
    /// What carries the bytes.
    pub transport: Transport,
    /// A file of certificates (PEM) to trust instead of those of the system.
    pub certificate_authority: Option<PathBuf>,
    /// How it is read.
    pub reading: ReadingConfig,
}

/// A topic of Kafka to read.
#[derive(Clone, Debug)]
pub struct KafkaSourceConfig {
    /// The topic, and how its cluster is reached.
    pub options: KafkaOptions,
    /// Which topics are read, if they are several: each by [a pipeline of its own](PipelineConfig::of_topic).
    pub topics: Option<TopicPattern>,
    /// The consumer group whose progress it is.
    pub group: String,
    /// How it is read.
    pub reading: ReadingConfig,
}

/// How the partitions of a log are read, and where it is kept how far.
#[derive(Clone, Debug)]
pub struct ReadingConfig {
    /// Which of them.
    pub partitions: Partitions,
    /// How events are batched, and how many of a partition are fetched ahead to begin with.
    pub options: SourceOptions,
    /// Where `prefetch` is left out, it grows with the distance to the service: up to so many message bytes of all
    /// partitions together.
    pub adapt_prefetch: Option<usize>,
    /// Where progress is kept.
    pub checkpoint_store: CheckpointStoreConfig,
    /// How the partitions are shared with other relays.
    pub ownership: Ownership,
}

/// Partitions of a hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Partitions {
    /// As many as there are.
    #[default]
    All,
    /// These, all of which have to be there.
    Listed(Vec<u32>),
    /// The share of one of several relays that divide them without claims.
    EveryNth {
        /// The first partition.
        first: u32,
        /// How many relays there are.
        step: u32,
    },
}

/// A queue or subscription to receive from.
#[derive(Clone, Debug)]
pub struct ServiceBusSourceConfig {
    /// The namespace and the right to listen.
    pub connection_string: ConnectionString,
    /// The queue or subscription.
    pub entity: Entity,
    /// How much is received at once.
    pub receive: ReceiveOptions,
    /// How messages are settled. In transactions, there is one sink, an entity of the same namespace.
    pub settlement: Settlement,
    /// What carries the bytes.
    pub transport: Transport,
    /// A file of certificates (PEM) to trust instead of those of the system.
    pub certificate_authority: Option<PathBuf>,
}

/// A kind of sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkConfig {
    /// The partitions of a hub over AMQP.
    EventHubs(Box<EventHubsSinkConfig>),
    /// A topic of Kafka.
    Kafka(Box<KafkaSinkConfig>),
    /// A queue or topic over AMQP.
    ServiceBus(Box<ServiceBusSinkConfig>),
    /// Blobs of a container, or files of a folder.
    Archive(Box<ArchiveOptions>),
}

/// A hub to send to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventHubsSinkConfig {
    /// The namespace and the right to send.
    pub connection_string: ConnectionString,
    /// The hub.
    pub hub: String,
    /// Whether a route by key to all partitions keeps the keys, so that the service chooses the partition by them.
    pub keep_keys: bool,
    /// What carries the bytes.
    pub transport: Transport,
    /// A file of certificates (PEM) to trust instead of those of the system.
    pub certificate_authority: Option<PathBuf>,
}

/// A topic of Kafka to send to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSinkConfig {
    /// The topic, and how its cluster is reached.
    pub options: KafkaOptions,
}

/// A queue or topic to send to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceBusSinkConfig {
    /// The namespace and the right to send.
    pub connection_string: ConnectionString,
    /// The queue or topic.
    pub entity: Entity,
    /// Whether each message is sent by itself.
    pub unit: SendUnit,
    /// What carries the bytes.
    pub transport: Transport,
    /// A file of certificates (PEM) to trust instead of those of the system.
    pub certificate_authority: Option<PathBuf>,
}

/// The transactions by which a sink delivers exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionsConfig {
    /// Whose they are. Of two relays with the same one, the younger one alone goes on.
    pub id: String,
    /// The topic of the sink. Its cluster keeps how far the source was read.
    pub sink: KafkaOptions,
}

/// A kind of checkpoint store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointStoreConfig {
    /// The memory of this process, for what a relay costs without a store.
    Memory,
    /// Files in this folder.
    Files(PathBuf),
    /// Blobs in a container, as the official SDKs lay them out.
    Blob(Box<BlobStoreOptions>),
    /// The offsets that the source's group has committed, on Kafka.
    Group,
    /// The same, in the cluster of the sink and by its transactions: exactly once.
    Transactions(Box<TransactionsConfig>),
}

impl PipelineConfig {
    /// Reads a pipeline file; variables come from the environment of the process.
    ///
    /// # Errors
    /// The first mistake in the file, with its place.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let mut document = Document::read(path)?;
        document.fill_in_environment()?;
        Self::from_document(&document)
    }

    /// The pipeline that a document describes, its variables being filled in.
    ///
    /// # Errors
    /// The first mistake in the document, with its place.
    pub fn from_document(document: &Document) -> Result<Self, SettingsError> {
        let file: file::Pipeline = document.typed()?;
        validate::check(document, &file)?;
        let transform = file.program(document)?;
        Ok(file.into_config(transform))
    }

    /// Whether the partition keys of events are to be kept by a hub with so many partitions, which then chooses the
    /// partition by them: the service takes a key or a partition, and a part of its partitions can't be chosen by key.
    #[must_use]
    pub fn keeps_keys(&self, destinations: u32) -> bool {
        self.relay.route == Route::Key && self.fan_out.is_none_or(|fan_out| fan_out >= destinations)
    }

    /// Whether events stay in the partition of their number, which a hub with fewer partitions than the source can't do.
    #[must_use]
    pub fn keeps_partitions(&self) -> bool {
        self.relay.route == Route::SamePartition && self.fan_out.is_none()
    }

    /// The transactions that events and progress go with, where each event is delivered exactly once.
    #[must_use]
    pub fn transactions(&self) -> Option<&TransactionsConfig> {
        match &self.source.reading()?.checkpoint_store {
            CheckpointStoreConfig::Transactions(transactions) => Some(transactions),
            _ => None,
        }
    }

    /// Whose progress the checkpoints are.
    #[must_use]
    pub const fn group(&self) -> &ConsumerGroup {
        &self.relay.group
    }

    /// The options of a relay that reads a log, for a sink of so many destinations. `identity` names the relay among those
    /// that it shares partitions with, unless the file does.
    #[must_use]
    pub fn relay_options(&self, destinations: u32, identity: &str) -> RelayOptions {
        let ownership = self.source.reading().and_then(|reading| reading.ownership.options(identity));
        RelayOptions { fan_out: self.fan_out.unwrap_or(destinations), ownership, ..self.relay.clone() }
    }

    /// The options of a relay that settles what it receives, for a sink of so many destinations.
    #[must_use]
    pub fn settling_options(&self, destinations: u32) -> SettlingOptions {
        let relay = &self.relay;
        SettlingOptions {
            route: relay.route,
            fan_out: self.fan_out.unwrap_or(destinations),
            sinks_at_once: relay.sinks_at_once,
            seed: relay.seed,
            retry: relay.retry,
            sink_retries: relay.sink_retries.clone(),
            failure_ratio: relay.failure_ratio,
            stop_timeout: relay.stop_timeout,
        }
    }
}

impl ReadingConfig {
    /// The same, with the times that a member of a consumer group goes by: what a claim is to others, a session is to it.
    #[must_use]
    pub fn of_member(mut self, options: &KafkaOptions) -> Self {
        if self.ownership.is_membership()
            && let Ok(times) = GroupOffsetStore::check(options)
        {
            (self.ownership.renew, self.ownership.expire) = (times.heartbeat, times.session);
        }
        self
    }
}

impl Partitions {
    /// Whether a partition is one of them.
    #[must_use]
    pub fn contains(&self, partition: u32) -> bool {
        match self {
            Self::All => true,
            Self::Listed(partitions) => partitions.contains(&partition),
            Self::EveryNth { first, step } => {
                let step = (*step).max(1);
                partition % step == first % step
            }
        }
    }
}

impl SourceConfig {
    /// How the partitions of the source are read; nothing where messages are settled.
    #[must_use]
    pub fn reading(&self) -> Option<&ReadingConfig> {
        match self {
            Self::EventHubs(source) => Some(&source.reading),
            Self::Kafka(source) => Some(&source.reading),
            Self::ServiceBus(_) => None,
        }
    }

    /// Whose progress the checkpoints are; nobody's where messages are settled.
    fn group(&self) -> ConsumerGroup {
        match self {
            Self::EventHubs(source) => ConsumerGroup::new(
                source.connection_string.endpoint.host(),
                &source.hub,
                &source.consumer_group,
            ),
            Self::Kafka(source) => {
                let options = &source.options;
                let cluster = options.properties.get(kafka::BOOTSTRAP).unwrap_or_default();
                ConsumerGroup::new(cluster, &options.topic, &source.group)
            }
            Self::ServiceBus(_) => ConsumerGroup::new("", "", ""),
        }
    }
}
