//! The lab's own backend: services of real processes, reached over the network, by the protocol and the entity of each
//! endpoint. Another protocol is another arm in [`Network`]'s factories, and a codec.

use std::io;
use std::num::TryFromIntError;

use access::ConnectionStringError;
use access::storage::StorageConnectionStringError;
use bytes::BytesMut;
use connect::checkpoint::StoreError;
use connect::event::Encoding;
use connect::event_hubs::HubNameError;
use connect::service::{ServiceError, Transport};
use connect::sink::Sink;
use connect::source::SourceOptions;
use hub::service::StartError;
use pipeline::ConnectError;

use super::amqp_codec::AmqpCodec;
use super::backend::{Backend, DecodedMessage, MessageCodec, OpenedSink, OpenedSource};
use super::client_program::{self, ProgramError};
use super::embedded::{self, EmbeddedService};
use super::kafka_codec::KafkaCodec;
use super::our_relay::{self, OurRelay};
use super::protocol::{Endpoint, ReadFrom, RelayConfig, ServiceConfig};
use super::{archive, event_hubs, kafka, producer, service_bus};
use crate::scenario::{self, Entity, Protocol};

/// The backend of role processes.
#[derive(Debug, Clone, Copy)]
pub struct Network;

/// Why something could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// Traces and metrics can't be exported.
    #[error("telemetry can't be exported")]
    Telemetry(#[source] std::io::Error),
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
    /// There are no random numbers for the keys of the embedded service.
    #[error("the system gives no random numbers")]
    Key(#[source] io::Error),
    /// Starting the embedded service panicked.
    #[error("the embedded service exited while starting")]
    Ended(#[from] tokio::task::JoinError),
    /// The service can't be reached or refuses.
    #[error(transparent)]
    Client(#[from] ServiceError),
    /// The checkpoints can't be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The steps of the relay's transform are wrong.
    #[error(transparent)]
    Transform(#[from] pipeline::transforming::Mistake),
    /// Checkpoints are to be blobs, and there is no place for them.
    #[error("checkpoints are configured to be stored in blobs, but there is no storage account")]
    NoStorage,
    /// The storage account is not to be understood.
    #[error(transparent)]
    StorageConnectionString(#[from] StorageConnectionStringError),
    /// The pipeline can't be connected.
    #[error(transparent)]
    Pipeline(#[from] ConnectError),
    /// What is to be reached over Kafka is no hub, or nothing says how.
    #[error("{0} can't be reached over Kafka")]
    NoTopic(String),
    /// The program that is the client can't be used.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Something other than a producer is to speak HTTP.
    #[error("only producers speak HTTP")]
    OnlyProducers,
    /// A load can't send to an archive.
    #[error("an archive is written by pipelines alone")]
    NoLoadOfArchive,
    /// A pipeline can't read an archive.
    #[error("an archive is written by pipelines, and not read by them")]
    NoRelayOfArchive,
    /// This build has no such client of Kafka.
    #[error("this build has no librdkafka")]
    NoClient,
}

/// The codec of what is spoken.
#[derive(Debug, Clone, Copy)]
pub enum NetworkCodec {
    /// Of messages.
    Amqp(AmqpCodec),
    /// Of records.
    Kafka(KafkaCodec),
    /// Of blobs, each of which is a payload and nothing else.
    Body,
}

impl NetworkCodec {
    /// That of a protocol of events.
    pub(super) const fn of(protocol: Protocol) -> Self {
        match protocol {
            // A producer takes payloads, however they are wrapped on their way to it.
            Protocol::Amqp | Protocol::Http => Self::Amqp(AmqpCodec),
            Protocol::Kafka => Self::Kafka(KafkaCodec),
        }
    }
}

impl MessageCodec for NetworkCodec {
    fn encoding(&self) -> Encoding {
        match self {
            Self::Amqp(codec) => codec.encoding(),
            Self::Kafka(codec) => codec.encoding(),
            Self::Body => Encoding::Opaque,
        }
    }

    #[inline]
    fn encode(&self, header: Option<&[u8]>, payload: &[u8], message: &mut BytesMut) {
        match self {
            Self::Amqp(codec) => codec.encode(header, payload, message),
            Self::Kafka(codec) => codec.encode(header, payload, message),
            Self::Body => message.extend_from_slice(payload),
        }
    }

    #[inline]
    fn decode<'a>(&self, message: &'a [u8]) -> Option<DecodedMessage<'a>> {
        match self {
            Self::Amqp(codec) => codec.decode(message),
            Self::Kafka(codec) => codec.decode(message),
            Self::Body => Some(DecodedMessage { header: None, payload: message }),
        }
    }
}

/// What carries the bytes of AMQP to an endpoint.
pub(super) const fn transport(endpoint: &Endpoint) -> Transport {
    match endpoint.transport {
        scenario::Transport::Tcp => Transport::Tcp,
        scenario::Transport::WebSocket => Transport::WebSocket,
    }
}

impl Backend for Network {
    type Service = EmbeddedService;
    type Relay = OurRelay;
    type Codec = NetworkCodec;
    type Error = BackendError;

    fn codec(&self, endpoint: &Endpoint) -> NetworkCodec {
        match &endpoint.entity {
            Entity::Container(_) => NetworkCodec::Body,
            Entity::Hub(_) | Entity::Queue(_) | Entity::Topic(_) => NetworkCodec::of(endpoint.protocol),
        }
    }

    async fn start_service(&self, config: &ServiceConfig) -> Result<EmbeddedService, BackendError> {
        embedded::start(config).await
    }

    async fn connect_relay(&self, config: &RelayConfig) -> Result<OurRelay, BackendError> {
        our_relay::connect(config).await
    }

    async fn open_sink(&self, endpoint: &Endpoint) -> Result<OpenedSink, BackendError> {
        if let Some(how) = &endpoint.producer {
            if let Some(reached) = client_program::Reached::of(endpoint) {
                let sink = Box::new(client_program::ProgramSink::start(&reached).await?);
                return Ok(OpenedSink { sink, stages: None });
            }
            return producer::ProducerSink::connect(endpoint, how).await;
        }
        let sink: Box<dyn Sink> = match (endpoint.protocol, &endpoint.entity) {
            (Protocol::Amqp, Entity::Hub(hub)) => Box::new(event_hubs::open_sink(endpoint, hub).await?),
            (Protocol::Amqp, Entity::Queue(_) | Entity::Topic(_)) => {
                Box::new(service_bus::open_sink(endpoint).await?)
            }
            (_, Entity::Container(_)) => return Err(BackendError::NoLoadOfArchive),
            (Protocol::Kafka, entity) => kafka::open_sink(endpoint, entity).await?,
            (Protocol::Http, _) => return Err(BackendError::OnlyProducers),
        };
        Ok(sink.into())
    }

    async fn open_source(
        &self,
        endpoint: &Endpoint,
        options: SourceOptions,
        read_from: ReadFrom,
    ) -> Result<OpenedSource, BackendError> {
        match (endpoint.protocol, &endpoint.entity) {
            (Protocol::Amqp, Entity::Hub(hub)) => {
                event_hubs::open_source(endpoint, hub, options, read_from).await
            }
            (Protocol::Amqp, Entity::Queue(_) | Entity::Topic(_)) => {
                service_bus::open_source(endpoint, options).await
            }
            (_, Entity::Container(_)) => archive::open_source(endpoint),
            (Protocol::Kafka, entity) => kafka::open_source(endpoint, entity, options, read_from).await,
            (Protocol::Http, _) => Err(BackendError::OnlyProducers),
        }
    }
}
