//! What the lock of a partition log guards: its segments, how far readers see, and who waits.

use super::disk::{CommitNumber, Durable, Unavailable};
use super::dropping::DroppedRecords;
use super::knowledge::Knowledge;
use super::limits::{LogLimits, SMALLEST_BLOCK, WhenFull};
use super::log_budget::LogBudget;
use super::partition_log::{LogEnd, LogStats};
use super::position::{Cursor, Edge, Isolation, Place, PositionError, Start};
use super::producers::{ProducerError, ProducerStamp, Producers};
use super::segment::{Availability, Segment, SegmentIndex};
use super::subscription::{News, Subscriptions};
use super::transactions::{MAXIMUM_OPEN, Transactions};
use crate::UnixTime;
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) struct State {
    /// Oldest first; the last one is being written, unless it is sealed. Empty before the first append and when
    /// retention took all.
    pub(super) segments: VecDeque<Segment>,
    /// How many segments were dropped: the ordinal number of `segments[0]`.
    pub(super) dropped_segments: u64,
    pub(super) next_sequence_number: u64,
    pub(super) last_append_time: Option<UnixTime>,
    /// Bytes of all batches that are held.
    pub(super) bytes: u64,
    /// What may be held.
    pub(super) limits: LogLimits,
    /// The size of the next ordinary block.
    pub(super) next_capacity: usize,
    pub(super) spare_index: SegmentIndex,
    pub(super) subscriptions: Subscriptions,
    /// The way to the disk, if there is one.
    pub(super) durable: Option<Durable>,
    /// Whether there may be batches of more than one protocol. What is on disk when a log is opened is not looked at for that.
    pub(super) may_be_mixed: bool,
    /// Those that number their records; `None` if there has been none.
    pub(super) producers: Option<Box<Producers>>,
    /// What they have written as transactions; `None` if nothing.
    pub(super) transactions: Option<Box<Transactions>>,
    /// Records before this number were deleted, though they may be there.
    pub(super) deleted_before: u64,
    /// Records that retention has dropped.
    pub(super) dropped: DroppedRecords,
    /// The budget that `bytes` are charged to, if there is one.
    pub(super) budget: Option<Arc<LogBudget>>,
}

impl State {
    /// A log without segments that goes on at a number.
    pub(super) fn new(next_sequence_number: u64, last_append_time: Option<UnixTime>) -> Self {
        Self {
            segments: VecDeque::new(),
            dropped_segments: 0,
            next_sequence_number,
            last_append_time,
            bytes: 0,
            limits: LogLimits::default(),
            next_capacity: SMALLEST_BLOCK,
            spare_index: SegmentIndex::default(),
            subscriptions: Subscriptions::default(),
            durable: None,
            may_be_mixed: false,
            producers: None,
            transactions: None,
            deleted_before: 0,
            dropped: DroppedRecords::default(),
            budget: None,
        }
    }

    /// Adds the segment that is written from now on.
    pub(super) fn push_segment(&mut self, segment: Segment) {
        self.seal();
        self.segments.push_back(segment);
    }

    /// Ends the segment that is being written, if one is.
    pub(super) fn seal(&mut self) {
        if self.segments.back().is_none_or(|last| last.sealed) {
            return;
        }
        let first = self.segments.back().map_or(0, |last| last.first_sequence_number);
        let known = match self.durable {
            Some(_) => self.knowledge(first),
            None => Knowledge::default(),
        };
        if let Some(last) = self.segments.back_mut() {
            last.sealed = true;
            last.known = known;
        }
    }

    /// What is known at the end of the segment that begins with this number, which is the end of the log.
    pub(super) fn knowledge(&self, first_sequence_number: u64) -> Knowledge {
        Knowledge {
            producers: self.producers.as_ref().and_then(|producers| producers.snapshot()),
            transactions: self.transactions.as_ref().and_then(|it| it.snapshot(first_sequence_number)),
        }
    }

    /// Whether a batch fits the transaction that its producer has open.
    pub(super) fn check_transaction(
        &self,
        stamp: &ProducerStamp,
        is_transactional: bool,
    ) -> Result<(), ProducerError> {
        let Some(transactions) = &self.transactions else {
            return Ok(());
        };
        match transactions.is_open(stamp.id()) {
            true if !is_transactional => Err(ProducerError::InTransaction),
            false if is_transactional && transactions.are_many() => {
                Err(ProducerError::TooManyTransactions { maximum: MAXIMUM_OPEN })
            }
            _ => Ok(()),
        }
    }

