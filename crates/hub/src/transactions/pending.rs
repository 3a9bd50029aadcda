//! The offsets that open transactions bring with them.

use std::collections::BTreeMap;

use kafka::ErrorCode;

use crate::journal::{OffsetRecord, Record};

/// Those of one transaction, by group, topic and partition.
#[derive(Debug, Default)]
pub(super) struct PendingOffsets {
    offsets: BTreeMap<Place, Offset>,
    /// Bytes of what clients have said.
    bytes: usize,
}

/// Where an offset belongs: group, topic, partition.
pub(super) type Place = (String, String, i32);

#[derive(Debug)]
struct Offset {
    offset: i64,
    leader_epoch: i32,
    committed_at: i64,
    metadata: String,
}

impl PendingOffsets {
    /// Whether so many more fit.
    pub(super) fn check(&self, more: &[OffsetRecord<'_>]) -> Result<(), ErrorCode> {
        let bytes: usize = more.iter().map(length).sum();
        match self.bytes + bytes > BYTES_MAX {
            true => Err(ErrorCode::InvalidRequest),
            false => Ok(()),
        }
    }

    /// Adds one, and says whether there was none for that partition.
    pub(super) fn put(&mut self, record: &OffsetRecord<'_>) -> bool {
        let place = (record.group.to_owned(), record.topic.to_owned(), record.index);
        let offset = Offset {
            offset: record.offset,
            leader_epoch: record.leader_epoch,
            committed_at: record.committed_at,
            metadata: record.metadata.to_owned(),
        };
        // What is replaced stays counted: a producer that commits the same thousands of times has to end some time.
        self.bytes += length(record);
        self.offsets.insert(place, offset).is_none()
    }

    /// Forgets those of a topic, and says where they were.
    pub(super) fn remove_topic(&mut self, topic: &str) -> Vec<Place> {
        let removed: Vec<Place> = self.offsets.keys().filter(|place| place.1 == topic).cloned().collect();
        for place in &removed {
            self.offsets.remove(place);
        }
        removed
    }

    pub(super) fn places(&self) -> impl Iterator<Item = &Place> {
        self.offsets.keys()
    }

    /// They are taken when the transaction commits.
    pub(super) fn records(&self) -> impl Iterator<Item = OffsetRecord<'_>> {
        self.offsets.iter().map(|((group, topic, index), offset)| OffsetRecord {
            group,
            topic,
            index: *index,
            offset: offset.offset,
            leader_epoch: offset.leader_epoch,
            committed_at: offset.committed_at,
            metadata: &offset.metadata,
        })
    }

    /// As those of the transaction of an id.
    pub(super) fn account<'a>(&'a self, id: &'a str) -> impl Iterator<Item = Record<'a>> {
        self.records().map(move |offset| Record::PendingOffset { id, offset })
    }
}

fn length(offset: &OffsetRecord<'_>) -> usize {
    offset.group.len() + offset.topic.len() + offset.metadata.len() + OVERHEAD
}

/// What an offset takes besides its texts, about.
const OVERHEAD: usize = 64;

/// Bytes of offsets that one transaction may bring with it; they are kept as one batch when it commits.
const BYTES_MAX: usize = 16 * 1024 * 1024;
