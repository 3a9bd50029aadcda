//! Our relay as a system under test, whichever service is at its ends.

use std::cell::Cell;
use std::time::{Duration, Instant};

use access::ConnectionString;
use connect::archive::{ArchiveOptions, BlobPlace, Place};
use connect::checkpoint::blobs::BlobStoreOptions;
use connect::checkpoint::{Checkpoint, ConsumerGroup};
use connect::event::PartitionId;
use connect::kafka::{GroupOffsetStore, KafkaOptions};
use connect::service_bus::ReceiveOptions;
use connect::sink::SendUnit;
use connect::source::{SourceOptions, StartPosition};
use pipeline::kafka::BOOTSTRAP;
use pipeline::transforming;
use pipeline::{
    CheckpointStoreConfig, EventHubsSinkConfig, EventHubsSourceConfig, KafkaSinkConfig, KafkaSourceConfig,
    Partitions, PipelineConfig, ReadingConfig, ServiceBusSinkConfig, ServiceBusSourceConfig, SinkConfig,
    SourceConfig, TransactionsConfig,
};
use relay::metrics::endpoint::{self, Relays};
use relay::metrics::{MetricsHandle, prometheus};
use relay::{Relay, RelayError, RelayOptions};
use telemetry::Exporter;
use telemetry::options::Options;

use super::backend::{RelayMetrics, RelayPipeline, RelayReading};
use super::event_hubs::ends;
use super::kafka;
use super::network::{BackendError, transport};
use super::protocol::{CHECKPOINT_CONTAINER, Endpoint, ReadFrom, RelayConfig};
use super::relay_reading::reading as reading_of;
use super::service_bus;
use crate::clock::RunClock;
use crate::scenario::{self, CheckpointStore, Entity, Prefetch, Protocol, Sends};

/// The relay between the two ends of a case.
#[derive(Debug)]
pub struct OurRelay {
    relay: Relay,
    exporter: Option<Exporter>,
    clock: RunClock,
    tells_metrics: bool,
    archives: Vec<bool>,
}

/// Reads the relay's metrics while it runs.
#[derive(Debug)]
pub struct RelayReader {
    handle: MetricsHandle,
    clock: RunClock,
    /// When monitoring is to see the metrics again, if it is to see them at all.
    page_due: Option<Cell<Instant>>,
    archives: Vec<bool>,
}

impl RelayPipeline for OurRelay {
    type Metrics = RelayReader;
    type Error = RelayError;

    fn metrics(&self) -> RelayReader {
        RelayReader {
            handle: self.relay.metrics_handle(),
            clock: self.clock,
            page_due: self.tells_metrics.then(|| Cell::new(Instant::now())),
            archives: self.archives.clone(),
        }
    }

    async fn run(self, stop: impl Future<Output = ()>) -> Result<RelayReading, RelayError> {
        let Self { relay, exporter, clock, archives, .. } = self;
        let summary = relay.run(stop).await?;
        if let Some(exporter) = exporter {
            exporter.shut_down(Some(endpoint::last_page(summary.metrics.clone()))).await;
        }
        Ok(reading_of(&summary.metrics, clock, &archives))
    }
}

impl RelayMetrics for RelayReader {
    async fn read(&self) -> Option<RelayReading> {
        let metrics = self.handle.metrics().await?;
        let mut reading = reading_of(&metrics, self.clock, &self.archives);
        if let Some(due) = &self.page_due
            && due.get() <= Instant::now()
        {
            due.set(Instant::now() + PAGE_EVERY);
            reading.page = Some(prometheus::render(metrics));
        }
        Some(reading)
    }
}

/// Connects the pipeline that a role is to run, whichever service is at its ends.
pub(super) async fn connect(config: &RelayConfig) -> Result<OurRelay, BackendError> {
    let pipeline = pipeline(config)?;
    let open = pipeline.open().await?;
    if let (Some(store), ReadFrom::Now, false) = (open.store(), config.read_from, config.goes_on) {
        match &pipeline.source {
            // No member yet, and no transaction: nobody has joined before all are ready.
            SourceConfig::Kafka(source) if config.relay.commits_offsets() => {
                let store = GroupOffsetStore::open(&source.options, &source.group).await?;
                pass_over_what_is_there(&pipeline.source, pipeline.group(), &store).await?;
            }
            source => pass_over_what_is_there(source, pipeline.group(), store.as_ref()).await?,
        }
    }
    let relay = open.connect(&format!("instance-{}", config.instance)).await?;
    let archives = config.destinations.iter().map(|to| to.entity.is_archive()).collect();
    let exporter = exporter(&pipeline, &relay)?;
    let relay = match exporter.as_ref().and_then(Exporter::tracer) {
        Some(tracer) => pipeline.traced(relay, tracer),
        None => relay,
    };
    Ok(OurRelay { relay, exporter, clock: config.clock, tells_metrics: config.tells_metrics, archives })
}

