//! A world in memory for tests: both hubs, a pipeline between them, and faults on purpose.
//!
//! With it the real roles run from end to end without a network, in threads of the test instead of processes.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    future::poll_fn,
    io::BufReader,
    os::fd::OwnedFd,
    path::Path,
    pin::{Pin, pin},
    rc::Rc,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    thread,
    time::Duration,
};

use bytes::BytesMut;
use connect::{
    event::{EventBatch, PartitionId},
    fakes::{MemoryLog, MemorySource},
    sink::{
        ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, Sink, SinkBusy, SinkError,
    },
    source::{BatchOptions, Source, SourceError, SourceEvent, SourceOptions, StartPosition},
};
use tokio::{
    net::unix::pipe,
    time::{Instant, Sleep},
};

use super::{
    fabric::{
        DecodedMessage, Fabric, HubService, MessageCodec, OpenedSource, RelayMetrics,
        RelayPipeline, RelayReading,
    },
    process::{LaunchError, RoleControl, RoleEnd, RoleExit, RoleHandle, RoleLauncher},
    protocol::{Endpoint, HubConfig, ReadFrom, RelayConfig},
    run_role,
};
use crate::{
    clock::RunClock,
    results::{HubCounters, LatencyDistribution, Role, Stage},
    scenario::Secret,
};

/// What goes wrong in the world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// The pipeline forgets every event of this number: the n-th, the 2n-th, …
    pub(crate) lose_every: Option<u64>,
    /// It flips a bit of every event of this number.
    pub(crate) corrupt_every: Option<u64>,
    /// It sends every event of this number twice.
    pub(crate) duplicate_every: Option<u64>,
    /// It fails after so many events.
    pub(crate) fail_after: Option<u64>,
    /// It panics after so many events.
    pub(crate) panic_after: Option<u64>,
    /// The source refuses every send of this number.
    pub(crate) refuse_every: Option<u64>,
    /// The source takes every send of this number and never answers it.
    pub(crate) ignore_every: Option<u64>,
    /// The source answers every send only after this time.
    pub(crate) answer_after: Duration,
    /// The service counts so many events more than there were.
    pub(crate) miscount: u64,
    /// The pipeline takes events and never gives them on.
    pub(crate) stand_still: bool,
}

/// The world of one service, shared by all who hold it.
#[derive(Clone, Debug)]
pub(crate) struct MemoryFabric {
    faults: Faults,
    hubs: Arc<Mutex<BTreeMap<String, MemoryHub>>>,
}

#[derive(Clone, Debug)]
struct MemoryHub {
    log: MemoryLog,
    incoming: Arc<AtomicU64>,
    outgoing: Arc<AtomicU64>,
}

impl MemoryFabric {
    pub(crate) fn new(faults: Faults) -> Self {
        Self {
            faults,
            hubs: Arc::default(),
        }
    }

    fn hubs(&self) -> MutexGuard<'_, BTreeMap<String, MemoryHub>> {
        self.hubs
            .lock()
            .expect("no test panics while it holds the hubs")
    }

    fn hub(&self, endpoint: &Endpoint) -> Result<MemoryHub, SinkError> {
        let unknown = || SinkError {
            condition: "amqp:not-found".to_owned(),
            description: format!("there is no hub {}", endpoint.hub.name),
        };
        self.hubs()
            .get(&endpoint.hub.name)
            .cloned()
            .ok_or_else(unknown)
    }
}

impl Fabric for MemoryFabric {
    type Hub = MemoryService;
    type Relay = MemoryRelay;
    type Sink = MemorySink;
    type Source = CountedSource;
    type Codec = PlainCodec;
    type Error = SinkError;

    fn codec(&self) -> PlainCodec {
        PlainCodec
    }

