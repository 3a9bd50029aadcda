//! From a configuration to a relay that is ready to run: store, source and sink, in the order in which a mistake costs
//! least.

use std::sync::Arc;

use connect::archive;
use connect::checkpoint::blobs::BlobStoreOptions;
use connect::checkpoint::{
    BlobCheckpointStore, CheckpointStore, FileCheckpointStore, MemoryCheckpointStore, StoreError, Usage,
};
use connect::event::{Encoding, PartitionId};
use connect::event_hubs::{EventHubsOptions, EventHubsSink, EventHubsSource, HubNameError};
use connect::kafka::{self, GroupOffsetStore, TransactionOffsetStore, TransactionOptions};
use connect::partition_subset::PartitionSubset;
use connect::service::{ClientOptions, ServiceError};
use connect::service_bus::{ServiceBusSink, ServiceBusSource, TransactionalError, connect_transactional};
use connect::sink::Sink;
use connect::source::{SettlingSource, Source};
use relay::{Relay, RelayError};
use transform::Transformer;

use crate::vocabulary::Settlement;
use crate::{
    CheckpointStoreConfig, EventHubsSinkConfig, EventHubsSourceConfig, KafkaSourceConfig, Partitions,
    PipelineConfig, ReadingConfig, ServiceBusSinkConfig, ServiceBusSourceConfig, SinkConfig, SourceConfig,
    TransactionsConfig,
};

/// A pipeline whose checkpoints can be kept. Nothing has been asked of its services yet.
#[derive(Debug)]
pub struct OpenPipeline<'a> {
    config: &'a PipelineConfig,
    progress: Progress<'a>,
}

