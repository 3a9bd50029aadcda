//! From logs to answers. Hot path: batches that a Kafka client wrote are sent from the log's memory.
//!
//! A request that finds less than it wants waits: it subscribes to the logs that it named, and is tried again when one of them
//! has more, or when its time is over. What is known of its partitions then is kept for the next request: `fetch_sessions`.
//!
//! A reader of committed records gets batches up to the stable end, whatever became of their transactions, and a list of those
//! that were aborted: it is the client that leaves them out. Its wait ends with the marker of a transaction.

use std::sync::Arc;
use std::time::Duration;

use access::Right;
use bytes::Bytes;
use kafka::fetch::{self, AbortedTransaction, FetchPartition, FetchRequest, PartitionHead, TopicRef};
use kafka::read::Uuid;
use kafka::{ApiKey, ErrorCode};
use partition_log::{
    Cursor, Edge, Isolation, LEADER_EPOCH, LogChunk, Protocol, Readiness, Start, Subscriber, Subscription,
};
use tokio::time::Instant;

use super::fetch_sessions::{FetchMemory, Refusal, Turn};
use super::output::{Events, Output};
use super::session::Session;
use super::topics::{self, Topics};
use crate::convert::record_batches;
use crate::front::time_slice::TimeSlice;
use crate::memory::Purpose;
use crate::namespace::{Hub, Namespace, Partition};

/// A request to fetch, until it is answered.
#[derive(Debug)]
pub(super) struct Fetch {
    version: i16,
    correlation_id: i32,
    min_bytes: usize,
    max_bytes: usize,
    partitions: Vec<Watched>,
    turn: Turn,
    error: ErrorCode,
    /// When it arrived.
    asked: std::time::Instant,
    /// When it is answered at the latest.
    pub(super) deadline: Instant,
}

/// What a request wants of one partition.
#[derive(Debug)]
pub(super) struct Watched {
    topic: Topic,
    index: i32,
    max_bytes: usize,
    /// Where the client stands, as it has said last.
    fetch_offset: i64,
    current_leader_epoch: i32,
    /// The end, the stable end and the beginning of the log that it was told last in its session.
    told: Option<(i64, i64, i64)>,
    place: Result<Place, ErrorCode>,
    /// What there is for it.
    found: Vec<Events>,
    events: u64,
}

/// How the request named the topic, which is how the answer names it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Topic {
    Name(Arc<str>),
    Id(Uuid),
}

#[derive(Debug)]
struct Place {
    partition: Arc<Partition>,
    /// Where what is read for this answer begins.
    first: u64,
    isolation: Isolation,
    cursor: Cursor,
    subscription: Option<Subscription>,
}

impl Fetch {
    /// Takes a request, which arrived when it was `asked`.
    ///
    /// # Errors
    /// The purpose whose budget of memory is used up.
    pub(super) async fn new(
        namespace: &Namespace,
        session: &Session,
        request: &FetchRequest<'_>,
        version: i16,
        correlation_id: i32,
        memory: &mut FetchMemory<'_>,
        asked: std::time::Instant,
    ) -> Result<Self, Purpose> {
        let mut topics = Topics::new(namespace, session, Right::Listen);
        let (error, turn, partitions) = match memory.begin(request, version, &mut topics).await {
            Ok((turn, partitions)) => (ErrorCode::None, turn, partitions),
            Err(Refusal::Answer(error)) => (error, Turn::Alone, Vec::new()),
            Err(Refusal::NoMemory) => return Err(Purpose::KafkaFetches),
        };
        let wait = u64::try_from(request.max_wait_ms).unwrap_or(0);
        Ok(Self {
            version,
            correlation_id,
            min_bytes: usize::try_from(request.min_bytes).unwrap_or(0).min(LEAST_BYTES_MAX),
            max_bytes: usize::try_from(request.max_bytes).unwrap_or(0).min(LARGEST_ANSWER),
            partitions,
            turn,
            error,
            asked,
            deadline: Instant::now() + Duration::from_millis(wait).min(LONGEST_WAIT),
        })
    }

    /// Returns the time of the next check: the deadline, or earlier if it keeps events, which it must not while memory is scarce.
    pub(super) fn wait_until(&self) -> Instant {
        match self.partitions.iter().any(Watched::has_events) {
            true => self.deadline.min(Instant::now() + MEMORY_CHECK_INTERVAL),
            false => self.deadline,
        }
    }

    /// Returns the memory of converted events that it has found, in bytes.
    pub(super) fn converted(&self) -> usize {
        self.partitions.iter().flat_map(|watched| &watched.found).map(|events| events.converted).sum()
    }

