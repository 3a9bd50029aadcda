//! A run of consecutive batches in one block, with a sparse index.

use super::batch::{BatchHeader, Batches};
use super::block::{BlockSlice, BlockWriter};
use super::disk::sidecar::{Assurance, Sidecar};
use super::disk::{Damage, ResidentShare};
use super::knowledge::Knowledge;
use crate::UnixTime;
use std::sync::Arc;

/// One block of batches. The last segment of a log is usually being written; the others are only read.
pub(super) struct Segment {
    content: Content,
    /// The number of the first record.
    pub(super) first_sequence_number: u64,
    /// The append time of the first batch.
    pub(super) first_append_time: UnixTime,
    /// The append time of the last batch.
    pub(super) last_append_time: UnixTime,
    /// No record has a greater timestamp. See [`Batch::latest_timestamp`](super::Batch::latest_timestamp).
    pub(super) latest_timestamp: UnixTime,
    /// Bytes of batches.
    length: usize,
    /// How many of them readers may see, if the log is durable. Of a log in memory they see all.
    pub(super) readable: Option<usize>,
    /// Nothing will be appended to it any more.
    pub(super) sealed: bool,
    /// How far it has got onto the disk, if the log has one.
    pub(super) storage: Storage,
    /// What was known when it was sealed, until its sidecar needs no change any longer.
    pub(super) known: Knowledge,
    index: Vec<IndexEntry>,
    /// Its part of the memory that is kept of what is on disk.
    share: Option<Arc<ResidentShare>>,
    /// From where on it can't be read, if it is known to be damaged.
    defect: Option<Box<Defect>>,
}

/// Where the batches are.
enum Content {
    /// In memory; of a damaged segment those before the damage.
    Resident(BlockWriter),
    /// In the segment's file only.
    OnDisk,
    /// In the file, and about to be read.
    Loading,
}

/// Where the sound part of a damaged segment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Defect {
    /// What readers get who come to it.
    pub(super) damage: Damage,
    /// Bytes of the batches before it.
    pub(super) sound_length: usize,
    /// The number after that of the last record before it.
    pub(super) sound_until: u64,
}

/// Whether a segment can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Availability {
    Resident,
    OnDisk,
    Loading,
    Damaged(Damage),
}

/// How far a segment has got onto the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    /// Not completely, or the log has no disk.
    Unfinished,
    /// Handed to the operating system to the last byte, which is all that the policy asks for.
    Written,
    /// On the device to the last byte.
    Synced,
}

/// A segment that was read from its file and checked.
pub(super) struct LoadedSegment {
    /// The block with the batches, published.
    pub(super) writer: BlockWriter,
    /// That of the sound batches.
    pub(super) index: SegmentIndex,
    /// Greatest timestamp of the records.
    pub(super) latest_timestamp: UnixTime,
    pub(super) share: Arc<ResidentShare>,
    /// Where the sound batches end, if not all are.
    pub(super) defect: Option<Defect>,
}

/// Where a batch begins, noted for about one batch in every [`INDEX_INTERVAL`] bytes.
#[derive(Clone, Copy, Debug)]
struct IndexEntry {
    first_sequence_number: u64,
    append_time: UnixTime,
    position: usize,
}

/// The sparse index of a segment; for a new segment, space that a dropped one had.
#[derive(Default)]
pub(super) struct SegmentIndex {
    entries: Vec<IndexEntry>,
}

impl Segment {
    /// A segment over `writer`, which holds no batch, or one that is not yet published.
    pub(super) fn new(writer: BlockWriter, first_sequence_number: u64, spare: &mut SegmentIndex) -> Self {
        let mut index = std::mem::take(&mut spare.entries);
        index.clear();
        Self {
            content: Content::Resident(writer),
            first_sequence_number,
            first_append_time: UnixTime::MIN,
            last_append_time: UnixTime::MIN,
            latest_timestamp: UnixTime::MIN,
            length: 0,
            readable: None,
            sealed: false,
            storage: Storage::Unfinished,
            known: Knowledge::default(),
            index,
            share: None,
            defect: None,
        }
    }

