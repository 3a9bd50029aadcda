//! The world of hubs: the Event Hubs client, and the relay between two hubs.

use std::io;
use std::num::TryFromIntError;
use std::sync::Arc;

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
use connect::event_hubs::{EventHubsOptions, EventHubsSink, EventHubsSource, HubNameError, ManagementClient};
use connect::service::ServiceError;
use connect::source::{AnySource, BatchOptions, Source as _, SourceOptions, StartPosition};
use hub::service::StartError;
use relay::ownership::{OwnershipMode, OwnershipOptions};
use relay::{CheckpointPolicy, Relay, RelayError, RelayOptions, route};

use super::amqp_relay::{AmqpRelay, STOP_TIMEOUT, retry_policy};
use super::embedded::{self, EmbeddedHub};
use super::fabric::{DecodedMessage, Fabric, MessageCodec, OpenedSource};
use super::protocol::{CHECKPOINT_CONTAINER, Endpoint, HubConfig, ReadFrom, RelayConfig};
use crate::payload::HEADER_PROPERTY;
use crate::scenario;
use crate::scenario::Entity;

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
    /// The configuration names a queue.
    #[error("{0} is a queue, and a hub is needed here")]
    NotAHub(String),
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
    Client(#[from] ServiceError),
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
    type Relay = AmqpRelay;
    type Sink = EventHubsSink;
    type Codec = AmqpCodec;
    type Error = FabricError;

    fn codec(&self) -> AmqpCodec {
        AmqpCodec
    }

    async fn start_hub(&self, config: &HubConfig) -> Result<EmbeddedHub, FabricError> {
        embedded::start(config).await
    }

    async fn connect_relay(&self, config: &RelayConfig) -> Result<AmqpRelay, FabricError> {
        let hub = hub_of(&config.source)?;
        let scenario = &config.relay;
        let options = SourceOptions {
            batch: BatchOptions { max_events: scenario.batch.events as usize, max_wait: scenario.batch.wait },
            prefetch: scenario.prefetch.initial(),
        };
        let (mut source, positions) = connect_source(&config.source, options, config.read_from).await?;
        let sink = self.open_sink(&config.destination).await?;
        let store = checkpoint_store(config).await?;
        let connection_string: ConnectionString = config.source.connection_string.reveal().parse()?;
        let group = ConsumerGroup {
            namespace: connection_string.endpoint.host().into(),
            hub: hub.name.as_str().into(),
            name: hub.consumer_group.as_str().into(),
        };
        let options = relay_options(config, group.clone());
        if scenario.prefetch == scenario::Prefetch::Adaptive {
            source.adapt_prefetch(options.max_held_bytes);
        }
        match &options.ownership {
            None => {
                let (instance, instances) = (config.instance, scenario.instances.max(1));
                source.retain_partitions(|partition| partition.0 % instances == instance % instances);
            }
            // Whoever claims a partition also takes over its link.
            Some(_) => source.set_owner_level(0),
        }
        // What lay in the hub before the run counts as done.
        for (partition, position) in positions {
            if let StartPosition::AfterSequenceNumber(sequence_number) = position
                && source.partitions().contains(&partition)
            {
                let sequence_number = Some(sequence_number);
                let checkpoint =
                    Checkpoint { group: group.clone(), partition, sequence_number, offset: None, etag: None };
                store.update_checkpoint(checkpoint).await?;
            }
        }
        let relay = Relay::new(options, Box::new(source), Box::new(sink), store)?;
        Ok(AmqpRelay::new(relay, config))
    }

    async fn open_sink(&self, endpoint: &Endpoint) -> Result<EventHubsSink, FabricError> {
        Ok(EventHubsSink::connect(client_options(endpoint)?).await?)
    }

    async fn open_source(
        &self,
        endpoint: &Endpoint,
        options: SourceOptions,
        read_from: ReadFrom,
    ) -> Result<OpenedSource, FabricError> {
        let (source, positions) = connect_source(endpoint, options, read_from).await?;
        Ok(OpenedSource { source: AnySource::by_checkpoint(source), positions })
    }
}

/// A source, and where each of its partitions begins.
async fn connect_source(
    endpoint: &Endpoint,
    options: SourceOptions,
    read_from: ReadFrom,
) -> Result<(EventHubsSource, Vec<(PartitionId, StartPosition)>), FabricError> {
    let hub = hub_of(endpoint)?;
    let client = client_options(endpoint)?;
    let source = EventHubsSource::connect(client.clone(), &hub.consumer_group, options).await?;
    let mut positions: Vec<_> =
        source.partitions().into_iter().map(|partition| (partition, StartPosition::Earliest)).collect();
    if read_from == ReadFrom::Now {
        let mut management = ManagementClient::connect(client).await?;
        for (partition, position) in &mut positions {
            let properties = management.partition_properties(*partition).await?;
            if !properties.is_empty {
                *position = StartPosition::AfterSequenceNumber(properties.last_enqueued_sequence_number);
            }
        }
        management.close().await;
    }
    Ok((source, positions))
}

/// How an instance shares partitions with the others; none where each has its own from the start.
fn ownership(relay: &scenario::Relay, instance: u32) -> Option<OwnershipOptions> {
    let scenario::Ownership { mode, renew, expire } = relay.ownership;
    let mode = match mode {
        scenario::OwnershipMode::Static => return None,
        scenario::OwnershipMode::Balanced => OwnershipMode::Balanced,
        scenario::OwnershipMode::Greedy => OwnershipMode::Greedy,
    };
    Some(OwnershipOptions { mode, identity: format!("instance-{instance}"), renew, expire })
}

async fn checkpoint_store(config: &RelayConfig) -> Result<Arc<dyn CheckpointStore>, FabricError> {
    Ok(match config.relay.checkpoint_store {
        scenario::CheckpointStore::Memory => Arc::new(MemoryCheckpointStore::new()),
        scenario::CheckpointStore::File => Arc::new(FileCheckpointStore::open(&config.checkpoints)?),
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
        retry: retry_policy(config),
        checkpoint: match scenario.checkpoint {
            scenario::Checkpoint::EachBatch => CheckpointPolicy::EachBatch,
            scenario::Checkpoint::Every(interval) => CheckpointPolicy::Every(interval),
        },
        start_position: match config.read_from {
            // All events of the run's own hub are to be read, so that it is noticed if the first ones are gone.
            ReadFrom::Beginning => StartPosition::AtSequenceNumber(0),
            ReadFrom::Now => StartPosition::Earliest,
        },
        failure_ratio: scenario.failure_ratio,
        restart_after: scenario.restart_after,
        ownership: ownership(scenario, config.instance),
        stop_timeout: STOP_TIMEOUT,
        ..RelayOptions::new(group)
    }
}

fn hub_of(endpoint: &Endpoint) -> Result<&scenario::Hub, FabricError> {
    match &endpoint.entity {
        Entity::Hub(hub) => Ok(hub),
        Entity::Queue(queue) => Err(FabricError::NotAHub(queue.name.clone())),
    }
}

fn client_options(endpoint: &Endpoint) -> Result<EventHubsOptions, FabricError> {
    let connection_string: ConnectionString = endpoint.connection_string.reveal().parse()?;
    let mut options = EventHubsOptions::new(connection_string, Some(&hub_of(endpoint)?.name))?;
    options.certificate_authority.clone_from(&endpoint.certificate_authority);
    Ok(options)
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
        Some(DecodedMessage { header, payload: payload? })
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
