//! From requests to logs. Hot path: a batch is checked where it arrived, and copied once, into the log.

use std::sync::Arc;
use std::time::Instant;

use access::Right;
use kafka::compression::Compression;
use kafka::fetch::TopicRef;
use kafka::produce::{ProducePartition, ProduceRequest, ProduceResult};
use kafka::record_batch::{BatchError, RecordBatch};
use kafka::{CompressedRecords, ErrorCode, check_compressed, record};
use partition_log::disk::{CommitNumber, CommitState, CommitWatch};
use partition_log::{AppendError, ProduceError, Produced, ProducerError, UnixTime};
use units::ByteSize;

use super::KafkaFront;
use super::session::Session;
use super::topics::{self, Topics};
use crate::convert::UNPACKED_MAX;
use crate::front::pending::OUTCOME_UNKNOWN;
use crate::front::time_slice::TimeSlice;
use crate::namespace::{Hub, Partition, TimestampType, TopicSettings};
use crate::transactions::{Producer, Producing};

/// What became of the batches of one request.
#[derive(Debug)]
pub(super) struct Outcomes {
    /// By the partitions of the request, in its order.
    outcomes: Vec<Result<Stored, Refusal>>,
}

#[derive(Debug)]
struct Stored {
    base_offset: u64,
    log_start_offset: u64,
    /// The timestamp of its records, in milliseconds since 1970, where that is the time of their append.
    append_time: Option<i64>,
    commit: CommitNumber,
    /// Where its commit is to be noted, if its times are watched.
    watched: Option<Watched>,
}

#[derive(Debug)]
struct Watched {
    partition: Arc<Partition>,
    /// The number after its last record.
    end: u64,
}

/// Results of unpacking the compressed batches of a request, in the order of the partitions of the request.
#[derive(Debug, Default)]
pub(super) struct CompressedChecks(Vec<(usize, Result<CompressedRecords, BatchError>)>);

#[derive(Debug)]
struct Refusal {
    error: ErrorCode,
    message: Option<String>,
    /// The record that is wrong, by its place in the batch, and what is wrong with it.
    record: Option<(i32, String)>,
}

impl CompressedChecks {
    /// Unpacks and checks each compressed batch of a request that the client may send. Other tasks run in between.
    pub(super) async fn of(front: &KafkaFront, session: &Session, request: &ProduceRequest<'_>) -> Self {
        let mut topics = Topics::new(&front.namespace, session, Right::Send);
        let mut checks = Vec::new();
        for (place, partition) in request.partitions.iter().enumerate() {
            let Ok(batch) = RecordBatch::read(partition.records) else { continue };
            let is_compressed = !matches!(batch.compression(), Ok(Compression::None));
            if !is_compressed {
                continue;
            }
            let hub = topics.find(TopicRef::Name(partition.topic));
            if hub.is_ok_and(|hub| partition.records.len() <= largest_batch(&hub.settings())) {
                checks.push((place, check_compressed(&batch, UNPACKED_MAX).await));
            }
        }
        Self(checks)
    }

    /// Returns the findings about the records at this place of the request; `None` if they are not compressed.
    fn at(&self, place: usize) -> Result<Option<CompressedRecords>, BatchError> {
        let found = self.0.binary_search_by_key(&place, |(checked, _)| *checked);
        found.ok().map(|found| self.0[found].1).transpose()
    }
}

impl Outcomes {
    /// Appends the batches of a request, each by itself: one that is refused does not keep the others out. The request was
    /// complete when it was `received`.
    pub(super) async fn append(
        front: &KafkaFront,
        session: &Session,
        request: &ProduceRequest<'_>,
        checks: &CompressedChecks,
        now: UnixTime,
        received: Instant,
    ) -> Self {
        let admitted = match request.transactional_id {
            Some(_) => front.namespace.admit_transactions(),
            None => front.namespace.admit_record_batches(),
        };
        if let Err(error) = admitted {
            tracing::error!(%error, "the data directory can't be made to take record batches of Kafka");
            return Self::refused(request, ErrorCode::KafkaStorageError);
        }
        let mut topics = Topics::new(&front.namespace, session, Right::Send);
        let mut outcomes = Vec::with_capacity(request.partitions.len());
        let mut slice = TimeSlice::begin();
        for partitions in request.partitions.chunks(PARTITIONS_AT_ONCE) {
            if !outcomes.is_empty() {
                slice.pause_if_over().await;
            }
            // A transaction does not end between the check and the append.
            let producing =
                request.transactional_id.map(|id| (id, front.coordinators.transactions.producing()));
            for partition in partitions {
                let hub = topics.find(TopicRef::Name(partition.topic)).map_err(Refusal::of);
                let unpacked = checks.at(outcomes.len());
                let appended =
                    hub.and_then(|hub| append(&hub, request, producing.as_ref(), partition, unpacked, now));
                outcomes.push(appended.map(|stored| stored.noted(received)));
            }
        }
        Self { outcomes }
    }