    /// The segment on disk that `sidecar` describes.
    pub(super) fn on_disk(sidecar: &Sidecar, storage: Storage, defect: Option<Defect>) -> Self {
        Self {
            content: Content::OnDisk,
            first_sequence_number: sidecar.first_sequence_number,
            first_append_time: sidecar.first_append_time,
            last_append_time: sidecar.last_append_time,
            latest_timestamp: sidecar.latest_timestamp,
            length: sidecar.length as usize,
            readable: None,
            sealed: true,
            storage,
            known: Knowledge::default(),
            index: Vec::new(),
            share: None,
            defect: defect.map(Box::new),
        }
    }

    /// Returns its sidecar for when it is synced. Its records end before `next_sequence_number`.
    pub(super) fn sidecar(&self, next_sequence_number: u64) -> Sidecar {
        Sidecar {
            length: self.length as u64,
            first_sequence_number: self.first_sequence_number,
            next_sequence_number,
            first_append_time: self.first_append_time,
            last_append_time: self.last_append_time,
            latest_timestamp: self.latest_timestamp,
            assurance: Assurance::Synced,
            known: self.known.clone(),
        }
    }

    /// The block that is written to; `None` if the batches are not in memory.
    #[inline]
    pub(super) fn writer(&mut self) -> Option<&mut BlockWriter> {
        match &mut self.content {
            Content::Resident(writer) => Some(writer),
            Content::OnDisk | Content::Loading => None,
        }
    }

    /// Publishes the batch that was written at the end.
    #[inline]
    pub(super) fn publish_batch(
        &mut self,
        first_sequence_number: u64,
        append_time: UnixTime,
        latest_timestamp: UnixTime,
    ) {
        let Content::Resident(writer) = &mut self.content else {
            return;
        };
        let position = self.length;
        writer.publish();
        self.length = writer.published_length();
        self.last_append_time = append_time;
        self.latest_timestamp = self.latest_timestamp.max(latest_timestamp);
        if position == 0 {
            self.first_append_time = append_time;
        }
        let next_indexed = self.index.last().map_or(0, |entry| entry.position + INDEX_INTERVAL);
        if position >= next_indexed {
            self.index.push(IndexEntry { first_sequence_number, append_time, position });
        }
    }

    /// Whether it was the last batch, of `length` bytes, that left less than a quarter of the block.
    #[inline]
    pub(super) fn runs_low_since(&self, length: usize) -> bool {
        let Content::Resident(writer) = &self.content else {
            return false;
        };
        let (left, quarter) = (writer.remaining(), (self.length + writer.remaining()) / 4);
        left < quarter && left + length >= quarter
    }

    /// Bytes of batches.
    #[inline]
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Bytes of batches that can be read.
    #[inline]
    pub(super) fn sound_length(&self) -> usize {
        match &self.defect {
            None => self.length,
            Some(defect) => defect.sound_length,
        }
    }

    /// From where on it can't be read, if it is known to be damaged.
    #[inline]
    pub(super) fn defect(&self) -> Option<&Defect> {
        self.defect.as_deref()
    }

    /// Whether its record of this number can be read.
    pub(super) fn availability(&self, sequence_number: u64) -> Availability {
        match (&self.content, &self.defect) {
            (_, Some(defect)) if sequence_number >= defect.sound_until => {
                Availability::Damaged(defect.damage)
            }
            (Content::Resident(_), _) => Availability::Resident,
            (Content::OnDisk, _) => Availability::OnDisk,
            (Content::Loading, _) => Availability::Loading,
        }
    }

    /// Whether there is something in its file that loading it would bring into memory.
    pub(super) fn can_be_loaded(&self) -> bool {
        matches!(self.content, Content::OnDisk) && self.sound_length() > 0
    }

