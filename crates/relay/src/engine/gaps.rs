//! Gaps in the numbers of a partition: events that the source no longer has, and a source that counts from 0 again.
//!
//! A hub numbers the events of a partition without a hole, so the number of each batch's first event follows from what was
//! read before it. Two things break that:
//!
//! ```text
//!   expected 120, first 900     retention took 780 events before they were read           missed
//!   expected 120, first 3       the hub was deleted and created again, or lost its end    restarted
//!   "offset 119 is invalid"     the same, noticed by the service when the link is made    restarted
//!   another log id              the same, noticed before anything is read                 restarted
//! ```
//!
//! Numbers of which the source says that no event ever had them, such as those of transaction markers, are no gap, and are not
//! counted as events.
//!
//! Both are reported and counted, and [`MissedEvents`] decides whether the relay goes on. Missing events never count as
//! completed. A partition that was restarted is read from its oldest event, since a checkpoint of the old numbers says
//! nothing about the new ones.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

use connect::checkpoint::Checkpoint;
use connect::event::EventBatch;
use connect::source::{SourceError, StartPosition};

use super::partition::Completes;
use super::{Relay, RelayError};
use crate::metrics::Closing;
use crate::options::MissedEvents;

/// What is known of the numbers of one partition.
#[derive(Debug, Default)]
pub(super) struct Continuity {
    /// The number that the next event has if nothing is missing; unknown before the first one.
    expected: Option<i64>,
    /// The first event that was ever taken up. Without a checkpoint the partition starts there again.
    first: Option<i64>,
    opened: Opened,
    /// Whether anything was taken up since the partition was opened.
    is_moving: bool,
    /// Whether the service refused the offset of the checkpoint, so that its number is tried instead.
    offset_refused: bool,
    /// Whether the stored checkpoint is of numbers that no longer hold.
    restarted: bool,
    /// Missing numbers up to this one have been counted.
    counted_through: Option<i64>,
    /// Missing numbers that the watermark has not passed yet, in order.
    ahead: VecDeque<Range<i64>>,
}

/// What a partition was opened by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Opened {
    /// What the options say.
    #[default]
    StartPosition,
    /// The first event that was taken up.
    FirstNumber,
    /// The offset of its checkpoint.
    Offset {
        /// Whether the checkpoint has a sequence number as well.
        has_number: bool,
    },
    /// The sequence number of its checkpoint.
    Number,
}

/// How a batch continues its partition.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// With the next event.
    Next,
    /// With a later one.
    Missed,
    /// With an earlier one.
    Back { expected: i64 },
}

impl Continuity {
    /// Where the partition starts, with this checkpoint or without one. `moved` says whether the watermark has moved since
    /// the source restarted, so that the checkpoint is of the new numbers.
    pub(super) fn open(
        &mut self,
        checkpoint: Option<&Checkpoint>,
        start: &StartPosition,
        moved: bool,
    ) -> StartPosition {
        self.is_moving = false;
        self.ahead.clear();
        self.restarted &= !moved;
        let offset_refused = std::mem::take(&mut self.offset_refused);
        let number = checkpoint.and_then(|checkpoint| checkpoint.sequence_number);
        let after = checkpoint.filter(|_| !self.restarted).and_then(StartPosition::after_checkpoint);
        let (opened, position) = match (after, number) {
            (Some(_), Some(number)) if offset_refused => {
                (Opened::Number, StartPosition::AfterSequenceNumber(number))
            }
            (Some(after @ StartPosition::AfterOffset(_)), number) => {
                let has_number = number.is_some();
                (Opened::Offset { has_number }, after)
            }
            (Some(after), _) => (Opened::Number, after),
            (None, _) => {
                self.expected = match start {
                    StartPosition::AtSequenceNumber(number) if !self.restarted => {
                        self.first.or(Some(*number))
                    }
                    _ => self.first,
                };
                self.opened = Opened::StartPosition;
                return match self.first {
                    // Whatever the options say: what was begun is carried to its end.
                    Some(first) => {
                        self.opened = Opened::FirstNumber;
                        StartPosition::AtSequenceNumber(first)
                    }
                    None if self.restarted => StartPosition::Earliest,
                    None => start.clone(),
                };
            }
        };
        self.opened = opened;
        self.expected = number.map(|number| number.saturating_add(1));
        position
    }

