//! `parshall relay`: one pipeline on its own, until it is interrupted.
//!
//! * `plan` tells what a pipeline does, before it does it; `summary` what it did.
//! * `refusal` tells why it can't begin or go on, and what to do.
//! * `topics` carries all topics that match a pattern, each with a relay of its own.
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
mod topics;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::pin::pin;

use clap::Args;
use pipeline::{ConnectError, PipelineConfig, SourceConfig};
use relay::Relay;
use relay::health::lag::{self, HubEnds, TopicEnds};
use relay::metrics::MetricsHandle;
use relay::metrics::endpoint::{self, Relays};
use settings::Document;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::exit::{CommandError, Exit};
use crate::file_kind::FileKind;
use crate::open_telemetry::OpenTelemetry;
use crate::signals::StopSignals;
use crate::{listening, logging, output};
use plan::Plan;

/// The arguments of `relay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  parshall relay pipelines/fan-out.yaml --check
  parshall relay pipelines/fan-out.yaml
  parshall relay pipelines/queue-forward.yaml
  parshall relay pipelines/mirror.yaml

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
  poison_events: hold                  # or stop, or {dead_letter: FILE or a sink}: if the sink
                                       # refuses events
  dispatch: {events: 1000, sinks: 1}   # at once: events in work, sinks that have one of them;
                                       # a list `sinks:` in place of `sink:` sends to each of them.
                                       # Event by event: serial, parallel-sinks, parallel, or
                                       # {strategy: parallel-events, events: 64}
  transform:                           # before events are sent; conditions and values are CEL
  - filter: 'properties.region == \"eu\" && key != \"test\"'
  - rename: {device_id: device}
  - set: {pipeline: '\"orders\"'}
  - drop: [debug]                      # and `when: <condition>` within a sink: only these go there
  missed_events: report                # or stop: if retention removed events before they were read
  ownership: {mode: greedy}            # share the partitions with other relays on the same store;
                                       # or balanced; renew: 10 s, expire: 60 s, identity: a name
  metrics: 127.0.0.1:9464              # /metrics, /live and /ready
  open_telemetry:                      # traces and metrics to a collector, also by the variables OTEL_*
    {endpoint: 'http://localhost:4318', traces: 0.01, metrics: 60 s}

To keep every event, too, in a container or a folder (docs/archiving.md):
  sinks:
  - event_hubs: {connection_string: ..., hub: orders-by-customer}
  - archive:
      to: {blob: {connection_string: ..., container: archive}}   # or {folder: ./archive}
      files: {size: 64 MiB, every: 5 min}                        # or per-event
      format: avro                                               # ndjson, parquet; body, json

From a queue or subscription, each message is settled once the destination accepts it, without
checkpoints:
  source:
    service_bus:
      connection_string: ${SOURCE_CONNECTION_STRING:?the namespace to receive from}
      queue: orders                    # or topic: and subscription:
      concurrency: 256                 # messages processed at once
      prefetch: 0                      # messages to prefetch, which locks them
      lock_renewal: 5 min              # how long locks are renewed
  sink:
    service_bus:
      connection_string: ${SINK_CONNECTION_STRING:?the namespace to send to}
      queue: forwarded                 # or topic:
      send: single                     # or batch

From or to a topic of Kafka, in any combination with the others:
  source:
    kafka:
      bootstrap: localhost:9092        # or connection_string:, for Event Hubs
      topic: orders
      group: parshall                  # whose committed offsets are the checkpoints
      properties: {security.protocol: SASL_SSL, sasl.username: ..., sasl.password: ...}
      # topics: {match: 'orders-.*', except: '.*-test'}   all of them, in place of `topic`
  sink:
    kafka: {bootstrap: 'other:9092', topic: orders, properties: {acks: all, compression.type: lz4}}
    # `topic: '{topic}'` is the topic of the source, and `hub: 'mirror-{topic}'` a hub for each
  checkpoint: {store: group}           # or files, blob as above
  ownership: {mode: group}             # share the partitions as members of the consumer group

From topic to topic, events and progress can be committed together:
  delivery: exactly-once               # then `checkpoint` may be left out; default at-least-once
  route: same-partition

Otherwise delivery is at least once. SIGINT (Ctrl-C), SIGTERM or SIGHUP stops gracefully: events
in flight are finished, progress is written, and the exit status is 0. A second signal exits
immediately with status 130. Nothing is lost either way. Permanent errors, such as a missing
permission, hub or consumer group, exit with status 3. All other errors are retried; /ready
reports why events stall. Logs go to standard error, with --log-format json as JSON;
PARSHALL_LOG sets the level, such as PARSHALL_LOG=debug.")]
pub(crate) struct RelayArguments {
    /// The file that describes the pipeline: source, sink, and everything between them
    pipeline: PathBuf,

    /// Check the file without connecting, and print the plan
    #[arg(long)]
    check: bool,
}

