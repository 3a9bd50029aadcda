//! The log of one partition.

use super::block_pool::BlockPool;
use super::chunk::LogChunk;
use super::disk::{CommitNumber, Unavailable};
use super::encoder::{BatchEncoder, NewRecord};
use super::limits::{LogLimits, SMALLEST_BLOCK, WhenFull};
use super::position::{Cursor, Edge, Place, PositionError, Start};
use super::segment::{Segment, SpareIndex};
use super::subscription::{Readiness, Subscriber, Subscription, Subscriptions};
use crate::unix_time::UnixTime;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::ByteSize;

/// An append-only log that any number of threads append to and read from.
///
/// * Append: [`append`](Self::append), [`append_records`](Self::append_records).
/// * Read: [`position`](Self::position) makes a cursor, [`read`](Self::read) moves it,
///   [`subscribe`](Self::subscribe) wakes whoever reached the end.
/// * Keep house: [`enforce_retention`](Self::enforce_retention), [`stats`](Self::stats).
pub struct PartitionLog {
    state: Mutex<State>,
    limits: LogLimits,
    largest_block: usize,
    pool: Arc<BlockPool>,
}

struct State {
    /// Oldest first; the last one is being written. Empty before the first append and when retention took all.
    segments: VecDeque<Segment>,
    /// How many segments were dropped: the ordinal number of `segments[0]`.
    dropped_segments: u64,
    next_sequence_number: u64,
    last_append_time: Option<UnixTime>,
    /// Bytes of all batches that are held.
    bytes: u64,
    /// The size of the next ordinary block.
    next_capacity: usize,
    spare_index: SpareIndex,
    subscriptions: Subscriptions,
}

/// What an append achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The number of the batch's first record.
    pub first_sequence_number: u64,
    /// How many records the batch has.
    pub record_count: u32,
    /// The bytes that the batch takes in the log.
    pub bytes: usize,
    /// The time that the batch got: `now`, or that of the batch before if the clock went back.
    pub append_time: UnixTime,
    /// What an acknowledgement has to wait for; nothing, if the log is in memory.
    pub commit: CommitNumber,
}

/// Why nothing was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError<E = Infallible> {
    /// The log holds what it may; try again later.
    #[error("the log holds {held} of {bound}; {batch} more don't fit")]
    Full {
        /// What the log holds.
        held: ByteSize,
        /// What the batch would have added.
        batch: ByteSize,
        /// What the log may hold.
        bound: ByteSize,
    },
    /// The batch is longer than [`MAXIMUM_BATCH_LENGTH`](super::batch::MAXIMUM_BATCH_LENGTH).
    #[error("the batch is longer than any batch can be")]
    TooLong,
    /// The log's disk does not take what was appended before; try again later.
    #[error(transparent)]
    Unavailable(Unavailable),
    /// The function that encodes the records failed.
    #[error(transparent)]
    Encoding(E),
}

/// A log's state at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStats {
    /// The number of the oldest record that is kept; of the next one, if none is.
    pub begin_sequence_number: u64,
    /// The number of the last record ever appended; `None` if there was none.
    pub last_sequence_number: Option<u64>,
    /// When that was.
    pub last_append_time: Option<UnixTime>,
    /// Bytes of the batches that are kept.
    pub bytes: u64,
    /// Whether no record is kept.
    pub is_empty: bool,
}

impl PartitionLog {
    /// An empty log. It takes no block from `pool` until the first append.
    #[must_use]
    pub fn new(limits: LogLimits, pool: Arc<BlockPool>) -> Self {
        let state = State {
            segments: VecDeque::new(),
            dropped_segments: 0,
            next_sequence_number: 0,
            last_append_time: None,
            bytes: 0,
            next_capacity: SMALLEST_BLOCK,
            spare_index: SpareIndex::default(),
            subscriptions: Subscriptions::default(),
        };
        Self {
            state: Mutex::new(state),
            limits,
            largest_block: limits.largest_block(),
            pool,
        }
    }

