//! The log of one partition.

use super::block_pool::BlockPool;
use super::chunk::{Available, LogChunk, Protocol};
use super::disk::{CommitNumber, OpenError, PartitionDirectory, PartitionDisk, RecoveryReport, Unavailable};
use super::encoder::{BatchEncoder, NewRecord};
use super::limits::{LogLimits, SMALLEST_BLOCK, WhenFull};
use super::position::{Cursor, Isolation, PositionError, Start};
use super::producers::ProducerStamp;
use super::segment::{Availability, Segment, Storage};
use super::state::State;
use super::subscription::{News, Readiness, Subscriber, Subscription};
use crate::UnixTime;
use kafka::control_batch::TransactionMarker;
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::ByteSize;

/// An append-only log that any number of threads append to and read from.
///
/// * Append: [`append`](Self::append), [`append_records`](Self::append_records),
///   [`append_produced`](Self::append_produced).
/// * Read: [`position`](Self::position) makes a cursor, [`read`](Self::read) moves it,
///   [`subscribe`](Self::subscribe) wakes whoever reached the end.
/// * Keep house: [`enforce_retention`](Self::enforce_retention), [`stats`](Self::stats).
///
/// A log is in memory ([`new`](Self::new)) or durable ([`open`](Self::open)); the rest of its face is the same. Of a
/// durable log readers see what is [committed](super::disk).
pub struct PartitionLog {
    state: Mutex<State>,
    pub(super) pool: Arc<BlockPool>,
    /// The files of a durable log.
    pub(super) disk: Option<PartitionDisk>,
    /// The number before which readers got everything.
    pub(super) read_before: AtomicU64,
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
    /// The logs that share a budget hold as much as they may together; try again later.
    #[error("all partitions together may hold {total}; {batch} more don't fit")]
    TotalReached {
        /// Size of the batch.
        batch: ByteSize,
        /// Maximum size of all logs together.
        total: ByteSize,
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

/// Where a log ends.
///
/// The two differ while a transaction is open: what it has written is in the log, and may yet be aborted. Readers of committed
/// records get what comes before the stable end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The number after that of the last record.
    pub next_sequence_number: u64,
    /// The number before which it is decided of every record that it stays.
    pub stable_sequence_number: u64,
    /// The append time of the last record; `None` if there was none.
    pub append_time: Option<UnixTime>,
}

/// Who appends a batch: what the log learns from it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Author<'a> {
    /// Anyone who does not number records.
    Anyone,
    /// A producer that numbers them, with the stamp of this batch.
    Producer(&'a ProducerStamp),
    /// The same, in a transaction.
    Transaction(&'a ProducerStamp),
    /// The coordinator of transactions, with the end of one.
    Coordinator(&'a TransactionMarker),
}

impl LogEnd {
    /// An end before which everything is decided.
    pub(super) const fn decided(next_sequence_number: u64, append_time: Option<UnixTime>) -> Self {
        Self { next_sequence_number, stable_sequence_number: next_sequence_number, append_time }
    }
}

impl PartitionLog {
    /// An empty log in memory. It takes no block from `pool` until the first append.
    #[must_use]
    pub fn new(limits: LogLimits, pool: Arc<BlockPool>) -> Self {
        Self::with_state(State::new(0, None), None, limits, pool)
    }

    /// The durable log that is kept in `directory`, with what was found there. What is not in the last segment is not
    /// read: that happens when a reader wants it.
    ///
    /// # Errors
    /// If the directory can't be read, or holds what this program must not touch. Nothing was changed then.
    pub fn open(
        limits: LogLimits,
        pool: Arc<BlockPool>,
        directory: PartitionDirectory,
    ) -> Result<(Arc<Self>, RecoveryReport), OpenError> {
        let (mut state, report) = directory.recover()?;
        let committer = Arc::clone(&directory.committer);
        let log = Arc::new_cyclic(|log| {
            let durable = committer.register(log.clone(), state.end());
            state.durable = Some(durable);
            Self::with_state(state, Some(PartitionDisk::new(directory)), limits, pool)
        });
        // The process before may have ended between deleting records and removing their segments.
        log.drop_deleted();
        Ok((log, report))
    }

    fn with_state(
        mut state: State,
        disk: Option<PartitionDisk>,
        limits: LogLimits,
        pool: Arc<BlockPool>,
    ) -> Self {
        state.limits = limits;
        Self { state: Mutex::new(state), pool, disk, read_before: AtomicU64::new(0) }
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
        self.append_to(self.lock(), now, Protocol::Amqp, Author::Anyone, encode)
    }

    /// Appends a batch of `author` to the log whose `state` is locked.
    #[inline]
    pub(super) fn append_to<E>(
        &self,
        mut guard: MutexGuard<'_, State>,
        now: UnixTime,
        protocol: Protocol,
        author: Author<'_>,
        encode: impl FnOnce(&mut BatchEncoder<'_>) -> Result<(), E>,
    ) -> Result<Appended, AppendError<E>> {
        let state = &mut *guard;
        if let Some(reason) = state.unavailable() {
            return Err(AppendError::Unavailable(reason));
        }
        let append_time = state.last_append_time.map_or(now, |last| last.max(now));
        let first_sequence_number = state.next_sequence_number;

        if state.segments.back().is_none_or(|last| last.sealed) {
            let writer = self.pool.take(state.next_capacity);
            self.grow_next_capacity(state);
            let segment = Segment::new(writer, first_sequence_number, &mut state.spare_index);
            state.push_segment(segment);
        }
        let writer = state
            .segments
            .back_mut()
            .and_then(Segment::writer)
            .expect("a segment that is not sealed is in memory, and one was pushed if there was none");
        let stamp = match author {
            Author::Producer(stamp) | Author::Transaction(stamp) => Some(stamp),
            Author::Anyone | Author::Coordinator(_) => None,
        };
        let mut encoder = BatchEncoder::new(writer, &self.pool, state.next_capacity, protocol, stamp);
        encode(&mut encoder).map_err(AppendError::Encoding)?;
        let batch = encoder.finish(first_sequence_number, append_time).ok_or(AppendError::TooLong)?;
        if batch.record_count == 0 {
            return Ok(Appended {
                first_sequence_number,
                record_count: 0,
                bytes: 0,
                append_time,
                commit: CommitNumber::DONE,
            });
        }
        let bound = state.limits.bytes;
        // A transaction that can't end would keep its readers waiting until there is room.
        let is_bounded = !matches!(author, Author::Coordinator(_));
        let is_over = state.bytes + batch.length as u64 > bound.bytes();
        if state.limits.when_full == WhenFull::Throttle && is_over && is_bounded {
            return Err(AppendError::Full {
                held: ByteSize::from_bytes(state.bytes),
                batch: ByteSize::from_bytes(batch.length as u64),
                bound,
            });
        }

        let bytes = batch.length as u64;
        if is_bounded
            && let Some(budget) = &state.budget
            && !budget.has_room_for(bytes)
        {
            let (batch, total) = (ByteSize::from_bytes(bytes), budget.total());
            return Err(AppendError::TotalReached { batch, total });
        }

        let mut released = Vec::new();
        if let Some(writer) = batch.replacement {
            self.grow_next_capacity(state);
            if state.segments.back().is_some_and(|segment| segment.length() == 0) {
                // A first batch that is larger than the first block; the larger one takes its place.
                released.extend(state.segments.pop_back());
            }
            let segment = Segment::new(writer, first_sequence_number, &mut state.spare_index);
            state.push_segment(segment);
        }
        let stable_end = state.readable_before(Isolation::Committed);
        let segment = state.segments.back_mut().expect("there is one at least");
        segment.publish_batch(first_sequence_number, append_time, batch.latest_timestamp);
        let runs_low = segment.runs_low_since(batch.length);
        let next_capacity = state.next_capacity;
        state.next_sequence_number += u64::from(batch.record_count);
        state.last_append_time = Some(append_time);
        state.bytes += bytes;
        if let Some(budget) = &state.budget {
            budget.charge(bytes);
        }
        state.may_be_mixed |= protocol == Protocol::Kafka;
        if let Some(stamp) = stamp {
            let producers = state.producers.get_or_insert_default();
            producers.record(stamp, batch.record_count, first_sequence_number, append_time);
        }
        match author {
            Author::Anyone | Author::Producer(_) => {}
            Author::Transaction(stamp) => {
                let transactions = state.transactions.get_or_insert_default();
                transactions.record(stamp, first_sequence_number, append_time);
            }
            Author::Coordinator(marker) => {
                state.producers.get_or_insert_default().end_transaction(marker, append_time);
                state.transactions.get_or_insert_default().end(marker, first_sequence_number);
                // Of a durable log, when the marker is committed.
                state.settle_transactions();
            }
        }
        self.drop_excess(state, append_time, &mut released);
        let commit = match &mut state.durable {
            None => CommitNumber::DONE,
            Some(durable) => durable.enqueue(),
        };
        // Readers of a durable log are woken when the batch is committed.
        let wakers = match commit.is_done() {
            true => state.subscriptions.take_wakers(state.news_since(stable_end)),
            false => None,
        };
        drop(guard);
        // Giving memory back and waking tasks can take long; nobody waits for it.
        drop(released);
        if let Some(wakers) = wakers {
            wakers.wake();
        }
        if runs_low {
            self.pool.prepare(next_capacity);
        }
        Ok(Appended {
            first_sequence_number,
            record_count: batch.record_count,
            bytes: batch.length,
            append_time,
            commit,
        })
    }

    /// Appends `records` as one batch.
    pub fn append_records(&self, now: UnixTime, records: &[NewRecord<'_>]) -> Result<Appended, AppendError> {
        self.append(now, |encoder| {
            records.iter().for_each(|record| encoder.push(record));
            Ok(())
        })
    }

    /// A cursor at `start`. A place that retention has dropped means the oldest record.
    pub fn position(&self, start: Start) -> Result<Cursor, PositionError> {
        self.lock().position(start, Isolation::Uncommitted)
    }

    /// The same for a reader of committed records only: the latest place is the stable end.
    pub fn position_committed(&self, start: Start) -> Result<Cursor, PositionError> {
        self.lock().position(start, Isolation::Committed)
    }

    /// The batches from `cursor` on, up to `max_bytes` of them but at least one, and moves the cursor behind them.
    /// `None` at the end of the log, and where it can't be read, or not yet, because it is on disk only:
    /// [`Subscription::arm`] tells which.
    #[must_use]
    pub fn read(&self, cursor: &mut Cursor, max_bytes: usize) -> Option<LogChunk> {
        let mut state = self.lock();
        let begin = state.begin_sequence_number();
        let skipped = begin.saturating_sub(cursor.next_sequence_number);
        let next = cursor.next_sequence_number.max(begin);
        let readable_before = state.readable_before(cursor.isolation);
        if next >= readable_before {
            return None;
        }
        let known = cursor.place.filter(|_| skipped == 0);
        let (place, next) = match state.place(next, known, cursor.since) {
            Ok(found) => found,
            Err(index) => {
                state.request_load(index);
                return None;
            }
        };
        let index = (place.segment - state.dropped_segments) as usize;
        let Some(available) = state.segments.get(index)?.readable_from(place.batch) else {
            state.request_load(index);
            return None;
        };
        let sound_before = state.sound_before(index);
        let available = Available {
            bytes: available,
            first: place,
            sequence_numbers: next..sound_before.min(readable_before),
            skipped,
            is_mixed: state.may_be_mixed,
            is_cut: readable_before < sound_before.min(state.committed_before()),
            isolation: cursor.isolation,
        };
        drop(state);

        let chunk = LogChunk::new(available, max_bytes);
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
        // Where the cursor stood may be gone, and with it everything up to the end.
        let next = cursor.next_sequence_number.max(state.begin_sequence_number());
        if next < state.readable_before(cursor.isolation) {
            let (index, availability) = state.availability(next);
            match availability {
                Availability::Resident => return Readiness::Ready,
                Availability::Damaged(damage) => {
                    state.forget_failed_reading(index, &damage);
                    return Readiness::Damaged(damage);
                }
                Availability::OnDisk | Availability::Loading => state.request_load(index),
            }
        }
        state.subscriptions.arm(slot, cursor.isolation);
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

    /// Drops the segments that the limits don't allow at `now`, the one being written included if all of its records are
    /// too old. Appends do this too, for all but that one; a log that gets none needs to be told. Of a durable log a
    /// segment goes once it is completely on disk, so the last one goes at the second call.
    pub fn enforce_retention(&self, now: UnixTime) {
        let mut guard = self.lock();
        if let Some(producers) = &mut guard.producers {
            producers.expire(now);
        }
        let is_excess =
            |state: &State| state.segments.len() > 1 && state.has_excess(now) && self.may_drop_oldest(state);
        self.drop_while(guard, |state| {
            state.oldest_is_too_old(now) || state.oldest_is_deleted() || is_excess(state)
        });
    }

    /// Drops the oldest segments of the log whose `guard` this is as long as `is_unwanted`, the one being written included.
    pub(super) fn drop_while(&self, mut guard: MutexGuard<'_, State>, is_unwanted: impl Fn(&State) -> bool) {
        let state = &mut *guard;
        let stable_end = state.readable_before(Isolation::Committed);
        let mut dropped = Vec::new();
        while is_unwanted(state) {
            if !self.may_drop_oldest(state) {
                state.seal_last();
                break;
            }
            dropped.extend(state.drop_oldest(self.read_before()));
        }
        if state.segments.is_empty() {
            state.next_capacity = SMALLEST_BLOCK;
        }
        if let Some(durable) = &mut state.durable
            && !dropped.is_empty()
        {
            durable.enqueue();
        }
        // An open transaction whose beginning is gone is not waited for from there.
        let wakers = match state.readable_before(Isolation::Committed) == stable_end {
            true => None,
            false => state.subscriptions.take_wakers(News::ForAll),
        };
        drop(guard);
        drop(dropped);
        if let Some(wakers) = wakers {
            wakers.wake();
        }
    }

    /// Where the log ends: after what is committed, if it is durable.
    #[must_use]
    pub fn end(&self) -> LogEnd {
        self.lock().committed()
    }

    /// The number of the oldest record that is kept, and where the log ends, at one moment.
    #[must_use]
    pub fn extent(&self) -> (u64, LogEnd) {
        let state = self.lock();
        (state.begin_sequence_number(), state.committed())
    }

    /// What the log holds now.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.lock().stats(Isolation::Uncommitted)
    }

    /// What readers of committed records see of it: the last record is the one before the stable end. The time of the last append
    /// is the same.
    #[must_use]
    pub fn committed_stats(&self) -> LogStats {
        self.lock().stats(Isolation::Committed)
    }

    /// Where its memory comes from.
    #[must_use]
    pub fn pool(&self) -> &Arc<BlockPool> {
        &self.pool
    }

    /// What the log may hold.
    #[must_use]
    pub fn limits(&self) -> LogLimits {
        self.lock().limits
    }

    /// Sets what the log may hold from now on. What it holds beyond that goes with the next append, or when retention is
    /// [enforced](Self::enforce_retention).
    pub fn set_limits(&self, limits: LogLimits) {
        self.lock().limits = limits;
    }

    /// Whether the oldest segment is at rest: what is on its way to the disk must arrive first.
    pub(super) fn may_drop_oldest(&self, state: &State) -> bool {
        self.disk.is_none()
            || state.segments.front().is_some_and(|oldest| oldest.storage != Storage::Unfinished)
    }

    fn grow_next_capacity(&self, state: &mut State) {
        state.next_capacity = (state.next_capacity * 2).min(state.limits.largest_block());
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Only the caller's `encode` can panic in a locked section, and what it wrote is discarded by the next append.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PartitionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionLog")
            .field("limits", &self.limits())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
