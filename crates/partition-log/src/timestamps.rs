//! Greatest timestamps of segments, by which a search for a timestamp leaves segments out.

use super::partition_log::PartitionLog;
use crate::UnixTime;
use std::ops::Range;

/// The readable records of one segment, and a bound of their timestamps.
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
    /// Returns the segments with readable records, oldest first. Reads nothing from disk.
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
