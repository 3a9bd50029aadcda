//! `parshall send`: the lines of a file or of standard input as events of a hub, queue or topic.
//!
//! * `blocks` reads the input, `record` makes events of lines, `summary` says what became of them.
//!
//! Events are written from the block that they were read into straight into the batch that they leave with. What waits is
//! bounded, so a slow service slows the reading down. Batches leave as the service takes them: the first one at once.

mod blocks;
mod record;
mod summary;

use std::fs::File;
use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use connect::producer::{Batching, Buffering, Connections, Producer, ProducerOptions, ProducerTarget};
use units::Rate;

use crate::exit::{CommandError, Exit};
use crate::output;
use crate::service::{Protocol, Service, ServiceArguments};
use crate::signals::StopSignals;
use blocks::Blocks;
use record::{Fields, Format, RecordReader};
use summary::{Skipped, Summary, Watch};

/// The arguments of `send`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  parshall send orders < events.ndjson
  parshall send orders --key-field customer --property-field region events.ndjson
  echo 'just text' | parshall send work --format lines
  parshall send orders --protocol kafka --bootstrap broker:9092 < events.ndjson
  parshall tail orders --count 100 | parshall send copies --format events

Events leave in batches, as the service takes them. If the connection breaks it is made again, and
what had not been acknowledged is sent again: an event may arrive twice then. Events of equal keys
stay in order, unless they are sent again.

Exit status:
  0    every event was acknowledged
  1    events were refused or lost, or lines were left out
  2    the command line is wrong, or a line is no event
  3    the service can't be reached or refuses, the input can't be read
  130  interrupted; what had been read was sent")]
pub(crate) struct SendArguments {
    /// The hub, queue or topic [default: the EntityPath of the connection string]
    entity: Option<String>,

    /// The file to send; standard input if left out, or `-`
    file: Option<PathBuf>,

    /// How the input is divided into events
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,

    /// What to do when a line is no event
    #[arg(long, value_enum, default_value_t = OnError::Stop)]
    on_error: OnError,

    /// Send no more events per second than this
    ///
    /// Example: --rate 1000/s
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,

    /// The most events of a batch
    #[arg(long, value_name = "N", default_value_t = Batching::default().max_events,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,

    /// How long an event may take to be acknowledged, with all that is tried for it
    #[arg(long, value_name = "TIME", default_value = "1 min", value_parser = units::duration::parse)]
    timeout: Duration,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    fields: Fields,

    #[command(flatten)]
    service: ServiceArguments,
}

/// What to do when a line is no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// Leave it out, say so, and go on
    Skip,
    /// Send what stands before it, and end
    Stop,
}

/// How the input came to its end.
enum Ended {
    /// It was read to its end.
    Read,
    /// A signal came.
    Interrupted,
    /// Something is wrong with it.
    Failed(CommandError),
}

/// Sends, and prints what became of it.
pub(crate) fn execute(arguments: SendArguments, quiet: bool) -> Result<Exit, CommandError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::System)?;
    let result = runtime.block_on(run(arguments, quiet));
    // A name that is still being looked up must not hold up the end.
    runtime.shutdown_background();
    result
}

async fn run(arguments: SendArguments, quiet: bool) -> Result<Exit, CommandError> {
    let mut signals = StopSignals::listen()?;
    let SendArguments { entity, file, format, on_error, rate, batch, timeout, json, fields, service } =
        arguments;
    let service = Service::of(&service)?;
    let entity = service.entity(entity.as_deref())?;
    let reader = RecordReader::new(format, fields);
    let input: Box<dyn io::Read + Send> = match file.filter(|file| file.as_os_str() != "-") {
        Some(path) => {
            let unreadable =
                |error| CommandError::Unavailable { message: format!("{}: {error}", path.display()) };
            Box::new(File::open(&path).map_err(unreadable)?)
        }
        None => Box::new(io::stdin()),
    };
    let options = ProducerOptions {
        connections: match service.protocol {
            // Each has one request under way.
            Protocol::Http => Connections::Pooled(HTTP_CONNECTIONS),
            Protocol::Amqp | Protocol::WebSocket | Protocol::Kafka => Connections::Single,
        },
        buffering: Buffering::Unsafe(Batching { max_events: batch, ..Batching::default() }),
        timeout,
        ..ProducerOptions::default()
    };
    let connecting = Producer::connect(target(&service, &entity), options);
    let producer = tokio::select! {
        connected = connecting => connected.map_err(|error| service.refusal(&entity, &error))?,
        _ = signals.next() => return Ok(Exit::Interrupted),
    };
    let blocks = Blocks::read(input, reader.is_whole()).map_err(CommandError::System)?;
    let mut skipped = Skipped::new(on_error == OnError::Skip);
    let began = Instant::now();
    let mut watch = Watch::begin(began, quiet);
    let ended = tokio::select! {
        ended = pump(&producer, blocks, &reader, rate, &mut skipped, &mut watch) => ended,
        _ = signals.next() => Ended::Interrupted,
    };
    // The second signal is impatient.
    let flushed = tokio::select! {
        () = producer.flush() => true,
        _ = signals.next() => false,
    };
    let patience = if flushed { timeout } else { Duration::ZERO };
    let statistics = producer.close_within(patience).await;
    watch.end();
    let summary = Summary { statistics, skipped: skipped.count(), took: began.elapsed() };
    output::print(&if json { summary.json() } else { summary.text() })?;
    match ended {
        Ended::Failed(error) => Err(error),
        Ended::Interrupted => Ok(Exit::Interrupted),
        Ended::Read if !flushed => Ok(Exit::Interrupted),
        Ended::Read if summary.is_complete() => Ok(Exit::Passed),
        Ended::Read => Ok(Exit::Failed),
    }
}

