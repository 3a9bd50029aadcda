//! How far a group has come.

use std::collections::BTreeMap;

use kafka::ErrorCode;
use kafka::messages::offset_commit::CommittedOffset;
use kafka::messages::offset_fetch::{AskedGroup, FetchedOffset};

use crate::journal::OffsetRecord;

/// The offsets of one group, by topic and partition.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    by_topic: BTreeMap<String, BTreeMap<i32, Offset>>,
    /// Memory of all of them, in bytes.
    bytes: usize,
    /// What the journal says of the group; `None` if it knows of none.
    pub(super) kept: Option<KeptGroup>,
}

/// What is kept of a group besides its offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptGroup {
    pub(super) protocol_type: String,
    /// Since when it has no member, in milliseconds since 1970; `None` if it has some.
    pub(super) emptied_at: Option<i64>,
}

#[derive(Clone, Debug)]
struct Offset {
    offset: i64,
    leader_epoch: i32,
    committed_at: i64,
    metadata: String,
}

/// Whether an offset can be taken.
pub(crate) fn check(committed: &CommittedOffset<'_>) -> Result<(), ErrorCode> {
    if committed.metadata.len() > METADATA_MAX {
        return Err(ErrorCode::OffsetMetadataTooLarge);
    }
    // Places such as "the end" are no offsets. Kafka's clients resolve them before they commit.
    match committed.offset < 0 || committed.index < 0 {
        true => Err(ErrorCode::InvalidRequest),
        false => Ok(()),
    }
}

impl Offsets {
    /// Takes what a group has committed.
    pub(super) fn put(&mut self, committed: &OffsetRecord<'_>) {
        let before = self.bytes_of(committed.topic, committed.index);
        self.bytes = self.bytes - before + OFFSET_BYTES + committed.metadata.len();
        let offset = Offset {
            offset: committed.offset,
            leader_epoch: committed.leader_epoch,
            committed_at: committed.committed_at,
            metadata: committed.metadata.to_owned(),
        };
        match self.by_topic.get_mut(committed.topic) {
            Some(partitions) => drop(partitions.insert(committed.index, offset)),
            None => {
                let partitions = BTreeMap::from([(committed.index, offset)]);
                self.by_topic.insert(committed.topic.to_owned(), partitions);
            }
        }
    }

    /// Returns the memory of all of them, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes by which an offset with a note of this length adds to the memory.
    pub(super) fn growth_by(&self, topic: &str, index: i32, metadata_length: usize) -> usize {
        (OFFSET_BYTES + metadata_length).saturating_sub(self.bytes_of(topic, index))
    }

    /// Returns the memory of the offset of a partition, in bytes; 0 if there is none.
    fn bytes_of(&self, topic: &str, index: i32) -> usize {
        let known = self.by_topic.get(topic).and_then(|partitions| partitions.get(&index));
        known.map_or(0, |offset| OFFSET_BYTES + offset.metadata.len())
    }

    /// Whether there is one for this partition.
    pub(super) fn has(&self, topic: &str, index: i32) -> bool {
        self.by_topic.get(topic).is_some_and(|partitions| partitions.contains_key(&index))
    }

    /// Forgets that of a partition.
    pub(super) fn remove(&mut self, topic: &str, index: i32) {
        self.bytes -= self.bytes_of(topic, index);
        if let Some(partitions) = self.by_topic.get_mut(topic) {
            partitions.remove(&index);
            if partitions.is_empty() {
                self.by_topic.remove(topic);
            }
        }
    }

    /// Forgets those of a topic, and says whether there were any.
    pub(super) fn remove_topic(&mut self, topic: &str) -> bool {
        let Some(removed) = self.by_topic.remove(topic) else {
            return false;
        };
        self.bytes -= removed.values().map(|offset| OFFSET_BYTES + offset.metadata.len()).sum::<usize>();
        true
    }

    /// The topics that there are offsets of.
    pub(super) fn topics(&self) -> impl Iterator<Item = &str> {
        self.by_topic.keys().map(String::as_str)
    }

    /// All of them, as those of this group.
    pub(super) fn records<'a>(&'a self, group: &'a str) -> impl Iterator<Item = OffsetRecord<'a>> {
        self.by_topic.iter().flat_map(move |(topic, partitions)| {
            partitions.iter().map(move |(index, offset)| OffsetRecord {
                group,
                topic,
                index: *index,
                offset: offset.offset,
                leader_epoch: offset.leader_epoch,
                committed_at: offset.committed_at,
                metadata: &offset.metadata,
            })
        })
    }

    /// What is asked for; everything, if nothing is named. Where there is none, the offset is -1. What `is_pending` may yet be
    /// replaced, and is not told.
    pub(super) fn fetch(
        &self,
        asked: &AskedGroup<'_>,
        is_pending: impl Fn(&str, i32) -> bool,
    ) -> Vec<FetchedOffset> {
        let fetched = |topic: &str, index: i32, offset: Option<&Offset>| match is_pending(topic, index) {
            true => fetched(topic, index, None, ErrorCode::UnstableOffsetCommit),
            false => fetched(topic, index, offset, ErrorCode::None),
        };
        let mut found = Vec::new();
        match &asked.topics {
            None => {
                for (topic, partitions) in &self.by_topic {
                    found.extend(
                        partitions.iter().map(|(index, offset)| fetched(topic, *index, Some(offset))),
                    );
                }
            }
            Some(topics) => {
                for (topic, partitions) in topics {
                    let known = self.by_topic.get(*topic);
                    let offset = |index| known.and_then(|known| known.get(index));
                    found.extend(partitions.iter().map(|index| fetched(topic, *index, offset(index))));
                }
            }
        }
        found
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.by_topic.is_empty()
    }
}

fn fetched(topic: &str, index: i32, offset: Option<&Offset>, error: ErrorCode) -> FetchedOffset {
    FetchedOffset {
        topic: topic.to_owned(),
        index,
        offset: offset.map_or(-1, |offset| offset.offset),
        leader_epoch: offset.map_or(-1, |offset| offset.leader_epoch),
        metadata: offset.map_or_else(String::new, |offset| offset.metadata.clone()),
        error,
    }
}

/// Memory of an offset beside its note, in bytes, with its part of the maps.
const OFFSET_BYTES: usize = 128;

/// The longest note of a commit, in bytes (`offset.metadata.max.bytes`).
const METADATA_MAX: usize = 4_096;
