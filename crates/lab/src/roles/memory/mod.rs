//! A world in memory for tests: both hubs, a pipeline between them, and faults on purpose.
//!
//! With it the real roles run from end to end without a network, in threads of the test instead of processes. It knows
//! what it did to whom ([`MemoryBackend::tally`]) and when everything reached the sink ([`MemoryBackend::observed`]), so
//! that a test can hold what the lab found against the truth.

mod ends;
mod launcher;
mod quota;
mod relay;
mod stall;
mod tampering;

pub use ends::{CountedSource, MemorySink, Observed};
pub use launcher::ThreadLauncher;
pub use quota::Quota;
pub use relay::{Delay, MemoryMetrics, MemoryRelay};
pub use stall::{Stall, Stalled};
pub use tampering::{FlippedBit, Tally, Tampering};

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::BytesMut;
use connect::{
    event::{Encoding, EnqueuedTime, PartitionId},
    fakes::MemoryLog,
    sink::SinkError,
    source::{AnySource, BatchOptions, SourceOptions, StartPosition},
};

use self::{quota::Bucket, relay::Kept};
use super::{
    backend::{Backend, DecodedMessage, MessageCodec, OpenedSink, OpenedSource, RunningService},
    protocol::{Endpoint, EntryPoint, ReadFrom, RelayConfig, ServiceConfig},
};
use crate::{
    clock::{RunClock, RunTime},
    results::EntityCounters,
    scenario::{Connection, Entity, KafkaProperties, Secret},
};

/// What goes wrong in the world.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Faults {
    /// What the pipeline does to events.
    pub tampering: Option<Tampering>,
    /// How long it keeps them.
    pub delay: Option<Delay>,
    /// It takes no more events per second than this.
    pub capacity_per_s: Option<f64>,
    /// It takes nothing for this long after its start.
    pub begins_after: Duration,
    /// It fails after so many events.
    pub fail_after: Option<u64>,
    /// It panics after so many events.
    pub panic_after: Option<u64>,
    /// It forwards payloads without what travels beside them.
    pub drops_properties: bool,
    /// It takes events and never gives them on.
    pub stand_still: bool,
    /// The source refuses every send of this number: the n-th, the 2n-th, …
    pub refuse_every: Option<u64>,
    /// The source takes every send of this number and never answers it.
    pub ignore_every: Option<u64>,
    /// What the source takes.
    pub quota: Option<Quota>,
    /// The source acknowledges every send of this number and forgets it.
    pub forget_every: Option<u64>,
    /// The source answers every send only after this time.
    pub answer_after: Duration,
    /// The source stands still, once for each worker.
    pub stall: Option<Stall>,
    /// Somebody's counter does not say what it counts.
    pub miscount: Option<Miscount>,
}

/// A counter that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Miscount {
    /// Which.
    pub counter: Counter,
    /// By how much it is above the truth.
    pub by: i64,
}

/// The counters of service and pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// The service's, of what was appended to the source.
    SourceIncoming,
    /// The service's, of what was read from the source.
    SourceOutgoing,
    /// The service's, of what was appended to the destination.
    DestinationIncoming,
    /// The service's, of what was read from the destination.
    DestinationOutgoing,
    /// The pipeline's, of what it received.
    RelayReceived,
    /// The pipeline's, of what was accepted of it.
    RelayForwarded,
}

impl Faults {
    /// What `counter` reports instead of `truth`.
    fn reported(&self, counter: Counter, truth: u64) -> u64 {
        match self.miscount {
            Some(miscount) if miscount.counter == counter => truth.saturating_add_signed(miscount.by),
            _ => truth,
        }
    }
}

/// The world of one service, shared by all who hold it.
#[derive(Clone, Debug)]
pub struct MemoryBackend {
    faults: Faults,
    hubs: Arc<Mutex<BTreeMap<String, MemoryHub>>>,
    tally: Arc<Mutex<Tally>>,
    observed: Arc<Mutex<Vec<Observed>>>,
    stalled: Arc<Mutex<Vec<Stalled>>>,
}