    /// What readers may see from `position` on; `None` if it is not in memory.
    #[inline]
    pub(super) fn readable_from(&self, position: usize) -> Option<BlockSlice> {
        match &self.content {
            Content::Resident(writer) => {
                let end = self.readable.unwrap_or_else(|| self.sound_length());
                Some(writer.slice(position..end))
            }
            Content::OnDisk | Content::Loading => None,
        }
    }

    /// All batches; `None` if they are not in memory.
    pub(super) fn batches(&self) -> Option<BlockSlice> {
        match &self.content {
            Content::Resident(writer) => Some(writer.slice(0..self.sound_length())),
            Content::OnDisk | Content::Loading => None,
        }
    }

    /// It is about to be loaded.
    pub(super) fn start_loading(&mut self) {
        self.content = Content::Loading;
    }

    /// It was loaded, unless that failed.
    pub(super) fn finish_loading(&mut self, loaded: Result<LoadedSegment, Damage>) {
        match loaded {
            Ok(loaded) => {
                self.index = loaded.index.entries;
                self.latest_timestamp = loaded.latest_timestamp;
                self.content = Content::Resident(loaded.writer);
                self.share = Some(loaded.share);
                self.defect = loaded.defect.map(Box::new);
            }
            Err(damage) => {
                self.content = Content::OnDisk;
                self.defect = Some(Box::new(Defect {
                    damage,
                    sound_length: 0,
                    sound_until: self.first_sequence_number,
                }));
            }
        }
    }

    /// Counts it among what is on disk and in memory.
    pub(super) fn set_share(&mut self, share: Arc<ResidentShare>) {
        self.share = Some(share);
    }

    /// The size of its block; 0 if it is not in memory.
    pub(super) fn capacity(&self) -> usize {
        match &self.content {
            Content::Resident(writer) => writer.published_length() + writer.remaining(),
            Content::OnDisk | Content::Loading => 0,
        }
    }

    /// Takes the memory of a segment that is on disk as well, to be dropped.
    pub(super) fn evict(&mut self) -> Option<(BlockWriter, Option<Arc<ResidentShare>>)> {
        if self.storage == Storage::Unfinished || !matches!(self.content, Content::Resident(_)) {
            return None;
        }
        self.index = Vec::new();
        match std::mem::replace(&mut self.content, Content::OnDisk) {
            Content::Resident(writer) => Some((writer, self.share.take())),
            Content::OnDisk | Content::Loading => None,
        }
    }

    /// It may be tried again to load it: what failed was the reading, not what was read.
    pub(super) fn forget_damage(&mut self) {
        self.defect = None;
    }

    /// Gives the index space away when the segment is dropped.
    pub(super) fn take_index(&mut self) -> SegmentIndex {
        SegmentIndex { entries: std::mem::take(&mut self.index) }
    }

    /// The position and header of the batch that holds `sequence_number`, which is in this segment. `None` also if
    /// the segment is not in memory.
    pub(super) fn batch_of(&self, sequence_number: u64) -> Option<(usize, BatchHeader)> {
        let entries = self.index.partition_point(|entry| entry.first_sequence_number <= sequence_number);
        self.find_from(entries, |header| header.next_sequence_number() > sequence_number)
    }

    /// The position and header of the first batch appended at `time` or later. `None` also if the segment is not in
    /// memory.
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
        let Content::Resident(writer) = &self.content else {
            return None;
        };
        let published = &writer.published()[..self.sound_length()];
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

impl SegmentIndex {
    /// The index of `batches`, as they would have been appended.
    pub(super) fn of(batches: &[u8]) -> Self {
        let mut entries = Vec::new();
        let (mut position, mut next_indexed) = (0, 0);
        for (header, batch) in Batches::of(batches) {
            if position >= next_indexed {
                entries.push(IndexEntry {
                    first_sequence_number: header.first_sequence_number,
                    append_time: header.append_time,
                    position,
                });
                next_indexed = position + INDEX_INTERVAL;
            }
            position += batch.len();
        }
        Self { entries }
    }
}

/// A search passes over the headers of at most this many bytes of batches.
const INDEX_INTERVAL: usize = 16 * 1024;
