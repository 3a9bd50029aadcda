//! What a pipeline does, told before it does it. No secret is in it.

use std::fmt;
use std::time::Duration;

use access::{ConnectionString, Credential, TransportSecurity};
use connect::archive::{ArchiveFiles, ArchiveOptions, EventFormat, FileFormat, Place, Rolling};
use connect::checkpoint::blobs::{MissingContainer, Spelling};
use connect::kafka::KafkaOptions;
use connect::sink::SendUnit;
use pipeline::vocabulary::OwnershipMode;
use pipeline::{CheckpointStoreConfig, Partitions, PipelineConfig, ReadingConfig, SinkConfig, SourceConfig};
use relay::route::Route;
use relay::{CheckpointPolicy, DispatchUnit, MissedEvents, PoisonEvents, RelayOptions};
use units::duration;

/// A pipeline, told one thing per line, what it is first.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    config: &'a PipelineConfig,
}

impl<'a> Plan<'a> {
    pub(super) const fn new(config: &'a PipelineConfig) -> Self {
        Self { config }
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.config;
        let options = config.relay_options(1, "");
        match &config.source {
            SourceConfig::EventHubs(source) => {
                let of = place(&source.hub, &source.connection_string);
                let group = &source.consumer_group;
                let partitions = partitions(&source.reading);
                writeln!(f, "source       {of}, consumer group {group}, {partitions}")?;
            }
            SourceConfig::Kafka(source) => {
                let (of, partitions) = (topic(&source.options), partitions(&source.reading));
                writeln!(f, "source       {of}, consumer group {}, {partitions}", source.group)?;
                if let Some(topics) = &source.topics {
                    let refresh = duration::text(topics.refresh());
                    writeln!(f, "topics       all that match {topics}; new ones every {refresh}")?;
                }
            }
            SourceConfig::ServiceBus(source) => {
                let of = place(&source.entity.to_string(), &source.connection_string);
                writeln!(f, "source       {of}")?;
            }
        }
        if let Some(transform) = config.transform.as_ref().filter(|transform| transform.steps() > 0) {
            writeln!(f, "transform    {} steps before events are sent", transform.steps())?;
        }
        for (index, sink) in config.sinks.iter().enumerate() {
            match sink {
                SinkConfig::EventHubs(sink) => {
                    let to = place(&sink.hub, &sink.connection_string);
                    writeln!(f, "sink         {to}")?;
                }
                SinkConfig::Kafka(sink) => writeln!(f, "sink         {}", topic(&sink.options))?,
                SinkConfig::ServiceBus(sink) => {
                    let to = place(&sink.entity.to_string(), &sink.connection_string);
                    let unit = match sink.unit {
                        SendUnit::Event => "one by one",
                        SendUnit::Batch => "in batches",
                    };
                    writeln!(f, "sink         {to}, {unit}")?;
                }
                SinkConfig::Archive(archive) => write_archive(f, archive)?,
            }
            if let Some(when) = config.transform.as_ref().and_then(|transform| transform.condition(index)) {
                writeln!(f, "             events for which {when}")?;
            }
            if let Some(what) = not_kept(&config.source, sink, options.route) {
                writeln!(f, "not kept     {what}")?;
            }
        }
        let route = match options.route {
            Route::Random => "random",
            Route::Key => "key",
            Route::RoundRobin => "round-robin",
            Route::SamePartition => "same-partition",
        };
        let has_partitions = |sink: &SinkConfig| match sink {
            SinkConfig::EventHubs(_) | SinkConfig::Kafka(_) => true,
            SinkConfig::ServiceBus(_) | SinkConfig::Archive(_) => false,
        };
        let has_partitions = config.sinks.iter().any(has_partitions);
        match config.fan_out {
            _ if !has_partitions => {}
            Some(fan_out) => writeln!(f, "route        {route}, to the first {fan_out} partitions")?,
            None => writeln!(f, "route        {route}, to all partitions")?,
        }
        let bound = |bound: usize| if bound == usize::MAX { "all".to_owned() } else { bound.to_string() };
        let unit = match options.dispatch_unit {
            DispatchUnit::Batch => "batch",
            DispatchUnit::Event => "event",
        };
        let bounds = (options.events_at_once, options.sinks_at_once);
        if options.dispatch_unit == DispatchUnit::Event || bounds != (usize::MAX, usize::MAX) {
            let (events, sinks) = (bound(options.events_at_once), bound(options.sinks_at_once));
            let least = if options.adapt_events { "as many as are worth it up to " } else { "" };
            writeln!(f, "dispatch     {least}{events} events at once, each {unit} to {sinks} sinks at once")?;
        }
        if let Some(reading) = config.source.reading() {
            let batch = reading.options.batch;
            let order = match options.in_flight {
                1 => "in order per destination".to_owned(),
                sends => format!("{sends} concurrent sends to each destination"),
            };
            let adapts = match reading.adapt_prefetch {
                Some(_) => " or more (adaptive)",
                None => "",
            };
            writeln!(
                f,
                "batch        {} events or {}, {order}, {} events prefetched{adapts}",
                batch.max_events,
                duration::text(batch.max_wait),
                reading.options.prefetch,
            )?;
        }
        if let SourceConfig::ServiceBus(source) = &config.source {
            let receive = source.receive;
            let renewed = match receive.lock_renewal {
                Duration::ZERO => "locks are not renewed".to_owned(),
                limit => format!("locks renewed for {}", duration::text(limit)),
            };
            writeln!(
                f,
                "concurrency  {} messages, {} prefetched, {renewed}",
                receive.concurrency, receive.prefetch,
            )?;
        }
        writeln!(
            f,
            "retry        {} tries of {} each",
            options.retry.attempts,
            duration::text(options.retry.try_timeout),
        )?;
        match config.source.reading() {
            Some(reading) => {
                write_progress(f, reading, &options)?;
                match &options.poison_events {
                    _ if config.dead_letters.is_some() => {
                        writeln!(f, "poison       permanently refused events go to a sink of their own")?;
                    }
                    PoisonEvents::Hold => {}
                    PoisonEvents::Stop => {
                        writeln!(f, "poison       permanently refused events stop the relay")?;
                    }
                    PoisonEvents::DeadLetter(path) => {
                        writeln!(f, "poison       permanently refused events go to {}", path.display())?
                    }
                }
                if options.missed_events == MissedEvents::Stop {
                    writeln!(f, "missed       events removed by retention stop the relay")?;
                }
            }
            None => {
                writeln!(f, "settlement   each message, once the destination has accepted it")?;
            }
        }
        if options.failure_ratio > 0.0 {
            writeln!(f, "failures     {} of all sends, injected", options.failure_ratio)?;
        }
        Ok(())
    }
}