    async fn start_hub(&self, config: &HubConfig) -> Result<MemoryService, SinkError> {
        let mut hubs = self.hubs();
        hubs.clear();
        for entity in &config.hubs {
            let hub = MemoryHub {
                log: MemoryLog::new(entity.hub.partitions),
                incoming: Arc::default(),
                outgoing: Arc::default(),
            };
            hubs.insert(entity.hub.name.clone(), hub);
        }
        drop(hubs);
        Ok(MemoryService {
            fabric: self.clone(),
        })
    }

    async fn connect_relay(&self, config: &RelayConfig) -> Result<MemoryRelay, SinkError> {
        let options = SourceOptions {
            batch: BatchOptions {
                max_events: config.relay.batch.events as usize,
                max_wait: Duration::ZERO,
            },
            prefetch: config.relay.prefetch as usize,
        };
        let OpenedSource { source, positions } = self
            .open_source(&config.source, options, config.read_from)
            .await?;
        Ok(MemoryRelay {
            faults: self.faults,
            clock: config.clock,
            source,
            positions,
            destination: self.hub(&config.destination)?,
            fan_out: config.relay.fan_out,
            reading: Rc::default(),
        })
    }

    async fn open_sink(&self, endpoint: &Endpoint) -> Result<MemorySink, SinkError> {
        Ok(MemorySink {
            hub: self.hub(endpoint)?,
            partitions: endpoint.hub.partitions,
            refuse_every: self.faults.refuse_every,
            ignore_every: self.faults.ignore_every,
            answer_after: self.faults.answer_after,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            sends: 0,
            outcomes: VecDeque::new(),
        })
    }

    async fn open_source(
        &self,
        endpoint: &Endpoint,
        options: SourceOptions,
        _: ReadFrom,
    ) -> Result<OpenedSource<CountedSource>, SinkError> {
        let hub = self.hub(endpoint)?;
        let positions = (0..endpoint.hub.partitions)
            .map(|number| (PartitionId(number), StartPosition::Earliest));
        Ok(OpenedSource {
            source: CountedSource {
                source: MemorySource::new(&hub.log, options),
                outgoing: hub.outgoing,
            },
            positions: positions.collect(),
        })
    }
}

/// The service: its counters are those of the hubs.
#[derive(Debug)]
pub(crate) struct MemoryService {
    fabric: MemoryFabric,
}

impl HubService for MemoryService {
    fn connection_string(&self) -> Secret {
        Secret::new("in memory")
    }

    fn counters(&self) -> BTreeMap<String, HubCounters> {
        let hubs = self.fabric.hubs();
        hubs.iter()
            .map(|(name, hub)| {
                let counters = HubCounters {
                    incoming_events: hub.incoming.load(Ordering::SeqCst)
                        + self.fabric.faults.miscount,
                    outgoing_events: hub.outgoing.load(Ordering::SeqCst),
                    ..HubCounters::default()
                };
                (name.clone(), counters)
            })
            .collect()
    }

    async fn stop(self) {}
}

/// Appends to a log and answers at once.
#[derive(Debug)]
pub(crate) struct MemorySink {
    hub: MemoryHub,
    partitions: u32,
    refuse_every: Option<u64>,
    ignore_every: Option<u64>,
    answer_after: Duration,
    timer: Pin<Box<Sleep>>,
    sends: u64,
    /// Answers, and when they are due.
    outcomes: VecDeque<(Instant, SendOutcome)>,
}

impl Sink for MemorySink {
    fn destinations(&self) -> u32 {
        self.partitions
    }

