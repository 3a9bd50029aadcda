//! The world of queues: the embedded service, the Service Bus client, and the relay that settles each message.

use access::ConnectionString;
use connect::event::PartitionId;
use connect::service::ClientOptions;
use connect::service_bus::{ReceiveOptions, ServiceBusSink, ServiceBusSource};
use connect::sink::SendUnit;
use connect::source::{AnySource, SourceOptions, StartPosition};
use relay::{Relay, SettlingOptions};

use super::amqp_relay::{AmqpRelay, STOP_TIMEOUT, retry_policy};
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
        let receive = ReceiveOptions {
            concurrency: config.relay.messages_at_once(),
            // A scenario between queues has a number.
            prefetch: config.relay.prefetch.events().unwrap_or(0),
            ..ReceiveOptions::default()
        };
        let source = ServiceBusSource::connect(client_options(&config.source)?, receive).await?;
        // One by one, as the study's consumer does: a batch would be accepted or refused as a whole.
        let destination = client_options(&config.destination)?;
        let sink = ServiceBusSink::connect(destination, SendUnit::Event).await?;
        let relay = Relay::settling(settling_options(config), Box::new(source), Box::new(sink))?;
        Ok(AmqpRelay::new(relay, config))
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

fn settling_options(config: &RelayConfig) -> SettlingOptions {
    SettlingOptions {
        seed: config.seed,
        retry: retry_policy(config),
        failure_ratio: config.relay.failure_ratio,
        stop_timeout: STOP_TIMEOUT,
        ..SettlingOptions::default()
    }
}

fn client_options(endpoint: &Endpoint) -> Result<ClientOptions, FabricError> {
    let connection_string: ConnectionString = endpoint.connection_string.reveal().parse()?;
    let mut options = ClientOptions::new(connection_string, endpoint.entity.name());
    options.certificate_authority.clone_from(&endpoint.certificate_authority);
    Ok(options)
}
