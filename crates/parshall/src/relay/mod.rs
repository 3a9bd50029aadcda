//! `parshall relay`: one pipeline on its own, until it is interrupted.
//!
//! * `plan` tells what a pipeline does, before it does it; `summary` what it did.
//! * `refusal` tells why it can't begin or go on, and what to do.
//! * `identity` names a relay among those that it shares partitions with.
//!
//! ```text
//!   first signal    no more batches; those under way are finished or given back; checkpoints; status 0
//!   second signal   the end at once, status 130: what was under way is read and sent again by the next relay
//! ```

mod identity;
mod plan;
mod refusal;
mod summary;

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use clap::Args;
use connect::checkpoint::blobs::BlobStoreOptions;
use connect::checkpoint::{BlobCheckpointStore, CheckpointStore, FileCheckpointStore, StoreError, Usage};
use connect::event::PartitionId;
use connect::event_hubs::{EventHubsOptions, EventHubsSink, EventHubsSource, HubNameError};
use connect::service::ClientOptions;
use connect::service_bus::{ServiceBusSink, ServiceBusSource};
use connect::sink::Sink;
use connect::source::Source;
use relay::health::lag;
use relay::metrics::{MetricsHandle, endpoint};
use relay::pipeline::{
    CheckpointStoreConfig, EventHubsSinkConfig, EventHubsSourceConfig, PipelineConfig, ServiceBusSinkConfig,
    ServiceBusSourceConfig, SinkConfig, SourceConfig,
};
use relay::{Relay, RelayError};
use settings::Document;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::exit::{CommandError, Exit};
use crate::{logging, output};
use plan::Plan;
use refusal::{End, with_causes};

/// The arguments of `relay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  parshall relay pipelines/fan-out.yaml --check
  parshall relay pipelines/fan-out.yaml
  parshall relay pipelines/queue-forward.yaml

A pipeline:
  source:
    event_hubs:
      connection_string: ${SOURCE_CONNECTION_STRING:?the namespace to read from}
      hub: orders
      consumer_group: $Default
  sink:
    event_hubs:
      connection_string: ${SINK_CONNECTION_STRING:?the namespace to write to}
      hub: orders-by-customer
  checkpoint:
    store: {files: ./checkpoints}      # or {blob: {connection_string: ..., container: ...}}
    write: each-batch                  # or {every: 1 s}
  route: key                           # or random, round-robin, same-partition
  batch: {events: 128, wait: 10 ms}
  poison_events: hold                  # or stop, or {dead_letter: FILE}: if the sink refuses events
  missed_events: report                # or stop: if retention took events before they were read
  ownership: {mode: greedy}            # share the partitions with other relays on the same store;
                                       # or balanced; renew: 10 s, expire: 60 s, identity: a name
  metrics: 127.0.0.1:9464              # /metrics, /health and /ready

From a queue or subscription, each message is settled once its destination has it; there is no
checkpoint:
  source:
    service_bus:
      connection_string: ${SOURCE_CONNECTION_STRING:?the namespace to receive from}
      queue: orders                    # or topic: and subscription:
      concurrency: 256                 # messages in work at once
      prefetch: 0                      # messages locked ahead of their turn
      lock_renewal: 5 min              # for how long locks are renewed
  sink:
    service_bus:
      connection_string: ${SINK_CONNECTION_STRING:?the namespace to send to}
      queue: forwarded                 # or topic:
      send: single                     # or batch

Delivery is at least once. SIGINT (Ctrl-C) or SIGTERM stops in good order: what is under way is
finished, progress is written, and the exit status is 0. A second signal ends at once, with 130;
nothing is lost either way. What can't mend itself ends it with 3: a right that is missing, a hub or
consumer group that is not there. Anything else is waited for; /ready says why events stand still. Logs go to standard error; PARSHALL_LOG says which, such as
PARSHALL_LOG=debug.")]
pub(crate) struct RelayArguments {
    /// The file that describes the pipeline: source, sink, and what is in between
    pipeline: PathBuf,

