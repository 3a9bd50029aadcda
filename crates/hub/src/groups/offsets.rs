//! How far a group has come.

use std::collections::BTreeMap;

use kafka::ErrorCode;
use kafka::messages::group_offsets::{AskedGroup, CommittedOffset, FetchedOffset};

/// The offsets of one group, by topic and partition.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    by_topic: BTreeMap<String, BTreeMap<i32, Offset>>,
}

#[derive(Clone, Debug)]
struct Offset {
    offset: i64,
    leader_epoch: i32,
    metadata: String,
}

impl Offsets {
    /// Takes what a group has committed.
    pub(super) fn commit(&mut self, committed: &CommittedOffset<'_>) -> ErrorCode {
        if committed.metadata.len() > METADATA_MAX {
            return ErrorCode::OffsetMetadataTooLarge;
        }
        // Places such as "the end" are no offsets. Kafka's clients resolve them before they commit.
        if committed.offset < 0 || committed.index < 0 {
            return ErrorCode::InvalidRequest;
        }
        let offset = Offset {
            offset: committed.offset,
            leader_epoch: committed.leader_epoch,
            metadata: committed.metadata.to_owned(),
        };
        match self.by_topic.get_mut(committed.topic) {
            Some(partitions) => partitions.insert(committed.index, offset),
            None => {
                let partitions = BTreeMap::from([(committed.index, offset)]);
                self.by_topic.insert(committed.topic.to_owned(), partitions);
                None
            }
        };
        ErrorCode::None
    }

    /// What is asked for; everything, if nothing is named. Where there is none, the offset is -1.
    pub(super) fn fetch(&self, asked: &AskedGroup<'_>) -> Vec<FetchedOffset> {
        let Some(topics) = &asked.topics else {
            let all = self.by_topic.iter().flat_map(|(topic, partitions)| {
                partitions.iter().map(|(index, offset)| fetched(topic, *index, Some(offset)))
            });
            return all.collect();
        };
        let named = topics.iter().flat_map(|(topic, partitions)| {
            let known = self.by_topic.get(*topic);
            partitions
                .iter()
                .map(move |index| fetched(topic, *index, known.and_then(|known| known.get(index))))
        });
        named.collect()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.by_topic.is_empty()
    }
}

fn fetched(topic: &str, index: i32, offset: Option<&Offset>) -> FetchedOffset {
    FetchedOffset {
        topic: topic.to_owned(),
        index,
        offset: offset.map_or(-1, |offset| offset.offset),
        leader_epoch: offset.map_or(-1, |offset| offset.leader_epoch),
        metadata: offset.map_or_else(String::new, |offset| offset.metadata.clone()),
    }
}

/// The longest note of a commit, in bytes (`offset.metadata.max.bytes`).
const METADATA_MAX: usize = 4_096;
