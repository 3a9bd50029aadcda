//! A service with two hubs, a publisher of stamped events that never stops by itself, a reader that checks every event
//! that reaches the destination, and relays as processes between the two.
//!
//! Nothing here waits for a time: everybody waits for what the reader has seen.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use access::TransportSecurity;
use access::storage::StorageConnectionString;
use connect::checkpoint::blobs::{BlobStoreOptions, MissingContainer};
use connect::checkpoint::{BlobCheckpointStore, CheckpointStore, ConsumerGroup, FileCheckpointStore};
use connect::event::PartitionId;
use connect::event_hubs::{EventHubsOptions, EventHubsSource, Publisher};
use connect::kafka::{Client, GroupOffsetStore};
use connect::sink::SendToken;
use connect::source::{BatchOptions, Source as _, SourceEvent, SourceOptions, StartPosition};
use hub::front::http::blob::BlobFault;
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use lab::clock::RunTime;
use lab::payload::{Header, PayloadWriter};
use lab::verify::{Delivery, Expectation, Placement, StreamSends, StreamVerifier};
use partition_log::LogLimits;
use pipeline::kafka::KafkaProperties;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::switch::Switch;

/// Partitions of the source; each has one stream of the publisher's.
pub(crate) const SOURCES: u32 = 8;

/// Partitions of the destination.
pub(crate) const DESTINATIONS: u32 = 6;

/// Events of one send of the publisher. Not a multiple of the relay's batches, so that those end anywhere.
const PUBLISHED_AT_ONCE: u32 = 50;

/// The publisher is ahead of the reader by so many events at most: there is always something to carry, and never more
/// than the logs hold.
const LEAD: u64 = 40_000;

const SEED: u64 = 11;
const RUN: u8 = 3;
const PAYLOAD: usize = 20;

/// The service, and what publishes to it and reads from it.
pub(crate) struct Rig {
    service: Service,
    folder: tempfile::TempDir,
    seen: watch::Receiver<Seen>,
    publishing: Option<(oneshot::Sender<()>, JoinHandle<Vec<StreamSends>>)>,
    reading: JoinHandle<()>,
    verified: oneshot::Receiver<Read>,
    blobs: Switch,
    checkpoints: Checkpoints,
}

/// Where relays keep them.
#[derive(Clone, Copy, Debug)]
enum Checkpoints {
    Files,
    Blobs,
    /// As committed offsets, and both hubs are topics of Kafka to the relay.
    Group,
    /// The same, with relays that are members of the group and have these properties.
    Members(&'static str),
}

/// Everything that the destination held.
struct Read {
    verifier: StreamVerifier,
    arrivals: Vec<Arrival>,
}

/// One event in the destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The stream, which is one partition of the source.
    pub(crate) stream: u16,
    /// Its place in the stream.
    pub(crate) sequence: u32,
}

/// What has reached the destination so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Events, repetitions included.
    pub(crate) received: u64,
    /// Different events.
    pub(crate) distinct: u64,
}

impl Rig {
    /// Serves, publishes and reads from now on. `settings` are lines of the pipeline beyond source, sink and store.
    pub(crate) async fn start(settings: &str) -> Self {
        Self::start_with_logs(settings, LogLimits::default()).await
    }

    /// The same with other logs in the destination.
    pub(crate) async fn start_with_logs(settings: &str, log: LogLimits) -> Self {
        Self::start_with(settings, log, Checkpoints::Files, None).await
    }

    /// The same with another sink beside the destination, as a list has it.
    pub(crate) async fn start_beside(settings: &str, sink: &str) -> Self {
        Self::start_with(settings, LogLimits::default(), Checkpoints::Files, Some(sink)).await
    }

    /// The same with checkpoints in blobs of the same service, to which the way can be cut.
    pub(crate) async fn start_with_blobs(settings: &str) -> Self {
        Self::start_with(settings, LogLimits::default(), Checkpoints::Blobs, None).await
    }

    /// The same with a relay that reads and writes the hubs as topics of Kafka, and commits offsets.
    pub(crate) async fn start_with_topics(settings: &str) -> Self {
        Self::start_with(settings, LogLimits::default(), Checkpoints::Group, None).await
    }