    /// Appends the records that `encode` pushes as one batch: all of them, or none if there is an error. A batch
    /// without records changes nothing.
    ///
    /// `encode` runs while the log is locked; it copies bytes and does nothing else. It must not use this log.
    pub fn append<E>(
        &self,
        now: UnixTime,
        encode: impl FnOnce(&mut BatchEncoder<'_>) -> Result<(), E>,
    ) -> Result<Appended, AppendError<E>> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let append_time = state.last_append_time.map_or(now, |last| last.max(now));
        let first_sequence_number = state.next_sequence_number;

        if state.segments.is_empty() {
            let writer = self.pool.take(state.next_capacity);
            self.grow_next_capacity(state);
            state.segments.push_back(Segment::new(
                writer,
                first_sequence_number,
                &mut state.spare_index,
            ));
        }
        let segment = state
            .segments
            .back_mut()
            .expect("pushed above if there was none");
        let mut encoder = BatchEncoder::new(&mut segment.writer, &self.pool, state.next_capacity);
        encode(&mut encoder).map_err(AppendError::Encoding)?;
        let batch = encoder
            .finish(first_sequence_number, append_time)
            .ok_or(AppendError::TooLong)?;
        if batch.record_count == 0 {
            return Ok(Appended {
                first_sequence_number,
                record_count: 0,
                bytes: 0,
                append_time,
                commit: CommitNumber::DONE,
            });
        }
        let bound = self.limits.bytes.bytes();
        if self.limits.when_full == WhenFull::Throttle && state.bytes + batch.length as u64 > bound
        {
            return Err(AppendError::Full {
                held: ByteSize::from_bytes(state.bytes),
                batch: ByteSize::from_bytes(batch.length as u64),
                bound: self.limits.bytes,
            });
        }

        let mut unused = None;
        if let Some(writer) = batch.replacement {
            self.grow_next_capacity(state);
            if state
                .segments
                .back()
                .is_some_and(|segment| segment.length() == 0)
            {
                // A first batch that is larger than the first block; the larger one takes its place.
                unused = state.segments.pop_back();
            }
            state.segments.push_back(Segment::new(
                writer,
                first_sequence_number,
                &mut state.spare_index,
            ));
        }
        let segment = state.segments.back_mut().expect("there is one at least");
        segment.publish_batch(first_sequence_number, append_time);
        state.next_sequence_number += u64::from(batch.record_count);
        state.last_append_time = Some(append_time);
        state.bytes += batch.length as u64;
        let dropped = self.drop_excess(state, append_time);
        let wakers = state.subscriptions.take_wakers();
        drop(guard);
        // Giving memory back and waking tasks can take long; nobody waits for it.
        drop((dropped, unused));
        if let Some(wakers) = wakers {
            wakers.wake();
        }
        Ok(Appended {
            first_sequence_number,
            record_count: batch.record_count,
            bytes: batch.length,
            append_time,
            commit: CommitNumber::DONE,
        })
    }

    /// Appends `records` as one batch.
    pub fn append_records(
        &self,
        now: UnixTime,
        records: &[NewRecord<'_>],
    ) -> Result<Appended, AppendError> {
        self.append(now, |encoder| {
            records.iter().for_each(|record| encoder.push(record));
            Ok(())
        })
    }

    /// A cursor at `start`. A place that retention has dropped means the oldest record.
    pub fn position(&self, start: Start) -> Result<Cursor, PositionError> {
        let state = self.lock();
        let end = state.next_sequence_number;
        let next = match start {
            Start::Earliest => state.begin_sequence_number(),
            Start::Latest(Edge::Exclusive) => end,
            Start::Latest(Edge::Inclusive) => end.saturating_sub(1),
            Start::SequenceNumber(requested, edge) => {
                // A log where nothing was ever appended has a beginning all the same: number 0.
                let exists = requested < end || (requested == 0 && edge == Edge::Inclusive);
                if !exists {
                    return Err(PositionError::BeyondEnd {
                        requested,
                        last: end.checked_sub(1),
                    });
                }
                match edge {
                    Edge::Inclusive => requested,
                    Edge::Exclusive => requested + 1,
                }
            }
            Start::AppendTime(time, Edge::Inclusive) => state.first_sequence_number_since(time),
            Start::AppendTime(time, Edge::Exclusive) => match time.milliseconds().checked_add(1) {
                Some(after) => {
                    state.first_sequence_number_since(UnixTime::from_milliseconds(after))
                }
                None => end,
            },
        };
        Ok(Cursor::before(next.max(state.begin_sequence_number())))
    }

    /// The batches from `cursor` on, up to `max_bytes` of them but at least one, and moves the cursor behind them.
    /// `None` at the end of the log.
    #[must_use]
    pub fn read(&self, cursor: &mut Cursor, max_bytes: usize) -> Option<LogChunk> {
        let state = self.lock();
        let begin = state.begin_sequence_number();
        let skipped = begin.saturating_sub(cursor.next_sequence_number);
        let next = cursor.next_sequence_number.max(begin);
        if next >= state.next_sequence_number {
            return None;
        }
        let place = match cursor.place {
            Some(place) if skipped == 0 => state.still_there(place).or_else(|| state.search(next)),
            _ => state.search(next),
        }?;
        let index = (place.segment - state.dropped_segments) as usize;
        let segment = state.segments.get(index)?;
        let end = match state.segments.get(index + 1) {
            Some(following) => following.first_sequence_number,
            None => state.next_sequence_number,
        };
        let available = segment.writer.slice(place.batch..segment.length());
        drop(state);

        let chunk = LogChunk::new(available, max_bytes, place, next..end, skipped);
        *cursor = chunk.end();
        Some(chunk)
    }

    /// Registers `subscriber`, which gets `key` reported when an armed subscription has something to read.
    #[must_use]
    pub fn subscribe(self: &Arc<Self>, subscriber: &Arc<Subscriber>, key: u64) -> Subscription {
        let slot = self.lock().subscriptions.add(Arc::clone(subscriber), key);
        Subscription::new(Arc::clone(self), slot)
    }

    pub(super) fn arm(&self, slot: usize, cursor: &Cursor) -> Readiness {
        let mut state = self.lock();
        if cursor.next_sequence_number < state.next_sequence_number {
            return Readiness::Ready;
        }
        state.subscriptions.arm(slot);
        Readiness::Waiting
    }

    /// Reports the keys of all subscriptions, armed or not: what they belong to has changed, and whoever holds them has
    /// to look.
    pub fn wake_subscribers(&self) {
        let wakers = self.lock().subscriptions.report_all();
        wakers.wake();
    }

    pub(super) fn unsubscribe(&self, slot: usize) {
        self.lock().subscriptions.remove(slot);
    }

    /// Drops the segments whose records are all older than the limits allow at `now`, the one being written
    /// included. Appends do this too, for all but that one; a log that gets none needs to be told.
    pub fn enforce_retention(&self, now: UnixTime) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut dropped = Vec::new();
        if let Some(retention) = self.limits.retention {
            let oldest_kept = now.saturating_sub(retention);
            while state
                .segments
                .front()
                .is_some_and(|segment| segment.last_append_time < oldest_kept)
            {
                dropped.extend(state.drop_oldest());
            }
        }
        if state.segments.is_empty() {
            state.next_capacity = SMALLEST_BLOCK;
        }
        drop(guard);
        drop(dropped);
    }

