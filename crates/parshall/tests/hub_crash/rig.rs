//! A durable `parshall serve` that is started again and again on one folder, publishers of stamped events, and a reader
//! that checks all of them at the end.

use std::future::poll_fn;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use access::ConnectionString;
use connect::event::PartitionId;
use connect::event_hubs::{EventHubsOptions, EventHubsSource, ManagementClient, Publisher};
use connect::service::ServiceError;
use connect::sink::SendToken;
use connect::source::{BatchOptions, Source as _, SourceEvent, SourceOptions, StartPosition};
use lab::clock::RunTime;
use lab::payload::{Header, PayloadWriter};
use lab::verify::{Delivery, Expectation, Placement, StreamSends, StreamVerifier};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// Partitions of the hub; each has one stream.
const PARTITIONS: u32 = 4;

/// Sends that a partition has under way at once, so that a kill always hits some.
const UNDER_WAY: u32 = 8;

/// Events of one send.
const SENT_AT_ONCE: u32 = 5;

const SEED: u64 = 12;
const RUN: u8 = 4;
const PAYLOAD: usize = 20;

/// The folder with the service's data, and what was sent to it.
pub(crate) struct Rig {
    settings: Vec<String>,
    folder: tempfile::TempDir,
    /// By partition.
    sends: Vec<StreamSends>,
}

/// A service as a process.
pub(crate) struct Serving {
    child: Child,
    pub(crate) connection_string: ConnectionString,
}

impl Rig {
    /// No service yet; those to come have these settings.
    pub(crate) fn new(settings: &[&str]) -> Self {
        Self {
            settings: settings.iter().map(|&setting| setting.to_owned()).collect(),
            folder: tempfile::tempdir().unwrap(),
            sends: vec![StreamSends::default(); PARTITIONS as usize],
        }
    }

    /// Serves what is there, publishes until so many sends were acknowledged, and kills the service while more are
    /// under way.
    pub(crate) async fn serve_until_acknowledged(&mut self, acknowledgements: u64) {
        let mut serving = self.serve().await;
        let (show, mut seen) = watch::channel(0);
        let publishing = publish(serving.options(), &mut self.sends, show);
        let killing = async {
            seen.wait_for(|seen| *seen >= acknowledgements).await.unwrap();
            serving.child.kill().await.unwrap();
        };
        tokio::pin!(publishing, killing);
        tokio::select! {
            () = &mut killing => {}
            // Its connection is gone a moment before the process is.
            ended = &mut publishing => {
                ended.unwrap_err();
                killing.await;
            }
        }
    }

    /// Serves what is there once more, reads all of it, and compares it with what was sent; also gives how many events
    /// were acknowledged.
    pub(crate) async fn verdict(self) -> (Delivery, u64) {
        let mut serving = self.serve().await;
        let verifier = read(serving.options()).await;
        serving.child.kill().await.unwrap();
        let acknowledged = self.sends.iter().map(|sends| sends.acknowledged.count());
        (verifier.conclude(&self.sends), acknowledged.sum())
    }

    async fn serve(&self) -> Serving {
        let mut arguments = self.settings.clone();
        arguments.extend(["--hub".to_owned(), format!("events:{PARTITIONS}")]);
        Serving::start(self.folder.path(), &arguments).await
    }
}

impl Serving {
    /// Serves what is in the folder `data` of `folder`, and is ready.
    pub(crate) async fn start(folder: &Path, arguments: &[String]) -> Self {
        Self::start_in(folder, arguments, &[]).await
    }