    /// The same with relays that are members of the consumer group, with these properties of the source.
    pub(crate) async fn start_with_members(settings: &str, properties: &'static str) -> Self {
        Self::start_with(settings, LogLimits::default(), Checkpoints::Members(properties), None).await
    }

    async fn start_with(
        settings: &str,
        log: LogLimits,
        checkpoints: Checkpoints,
        beside: Option<&str>,
    ) -> Self {
        let namespace = NamespaceConfig::with_hubs(vec![
            HubConfig::new("source", SOURCES as u16),
            HubConfig { log: Some(log), ..HubConfig::new("destination", DESTINATIONS as u16) },
        ]);
        let listeners = ServiceConfig::loopback(namespace).and(Protocol::Blob).and(Protocol::Kafka);
        let service = Service::start(listeners).await.unwrap();
        let blobs = Switch::to(service.address(Protocol::Blob).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let store = match checkpoints {
            Checkpoints::Files => "{files: ./checkpoints}".to_owned(),
            Checkpoints::Blobs => format!(
                "{{blob: {{connection_string: '{}', container: {CONTAINER}, create: true}}}}",
                by_way_of(&blobs, &service).reveal()
            ),
            Checkpoints::Group | Checkpoints::Members(_) => "group".to_owned(),
        };
        let connection_string = service.connection_string(None);
        let (protocol, end, name) = match checkpoints {
            Checkpoints::Files | Checkpoints::Blobs => (Protocol::Amqp, "event_hubs", "hub"),
            Checkpoints::Group | Checkpoints::Members(_) => (Protocol::Kafka, "kafka", "topic"),
        };
        let of_members = match checkpoints {
            Checkpoints::Members(properties) => format!(", properties: {{{properties}}}"),
            _ => String::new(),
        };
        let of_relay = service.connection_string_over(protocol, TransportSecurity::Plain, None).unwrap();
        let beside = beside.map_or_else(String::new, |sink| format!("- {sink}\n"));
        let pipeline = format!(
            "source:\n  {end}: {{connection_string: '{0}', {name}: source{of_members}}}\n\
             sinks:\n- {end}: {{connection_string: '{0}', {name}: destination}}\n{beside}\
             checkpoint: {{store: {store}}}\n{settings}",
            of_relay.reveal()
        );
        std::fs::write(folder.path().join(PIPELINE), pipeline).unwrap();
        let options = |hub| EventHubsOptions::new(connection_string.clone(), Some(hub)).unwrap();

        let (show, seen) = watch::channel(Seen::default());
        let (verify, verified) = oneshot::channel();
        let reading = tokio::spawn(read(options("destination"), show, verify));
        let (stop, stopped) = oneshot::channel();
        let publishing = tokio::spawn(publish(options("source"), seen.clone(), stopped));
        Self {
            service,
            folder,
            seen,
            publishing: Some((stop, publishing)),
            reading,
            verified,
            blobs,
            checkpoints,
        }
    }

    /// Starts a relay on the pipeline; all of them share one folder of checkpoints.
    pub(crate) fn relay(&self) -> Relaying {
        Relaying::start(self.folder.path())
    }

    /// What the reader has seen by now.
    pub(crate) fn seen(&self) -> Seen {
        *self.seen.borrow()
    }

    /// What the destination holds, of which the reader may have seen only a part. More than that is a later relay's.
    pub(crate) fn held(&self) -> u64 {
        self.service.namespace().hub("destination").unwrap().counters().events_in
    }

    /// Waits until the reader has seen so much; fails if the relay ends before.
    pub(crate) async fn until(&self, relay: &mut Relaying, enough: impl FnMut(&Seen) -> bool) {
        let mut seen = self.seen.clone();
        tokio::select! {
            waited = seen.wait_for(enough) => { waited.unwrap(); }
            exit = relay.child.wait() => panic!("the relay ended by itself: {exit:?}"),
        }
    }

    /// Lets the publisher stop, and tells what it has sent.
    pub(crate) async fn stop_publishing(&mut self) -> Vec<StreamSends> {
        let (stop, publishing) = self.publishing.take().unwrap();
        let _ = stop.send(());
        publishing.await.unwrap()
    }

    /// Lets the publisher stop, and the relay carry the rest and end in good order. Gives what was sent, and how much that is.
    pub(crate) async fn finish(&mut self, mut relay: Relaying) -> (Vec<StreamSends>, u64) {
        let sends = self.stop_publishing().await;
        let sent: u64 = sends.iter().map(|stream| u64::from(stream.sent)).sum();
        self.until(&mut relay, |seen| seen.distinct >= sent).await;
        let (status, said) = relay.terminate().await;
        assert_eq!(status.code(), Some(0), "{said}");
        (sends, sent)
    }

    /// Reads what the destination holds up to its last event, and compares that with what was sent. No relay runs any
    /// more.
    pub(crate) async fn verdict(self, sends: &[StreamSends]) -> Delivery {
        self.verdict_and_arrivals(sends).await.0
    }

    /// The same, and every event in the order in which each partition of the destination holds it.
    pub(crate) async fn verdict_and_arrivals(self, sends: &[StreamSends]) -> (Delivery, Vec<Arrival>) {
        // What the logs have need not be what there is to read: some of it may have been aborted.
        let connection_string = self.service.connection_string(None);
        publish_ends(EventHubsOptions::new(connection_string, Some("destination")).unwrap()).await;
        let Read { verifier, arrivals } = self.verified.await.unwrap();
        self.reading.await.unwrap();
        self.service.stop().await;
        (verifier.conclude(sends), arrivals)
    }

    /// Waits until the reader has seen so much, whatever becomes of relays.
    pub(crate) async fn until_seen(&self, enough: impl FnMut(&Seen) -> bool) {
        let mut seen = self.seen.clone();
        seen.wait_for(enough).await.unwrap();
    }

    /// Where relays work.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.folder.path().join("checkpoints")
    }