    /// Whether the stored checkpoint says nothing about what comes.
    pub(super) const fn is_restarted(&self) -> bool {
        self.restarted
    }

    /// Looks at the numbers of the next batch. Hot path.
    #[inline]
    fn step(&mut self, batch: &EventBatch) -> Step {
        let (Some(first), Some(last)) = (batch.first_sequence_number(), batch.last_sequence_number()) else {
            return Step::Next;
        };
        let expected = self.expected.unwrap_or(first);
        if first < expected {
            return Step::Back { expected };
        }
        self.is_moving = true;
        self.first.get_or_insert(first);
        let is_whole = last.wrapping_sub(first) == batch.len() as i64 - 1;
        if first == expected && is_whole {
            self.expected = Some(last.saturating_add(1));
            return Step::Next;
        }
        Step::Missed
    }

    /// Notes which numbers before and within a batch have no event. Returns the first gap of missing events that had not been
    /// noticed before, and how many are missing that have not been counted yet.
    #[cold]
    fn miss(&mut self, batch: &EventBatch) -> (Option<Range<i64>>, u64) {
        let (mut gap, mut missing) = (None, 0);
        let mut vacant = batch.vacant_numbers().iter();
        let mut hole = vacant.next();
        for event in batch.events() {
            let number = event.sequence_number;
            let mut expected = self.expected.unwrap_or(number);
            while expected < number {
                // What is before the next numbers that never had an event is missing.
                while let Some(passed) = hole.filter(|hole| hole.end <= expected) {
                    debug_assert!(passed.start <= number, "they are in order");
                    hole = vacant.next();
                }
                let end = match hole {
                    Some(hole) if hole.start <= expected => {
                        let end = hole.end.min(number);
                        self.ahead.push_back(expected..end);
                        expected = end;
                        continue;
                    }
                    Some(hole) => hole.start.min(number),
                    None => number,
                };
                self.ahead.push_back(expected..end);
                let counted = self.counted_through.map_or(expected, |through| through + 1);
                let uncounted = end - expected.max(counted);
                if uncounted > 0 {
                    gap.get_or_insert(expected..end);
                    missing += uncounted.cast_unsigned();
                    self.counted_through = Some(end - 1);
                }
                expected = end;
            }
            self.expected = Some(number.saturating_add(1));
        }
        (gap, missing)
    }

    /// The watermark moved from one number to another: how many numbers between them, the last one included, are missing.
    pub(super) fn pass(&mut self, from: i64, to: i64) -> i64 {
        let mut missing = 0;
        while let Some(gap) = self.ahead.front().filter(|gap| gap.start <= to) {
            missing += (gap.end.min(to + 1) - gap.start.max(from + 1)).max(0);
            if gap.end > to {
                break;
            }
            self.ahead.pop_front();
        }
        missing
    }
}

impl Relay {
    /// Whether a batch that is taken up may be sent: not if it shows that the source counts from 0 again, and not if
    /// events are missing and the relay is to stop then. Hot path.
    #[inline]
    pub(super) fn may_send(&mut self, index: usize, batch: &EventBatch) -> bool {
        let partition = &mut self.partitions[index];
        if partition.completion == Completes::BySettlement || !self.contiguous {
            return true;
        }
        match partition.continuity.step(batch) {
            Step::Next => true,
            Step::Missed => self.miss(index, batch),
            Step::Back { expected } => {
                let first = batch.first_sequence_number().unwrap_or_default();
                self.restart(index, &Restart::Back { expected, first });
                false
            }
        }
    }