/// How it is known what is done.
#[derive(Debug)]
enum Progress<'a> {
    Checkpoints { source: LogConfig<'a>, store: Arc<dyn CheckpointStore> },
    Settlement { source: &'a ServiceBusSourceConfig },
}

/// A log to read.
#[derive(Clone, Copy, Debug)]
enum LogConfig<'a> {
    EventHubs(&'a EventHubsSourceConfig),
    Kafka(&'a KafkaSourceConfig),
}

/// Why a pipeline can't begin.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The checkpoints can't be kept.
    #[error("checkpoints can't be stored")]
    Store(#[from] StoreError),
    /// The source refuses or can't be reached.
    #[error("the source can't be used")]
    Source(#[source] EndError),
    /// The sink refuses or can't be reached.
    #[error("the sink can't be used")]
    Sink {
        /// Its place in the list of sinks.
        index: usize,
        /// Why.
        #[source]
        error: EndError,
    },
    /// The sink of dead letters refuses or can't be reached.
    #[error("the sink of dead letters can't be used")]
    DeadLetters(#[source] EndError),
    /// The source has no partition that is asked for.
    #[error("{log} has no partition {partition}")]
    NoSuchPartition {
        /// The hub or topic.
        log: String,
        /// The first partition that is missing.
        partition: PartitionId,
        /// Those that there are.
        existing: Vec<PartitionId>,
    },
    /// Events are to stay in their partition, and the sink has fewer.
    #[error("the source has {partitions} partitions, and the sink {destinations}")]
    TooFewDestinations {
        /// Of the source.
        partitions: u32,
        /// Of the sink.
        destinations: u32,
    },
    /// The parts do not make a pipeline.
    #[error("the pipeline can't start")]
    Relay(#[from] RelayError),
}

/// What is wrong with one end of a pipeline.
#[derive(Debug, thiserror::Error)]
pub enum EndError {
    /// The connection string is for another hub.
    #[error(transparent)]
    HubName(#[from] HubNameError),
    /// The service refuses or can't be reached.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl PipelineConfig {
    /// Opens the store of the checkpoints, if there are any, and locks it against other relays where it can be: what
    /// cannot be kept is found out before anything is asked of a service.
    ///
    /// # Errors
    /// When the store can't be opened, or is another relay's.
    pub async fn open(&self) -> Result<OpenPipeline<'_>, ConnectError> {
        let progress = match &self.source {
            SourceConfig::EventHubs(source) => {
                let store = open_store(self, &source.reading).await?;
                Progress::Checkpoints { source: LogConfig::EventHubs(source), store }
            }
            SourceConfig::Kafka(source) => {
                let store: Arc<dyn CheckpointStore> = match &source.reading.checkpoint_store {
                    CheckpointStoreConfig::Group if source.reading.ownership.is_membership() => {
                        Arc::new(GroupOffsetStore::open_as_member(&source.options, &source.group).await?)
                    }
                    CheckpointStoreConfig::Group => {
                        Arc::new(GroupOffsetStore::open(&source.options, &source.group).await?)
                    }
                    CheckpointStoreConfig::Transactions(transactions) => {
                        Arc::new(TransactionOffsetStore::open(&transactions.sink, &source.group).await?)
                    }
                    _ => open_store(self, &source.reading).await?,
                };
                Progress::Checkpoints { source: LogConfig::Kafka(source), store }
            }
            SourceConfig::ServiceBus(source) => Progress::Settlement { source },
        };
        Ok(OpenPipeline { config: self, progress })
    }

    /// How messages go through the relay: as records where nothing but Kafka is at its ends.
    fn encoding(&self) -> Encoding {
        match self.sinks.iter().all(|sink| matches!(sink, SinkConfig::Kafka(_))) {
            true => Encoding::Kafka,
            false => Encoding::Amqp,
        }
    }
}

impl OpenPipeline<'_> {
    /// Where the checkpoints are kept; none of a source that settles.
    #[must_use]
    pub const fn store(&self) -> Option<&Arc<dyn CheckpointStore>> {
        match &self.progress {
            Progress::Checkpoints { store, .. } => Some(store),
            Progress::Settlement { .. } => None,
        }
    }

    /// Connects both ends. Made within a tokio runtime with time and I/O. `identity` names the relay among those that it
    /// shares partitions with, unless the configuration does.
    ///
    /// # Errors
    /// When an end can't be connected, or does not fit the other.
    pub async fn connect(self, identity: &str) -> Result<Relay, ConnectError> {
        let transform = self.config.transform.clone();
        let mut relay = self.connect_ends(identity).await?;
        if let Some(program) = transform {
            relay.transform_by(Box::new(Transformer::new(program)));
        }
        Ok(relay)
    }

    async fn connect_ends(self, identity: &str) -> Result<Relay, ConnectError> {
        let Self { config, progress } = self;
        match progress {
            Progress::Checkpoints { source: from, store } => {
                let source = match from {
                    LogConfig::EventHubs(from) => hub_source(from).await?,
                    LogConfig::Kafka(from) => topic_source(from, config.encoding()).await?,
                };
                let partitions = source.partitions().last().map_or(0, |last| last.0 + 1);
                let sinks = match (config.transactions(), from) {
                    (Some(transactions), LogConfig::Kafka(from)) => {
                        vec![transactional_sink(transactions, from, partitions).await?]
                    }
                    _ => sinks(config).await?,
                };
                let destinations = most_destinations(&sinks);
                // An archive has all partitions, each under its name.
                let with_partitions = config
                    .sinks
                    .iter()
                    .zip(&sinks)
                    .filter(|(config, _)| !matches!(config, SinkConfig::Archive(_)));
                let fewest = with_partitions.map(|(_, sink)| sink.destinations()).min();
                let fewest = fewest.unwrap_or(u32::MAX);
                if config.keeps_partitions() && partitions > fewest {
                    let destinations = fewest;
                    return Err(ConnectError::TooFewDestinations { partitions, destinations });
                }
                let options = config.relay_options(destinations, identity);
                let mut relay = Relay::new(options, source, sinks, store)?;
                if let Some(to) = &config.dead_letters {
                    let sink = sink(config, to).await.map_err(ConnectError::DeadLetters)?;
                    relay.send_dead_letters_to(sink)?;
                }
                Ok(relay)
            }
            Progress::Settlement { source: from } => {
                let (source, sinks): (Box<dyn SettlingSource>, _) = match (from.settlement, &config.sinks[..])
                {
                    (Settlement::Transactional, [SinkConfig::ServiceBus(to)]) => {
                        let (source, sink) = transactional_ends(from, to).await?;
                        (source, vec![sink])
                    }
                    _ => (Box::new(queue_source(from).await?), sinks(config).await?),
                };
                let options = config.settling_options(most_destinations(&sinks));
                Ok(Relay::settling(options, source, sinks)?)
            }
        }
    }
}

async fn open_store(
    pipeline: &PipelineConfig,
    config: &ReadingConfig,
) -> Result<Arc<dyn CheckpointStore>, StoreError> {
    Ok(match &config.checkpoint_store {
        // Committed offsets are for topics; the file was checked for that.
        CheckpointStoreConfig::Memory
        | CheckpointStoreConfig::Group
        | CheckpointStoreConfig::Transactions(_) => Arc::new(MemoryCheckpointStore::new()),
        CheckpointStoreConfig::Files(folder) => {
            let store = FileCheckpointStore::open(folder)?;
            let listed: Vec<PartitionId>;
            let usage = match &config.partitions {
                _ if config.ownership.is_shared() => Usage::Shared,
                Partitions::All => Usage::Alone,
                Partitions::Listed(partitions) => {
                    listed = partitions.iter().copied().map(PartitionId).collect();
                    Usage::Partitions(&listed)
                }
                // Those who divide them know of one another.
                Partitions::EveryNth { .. } => Usage::Shared,
            };
            store.lock(pipeline.group(), usage)?;
            Arc::new(store)
        }
        CheckpointStoreConfig::Blob(options) => {
            Arc::new(BlobCheckpointStore::open(BlobStoreOptions::clone(options)).await?)
        }
    })
}

impl EventHubsSourceConfig {
    /// How the hub is reached.
    ///
    /// # Errors
    /// When the connection string is for another hub.
    pub fn client_options(&self) -> Result<EventHubsOptions, HubNameError> {
        let options = EventHubsOptions::new(self.connection_string.clone(), Some(&self.hub))?;
        Ok(EventHubsOptions {
            transport: self.transport,
            certificate_authority: self.certificate_authority.clone(),
            ..options
        })
    }
}

async fn hub_source(config: &EventHubsSourceConfig) -> Result<Box<dyn Source>, ConnectError> {
    let refused = |error: EndError| ConnectError::Source(error);
    let reading = &config.reading;
    let options = config.client_options().map_err(|error| refused(error.into()))?;
    let mut source = EventHubsSource::connect(options, &config.consumer_group, reading.options)
        .await
        .map_err(|error| refused(error.into()))?;
    reading.partitions.check(&format!("the hub {}", config.hub), source.partitions())?;
    source.retain_partitions(|partition| reading.partitions.contains(partition.0));
    if let Some(max_bytes) = reading.adapt_prefetch {
        source.adapt_prefetch(max_bytes);
    }
    if reading.ownership.is_shared() {
        // As all processors that share partitions do: the one that claims a partition also takes over its link.
        source.set_owner_level(0);
    }
    Ok(Box::new(source))
}

async fn topic_source(
    config: &KafkaSourceConfig,
    encoding: Encoding,
) -> Result<Box<dyn Source>, ConnectError> {
    let KafkaSourceConfig { options, reading, .. } = config;
    let connected = kafka::connect_source(options, reading.options, encoding).await;
    let source = connected.map_err(|error| ConnectError::Source(error.into()))?;
    reading.partitions.check(&format!("the topic {}", options.topic), source.partitions())?;
    Ok(match &reading.partitions {
        Partitions::All => source,
        some => Box::new(PartitionSubset::new(source, |partition| some.contains(partition.0))),
    })
}

impl Partitions {
    /// All that are listed are there.
    fn check(&self, log: &str, existing: Vec<PartitionId>) -> Result<(), ConnectError> {
        let Self::Listed(wanted) = self else { return Ok(()) };
        let missing = wanted.iter().copied().map(PartitionId).find(|id| !existing.contains(id));
        missing.map_or(Ok(()), |partition| {
            Err(ConnectError::NoSuchPartition { log: log.to_owned(), partition, existing })
        })
    }
}

async fn queue_source(config: &ServiceBusSourceConfig) -> Result<ServiceBusSource, ConnectError> {
    let connected = ServiceBusSource::connect(config.client_options(), config.receive).await;
    connected.map_err(|error| ConnectError::Source(error.into()))
}

/// Both ends of a pipeline whose messages are settled in the transactions that they are sent in.
async fn transactional_ends(
    from: &ServiceBusSourceConfig,
    to: &ServiceBusSinkConfig,
) -> Result<(Box<dyn SettlingSource>, Box<dyn Sink>), ConnectError> {
    let connected = connect_transactional(from.client_options(), from.receive, &to.client_options()).await;
    let (source, sink) = connected.map_err(|error| match error {
        TransactionalError::Source(error) => ConnectError::Source(error.into()),
        TransactionalError::Sink(error) => ConnectError::Sink { index: 0, error: error.into() },
    })?;
    Ok((Box::new(source), Box::new(sink)))
}

impl ServiceBusSourceConfig {
    fn client_options(&self) -> ClientOptions {
        ClientOptions {
            transport: self.transport,
            certificate_authority: self.certificate_authority.clone(),
            ..ClientOptions::new(self.connection_string.clone(), self.entity.address())
        }
    }
}

impl ServiceBusSinkConfig {
    fn client_options(&self) -> ClientOptions {
        ClientOptions {
            transport: self.transport,
            certificate_authority: self.certificate_authority.clone(),
            ..ClientOptions::new(self.connection_string.clone(), self.entity.address())
        }
    }
}

async fn sinks(config: &PipelineConfig) -> Result<Vec<Box<dyn Sink>>, ConnectError> {
    let mut sinks = Vec::new();
    for (index, to) in config.sinks.iter().enumerate() {
        let sink = sink(config, to).await.map_err(|error| ConnectError::Sink { index, error })?;
        sinks.push(sink);
    }
    Ok(sinks)
}

/// The sink of a pipeline that delivers exactly once, from a topic with so many partitions.
async fn transactional_sink(
    config: &TransactionsConfig,
    from: &KafkaSourceConfig,
    partitions: u32,
) -> Result<Box<dyn Sink>, ConnectError> {
    let options = TransactionOptions {
        id: config.id.clone(),
        group: from.group.clone(),
        topic: from.options.topic.clone(),
        partitions,
        interval: TransactionOptions::INTERVAL,
    };
    let connected = kafka::connect_transactional_sink(&config.sink, options).await;
    connected.map_err(|error| ConnectError::Sink { index: 0, error: error.into() })
}

/// The destinations of the sink that has the most: a fan-out to all of them is one to all of every other sink.
fn most_destinations(sinks: &[Box<dyn Sink>]) -> u32 {
    sinks.iter().map(|sink| sink.destinations()).max().unwrap_or(0)
}

async fn sink(pipeline: &PipelineConfig, config: &SinkConfig) -> Result<Box<dyn Sink>, EndError> {
    Ok(match config {
        SinkConfig::EventHubs(to) => Box::new(hub_sink(pipeline, to).await?),
        SinkConfig::Kafka(to) => kafka::connect_sink(&to.options).await?,
        SinkConfig::ServiceBus(to) => Box::new(queue_sink(to).await?),
        SinkConfig::Archive(to) => archive::connect(to, &pipeline.source.archived()).await?,
    })
}

async fn hub_sink(
    pipeline: &PipelineConfig,
    config: &EventHubsSinkConfig,
) -> Result<EventHubsSink, EndError> {
    let mut options = EventHubsOptions::new(config.connection_string.clone(), Some(&config.hub))?;
    options.transport = config.transport;
    options.certificate_authority.clone_from(&config.certificate_authority);
    let mut sink = EventHubsSink::connect(options).await?;
    if config.keep_keys && pipeline.keeps_keys(sink.destinations()) {
        sink.keep_keys();
    }
    Ok(sink)
}

async fn queue_sink(config: &ServiceBusSinkConfig) -> Result<ServiceBusSink, EndError> {
    Ok(ServiceBusSink::connect(config.client_options(), config.unit).await?)
}