    /// The store that the relays use, on a way of its own.
    pub(crate) async fn store(&self) -> Arc<dyn CheckpointStore> {
        match self.checkpoints {
            Checkpoints::Files => Arc::new(FileCheckpointStore::open(self.checkpoints()).unwrap()),
            Checkpoints::Group | Checkpoints::Members(_) => {
                let connection_string =
                    self.service.connection_string_over(Protocol::Kafka, TransportSecurity::Plain, None);
                let properties = KafkaProperties::of_connection_string(&connection_string.unwrap());
                let options = properties.options("source", Client::Native);
                Arc::new(GroupOffsetStore::open(&options, GROUP).await.unwrap())
            }
            Checkpoints::Blobs => {
                let connection_string = self.service.storage_connection_string().unwrap();
                let store = BlobCheckpointStore::open(BlobStoreOptions {
                    missing_container: MissingContainer::Create,
                    ..BlobStoreOptions::new(connection_string, CONTAINER)
                });
                Arc::new(store.await.unwrap())
            }
        }
    }

    /// Lets the blob service do this from now on, beginning with the requests that come next.
    pub(crate) async fn set_outage(&mut self, outage: Outage) {
        match outage {
            Outage::Down => self.blobs.turn_off().await,
            Outage::Fault(fault) => self.service.blob_faults().unwrap().set(fault),
        }
    }

    /// Lets it work as it should again.
    pub(crate) fn end_outage(&mut self, outage: Outage) {
        match outage {
            Outage::Down => self.blobs.turn_on(),
            Outage::Fault(_) => self.service.blob_faults().unwrap().set(BlobFault::None),
        }
    }

    /// Whose progress the relays keep.
    pub(crate) fn group(&self) -> ConsumerGroup {
        let connection_string = self.service.connection_string(None);
        let name = match self.checkpoints {
            Checkpoints::Files | Checkpoints::Blobs => "$Default",
            Checkpoints::Group | Checkpoints::Members(_) => GROUP,
        };
        ConsumerGroup::new(connection_string.endpoint.host(), "source", name)
    }
}

/// What can be wrong with the blob service.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outage {
    /// Nothing listens where it was.
    Down,
    /// It is there, and does this.
    Fault(BlobFault),
}

/// What a client connects with who goes through the switch.
fn by_way_of(switch: &Switch, service: &Service) -> StorageConnectionString {
    let mut connection_string = service.storage_connection_string().unwrap();
    let address = service.address(Protocol::Blob).unwrap().to_string();
    connection_string.blob_endpoint =
        connection_string.blob_endpoint.replace(&address, &switch.address().to_string());
    connection_string
}