#[derive(Clone, Debug)]
struct MemoryHub {
    log: MemoryLog,
    clock: RunClock,
    incoming: Arc<AtomicU64>,
    outgoing: Arc<AtomicU64>,
    bucket: Option<Arc<Bucket>>,
}

impl MemoryHub {
    /// Appends a message and dates it, as services do.
    fn append(&self, partition: PartitionId, message: &[u8]) {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        let unix_ms = i64::try_from(unix.unwrap_or_default().as_millis()).unwrap_or(i64::MAX);
        let date = EnqueuedTime::from_unix_ms(unix_ms);
        self.incoming.fetch_add(1, Ordering::SeqCst);
        self.log.append_with_key(partition, message, b"", date);
    }
}

impl MemoryBackend {
    /// A world without hubs, which the service makes when it starts.
    #[must_use]
    pub fn new(faults: Faults) -> Self {
        let (hubs, tally, observed, stalled) = Default::default();
        Self { faults, hubs, tally, observed, stalled }
    }

    /// What was done to events so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.clone()
    }

    /// What was read from the hub of this name so far, in the order of reading.
    #[must_use]
    pub fn observed(&self, hub: &str) -> Vec<Observed> {
        let observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let of_hub = observed.iter().filter(|observed| &*observed.hub == hub);
        of_hub.cloned().collect()
    }

    /// How the source has stood still so far.
    #[must_use]
    pub fn stalled(&self) -> Vec<Stalled> {
        self.stalled.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn hubs(&self) -> MutexGuard<'_, BTreeMap<String, MemoryHub>> {
        self.hubs.lock().expect("no test panics while it holds the hubs")
    }

    fn hub(&self, endpoint: &Endpoint) -> Result<MemoryHub, SinkError> {
        let unknown = || SinkError {
            condition: "amqp:not-found".to_owned(),
            description: format!("there is no hub {}", endpoint.entity.name()),
        };
        self.hubs().get(endpoint.entity.name()).cloned().ok_or_else(unknown)
    }

    fn source(&self, endpoint: &Endpoint, options: SourceOptions) -> Result<CountedSource, SinkError> {
        let (hub, observed) = (self.hub(endpoint)?, Arc::clone(&self.observed));
        Ok(CountedSource::new(hub, endpoint.entity.name(), options, observed))
    }
}

impl Backend for MemoryBackend {
    type Service = MemoryService;
    type Relay = MemoryRelay;
    type Codec = PlainCodec;
    type Error = SinkError;

    fn codec(&self, _: &Endpoint) -> PlainCodec {
        PlainCodec
    }

    async fn start_service(&self, config: &ServiceConfig) -> Result<MemoryService, SinkError> {
        let mut hubs = self.hubs();
        hubs.clear();
        // A queue in which nothing is abandoned does what a log of one partition does, and its dead letters another one.
        let dead_letters = |queue: &Entity| (format!("{}/$DeadLetterQueue", queue.name()), 1);
        let queues = config.entities.iter().filter(|entity| !entity.is_log());
        let entities = config.entities.iter().map(|entity| (entity.name().to_owned(), entity.partitions()));
        for (name, partitions) in entities.chain(queues.map(dead_letters)) {
            let hub = MemoryHub {
                log: MemoryLog::new(partitions),
                clock: config.clock,
                incoming: Arc::default(),
                outgoing: Arc::default(),
                bucket: self.faults.quota.map(|quota| Arc::new(Bucket::new(quota))),
            };
            hubs.insert(name, hub);
        }
        drop(hubs);
        Ok(MemoryService { backend: self.clone(), connections: config.connections.clone() })
    }

    async fn connect_relay(&self, config: &RelayConfig) -> Result<MemoryRelay, SinkError> {
        let options = SourceOptions {
            batch: BatchOptions { max_events: config.relay.batch.events as usize, max_wait: Duration::ZERO },
            prefetch: config.relay.prefetch.initial(),
        };
        let source = self.source(&config.source, options)?;
        Ok(MemoryRelay {
            faults: self.faults,
            tally: Arc::clone(&self.tally),
            clock: config.clock,
            source,
            positions: positions(&config.source),
            destinations: config.destinations.iter().map(|to| self.hub(to)).collect::<Result<_, _>>()?,
            fan_out: config
                .destinations
                .iter()
                .fold(config.relay.fan_out, |least, to| least.min(to.entity.partitions())),
            reading: Rc::default(),
            kept: Kept::new(self.faults.delay),
            free_at: RunTime::EPOCH,
            rest: Box::pin(tokio::time::sleep(Duration::ZERO)),
        })
    }