    /// Read the file, check everything that can be checked without connecting, and say what would be run
    #[arg(long)]
    check: bool,
}

/// Tells the plan, and unless that is all that was wanted carries events until SIGINT or SIGTERM.
pub(crate) fn execute(arguments: RelayArguments) -> Result<Exit, CommandError> {
    let mut document = Document::read(&arguments.pipeline)?;
    document.fill_in_environment()?;
    let config = PipelineConfig::from_document(&document)?;
    if arguments.check {
        return output::print(&Plan::new(&config).to_string());
    }
    logging::start()?;
    // Source, relay and sink hand over to one another without a lock or a wake-up: they share one thread.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::System)?;
    let result = runtime.block_on(run(&document, &config));
    // A name that is still being looked up must not hold up the end.
    runtime.shutdown_background();
    result
}

async fn run(document: &Document, config: &PipelineConfig) -> Result<Exit, CommandError> {
    let signals = Signals::new()?;
    let metrics = match config.metrics {
        Some(address) => {
            Some(TcpListener::bind(address).await.map_err(|error| CommandError::Unavailable {
                message: format!("the metrics can't be served on {address}: {error}"),
            })?)
        }
        None => None,
    };
    let tell = |handle: MetricsHandle| announce(config, metrics, handle);
    connect_and_carry(config, connect(document, config), signals, tell).await
}

/// Connects both ends, and makes the relay between them.
async fn connect(document: &Document, config: &PipelineConfig) -> Result<Relay, CommandError> {
    match &config.source {
        SourceConfig::EventHubs(from) => {
            // What cannot be kept is found out before anything is asked of the service.
            let store = store(config, from).await?;
            let source = hub_source(document, &config.source, from).await?;
            by_checkpoint(document, config, store, source, sink(config).await?)
        }
        SourceConfig::ServiceBus(from) => {
            let source = queue_source(&config.source, from).await?;
            let sink = sink(config).await?;
            let options = config.settling_options(sink.destinations());
            Relay::settling(options, Box::new(source), sink).map_err(|error| cannot_begin(document, &error))
        }
    }
}

async fn sink(config: &PipelineConfig) -> Result<Box<dyn Sink>, CommandError> {
    Ok(match &config.sink {
        SinkConfig::EventHubs(to) => Box::new(hub_sink(config, to).await?),
        SinkConfig::ServiceBus(to) => Box::new(queue_sink(&config.sink, to).await?),
    })
}

/// Tells the plan once there are connections, and serves the metrics if that is wanted.
fn announce(
    config: &PipelineConfig,
    metrics: Option<TcpListener>,
    handle: MetricsHandle,
) -> Result<(), CommandError> {
    let mut plan = Plan::new(config).to_string();
    if let Some(listener) = metrics {
        let address = listener.local_addr().map_err(CommandError::System)?;
        if let SourceConfig::EventHubs(source) = &config.source {
            let options = source_options(source)
                .map_err(|error| refusal::of_end(End::Source(&config.source), &error, ""))?;
            tokio::spawn(lag::watch(options, handle.clone()));
        }
        writeln!(plan, "metrics      http://{address}/metrics").expect("a string takes everything");
        tokio::spawn(endpoint::serve(listener, handle, std::future::pending()));
    }
    output::print(&plan).map(drop)
}

/// Makes a relay, and runs it.
async fn connect_and_carry(
    config: &PipelineConfig,
    relay: impl Future<Output = Result<Relay, CommandError>>,
    mut signals: Signals,
    tell: impl FnOnce(MetricsHandle) -> Result<(), CommandError>,
) -> Result<Exit, CommandError> {
    let relay = tokio::select! {
        biased;
        // Nothing is under way yet.
        () = signals.next() => return Ok(Exit::Passed),
        connected = relay => connected?,
    };
    tell(relay.metrics_handle())?;
    carry(config, relay, signals).await
}