    /// Transactions whose markers are committed have ended for readers, too.
    #[inline]
    pub(super) fn settle_transactions(&mut self) {
        let committed = self.committed_before();
        if let Some(transactions) = &mut self.transactions {
            transactions.settle(committed);
        }
    }

    /// For whom there is something new, after the end has moved and the stable end was this.
    #[inline]
    pub(super) fn news_since(&self, stable_end: u64) -> News {
        match self.transactions.is_some() && self.readable_before(Isolation::Committed) == stable_end {
            true => News::Uncommitted,
            false => News::ForAll,
        }
    }

    /// Why nothing can be appended at present, if it can't.
    #[inline]
    pub(super) fn unavailable(&self) -> Option<Unavailable> {
        self.durable.as_ref()?.unavailable
    }

    /// What has to be waited for until everything before this number is committed.
    pub(super) fn commit_before(&mut self, sequence_number: u64) -> CommitNumber {
        match &mut self.durable {
            Some(durable) if durable.committed.next_sequence_number < sequence_number => durable.enqueue(),
            _ => CommitNumber::DONE,
        }
    }

    /// The end of what is committed: all there is, if the log is in memory.
    #[inline]
    pub(super) fn committed(&self) -> LogEnd {
        let end = match &self.durable {
            None => self.end(),
            Some(durable) => durable.committed,
        };
        match self.transactions.as_ref().and_then(|transactions| transactions.first_undecided()) {
            None => end,
            Some(first) => {
                // Records that are gone can't be waited for.
                let stable = first.max(self.begin_sequence_number()).min(end.next_sequence_number);
                LogEnd { stable_sequence_number: stable, ..end }
            }
        }
    }

    /// The number before which everything is committed.
    #[inline]
    pub(super) fn committed_before(&self) -> u64 {
        self.durable.as_ref().map_or(self.next_sequence_number, |it| it.committed.next_sequence_number)
    }

    /// The end of all there is, whatever transactions are open.
    pub(super) fn end(&self) -> LogEnd {
        LogEnd::decided(self.next_sequence_number, self.last_append_time)
    }

    /// The number before which readers of this isolation see everything.
    #[inline]
    pub(super) fn readable_before(&self, isolation: Isolation) -> u64 {
        match isolation {
            Isolation::Uncommitted => self.committed_before(),
            Isolation::Committed => self.committed().stable_sequence_number,
        }
    }

    pub(super) fn begin_sequence_number(&self) -> u64 {
        self.segments
            .front()
            .map_or(self.next_sequence_number, |oldest| oldest.first_sequence_number)
            .max(self.deleted_before)
            .min(self.committed_before())
    }

    /// The number before which the records of the segment at `index` can be read, once they are in memory.
    pub(super) fn sound_before(&self, index: usize) -> u64 {
        let defect = self.segments.get(index).and_then(Segment::defect);
        defect.map_or_else(|| self.next_number_after(index), |defect| defect.sound_until)
    }

    /// The segment of this ordinal number, if it is still there.
    pub(super) fn segment(&mut self, ordinal: u64) -> Option<&mut Segment> {
        let index = usize::try_from(ordinal.checked_sub(self.dropped_segments)?).ok()?;
        self.segments.get_mut(index)
    }

    /// The number after the last record of the segment at `index`.
    pub(super) fn next_number_after(&self, index: usize) -> u64 {
        match self.segments.get(index + 1) {
            Some(following) => following.first_sequence_number,
            None => self.next_sequence_number,
        }
    }

    /// Where the record `next` is, which readers see: `known`, if that is its place, or by searching. `Err` is the
    /// index of its segment, if that is not in memory. A search begins at the first batch of `since`, if that comes later.
    pub(super) fn place(
        &self,
        next: u64,
        known: Option<Place>,
        since: Option<UnixTime>,
    ) -> Result<(Place, u64), usize> {
        if let Some(place) = known.and_then(|place| self.still_there(place)) {
            return Ok((place, next));
        }
        let following = self.segments.partition_point(|segment| segment.first_sequence_number <= next);
        let index = following.saturating_sub(1);
        let segment = self.segments.get(index).ok_or(index)?;
        let found = match since.and_then(|since| segment.first_batch_since(since)) {
            Some((_, header)) if header.first_sequence_number <= next => segment.batch_of(next),
            Some(found) => Some(found),
            None => segment.batch_of(next),
        };
        let (batch, header) = found.ok_or(index)?;
        let place = Place { segment: self.dropped_segments + index as u64, batch, record: None };
        Ok((place, next.max(header.first_sequence_number)))
    }

