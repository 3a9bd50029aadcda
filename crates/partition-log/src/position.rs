//! Where reading begins and where it stands.

use crate::UnixTime;

/// Where a reader wants to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the oldest record that is kept.
    Earliest,
    /// At the end: after the last record, or at it.
    Latest(Edge),
    /// At or after a sequence number. An offset is the same number, written as text.
    SequenceNumber(u64, Edge),
    /// At the first record appended at or after an instant. If there is none yet, at the end.
    AppendTime(UnixTime, Edge),
}

/// Whether the named place itself belongs to what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// It does: `>=` in a filter.
    Inclusive,
    /// It does not: `>` in a filter.
    Exclusive,
}

/// A start that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PositionError {
    /// The number has not been given to any record yet.
    #[error("sequence number {requested} is beyond the end of the log")]
    BeyondEnd {
        /// What was asked for.
        requested: u64,
        /// The last number there is; `None` if nothing was ever appended.
        last: Option<u64>,
    },
}

/// Where a reader stands in a log: before the record that it reads next.
///
/// A cursor belongs to the log that made it. It holds nothing in memory: when retention overtakes it, the next read
/// goes on at the oldest record and tells how many were skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub(super) next_sequence_number: u64,
    /// Where that record is, if the reader has just been there; spares the search.
    pub(super) place: Option<Place>,
    /// Records before the first batch of this time are passed over, once the segment that has both is in memory.
    pub(super) since: Option<UnixTime>,
    pub(super) isolation: Isolation,
}

/// How far a reader reads while transactions are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Up to the end, whatever becomes of the transactions.
    Uncommitted,
    /// Up to the stable end: what it reads is decided, though it may have been aborted.
    Committed,
}

/// The place of a record in a log's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Segments of a log are counted from its first on, dropped ones included.
    pub(super) segment: u64,
    /// Where the record's batch begins in the segment.
    pub(super) batch: usize,
    /// Where the record begins in the segment, unless it is the batch's first one.
    pub(super) record: Option<usize>,
}

impl Cursor {
    /// A cursor before the record of this number, found by searching at the first read.
    pub(super) fn before(next_sequence_number: u64) -> Self {
        Self { next_sequence_number, place: None, since: None, isolation: Isolation::Uncommitted }
    }

    /// The same place, for a reader of committed records only.
    #[must_use]
    pub fn committed(self) -> Self {
        Self { isolation: Isolation::Committed, ..self }
    }

    /// The number of the record that is read next, if retention leaves it. For a cursor at an append time it may be
    /// an earlier one, until the first read: the segment that knows may not be in memory.
    #[must_use]
    pub fn next_sequence_number(&self) -> u64 {
        self.next_sequence_number
    }
}