    /// Collects what there is. True if that is enough for an answer, or if waiting would not help. Otherwise `subscriber` is
    /// told when there is more. While memory `is_scarce`, any events are enough.
    pub(super) async fn is_ready(&mut self, subscriber: &Arc<Subscriber>, is_scarce: bool) -> bool {
        let mut is_ready = self.error != ErrorCode::None || self.partitions.is_empty();
        let mut slice = TimeSlice::of_short_pieces();
        loop {
            let mut total: usize = self.partitions.iter().map(Watched::length).sum();
            for watched in &mut self.partitions {
                watched.read(&mut total, self.max_bytes);
                slice.pause_if_over().await;
            }
            is_ready |=
                total >= self.min_bytes || (is_scarce && total > 0) || Instant::now() >= self.deadline;
            is_ready |= self.partitions.iter().any(|watched| watched.place.is_err());
            if is_ready || !self.arm(subscriber, &mut slice).await {
                return is_ready;
            }
        }
    }

    /// Asks to be told of more. True if there is more already: it has come since the logs were read.
    async fn arm(&mut self, subscriber: &Arc<Subscriber>, slice: &mut TimeSlice) -> bool {
        for watched in &mut self.partitions {
            if watched.arm(subscriber) {
                return true;
            }
            slice.pause_if_over().await;
        }
        false
    }

    /// Writes the answer, and gives the events and bytes in it. What is worth it is kept for the next request.
    pub(super) async fn answer(mut self, output: &mut Output, memory: &mut FetchMemory<'_>) -> (u64, u64) {
        let Self { version, turn, error, asked, .. } = self;
        let is_full = !matches!(turn, Turn::Continues(_));
        let mut slice = TimeSlice::of_short_pieces();
        let mut told = Vec::with_capacity(if is_full { self.partitions.len() } else { 0 });
        for watched in &mut self.partitions {
            let (aborted, head) = (watched.aborted(), watched.head());
            if watched.tell(&head) || is_full {
                told.push((aborted, head, &*watched));
            }
            slice.pause_if_over().await;
        }
        let mut answer = output.begin(ApiKey::Fetch, version, self.correlation_id);
        let topics = || told.chunk_by(|(.., a), (.., b)| a.topic == b.topic);
        fetch::begin_response(
            &mut answer.writer,
            version,
            0,
            error.code(),
            turn.session_id(),
            topics().count(),
        );
        for topic in topics() {
            fetch::begin_topic(&mut answer.writer, topic[0].2.topic(), topic.len());
            for (aborted, head, watched) in topic {
                let length = watched.length();
                fetch::begin_partition(&mut answer.writer, version, watched.topic(), head, aborted, length);
                for events in &watched.found {
                    answer.put_events(events.clone());
                }
                if let (true, Ok(place)) = (watched.events > 0, &watched.place) {
                    let end = place.cursor.next_sequence_number();
                    place.partition.delivered(watched.events, watched.length() as u64, end);
                    if let Some(times) = place.partition.times() {
                        times.note_read(place.cursor.next_sequence_number(), asked);
                    }
                }
                fetch::end(&mut answer.writer);
                slice.pause_if_over().await;
            }
            fetch::end(&mut answer.writer);
        }
        fetch::end(&mut answer.writer);
        answer.end();
        drop(told);
        let events = self.partitions.iter().map(|watched| watched.events).sum();
        let bytes = self.partitions.iter().map(|watched| watched.length() as u64).sum();
        if error == ErrorCode::None {
            memory.keep(turn, self.partitions);
        }
        (events, bytes)
    }
}

