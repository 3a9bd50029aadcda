//! Receives from the partitions of a topic.
//!
//! Each partition that is open is assigned to the consumer, and has a queue of its own in the library, which says when it is not
//! empty any more. So a partition of which enough is unreleased is left alone without the others: the library goes on fetching
//! until it has `queued.min.messages`, or `queued.max.messages.kbytes`.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use kafka::record::Record;
use kafka::record_tail::RecordTail;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::{Offset, TopicPartitionList};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::client::{blocking, connect_consumer, refresh_interval, service_error, setup_timeout};
use super::context::{ClientEar, Heard};
use super::growth::Growth;
use super::headers::{put, put_bytes};
use crate::alarm::Alarm;
use crate::batch_builder::BatchBuilder;
use crate::event::{Encoding, EnqueuedTime, EventBatch, EventParts, PartitionId};
use crate::kafka::{ClientStatistics, KafkaOptions};
use crate::service::ServiceError;
use crate::source::{
    OFFSET_OUT_OF_RANGE, ShutDown, Source, SourceError, SourceEvent, SourceOptions, StartPosition,
};

/// A [`Source`] of the records of a topic.
pub(in crate::kafka) struct RdKafkaSource {
    /// None once it was dropped.
    consumer: Option<Arc<BaseConsumer<ClientEar>>>,
    heard: Arc<Heard>,
    topic: String,
    encoding: Encoding,
    /// How many events of a partition may be with the user.
    window: usize,
    /// How long questions may take.
    patience: Duration,
    partitions: Vec<PartitionId>,
    /// By partition; none for those that are not open.
    readers: Vec<Option<Reader>>,
    builder: BatchBuilder,
    closed: VecDeque<(PartitionId, ServiceError)>,
    outage: Option<ServiceError>,
    records: Records,
    growth: Growth,
    alarm: Alarm,
}

/// An open partition.
struct Reader {
    place: Place,
    /// Whether the queue may have something: set by the library's thread when it is not empty any more.
    has_more: Arc<AtomicBool>,
    unreleased: usize,
    is_attached: bool,
}

/// Whether it is known where a partition begins.
enum Place {
    /// A broker is being asked.
    Sought(JoinHandle<Result<Offset, ServiceError>>),
    /// It is assigned, and what is fetched arrives here.
    Assigned(PartitionQueue<ClientEar>),
}

/// Records on their way from the library into a batch, in memory that is used again.
#[derive(Debug, Default)]
struct Records {
    chunk: Vec<u8>,
    parts: Vec<EventParts>,
    tail: Vec<u8>,
}

impl RdKafkaSource {
    /// Makes a consumer, and asks for the partitions. None is open yet.
    ///
    /// # Errors
    /// A property is wrong, no broker can be reached, the login is refused, or there is no such topic.
    pub(in crate::kafka) async fn connect(
        options: &KafkaOptions,
        source: SourceOptions,
        encoding: Encoding,
    ) -> Result<Self, ServiceError> {
        let asked = options.clone();
        let (consumer, partitions) = blocking(move || connect_consumer(&asked)).await?;
        let count = u32::try_from(partitions.len()).unwrap_or(u32::MAX);
        Ok(Self {
            heard: Arc::clone(&consumer.client().context().heard),
            consumer: Some(consumer),
            topic: options.topic.clone(),
            encoding,
            window: source.unreleased_limit(),
            patience: setup_timeout(&options.properties),
            readers: partitions.iter().map(|_| None).collect(),
            partitions,
            builder: BatchBuilder::new(source.batch, count),
            closed: VecDeque::new(),
            outage: None,
            records: Records::default(),
            growth: Growth::looked_for_every(refresh_interval(&options.properties)),
            alarm: Alarm::new(),
        })
    }

    fn reader(&mut self, partition: PartitionId) -> Option<&mut Reader> {
        self.readers.get_mut(partition.0 as usize)?.as_mut()
    }

    /// Closes a partition that did not ask for it.
    fn fail(&mut self, partition: PartitionId, error: ServiceError) {
        self.close(partition);
        self.closed.push_back((partition, error));
    }

