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
use super::{event_hubs, kafka, producer, service_bus};
use crate::scenario::{self, Entity, Protocol};

/// The backend of role processes.
#[derive(Debug, Clone, Copy)]
pub struct Network;

/// Why something could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
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
}

impl MessageCodec for NetworkCodec {
    fn encoding(&self) -> Encoding {
        match self {
            Self::Amqp(codec) => codec.encoding(),
            Self::Kafka(codec) => codec.encoding(),
        }
    }

    #[inline]
    fn encode(&self, header: Option<&[u8]>, payload: &[u8], message: &mut BytesMut) {
        match self {
            Self::Amqp(codec) => codec.encode(header, payload, message),
            Self::Kafka(codec) => codec.encode(header, payload, message),
        }
    }

    #[inline]
    fn decode<'a>(&self, message: &'a [u8]) -> Option<DecodedMessage<'a>> {
        match self {
            Self::Amqp(codec) => codec.decode(message),
            Self::Kafka(codec) => codec.decode(message),
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

    fn codec(&self, protocol: Protocol) -> NetworkCodec {
        match protocol {
            // A producer takes payloads, however they are wrapped on their way to it.
            Protocol::Amqp | Protocol::Http => NetworkCodec::Amqp(AmqpCodec),
            Protocol::Kafka => NetworkCodec::Kafka(KafkaCodec),
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
            (Protocol::Kafka, entity) => kafka::open_source(endpoint, entity, options, read_from).await,
            (Protocol::Http, _) => Err(BackendError::OnlyProducers),
        }
    }
}