    async fn open_sink(&self, endpoint: &Endpoint) -> Result<OpenedSink, SinkError> {
        let hub = self.hub(endpoint)?;
        let stalled = Arc::clone(&self.stalled);
        let sink = MemorySink::new(hub, endpoint.entity.partitions(), self.faults, stalled);
        Ok(OpenedSink { sink: Box::new(sink), stages: None })
    }

    async fn open_source(
        &self,
        endpoint: &Endpoint,
        options: SourceOptions,
        _: ReadFrom,
    ) -> Result<OpenedSource, SinkError> {
        let source = AnySource::by_checkpoint(self.source(endpoint, options)?);
        Ok(OpenedSource { source, positions: positions(endpoint), is_stamped: false })
    }
}

/// Every partition, from its beginning.
fn positions(endpoint: &Endpoint) -> Vec<(PartitionId, StartPosition)> {
    let partitions = 0..endpoint.entity.partitions();
    partitions.map(|number| (PartitionId(number), StartPosition::Earliest)).collect()
}

/// The service: its counters are those of the hubs.
#[derive(Debug)]
pub struct MemoryService {
    backend: MemoryBackend,
    connections: BTreeSet<Connection>,
}

impl RunningService for MemoryService {
    fn entry_points(&self) -> Vec<EntryPoint> {
        let connection_string = Secret::new("in memory");
        let entry_point = |connection| EntryPoint {
            connection,
            connection_string: connection_string.clone(),
            kafka: KafkaProperties::default(),
            certificate_authority: None,
        };
        self.connections.iter().copied().map(entry_point).collect()
    }

    fn storage_connection_string(&self) -> Option<Secret> {
        None
    }

    fn counters(&self) -> BTreeMap<String, EntityCounters> {
        let hubs = self.backend.hubs();
        let faults = &self.backend.faults;
        hubs.iter()
            .map(|(name, hub)| {
                let (incoming, outgoing) = if name == SOURCE {
                    (Counter::SourceIncoming, Counter::SourceOutgoing)
                } else {
                    (Counter::DestinationIncoming, Counter::DestinationOutgoing)
                };
                let counters = EntityCounters {
                    incoming_events: faults.reported(incoming, hub.incoming.load(Ordering::SeqCst)),
                    outgoing_events: faults.reported(outgoing, hub.outgoing.load(Ordering::SeqCst)),
                    ..EntityCounters::default()
                };
                (name.clone(), counters)
            })
            .collect()
    }

    async fn stop(self) {}
}

/// A message is the length of the header, the header, and the payload.
#[derive(Debug, Clone, Copy)]
pub struct PlainCodec;

impl PlainCodec {
    /// The payload in a message that this codec encoded.
    fn payload_of(message: &mut [u8]) -> &mut [u8] {
        let header = usize::from(message[0]);
        &mut message[1 + header..]
    }
}

impl MessageCodec for PlainCodec {
    fn encoding(&self) -> Encoding {
        Encoding::Opaque
    }

    fn encode(&self, header: Option<&[u8]>, payload: &[u8], message: &mut BytesMut) {
        let header = header.unwrap_or_default();
        message.extend_from_slice(&[u8::try_from(header.len()).expect("headers are short")]);
        message.extend_from_slice(header);
        message.extend_from_slice(payload);
    }

    fn decode<'a>(&self, message: &'a [u8]) -> Option<DecodedMessage<'a>> {
        let (length, rest) = message.split_first()?;
        let (header, payload) = rest.split_at_checked(usize::from(*length))?;
        Some(DecodedMessage { header: (!header.is_empty()).then_some(header), payload })
    }
}

/// By its name a hub is known to be the source.
const SOURCE: &str = "source";
