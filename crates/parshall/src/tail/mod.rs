//! `parshall tail` and `parshall peek`: what is in a hub, topic, queue, subscription or dead-letter queue, as lines of JSON.
//!
//! * `log` reads hubs, and topics of Kafka; `queue` looks at what is read under locks elsewhere.
//! * `line` is an event as JSON, `from` where to begin, `output` standard output.

mod from;
mod line;
mod log;
mod output;
mod queue;

use std::io::{self, Write as _};

use clap::Args;
use connect::event_hubs::ManagementClient;
use connect::sink::ErrorClass;

use crate::exit::{CommandError, Exit};
use crate::service::{Protocol, Service, ServiceArguments};
use crate::signals::{StopSignal, StopSignals};
use from::From;
use line::Choice;
use log::{Reading, Start};
use output::Printer;
use queue::Looking;

/// The arguments of `tail`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  parshall tail orders
  parshall tail orders --follow --key customer-7
  parshall tail orders --from '5 min' --partition 3 | jq .body
  parshall tail work --dead-letter --from first
  parshall tail news/Subscriptions/audit --follow
  parshall tail orders --protocol kafka --bootstrap broker:9092 --last 100

Reading changes nothing: of a hub no checkpoint is written, and of a queue no message is locked or
removed. Messages of a queue are shown whatever state they are in; with --follow it is looked for
more every 250 ms.

Each line has what is known of an event: partition, sequence_number, offset, enqueued_at, key,
message_id, correlation_id, content_type, subject, session_id, properties, body; body_encoding where
the body is in base64. `parshall send --format events` takes such lines.

Exit status:
  0    success
  2    the command line is wrong
  3    the service can't be reached or refuses
  130  interrupted; how many lines were printed is on standard error")]
pub(crate) struct TailArguments {
    /// The hub, topic, queue, or subscription as TOPIC/Subscriptions/NAME [default: the EntityPath of the connection string]
    entity: Option<String>,

    /// Go on with what comes
    #[arg(short, long)]
    follow: bool,

    /// End after so many events
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,

    /// Begin here: `first`, `end`, a sequence number or offset, an instant, or a time ago [default: with the last 10]
    ///
    /// Examples: --from first, --from 1200, --from 2026-11-23T14:00:00Z, --from '5 min'
    #[arg(long, value_name = "WHERE", conflicts_with = "last")]
    from: Option<From>,

    /// Begin with the last so many of all partitions together, in the order of their times
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=100_000))]
    last: Option<u64>,

    /// Only this partition. May be repeated
    #[arg(long = "partition", value_name = "N")]
    partitions: Vec<u32>,

    /// The consumer group of a hub
    #[arg(long, value_name = "NAME", default_value = "$Default")]
    group: String,

    /// The dead-letter queue of the queue or subscription
    #[arg(long)]
    dead_letter: bool,

    #[command(flatten)]
    choice: Choice,

    #[command(flatten)]
    service: ServiceArguments,
}

/// The arguments of `peek`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  parshall peek work
  parshall peek work --from 1200 --count 5
  parshall peek news/Subscriptions/audit --dead-letter

The messages stay as they are: none is locked, and no delivery counted. Messages in every state are
shown, scheduled and deferred ones as well. The lines are those of `parshall tail`.

Exit status:
  0    success
  2    the command line is wrong
  3    the service can't be reached or refuses")]
pub(crate) struct PeekArguments {
    /// The queue, or subscription as TOPIC/Subscriptions/NAME [default: the EntityPath of the connection string]
    entity: Option<String>,

    /// The first sequence number
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    from: i64,

    /// How many messages at most
    #[arg(short, long, value_name = "N", default_value_t = 10)]
    count: u64,

    /// The dead-letter queue of the queue or subscription
    #[arg(long)]
    dead_letter: bool,

    #[command(flatten)]
    choice: Choice,

    #[command(flatten)]
    service: ServiceArguments,
}

/// Prints what `tail` is asked for.
pub(crate) fn execute(arguments: TailArguments) -> Result<Exit, CommandError> {
    run(async move |printer| tail(&arguments, printer).await)
}

/// Prints what `peek` is asked for.
pub(crate) fn execute_peek(arguments: PeekArguments) -> Result<Exit, CommandError> {
    run(async move |printer| peek(&arguments, printer).await)
}

