//! The sections of a pipeline file, as they are written.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use access::ConnectionString;
use access::storage::StorageConnectionString;
use connect::checkpoint::ConsumerGroup;
use connect::checkpoint::blobs::{BlobStoreOptions, MissingContainer, Spelling};
use connect::event::EnqueuedTime;
use connect::retry::{RetryMode, RetryPolicy};
use connect::source::{self, BatchOptions, SourceOptions};
use serde::{Deserialize, Deserializer, de};
use units::ByteSize;

use super::service_bus::{ServiceBusSink, ServiceBusSource};
use super::{
    CheckpointStoreConfig, EventHubsSinkConfig, EventHubsSourceConfig, OwnershipConfig, PipelineConfig,
    SinkConfig, SourceConfig,
};
use crate::options::{self, CheckpointPolicy, RelayOptions};
use crate::ownership::{EXPIRE_DEFAULT, OwnershipMode, RENEW_DEFAULT};
use crate::route;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pipeline {
    pub(super) source: Source,
    pub(super) sink: Sink,
    /// Where progress is kept; only where messages are not settled.
    pub(super) checkpoint: Option<Checkpoint>,
    #[serde(default)]
    pub(super) start: Start,
    /// What happens when the source no longer has events that were not read yet.
    #[serde(default)]
    pub(super) missed_events: MissedEvents,
    /// What becomes of events that a destination refuses for good.
    #[serde(default)]
    pub(super) poison_events: PoisonEvents,
    #[serde(default)]
    pub(super) route: Route,
    pub(super) fan_out: Option<u32>,
    /// What the random route and injected failures are drawn from.
    #[serde(default)]
    pub(super) seed: u64,
    #[serde(default)]
    pub(super) batch: Batch,
    pub(super) prefetch: Option<u32>,
    #[serde(default = "in_flight")]
    pub(super) in_flight: u32,
    #[serde(default = "held")]
    pub(super) held: ByteSize,
    #[serde(default = "try_timeout", with = "units::duration")]
    pub(super) try_timeout: Duration,
    #[serde(default)]
    pub(super) retry: Retry,
    #[serde(default = "restart_after", with = "units::duration")]
    pub(super) restart_after: Duration,
    #[serde(default = "stop_timeout", with = "units::duration")]
    pub(super) stop_timeout: Duration,
    /// For tests of what comes after: the probability that a send fails on purpose.
    #[serde(default)]
    pub(super) failure_ratio: f64,
    /// How the partitions are shared with other relays.
    #[serde(default)]
    pub(super) ownership: Ownership,
    pub(super) metrics: Option<SocketAddr>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    EventHubs(Box<EventHubsSource>),
    ServiceBus(Box<ServiceBusSource>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventHubsSource {
    #[serde(deserialize_with = "connection_string")]
    pub(super) connection_string: ConnectionString,
    /// May be left out where the connection string has an `EntityPath`.
    pub(super) hub: Option<String>,
    #[serde(default = "consumer_group")]
    pub(super) consumer_group: String,
    pub(super) partitions: Option<Vec<u32>>,
    #[serde(default)]
    pub(super) transport: Transport,
    pub(super) certificate_authority: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sink {
    EventHubs(Box<EventHubsSink>),
    ServiceBus(Box<ServiceBusSink>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventHubsSink {
    #[serde(deserialize_with = "connection_string")]
    pub(super) connection_string: ConnectionString,
    /// May be left out where the connection string has an `EntityPath`.
    pub(super) hub: Option<String>,
    #[serde(default)]
    pub(super) transport: Transport,
    pub(super) certificate_authority: Option<PathBuf>,
}

/// What carries the bytes of AMQP.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Transport {
    #[default]
    Tcp,
    WebSocket,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Checkpoint {
    pub(super) store: Store,
    #[serde(default)]
    pub(super) write: Write,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Store {
    Files(PathBuf),
    Blob(Box<BlobStore>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BlobStore {
    #[serde(deserialize_with = "connection_string")]
    pub(super) connection_string: StorageConnectionString,
    pub(super) container: String,
    /// Whether the container is made if it is not there.
    #[serde(default)]
    pub(super) create: bool,
    #[serde(default)]
    pub(super) names: Names,
    /// The namespace's name in the names of blobs, where other processors know it by another one than its host.
    pub(super) namespace: Option<String>,
    pub(super) certificate_authority: Option<PathBuf>,
}

/// How the names of blobs are spelled.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Names {
    #[default]
    Found,
    AsGiven,
    LowerCase,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Write {
    #[default]
    EachBatch,
    Every(#[serde(with = "units::duration")] Duration),
}

/// Where a partition without a checkpoint starts.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Start {
    #[default]
    Earliest,
    Latest,
    SequenceNumber(i64),
    EnqueuedUnixMs(i64),
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MissedEvents {
    #[default]
    Report,
    Stop,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Route {
    #[default]
    Random,
    Key,
    RoundRobin,
    SamePartition,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PoisonEvents {
    #[default]
    Hold,
    Stop,
    DeadLetter(PathBuf),
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Batch {
    pub(super) events: u32,
    #[serde(with = "units::duration")]
    pub(super) wait: Duration,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Retry {
    /// Tries in all, the first one included.
    pub(super) attempts: u32,
    #[serde(with = "units::duration")]
    pub(super) delay: Duration,
    #[serde(with = "units::duration")]
    pub(super) max_delay: Duration,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Ownership {
    pub(super) mode: Mode,
    #[serde(with = "units::duration")]
    pub(super) renew: Duration,
    #[serde(with = "units::duration")]
    pub(super) expire: Duration,
    /// The relay's name; one of its own making if left out.
    pub(super) identity: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mode {
    /// All partitions are this relay's alone.
    #[default]
    Static,
    Balanced,
    Greedy,
}

impl Pipeline {
    pub(super) fn into_config(self) -> PipelineConfig {
        let mut relay = self.relay_options();
        let batch = BatchOptions { max_events: self.batch.events as usize, max_wait: self.batch.wait };
        let options = SourceOptions {
            batch,
            prefetch: match self.prefetch {
                Some(events) => events as usize,
                None => SourceOptions::default().prefetch,
            },
        };
        let adapt_prefetch = self.prefetch.is_none().then(|| self.held.as_usize());
        let namespace = self.checkpoint.as_ref().and_then(|checkpoint| match &checkpoint.store {
            Store::Blob(store) => store.namespace.clone(),
            Store::Files(_) => None,
        });
        let source = match self.source {
            Source::EventHubs(source) => {
                let store =
                    self.checkpoint.expect("a hub is not read without a store: that was checked").store;
                SourceConfig::EventHubs(Box::new(EventHubsSourceConfig {
                    adapt_prefetch,
                    ..source.into_config(options, store.into_config(), self.ownership.into_config())
                }))
            }
            Source::ServiceBus(source) => SourceConfig::ServiceBus(Box::new(source.into_config())),
        };
        relay.group = source.group();
        if let Some(namespace) = namespace {
            relay.group.namespace = namespace.as_str().into();
        }
        PipelineConfig {
            source,
            sink: match self.sink {
                Sink::EventHubs(sink) => SinkConfig::EventHubs(Box::new(sink.into_config())),
                Sink::ServiceBus(sink) => SinkConfig::ServiceBus(Box::new(sink.into_config())),
            },
            fan_out: self.fan_out,
            metrics: self.metrics,
            relay,
        }
    }

    fn relay_options(&self) -> RelayOptions {
        RelayOptions {
            route: self.route.into(),
            seed: self.seed,
            in_flight: self.in_flight as usize,
            max_held_bytes: self.held.as_usize(),
            retry: RetryPolicy {
                attempts: self.retry.attempts,
                mode: RetryMode::Exponential,
                delay: self.retry.delay,
                max_delay: self.retry.max_delay,
                try_timeout: self.try_timeout,
                seed: self.seed,
                ..RetryPolicy::default()
            },
            checkpoint: match self.checkpoint.as_ref().map(|checkpoint| checkpoint.write) {
                Some(Write::Every(interval)) => CheckpointPolicy::Every(interval),
                Some(Write::EachBatch) | None => CheckpointPolicy::EachBatch,
            },
            start_position: self.start.into(),
            missed_events: self.missed_events.into(),
            poison_events: self.poison_events.clone().into(),
            failure_ratio: self.failure_ratio,
            restart_after: self.restart_after,
            stop_timeout: self.stop_timeout,
            ..RelayOptions::new(ConsumerGroup::new("", "", ""))
        }
    }
}

impl Store {
    fn into_config(self) -> CheckpointStoreConfig {
        match self {
            Self::Files(folder) => CheckpointStoreConfig::Files(folder),
            Self::Blob(store) => CheckpointStoreConfig::Blob(Box::new(BlobStoreOptions {
                missing_container: match store.create {
                    true => MissingContainer::Create,
                    false => MissingContainer::Refuse,
                },
                spelling: match store.names {
                    Names::Found => Spelling::Found,
                    Names::AsGiven => Spelling::AsGiven,
                    Names::LowerCase => Spelling::LowerCase,
                },
                certificate_authority: store.certificate_authority,
                ..BlobStoreOptions::new(store.connection_string, store.container)
            })),
        }
    }
}

impl Ownership {
    fn into_config(self) -> Option<OwnershipConfig> {
        let mode = match self.mode {
            Mode::Static => return None,
            Mode::Balanced => OwnershipMode::Balanced,
            Mode::Greedy => OwnershipMode::Greedy,
        };
        Some(OwnershipConfig { mode, renew: self.renew, expire: self.expire, identity: self.identity })
    }
}

impl EventHubsSource {
    /// The hub by its own key or by the connection string.
    pub(super) fn hub(&self) -> Option<&str> {
        self.hub.as_deref().or(self.connection_string.entity_path.as_deref())
    }

    fn into_config(
        self,
        options: SourceOptions,
        checkpoint_store: CheckpointStoreConfig,
        ownership: Option<OwnershipConfig>,
    ) -> EventHubsSourceConfig {
        EventHubsSourceConfig {
            hub: self.hub().unwrap_or_default().to_owned(),
            connection_string: self.connection_string,
            consumer_group: self.consumer_group,
            partitions: self.partitions,
            transport: self.transport.into(),
            certificate_authority: self.certificate_authority,
            options,
            adapt_prefetch: None,
            checkpoint_store,
            ownership,
        }
    }
}

impl EventHubsSink {
    /// The hub by its own key or by the connection string.
    pub(super) fn hub(&self) -> Option<&str> {
        self.hub.as_deref().or(self.connection_string.entity_path.as_deref())
    }

    fn into_config(self) -> EventHubsSinkConfig {
        EventHubsSinkConfig {
            hub: self.hub().unwrap_or_default().to_owned(),
            connection_string: self.connection_string,
            transport: self.transport.into(),
            certificate_authority: self.certificate_authority,
        }
    }
}

impl From<Route> for route::Route {
    fn from(route: Route) -> Self {
        match route {
            Route::Random => Self::Random,
            Route::Key => Self::Key,
            Route::RoundRobin => Self::RoundRobin,
            Route::SamePartition => Self::SamePartition,
        }
    }
}

impl From<MissedEvents> for options::MissedEvents {
    fn from(policy: MissedEvents) -> Self {
        match policy {
            MissedEvents::Report => Self::Report,
            MissedEvents::Stop => Self::Stop,
        }
    }
}

impl From<PoisonEvents> for options::PoisonEvents {
    fn from(policy: PoisonEvents) -> Self {
        match policy {
            PoisonEvents::Hold => Self::Hold,
            PoisonEvents::Stop => Self::Stop,
            PoisonEvents::DeadLetter(path) => Self::DeadLetter(path),
        }
    }
}

impl From<Start> for source::StartPosition {
    fn from(start: Start) -> Self {
        match start {
            Start::Earliest => Self::Earliest,
            Start::Latest => Self::Latest,
            Start::SequenceNumber(sequence_number) => Self::AtSequenceNumber(sequence_number),
            Start::EnqueuedUnixMs(unix_ms) => Self::AtEnqueuedTime(EnqueuedTime::from_unix_ms(unix_ms)),
        }
    }
}

impl Default for Batch {
    fn default() -> Self {
        let BatchOptions { max_events, max_wait } = BatchOptions::default();
        Self { events: u32::try_from(max_events).unwrap_or(u32::MAX), wait: max_wait }
    }
}

impl Default for Ownership {
    fn default() -> Self {
        Self { mode: Mode::default(), renew: RENEW_DEFAULT, expire: EXPIRE_DEFAULT, identity: None }
    }
}

impl Default for Retry {
    fn default() -> Self {
        let RetryPolicy { attempts, delay, max_delay, .. } = RetryPolicy::default();
        Self { attempts, delay, max_delay }
    }
}

pub(super) fn connection_string<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    // The error names keys and positions, never a value.
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

impl From<Transport> for connect::service::Transport {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::Tcp => Self::Tcp,
            Transport::WebSocket => Self::WebSocket,
        }
    }
}

fn consumer_group() -> String {
    "$Default".to_owned()
}

fn in_flight() -> u32 {
    1
}

fn held() -> ByteSize {
    ByteSize::from_mebibytes(64)
}

fn try_timeout() -> Duration {
    RetryPolicy::default().try_timeout
}

fn restart_after() -> Duration {
    Duration::from_secs(1)
}

fn stop_timeout() -> Duration {
    Duration::from_secs(10)
}
