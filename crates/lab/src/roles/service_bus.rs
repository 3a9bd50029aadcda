//! The world of queues: the embedded service, the Service Bus client, and the relay that settles each message.

use access::ConnectionString;
use connect::event::PartitionId;
use connect::retry::{RetryMode, RetryPolicy};
use connect::service::ClientOptions;
use connect::service_bus::{ReceiveOptions, ServiceBusSink, ServiceBusSource};
use connect::sink::SendUnit;
use connect::source::{SourceOptions, StartPosition};
use relay::{Relay, RelayError, SettlingOptions};

use super::embedded::{self, EmbeddedHub};
use super::event_hubs::{AmqpCodec, FabricError, RelayReader, STOP_TIMEOUT};
use super::fabric::{Fabric, OpenedSource, RelayPipeline, RelayReading};
use super::protocol::{Endpoint, HubConfig, ReadFrom, RelayConfig};
use super::relay_reading::reading;
use crate::clock::RunClock;

/// Everything by way of Service Bus over AMQP.
#[derive(Debug, Clone, Copy)]
pub struct ServiceBusFabric;

impl Fabric for ServiceBusFabric {
    type Hub = EmbeddedHub;
    type Relay = ServiceBusRelay;
    type Sink = ServiceBusSink;
    type Source = ServiceBusSource;
    type Codec = AmqpCodec;
    type Error = FabricError;

    fn codec(&self) -> AmqpCodec {
        AmqpCodec
    }

    async fn start_hub(&self, config: &HubConfig) -> Result<EmbeddedHub, FabricError> {
        embedded::start(config).await
    }

    async fn connect_relay(&self, config: &RelayConfig) -> Result<ServiceBusRelay, FabricError> {
        let receive = ReceiveOptions {
            concurrency: config.relay.messages_at_once(),
            prefetch: config.relay.prefetch,
            ..ReceiveOptions::default()
        };
        let source = ServiceBusSource::connect(client_options(&config.source)?, receive).await?;
        // One by one, as the study's consumer does: a batch would be accepted or refused as a whole.
        let destination = client_options(&config.destination)?;
        let sink = ServiceBusSink::connect(destination, SendUnit::Event).await?;
        let relay = Relay::settling(settling_options(config), source, sink)?;
        Ok(ServiceBusRelay {
            relay,
            clock: config.clock,
        })
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
    ) -> Result<OpenedSource<ServiceBusSource>, FabricError> {
        let receive = ReceiveOptions {
            concurrency: u32::try_from(options.unreleased_limit()).unwrap_or(u32::MAX),
            prefetch: 0,
            ..ReceiveOptions::default()
        };
        let source = ServiceBusSource::connect(client_options(endpoint)?, receive).await?;
        Ok(OpenedSource {
            source,
            positions: vec![(PartitionId(0), StartPosition::Earliest)],
        })
    }
}

/// The relay between two queues.
#[derive(Debug)]
pub struct ServiceBusRelay {
    relay: Relay<ServiceBusSource, ServiceBusSink>,
    clock: RunClock,
}

impl RelayPipeline for ServiceBusRelay {
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

fn settling_options(config: &RelayConfig) -> SettlingOptions {
    let scenario = &config.relay;
    SettlingOptions {
        seed: config.seed,
        retry: RetryPolicy {
            attempts: scenario.retry.attempts,
            mode: RetryMode::Exponential,
            delay: scenario.retry.delay,
            max_delay: scenario.retry.max_delay,
            try_timeout: scenario.try_timeout,
            seed: config.seed,
            ..RetryPolicy::default()
        },
        failure_ratio: scenario.failure_ratio,
        stop_timeout: STOP_TIMEOUT,
        ..SettlingOptions::default()
    }
}

fn client_options(endpoint: &Endpoint) -> Result<ClientOptions, FabricError> {
    let connection_string: ConnectionString = endpoint.connection_string.reveal().parse()?;
    let mut options = ClientOptions::new(connection_string, endpoint.entity.name());
    options
        .certificate_authority
        .clone_from(&endpoint.certificate_authority);
    Ok(options)
}
