//! A log as the journal of something else, which says itself what is not needed any more.
//!
//! Retention does not fit there: what an old record tells may hold for years, and what a young one tells be over at once. So
//! the owner of a journal looks at its segments, writes again what still holds, and drops the oldest ones.

use super::batch::{Batches, RecordParts, split_record};
use super::disk::{OpenError, Unavailable, salvage};
use super::partition_log::PartitionLog;
use super::segment::{Segment, Storage};
use std::ops::Range;

/// A segment that nothing will be appended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompleteSegment {
    /// The number after that of its last record.
    pub next_sequence_number: u64,
    /// Bytes of its batches.
    pub bytes: u64,
}

/// What there was behind the damage in a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BeyondDamage {
    /// The numbers of the records that are lost.
    pub lost: Vec<Range<u64>>,
    /// The number after that of the segment's last record.
    pub next_sequence_number: u64,
}

impl PartitionLog {
    /// Why nothing can be appended at present, if it can't.
    #[must_use]
    pub fn unavailable(&self) -> Option<Unavailable> {
        self.lock().unavailable()
    }

    /// The segment that the record of this number is in, or would be in, if nothing will be appended to it.
    pub fn complete_segment(&self, sequence_number: u64) -> Option<CompleteSegment> {
        let state = self.lock();
        let following =
            state.segments.partition_point(|segment| segment.first_sequence_number <= sequence_number);
        let index = following.checked_sub(1)?;
        let segment = state.segments.get(index).filter(|segment| segment.sealed)?;
        Some(CompleteSegment {
            next_sequence_number: state.next_number_after(index),
            bytes: segment.length() as u64,
        })
    }

    /// Gives `each` the sound records behind the damage in the segment that `sequence_number` belongs to, with their
    /// numbers. Readers of the log don't get them, since they would miss what is in between; a journal is better off with
    /// them.
    ///
    /// # Errors
    /// The segment's file can't be read.
    pub fn read_beyond_damage(
        &self,
        sequence_number: u64,
        mut each: impl FnMut(u64, RecordParts<'_>),
    ) -> Result<Option<BeyondDamage>, OpenError> {
        let Some((bytes, from, end)) = self.damaged_segment(sequence_number)? else {
            return Ok(None);
        };
        let mut beyond = BeyondDamage { lost: Vec::new(), next_sequence_number: end };
        let mut next = sequence_number.max(from.expected);
        for stretch in salvage::stretches(&bytes, from, end) {
            beyond.lost.push(next..stretch.first_sequence_number);
            let mut number = stretch.first_sequence_number;
            for (header, batch) in Batches::of(&bytes[stretch.bytes.clone()]) {
                let mut records = &batch[header.records_start()..];
                while let Some((record, further)) = split_record(records) {
                    each(number, record);
                    number += 1;
                    records = further;
                }
            }
            next = stretch.next_sequence_number;
        }
        beyond.lost.push(next..end);
        beyond.lost.retain(|lost| !lost.is_empty());
        Ok(Some(beyond))
    }

    /// The number before which everything is on disk as the policy has it, by whole segments.
    pub fn on_disk_before(&self) -> u64 {
        let state = self.lock();
        let is_under_way = |segment: &&Segment| segment.storage == Storage::Unfinished;
        let under_way = state.segments.iter().rev().take_while(is_under_way);
        under_way.last().map_or(state.next_sequence_number, |first| first.first_sequence_number)
    }

    /// Bytes of the batches in those segments that begin with this record or one behind it.
    pub fn bytes_since(&self, sequence_number: u64) -> u64 {
        let state = self.lock();
        let since = state.segments.iter().filter(|it| it.first_sequence_number >= sequence_number);
        since.map(|segment| segment.length() as u64).sum()
    }

    /// Ends the segment that is being written, so that it will be on disk completely although nothing follows.
    pub fn complete_last(&self) {
        self.lock().seal_last();
    }

    /// Drops the oldest segments, as far as all their records come before this one and they are on disk completely. The
    /// last segment stays.
    pub fn drop_before(&self, sequence_number: u64) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut dropped = Vec::new();
        while state.segments.len() > 1
            && state.next_number_after(0) <= sequence_number
            && state.segments[0].storage != Storage::Unfinished
        {
            dropped.extend(state.drop_oldest(u64::MAX));
        }
        if let Some(durable) = &mut state.durable
            && !dropped.is_empty()
        {
            durable.enqueue();
        }
        drop(guard);
        // Giving memory back can take long.
        drop(dropped);
    }

    /// Lets go of the memory of all segments that are on disk: nobody reads a journal while it is written.
    pub fn release_memory(&self) {
        let mut guard = self.lock();
        let released: Vec<_> = guard.segments.iter_mut().filter_map(Segment::evict).collect();
        drop(guard);
        drop(released);
    }
}
