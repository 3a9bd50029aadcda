//! The real world: the embedded service, the Event Hubs client, and the relay between two hubs.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::TryFromIntError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use access::storage::StorageConnectionStringError;
use access::{ConnectionString, ConnectionStringError};
use amqp::Value;
use amqp::codec::Reader;
use amqp::message::{SectionKind, Sections, encode};
use bytes::BytesMut;
use connect::checkpoint::blobs::BlobStoreOptions;
use connect::checkpoint::{
    BlobCheckpointStore, Checkpoint, CheckpointStore, ConsumerGroup, FileCheckpointStore,
    MemoryCheckpointStore, StoreError,
};
use connect::event::PartitionId;
use connect::event_hubs::{
    EventHubsError, EventHubsOptions, EventHubsSink, EventHubsSource, HubNameError,
    ManagementClient,
};
use connect::retry::{RetryMode, RetryPolicy};
use connect::source::{
    BatchOptions, Source, SourceError, SourceEvent, SourceOptions, StartPosition,
};
use hub::log::{LogLimits, WhenFull};
use hub::namespace::{HubConfig as HubEntityConfig, NamespaceConfig};
use hub::service::{Service, ServiceConfig, StartError};
use relay::metrics::MetricsHandle;
use relay::ownership::{OwnershipMode, OwnershipOptions};
use relay::{CheckpointPolicy, Relay, RelayError, RelayOptions, route};
use units::ByteSize;

use super::fabric::{
    DecodedMessage, Fabric, HubService, MessageCodec, OpenedSource, RelayMetrics, RelayPipeline,
    RelayReading,
};
use super::protocol::{
    CHECKPOINT_CONTAINER, Endpoint, HubConfig, ReadFrom, RelayConfig, TlsAccess,
};
use super::relay_reading::reading;
use crate::clock::RunClock;
use crate::payload::HEADER_PROPERTY;
use crate::results::HubCounters;
use crate::scenario;
use crate::scenario::Secret;

use super::tls;

/// Everything by way of Event Hubs over AMQP.
#[derive(Debug, Clone, Copy)]
pub struct EventHubsFabric;