    /// Begins to fetch a partition.
    fn assign(&mut self, partition: PartitionId, offset: Offset) -> Result<(), ServiceError> {
        let Some(consumer) = &self.consumer else {
            return Ok(());
        };
        // The queue is taken apart first: what is fetched goes where the partition's queue leads when it is assigned.
        let id = partition.0.cast_signed();
        let queue = consumer.split_partition_queue(&self.topic, id);
        let mut queue =
            queue.ok_or_else(|| ServiceError::fatal("librdkafka", "the partition has no queue"))?;
        let has_more = Arc::new(AtomicBool::new(true));
        let (flag, heard) = (Arc::clone(&has_more), Arc::clone(&self.heard));
        queue.set_nonempty_callback(move || {
            flag.store(true, Ordering::Release);
            heard.waker.wake();
        });
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition_offset(&self.topic, id, offset)
            .and_then(|()| consumer.incremental_assign(&list))
            .map_err(|error| service_error(&error, "opening a partition"))?;
        let reader = Reader { place: Place::Assigned(queue), has_more, unreleased: 0, is_attached: false };
        self.readers[partition.0 as usize] = Some(reader);
        self.heard.waker.wake();
        Ok(())
    }

    /// Asks for the first offset at an instant or later.
    fn seek(&mut self, partition: PartitionId, time: EnqueuedTime) {
        let Some(consumer) = self.consumer.clone() else {
            return;
        };
        let (topic, patience) = (self.topic.clone(), self.patience);
        let asked = blocking(move || {
            let id = partition.0.cast_signed();
            let mut list = TopicPartitionList::with_capacity(1);
            let found = list
                .add_partition_offset(&topic, id, Offset::Offset(time.unix_ms()))
                .and_then(|()| consumer.offsets_for_times(list, patience));
            let found = found.map_err(|error| service_error(&error, "asking for an offset by its time"))?;
            Ok(found.find_partition(&topic, id).map_or(Offset::End, |found| found.offset()))
        });
        self.readers[partition.0 as usize] = Some(Reader {
            place: Place::Sought(tokio::spawn(asked)),
            has_more: Arc::default(),
            unreleased: 0,
            is_attached: false,
        });
    }

    /// Assigns the partitions whose beginning is known now.
    fn take_sought(&mut self, context: &mut Context<'_>) {
        for index in 0..self.readers.len() {
            let Some(Reader { place: Place::Sought(asked), .. }) = &mut self.readers[index] else {
                continue;
            };
            let Poll::Ready(answer) = Pin::new(asked).poll(context) else {
                continue;
            };
            let partition = self.partitions[index];
            let interrupted = |error| Err(ServiceError::fatal("librdkafka", format!("{error}")));
            let assigned =
                answer.unwrap_or_else(interrupted).and_then(|offset| self.assign(partition, offset));
            if let Err(error) = assigned {
                self.fail(partition, error);
            }
        }
    }

    /// Lets the client say what it has to: errors, statistics. Records come here only if they were fetched for a queue that is gone.
    fn hear(&mut self) {
        let Some(consumer) = &self.consumer else {
            return;
        };
        while self.heard.takes_events() {
            loop {
                match consumer.poll(Duration::ZERO) {
                    Some(_) => {}
                    // It says nothing of what it has told the ear.
                    None if self.heard.takes_words() => {}
                    None => break,
                }
            }
        }
    }

    /// Takes what has arrived, as far as there is room for it. Whether there was anything. Hot path.
    fn take_records(&mut self) -> bool {
        let mut took = false;
        for index in 0..self.readers.len() {
            let Some(reader) = &mut self.readers[index] else {
                continue;
            };
            let Place::Assigned(queue) = &reader.place else {
                continue;
            };
            let room = self.window.saturating_sub(reader.unreleased).min(RECORDS_AT_ONCE);
            // The flag goes before the queue is looked at: what arrives meanwhile sets it again.
            if room == 0 || !reader.has_more.swap(false, Ordering::AcqRel) {
                continue;
            }
            let mut error = None;
            let is_empty = loop {
                if self.records.parts.len() == room || self.records.chunk.len() >= BYTES_AT_ONCE {
                    break false;
                }
                match queue.poll(Duration::ZERO) {
                    None => break true,
                    Some(Ok(message)) => self.records.push(&message, self.encoding),
                    Some(Err(found)) => {
                        error = Some(found);
                        break false;
                    }
                }
            };
            if !is_empty {
                reader.has_more.store(true, Ordering::Release);
            }
            let count = self.records.parts.len();
            if count > 0 {
                reader.unreleased += count;
                reader.is_attached = true;
                took = true;
                let now = Instant::now().into_std();
                self.records.move_into(&mut self.builder, now, self.partitions[index]);
            }
            if let Some(error) = error {
                took = true;
                self.fail(self.partitions[index], of_partition(&error));
            }
        }
        took
    }