/// Exports what the scenario asks for, and nothing that only the environment does.
fn exporter(pipeline: &PipelineConfig, relay: &Relay) -> Result<Option<Exporter>, BackendError> {
    let settings = &pipeline.open_telemetry;
    let options =
        settings.endpoint.as_ref().and_then(|_| Options::of_this_process("parshall-relay", settings));
    let start = |options| Exporter::start(options, Relays::from(relay.metrics_handle()));
    options.map(start).transpose().map_err(BackendError::Telemetry)
}

/// What lay in the hub or topic before the run counts as done.
async fn pass_over_what_is_there(
    source: &SourceConfig,
    group: &ConsumerGroup,
    store: &dyn connect::checkpoint::CheckpointStore,
) -> Result<(), BackendError> {
    let ends = match source {
        SourceConfig::EventHubs(source) => ends(source.client_options()?).await?,
        SourceConfig::Kafka(source) => connect::kafka::ends(&source.options).await?,
        SourceConfig::ServiceBus(_) => Vec::new(),
    };
    let is_read = |partition: PartitionId| {
        source.reading().is_some_and(|reading| reading.partitions.contains(partition.0))
    };
    for (partition, sequence_number) in ends.into_iter().filter(|(partition, _)| is_read(*partition)) {
        let sequence_number = Some(sequence_number);
        let group = group.clone();
        let checkpoint =
            Checkpoint { group, partition, sequence_number, offset: None, log_id: None, etag: None };
        store.update_checkpoint(checkpoint).await?;
    }
    Ok(())
}

/// The pipeline of a scenario between the two entities of a case.
fn pipeline(config: &RelayConfig) -> Result<PipelineConfig, BackendError> {
    let scenario = &config.relay;
    let mut relay = RelayOptions {
        route: scenario.route,
        dispatch_unit: scenario.dispatch.unit(),
        events_at_once: scenario.dispatch.events_at_once(),
        adapt_events: scenario.dispatch.is_adaptive(),
        order: scenario.dispatch.order(),
        sinks_at_once: scenario.dispatch.sinks_at_once(),
        seed: config.seed,
        in_flight: scenario.in_flight as usize,
        retry: scenario.retry.policy(scenario.try_timeout, config.seed),
        checkpoint: scenario.checkpoint,
        await_checkpoint: scenario.checkpoint_wait,
        start_position: match config.read_from {
            // All events of the run's own hub are to be read, so that it is noticed if the first ones are gone.
            ReadFrom::Beginning => StartPosition::AtSequenceNumber(0),
            ReadFrom::Now => StartPosition::Earliest,
        },
        failure_ratio: scenario.failure_ratio,
        restart_after: scenario.restart_after,
        ..RelayOptions::default()
    };
    let source = match (config.source.protocol, &config.source.entity) {
        (Protocol::Kafka, entity) => {
            let mut options = kafka::options(&config.source, entity)?;
            let Entity::Hub(hub) = entity else { return Err(BackendError::NoTopic(options.topic)) };
            if let Some(name) = options.properties.get(INSTANCE_ID) {
                // A name that is kept over restarts, and that no other has.
                let name = format!("{name}-{}", config.instance);
                options.properties.set(INSTANCE_ID, name);
            }
            let group = hub.consumer_group.clone();
            let cluster = options.properties.get(BOOTSTRAP).unwrap_or_default();
            relay.group = ConsumerGroup::new(cluster, &hub.name, &group);
            // How much is on its way, the properties say.
            let reading = ReadingConfig { adapt_prefetch: None, ..reading(config)? }.of_member(&options);
            SourceConfig::Kafka(Box::new(KafkaSourceConfig { options, topics: None, group, reading }))
        }
        (Protocol::Http, _) => return Err(BackendError::OnlyProducers),
        (Protocol::Amqp, Entity::Container(_)) => return Err(BackendError::NoRelayOfArchive),
        (Protocol::Amqp, Entity::Hub(hub)) => {
            let connection_string: ConnectionString = config.source.connection_string.reveal().parse()?;
            relay.group =
                ConsumerGroup::new(connection_string.endpoint.host(), &hub.name, &hub.consumer_group);
            let is_adaptive = scenario.prefetch == Prefetch::Adaptive;
            let adapt_prefetch = is_adaptive.then_some(relay.max_held_bytes);
            SourceConfig::EventHubs(Box::new(EventHubsSourceConfig {
                connection_string,
                hub: hub.name.clone(),
                consumer_group: hub.consumer_group.clone(),
                transport: transport(&config.source),
                certificate_authority: config.source.certificate_authority.clone(),
                reading: ReadingConfig { adapt_prefetch, ..reading(config)? },
            }))
        }
        (Protocol::Amqp, Entity::Queue(_) | Entity::Topic(_)) => {
            SourceConfig::ServiceBus(Box::new(ServiceBusSourceConfig {
                connection_string: config.source.connection_string.reveal().parse()?,
                entity: service_bus::entity(&config.source),
                receive: ReceiveOptions {
                    concurrency: scenario.messages_at_once(),
                    // A scenario that reads a queue has a number.
                    prefetch: scenario.prefetch.events().unwrap_or(0),
                    ..ReceiveOptions::default()
                },
                settlement: scenario.settlement,
                transport: transport(&config.source),
                certificate_authority: config.source.certificate_authority.clone(),
            }))
        }
    };
    let fans_out = config.destinations.iter().any(|destination| destination.entity.is_log());
    // Events that stay in their partition need none.
    let fan_out = (fans_out && !scenario.is_exactly_once()).then_some(scenario.fan_out);
    let sinks = config.destinations.iter().map(|to| sink(to, scenario)).collect::<Result<_, _>>()?;
    let transform = transforming::program(&scenario.transform)?;
    Ok(PipelineConfig {
        source,
        sinks,
        dead_letters: None,
        fan_out,
        metrics: None,
        open_telemetry: scenario.open_telemetry.settings(),
        transform,
        relay,
    })
}

