//! What roles need from outside: a service, a pipeline, and a source or sink for each endpoint. The lab's own backend is
//! the [network](super::network); tests bring one [in memory](super::memory).

use std::{
    collections::BTreeMap,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::BytesMut;
use connect::{
    event::{Encoding, PartitionId},
    producer::Stages,
    sink::{SendToken, Sink},
    source::{AnySource, SourceOptions, StartPosition},
};

use super::protocol::{Endpoint, EntryPoint, ReadFrom, RelayConfig, RelayCounters, ServiceConfig};
use crate::{
    clock::RunClock,
    record::{ReadRecords, ServedRecords},
    results::{EntityCounters, LatencyDistribution, RelayActivity, Size, Stage},
    scenario::Secret,
};

/// Makes what a role works with. Cloned into each worker's thread.
pub trait Backend: Clone + Send + 'static {
    /// The embedded service.
    type Service: RunningService;
    /// The pipeline.
    type Relay: RelayPipeline;
    /// How payloads become messages and are found in them again.
    type Codec: MessageCodec;
    /// Why something can't be made.
    type Error: Error + Send + Sync + 'static;

    /// The codec of what is sent to an endpoint or received from it.
    fn codec(&self, endpoint: &Endpoint) -> Self::Codec;

    /// Starts the embedded service.
    fn start_service(
        &self,
        config: &ServiceConfig,
    ) -> impl Future<Output = Result<Self::Service, Self::Error>>;

    /// Connects a pipeline, which does nothing until it is run.
    fn connect_relay(&self, config: &RelayConfig) -> impl Future<Output = Result<Self::Relay, Self::Error>>;

    /// Connects a worker to send to an endpoint. Its destinations are the partitions of the entity.
    fn open_sink(&self, endpoint: &Endpoint) -> impl Future<Output = Result<OpenedSink, Self::Error>>;

    /// Connects a worker to receive from an endpoint. No partition is open yet.
    fn open_source(
        &self,
        endpoint: &Endpoint,
        options: SourceOptions,
        read_from: ReadFrom,
    ) -> impl Future<Output = Result<OpenedSource, Self::Error>>;
}

/// A sink with what it tells beside its outcomes.
#[derive(Debug)]
pub struct OpenedSink {
    /// The sink.
    pub sink: Box<dyn Sink>,
    /// What its calls consist of, where each has a connection of its own.
    pub stages: Option<Arc<StageLog>>,
}

/// The stages of calls that were answered, until whoever takes their outcomes takes these as well.
#[derive(Debug, Default)]
pub struct StageLog(Mutex<Vec<(SendToken, Stages)>>);

impl StageLog {
    /// A call was acknowledged.
    pub(super) fn note(&self, token: SendToken, stages: Stages) {
        // Nobody panics who holds it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((token, stages));
    }

    /// Appends what was noted since the last time.
    pub(super) fn take(&self, taken: &mut Vec<(SendToken, Stages)>) {
        taken.append(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl From<Box<dyn Sink>> for OpenedSink {
    fn from(sink: Box<dyn Sink>) -> Self {
        Self { sink, stages: None }
    }
}

/// A source with the places at which its partitions are to be opened.
#[derive(Debug)]
pub struct OpenedSource {
    /// The source.
    pub source: AnySource,
    /// Every partition, with where it begins as of the moment at which the source was made.
    pub positions: Vec<(PartitionId, StartPosition)>,
    /// Whether the receipt of a batch is the instant of the run, in microseconds, at which its events arrived. Otherwise they
    /// arrive when they are handed over.
    pub is_stamped: bool,
}

/// A running service.
pub trait RunningService {
    /// How clients reach it, AMQP over plain TCP first.
    fn entry_points(&self) -> Vec<EntryPoint>;

    /// How clients reach its storage account, if it has one.
    fn storage_connection_string(&self) -> Option<Secret>;

    /// Its counters, by entity name.
    fn counters(&self) -> BTreeMap<String, EntityCounters>;

    /// When these records of an entity were where in it, by the clock of the run; `None` if it does not know all of them.
    fn served(&self, clock: RunClock, entity: &str, read: &ReadRecords) -> Option<ServedRecords> {
        let _ = (clock, entity, read);
        None
    }

    /// Ends it.
    fn stop(self) -> impl Future<Output = ()>;
}

/// A connected pipeline.
pub trait RelayPipeline {
    /// Tells its counters while it runs.
    type Metrics: RelayMetrics;
    /// Why it can't go on.
    type Error: Error + Send + Sync + 'static;

    /// A handle that outlives [`Self::run`].
    fn metrics(&self) -> Self::Metrics;

    /// Carries events until `stop` is ready, then lets what is under way come to its end, writes the last
    /// checkpoints and gives its last reading.
    fn run(self, stop: impl Future<Output = ()>) -> impl Future<Output = Result<RelayReading, Self::Error>>;
}

/// Asks a running pipeline for its counters.
pub trait RelayMetrics {
    /// The counters and distributions of this moment; `None` when it has ended.
    fn read(&self) -> impl Future<Output = Option<RelayReading>>;
}

/// What a pipeline counted and recorded since it was connected.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RelayReading {
    /// What it counted.
    pub counters: RelayCounters,
    /// What it recorded, per stage.
    pub stages: BTreeMap<Stage, LatencyDistribution>,
    /// Sizes that it recorded.
    pub sizes: BTreeMap<Size, LatencyDistribution>,
    /// What it counted of its own work; `None` if it does not tell.
    pub activity: Option<RelayActivity>,
    /// What monitoring is to see of it, where that was asked for and is due again: text in the OpenMetrics format.
    pub page: Option<String>,
}

/// Payloads into messages and back, in the encoding that [`Sink`] and [`Source`](connect::source::Source) move.
pub trait MessageCodec {
    /// The encoding of its messages.
    fn encoding(&self) -> Encoding;

    /// Appends the message that carries `payload`, and `header` as the application property
    /// [`HEADER_PROPERTY`](crate::payload::HEADER_PROPERTY) beside it if there is one.
    fn encode(&self, header: Option<&[u8]>, payload: &[u8], message: &mut BytesMut);

    /// Finds them again; `None` in what is no such message.
    fn decode<'a>(&self, message: &'a [u8]) -> Option<DecodedMessage<'a>>;
}

/// The parts of a message that the lab looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodedMessage<'a> {
    /// The application property, if the message has it.
    pub header: Option<&'a [u8]>,
    /// The payload.
    pub payload: &'a [u8],
}

/// How often a role reports its progress. Several times within the time in which a saturating load would use up
/// what it is allowed to be ahead.
pub(super) const REPORT_EVERY: Duration = Duration::from_millis(100);