    /// Whether the record of this number, which readers see, can be read, and the index of its segment.
    pub(super) fn availability(&self, sequence_number: u64) -> (usize, Availability) {
        let following =
            self.segments.partition_point(|segment| segment.first_sequence_number <= sequence_number);
        let index = following.saturating_sub(1);
        let availability = self
            .segments
            .get(index)
            .map_or(Availability::Resident, |segment| segment.availability(sequence_number));
        (index, availability)
    }

    /// `place`, moved to the next segment if it is the end of one; `None` if it is gone or can't be.
    fn still_there(&self, place: Place) -> Option<Place> {
        let index = usize::try_from(place.segment.checked_sub(self.dropped_segments)?).ok()?;
        let segment = self.segments.get(index)?;
        if place.batch < segment.sound_length() {
            return Some(place);
        }
        let at_the_end = place.batch == segment.length() && index + 1 < self.segments.len();
        at_the_end.then_some(Place { segment: place.segment + 1, batch: 0, record: None })
    }

    /// A cursor at `start` for a reader of this isolation, whose end is the latest place. A place that retention has dropped
    /// means the oldest record.
    pub(super) fn position(&self, start: Start, isolation: Isolation) -> Result<Cursor, PositionError> {
        let end = self.committed_before();
        let latest = self.readable_before(isolation);
        let begin = self.begin_sequence_number();
        let next = match start {
            Start::Earliest => begin,
            Start::Latest(Edge::Exclusive) => latest,
            Start::Latest(Edge::Inclusive) => latest.saturating_sub(1),
            Start::SequenceNumber(requested, edge) => {
                // A log where nothing was ever appended has a beginning all the same: number 0.
                let exists = requested < end || (requested == 0 && edge == Edge::Inclusive);
                if !exists {
                    return Err(PositionError::BeyondEnd { requested, last: end.checked_sub(1) });
                }
                match edge {
                    Edge::Inclusive => requested,
                    Edge::Exclusive => requested + 1,
                }
            }
            Start::AppendTime(time, Edge::Inclusive) => {
                return Ok(Cursor { isolation, ..self.cursor_since(time) });
            }
            Start::AppendTime(time, Edge::Exclusive) => match time.milliseconds().checked_add(1) {
                Some(after) => {
                    let after = UnixTime::from_milliseconds(after);
                    return Ok(Cursor { isolation, ..self.cursor_since(after) });
                }
                None => end,
            },
        };
        Ok(Cursor { isolation, ..Cursor::before(next.max(begin)) })
    }

    /// A cursor at the first record appended at `time` or later; at the end, if there is none.
    fn cursor_since(&self, time: UnixTime) -> Cursor {
        let end = self.committed_before();
        let index = self.segments.partition_point(|segment| segment.last_append_time < time);
        let Some(segment) = self.segments.get(index) else {
            return Cursor::before(end);
        };
        if segment.first_append_time >= time {
            return Cursor::before(segment.first_sequence_number.min(end));
        }
        match segment.first_batch_since(time) {
            Some((_position, header)) => Cursor::before(header.first_sequence_number.min(end)),
            None => Cursor { since: Some(time), ..Cursor::before(segment.first_sequence_number.min(end)) },
        }
    }

    pub(super) fn stats(&self, isolation: Isolation) -> LogStats {
        let begin_sequence_number = self.begin_sequence_number();
        let end = self.readable_before(isolation);
        LogStats {
            begin_sequence_number,
            last_sequence_number: end.checked_sub(1),
            last_append_time: self.committed().append_time,
            bytes: self.bytes,
            is_empty: begin_sequence_number == end,
        }
    }

    /// Whether the limits don't allow the oldest segment any more.
    #[inline]
    pub(super) fn has_excess(&self, now: UnixTime) -> bool {
        let LogLimits { bytes, when_full, .. } = self.limits;
        let too_many = when_full == WhenFull::Retention && self.bytes > bytes.bytes();
        too_many || self.oldest_is_too_old(now) || self.oldest_is_deleted()
    }

    /// Whether all records of the oldest segment were deleted.
    #[inline]
    pub(super) fn oldest_is_deleted(&self) -> bool {
        self.deleted_before > 0
            && !self.segments.is_empty()
            && self.next_number_after(0) <= self.deleted_before
    }

    /// Whether the last record of the oldest segment is older than retention by time allows.
    #[inline]
    pub(super) fn oldest_is_too_old(&self, now: UnixTime) -> bool {
        self.limits.retention.is_some_and(|retention| {
            self.segments
                .front()
                .is_some_and(|oldest| oldest.last_append_time < now.saturating_sub(retention))
        })
    }
}