    /// What the log holds now.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        let state = self.lock();
        let begin_sequence_number = state.begin_sequence_number();
        LogStats {
            begin_sequence_number,
            last_sequence_number: state.next_sequence_number.checked_sub(1),
            last_append_time: state.last_append_time,
            bytes: state.bytes,
            is_empty: begin_sequence_number == state.next_sequence_number,
        }
    }

    /// What the log may hold.
    #[must_use]
    pub fn limits(&self) -> &LogLimits {
        &self.limits
    }

    /// Drops the oldest segments that the limits don't allow, but not the one being written. Usually there is at
    /// most one, so more than one go at once only when a large batch came.
    #[inline]
    fn drop_excess(&self, state: &mut State, now: UnixTime) -> Option<Segment> {
        let mut dropped = None;
        while state.segments.len() > 1 {
            let too_many = self.limits.when_full == WhenFull::Retention
                && state.bytes > self.limits.bytes.bytes();
            let too_old = self.limits.retention.is_some_and(|retention| {
                state
                    .segments
                    .front()
                    .is_some_and(|oldest| oldest.last_append_time < now.saturating_sub(retention))
            });
            if !(too_many || too_old) {
                break;
            }
            dropped = state.drop_oldest();
        }
        dropped
    }

    fn grow_next_capacity(&self, state: &mut State) {
        state.next_capacity = (state.next_capacity * 2).min(self.largest_block);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Only the caller's `encode` can panic in a locked section, and what it wrote is discarded by the next append.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin_sequence_number(&self) -> u64 {
        self.segments
            .front()
            .map_or(self.next_sequence_number, |oldest| {
                oldest.first_sequence_number
            })
    }

    /// `place`, moved to the next segment if it is the end of one; `None` if it is gone or can't be.
    fn still_there(&self, place: Place) -> Option<Place> {
        let index = usize::try_from(place.segment.checked_sub(self.dropped_segments)?).ok()?;
        let segment = self.segments.get(index)?;
        if place.batch < segment.length() {
            return Some(place);
        }
        let at_the_end = place.batch == segment.length() && index + 1 < self.segments.len();
        at_the_end.then_some(Place {
            segment: place.segment + 1,
            batch: 0,
            record: None,
        })
    }

    /// The place of the batch that holds the record of this number, which is kept.
    fn search(&self, sequence_number: u64) -> Option<Place> {
        let following = self
            .segments
            .partition_point(|segment| segment.first_sequence_number <= sequence_number);
        let index = following.checked_sub(1)?;
        let (batch, _header) = self.segments[index].batch_of(sequence_number)?;
        Some(Place {
            segment: self.dropped_segments + index as u64,
            batch,
            record: None,
        })
    }

    /// The number of the first record appended at `time` or later; the next number, if there is none.
    fn first_sequence_number_since(&self, time: UnixTime) -> u64 {
        let index = self
            .segments
            .partition_point(|segment| segment.last_append_time < time);
        let found = self
            .segments
            .get(index)
            .and_then(|segment| segment.first_batch_since(time));
        found.map_or(self.next_sequence_number, |(_position, header)| {
            header.first_sequence_number
        })
    }

    fn drop_oldest(&mut self) -> Option<Segment> {
        let mut oldest = self.segments.pop_front()?;
        self.dropped_segments += 1;
        self.bytes -= oldest.length() as u64;
        self.spare_index = oldest.take_index();
        Some(oldest)
    }
}

impl fmt::Debug for PartitionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionLog")
            .field("limits", &self.limits)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