    /// Ready when the next open batch may be due.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let batch = self.builder.next_deadline().map(Instant::from_std);
        self.alarm.poll(context, batch.into_iter().chain(self.growth.due()).min())
    }
}

impl Source for RdKafkaSource {
    fn partitions(&self) -> Vec<PartitionId> {
        self.partitions.clone()
    }

    fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// A topic may be compacted, and marks the ends of transactions by records that nobody sees.
    fn has_contiguous_numbers(&self) -> bool {
        false
    }

    fn open(&mut self, partition: PartitionId, start: StartPosition) {
        self.close(partition);
        if self.partitions.get(partition.0 as usize).is_none() {
            let description = format!("the topic has no partition {partition}");
            self.closed
                .push_back((partition, ServiceError::fatal("UNKNOWN_TOPIC_OR_PARTITION", description)));
            return;
        }
        let offset = match start {
            StartPosition::Earliest => Ok(Offset::Beginning),
            StartPosition::Latest => Ok(Offset::End),
            StartPosition::AtSequenceNumber(number) => Ok(number_of(number)),
            StartPosition::AfterSequenceNumber(number) => Ok(number_of(number.saturating_add(1))),
            StartPosition::AfterOffset(text) => match text.parse::<i64>() {
                Ok(number) => Ok(number_of(number.saturating_add(1))),
                Err(_) => {
                    Err(ServiceError::fatal(OFFSET_OUT_OF_RANGE, format!("{text:?} is no offset of Kafka")))
                }
            },
            StartPosition::AtEnqueuedTime(time) => return self.seek(partition, time),
        };
        if let Err(error) = offset.and_then(|offset| self.assign(partition, offset)) {
            self.fail(partition, error);
        }
    }

    fn close(&mut self, partition: PartitionId) {
        self.closed.retain(|(closed, _)| *closed != partition);
        self.builder.discard(partition);
        let Some(reader) = self.readers.get_mut(partition.0 as usize).and_then(Option::take) else {
            return;
        };
        if let (Place::Assigned(_), Some(consumer)) = (&reader.place, &self.consumer) {
            let mut list = TopicPartitionList::with_capacity(1);
            list.add_partition(&self.topic, partition.0.cast_signed());
            if let Err(error) = consumer.incremental_unassign(&list) {
                tracing::debug!(%error, %partition, "a partition could not be given back");
            }
        }
    }

    fn hold(&mut self, partition: PartitionId, held: bool) {
        self.builder.hold(partition, held);
    }

    fn is_exhausted(&self) -> bool {
        let mut open = self.readers.iter().flatten().peekable();
        open.peek().is_some() && open.all(|reader| reader.unreleased >= self.window)
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>> {
        loop {
            if let Some((partition, error)) = self.closed.pop_front() {
                return Poll::Ready(Ok(SourceEvent::PartitionClosed { partition, error: error.into() }));
            }
            if let Some(mut batch) = self.builder.pop_sealed() {
                batch.set_encoding(self.encoding);
                return Poll::Ready(Ok(SourceEvent::Batch(batch)));
            }
            self.heard.waker.register(context.waker());
            self.hear();
            if let Some(error) = self.heard.fatal() {
                return Poll::Ready(Err(error.into()));
            }
            self.take_sought(context);
            let took = self.take_records();
            if took && self.outage.is_some() {
                self.heard.is_up();
            }
            self.outage = self.heard.outage();
            if let Some(consumer) = &self.consumer {
                self.growth.poll(context, consumer, &self.topic, self.partitions.len(), self.patience);
            }
            let now = Instant::now().into_std();
            if self.builder.next_deadline().is_some_and(|deadline| deadline <= now) {
                self.builder.handle_timeout(now);
            }
            if took || self.builder.has_sealed() || !self.closed.is_empty() {
                continue;
            }
            ready!(self.poll_timer(context));
        }
    }

    fn release(&mut self, batch: EventBatch) {
        if let Some(reader) = self.reader(batch.partition()) {
            reader.unreleased = reader.unreleased.saturating_sub(batch.len());
        }
        self.builder.recycle(batch);
    }

    fn outage(&self) -> Option<&ServiceError> {
        self.outage.as_ref()
    }

    fn is_attached(&self, partition: PartitionId) -> bool {
        let reader = self.readers.get(partition.0 as usize).and_then(Option::as_ref);
        reader.is_some_and(|reader| matches!(reader.place, Place::Assigned(_))) && self.outage.is_none()
    }

    fn added_partitions(&self) -> u32 {
        self.growth.added
    }

    fn slowed_down(&self) -> u64 {
        self.heard.slowed_down()
    }

    fn client_statistics(&self) -> Option<ClientStatistics> {
        Some(self.heard.statistics())
    }

    fn shut_down(mut self: Box<Self>) -> ShutDown {
        let (readers, consumer) = (std::mem::take(&mut self.readers), self.consumer.take());
        Box::pin(async move {
            let said = tokio::task::spawn_blocking(move || drop((readers, consumer)));
            let _ = tokio::time::timeout(GOODBYE, said).await;
        })
    }
}

impl Drop for RdKafkaSource {
    /// The library waits for its threads when a consumer goes. Whoever drops a source does not.
    fn drop(&mut self) {
        let left = (std::mem::take(&mut self.readers), self.consumer.take());
        if left.1.is_some() {
            let thread = std::thread::Builder::new().name("librdkafka-close".to_owned());
            let _ = thread.spawn(move || drop(left));
        }
    }
}

impl fmt::Debug for RdKafkaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RdKafkaSource")
            .field("topic", &self.topic)
            .field("open", &self.readers.iter().flatten().count())
            .finish_non_exhaustive()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Place::Sought(asked) = &self.place {
            asked.abort();
        }
    }
}