    fn max_batch_bytes(&self, _: u32) -> usize {
        1 << 20
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        message_len
    }

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        Poll::Ready(Ok(()))
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        if self.outcomes.len() >= 4 {
            return Err(SinkBusy);
        }
        self.sends += 1;
        let is_refused = self
            .refuse_every
            .is_some_and(|every| self.sends.is_multiple_of(every));
        if !is_refused {
            for message in outgoing.messages() {
                self.hub.incoming.fetch_add(1, Ordering::SeqCst);
                self.hub
                    .log
                    .append(PartitionId(outgoing.destination), message);
            }
        }
        let refusal = || SendError {
            class: ErrorClass::Fatal,
            condition: "test:refused".to_owned(),
            description: "refused on purpose".to_owned(),
        };
        if self
            .ignore_every
            .is_some_and(|every| self.sends.is_multiple_of(every))
        {
            return Ok(());
        }
        let outcome = SendOutcome {
            token,
            result: if is_refused {
                Err(Box::new(refusal()))
            } else {
                Ok(())
            },
        };
        self.outcomes
            .push_back((Instant::now() + self.answer_after, outcome));
        Ok(())
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        let Some((due, _)) = self.outcomes.front() else {
            return Poll::Pending;
        };
        if *due > Instant::now() {
            self.timer.as_mut().reset(*due);
            std::task::ready!(self.timer.as_mut().poll(context));
        }
        let answered = self.outcomes.pop_front().expect("there is a first one");
        outcomes.push(answered.1);
        Poll::Ready(Ok(()))
    }
}

/// Reads a log and counts what it gives out.
#[derive(Debug)]
pub(crate) struct CountedSource {
    source: MemorySource,
    outgoing: Arc<AtomicU64>,
}

impl Source for CountedSource {
    fn partitions(&self) -> Vec<PartitionId> {
        self.source.partitions()
    }

    fn open(&mut self, partition: PartitionId, position: StartPosition) {
        self.source.open(partition, position);
    }

    fn close(&mut self, partition: PartitionId) {
        self.source.close(partition);
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>> {
        let event = self.source.poll_batch(context);
        if let Poll::Ready(Ok(SourceEvent::Batch(batch))) = &event {
            self.outgoing
                .fetch_add(batch.len() as u64, Ordering::SeqCst);
        }
        event
    }

    fn release(&mut self, batch: EventBatch) {
        self.source.release(batch);
    }
}

/// Forwards by sequence number, with faults.
#[derive(Debug)]
pub(crate) struct MemoryRelay {
    faults: Faults,
    clock: RunClock,
    source: CountedSource,
    positions: Vec<(PartitionId, StartPosition)>,
    destination: MemoryHub,
    fan_out: u32,
    reading: Rc<RefCell<RelayReading>>,
}

impl RelayPipeline for MemoryRelay {
    type Metrics = MemoryMetrics;
    type Error = SourceError;

    fn metrics(&self) -> MemoryMetrics {
        MemoryMetrics(Rc::clone(&self.reading))
    }

