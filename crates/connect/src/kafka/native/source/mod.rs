//! Receives from the partitions of a topic.
//!
//! Each broker has at most one Fetch under way, for all open partitions that it leads and that have room. It waits at the broker
//! until there is something, and the next one leaves as soon as the answer is there, before anything is done with what it brought.
//!
//! ```text
//!   bounds per partition    events: the prefetch count, handed over and not released
//!                           bytes:  max.partition.fetch.bytes of them, and as much again that waits to become events
//! ```
//!
//! A partition goes on where it was when its broker was lost or no longer leads it; it closes only where going on would leave a
//! gap or make no sense. Offsets that are none of a record are skipped ([`BatchBuilder::skip`]); those of records that retention
//! took before they were read are not, which is how they are noticed.

mod answers;
mod requests;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kafka::ErrorCode;
use kafka::messages::list_offsets::OffsetSpec;
use tokio::time::Instant;

use crate::alarm::Alarm;
use crate::batch_builder::BatchBuilder;
use crate::event::{Encoding, EventBatch, PartitionId};
use crate::kafka::native::cluster::Cluster;
use crate::kafka::native::connection::Done;
use crate::kafka::native::endpoint::Endpoint;
use crate::kafka::native::error::refused_for_good;
use crate::kafka::native::fetched::Fetched;
use crate::service::ServiceError;
use crate::sink::ErrorClass;
use crate::source::{OFFSET_OUT_OF_RANGE, Source, SourceError, SourceEvent, SourceOptions, StartPosition};

/// A [`Source`] of the records of a topic.
pub(crate) struct KafkaSource {
    cluster: Cluster<Asked>,
    encoding: Encoding,
    /// How many events of a partition may be with the user.
    window: usize,
    /// How many bytes of a partition may be with the user, and how many may wait.
    window_bytes: usize,
    partitions: Vec<PartitionId>,
    /// By partition; none for those that are not open.
    readers: Vec<Option<Reader>>,
    opened: u64,
    /// By broker.
    exchanges: Vec<Exchange>,
    builder: BatchBuilder,
    closed: VecDeque<(PartitionId, ServiceError)>,
    /// Id of the topic as text, see [`Source::log_id`].
    log_id: Option<String>,
    /// How often a broker wanted to be left alone.
    slowed_down: u64,
    alarm: Alarm,
}

/// An open partition.
#[derive(Debug)]
struct Reader {
    /// Which opening this is, so that answers to earlier ones are told apart.
    opening: u64,
    place: Place,
    /// Whether a request that names it is under way.
    is_asked: bool,
    /// Whether its broker said that another one leads it, which is being asked for.
    seeks_leader: bool,
    /// Whether a broker has let us read.
    is_attached: bool,
    fetched: Fetched,
    /// The offset of the next event.
    next: i64,
    unreleased: usize,
    unreleased_bytes: usize,
}

/// Where a partition is fetched from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Where that is, the broker has to say.
    Sought(OffsetSpec),
    /// The broker has refused this offset: it has to say where its log begins.
    Refused(i64),
    /// From this offset on.
    At(i64),
}

/// What was asked of a broker.
#[derive(Debug)]
enum Asked {
    Fetch(Vec<AskedPartition>),
    Offsets(Vec<AskedPartition>),
}

#[derive(Clone, Copy, Debug)]
struct AskedPartition {
    partition: usize,
    opening: u64,
    place: Place,
}

/// What is under way with a broker.
#[derive(Debug, Default)]
struct Exchange {
    fetches: bool,
    /// The partition that is named first next time: what an answer may have is used up by the first.
    first: usize,
    /// The broker wants to be left alone until then.
    quiet_until: Option<Instant>,
    throttled: Option<ServiceError>,
    /// Lists that are used again.
    spare: Vec<AskedPartition>,
}