/// Runs the relay until the signals end it.
async fn carry(
    config: &PipelineConfig,
    mut relay: Relay,
    mut signals: Signals,
) -> Result<Exit, CommandError> {
    let (stop, stopped) = oneshot::channel::<()>();
    let mut begun = relay.begun();
    let mut running = pin!(relay.run(async {
        // A dropped sender is a stop, too.
        let _ = stopped.await;
    }));
    let summary = loop {
        tokio::select! {
            biased;
            ended = &mut running => break ended,
            () = signals.next() => {
                tracing::info!("stopping; another signal ends at once");
                drop(stop);
                tokio::select! {
                    biased;
                    ended = &mut running => break ended,
                    () = signals.next() => return Ok(Exit::Interrupted),
                }
            }
            Ok(()) = &mut begun, if !begun.is_terminated() => {
                // Events are carried whether or not standard output can be written.
                let _ = output::print("\nRunning.\n");
            }
        }
    };
    let summary = summary.map_err(|error| refusal::of_relay(config, &error))?;
    // Where standard error itself cannot be written, the exit status is all that is left to tell.
    let _ = io::stderr()
        .write_all(summary::told(&summary, matches!(config.source, SourceConfig::ServiceBus(_))).as_bytes());
    Ok(Exit::Passed)
}

fn by_checkpoint(
    document: &Document,
    config: &PipelineConfig,
    store: Arc<dyn CheckpointStore>,
    mut source: EventHubsSource,
    sink: Box<dyn Sink>,
) -> Result<Relay, CommandError> {
    let destinations = sink.destinations();
    let partitions = source.partitions().last().map_or(0, |last| last.0 + 1);
    if config.keeps_partitions() && partitions > destinations {
        let reason = format!("the source has {partitions} partitions, and the sink {destinations}");
        let advice = format!(
            "`fan_out: {destinations}` sends partition n to n modulo {destinations}; `route: key` keeps what has the same \
             key together"
        );
        return Err(document.mistake("route", reason, advice).into());
    }
    let options = config.relay_options(destinations, &identity::made_up());
    if let Some(ownership) = &options.ownership {
        // As all processors that share partitions do: who claims a partition also takes over its link.
        source.set_owner_level(0);
        tracing::info!(identity = ownership.identity, "sharing partitions");
    }
    Relay::new(options, Box::new(source), sink, store).map_err(|error| cannot_begin(document, &error))
}

fn cannot_begin(document: &Document, error: &RelayError) -> CommandError {
    match error {
        RelayError::FanOut { destinations, .. } => {
            let advice = format!(
                "the sink has {destinations} destinations: allowed is 1 to {destinations}, or leave it out for all"
            );
            document.mistake("fan_out", error.to_string(), advice).into()
        }
        RelayError::Source(_)
        | RelayError::Sink(_)
        | RelayError::Store(_)
        | RelayError::Ownership(_)
        | RelayError::DeadLetters { .. }
        | RelayError::Poison { .. }
        | RelayError::MissedEvents { .. }
        | RelayError::Restarted { .. } => unavailable("the pipeline can't begin", error),
    }
}

/// The store of the checkpoints, locked against other relays where it can be.
async fn store(
    pipeline: &PipelineConfig,
    config: &EventHubsSourceConfig,
) -> Result<Arc<dyn CheckpointStore>, CommandError> {
    let refused = |error: StoreError| unavailable("the checkpoints can't be kept", &error);
    Ok(match &config.checkpoint_store {
        CheckpointStoreConfig::Files(folder) => {
            let store = FileCheckpointStore::open(folder).map_err(refused)?;
            let partitions: Option<Vec<_>> =
                config.partitions.as_ref().map(|ids| ids.iter().copied().map(PartitionId).collect());
            let usage = match (&config.ownership, &partitions) {
                (Some(_), _) => Usage::Shared,
                (None, Some(partitions)) => Usage::Partitions(partitions),
                (None, None) => Usage::Alone,
            };
            store.lock(pipeline.group(), usage).map_err(refused)?;
            Arc::new(store)
        }
        CheckpointStoreConfig::Blob(options) => {
            Arc::new(BlobCheckpointStore::open(BlobStoreOptions::clone(options)).await.map_err(refused)?)
        }
    })
}