    async fn run(mut self, stop: impl Future<Output = ()>) -> Result<RelayReading, SourceError> {
        for (partition, position) in std::mem::take(&mut self.positions) {
            self.source.open(partition, position);
        }
        let mut stop = pin!(stop);
        poll_fn(|context| {
            if stop.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            while let Poll::Ready(event) = self.source.poll_batch(context)? {
                match event {
                    SourceEvent::Batch(batch) => self.forward(batch)?,
                    SourceEvent::PartitionClosed { error, .. } => return Poll::Ready(Err(error)),
                }
            }
            Poll::Pending
        })
        .await?;
        Ok(self.reading.borrow().clone())
    }
}

impl MemoryRelay {
    fn forward(&mut self, batch: EventBatch) -> Result<(), SourceError> {
        let now = self.clock.now();
        let mut reading = self.reading.borrow_mut();
        let RelayReading { counters, stages } = &mut *reading;
        for event in batch.events() {
            counters.received += 1;
            let hits = |every: Option<u64>| {
                every.is_some_and(|every| counters.received.is_multiple_of(every))
            };
            if hits(self.faults.fail_after) {
                return Err(SourceError {
                    class: ErrorClass::Fatal,
                    condition: "test:failed".to_owned(),
                    description: "failed on purpose".to_owned(),
                });
            }
            assert!(!hits(self.faults.panic_after), "a panic on purpose");
            if self.faults.stand_still {
                continue;
            }
            counters.completed += 1;
            if hits(self.faults.lose_every) {
                continue;
            }
            let mut message = batch.message(event).to_vec();
            if hits(self.faults.corrupt_every) {
                message[5] ^= 1;
            }
            let destination = PartitionId(event.sequence_number as u32 % self.fan_out);
            for _ in 0..=u32::from(hits(self.faults.duplicate_every)) {
                self.destination.incoming.fetch_add(1, Ordering::SeqCst);
                self.destination.log.append(destination, &message);
                counters.forwarded += 1;
                counters.first_forwarded.get_or_insert(now);
                counters.last_forwarded = Some(self.clock.now());
            }
        }
        stages
            .entry(Stage::Process)
            .or_insert_with(LatencyDistribution::new)
            .record(7);
        drop(reading);
        self.source.release(batch);
        Ok(())
    }
}

/// Reads the relay's reading.
#[derive(Debug)]
pub(crate) struct MemoryMetrics(Rc<RefCell<RelayReading>>);

impl RelayMetrics for MemoryMetrics {
    async fn read(&self) -> Option<RelayReading> {
        Some(self.0.borrow().clone())
    }
}

/// A message is the length of the header, the header, and the payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainCodec;

impl MessageCodec for PlainCodec {
    fn encode(&self, header: Option<&[u8]>, payload: &[u8], message: &mut BytesMut) {
        let header = header.unwrap_or_default();
        message.extend_from_slice(&[u8::try_from(header.len()).expect("headers are short")]);
        message.extend_from_slice(header);
        message.extend_from_slice(payload);
    }

    fn decode<'a>(&self, message: &'a [u8]) -> Option<DecodedMessage<'a>> {
        let (length, rest) = message.split_first()?;
        let (header, payload) = rest.split_at_checked(usize::from(*length))?;
        Some(DecodedMessage {
            header: (!header.is_empty()).then_some(header),
            payload,
        })
    }
}

/// Starts roles as threads of the test.
#[derive(Debug)]
pub(crate) struct ThreadLauncher {
    pub(crate) fabric: MemoryFabric,
}

impl RoleLauncher for ThreadLauncher {
    fn launch(&self, role: Role, name: &str, log: &Path) -> Result<RoleHandle, LaunchError> {
        std::fs::write(log, format!("log of the {name}\n")).expect("the folder of logs is there");
        let (their_input, our_input) = std::io::pipe().expect("a pipe");
        let (our_output, their_output) = std::io::pipe().expect("a pipe");
        let fabric = self.fabric.clone();
        let thread = thread::spawn(move || {
            // What went wrong has been reported.
            let _ = run_role(role, fabric, BufReader::new(their_input), their_output);
        });
        let input =
            pipe::Sender::from_owned_fd(OwnedFd::from(our_input)).expect("our end of a pipe");
        let output =
            pipe::Receiver::from_owned_fd(OwnedFd::from(our_output)).expect("our end of a pipe");
        Ok(RoleHandle {
            input: Box::new(input),
            output: Box::new(output),
            control: Box::new(ThreadControl {
                thread: Some(thread),
                last_line: format!("log of the {name}"),
            }),
        })
    }
}

#[derive(Debug)]
struct ThreadControl {
    thread: Option<thread::JoinHandle<()>>,
    last_line: String,
}

impl RoleControl for ThreadControl {
    fn process_id(&self) -> Option<u32> {
        None
    }

    fn end(mut self: Box<Self>, _: Duration) -> Pin<Box<dyn Future<Output = RoleExit> + Send>> {
        Box::pin(async move {
            let thread = self.thread.take();
            let _ = tokio::task::spawn_blocking(move || thread.map(thread::JoinHandle::join)).await;
            RoleExit {
                end: RoleEnd::Exited(None),
                last_log_lines: vec![self.last_line.clone()],
            }
        })
    }
}
