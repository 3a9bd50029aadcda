//! The world of queues: the Service Bus client.

use access::ConnectionString;
use connect::event::PartitionId;
use connect::service::ClientOptions;
use connect::service_bus::{ReceiveOptions, ServiceBusSink, ServiceBusSource};
use connect::sink::SendUnit;
use connect::source::{AnySource, SourceOptions, StartPosition};

use super::amqp_relay::{self, AmqpRelay};
use super::embedded::{self, EmbeddedHub};
use super::event_hubs::{AmqpCodec, FabricError};
use super::fabric::{Fabric, OpenedSource};
use super::protocol::{Endpoint, HubConfig, ReadFrom, RelayConfig};

/// Everything by way of Service Bus over AMQP.
#[derive(Debug, Clone, Copy)]
pub struct ServiceBusFabric;

impl Fabric for ServiceBusFabric {
    type Hub = EmbeddedHub;
    type Relay = AmqpRelay;
    type Sink = ServiceBusSink;
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

    async fn open_sink(&self, endpoint: &Endpoint) -> Result<ServiceBusSink, FabricError> {
        Ok(ServiceBusSink::connect(client_options(endpoint)?, SendUnit::Batch).await?)
    }

    /// What lies in the queue comes first, wherever one wants to begin: it is of another run, or a mistake.
    async fn open_source(
        &self,
        endpoint: &Endpoint,
        options: SourceOptions,
        _: ReadFrom,
    ) -> Result<OpenedSource, FabricError> {
        let receive = ReceiveOptions {
            concurrency: u32::try_from(options.unreleased_limit()).unwrap_or(u32::MAX),
            prefetch: 0,
            ..ReceiveOptions::default()
        };
        let source = ServiceBusSource::connect(client_options(endpoint)?, receive).await?;
        let source = AnySource::by_settlement(source);
        Ok(OpenedSource { source, positions: vec![(PartitionId(0), StartPosition::Earliest)] })
    }
}

fn client_options(endpoint: &Endpoint) -> Result<ClientOptions, FabricError> {
    let connection_string: ConnectionString = endpoint.connection_string.reveal().parse()?;
    let mut options = ClientOptions::new(connection_string, endpoint.entity.name());
    options.certificate_authority.clone_from(&endpoint.certificate_authority);
    Ok(options)
}