/// Hands the events of the input to the producer.
async fn pump(
    producer: &Producer,
    mut blocks: Blocks,
    reader: &RecordReader,
    rate: Option<Rate>,
    skipped: &mut Skipped,
    watch: &mut Watch,
) -> Ended {
    let mut pace = rate.map(Pace::begin);
    let mut number = 0_u64;
    loop {
        let block = match blocks.next().await {
            Ok(Some(block)) => block,
            Ok(None) => return Ended::Read,
            Err(error) => {
                let message = format!("line {}: {error}", number + 1);
                return Ended::Failed(CommandError::Unavailable { message });
            }
        };
        let content = match reader.is_whole() {
            true => &block[..],
            false => block.strip_suffix(b"\n").unwrap_or(&block),
        };
        let mut lines = Lines { rest: Some(content), whole: reader.is_whole() };
        while let Some(line) = lines.next() {
            number += 1;
            if let Some(pace) = &mut pace {
                pace.wait().await;
            }
            // Nearly always there is room, and nothing has to wait.
            let sent = reader.read(line, |event| producer.try_send(event));
            let sent = match sent {
                Ok(Some(None)) => send_slowly(producer, reader, line).await,
                Ok(Some(Some(result))) => result,
                Ok(None) => continue,
                Err(bad) => {
                    if let Err(error) = skipped.skip(number, &bad) {
                        return Ended::Failed(error);
                    }
                    continue;
                }
            };
            if let Err(failure) = sent {
                if producer.has_ended() {
                    // It is in the summary of what was lost; nothing more can be sent.
                    let message = format!("line {number} can't be sent: {failure}");
                    return Ended::Failed(CommandError::Refused { message, advice: None });
                }
                if let Err(error) = skipped.skip(number, &failure) {
                    return Ended::Failed(error);
                }
            }
        }
        blocks.recycle(block);
        watch.look(producer);
        // What has gathered leaves while the next block is looked at.
        tokio::task::yield_now().await;
    }
}

/// Sends the event of a line once there is room for it.
async fn send_slowly(
    producer: &Producer,
    reader: &RecordReader,
    line: &[u8],
) -> Result<(), connect::producer::SendFailure> {
    loop {
        producer.room().await;
        // It was an event a moment ago.
        match reader.read(line, |event| producer.try_send(event)) {
            Ok(Some(Some(result))) => return result,
            Ok(Some(None)) => {}
            Ok(None) | Err(_) => return Ok(()),
        }
    }
}

fn target(service: &Service, entity: &str) -> ProducerTarget {
    match service.protocol {
        Protocol::Kafka => ProducerTarget::Kafka(service.kafka_options(entity)),
        Protocol::Http => ProducerTarget::Http(service.hub_options(entity).into()),
        // Queues and topics are sent to in the same way.
        Protocol::Amqp | Protocol::WebSocket => ProducerTarget::EventHubs(service.hub_options(entity)),
    }
}

/// Connections for requests of HTTP.
const HTTP_CONNECTIONS: NonZeroU32 = NonZeroU32::MIN.saturating_add(7);

/// The lines of a block, which has no line feed at its end.
struct Lines<'a> {
    rest: Option<&'a [u8]>,
    whole: bool,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        match memchr::memchr(b'\n', rest).filter(|_| !self.whole) {
            Some(end) => {
                self.rest = Some(&rest[end + 1..]);
                Some(&rest[..end])
            }
            None => self.rest.take(),
        }
    }
}

/// Lets so many events per second pass.
struct Pace {
    began: tokio::time::Instant,
    rate: Rate,
    passed: u64,
}

impl Pace {
    fn begin(rate: Rate) -> Self {
        Self { began: tokio::time::Instant::now(), rate, passed: 0 }
    }

    /// Waits until the next event may pass.
    async fn wait(&mut self) {
        let due = self.began + Duration::from_secs_f64(self.passed as f64 / self.rate.events_per_second());
        self.passed += 1;
        tokio::time::sleep_until(due).await;
    }
}