impl KafkaSource {
    /// Connects, and asks for the partitions. None is open yet.
    ///
    /// # Errors
    /// When no broker can be reached, the login is refused, or there is no such topic.
    pub(crate) async fn connect(
        endpoint: Arc<Endpoint>,
        options: SourceOptions,
        encoding: Encoding,
    ) -> Result<Self, ServiceError> {
        let max_partition_bytes = endpoint.settings.fetch.max_partition_bytes;
        let cluster = Cluster::find(endpoint).await?;
        // Partitions are counted in 31 bits.
        let count = cluster.partitions() as u32;
        let log_id = log_id(&cluster);
        Ok(Self {
            cluster,
            encoding,
            window: options.unreleased_limit(),
            window_bytes: usize::try_from(max_partition_bytes).unwrap_or(usize::MAX),
            partitions: (0..count).map(PartitionId).collect(),
            readers: (0..count).map(|_| None).collect(),
            opened: 0,
            exchanges: Vec::new(),
            builder: BatchBuilder::new(options.batch, count),
            closed: VecDeque::new(),
            log_id,
            slowed_down: 0,
            alarm: Alarm::new(),
        })
    }

    /// Closes a partition that did not ask for it.
    fn fail(&mut self, partition: usize, error: ServiceError) {
        let partition = PartitionId(partition as u32);
        self.close(partition);
        self.closed.push_back((partition, error));
    }

    /// The topic is another one than before: closes its partitions, since their offsets mean nothing there.
    #[cold]
    fn leave_old_topic(&mut self) {
        self.log_id = log_id(&self.cluster);
        for partition in 0..self.readers.len() {
            if self.readers[partition].is_some() {
                let what = format!(
                    "topic {} was deleted and created again: partition {partition} has other records",
                    self.cluster.endpoint().topic
                );
                let (class, condition) = (ErrorClass::Retryable, RECREATED.to_owned());
                self.fail(partition, ServiceError { class, condition, description: what });
            }
        }
    }

    /// One turn: goes on with all brokers, and seals what is due. Ready when there may be something to hand over.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        while let Poll::Ready(refreshed) = self.cluster.poll_refresh(context) {
            refreshed?;
            self.readers.iter_mut().flatten().for_each(|reader| reader.seeks_leader = false);
            if self.cluster.is_recreated() {
                self.leave_old_topic();
            }
            // To others a connection is made, which shows whether they answer.
            for broker in 0..self.cluster.brokers() {
                if !self.is_needed(broker) {
                    self.cluster.end_outage(broker);
                }
            }
        }
        self.exchanges.resize_with(self.cluster.brokers(), Exchange::default);
        for broker in 0..self.exchanges.len() {
            self.poll_broker(context, broker)?;
        }
        if let Some(deadline) = self.builder.next_deadline() {
            let now = Instant::now().into_std();
            if deadline <= now {
                self.builder.handle_timeout(now);
            }
        }
        // An answer may have said that somebody else leads, which the next turn waits for.
        if self.builder.has_sealed() || !self.closed.is_empty() || self.cluster.has_unwatched_refresh() {
            return Poll::Ready(Ok(()));
        }
        self.poll_timer(context).map(Ok)
    }

    /// Ready when the next open batch may be due, or a broker may be asked again.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let due = self.builder.next_deadline().map(Instant::from_std);
        let quiet = self.exchanges.iter().filter_map(|exchange| exchange.quiet_until).min();
        let late = self.cluster.watch_silence();
        self.alarm.poll(context, [due, quiet, late].into_iter().flatten().min())
    }

    /// Asks a broker for what is wanted of it, and takes what it answers. An error is one that trying again can't change.
    fn poll_broker(&mut self, context: &mut Context<'_>, broker: usize) -> Result<(), ServiceError> {
        let exchange = &mut self.exchanges[broker];
        if exchange.quiet_until.is_some_and(|until| until <= Instant::now()) {
            (exchange.quiet_until, exchange.throttled) = (None, None);
        }
        loop {
            if self.cluster.up(broker).is_none() {
                if !self.is_needed(broker) {
                    return Ok(());
                }
                match self.cluster.poll_up(context, broker) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(error)) if error.class == ErrorClass::Fatal => return Err(error),
                    Poll::Ready(Err(_)) => continue,
                }
            }
            self.ask_offsets(broker)?;
            self.ask_records(broker)?;
            let Some(connection) = self.cluster.up(broker) else {
                continue;
            };
            let taken = match connection.poll_done(context) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(Done::Answered(asked, answer))) => self.take_answer(broker, asked, &answer),
                // All that is asked here has an answer.
                Poll::Ready(Ok(Done::Written(_))) => Ok(()),
                Poll::Ready(Err(error)) => Err(error),
            };
            match taken {
                Ok(()) if self.builder.has_sealed() => return Ok(()),
                Ok(()) => {}
                Err(error) if error.class == ErrorClass::Fatal => return Err(error),
                Err(error) => self.lose(broker, &error),
            }
        }
    }

    /// Whether a partition that is open is led by a broker.
    fn is_needed(&self, broker: usize) -> bool {
        let mut open = self.readers.iter().enumerate().filter(|(_, reader)| reader.is_some());
        open.any(|(partition, _)| self.cluster.leader(partition).broker == Some(broker))
    }

    /// The connection is gone; the partitions go on where they are once there is another.
    fn lose(&mut self, broker: usize, error: &ServiceError) {
        for asked in self.cluster.lost(broker, error) {
            let (Asked::Fetch(partitions) | Asked::Offsets(partitions)) = asked;
            self.end(&partitions);
        }
        self.exchanges[broker].fetches = false;
    }

    /// No request names these partitions any longer.
    fn end(&mut self, partitions: &[AskedPartition]) {
        for asked in partitions {
            if let Some(reader) = self.asked(asked) {
                reader.is_asked = false;
            }
        }
    }

    /// The reader that something was asked for, if it is still that one.
    fn asked(&mut self, asked: &AskedPartition) -> Option<&mut Reader> {
        let reader = self.readers.get_mut(asked.partition)?.as_mut();
        reader.filter(|reader| reader.opening == asked.opening)
    }

    /// Makes events of what has arrived of a partition, as far as there is credit. Hot path.
    fn deliver(&mut self, partition: usize, now: std::time::Instant) {
        let Some(Some(reader)) = self.readers.get_mut(partition) else {
            return;
        };
        while reader.fetched.records() > 0 && reader.unreleased_bytes < self.window_bytes {
            let limit = (self.window - reader.unreleased.min(self.window)).min(DELIVERED_AT_ONCE);
            if limit == 0 {
                break;
            }
            let id = PartitionId(partition as u32);
            let (events, bytes) =
                reader.fetched.deliver(&mut self.builder, now, id, self.encoding, &mut reader.next, limit);
            reader.unreleased += events;
            reader.unreleased_bytes += bytes;
        }
    }
}

