//! Which segments may have a record of a timestamp: what a search for one need not look at.

use super::partition_log::PartitionLog;
use crate::UnixTime;
use std::ops::Range;

/// Readable records of one segment, and how late they are at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentTimestamps {
    /// Sequence numbers of the records.
    pub sequence_numbers: Range<u64>,
    /// None of them has a greater [timestamp](super::Batch::latest_timestamp). It is that of one of them, unless records at the end
    /// can't be read yet, or at the beginning were deleted, or a version wrote the segment that did not store timestamps. Such a
    /// segment, until it is read, has the time of its last append.
    pub latest: UnixTime,
}

impl PartitionLog {
    /// The segments with readable records, oldest first. Nothing is read for it.
    #[must_use]
    pub fn timestamps(&self) -> Vec<SegmentTimestamps> {
        let state = self.lock();
        let (begin, end) = (state.begin_sequence_number(), state.committed_before());
        let segments = state.segments.iter().enumerate();
        segments
            .map(|(index, segment)| SegmentTimestamps {
                sequence_numbers: segment.first_sequence_number.max(begin)
                    ..state.next_number_after(index).min(end),
                latest: segment.latest_timestamp,
            })
            .filter(|segment| !segment.sequence_numbers.is_empty())
            .collect()
    }
}