impl Place {
    /// The place of an offset in a partition.
    fn at(partition: &Arc<Partition>, fetch_offset: i64, isolation: Isolation) -> Result<Self, ErrorCode> {
        let (begin, end) = partition.log().extent();
        let offset = u64::try_from(fetch_offset).map_err(|_negative| ErrorCode::OffsetOutOfRange)?;
        if offset < begin || offset > end.next_sequence_number {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let start = match offset == end.next_sequence_number {
            true => Start::Latest(Edge::Exclusive),
            false => Start::SequenceNumber(offset, Edge::Inclusive),
        };
        let cursor = partition.log().position(start).map_err(|_beyond| ErrorCode::OffsetOutOfRange)?;
        let cursor = match isolation {
            Isolation::Uncommitted => cursor,
            Isolation::Committed => cursor.committed(),
        };
        Ok(Self { partition: Arc::clone(partition), first: offset, isolation, cursor, subscription: None })
    }

    /// Whether it is this place already.
    fn is_at(&self, partition: &Arc<Partition>, fetch_offset: i64, isolation: Isolation) -> bool {
        Arc::ptr_eq(&self.partition, partition) && self.stands_at(fetch_offset, isolation)
    }

    fn stands_at(&self, fetch_offset: i64, isolation: Isolation) -> bool {
        self.isolation == isolation && self.cursor.next_sequence_number().cast_signed() == fetch_offset
    }
}

/// What a client believes of the leader. -1 is no belief.
pub(super) const fn check_epoch(current_leader_epoch: i32) -> Result<(), ErrorCode> {
    match current_leader_epoch {
        -1 | LEADER_EPOCH => Ok(()),
        ..LEADER_EPOCH => Err(ErrorCode::FencedLeaderEpoch),
        _ => Err(ErrorCode::UnknownLeaderEpoch),
    }
}

impl Watched {
    /// A partition that a request names. `last` is the one that it has named before, perhaps of the same topic.
    pub(super) fn new(last: Option<&Self>, asked: &FetchPartition<'_>) -> Self {
        let topic = match (asked.topic, last.map(|last| &last.topic)) {
            (TopicRef::Name(name), Some(Topic::Name(last))) if **last == *name => {
                Topic::Name(Arc::clone(last))
            }
            (TopicRef::Name(name), _) => Topic::Name(name.into()),
            (TopicRef::Id(id), _) => Topic::Id(id),
        };
        Self {
            topic,
            index: asked.index,
            max_bytes: 0,
            fetch_offset: 0,
            current_leader_epoch: -1,
            told: None,
            // Until the request has been looked at.
            place: Err(ErrorCode::UnknownTopicOrPartition),
            found: Vec::new(),
            events: 0,
        }
    }

    fn topic(&self) -> TopicRef<'_> {
        match &self.topic {
            Topic::Name(name) => TopicRef::Name(name),
            Topic::Id(id) => TopicRef::Id(*id),
        }
    }

    /// Returns the topic and the number of the partition.
    pub(super) fn place(&self) -> (TopicRef<'_>, i32) {
        (self.topic(), self.index)
    }

    pub(super) fn is_of(&self, topic: TopicRef<'_>, index: i32) -> bool {
        self.index == index && self.topic() == topic
    }