/// How the partitions of a log are read.
fn reading(config: &RelayConfig) -> Result<ReadingConfig, BackendError> {
    let scenario = &config.relay;
    Ok(ReadingConfig {
        partitions: match scenario.ownership.is_shared() {
            true => Partitions::All,
            false => Partitions::EveryNth { first: config.instance, step: scenario.instances },
        },
        options: SourceOptions { batch: (&scenario.batch).into(), prefetch: scenario.prefetch.initial() },
        adapt_prefetch: None,
        checkpoint_store: checkpoint_store(config)?,
        ownership: scenario.ownership.clone(),
    })
}

fn sink(destination: &Endpoint, relay: &scenario::Relay) -> Result<SinkConfig, BackendError> {
    if destination.protocol == Protocol::Kafka {
        let options = kafka::options(destination, &destination.entity)?;
        return Ok(SinkConfig::Kafka(Box::new(KafkaSinkConfig { options })));
    }
    let connection_string = || destination.connection_string.reveal().parse::<ConnectionString>();
    let transport = transport(destination);
    let certificate_authority = destination.certificate_authority.clone();
    Ok(match &destination.entity {
        Entity::Hub(hub) => SinkConfig::EventHubs(Box::new(EventHubsSinkConfig {
            connection_string: connection_string()?,
            hub: hub.name.clone(),
            // The generator's events have none, and the study is about partitions.
            keep_keys: false,
            transport,
            certificate_authority,
        })),
        Entity::Container(container) => {
            let account = destination.connection_string.reveal().parse()?;
            let place = Place::Blob(Box::new(BlobPlace::new(account, container.name.as_str())));
            let usual = ArchiveOptions::new(place);
            let requests = relay.archive_requests.map_or(usual.concurrency, |requests| requests as usize);
            SinkConfig::Archive(Box::new(ArchiveOptions { concurrency: requests, ..usual }))
        }
        Entity::Queue(_) | Entity::Topic(_) => SinkConfig::ServiceBus(Box::new(ServiceBusSinkConfig {
            connection_string: connection_string()?,
            entity: service_bus::entity(destination),
            unit: match relay.send {
                // One by one, as the study's consumer does: a batch would be accepted or refused as a whole.
                Sends::Single => SendUnit::Event,
                Sends::Batch => SendUnit::Batch,
            },
            transport,
            certificate_authority,
        })),
    })
}

fn checkpoint_store(config: &RelayConfig) -> Result<CheckpointStoreConfig, BackendError> {
    if let (true, Some(destination)) = (config.relay.is_exactly_once(), config.destinations.first()) {
        let sink = kafka::options(destination, &destination.entity)?;
        let id = transactional_id(&sink, config);
        return Ok(CheckpointStoreConfig::Transactions(Box::new(TransactionsConfig { id, sink })));
    }
    Ok(match config.relay.checkpoint_store {
        CheckpointStore::Memory => CheckpointStoreConfig::Memory,
        CheckpointStore::Group => CheckpointStoreConfig::Group,
        CheckpointStore::File => CheckpointStoreConfig::Files(config.checkpoints.clone()),
        CheckpointStore::Blob => {
            let storage = config.storage.as_ref().ok_or(BackendError::NoStorage)?;
            let options = BlobStoreOptions::new(storage.reveal().parse()?, CHECKPOINT_CONTAINER);
            CheckpointStoreConfig::Blob(Box::new(options))
        }
    })
}

/// Whose transactions they are: this instance's, however often it is started.
fn transactional_id(sink: &KafkaOptions, config: &RelayConfig) -> String {
    let name = sink.properties.get("transactional.id").unwrap_or_else(|| config.source.entity.name());
    format!("{name}/{}", config.instance)
}

/// How often monitoring sees the metrics anew: as often as it is used to ask.
const PAGE_EVERY: Duration = Duration::from_secs(1);

/// The property that names a member of a group for good.
const INSTANCE_ID: &str = "group.instance.id";