    /// Events are missing before or within a batch; says whether the relay goes on.
    #[cold]
    fn miss(&mut self, index: usize, batch: &EventBatch) -> bool {
        let partition = &mut self.partitions[index];
        let id = partition.id;
        let (gap, missing) = partition.continuity.miss(batch);
        self.metrics.missed_events += missing;
        let Some(Range { start: expected, end: first }) = gap else {
            return true;
        };
        tracing::warn!(
            partition = id.0,
            expected,
            first,
            missing,
            "events are missing: the source had removed them before they were read"
        );
        if self.options.missed_events == MissedEvents::Report {
            return true;
        }
        self.fail(RelayError::MissedEvents { partition: id, expected, first, missing });
        false
    }

    /// A partition ended. Says whether that was because the service does not know the position after its checkpoint, which
    /// is dealt with then.
    pub(super) fn position_refused(&mut self, index: usize, error: &SourceError) -> bool {
        let partition = &mut self.partitions[index];
        let continuity = &mut partition.continuity;
        if !error.is_position_refused() || continuity.is_moving || !partition.state.takes_batches() {
            return false;
        }
        match continuity.opened {
            Opened::StartPosition => false,
            // An offset may be unknown for other reasons; a number that lies beyond the end says it all.
            Opened::Offset { has_number: true } => {
                continuity.offset_refused = true;
                self.stop_partition(index, Closing::Service, error);
                true
            }
            Opened::FirstNumber | Opened::Offset { has_number: false } | Opened::Number => {
                self.restart(index, &Restart::Refused(error));
                true
            }
        }
    }

    /// Whether a partition may be opened that has this checkpoint: not if the source is another log than the one that its numbers are of,
    /// and the relay is to stop then. Otherwise the partition begins at the oldest event of the new one.
    pub(super) fn follow_log(&mut self, index: usize, checkpoint: Option<&Checkpoint>) -> bool {
        let Some(found) = self.source.log_id() else {
            return true;
        };
        let partition = &mut self.partitions[index];
        let known = partition.log_id.take().or_else(|| checkpoint?.log_id.clone());
        partition.log_id = Some(found.to_owned());
        let Some(expected) = known.filter(|known| *known != found) else {
            return true;
        };
        let found = found.to_owned();
        if !self.note_restart(index, &Restart::OtherLog { expected, found }) {
            return false;
        }
        self.renumber(index);
        true
    }

    /// The numbers of a partition have begun again: it is read from its oldest event.
    #[cold]
    fn restart(&mut self, index: usize, cause: &Restart<'_>) {
        if self.note_restart(index, cause) {
            self.stop_partition(index, Closing::Service, &"reading restarts at the oldest event");
            self.renumber(index);
        }
    }

    /// Reports that the numbers of a partition have begun again. Returns whether the relay goes on.
    #[cold]
    fn note_restart(&mut self, index: usize, cause: &Restart<'_>) -> bool {
        self.metrics.restarted_partitions += 1;
        let partition = &self.partitions[index];
        let id = partition.id;
        tracing::warn!(
            partition = id.0,
            %cause,
            "the source has restarted the numbering of the partition: it was recreated, or lost its newest \
             events; the checkpoint is no longer valid"
        );
        if self.options.missed_events == MissedEvents::Stop {
            self.fail(RelayError::Restarted { partition: id, cause: cause.to_string() });
            return false;
        }
        true
    }

    /// Forgets everything that is about the numbers that a partition had.
    #[cold]
    fn renumber(&mut self, index: usize) {
        self.forget_unstored(index);
        // What is accepted of the old numbers from now on says nothing of the new ones.
        self.orphans.forget(index);
        self.forget_letters(index);
        let partition = &mut self.partitions[index];
        partition.renumber();
        partition.continuity = Continuity { restarted: true, ..Continuity::default() };
    }
}

/// What shows that a source has restarted.
enum Restart<'a> {
    /// An event came again, or another one with its number.
    Back { expected: i64, first: i64 },
    /// There is no such position.
    Refused(&'a SourceError),
    /// The log has another id.
    OtherLog { expected: String, found: String },
}

