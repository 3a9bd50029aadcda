//! The world of hubs: the Event Hubs client.

use std::collections::BTreeMap;
use std::io;
use std::num::TryFromIntError;

use access::storage::StorageConnectionStringError;
use access::{ConnectionString, ConnectionStringError};
use amqp::Value;
use amqp::codec::Reader;
use amqp::message::{SectionKind, Sections, encode};
use bytes::BytesMut;
use connect::checkpoint::StoreError;
use connect::event::PartitionId;
use connect::event_hubs::{EventHubsOptions, EventHubsSink, EventHubsSource, HubNameError, ManagementClient};
use connect::service::ServiceError;
use connect::source::{AnySource, Source as _, SourceOptions, StartPosition};
use hub::service::StartError;
use pipeline::ConnectError;

use super::amqp_relay::{self, AmqpRelay};
use super::embedded::{self, EmbeddedHub};
use super::fabric::{DecodedMessage, Fabric, MessageCodec, OpenedSource};
use super::protocol::{Endpoint, HubConfig, ReadFrom, RelayConfig};
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
    /// The pipeline can't be connected.
    #[error(transparent)]
    Pipeline(#[from] ConnectError),
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
        amqp_relay::connect(config).await
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
        let hub = hub_of(endpoint)?;
        let client = client_options(endpoint)?;
        let source = EventHubsSource::connect(client.clone(), &hub.consumer_group, options).await?;
        let partitions = source.partitions().into_iter();
        let mut positions: BTreeMap<_, _> =
            partitions.map(|partition| (partition, StartPosition::Earliest)).collect();
        if read_from == ReadFrom::Now {
            for (partition, sequence_number) in ends(client).await? {
                positions.insert(partition, StartPosition::AfterSequenceNumber(sequence_number));
            }
        }
        let positions = positions.into_iter().collect();
        Ok(OpenedSource { source: AnySource::by_checkpoint(source), positions })
    }
}

/// The newest event of each partition that has one.
pub(super) async fn ends(client: EventHubsOptions) -> Result<Vec<(PartitionId, i64)>, FabricError> {
    let mut management = ManagementClient::connect(client).await?;
    let mut ends = Vec::new();
    for partition in management.hub_properties().await?.partition_ids {
        let properties = management.partition_properties(partition).await?;
        if !properties.is_empty {
            ends.push((partition, properties.last_enqueued_sequence_number));
        }
    }
    management.close().await;
    Ok(ends)
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