    /// None of the batches is stored.
    pub(super) fn refused(request: &ProduceRequest<'_>, error: ErrorCode) -> Self {
        Self { outcomes: request.partitions.iter().map(|_| Err(Refusal::of(error))).collect() }
    }

    /// All of them are committed by now.
    pub(super) fn note_commits(&self) {
        for watched in self.outcomes.iter().flatten().filter_map(|stored| stored.watched.as_ref()) {
            if let Some(times) = watched.partition.times() {
                times.note_commit(watched.end);
            }
        }
    }

    /// The commit that all of them wait for.
    pub(super) fn commit(&self) -> CommitNumber {
        let stored = self.outcomes.iter().flatten();
        stored.map(|stored| stored.commit).max().unwrap_or(CommitNumber::DONE)
    }

    /// The results for the client, in the order of its request, once commits are settled.
    pub(super) fn results<'a>(
        &self,
        request: &[(&'a str, i32)],
        commits: Option<&CommitWatch>,
    ) -> Vec<ProduceResult<'a>> {
        let failed = |stored: &Stored| {
            let state = commits.map(|commits| commits.state_of(stored.commit));
            state == Some(CommitState::Failed)
        };
        let result = |(outcome, (topic, index)): (&Result<_, _>, &(&'a str, i32))| match outcome {
            Ok(stored) if !failed(stored) => ProduceResult {
                topic,
                index: *index,
                error_code: ErrorCode::None.code(),
                base_offset: stored.base_offset.cast_signed(),
                log_append_time: stored.append_time.unwrap_or(-1),
                log_start_offset: stored.log_start_offset.cast_signed(),
                error_message: None,
                record_error: None,
            },
            // It may yet be stored, which is what this says. Idempotent producers send it again without a duplicate.
            Ok(_) => {
                let message = Some(OUTCOME_UNKNOWN.to_owned());
                refused(topic, *index, &Refusal { message, ..Refusal::of(ErrorCode::RequestTimedOut) })
            }
            Err(refusal) => refused(topic, *index, refusal),
        };
        self.outcomes.iter().zip(request).map(result).collect()
    }
}

impl Stored {
    /// The same, noted with its times where these are watched.
    fn noted(self, received: Instant) -> Self {
        if let Some(Watched { partition, end }) = &self.watched
            && let Some(times) = partition.times()
        {
            times.note_append(self.base_offset..*end, received, self.commit != CommitNumber::DONE);
        }
        self
    }
}

impl Refusal {
    const fn of(error: ErrorCode) -> Self {
        Self { error, message: None, record: None }
    }

    const fn because(error: ErrorCode, message: String) -> Self {
        Self { error, message: Some(message), record: None }
    }
}

fn refused<'a>(topic: &'a str, index: i32, refusal: &Refusal) -> ProduceResult<'a> {
    ProduceResult {
        topic,
        index,
        error_code: refusal.error.code(),
        base_offset: -1,
        log_append_time: -1,
        log_start_offset: -1,
        error_message: refusal.message.clone(),
        record_error: refusal.record.clone(),
    }
}

/// Counts the batches of a request that was kept waiting by a quota.
pub(super) fn count_throttled(front: &KafkaFront, session: &Session, request: &ProduceRequest<'_>) {
    let mut topics = Topics::new(&front.namespace, session, Right::Send);
    for partition in &request.partitions {
        if let Ok(hub) = topics.find(TopicRef::Name(partition.topic))
            && let Ok(found) = topics::partition(&hub, partition.index)
        {
            found.counters().throttled();
        }
    }
}