    /// The same with an environment.
    pub(crate) async fn start_in(folder: &Path, arguments: &[String], environment: &[(&str, &Path)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_parshall"))
            .args(["serve", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(folder.join("data"))
            .args(arguments)
            .env_clear()
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut connection_string = None;
        while let Some(line) = lines.next_line().await.unwrap() {
            if let Some(at) = line.find("Endpoint=") {
                connection_string = Some(line[at..].parse().unwrap());
            }
            if line == "Ready." {
                return Self { child, connection_string: connection_string.unwrap() };
            }
        }
        panic!("the service ended before it was ready");
    }

    /// Has the system end it, in the middle of whatever it does.
    pub(crate) fn start_to_kill(&mut self) {
        self.child.start_kill().unwrap();
    }

    /// The same, and it has ended.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    fn options(&self) -> EventHubsOptions {
        EventHubsOptions::new(self.connection_string.clone(), Some("events")).unwrap()
    }
}

/// Publishes without end, several sends to each partition at once; ends when the connection does.
async fn publish(
    options: EventHubsOptions,
    sends: &mut [StreamSends],
    show: watch::Sender<u64>,
) -> Result<(), ServiceError> {
    let writer = PayloadWriter::new(PAYLOAD, SEED).unwrap();
    let mut publisher = Publisher::connect(options).await?;
    let mut under_way = [0; PARTITIONS as usize];
    let mut outcomes = Vec::new();
    loop {
        for partition in 0..PARTITIONS {
            let index = partition as usize;
            while under_way[index] < UNDER_WAY {
                let first = sends[index].sent;
                let fill = |offset: usize, payload: &mut [u8]| {
                    let header = Header {
                        run: RUN,
                        stream: partition as u16,
                        sequence: first + offset as u32,
                        intended: RunTime::EPOCH,
                    };
                    writer.write(header, RunTime::EPOCH, payload);
                };
                let token = SendToken(u64::from(partition) << 32 | u64::from(first));
                let count = SENT_AT_ONCE as usize;
                let sent = publisher.publish_payloads(token, partition, count, PAYLOAD, fill);
                if sent.is_err() {
                    break;
                }
                sends[index].sent += SENT_AT_ONCE;
                under_way[index] += 1;
            }
        }
        poll_fn(|context| publisher.poll_outcomes(context, &mut outcomes)).await?;
        for outcome in outcomes.drain(..) {
            let (partition, first) = ((outcome.token.0 >> 32) as usize, outcome.token.0 as u32);
            under_way[partition] -= 1;
            // A send whose fate is unknown is not repeated: it may be there or not.
            if outcome.result.is_ok() {
                sends[partition].acknowledged.insert(first..first + SENT_AT_ONCE);
                show.send_modify(|seen| *seen += 1);
            }
        }
    }
}

/// Reads everything that the hub holds.
async fn read(options: EventHubsOptions) -> StreamVerifier {
    let mut ends = Vec::new();
    let mut management = ManagementClient::connect(options.clone()).await.unwrap();
    for partition in 0..PARTITIONS {
        let properties = management.partition_properties(PartitionId(partition)).await.unwrap();
        ends.push(properties.last_enqueued_sequence_number);
    }
    let mut verifier = StreamVerifier::new(Expectation {
        run: RUN,
        streams: PARTITIONS as u16,
        destinations: PARTITIONS as u16,
        sequence_end: u32::MAX,
        placement: Placement::Anywhere,
    });
    let source_options =
        SourceOptions { batch: BatchOptions { max_events: 256, max_wait: Duration::ZERO }, prefetch: 2_048 };
    let mut source = EventHubsSource::connect(options, "$Default", source_options).await.unwrap();
    for partition in source.partitions() {
        source.open(partition, StartPosition::Earliest);
    }
    let mut next = [0_i64; PARTITIONS as usize];
    while next.iter().zip(&ends).any(|(next, last)| next <= last) {
        let event = poll_fn(|context| source.poll_batch(context)).await.unwrap();
        let SourceEvent::Batch(batch) = event else { panic!("the reader's partitions stay open: {event:?}") };
        let PartitionId(partition) = batch.partition();
        let next = &mut next[partition as usize];
        assert_eq!(batch.first_sequence_number(), Some(*next), "numbers have no gap");
        for event in batch.events() {
            // A Data section with a length in one byte, as the publisher made it.
            let payload = batch.message(event).strip_prefix(b"\x00\x53\x75\xa0\x14");
            verifier.observe(Header::parse(payload.unwrap_or_default()), partition as u16);
        }
        *next += batch.len() as i64;
        source.release(batch);
    }
    Box::new(source).shut_down().await;
    verifier
}