/// A relay as a process.
pub(crate) struct Relaying {
    child: Child,
    output: BufReader<tokio::process::ChildStdout>,
    metrics: Option<String>,
}

impl Relaying {
    /// Starts a relay on the pipeline in a folder.
    pub(crate) fn start(folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_parshall"))
            .args(["relay", PIPELINE])
            .current_dir(folder)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output, metrics: None }
    }

    /// Waits until `enough` is, unless the relay ends before.
    pub(crate) async fn until(&mut self, enough: impl Future<Output = ()>) {
        tokio::select! {
            () = enough => {}
            exit = self.child.wait() => panic!("the relay ended by itself: {exit:?}"),
        }
    }

    /// The value of a metric that the pipeline serves.
    pub(crate) async fn metric(&mut self, address: &str, name: &str) -> u64 {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (mut reading, mut writing) = stream.into_split();
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut writing, request).await.unwrap();
        let mut answer = String::new();
        reading.read_to_string(&mut answer).await.unwrap();
        let line = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        // Some are counted in numbers that could have a fraction.
        let value = line.and_then(|line| line.trim().parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("{name} in {answer}")) as u64
    }

    /// The address of the metrics, once the relay runs.
    pub(crate) async fn metrics_address(&mut self) -> String {
        let mut lines = (&mut self.output).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            let address = |word: &str| {
                let address = word.strip_prefix("http://")?.strip_suffix("/metrics")?;
                Some(address.to_owned())
            };
            if let Some(address) = line.split_whitespace().find_map(address) {
                return address;
            }
        }
        panic!("it ended before it was running");
    }

    /// The value of a metric, once the relay runs.
    pub(crate) async fn count(&mut self, name: &str) -> u64 {
        let address = match self.metrics.take() {
            Some(address) => address,
            None => self.metrics_address().await,
        };
        let value = self.metric(&address, name).await;
        self.metrics = Some(address);
        value
    }

    /// Stops it in the middle of whatever it does, without its knowing.
    pub(crate) fn pause(&self) {
        self.send(Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.send(Signal::CONT);
    }

    /// Waits until it says that it is stopping.
    pub(crate) async fn until_stopping(&mut self) {
        let mut said = BufReader::new(self.child.stderr.as_mut().unwrap()).lines();
        while let Some(line) = said.next_line().await.unwrap() {
            if line.contains("stopping") {
                return;
            }
        }
        panic!("it ended without stopping");
    }

    pub(crate) fn signal(&self) {
        self.send(Signal::TERM);
    }

    fn send(&self, signal: Signal) {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    pub(crate) async fn exit(mut self) -> ExitStatus {
        self.child.wait().await.unwrap()
    }

    /// Waits for its end; gives its status and what it said.
    pub(crate) async fn end(mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
        (self.child.wait().await.unwrap(), said)
    }

    /// Ends it in the middle of whatever it does.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Asks it to stop; gives its status and what it said at the end.
    pub(crate) async fn terminate(self) -> (ExitStatus, String) {
        self.signal();
        self.end().await
    }
}

/// Publishes stamped events to every partition in turn, until told to stop.
async fn publish(
    options: EventHubsOptions,
    mut seen: watch::Receiver<Seen>,
    mut stop: oneshot::Receiver<()>,
) -> Vec<StreamSends> {
    let writer = PayloadWriter::new(PAYLOAD, SEED).unwrap();
    let mut publisher = Publisher::connect(options).await.unwrap();
    let mut sends = vec![StreamSends::default(); SOURCES as usize];
    let mut outcomes = Vec::new();
    loop {
        for partition in 0..SOURCES {
            let first = sends[partition as usize].sent;
            let fill = |index: usize, payload: &mut [u8]| {
                let header = Header {
                    run: RUN,
                    stream: partition as u16,
                    sequence: first + index as u32,
                    intended: RunTime::EPOCH,
                };
                writer.write(header, RunTime::EPOCH, payload);
            };
            let count = PUBLISHED_AT_ONCE as usize;
            while publisher
                .publish_payloads(SendToken(u64::from(partition)), partition, count, PAYLOAD, fill)
                .is_err()
            {
                poll_fn(|context| publisher.poll_ready(context)).await.unwrap();
            }
            sends[partition as usize].sent += PUBLISHED_AT_ONCE;
        }
        while outcomes.len() < SOURCES as usize {
            poll_fn(|context| publisher.poll_outcomes(context, &mut outcomes)).await.unwrap();
        }
        for outcome in outcomes.drain(..) {
            outcome.result.unwrap();
        }
        for stream in &mut sends {
            stream.acknowledged.insert(stream.sent - PUBLISHED_AT_ONCE..stream.sent);
        }
        let published = sends.iter().map(|stream| u64::from(stream.sent)).sum::<u64>();
        tokio::select! {
            biased;
            _ = &mut stop => return sends,
            waited = seen.wait_for(|seen| published < seen.distinct + LEAD) => { waited.unwrap(); }
        }
    }
}

/// Publishes the event behind which there is nothing to every partition of the destination.
async fn publish_ends(options: EventHubsOptions) {
    let mut publisher = Publisher::connect(options).await.unwrap();
    let fill = |_, payload: &mut [u8]| payload.copy_from_slice(&END);
    for partition in 0..DESTINATIONS {
        let token = SendToken(u64::from(partition));
        while publisher.publish_payloads(token, partition, 1, PAYLOAD, fill).is_err() {
            poll_fn(|context| publisher.poll_ready(context)).await.unwrap();
        }
    }
    let mut outcomes = Vec::new();
    while outcomes.len() < DESTINATIONS as usize {
        poll_fn(|context| publisher.poll_outcomes(context, &mut outcomes)).await.unwrap();
    }
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()), "{outcomes:?}");
}

