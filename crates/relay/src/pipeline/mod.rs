//! A pipeline as a file: where events come from, where they go, and the choices of the relay between.
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
//! poison_events: hold              # or stop, or {dead_letter: FILE}: when a destination refuses an event for good
//! route: key                       # random, key, round-robin, same-partition
//! batch: {events: 128, wait: 10 ms}
//! ownership: {mode: greedy, renew: 10 s, expire: 60 s}     # or balanced, static; with an `identity`
//! metrics: 127.0.0.1:9464
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
//! Reading is strict: an unknown key, a wrong type, a value out of range or a variable without a value is an error with
//! the place where it stands. What is not in the file has the defaults of [`PipelineConfig`]'s parts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use access::ConnectionString;
use connect::checkpoint::ConsumerGroup;
use connect::checkpoint::blobs::BlobStoreOptions;
use connect::service::Transport;
use connect::service_bus::{Entity, ReceiveOptions};
use connect::sink::SendUnit;
use connect::source::SourceOptions;
use settings::{Document, SettingsError};

use crate::options::{RelayOptions, SettlingOptions};
use crate::ownership::{OwnershipMode, OwnershipOptions};
use crate::route::Route;

mod file;
mod service_bus;
#[cfg(test)]
mod tests;
mod validate;

/// A pipeline that was read and found to be in order. Nothing has been connected yet.
#[derive(Clone, Debug)]
pub struct PipelineConfig {
    /// Where events come from.
    pub source: SourceConfig,
    /// Where they go.
    pub sink: SinkConfig,
    /// Events go to the first this many destinations; to all of them where it is left out.
    pub fan_out: Option<u32>,
    /// Where the metrics are to be had over HTTP; nowhere if left out.
    pub metrics: Option<SocketAddr>,
    relay: RelayOptions,
}

/// A kind of source, with what only that kind has.
#[derive(Clone, Debug)]
pub enum SourceConfig {
    /// A hub over AMQP.
    EventHubs(Box<EventHubsSourceConfig>),
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
    /// Which partitions; all of them if left out.
    pub partitions: Option<Vec<u32>>,
    /// What carries the bytes.
    pub transport: Transport,
    /// A file of certificates (PEM) to trust instead of those of the system.
    pub certificate_authority: Option<PathBuf>,
    /// How events are batched, and how many of a partition are fetched ahead to begin with.
    pub options: SourceOptions,
    /// Where `prefetch` is left out, it grows with the distance to the service: up to so many message bytes of all
    /// partitions together.
    pub adapt_prefetch: Option<usize>,
    /// Where progress is kept.
    pub checkpoint_store: CheckpointStoreConfig,
    /// How the partitions are shared with other relays; not at all if left out.
    pub ownership: Option<OwnershipConfig>,
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
    /// A queue or topic over AMQP.
    ServiceBus(Box<ServiceBusSinkConfig>),
}

/// A hub to send to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventHubsSinkConfig {
    /// The namespace and the right to send.
    pub connection_string: ConnectionString,
    /// The hub.
    pub hub: String,
    /// What carries the bytes.
    pub transport: Transport,
    /// A file of certificates (PEM) to trust instead of those of the system.
    pub certificate_authority: Option<PathBuf>,
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

/// How the partitions are shared with other relays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnershipConfig {
    /// How much is claimed at once.
    pub mode: OwnershipMode,
    /// How long from one cycle to the next.
    pub renew: Duration,
    /// A claim that was not renewed for so long is free for others.
    pub expire: Duration,
    /// The relay's name among the others, if it was given one.
    pub identity: Option<String>,
}

/// A kind of checkpoint store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointStoreConfig {
    /// Files in this folder.
    Files(PathBuf),
    /// Blobs in a container, as the official SDKs lay them out.
    Blob(Box<BlobStoreOptions>),
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
        Ok(file.into_config())
    }

    /// Whether the partition keys of events are to be kept by a hub with so many partitions, which then chooses the
    /// partition by them: the service takes a key or a partition, and a part of its partitions can't be chosen by key.
    #[must_use]
    pub fn keeps_keys(&self, destinations: u32) -> bool {
        self.relay.route == Route::Key && self.fan_out.is_none_or(|fan_out| fan_out == destinations)
    }

    /// Whether events stay in the partition of their number, which a hub with fewer partitions than the source can't do.
    #[must_use]
    pub fn keeps_partitions(&self) -> bool {
        self.relay.route == Route::SamePartition && self.fan_out.is_none()
    }

    /// Whose progress the checkpoints are.
    #[must_use]
    pub const fn group(&self) -> &ConsumerGroup {
        &self.relay.group
    }

    /// The options of a relay that reads a hub, for a sink of so many destinations. `identity` names the relay among those
    /// that it shares partitions with, unless the file does.
    #[must_use]
    pub fn relay_options(&self, destinations: u32, identity: &str) -> RelayOptions {
        let ownership = match &self.source {
            SourceConfig::EventHubs(source) => source.ownership.as_ref(),
            SourceConfig::ServiceBus(_) => None,
        };
        let ownership = ownership.map(|config| OwnershipOptions {
            mode: config.mode,
            identity: config.identity.as_deref().unwrap_or(identity).to_owned(),
            renew: config.renew,
            expire: config.expire,
        });
        RelayOptions { fan_out: self.fan_out.unwrap_or(destinations), ownership, ..self.relay.clone() }
    }

    /// The options of a relay that settles what it receives, for a sink of so many destinations.
    #[must_use]
    pub fn settling_options(&self, destinations: u32) -> SettlingOptions {
        let relay = &self.relay;
        SettlingOptions {
            route: relay.route,
            fan_out: self.fan_out.unwrap_or(destinations),
            seed: relay.seed,
            retry: relay.retry,
            failure_ratio: relay.failure_ratio,
            stop_timeout: relay.stop_timeout,
        }
    }
}

impl SourceConfig {
    /// Whose progress the checkpoints are; nobody's where messages are settled.
    fn group(&self) -> ConsumerGroup {
        match self {
            Self::EventHubs(source) => ConsumerGroup::new(
                source.connection_string.endpoint.host(),
                &source.hub,
                &source.consumer_group,
            ),
            Self::ServiceBus(_) => ConsumerGroup::new("", "", ""),
        }
    }
}
