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

use super::fetch::check_epoch;
use super::session::Session;
use super::topics::{self, Topics};
use crate::convert::UNPACKED_MAX;
use crate::namespace::Namespace;

/// Finds all that a request asks for.
pub(super) async fn list<'a>(
    namespace: &Namespace,
    session: &Session,
    request: &ListOffsetsRequest<'a>,
) -> Vec<FoundOffset<'a>> {
    let mut topics = Topics::new(namespace, session, Right::Listen);
    let mut found = Vec::with_capacity(request.partitions.len());
    for asked in &request.partitions {
        let result = find(&mut topics, asked, request.is_read_committed).await;
        let (topic, index) = (asked.topic, asked.index);
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

/// The first record with this timestamp or a greater one.
///
/// A producer's timestamp is not later than the time of the append, unless its clock is ahead, so the search begins with what
/// was appended then.
async fn first_at(log: &Arc<PartitionLog>, time: i64) -> Option<(i64, i64)> {
    let since = UnixTime::from_milliseconds(time);
    let mut cursor = log.position(Start::AppendTime(since, Edge::Inclusive)).ok()?;
    while let Some(chunk) = next(log, &mut cursor).await {
        let batches = chunk.batches().filter(|batch| latest(batch) >= time);
        let found = batches.flat_map(|batch| timestamps(&batch)).find(|(_, timestamp)| *timestamp >= time);
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The record with the greatest timestamp, and the first of them if there are several.
async fn greatest(log: &Arc<PartitionLog>) -> Option<(i64, i64)> {
    let mut cursor = log.position(Start::Earliest).ok()?;
    let mut greatest: Option<(i64, i64)> = None;
    while let Some(chunk) = next(log, &mut cursor).await {
        for batch in chunk.batches().filter(|batch| latest(batch) > MARKER) {
            if greatest.is_none_or(|(_, timestamp)| latest(&batch) > timestamp) {
                greatest = timestamps(&batch).into_iter().rev().max_by_key(|(_, timestamp)| *timestamp);
            }
        }
    }
    greatest
}

/// The next piece of a log, once it is in memory; `None` at the end, or at damage.
async fn next(log: &Arc<PartitionLog>, cursor: &mut Cursor) -> Option<LogChunk> {
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

/// Offset and timestamp of each record, as far as they can be unpacked.
fn timestamps(batch: &Batch<'_>) -> Vec<(i64, i64)> {
    let first = batch.first_sequence_number.cast_signed();
    let Some(record_batch) = record_batch(batch) else {
        let time = batch.append_time.milliseconds();
        return (first..first + i64::from(batch.record_count)).map(|offset| (offset, time)).collect();
    };
    if record_batch.timestamp_type() == TimestampType::LogAppendTime {
        return vec![(first, record_batch.max_timestamp())];
    }
    let Ok(records) = record_batch.unpacked(UNPACKED_MAX) else {
        return vec![(first, record_batch.max_timestamp())];
    };
    let records = Records::of(&records).map_while(Result::ok);
    let base = record_batch.base_timestamp();
    records
        .map(|record| (first + i64::from(record.offset_delta), base.saturating_add(record.timestamp_delta)))
        .collect()
}

fn record_batch<'a>(batch: &Batch<'a>) -> Option<RecordBatch<'a>> {
    match batch.format.protocol() {
        Protocol::Kafka => RecordBatch::read(batch.bytes).ok(),
        Protocol::Amqp => None,
    }
}

/// Before every timestamp.
const MARKER: i64 = i64::MIN;

/// Bytes of a log that are read at once.
const READ_BYTES: usize = 1024 * 1024;