/// How the hub that is read is reached.
fn source_options(config: &EventHubsSourceConfig) -> Result<EventHubsOptions, HubNameError> {
    let options = EventHubsOptions::new(config.connection_string.clone(), Some(&config.hub))?;
    Ok(EventHubsOptions {
        transport: config.transport,
        certificate_authority: config.certificate_authority.clone(),
        ..options
    })
}

async fn hub_source(
    document: &Document,
    end: &SourceConfig,
    config: &EventHubsSourceConfig,
) -> Result<EventHubsSource, CommandError> {
    let hub = &config.hub;
    let end = End::Source(end);
    let options = source_options(config).map_err(|error| refusal::of_end(end, &error, ""))?;
    let mut source = EventHubsSource::connect(options, &config.consumer_group, config.options)
        .await
        .map_err(|error| refusal::of_end(end, &error, &error.condition))?;
    if let Some(wanted) = &config.partitions {
        let existing = source.partitions();
        if let Some(missing) = wanted.iter().find(|&&id| !existing.contains(&PartitionId(id))) {
            let reason = format!("the hub {hub} has no partition {missing}");
            let advice = match (existing.first(), existing.last()) {
                (Some(first), Some(last)) => format!("it has {first} to {last}"),
                _ => "it has none at all".to_owned(),
            };
            return Err(document.mistake("source.event_hubs.partitions", reason, advice).into());
        }
        source.retain_partitions(|partition| wanted.contains(&partition.0));
    }
    if let Some(max_bytes) = config.adapt_prefetch {
        source.adapt_prefetch(max_bytes);
    }
    Ok(source)
}

async fn queue_source(
    end: &SourceConfig,
    config: &ServiceBusSourceConfig,
) -> Result<ServiceBusSource, CommandError> {
    let options = ClientOptions {
        transport: config.transport,
        certificate_authority: config.certificate_authority.clone(),
        ..ClientOptions::new(config.connection_string.clone(), config.entity.address())
    };
    ServiceBusSource::connect(options, config.receive)
        .await
        .map_err(|error| refusal::of_end(End::Source(end), &error, &error.condition))
}

async fn hub_sink(
    pipeline: &PipelineConfig,
    config: &EventHubsSinkConfig,
) -> Result<EventHubsSink, CommandError> {
    let EventHubsSinkConfig { connection_string, hub, transport, certificate_authority } = config;
    let end = End::Sink(&pipeline.sink);
    let mut options = EventHubsOptions::new(connection_string.clone(), Some(hub))
        .map_err(|error| refusal::of_end(end, &error, ""))?;
    options.transport = *transport;
    options.certificate_authority.clone_from(certificate_authority);
    let mut sink = EventHubsSink::connect(options)
        .await
        .map_err(|error| refusal::of_end(end, &error, &error.condition))?;
    if pipeline.keeps_keys(sink.destinations()) {
        sink.keep_keys();
    }
    Ok(sink)
}

async fn queue_sink(end: &SinkConfig, config: &ServiceBusSinkConfig) -> Result<ServiceBusSink, CommandError> {
    let options = ClientOptions {
        transport: config.transport,
        certificate_authority: config.certificate_authority.clone(),
        ..ClientOptions::new(config.connection_string.clone(), config.entity.address())
    };
    ServiceBusSink::connect(options, config.unit)
        .await
        .map_err(|error| refusal::of_end(End::Sink(end), &error, &error.condition))
}

/// SIGINT and SIGTERM, from the moment on at which this is made.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self, CommandError> {
        let listen = |kind| signal(kind).map_err(CommandError::System);
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// An error with all of its causes, in one line.
fn unavailable(what: &str, error: &dyn Error) -> CommandError {
    CommandError::Unavailable { message: with_causes(what, error) }
}