/// Prints the plan and, unless only that was asked for, carries events until a signal asks it to stop.
pub(crate) fn execute(arguments: RelayArguments, quiet: bool) -> Result<Exit, CommandError> {
    let mut document = FileKind::Pipeline.read(&arguments.pipeline)?;
    document.fill_in_environment()?;
    let config = PipelineConfig::from_document(&document)?;
    if arguments.check {
        return output::print(&Plan::new(&config).to_string());
    }
    logging::start(quiet)?;
    // Source, relay and sink hand over to one another without a lock or a wake-up: they share one thread.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::System)?;
    let result = runtime.block_on(run(&document, &config));
    // A name that is still being looked up must not hold up the end.
    runtime.shutdown_background();
    result
}

async fn run(document: &Document, config: &PipelineConfig) -> Result<Exit, CommandError> {
    let mut signals = StopSignals::listen()?;
    let metrics = match config.metrics {
        Some(address) => Some(TcpListener::bind(address).await.map_err(|error| CommandError::Listen {
            message: format!("the metrics can't be served on {address}: {error}"),
            advice: listening::advice(&error, address, "metrics: "),
        })?),
        None => None,
    };
    if let Some(pattern) = config.topics() {
        return topics::run(document, config, pattern, metrics, signals).await;
    }
    let relay = tokio::select! {
        biased;
        _ = signals.next() => {
            tell(STOPPED_WHILE_CONNECTING);
            return Ok(Exit::Passed);
        }
        connected = connect(config) => {
            connected.map_err(|error| refusal::of_connecting(document, config, &error))?
        }
    };
    let telemetry = export(config, relay.metrics_handle())?;
    let relay = traced(config, relay, &telemetry);
    announce(config, metrics, relay.metrics_handle(), &telemetry)?;
    carry(config, relay, telemetry, signals).await
}

async fn connect(config: &PipelineConfig) -> Result<Relay, ConnectError> {
    let identity = identity::made_up();
    let relay = config.open().await?.connect(&identity).await?;
    if let Some(ownership) = config.relay_options(1, &identity).ownership {
        tracing::info!(identity = ownership.identity, "sharing partitions");
    }
    Ok(relay)
}

/// Exports what `relays` tell, if the file or the environment says where to.
fn export(config: &PipelineConfig, relays: impl Into<Relays>) -> Result<OpenTelemetry, CommandError> {
    OpenTelemetry::start("parshall-relay", &config.open_telemetry, relays.into())
}

/// The relay, traced if there are traces.
fn traced(config: &PipelineConfig, relay: Relay, telemetry: &OpenTelemetry) -> Relay {
    match telemetry.tracer() {
        Some(tracer) => config.traced(relay, tracer),
        None => relay,
    }
}

/// Tells the plan once there are connections, and serves the metrics if that is wanted.
fn announce(
    config: &PipelineConfig,
    metrics: Option<TcpListener>,
    handle: MetricsHandle,
    telemetry: &OpenTelemetry,
) -> Result<(), CommandError> {
    let mut plan = Plan::new(config).to_string();
    plan.push_str(&telemetry.line());
    if metrics.is_some() || telemetry.exports_metrics() {
        watch_lag(config, handle.clone());
    }
    if let Some(listener) = metrics {
        let address = listener.local_addr().map_err(CommandError::System)?;
        writeln!(plan, "metrics      http://{address}/metrics").expect("a string takes everything");
        serve(listener, handle)?;
    }
    output::print(&plan).map(drop)
}

/// Serves metrics, liveness and readiness from now on.
fn serve(listener: TcpListener, relays: impl Into<Relays>) -> Result<(), CommandError> {
    listener.into_std().and_then(|listener| endpoint::serve(listener, relays)).map_err(CommandError::System)
}

/// Finds out how far the ends of the partitions are, for the metrics.
fn watch_lag(config: &PipelineConfig, handle: MetricsHandle) {
    match &config.source {
        SourceConfig::EventHubs(source) => {
            // The source is connected with the same options.
            let options = source.client_options().expect("the options are in order");
            tokio::spawn(lag::watch(HubEnds::of(options), handle));
        }
        SourceConfig::Kafka(source) => {
            tokio::spawn(lag::watch(TopicEnds::of(source.options.clone()), handle));
        }
        SourceConfig::ServiceBus(_) => {}
    }
}

/// Runs the relay until the signals end it.
async fn carry(
    config: &PipelineConfig,
    mut relay: Relay,
    telemetry: OpenTelemetry,
    mut signals: StopSignals,
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
            _ = signals.next() => {
                tracing::info!("stopping; another signal exits immediately");
                drop(stop);
                tokio::select! {
                    biased;
                    ended = &mut running => break ended,
                    _ = signals.next() => return Ok(Exit::Interrupted),
                }
            }
            Ok(()) = &mut begun, if !begun.is_terminated() => {
                // Events are carried whether or not standard output can be written.
                let _ = output::print("\nRunning.\n");
            }
        }
    };
    let last_page = summary.as_ref().ok().map(|summary| endpoint::last_page(summary.metrics.clone()));
    telemetry.shut_down_patiently(last_page, &mut signals).await;
    let summary = summary.map_err(|error| refusal::of_relay(config, &error))?;
    tell(&summary::render(&summary, matches!(config.source, SourceConfig::ServiceBus(_))));
    Ok(Exit::Passed)
}

const STOPPED_WHILE_CONNECTING: &str = "Stopped gracefully, while connecting: no events were received.\n";

/// Says how it ended.
fn tell(end: &str) {
    logging::tell("INFO", end);
}
