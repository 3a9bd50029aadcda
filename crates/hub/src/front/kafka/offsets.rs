//! Where a partition begins and ends, and where a point in time lies.

use std::sync::Arc;

use access::Right;
use kafka::ErrorCode;
use kafka::fetch::TopicRef;
use kafka::messages::list_offsets::{FoundOffset, ListOffsetsRequest, OffsetSpec, PartitionTime};
use kafka::record::Records;
use kafka::record_batch::{RecordBatch, TimestampType};
use partition_log::{
    Batch, Cursor, Edge, LEADER_EPOCH, LogChunk, PartitionLog, Protocol, Readiness, Start, Subscriber,
    UnixTime,
};
use tokio::sync::Semaphore;

use super::admin::repeated;
use super::fetch::check_epoch;
use super::session::Session;
use super::topics::{self, Topics};
use crate::convert::UNPACKED_MAX;
use crate::namespace::Namespace;

/// Answers a request partition by partition. Like Kafka, it refuses a partition that the request names twice.
pub(super) async fn list<'a>(
    namespace: &Namespace,
    session: &Session,
    request: &ListOffsetsRequest<'a>,
) -> Vec<FoundOffset<'a>> {
    let mut topics = Topics::new(namespace, session, Right::Listen);
    let repeated = repeated(request.partitions.iter().map(|asked| (asked.topic, asked.index)));
    let mut found = Vec::with_capacity(request.partitions.len());
    for asked in &request.partitions {
        let (topic, index) = (asked.topic, asked.index);
        let result = match repeated.contains(&(topic, index)) {
            true => Err(ErrorCode::InvalidRequest),
            false => find(&mut topics, asked, request.is_read_committed).await,
        };
        found.push(match result {
            Ok((offset, timestamp)) => FoundOffset {
                topic,
                index,
                error: ErrorCode::None,
                timestamp,
                offset,
                leader_epoch: LEADER_EPOCH,
            },
            Err(error) => FoundOffset { topic, index, error, timestamp: -1, offset: -1, leader_epoch: -1 },
        });
        // A request may name thousands of partitions; other connections of this thread go on between them.
        tokio::task::yield_now().await;
    }
    found
}

/// Offset and timestamp; -1 where there is none.
async fn find<'a>(
    topics: &mut Topics<'a>,
    asked: &PartitionTime<'a>,
    is_read_committed: bool,
) -> Result<(i64, i64), ErrorCode> {
    let hub = topics.find(TopicRef::Name(asked.topic))?;
    let log = topics::partition(&hub, asked.index)?.log();
    check_epoch(asked.current_leader_epoch)?;
    let end = log.end();
    // What a client can't fetch yet is not found.
    let readable_before = match is_read_committed {
        true => end.stable_sequence_number,
        false => end.next_sequence_number,
    };
    let is_readable = |(offset, _): &(i64, i64)| offset.cast_unsigned() < readable_before;
    match asked.at {
        OffsetSpec::Latest => Ok((readable_before.cast_signed(), -1)),
        OffsetSpec::Earliest | OffsetSpec::EarliestLocal => {
            Ok((log.stats().begin_sequence_number.cast_signed(), -1))
        }
        OffsetSpec::LatestTiered => Ok((-1, -1)),
        OffsetSpec::MaxTimestamp => Ok(greatest(log).await.filter(is_readable).unwrap_or((-1, -1))),
        OffsetSpec::At(time) => Ok(first_at(log, time).await.filter(is_readable).unwrap_or((-1, -1))),
        OffsetSpec::Unknown => Err(ErrorCode::UnsupportedVersion),
    }
}

/// Returns the first record with this timestamp or a greater one.
///
/// A producer's timestamp is not later than the time of the append, unless its clock is ahead, so the search begins with what
/// was appended then. Batches are chosen by the greatest timestamp in their headers; the records of a chosen one alone are unpacked.
async fn first_at(log: &Arc<PartitionLog>, time: i64) -> Option<(i64, i64)> {
    let since = UnixTime::from_milliseconds(time);
    let mut cursor = log.position(Start::AppendTime(since, Edge::Inclusive)).ok()?;
    while let Some(chunk) = next(log, &mut cursor).await {
        let candidates: Vec<u64> = chunk
            .batches()
            .filter(|batch| latest(batch) >= time)
            .map(|batch| batch.first_sequence_number)
            .collect();
        for candidate in candidates {
            let found = in_batch(&chunk, candidate, move |mut records| {
                (&mut records).find(|(_, timestamp)| *timestamp >= time)
            });
            if let Some(found) = found.await {
                return Some(found);
            }
        }
    }
    None
}