fn append(
    hub: &Hub,
    request: &ProduceRequest<'_>,
    producing: Option<&(&str, Producing<'_>)>,
    partition: &ProducePartition<'_>,
    unpacked: Result<Option<CompressedRecords>, BatchError>,
    now: UnixTime,
) -> Result<Stored, Refusal> {
    if !(-1..=1).contains(&request.acks) {
        return Err(Refusal::of(ErrorCode::InvalidRequiredAcks));
    }
    let found = topics::partition(hub, partition.index).map_err(Refusal::of)?;
    let settings = hub.settings();
    let (length, largest) = (partition.records.len(), largest_batch(&settings));
    if length > largest {
        let message = format!("a batch may have {largest} bytes (max.message.bytes), this one has {length}");
        return Err(Refusal::because(ErrorCode::MessageTooLarge, message));
    }
    let mut batch = RecordBatch::check(partition.records).map_err(unreadable)?;
    let unpacked = unpacked.map_err(unreadable)?;
    if settings.requires_keys() {
        check_keys(&batch, unpacked)?;
    }
    let append_time =
        (settings.timestamp_type == Some(TimestampType::LogAppendTime)).then_some(now.milliseconds());
    let greatest_timestamp = unpacked.map(|records| records.greatest_timestamp);
    let corrected = match (append_time, greatest_timestamp) {
        (Some(append_time), _) => Some(batch.with_append_time(append_time)),
        (None, Some(greatest)) if greatest != batch.max_timestamp() => {
            Some(batch.with_max_timestamp(greatest))
        }
        (None, _) => None,
    };
    if let Some(corrected) = &corrected {
        batch = RecordBatch::read(corrected).map_err(unreadable)?;
    }
    if !batch.is_transactional() && producing.is_some() {
        return Err(Refusal::of(ErrorCode::InvalidTxnState));
    }
    if batch.is_transactional() {
        let (id, producing) = producing.ok_or(Refusal::of(ErrorCode::InvalidTxnState))?;
        let numbers = batch.producer().ok_or(Refusal::of(ErrorCode::InvalidRecord))?;
        let producer = Producer { id: numbers.id, epoch: numbers.epoch };
        producing.check(id, producer, partition.topic, partition.index).map_err(Refusal::of)?;
    }
    let (base_offset, commit, watched, append_time) = match found.append_record_batch(now, &batch) {
        Ok(Produced::Stored(appended)) => {
            let end = appended.first_sequence_number + u64::from(appended.record_count);
            let watched = found.times().map(|_watched| Watched { partition: Arc::clone(found), end });
            (appended.first_sequence_number, appended.commit, watched, append_time)
        }
        // The time of the first append is not known any more.
        Ok(Produced::Duplicate { first_sequence_number, commit }) => {
            (first_sequence_number, commit, None, None)
        }
        Err(ProduceError::Producer(error)) => {
            let code = match error {
                ProducerError::OutOfOrder { .. } => ErrorCode::OutOfOrderSequenceNumber,
                ProducerError::OlderEpoch { .. } => ErrorCode::InvalidProducerEpoch,
                ProducerError::InTransaction => ErrorCode::InvalidTxnState,
                // Clients try again after this.
                ProducerError::TooManyTransactions { .. } => ErrorCode::ConcurrentTransactions,
            };
            return Err(Refusal::because(code, error.to_string()));
        }
        Err(ProduceError::Append(error)) => {
            let code = match error {
                AppendError::Encoding(never) => match never {},
                AppendError::TooLong => ErrorCode::MessageTooLarge,
                // Clients try again after both.
                AppendError::Full { .. } | AppendError::TotalReached { .. } => ErrorCode::RequestTimedOut,
                AppendError::Unavailable(_) => ErrorCode::KafkaStorageError,
            };
            return Err(Refusal::because(code, error.to_string()));
        }
    };
    let log_start_offset = found.log().stats().begin_sequence_number;
    Ok(Stored { base_offset, log_start_offset, append_time, commit, watched })
}

fn unreadable(error: BatchError) -> Refusal {
    let code = match error {
        BatchError::Checksum | BatchError::Incomplete { .. } => ErrorCode::CorruptMessage,
        BatchError::Compression(_) => ErrorCode::UnsupportedCompressionType,
        BatchError::Magic { .. } => ErrorCode::UnsupportedForMessageFormat,
        BatchError::Unpacked { .. } => ErrorCode::MessageTooLarge,
        BatchError::MoreThanOne { .. } | BatchError::Record(_) | BatchError::Invalid(_) => {
            ErrorCode::InvalidRecord
        }
    };
    Refusal::because(code, error.to_string())
}

/// Checks that each record has a key.
fn check_keys(batch: &RecordBatch<'_>, unpacked: Option<CompressedRecords>) -> Result<(), Refusal> {
    let without_key = match unpacked {
        Some(records) => records.first_without_key,
        None => record::first_without_key(batch.records()),
    };
    match without_key {
        None => Ok(()),
        Some(place) => Err(Refusal {
            error: ErrorCode::InvalidRecord,
            message: Some("the topic is compacted, and a record of the batch has no key".to_owned()),
            record: Some((place, "a record of a compacted topic needs a key".to_owned())),
        }),
    }
}

/// Returns the length of the largest batch that a topic takes, in bytes.
fn largest_batch(settings: &TopicSettings) -> usize {
    settings.largest_batch.map_or(LARGEST_BATCH, ByteSize::as_usize)
}

/// Partitions whose batches are appended before others have their turn.
const PARTITIONS_AT_ONCE: usize = 64;

/// Largest batch without a setting, in bytes: that of Kafka (`max.message.bytes`).
const LARGEST_BATCH: usize = 1024 * 1024 + 12;
