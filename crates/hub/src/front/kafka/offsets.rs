//! Where a partition begins and ends, and where a point in time lies.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use access::Right;
use kafka::ErrorCode;
use kafka::fetch::TopicRef;
use kafka::messages::list_offsets::{FoundOffset, ListOffsetsRequest, OffsetSpec, PartitionTime};
use kafka::record::Records;
use kafka::record_batch::TimestampType;
use partition_log::{
    Batch, Cursor, Edge, LEADER_EPOCH, LogChunk, PartitionLog, Readiness, Start, Subscriber, UnixTime,
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
        OffsetSpec::SegmentBefore(time) => Ok((segment_before(log, time, readable_before), -1)),
        OffsetSpec::Unknown => Err(ErrorCode::UnsupportedVersion),
    }
}

/// Returns where the last segment begins whose records all have this timestamp or a smaller one, as brokers did that knew times of
/// segments alone. -1 if there is none.
fn segment_before(log: &Arc<PartitionLog>, time: i64, readable_before: u64) -> i64 {
    let sought = UnixTime::from_milliseconds(time);
    let segments = log.timestamps();
    let older = segments.iter().rposition(|segment| segment.latest <= sought);
    match older {
        // The log ended before that.
        Some(last) if last + 1 == segments.len() => readable_before.cast_signed(),
        Some(older) => segments[older].sequence_numbers.start.cast_signed(),
        None => -1,
    }
}

/// Returns the first record with this timestamp or a greater one.
///
/// Segments are chosen by their greatest timestamp, and batches by that in their headers. Only the records of a chosen batch are
/// unpacked.
async fn first_at(log: &Arc<PartitionLog>, time: i64) -> Option<(i64, i64)> {
    let sought = UnixTime::from_milliseconds(time);
    for segment in log.timestamps().into_iter().filter(|segment| segment.latest >= sought) {
        let mut chunks = Chunks::of(log, segment.sequence_numbers)?;
        while let Some(chunk) = chunks.next().await {
            let candidates: Vec<u64> = chunk
                .batches()
                .filter(|batch| batch.latest_timestamp() >= sought)
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
    }
    None
}

/// Returns the record with the greatest timestamp, and the first of them if there are several. It is in the first batch with the
/// greatest timestamp in its header, the only one that is unpacked. Segments that can't have it are not read.
async fn greatest(log: &Arc<PartitionLog>) -> Option<(i64, i64)> {
    let mut segments = log.timestamps();
    segments.sort_by_key(|segment| Reverse(segment.latest));
    // Where markers of transactions are, there is nothing to find.
    let mut most = (UnixTime::MIN, Reverse(0));
    let mut greatest = None;
    for segment in segments {
        if (segment.latest, Reverse(segment.sequence_numbers.start)) <= most {
            continue;
        }
        let mut chunks = Chunks::of(log, segment.sequence_numbers)?;
        while let Some(chunk) = chunks.next().await {
            let rank = |batch: Batch<'_>| (batch.latest_timestamp(), Reverse(batch.first_sequence_number));
            if let Some(best) = chunk.batches().map(rank).max().filter(|best| *best > most) {
                most = best;
                greatest = Some(chunk);
            }
        }
    }
    let (_, Reverse(first)) = most;
    let first_greatest = |best: (i64, i64), record: (i64, i64)| if record.1 > best.1 { record } else { best };
    in_batch(&greatest?, first, move |mut records| (&mut records).reduce(first_greatest)).await
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

/// Chunks of a log with the records of these numbers.
struct Chunks<'a> {
    log: &'a Arc<PartitionLog>,
    cursor: Cursor,
    end: u64,
}

impl<'a> Chunks<'a> {
    /// `None` if the log ends before the first number.
    fn of(log: &'a Arc<PartitionLog>, numbers: Range<u64>) -> Option<Self> {
        let cursor = log.position(Start::SequenceNumber(numbers.start, Edge::Inclusive)).ok()?;
        Some(Self { log, cursor, end: numbers.end })
    }

    /// Reads the next chunk once it is in memory; `None` at the end, or at damage. Other tasks of the thread run in between.
    async fn next(&mut self) -> Option<LogChunk> {
        tokio::task::yield_now().await;
        let subscriber = Subscriber::new();
        let mut subscription = None;
        loop {
            if self.cursor.next_sequence_number() >= self.end {
                return None;
            }
            if let Some(chunk) = self.log.read(&mut self.cursor, READ_BYTES) {
                return Some(chunk);
            }
            let subscription = subscription.get_or_insert_with(|| self.log.subscribe(&subscriber, 0));
            match subscription.arm(&self.cursor) {
                Readiness::Ready => {}
                Readiness::Damaged(_) => return None,
                Readiness::Waiting => {
                    let mut keys = Vec::new();
                    std::future::poll_fn(|cx| subscriber.poll_ready(cx, &mut keys)).await;
                }
            }
        }
    }
}

/// Applies `choose` to offset and timestamp of each record, as far as they can be unpacked.
fn with_timestamps<T>(
    batch: &Batch<'_>,
    choose: impl FnOnce(&mut dyn Iterator<Item = (i64, i64)>) -> T,
) -> T {
    let first = batch.first_sequence_number.cast_signed();
    let Some(record_batch) = batch.record_batch() else {
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

/// Requests that unpack a batch at the same time. Each takes up to [`UNPACKED_MAX`] bytes.
static UNPACKING: Semaphore = Semaphore::const_new(2);

/// Bytes of a log that are read at once.
const READ_BYTES: usize = 1024 * 1024;
