//! Dropping the oldest segments, and counting the records that go with them.

use super::limits::WhenFull;
use super::log_budget::LogBudget;
use super::partition_log::PartitionLog;
use super::segment::Segment;
use super::state::State;
use crate::UnixTime;
use std::sync::Arc;

/// Records that retention has dropped since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DroppedRecords {
    /// All of them.
    pub records: u64,
    /// Those that no reader had [got](PartitionLog::note_read).
    pub unread: u64,
}

impl PartitionLog {
    /// Charges the log to a budget that it shares with others, for all that it holds and will hold. A log has one at most.
    pub fn join(&self, budget: &Arc<LogBudget>) {
        let mut state = self.lock();
        debug_assert!(state.budget.is_none(), "a log has one budget");
        budget.charge(state.bytes);
        state.budget = Some(Arc::clone(budget));
    }

    /// Notes that readers got everything before this number.
    #[inline]
    pub fn note_read(&self, before: u64) {
        self.read_before.fetch_max(before, std::sync::atomic::Ordering::Relaxed);
    }

    /// Returns the records that retention has dropped.
    #[must_use]
    pub fn dropped(&self) -> DroppedRecords {
        self.lock().dropped
    }

    /// Returns the append time of the last record of the oldest segment, if the segment may be dropped to make room.
    #[must_use]
    pub fn droppable_since(&self) -> Option<UnixTime> {
        let state = self.lock();
        let oldest = state.segments.front().filter(|oldest| oldest.length() > 0)?;
        (state.limits.when_full == WhenFull::Retention).then_some(oldest.last_append_time)
    }

    /// Drops the oldest segment to make room, and returns its bytes: 0 if it can't go yet, because it is on its way to the disk.
    pub fn drop_oldest_segment(&self) -> u64 {
        let guard = self.lock();
        let before = guard.bytes;
        let first = guard.dropped_segments;
        let is_droppable = guard.limits.when_full == WhenFull::Retention;
        self.drop_while(guard, |state| {
            is_droppable && !state.segments.is_empty() && state.dropped_segments == first
        });
        before.saturating_sub(self.lock().bytes)
    }

    /// Moves the oldest segments that the limits don't allow to `dropped`, but not the one being written. While the budget is
    /// nearly used up, the limits allow none.
    #[inline]
    pub(super) fn drop_excess(&self, state: &mut State, now: UnixTime, dropped: &mut Vec<Segment>) {
        while state.segments.len() > 1
            && (state.has_excess(now) || state.is_tight())
            && self.may_drop_oldest(state)
        {
            dropped.extend(state.drop_oldest(self.read_before()));
        }
    }

    pub(super) fn read_before(&self) -> u64 {
        self.read_before.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl State {
    /// Whether the log drops segments to make room, and its budget is nearly used up.
    #[inline]
    fn is_tight(&self) -> bool {
        self.limits.when_full == WhenFull::Retention
            && self.budget.as_ref().is_some_and(|budget| budget.is_tight())
    }

    /// Drops the oldest segment. Readers have got everything before `read_before`.
    pub(super) fn drop_oldest(&mut self, read_before: u64) -> Option<Segment> {
        let mut oldest = self.segments.pop_front()?;
        self.dropped_segments += 1;
        let end = self.segments.front().map_or(self.next_sequence_number, |next| next.first_sequence_number);
        // What was deleted before was not dropped by retention.
        let first = oldest.first_sequence_number.max(self.deleted_before);
        self.dropped.records += end.saturating_sub(first);
        self.dropped.unread += end.saturating_sub(first.max(read_before));
        let length = oldest.length() as u64;
        self.bytes -= length;
        if let Some(budget) = &self.budget {
            budget.release(length);
        }
        self.spare_index = oldest.take_index();
        let begin = self.begin_sequence_number();
        if let Some(transactions) = &mut self.transactions {
            transactions.forget_before(begin);
        }
        if let Some(durable) = &mut self.durable {
            durable.removals.push(oldest.first_sequence_number);
        }
        Some(oldest)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.release(self.bytes);
        }
    }
}