/// Returns the record with the greatest timestamp, and the first of them if there are several. It is in the first batch with the
/// greatest timestamp in its header: no other is unpacked.
async fn greatest(log: &Arc<PartitionLog>) -> Option<(i64, i64)> {
    let mut cursor = log.position(Start::Earliest).ok()?;
    let mut greatest: Option<(LogChunk, u64, i64)> = None;
    while let Some(chunk) = next(log, &mut cursor).await {
        let mut found = None;
        let mut most = greatest.as_ref().map_or(MARKER, |(_, _, timestamp)| *timestamp);
        for batch in chunk.batches() {
            if latest(&batch) > most {
                most = latest(&batch);
                found = Some(batch.first_sequence_number);
            }
        }
        if let Some(first) = found {
            greatest = Some((chunk, first, most));
        }
    }
    let (chunk, first, _) = greatest?;
    let first_greatest = |best: (i64, i64), record: (i64, i64)| if record.1 > best.1 { record } else { best };
    in_batch(&chunk, first, move |mut records| (&mut records).reduce(first_greatest)).await
}

/// Applies `choose` to the offsets and timestamps of the batch of `chunk` that begins with `first`. This runs on a blocking thread:
/// unpacking takes up to a second. [`UNPACKING`] bounds the memory of all requests.
async fn in_batch(
    chunk: &LogChunk,
    first: u64,
    choose: impl FnOnce(&mut dyn Iterator<Item = (i64, i64)>) -> Option<(i64, i64)> + Send + 'static,
) -> Option<(i64, i64)> {
    let chunk = chunk.clone();
    let _permit = UNPACKING.acquire().await.ok()?;
    let chosen = tokio::task::spawn_blocking(move || {
        let batch = chunk.batches().find(|batch| batch.first_sequence_number == first)?;
        with_timestamps(&batch, choose)
    });
    chosen.await.ok()?
}

/// Reads the next chunk of a log once it is in memory; `None` at the end, or at damage. Other tasks of the thread run in between.
async fn next(log: &Arc<PartitionLog>, cursor: &mut Cursor) -> Option<LogChunk> {
    tokio::task::yield_now().await;
    let end = log.end().next_sequence_number;
    let subscriber = Subscriber::new();
    let mut subscription = None;
    loop {
        if let Some(chunk) = log.read(cursor, READ_BYTES) {
            return Some(chunk);
        }
        if cursor.next_sequence_number() >= end {
            return None;
        }
        let subscription = subscription.get_or_insert_with(|| log.subscribe(&subscriber, 0));
        match subscription.arm(cursor) {
            Readiness::Ready => {}
            Readiness::Damaged(_) => return None,
            Readiness::Waiting => {
                let mut keys = Vec::new();
                std::future::poll_fn(|cx| subscriber.poll_ready(cx, &mut keys)).await;
            }
        }
    }
}

/// The greatest timestamp of a batch. Markers of transactions have none: no consumer ever gets one.
fn latest(batch: &Batch<'_>) -> i64 {
    match record_batch(batch) {
        Some(batch) if batch.is_control() => MARKER,
        Some(batch) => batch.max_timestamp(),
        None => batch.append_time.milliseconds(),
    }
}

/// Applies `choose` to offset and timestamp of each record, as far as they can be unpacked.
fn with_timestamps<T>(
    batch: &Batch<'_>,
    choose: impl FnOnce(&mut dyn Iterator<Item = (i64, i64)>) -> T,
) -> T {
    let first = batch.first_sequence_number.cast_signed();
    let Some(record_batch) = record_batch(batch) else {
        let time = batch.append_time.milliseconds();
        return choose(&mut (first..first + i64::from(batch.record_count)).map(|offset| (offset, time)));
    };
    let of_all = (first, record_batch.max_timestamp());
    if record_batch.timestamp_type() == TimestampType::LogAppendTime {
        return choose(&mut std::iter::once(of_all));
    }
    let Ok(records) = record_batch.unpacked(UNPACKED_MAX) else {
        return choose(&mut std::iter::once(of_all));
    };
    let base = record_batch.base_timestamp();
    let mut records = Records::of(&records)
        .map_while(Result::ok)
        .map(|record| (first + i64::from(record.offset_delta), base.saturating_add(record.timestamp_delta)));
    choose(&mut records)
}

fn record_batch<'a>(batch: &Batch<'a>) -> Option<RecordBatch<'a>> {
    match batch.format.protocol() {
        Protocol::Kafka => RecordBatch::read(batch.bytes).ok(),
        Protocol::Amqp => None,
    }
}

/// Requests that unpack a batch at the same time. Each takes up to [`UNPACKED_MAX`] bytes.
static UNPACKING: Semaphore = Semaphore::const_new(2);

/// Before every timestamp.
const MARKER: i64 = i64::MIN;

/// Bytes of a log that are read at once.
const READ_BYTES: usize = 1024 * 1024;
