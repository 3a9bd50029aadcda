//! The sections of a pipeline file, as they are written.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use access::ConnectionString;
use access::storage::StorageConnectionString;
use connect::checkpoint::blobs::{BlobStoreOptions, MissingContainer, Spelling};
use connect::event::EnqueuedTime;
use connect::retry::RetryPolicy;
use connect::source::{self, BatchOptions, SourceOptions};
use relay::{DispatchUnit, MissedEvents, RelayOptions};
use serde::{Deserialize, Deserializer, de};
use transform::Program;
use units::ByteSize;

use super::archive::Archive;
use super::exactly_once;
use super::kafka_ends::{KafkaSink, KafkaSource};
use super::open_telemetry::OpenTelemetry;
use super::poison::PoisonEvents;
use super::service_bus::{ServiceBusSink, ServiceBusSource};
use super::vocabulary::{
    Batch, CheckpointPolicy, Delivery, Dispatch, Ownership, Retry, RetryKeys, Route, Settlement,
    TransformStep,
};
use super::{
    CheckpointStoreConfig, EventHubsSinkConfig, EventHubsSourceConfig, Partitions, PipelineConfig,
    ReadingConfig, SinkConfig, SourceConfig,
};

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pipeline {
    pub(super) source: Source,
    /// Where events go: this, or all of `sinks`.
    pub(super) sink: Option<Sink>,
    pub(super) sinks: Option<Vec<Sink>>,
    /// What events go through before they are sent.
    #[serde(default)]
    pub(super) transform: Vec<TransformStep>,
    #[serde(default)]
    pub(super) dispatch: Dispatch,
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
    pub(super) delivery: Delivery,
    /// How messages are settled; only where they are.
    #[serde(default)]
    pub(super) settlement: Settlement,
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
    #[serde(default, deserialize_with = "settings::address::deserialize_optional")]
    pub(super) metrics: Option<SocketAddr>,
    /// Where traces and metrics are exported to.
    #[serde(default)]
    pub(super) open_telemetry: OpenTelemetry,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    EventHubs(Box<EventHubsSource>),
    Kafka(Box<KafkaSource>),
    ServiceBus(Box<ServiceBusSource>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventHubsSource {
    #[serde(alias = "fully_qualified_namespace", deserialize_with = "connection_string")]
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
    Kafka(Box<KafkaSink>),
    ServiceBus(Box<ServiceBusSink>),
    Archive(Box<Archive>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventHubsSink {
    #[serde(alias = "fully_qualified_namespace", deserialize_with = "connection_string")]
    pub(super) connection_string: ConnectionString,
    /// May be left out where the connection string has an `EntityPath`.
    pub(super) hub: Option<String>,
    /// Tries of a send to it, where they are others than the pipeline's.
    pub(super) retry: Option<RetryKeys>,
    /// Only events for which this is true go there.
    pub(super) when: Option<String>,
    #[serde(default)]
    pub(super) transport: Transport,
    pub(super) certificate_authority: Option<PathBuf>,
}

/// What carries the bytes of AMQP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
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
    pub(super) write: CheckpointPolicy,
    /// Whether the next events wait for the checkpoint that covers those before.
    #[serde(default)]
    pub(super) wait: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Store {
    Files(PathBuf),
    Blob(Box<BlobStore>),
    /// The committed offsets of the source's group.
    Group,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BlobStore {
    #[serde(alias = "account_url", deserialize_with = "connection_string")]
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

impl Pipeline {
    pub(super) fn into_config(self, transform: Option<Arc<Program>>) -> PipelineConfig {
        let mut relay = self.relay_options();
        let transactions = exactly_once::transactions(&self);
        let mut batch = BatchOptions::from(&self.batch);
        if relay.dispatch_unit == DispatchUnit::Batch {
            batch.max_events = batch.max_events.min(relay.events_at_once);
        }
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
            Store::Files(_) | Store::Group => None,
        });
        let reading = |checkpoint: Option<Checkpoint>| ReadingConfig {
            partitions: Partitions::All,
            options,
            adapt_prefetch,
            checkpoint_store: match transactions {
                Some(transactions) => CheckpointStoreConfig::Transactions(Box::new(transactions)),
                None => checkpoint
                    .expect("a log is not read without a store: that was checked")
                    .store
                    .into_config(),
            },
            ownership: self.ownership,
        };
        let source = match self.source {
            Source::EventHubs(source) => {
                SourceConfig::EventHubs(Box::new(source.into_config(reading(self.checkpoint))))
            }
            Source::Kafka(source) => {
                SourceConfig::Kafka(Box::new(source.into_config(reading(self.checkpoint))))
            }
            Source::ServiceBus(source) => {
                SourceConfig::ServiceBus(Box::new(source.into_config(self.settlement)))
            }
        };
        relay.group = source.group();
        if let Some(namespace) = namespace {
            relay.group.namespace = namespace.as_str().into();
        }
        PipelineConfig {
            source,
            sinks: self
                .sink
                .into_iter()
                .chain(self.sinks.into_iter().flatten())
                .map(Sink::into_config)
                .collect(),
            dead_letters: self.poison_events.into_sink(),
            fan_out: self.fan_out,
            metrics: self.metrics,
            transform,
            open_telemetry: self.open_telemetry.into(),
            relay,
        }
    }

    fn relay_options(&self) -> RelayOptions {
        RelayOptions {
            route: self.route,
            dispatch_unit: self.dispatch.unit(),
            events_at_once: self.dispatch.events_at_once(),
            adapt_events: self.dispatch.is_adaptive(),
            order: self.dispatch.order(),
            sinks_at_once: self.dispatch.sinks_at_once(),
            seed: self.seed,
            in_flight: self.in_flight as usize,
            max_held_bytes: self.held.as_usize(),
            retry: self.retry.policy(self.try_timeout, self.seed),
            sink_retries: self.sink_retries(),
            checkpoint: self.checkpoint.as_ref().map(|checkpoint| checkpoint.write).unwrap_or_default(),
            await_checkpoint: self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.wait),
            start_position: self.start.into(),
            missed_events: self.missed_events,
            poison_events: self.poison_events.policy(),
            failure_ratio: self.failure_ratio,
            restart_after: self.restart_after,
            stop_timeout: self.stop_timeout,
            ..RelayOptions::default()
        }
    }
}

impl Pipeline {
    /// The tries of each sink that has its own.
    fn sink_retries(&self) -> Vec<Option<RetryPolicy>> {
        let retry = |sink: &Sink| {
            let keys = sink.retry()?.clone();
            Some(keys.or(self.retry.clone()).policy(self.try_timeout, self.seed))
        };
        self.sinks().map(|(_, sink)| retry(sink)).collect()
    }
}

impl Store {
    fn into_config(self) -> CheckpointStoreConfig {
        match self {
            Self::Files(folder) => CheckpointStoreConfig::Files(folder),
            Self::Group => CheckpointStoreConfig::Group,
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

impl Pipeline {
    /// Every sink, with its place in the file.
    pub(super) fn sinks(&self) -> impl Iterator<Item = (String, &Sink)> {
        let one = self.sink.iter().map(|sink| ("sink".to_owned(), sink));
        let several = self.sinks.iter().flatten().enumerate();
        one.chain(several.map(|(index, sink)| (format!("sinks[{index}]"), sink)))
    }
}

impl Sink {
    /// The key of its kind.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::EventHubs(_) => "event_hubs",
            Self::Kafka(_) => "kafka",
            Self::ServiceBus(_) => "service_bus",
            Self::Archive(_) => "archive",
        }
    }

    /// Tries of its own.
    pub(super) fn retry(&self) -> Option<&RetryKeys> {
        match self {
            Self::EventHubs(sink) => sink.retry.as_ref(),
            Self::Kafka(sink) => sink.retry.as_ref(),
            Self::ServiceBus(sink) => sink.retry.as_ref(),
            Self::Archive(sink) => sink.retry.as_ref(),
        }
    }

    /// The condition of the events that go there.
    pub(super) fn when(&self) -> Option<&str> {
        match self {
            Self::EventHubs(sink) => sink.when.as_deref(),
            Self::Kafka(sink) => sink.when.as_deref(),
            Self::ServiceBus(sink) => sink.when.as_deref(),
            Self::Archive(sink) => sink.when.as_deref(),
        }
    }

    pub(super) fn into_config(self) -> SinkConfig {
        match self {
            Self::EventHubs(sink) => SinkConfig::EventHubs(Box::new(sink.into_config())),
            Self::Kafka(sink) => SinkConfig::Kafka(Box::new(sink.into_config())),
            Self::ServiceBus(sink) => SinkConfig::ServiceBus(Box::new(sink.into_config())),
            Self::Archive(sink) => SinkConfig::Archive(Box::new(sink.into_config())),
        }
    }
}

impl EventHubsSource {
    /// The hub by its own key or by the connection string.
    pub(super) fn hub(&self) -> Option<&str> {
        self.hub.as_deref().or(self.connection_string.entity_path.as_deref())
    }

    fn into_config(self, reading: ReadingConfig) -> EventHubsSourceConfig {
        EventHubsSourceConfig {
            hub: self.hub().unwrap_or_default().to_owned(),
            connection_string: self.connection_string,
            consumer_group: self.consumer_group,
            transport: self.transport.into(),
            certificate_authority: self.certificate_authority,
            reading: ReadingConfig {
                partitions: self.partitions.map_or(Partitions::All, Partitions::Listed),
                ..reading
            },
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
            keep_keys: true,
            connection_string: self.connection_string,
            transport: self.transport.into(),
            certificate_authority: self.certificate_authority,
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