impl Records {
    /// Adds a record.
    #[inline]
    fn push(&mut self, message: &BorrowedMessage<'_>, encoding: Encoding) {
        let (key, value) = (message.key(), message.payload());
        let start = self.chunk.len();
        let (message_start, partition_key) = match encoding {
            Encoding::Kafka | Encoding::Opaque => {
                put_bytes(&mut self.chunk, key);
                let end = self.chunk.len();
                put_bytes(&mut self.chunk, value);
                put(message, &mut self.chunk);
                (start, end - key.map_or(0, <[u8]>::len)..end)
            }
            Encoding::Amqp => {
                self.chunk.extend_from_slice(key.unwrap_or_default());
                let end = self.chunk.len();
                self.push_message(key, value, message);
                (end, start..end)
            }
        };
        // A chunk is never much longer than what is taken at once and the longest record, far below 4 GiB.
        let place = |at: usize| at as u32;
        self.parts.push(EventParts {
            message: place(message_start)..place(self.chunk.len()),
            partition_key: place(partition_key.start)..place(partition_key.end),
            offset: 0..0,
            sequence_number: message.offset(),
            enqueued_time: EnqueuedTime::from_unix_ms(message.timestamp().to_millis().unwrap_or(0)),
        });
    }

    /// Adds the AMQP message that a record is.
    fn push_message(&mut self, key: Option<&[u8]>, value: Option<&[u8]>, message: &BorrowedMessage<'_>) {
        self.tail.clear();
        put_bytes(&mut self.tail, None);
        put_bytes(&mut self.tail, None);
        let without_headers = self.tail.len();
        put(message, &mut self.tail);
        if RecordTail::read(&self.tail).is_err() {
            self.tail.truncate(without_headers);
            self.tail.push(0);
        }
        if let Ok(RecordTail { headers, .. }) = RecordTail::read(&self.tail) {
            convert::message(
                &mut self.chunk,
                &Record { timestamp_delta: 0, offset_delta: 0, key, value, headers },
            );
        }
    }

    /// Hands all of them over, and keeps the memory unless they do.
    fn move_into(&mut self, builder: &mut BatchBuilder, now: std::time::Instant, partition: PartitionId) {
        let chunk = Bytes::from(std::mem::take(&mut self.chunk));
        builder.extend(now, partition, &chunk, self.parts.drain(..));
        if let Ok(chunk) = chunk.try_into_mut() {
            self.chunk = Vec::from(chunk);
            self.chunk.clear();
        }
    }
}

fn number_of(number: i64) -> Offset {
    Offset::Offset(number.max(0))
}

/// Why a partition can't go on.
fn of_partition(error: &KafkaError) -> ServiceError {
    service_error(error, "fetching")
}

/// Records that are taken of a partition before others have their turn.
const RECORDS_AT_ONCE: usize = 4_096;

/// Bytes likewise.
const BYTES_AT_ONCE: usize = 1 << 20;

/// How long the library may take to let go of its brokers.
const GOODBYE: Duration = Duration::from_secs(2);