/// Why a part of the world could not be made.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// The connection string of the target can't be read.
    #[error(transparent)]
    ConnectionString(#[from] ConnectionStringError),
    /// The hub's name does not fit the connection string.
    #[error(transparent)]
    HubName(#[from] HubNameError),
    /// More partitions than a hub can have.
    #[error("a hub can't have that many partitions")]
    Partitions(#[from] TryFromIntError),
    /// The embedded service did not start.
    #[error(transparent)]
    Service(#[from] StartError),
    /// There is no certificate for it.
    #[error(transparent)]
    Tls(#[from] hub::tls::TlsError),
    /// The threads of the embedded service can't be had.
    #[error("the system refuses the threads of the service")]
    Threads(#[from] io::Error),
    /// Starting the embedded service panicked.
    #[error("the embedded service ended while it started")]
    Ended(#[from] tokio::task::JoinError),
    /// The service can't be reached or refuses.
    #[error(transparent)]
    Client(#[from] EventHubsError),
    /// The checkpoints can't be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Checkpoints are to be blobs, and nobody said where.
    #[error("checkpoints are to be kept in blobs, but there is no storage account")]
    NoStorage,
    /// The storage account is not to be understood.
    #[error(transparent)]
    StorageConnectionString(#[from] StorageConnectionStringError),
    /// The pipeline is impossible.
    #[error(transparent)]
    Relay(#[from] RelayError),
}

impl Fabric for EventHubsFabric {
    type Hub = EmbeddedHub;
    type Relay = EventHubsRelay;
    type Sink = EventHubsSink;
    type Source = EventHubsSource;
    type Codec = AmqpCodec;
    type Error = FabricError;

    fn codec(&self) -> AmqpCodec {
        AmqpCodec
    }

    async fn start_hub(&self, config: &HubConfig) -> Result<EmbeddedHub, FabricError> {
        let hubs = config.hubs.iter().map(|entity| {
            let partitions = u16::try_from(entity.hub.partitions)?;
            Ok(HubEntityConfig {
                consumer_groups: Some(entity.hub.consumer_group.clone())
                    .filter(|group| {
                        !group.eq_ignore_ascii_case(hub::namespace::DEFAULT_CONSUMER_GROUP)
                    })
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
                ..HubEntityConfig::new(entity.hub.name.clone(), partitions)
            })
        });
        let mut namespace = NamespaceConfig::with_hubs(hubs.collect::<Result<_, FabricError>>()?);
        namespace.profile = config.profile.clone();
        namespace.storage.clone_from(&config.storage);
        namespace.blob.containers = config.blob_containers.clone().unwrap_or_default();
        if config.preallocate {
            let bytes = config.hubs.iter().map(|entity| {
                entity
                    .log_per_partition
                    .bytes()
                    .saturating_mul(u64::from(entity.hub.partitions))
            });
            namespace.idle_blocks = ByteSize::from_bytes(bytes.sum());
        }
        let mut service = ServiceConfig::loopback(namespace);
        if config.blob_containers.is_some() {
            service.blob = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        }
        // The role's own loop runs on one thread; the service takes what the machine gives it.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
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
        Ok(EmbeddedHub {
            service,
            authority,
            runtime,
        })
    }

    async fn connect_relay(&self, config: &RelayConfig) -> Result<EventHubsRelay, FabricError> {
        let scenario = &config.relay;
        let options = SourceOptions {
            batch: BatchOptions {
                max_events: scenario.batch.events as usize,
                max_wait: scenario.batch.wait,
            },
            prefetch: scenario.prefetch as usize,
        };
        let OpenedSource { source, positions } = self
            .open_source(&config.source, options, config.read_from)
            .await?;
        let sink = self.open_sink(&config.destination).await?;
        let store = checkpoint_store(config).await?;
        let connection_string: ConnectionString =
            config.source.connection_string.reveal().parse()?;
        let group = ConsumerGroup {
            namespace: connection_string.endpoint.host().into(),
            hub: config.source.hub.name.as_str().into(),
            name: config.source.hub.consumer_group.as_str().into(),
        };
        let options = relay_options(config, group.clone());
        let source = match &options.ownership {
            None => Share::new(source, config.instance, scenario.instances),
            Some(_) => {
                // Who claims a partition also takes over its link.
                let mut source = source;
                source.set_owner_level(0);
                Share::new(source, 0, 1)
            }
        };
        // What lay in the hub before the run counts as done.
        for (partition, position) in positions {
            if let StartPosition::AfterSequenceNumber(sequence_number) = position
                && source.partitions().contains(&partition)
            {
                let sequence_number = Some(sequence_number);
                let checkpoint = Checkpoint {
                    group: group.clone(),
                    partition,
                    sequence_number,
                    offset: None,
                    etag: None,
                };
                store.update_checkpoint(checkpoint).await?;
            }
        }
        let relay = Relay::new(options, source, sink, store)?;
        Ok(EventHubsRelay {
            relay,
            clock: config.clock,
        })
    }

    async fn open_sink(&self, endpoint: &Endpoint) -> Result<EventHubsSink, FabricError> {
        Ok(EventHubsSink::connect(client_options(endpoint)?).await?)
    }

    async fn open_source(
        &self,
        endpoint: &Endpoint,
        options: SourceOptions,
        read_from: ReadFrom,
    ) -> Result<OpenedSource<EventHubsSource>, FabricError> {
        let client = client_options(endpoint)?;
        let source =
            EventHubsSource::connect(client.clone(), &endpoint.hub.consumer_group, options).await?;
        let mut positions: Vec<_> = source
            .partitions()
            .into_iter()
            .map(|partition| (partition, StartPosition::Earliest))
            .collect();
        if read_from == ReadFrom::Now {
            let mut management = ManagementClient::connect(client).await?;
            for (partition, position) in &mut positions {
                let properties = management.partition_properties(*partition).await?;
                if !properties.is_empty {
                    *position = StartPosition::AfterSequenceNumber(
                        properties.last_enqueued_sequence_number,
                    );
                }
            }
            management.close().await;
        }
        Ok(OpenedSource { source, positions })
    }
}

/// The embedded service with the threads that it runs on.
#[derive(Debug)]
pub struct EmbeddedHub {
    service: Service,
    /// The file that says whom to trust over TLS.
    authority: Option<PathBuf>,
    runtime: tokio::runtime::Runtime,
}

impl HubService for EmbeddedHub {
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

    fn counters(&self) -> BTreeMap<String, HubCounters> {
        let counters = |hub: &Arc<hub::namespace::Hub>| {
            let values = hub.counters();
            let counters = HubCounters {
                incoming_events: values.events_in,
                incoming_bytes: Some(values.bytes_in),
                outgoing_events: values.events_out,
                outgoing_bytes: Some(values.bytes_out),
                throttled: Some(values.batches_refused + values.batches_throttled),
            };
            (hub.name().to_owned(), counters)
        };
        let hubs = self.service.namespace().hubs();
        hubs.iter().map(counters).collect()
    }

    async fn stop(self) {
        self.service.stop().await;
        // A runtime must not be waited for inside another one; nothing runs on it any more.
        self.runtime.shutdown_background();
    }
}

/// The relay between two hubs.
#[derive(Debug)]
pub struct EventHubsRelay {
    relay: Relay<Share<EventHubsSource>, EventHubsSink>,
    clock: RunClock,
}

impl RelayPipeline for EventHubsRelay {
    type Metrics = RelayReader;
    type Error = RelayError;

    fn metrics(&self) -> RelayReader {
        RelayReader {
            handle: self.relay.metrics_handle(),
            clock: self.clock,
        }
    }

    async fn run(self, stop: impl Future<Output = ()>) -> Result<RelayReading, RelayError> {
        let Self { relay, clock } = self;
        let summary = relay.run(stop).await?;
        Ok(reading(&summary.metrics, clock))
    }
}

/// Reads the relay's metrics while it runs.
#[derive(Debug)]
pub struct RelayReader {
    handle: MetricsHandle,
    clock: RunClock,
}

impl RelayMetrics for RelayReader {
    async fn read(&self) -> Option<RelayReading> {
        let metrics = self.handle.metrics().await?;
        Some(reading(&metrics, self.clock))
    }
}

/// How an instance shares partitions with the others; none where each has its own from the start.
fn ownership(relay: &scenario::Relay, instance: u32) -> Option<OwnershipOptions> {
    let scenario::Ownership {
        mode,
        renew,
        expire,
    } = relay.ownership;
    let mode = match mode {
        scenario::OwnershipMode::Static => return None,
        scenario::OwnershipMode::Balanced => OwnershipMode::Balanced,
        scenario::OwnershipMode::Greedy => OwnershipMode::Greedy,
    };
    Some(OwnershipOptions {
        mode,
        identity: format!("instance-{instance}"),
        renew,
        expire,
    })
}

async fn checkpoint_store(config: &RelayConfig) -> Result<Arc<dyn CheckpointStore>, FabricError> {
    Ok(match config.relay.checkpoint_store {
        scenario::CheckpointStore::Memory => Arc::new(MemoryCheckpointStore::new()),
        scenario::CheckpointStore::File => {
            Arc::new(FileCheckpointStore::open(&config.checkpoints)?)
        }
        scenario::CheckpointStore::Blob => {
            let storage = config.storage.as_ref().ok_or(FabricError::NoStorage)?;
            let options = BlobStoreOptions::new(storage.reveal().parse()?, CHECKPOINT_CONTAINER);
            Arc::new(BlobCheckpointStore::open(options).await?)
        }
    })
}

fn relay_options(config: &RelayConfig, group: ConsumerGroup) -> RelayOptions {
    let scenario = &config.relay;
    RelayOptions {
        route: match scenario.route {
            scenario::Route::Random => route::Route::Random,
            scenario::Route::Key => route::Route::Key,
            scenario::Route::RoundRobin => route::Route::RoundRobin,
        },
        fan_out: scenario.fan_out,
        seed: config.seed,
        in_flight: scenario.in_flight as usize,
        retry: RetryPolicy {
            attempts: scenario.retry.attempts,
            mode: RetryMode::Exponential,
            delay: scenario.retry.delay,
            max_delay: scenario.retry.max_delay,
            try_timeout: scenario.try_timeout,
            seed: config.seed,
            ..RetryPolicy::default()
        },
        checkpoint: match scenario.checkpoint {
            scenario::Checkpoint::EachBatch => CheckpointPolicy::EachBatch,
            scenario::Checkpoint::Every(interval) => CheckpointPolicy::Every(interval),
        },
        start_position: StartPosition::Earliest,
        failure_ratio: scenario.failure_ratio,
        restart_after: scenario.restart_after,
        ownership: ownership(scenario, config.instance),
        stop_timeout: STOP_TIMEOUT,
        ..RelayOptions::new(group)
    }
}

fn client_options(endpoint: &Endpoint) -> Result<EventHubsOptions, FabricError> {
    let connection_string: ConnectionString = endpoint.connection_string.reveal().parse()?;
    let mut options = EventHubsOptions::new(connection_string, Some(&endpoint.hub.name))?;
    options
        .certificate_authority
        .clone_from(&endpoint.certificate_authority);
    Ok(options)
}

/// The partitions of a source that one of several instances takes: every n-th.
#[derive(Debug)]
pub struct Share<S> {
    source: S,
    instance: u32,
    instances: u32,
}

impl<S> Share<S> {
    fn new(source: S, instance: u32, instances: u32) -> Self {
        Self {
            source,
            instance,
            instances: instances.max(1),
        }
    }
}

impl<S: Source> Source for Share<S> {
    fn partitions(&self) -> Vec<PartitionId> {
        let mine = |partition: &PartitionId| {
            partition.0 % self.instances == self.instance % self.instances
        };
        self.source.partitions().into_iter().filter(mine).collect()
    }

    fn open(&mut self, partition: PartitionId, position: StartPosition) {
        self.source.open(partition, position);
    }

    fn close(&mut self, partition: PartitionId) {
        self.source.close(partition);
    }

    #[inline]
    fn poll_batch(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<SourceEvent, SourceError>> {
        self.source.poll_batch(context)
    }

    fn release(&mut self, batch: connect::event::EventBatch) {
        self.source.release(batch);
    }
}

/// AMQP messages: the payload in a Data section, the header, if it travels beside it, in an application property.
#[derive(Debug, Clone, Copy)]
pub struct AmqpCodec;

impl MessageCodec for AmqpCodec {
    #[inline]
    fn encode(&self, header: Option<&[u8]>, payload: &[u8], message: &mut BytesMut) {
        if let Some(header) = header {
            let mut section = Vec::with_capacity(64);
            encode::application_properties(
                &mut section,
                &[(HEADER_PROPERTY, Value::Binary(header.to_vec()))],
            );
            message.extend_from_slice(&section);
        }
        let length = u32::try_from(payload.len()).expect("a payload is far below 4 GiB");
        let (prefix, size) = encode::data_prefix_bytes(length);
        message.extend_from_slice(&prefix[..size]);
        message.extend_from_slice(payload);
    }

    #[inline]
    fn decode<'a>(&self, message: &'a [u8]) -> Option<DecodedMessage<'a>> {
        let (mut header, mut payload) = (None, None);
        for section in Sections::new(message) {
            let section = section.ok()?;
            match section.kind {
                SectionKind::Data => payload = Some(section.data().ok()?),
                SectionKind::ApplicationProperties => header = property(section.value),
                _ => {}
            }
        }
        Some(DecodedMessage {
            header,
            payload: payload?,
        })
    }
}

/// The header among the application properties.
#[cold]
fn property(map: &[u8]) -> Option<&[u8]> {
    let mut entries = Reader::new(map).map().ok()??;
    while let Some(reader) = entries.entry() {
        if reader.text().ok()? == Some(HEADER_PROPERTY) {
            return reader.binary().ok()?;
        }
        reader.skip().ok()?;
    }
    None
}

/// How long a stopped relay waits for what is under way.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