    /// Takes what a request says of it.
    pub(super) fn ask<'a>(
        &mut self,
        topics: &mut Topics<'a>,
        asked: &FetchPartition<'a>,
        isolation: Isolation,
    ) {
        self.max_bytes = usize::try_from(asked.max_bytes).unwrap_or(0);
        self.fetch_offset = asked.fetch_offset;
        self.current_leader_epoch = asked.current_leader_epoch;
        let hub = topics.find(asked.topic);
        self.find_place(hub, isolation);
    }

    /// Looks for the place again, if it is not where the client stands, or was not found before.
    pub(super) fn look_again(&mut self, topics: &Topics<'_>, isolation: Isolation) {
        if !self.place.as_ref().is_ok_and(|place| place.stands_at(self.fetch_offset, isolation)) {
            let hub = topics.find_uncached(self.topic());
            self.find_place(hub, isolation);
        }
    }

    fn find_place(&mut self, hub: Result<Arc<Hub>, ErrorCode>, isolation: Isolation) {
        let (fetch_offset, epoch) = (self.fetch_offset, self.current_leader_epoch);
        let is_there = |hub: &Hub| -> Result<Option<Place>, ErrorCode> {
            let partition = topics::partition(hub, self.index)?;
            check_epoch(epoch)?;
            match &self.place {
                Ok(place) if place.is_at(partition, fetch_offset, isolation) => Ok(None),
                _ => Place::at(partition, fetch_offset, isolation).map(Some),
            }
        };
        match hub.and_then(|hub| is_there(&hub)) {
            Ok(None) => {}
            Ok(Some(place)) => self.place = Ok(place),
            Err(error) => self.place = Err(error),
        }
    }

    /// Whether the answer has events of it.
    pub(super) const fn has_events(&self) -> bool {
        !self.found.is_empty()
    }

    /// Forgets what was found for an answer that is written.
    pub(super) fn clear(&mut self) {
        self.found = Vec::new();
        self.events = 0;
        if let Ok(place) = &mut self.place {
            place.first = place.cursor.next_sequence_number();
        }
    }

    /// Whether an answer in a session has to have it, which then has told this of it.
    fn tell(&mut self, head: &PartitionHead) -> bool {
        let told = (head.error_code == ErrorCode::None.code()).then_some((
            head.high_watermark,
            head.last_stable_offset,
            head.log_start_offset,
        ));
        let is_news = told.is_none() || self.told != told || self.has_events();
        self.told = told;
        is_news
    }

    fn length(&self) -> usize {
        length_of(&self.found)
    }

    /// The transactions that a reader of committed records has to leave out of what was found.
    fn aborted(&mut self) -> Vec<AbortedTransaction> {
        let Ok(Place { partition, first, isolation: Isolation::Committed, cursor, .. }) = &self.place else {
            return Vec::new();
        };
        if self.found.is_empty() {
            return Vec::new();
        }
        let aborted = partition.log().aborted_transactions(*first..cursor.next_sequence_number());
        // Retention may have taken what was found in the meantime, and with it what is known of its transactions.
        if partition.log().stats().begin_sequence_number > *first {
            self.found.clear();
            self.events = 0;
            self.place = Err(ErrorCode::OffsetOutOfRange);
            return Vec::new();
        }
        let listed = aborted.iter().map(|aborted| AbortedTransaction {
            producer_id: aborted.producer_id,
            first_offset: aborted.first_sequence_number.cast_signed(),
        });
        listed.collect()
    }

    /// Adds what there is, as far as it fits. The first batch of an answer may be larger than the answer: a consumer could not
    /// go on otherwise.
    fn read(&mut self, total: &mut usize, most: usize) {
        let mut own = self.length();
        let Ok(place) = &mut self.place else {
            return;
        };
        loop {
            let room = self.max_bytes.saturating_sub(own).min(most.saturating_sub(*total));
            if room == 0 && *total > 0 {
                return;
            }
            let before = place.cursor;
            let Some(chunk) = place.partition.log().read(&mut place.cursor, room.clamp(1, READ_BYTES)) else {
                return;
            };
            let skipped = chunk.skipped();
            if skipped > 0 {
                // The client has to hear that what it asked for is gone.
                self.place = Err(ErrorCode::OffsetOutOfRange);
                return;
            }
            let length = chunk.bytes().len();
            if length > room && *total > 0 {
                place.cursor = before;
                return;
            }
            self.events += chunk.record_count();
            let found = self.found.len();
            put(&chunk, &mut self.found);
            let added = length_of(&self.found[found..]);
            own += added;
            *total += added;
        }
    }

    /// Asks to be told of more. True if there is more already.
    fn arm(&mut self, subscriber: &Arc<Subscriber>) -> bool {
        let Ok(place) = &mut self.place else {
            return false;
        };
        let log = place.partition.log();
        let subscription = place.subscription.get_or_insert_with(|| log.subscribe(subscriber, 0));
        let readiness = subscription.arm(&place.cursor);
        if place.partition.is_deleted() {
            self.place = Err(ErrorCode::UnknownTopicOrPartition);
            return true;
        }
        match readiness {
            Readiness::Ready => true,
            Readiness::Waiting => false,
            Readiness::Damaged(damage) => {
                tracing::warn!(partition = place.partition.id(), %damage, "a Kafka client can't read any further");
                self.place = Err(ErrorCode::KafkaStorageError);
                true
            }
        }
    }

    fn head(&self) -> PartitionHead {
        match &self.place {
            Ok(place) => {
                let (begin, end) = place.partition.log().extent();
                PartitionHead {
                    index: self.index,
                    error_code: ErrorCode::None.code(),
                    high_watermark: end.next_sequence_number.cast_signed(),
                    last_stable_offset: end.stable_sequence_number.cast_signed(),
                    log_start_offset: begin.cast_signed(),
                }
            }
            Err(error) => PartitionHead {
                index: self.index,
                error_code: error.code(),
                high_watermark: -1,
                last_stable_offset: -1,
                log_start_offset: -1,
            },
        }
    }
}

/// Bytes of events.
fn length_of(found: &[Events]) -> usize {
    found.iter().map(|events| events.bytes.len()).sum()
}

/// Adds the batches of a chunk: as they are, or made of what came over AMQP.
fn put(chunk: &LogChunk, found: &mut Vec<Events>) {
    match chunk.protocol() {
        Protocol::Kafka => {
            let bytes = Bytes::from_owner(chunk.clone());
            let events = |bytes| Events { bytes, converted: 0 };
            found.extend(chunk.batches().map(|batch| events(bytes.slice_ref(batch.bytes))));
        }
        Protocol::Amqp => {
            let mut out = Vec::with_capacity(chunk.bytes().len() * 2);
            record_batches(chunk, &mut out);
            let converted = out.capacity();
            found.push(Events { bytes: out.into(), converted });
        }
    }
}

/// Largest answer, whatever the client would take: all of it stays in the memory of the log until it is written.
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

/// Bytes that are worth an answer, whatever the client says: what is found while it waits stays in memory.
const LEAST_BYTES_MAX: usize = 1024 * 1024;

/// Interval at which a fetch that waits with events checks whether memory is scarce.
const MEMORY_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Longest wait, whatever the client asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Bytes of a log that are read at once.
const READ_BYTES: usize = 1024 * 1024;