/// Runs `print` until it ends or a signal comes.
fn run(
    print: impl AsyncFnOnce(&mut Option<Printer>) -> Result<(), CommandError>,
) -> Result<Exit, CommandError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::System)?;
    let mut printer = None;
    let ended = runtime.block_on(async {
        let mut signals = StopSignals::listen()?;
        tokio::select! {
            printed = print(&mut printer) => printed.map(|()| None),
            signal = signals.next() => Ok(Some(signal)),
        }
    });
    // A name that is still being looked up must not hold up the end.
    runtime.shutdown_background();
    let Some(signal) = ended? else { return Ok(Exit::Passed) };
    if let (Some(mut printer), StopSignal::Interrupt) = (printer, signal) {
        printer.flush()?;
        // Where standard error can't be written, nobody wants to know.
        let _ = io::stderr().write_all(format!("{} events\n", printer.printed()).as_bytes());
    }
    Ok(Exit::Interrupted)
}

async fn tail(arguments: &TailArguments, printer: &mut Option<Printer>) -> Result<(), CommandError> {
    let TailArguments { follow, from, last, partitions, group, dead_letter, .. } = arguments;
    let service = Service::of(&arguments.service)?;
    service.check_reads()?;
    let entity = address(service.entity(arguments.entity.as_deref())?, *dead_letter);
    let printer = printer.insert(Printer::new(arguments.choice.clone(), arguments.count));
    let start = from.map_or_else(|| Start::Last(last.unwrap_or(USUAL_LAST)), Start::From);
    if service.protocol == Protocol::Kafka || !is_queue(&service, &entity).await? {
        let reading = Reading { entity: &entity, consumer_group: group, partitions, start, follow: *follow };
        return log::tail(&service, &reading, printer).await;
    }
    if let Some(partition) = partitions.first() {
        let message = format!("{entity} has no partition {partition}: it is no hub");
        return Err(CommandError::Usage { message, advice: None });
    }
    let (from, since_unix_ms, last) = match start {
        Start::Last(last) => (0, None, Some(last)),
        Start::From(From::First) => (0, None, None),
        Start::From(From::Number(number)) => (number, None, None),
        Start::From(From::Time(unix_ms)) => (0, Some(unix_ms), None),
        Start::From(From::End) => (0, None, Some(0)),
    };
    let looking = Looking { entity: &entity, from, since_unix_ms, last, follow: *follow };
    queue::look(&service, &looking, printer).await
}

async fn peek(arguments: &PeekArguments, printer: &mut Option<Printer>) -> Result<(), CommandError> {
    let service = Service::of(&arguments.service)?;
    service.check_reads()?;
    let entity = address(service.entity(arguments.entity.as_deref())?, arguments.dead_letter);
    let printer = printer.insert(Printer::new(arguments.choice.clone(), Some(arguments.count)));
    let looking =
        Looking { entity: &entity, from: arguments.from, since_unix_ms: None, last: None, follow: false };
    queue::look(&service, &looking, printer).await
}

fn address(entity: String, dead_letter: bool) -> String {
    match dead_letter {
        true => format!("{}{DEAD_LETTER}", entity.trim_end_matches('/')),
        false => entity,
    }
}

/// Whether an entity is one of messages. Its name may tell; else it is asked whether it is a hub.
async fn is_queue(service: &Service, entity: &str) -> Result<bool, CommandError> {
    let name = entity.to_ascii_lowercase();
    if name.contains("/subscriptions/") || name.ends_with(&DEAD_LETTER.to_ascii_lowercase()) {
        return Ok(true);
    }
    let refused = |error| service.refusal(entity, &error);
    let mut client = ManagementClient::connect(service.hub_options(entity)).await.map_err(refused)?;
    match client.hub_properties().await {
        Ok(_) => {
            client.close().await;
            Ok(false)
        }
        // Who may not read it is told so when it is read.
        Err(error) if error.class == ErrorClass::Fatal => Ok(true),
        Err(error) => Err(refused(error)),
    }
}

/// What stands behind the address of an entity for that of its dead-letter queue.
const DEAD_LETTER: &str = "/$DeadLetterQueue";

/// As other programs of this name have it.
const USUAL_LAST: u64 = 10;