/// Returns the id of the topic as Kafka's tools show it.
fn log_id(cluster: &Cluster<Asked>) -> Option<String> {
    cluster.topic_id().map(|id| URL_SAFE_NO_PAD.encode(id))
}

impl Reader {
    /// Begins at an offset.
    fn begin(&mut self, offset: i64) {
        self.place = Place::At(offset);
        self.next = offset;
    }

    /// Whether more is to be fetched than what waits to become events.
    fn wants(&self, window: usize, window_bytes: usize) -> bool {
        self.fetched.records() < window && self.fetched.bytes() + self.unreleased_bytes < 2 * window_bytes
    }
}

impl Source for KafkaSource {
    fn partitions(&self) -> Vec<PartitionId> {
        self.partitions.clone()
    }

    fn encoding(&self) -> Encoding {
        self.encoding
    }

    fn open(&mut self, partition: PartitionId, start: StartPosition) {
        self.close(partition);
        let place = match start {
            StartPosition::Earliest => Ok(Place::Sought(OffsetSpec::Earliest)),
            StartPosition::Latest => Ok(Place::Sought(OffsetSpec::Latest)),
            StartPosition::AtEnqueuedTime(time) => Ok(Place::Sought(OffsetSpec::At(time.unix_ms().max(0)))),
            StartPosition::AtSequenceNumber(number) => Ok(Place::At(number.max(0))),
            StartPosition::AfterSequenceNumber(number) => Ok(Place::At(number.saturating_add(1).max(0))),
            StartPosition::AfterOffset(offset) => match offset.parse::<i64>() {
                Ok(number) => Ok(Place::At(number.saturating_add(1).max(0))),
                Err(_) => Err(format!("{offset:?} is no offset of Kafka")),
            },
        };
        let exists = (partition.0 as usize) < self.readers.len();
        let place = match place {
            Ok(place) if exists => place,
            Ok(_) => {
                let what = format!("topic {} has no partition {partition}", self.cluster.endpoint().topic);
                let error = refused_for_good(ErrorCode::UnknownTopicOrPartition, what);
                return self.closed.push_back((partition, error));
            }
            Err(what) => {
                let error = ServiceError::fatal(OFFSET_OUT_OF_RANGE, what);
                return self.closed.push_back((partition, error));
            }
        };
        self.opened += 1;
        let mut reader = Reader {
            opening: self.opened,
            place,
            is_asked: false,
            seeks_leader: false,
            is_attached: false,
            fetched: Fetched::new(self.cluster.endpoint().settings.fetch.max_unpacked_bytes),
            next: 0,
            unreleased: 0,
            unreleased_bytes: 0,
        };
        if let Place::At(offset) = place {
            reader.begin(offset);
        }
        self.readers[partition.0 as usize] = Some(reader);
    }