/// What of an event does not get to a sink, beside its numbers and times, as the tables of `docs/relaying.md` have it.
fn not_kept(source: &SourceConfig, sink: &SinkConfig, route: Route) -> Option<&'static str> {
    let is_of_kafka = matches!(source, SourceConfig::Kafka(_));
    match sink {
        SinkConfig::Kafka(_) if is_of_kafka => None,
        SinkConfig::EventHubs(_) | SinkConfig::ServiceBus(_) if is_of_kafka => Some("timestamps"),
        SinkConfig::Kafka(_) => {
            Some("types of properties other than bytes, footers, durability, priority, time to live")
        }
        SinkConfig::EventHubs(_) if route != Route::Key => {
            Some("partition keys, durability, priority, time to live")
        }
        SinkConfig::EventHubs(_) | SinkConfig::ServiceBus(_) => Some("durability, priority, time to live"),
        SinkConfig::Archive(archive) => match archive.files {
            ArchiveFiles::PerEvent(EventFormat::Body) => Some("everything but the body"),
            ArchiveFiles::Rolled(Rolling { format: FileFormat::Avro | FileFormat::Parquet, .. })
                if !is_of_kafka =>
            {
                Some(
                    "ids and other properties of messages, types of properties, durability, priority, time to live",
                )
            }
            ArchiveFiles::PerEvent(EventFormat::Json) | ArchiveFiles::Rolled(_) if is_of_kafka => None,
            ArchiveFiles::PerEvent(EventFormat::Json) | ArchiveFiles::Rolled(_) => {
                Some("durability, priority, time to live")
            }
        },
    }
}

/// Where events are archived, and as what.
fn write_archive(f: &mut fmt::Formatter<'_>, archive: &ArchiveOptions) -> fmt::Result {
    let content = match archive.files {
        ArchiveFiles::PerEvent(EventFormat::Body) => "for each event, with its body".to_owned(),
        ArchiveFiles::PerEvent(EventFormat::Json) => "for each event, with all of it as JSON".to_owned(),
        ArchiveFiles::Rolled(Rolling { size, every, format }) => {
            let format = match format {
                FileFormat::Ndjson => "lines of JSON",
                FileFormat::Avro => "records of Avro",
                FileFormat::Parquet => "rows of Parquet",
            };
            format!("with {format}, complete with {size} or after {}", duration::text(every))
        }
    };
    match &archive.place {
        Place::Blob(place) => {
            let missing = match place.missing_container {
                MissingContainer::Refuse => "",
                MissingContainer::Create => ", created if missing",
            };
            let endpoint = &place.connection_string.blob_endpoint;
            writeln!(f, "archive      container {} at {endpoint}{missing}", place.container)?;
        }
        Place::Bucket(place) => writeln!(f, "archive      bucket {place}")?,
        Place::Folder(folder) => writeln!(f, "archive      folder {}", folder.display())?,
    }
    let name = archive.name.clone().unwrap_or_else(|| archive.files.default_name());
    writeln!(f, "             {name} {content}; {} at once", archive.concurrency)
}

