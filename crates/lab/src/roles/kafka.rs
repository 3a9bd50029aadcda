//! Ends at topics of Kafka, which are hubs of the topology, by a client of ours or by one that is a program.

use std::collections::BTreeMap;

use connect::event::Encoding;
use connect::kafka::{self, Client, KafkaOptions};
use connect::sink::Sink;
use connect::source::{AnySource, Source, SourceOptions, StartPosition};

use super::backend::OpenedSource;
use super::client_program;
use super::network::BackendError;
use super::protocol::{Endpoint, ReadFrom};
use crate::scenario::{EndClient, Entity, KafkaClient};

/// Connects a worker that sends to the topic.
pub(super) async fn open_sink(endpoint: &Endpoint, entity: &Entity) -> Result<Box<dyn Sink>, BackendError> {
    if let Some(reached) = client_program::Reached::of(endpoint) {
        return Ok(Box::new(client_program::ProgramSink::start(&reached).await?));
    }
    Ok(kafka::connect_sink(&options(endpoint, entity)?).await?)
}

/// Connects a worker that receives from the topic.
pub(super) async fn open_source(
    endpoint: &Endpoint,
    entity: &Entity,
    options_of_source: SourceOptions,
    read_from: ReadFrom,
) -> Result<OpenedSource, BackendError> {
    let options = options(endpoint, entity)?;
    let program = client_program::Reached::of(endpoint);
    let source: Box<dyn Source> = match &program {
        Some(reached) => Box::new(client_program::ProgramSource::start(reached).await?),
        None => kafka::connect_source(&options, options_of_source, Encoding::Kafka).await?,
    };
    let partitions = source.partitions().into_iter();
    let mut positions: BTreeMap<_, _> =
        partitions.map(|partition| (partition, StartPosition::Earliest)).collect();
    if read_from == ReadFrom::Now {
        for (partition, offset) in kafka::ends(&options).await? {
            positions.insert(partition, StartPosition::AfterSequenceNumber(offset));
        }
    }
    Ok(OpenedSource {
        source: AnySource::ByCheckpoint(source),
        positions: positions.into_iter().collect(),
        is_stamped: program.is_some(),
    })
}

/// How the topic is reached by a client of ours, which asks for ends even where a program does the rest.
pub(super) fn options(endpoint: &Endpoint, entity: &Entity) -> Result<KafkaOptions, BackendError> {
    let access = endpoint.kafka.as_ref().filter(|_| entity.is_log());
    let access = access.ok_or_else(|| BackendError::NoTopic(entity.name().to_owned()))?;
    match &access.client {
        EndClient::Ours(client) => {
            let available = client.available().ok_or(BackendError::NoClient)?;
            let mut options = access.properties.options(entity.name(), available);
            if *client == KafkaClient::Librdkafka && options.properties.get(STATISTICS).is_none() {
                options.properties.set(STATISTICS, STATISTICS_EVERY_MS);
            }
            Ok(options)
        }
        EndClient::Program(_) => Ok(access.reached.options(entity.name(), Client::default())),
    }
}

/// How often librdkafka reports what it has measured: nothing else tells that brokers slow it down.
const STATISTICS: &str = "statistics.interval.ms";
const STATISTICS_EVERY_MS: &str = "1000";