    fn close(&mut self, partition: PartitionId) {
        self.closed.retain(|(closed, _)| *closed != partition);
        self.builder.discard(partition);
        if let Some(reader) = self.readers.get_mut(partition.0 as usize) {
            *reader = None;
        }
    }

    fn hold(&mut self, partition: PartitionId, held: bool) {
        self.builder.hold(partition, held);
    }

    fn log_id(&self) -> Option<&str> {
        self.log_id.as_deref()
    }

    fn is_exhausted(&self) -> bool {
        let mut open = self.readers.iter().flatten().peekable();
        let is_full = |reader: &Reader| {
            reader.unreleased >= self.window || reader.unreleased_bytes >= self.window_bytes
        };
        open.peek().is_some() && open.all(is_full)
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>> {
        loop {
            if let Some((partition, error)) = self.closed.pop_front() {
                let error = error.into();
                return Poll::Ready(Ok(SourceEvent::PartitionClosed { partition, error }));
            }
            if let Some(mut batch) = self.builder.pop_sealed() {
                batch.set_encoding(self.encoding);
                return Poll::Ready(Ok(SourceEvent::Batch(batch)));
            }
            ready!(self.poll_turn(context))?;
        }
    }

    fn release(&mut self, batch: EventBatch) {
        let partition = batch.partition().0 as usize;
        let (events, bytes) = (batch.len(), batch.pushed_bytes());
        self.builder.recycle(batch);
        let Some(Some(reader)) = self.readers.get_mut(partition) else {
            return;
        };
        reader.unreleased = reader.unreleased.saturating_sub(events);
        reader.unreleased_bytes = reader.unreleased_bytes.saturating_sub(bytes);
        if reader.fetched.records() > 0 {
            self.deliver(partition, Instant::now().into_std());
        }
    }

    fn outage(&self) -> Option<&ServiceError> {
        let throttled = || self.exchanges.iter().find_map(|exchange| exchange.throttled.as_ref());
        self.cluster.outage().or_else(throttled)
    }

    fn is_attached(&self, partition: PartitionId) -> bool {
        let reader = self.readers.get(partition.0 as usize);
        matches!(reader, Some(Some(reader)) if reader.is_attached)
    }

    fn next_number(&self, partition: PartitionId) -> Option<i64> {
        match self.readers.get(partition.0 as usize)?.as_ref()? {
            Reader { place: Place::At(offset), is_attached: true, unreleased: 0, fetched, .. } => {
                Some(*offset).filter(|_| fetched.records() == 0 && fetched.bytes() == 0)
            }
            _ => None,
        }
    }

    fn accounts_for_all_numbers(&self) -> bool {
        true
    }

    fn added_partitions(&self) -> u32 {
        // Partitions are counted in 31 bits.
        self.cluster.partitions().saturating_sub(self.partitions.len()) as u32
    }

    fn slowed_down(&self) -> u64 {
        self.slowed_down
    }
}

impl fmt::Debug for KafkaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSource")
            .field("cluster", &self.cluster)
            .field("encoding", &self.encoding)
            .finish_non_exhaustive()
    }
}

/// Condition of partitions whose topic was deleted and created again.
const RECREATED: &str = "TOPIC_RECREATED";

/// Events that are made of a partition before its bytes are looked at again.
const DELIVERED_AT_ONCE: usize = 1_024;
