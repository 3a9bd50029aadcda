//! A run of consecutive batches in one block, with a sparse index.

use super::batch::BatchHeader;
use super::block::BlockWriter;
use crate::unix_time::UnixTime;

/// One block of batches. The last segment of a log is being written; the others are only read.
pub(super) struct Segment {
    pub(super) writer: BlockWriter,
    /// The number of the first record.
    pub(super) first_sequence_number: u64,
    /// The append time of the last batch.
    pub(super) last_append_time: UnixTime,
    index: Vec<IndexEntry>,
}

/// Where a batch begins, noted for about one batch in every [`INDEX_INTERVAL`] bytes.
#[derive(Clone, Copy, Debug)]
struct IndexEntry {
    first_sequence_number: u64,
    append_time: UnixTime,
    position: usize,
}

/// Index space of a dropped segment, to be used again.
#[derive(Default)]
pub(super) struct SpareIndex {
    entries: Vec<IndexEntry>,
}

impl Segment {
    /// A segment over `writer`, which holds no batch, or one that is not yet published.
    pub(super) fn new(
        writer: BlockWriter,
        first_sequence_number: u64,
        spare: &mut SpareIndex,
    ) -> Self {
        let mut index = std::mem::take(&mut spare.entries);
        index.clear();
        Self {
            writer,
            first_sequence_number,
            last_append_time: UnixTime::MIN,
            index,
        }
    }

    /// Publishes the batch that was written at the end.
    pub(super) fn publish_batch(&mut self, first_sequence_number: u64, append_time: UnixTime) {
        let position = self.writer.published_length();
        self.writer.publish();
        self.last_append_time = append_time;
        let next_indexed = self
            .index
            .last()
            .map_or(0, |entry| entry.position + INDEX_INTERVAL);
        if position >= next_indexed {
            self.index.push(IndexEntry {
                first_sequence_number,
                append_time,
                position,
            });
        }
    }

    /// Bytes of batches.
    pub(super) fn length(&self) -> usize {
        self.writer.published_length()
    }

    /// Gives the index space away when the segment is dropped.
    pub(super) fn take_index(&mut self) -> SpareIndex {
        SpareIndex {
            entries: std::mem::take(&mut self.index),
        }
    }

    /// The position and header of the batch that holds `sequence_number`, which is in this segment.
    pub(super) fn batch_of(&self, sequence_number: u64) -> Option<(usize, BatchHeader)> {
        let entries = self
            .index
            .partition_point(|entry| entry.first_sequence_number <= sequence_number);
        self.find_from(entries, |header| {
            header.next_sequence_number() > sequence_number
        })
    }

    /// The position and header of the first batch appended at `time` or later.
    pub(super) fn first_batch_since(&self, time: UnixTime) -> Option<(usize, BatchHeader)> {
        let entries = self.index.partition_point(|entry| entry.append_time < time);
        self.find_from(entries, |header| header.append_time >= time)
    }

    /// The first batch that is `wanted`, looking from the last of the first `entries` index entries on.
    fn find_from(
        &self,
        entries: usize,
        wanted: impl Fn(&BatchHeader) -> bool,
    ) -> Option<(usize, BatchHeader)> {
        let published = self.writer.published();
        let mut position = match entries.checked_sub(1) {
            Some(last) => self.index[last].position,
            None => 0,
        };
        loop {
            let header = BatchHeader::read(published.get(position..)?).ok()?;
            if wanted(&header) {
                return Some((position, header));
            }
            position += header.length as usize;
        }
    }
}

/// A search passes over the headers of at most this many bytes of batches.
const INDEX_INTERVAL: usize = 16 * 1024;