/// Where it is kept how far a hub was read, and who else reads it.
fn write_progress(
    f: &mut fmt::Formatter<'_>,
    reading: &ReadingConfig,
    options: &RelayOptions,
) -> fmt::Result {
    let policy = match options.checkpoint {
        CheckpointPolicy::EachBatch if options.await_checkpoint => {
            "after each batch, before the next one begins".to_owned()
        }
        CheckpointPolicy::EachBatch => "after each batch".to_owned(),
        CheckpointPolicy::Every(interval) => format!("every {}", duration::text(interval)),
    };
    match &reading.checkpoint_store {
        CheckpointStoreConfig::Memory => writeln!(f, "checkpoints  {policy}, in memory")?,
        CheckpointStoreConfig::Files(folder) => {
            writeln!(f, "checkpoints  {policy}, in {}", folder.display())?;
        }
        CheckpointStoreConfig::Group => {
            writeln!(f, "checkpoints  {policy}, as committed offsets of the group")?;
        }
        CheckpointStoreConfig::Transactions(transactions) => {
            writeln!(f, "delivery     exactly once, transactional id {}", transactions.id)?;
            writeln!(
                f,
                "checkpoints  with each transaction, as committed offsets in the cluster of the sink"
            )?;
            return writeln!(f, "             a second relay with the same transactional id stops this one");
        }
        CheckpointStoreConfig::Blob(options) => {
            let names = match options.spelling {
                Spelling::Found => "existing names",
                Spelling::AsGiven => "names as given",
                Spelling::LowerCase => "names in lower case",
            };
            let missing = match options.missing_container {
                MissingContainer::Refuse => "",
                MissingContainer::Create => ", created if missing",
            };
            writeln!(
                f,
                "checkpoints  {policy}, in blobs at {}/{}, {names}{missing}",
                options.connection_string.blob_endpoint, options.container,
            )?;
        }
    }
    let ownership = &reading.ownership;
    let mode = match ownership.mode {
        OwnershipMode::Static => None,
        OwnershipMode::Balanced => Some("balanced"),
        OwnershipMode::Greedy => Some("greedy"),
        OwnershipMode::Group => Some("group"),
    };
    let is_locked =
        !matches!(reading.checkpoint_store, CheckpointStoreConfig::Blob(_) | CheckpointStoreConfig::Group);
    if mode.is_none() && !is_locked {
        writeln!(
            f,
            "             not locked: without `ownership`, a second relay on them would duplicate every event"
        )?;
    }
    if ownership.is_membership() {
        writeln!(
            f,
            "ownership    as a member of the group, heartbeat every {}, session of {}",
            duration::text(ownership.renew),
            duration::text(ownership.expire),
        )?;
    } else if let Some(mode) = mode {
        writeln!(
            f,
            "ownership    {mode}, renewed every {}, expires after {}",
            duration::text(ownership.renew),
            duration::text(ownership.expire),
        )?;
    }
    Ok(())
}

fn place(entity: &str, connection_string: &ConnectionString) -> String {
    let address = connection_string.amqp_address();
    let security = match address.security {
        TransportSecurity::Tls => "",
        TransportSecurity::Plain => ", without TLS",
    };
    let who = match connection_string.credential {
        Credential::Identity => ", by the identity of the process",
        Credential::Key(_) | Credential::Signature(_) => "",
    };
    format!("{entity} at {}:{}{security}{who}", address.host, address.port)
}

/// The topic and its brokers.
fn topic(options: &KafkaOptions) -> String {
    let brokers = options.properties.get("bootstrap.servers").unwrap_or_default();
    let security = options.properties.get("security.protocol").unwrap_or_default().to_ascii_uppercase();
    let is_plain = !security.ends_with("SSL");
    let client = options.client;
    let security = if is_plain { ", without TLS" } else { "" };
    format!("topic {} at {brokers}{security}, {client} client", options.topic)
}

fn partitions(reading: &ReadingConfig) -> String {
    match &reading.partitions {
        Partitions::All => "all partitions".to_owned(),
        Partitions::Listed(partitions) => format!("partitions {}", list(partitions)),
        Partitions::EveryNth { first, step } => format!("every {step}th partition from {first}"),
    }
}

fn list(partitions: &[u32]) -> String {
    let texts: Vec<String> = partitions.iter().map(u32::to_string).collect();
    texts.join(", ")
}