impl fmt::Display for Restart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Back { expected, first } => {
                write!(f, "event {expected} was expected, {first} arrived")
            }
            Self::Refused(error) => error.fmt(f),
            Self::OtherLog { expected, found } => {
                write!(f, "its log has the id {found}, that before had {expected}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use connect::checkpoint::ConsumerGroup;
    use connect::event::PartitionId;

    use super::*;

    fn batch(numbers: &[i64]) -> EventBatch {
        let mut batch = EventBatch::with_capacity(PartitionId(0), numbers.len());
        for &number in numbers {
            batch.push_message(&Bytes::new(), number);
        }
        batch
    }

    fn checkpoint(number: Option<i64>, offset: Option<&str>) -> Checkpoint {
        Checkpoint {
            group: ConsumerGroup::new("", "", ""),
            partition: PartitionId(0),
            sequence_number: number,
            offset: offset.map(str::to_owned),
            log_id: None,
            etag: None,
        }
    }

    #[test]
    fn gaps_before_and_within_a_batch_are_counted_once() {
        let mut continuity = Continuity::default();
        let stored = checkpoint(Some(9), None);
        continuity.open(Some(&stored), &StartPosition::Latest, false);
        let next = batch(&[15, 16, 20]);
        assert_eq!(continuity.step(&next), Step::Missed);
        assert_eq!(continuity.miss(&next), (Some(10..15), 5 + 3));
        assert_eq!(continuity.step(&batch(&[21, 22])), Step::Next);
        assert_eq!(continuity.pass(9, 16), 5);
        assert_eq!(continuity.pass(16, 22), 3);
        // The same again, because nothing was written in between; by now one more is gone.
        continuity.open(Some(&stored), &StartPosition::Latest, false);
        let next = batch(&[22, 23]);
        assert_eq!(continuity.step(&next), Step::Missed);
        assert_eq!(continuity.miss(&next), (Some(10..22), 2));
    }

    #[test]
    fn numbers_that_no_event_ever_had_are_neither_missing_nor_completed() {
        let mut continuity = Continuity::default();
        continuity.open(Some(&checkpoint(Some(9), None)), &StartPosition::Latest, false);
        let mut next = EventBatch::with_capacity(PartitionId(0), 4);
        next.skip(5..11);
        next.skip(12..14);
        for number in [14, 15, 18] {
            next.push_message(&Bytes::new(), number);
        }
        next.skip(16..18);
        assert_eq!(continuity.step(&next), Step::Missed);
        assert_eq!(continuity.miss(&next), (Some(11..12), 1));
        assert_eq!(continuity.step(&batch(&[19])), Step::Next);
        assert_eq!(continuity.pass(9, 14), 4);
        assert_eq!(continuity.pass(14, 19), 2);
    }

    #[test]
    fn an_offset_that_is_refused_is_followed_by_the_number() {
        let mut continuity = Continuity::default();
        let stored = checkpoint(Some(9), Some("900"));
        let start = StartPosition::Earliest;
        let by_offset = StartPosition::AfterOffset("900".to_owned());
        assert_eq!(continuity.open(Some(&stored), &start, false), by_offset);
        continuity.offset_refused = true;
        let by_number = StartPosition::AfterSequenceNumber(9);
        assert_eq!(continuity.open(Some(&stored), &start, false), by_number);
        assert_eq!(continuity.open(Some(&stored), &start, false), by_offset);
    }

    #[test]
    fn what_was_begun_without_a_checkpoint_begins_at_the_same_event_again() {
        let mut continuity = Continuity::default();
        let latest = StartPosition::Latest;
        assert_eq!(continuity.open(None, &latest, false), latest);
        assert_eq!(continuity.step(&batch(&[70, 71])), Step::Next);
        let begun = StartPosition::AtSequenceNumber(70);
        assert_eq!(continuity.open(None, &latest, false), begun);
        assert_eq!(continuity.step(&batch(&[70])), Step::Next);
    }

    #[test]
    fn a_number_that_was_had_before_is_a_restart() {
        let mut continuity = Continuity::default();
        let stored = checkpoint(Some(9), Some("9"));
        continuity.open(Some(&stored), &StartPosition::Latest, false);
        assert_eq!(continuity.step(&batch(&[4])), Step::Back { expected: 10 });
    }
}