/// Reads the destination, shows what has come, and hands the verifier over once the end of every partition is read.
async fn read(options: EventHubsOptions, show: watch::Sender<Seen>, verify: oneshot::Sender<Read>) {
    let mut verifier = StreamVerifier::new(Expectation {
        run: RUN,
        streams: SOURCES as u16,
        destinations: DESTINATIONS as u16,
        sequence_end: u32::MAX,
        placement: Placement::Anywhere,
    });
    let source_options =
        SourceOptions { batch: BatchOptions { max_events: 256, max_wait: Duration::ZERO }, prefetch: 2_048 };
    let mut source = EventHubsSource::connect(options, "$Default", source_options).await.unwrap();
    for partition in source.partitions() {
        source.open(partition, StartPosition::Earliest);
    }
    let mut ends = 0;
    let mut arrivals = Vec::new();
    while ends < DESTINATIONS {
        let event = poll_fn(|context| source.poll_batch(context)).await.unwrap();
        let SourceEvent::Batch(batch) = event else { panic!("the reader's partitions stay open: {event:?}") };
        let PartitionId(destination) = batch.partition();
        for event in batch.events() {
            // A Data section with a length in one byte, as the publisher made it.
            let payload = batch.message(event).strip_prefix(b"\x00\x53\x75\xa0\x14");
            if payload == Some(&END[..]) {
                ends += 1;
                continue;
            }
            let header = Header::parse(payload.unwrap_or_default());
            // Whatever is wrong with an event is for the verifier to say.
            arrivals.push(
                header
                    .as_ref()
                    .map_or(NOWHERE, |header| Arrival { stream: header.stream, sequence: header.sequence }),
            );
            verifier.observe(header, destination as u16);
        }
        source.release(batch);
        show.send_replace(Seen { received: verifier.counts().received, distinct: verifier.distinct() });
    }
    Box::new(source).shut_down().await;
    let _ = verify.send(Read { verifier, arrivals });
}

/// The payload of the last event of a partition.
const END: [u8; PAYLOAD] = [0xff; PAYLOAD];

/// An event that cannot be read.
const NOWHERE: Arrival = Arrival { stream: u16::MAX, sequence: 0 };

/// The consumer group of relays between topics.
const GROUP: &str = "parshall";

/// The container of checkpoints.
const CONTAINER: &str = "checkpoints";

pub(crate) const PIPELINE: &str = "pipeline.yaml";
