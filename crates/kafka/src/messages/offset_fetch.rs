//! OffsetFetch, 0 to 9: how far groups have come, as the broker remembers it.

use super::by_topic;
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// What a client wants to know of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetFetchRequest<'a> {
    /// The groups; one only up to version 7.
    pub groups: Vec<AskedGroup<'a>>,
    /// Whether offsets that a transaction may yet change are to be waited for.
    pub require_stable: bool,
}

/// What a client wants to know of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedGroup<'a> {
    /// The group.
    pub group_id: &'a str,
    /// Topics with the numbers of partitions; all that there are, if `None`.
    pub topics: Option<AskedTopics<'a>>,
}

/// Topics, each with the numbers of its partitions.
pub type AskedTopics<'a> = Vec<(&'a str, Vec<i32>)>;

/// How far a group has come, for a response. Partitions of one topic stand together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedOffset {
    /// The topic.
    pub topic: String,
    /// The partition's number.
    pub index: i32,
    /// The offset; -1 if there is none.
    pub offset: i64,
    /// The leader's epoch; -1 if it is not known.
    pub leader_epoch: i32,
    /// What the group wanted to remember.
    pub metadata: String,
    /// Why there is none, if there is a reason.
    pub error: ErrorCode,
}

impl<'a> OffsetFetchRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let mut groups = Vec::new();
        if version < 8 {
            groups.push(AskedGroup {
                group_id: reader.string("group")?,
                topics: topics(&mut reader, version)?,
            });
        } else {
            for _ in 0..reader.array_length("groups")? {
                let group_id = reader.string("group")?;
                if version >= 9 {
                    reader.nullable_string("member id")?;
                    reader.i32("member epoch")?;
                }
                groups.push(AskedGroup { group_id, topics: topics(&mut reader, version)? });
                reader.skip_tagged_fields("group")?;
            }
        }
        let require_stable = version >= 7 && reader.bool("stability")?;
        reader.skip_tagged_fields("request")?;
        Ok(Self { groups, require_stable })
    }

    /// Writes the body of a request of `version`. Before version 8 there is one group, the first; before version 7 nothing is waited
    /// for; and before version 2 all that there are can't be asked for, so that none are.
    pub fn write(&self, writer: &mut Writer, version: i16) {
        if version < 8 {
            let only = self.groups.first();
            writer.string(only.map_or("", |group| group.group_id));
            write_asked(writer, version, only.and_then(|group| group.topics.as_deref()));
        } else {
            writer.array_length(self.groups.len());
            for group in &self.groups {
                writer.string(group.group_id);
                if version >= 9 {
                    // Not as a member.
                    writer.nullable_string(None);
                    writer.i32(-1);
                }
                write_asked(writer, version, group.topics.as_deref());
                writer.tagged_fields_end();
            }
        }
        if version >= 7 {
            writer.bool(self.require_stable);
        }
        writer.tagged_fields_end();
    }

    /// Writes the response to a request of `version`: what was found of each group, or why nothing was.
    pub fn write_response(
        &self,
        writer: &mut Writer,
        version: i16,
        found: &[Result<Vec<FetchedOffset>, ErrorCode>],
        throttle_time_ms: i32,
    ) {
        if version >= 3 {
            writer.i32(throttle_time_ms);
        }
        if version < 8 {
            let only = found.first().map_or(Ok(&[][..]), |found| found.as_deref().map_err(|error| *error));
            write_topics(writer, version, only.unwrap_or_default());
            if version >= 2 {
                let group_id = self.groups.first().map_or("", |group| group.group_id);
                writer.error(only.err().unwrap_or(ErrorCode::None), group_id);
            }
            writer.tagged_fields_end();
            return;
        }
        writer.array_length(self.groups.len());
        for (group, found) in self.groups.iter().zip(found) {
            writer.string(group.group_id);
            write_topics(writer, version, found.as_deref().unwrap_or_default());
            writer.error(found.as_ref().err().copied().unwrap_or(ErrorCode::None), group.group_id);
            writer.tagged_fields_end();
        }
        writer.tagged_fields_end();
    }
}

/// What was found of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetFetchResponse<'a> {
    /// The groups; one only up to version 7.
    pub groups: Vec<FoundGroup<'a>>,
    /// How many milliseconds to wait before the next request.
    pub throttle_time_ms: i32,
}

/// What was found of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundGroup<'a> {
    /// The group; `None` up to version 7.
    pub group_id: Option<&'a str>,
    /// How far it has come, or why that can't be said.
    pub offsets: Result<Vec<FetchedOffset>, ErrorCode>,
}

impl<'a> OffsetFetchResponse<'a> {
    /// Reads the body of the response to a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let throttle_time_ms = if version >= 3 { reader.i32("throttle time")? } else { 0 };
        let mut groups = Vec::new();
        if version < 8 {
            let offsets = read_topics(&mut reader, version)?;
            let error = if version >= 2 { reader.i16("error")? } else { 0 };
            let offsets = ErrorCode::check(error).map(|()| offsets);
            groups.push(FoundGroup { group_id: None, offsets });
        } else {
            for _ in 0..reader.array_length("groups")? {
                let group_id = Some(reader.string("group")?);
                let offsets = read_topics(&mut reader, version)?;
                let offsets = ErrorCode::check(reader.i16("error of a group")?).map(|()| offsets);
                reader.skip_tagged_fields("group")?;
                groups.push(FoundGroup { group_id, offsets });
            }
        }
        reader.skip_tagged_fields("response")?;
        Ok(Self { groups, throttle_time_ms })
    }
}

fn read_topics(reader: &mut Reader<'_>, version: i16) -> Result<Vec<FetchedOffset>, Malformed> {
    by_topic::read(reader, |reader, topic| {
        let (index, offset) = (reader.i32("partition")?, reader.i64("offset")?);
        let leader_epoch = if version >= 5 { reader.i32("leader epoch")? } else { -1 };
        let metadata = reader.nullable_string("metadata")?.unwrap_or_default().to_owned();
        let error = ErrorCode::of(reader.i16("error of a partition")?);
        reader.skip_tagged_fields("partition")?;
        Ok(FetchedOffset { topic: topic.to_owned(), index, offset, leader_epoch, metadata, error })
    })
}

fn write_asked(writer: &mut Writer, version: i16, topics: Option<&[(&str, Vec<i32>)]>) {
    match topics {
        None if version < 2 => writer.array_length(0),
        topics => writer.nullable_array_length(topics.map(<[_]>::len)),
    }
    for (topic, partitions) in topics.into_iter().flatten() {
        writer.string(topic);
        writer.array_length(partitions.len());
        partitions.iter().for_each(|index| writer.i32(*index));
        writer.tagged_fields_end();
    }
}

fn topics<'a>(reader: &mut Reader<'a>, version: i16) -> Result<Option<AskedTopics<'a>>, Malformed> {
    let count = match version >= 2 {
        true => reader.nullable_array("topics")?,
        false => Some(reader.array_length("topics")?),
    };
    let Some(count) = count else {
        return Ok(None);
    };
    let mut topics = Vec::new();
    for _ in 0..count {
        let topic = reader.string("topic")?;
        let mut partitions = Vec::new();
        for _ in 0..reader.array_length("partitions")? {
            partitions.push(reader.i32("partition")?);
        }
        reader.skip_tagged_fields("topic")?;
        topics.push((topic, partitions));
    }
    Ok(Some(topics))
}

fn write_topics(writer: &mut Writer, version: i16, found: &[FetchedOffset]) {
    by_topic::write(
        writer,
        found,
        |first| &first.topic,
        |writer, partition| {
            writer.i32(partition.index);
            writer.i64(partition.offset);
            if version >= 5 {
                writer.i32(partition.leader_epoch);
            }
            writer.nullable_string(Some(&partition.metadata));
            writer.error(partition.error, &partition.topic);
            writer.tagged_fields_end();
        },
    );
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::offset_fetch_request::{
        OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    };
    use kafka_protocol::messages::{
        GroupId, OffsetFetchRequest as ReferenceFetch, OffsetFetchResponse as ReferenceFetched, TopicName,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    #[test]
    fn offsets_are_fetched_in_every_version() {
        for version in 1..=9 {
            let mut request = ReferenceFetch::default();
            if version < 8 {
                let topic = OffsetFetchRequestTopic::default()
                    .with_name(TopicName(text("orders")))
                    .with_partition_indexes(vec![7]);
                request = request.with_group_id(GroupId(text("group"))).with_topics(Some(vec![topic]));
            } else {
                let topic = OffsetFetchRequestTopics::default()
                    .with_name(TopicName(text("orders")))
                    .with_partition_indexes(vec![7]);
                let group = OffsetFetchRequestGroup::default()
                    .with_group_id(GroupId(text("group")))
                    .with_topics(Some(vec![topic]));
                request = request.with_groups(vec![group]);
            }
            if version >= 7 {
                request = request.with_require_stable(true);
            }
            let expected = || AskedGroup { group_id: "group", topics: Some(vec![("orders", vec![7])]) };
            let read = |reader: Reader<'_>| {
                let it = OffsetFetchRequest::read(reader, version)?;
                Ok((it.groups == [expected()], it.require_stable))
            };
            reference::read_message(ApiKey::OffsetFetch, version, &request, read, |it| {
                assert_eq!(it, (true, version >= 7));
            });
            let request = OffsetFetchRequest { groups: vec![expected()], require_stable: false };
            let found = FetchedOffset {
                topic: "orders".to_owned(),
                index: 7,
                offset: -1,
                leader_epoch: -1,
                metadata: String::new(),
                error: ErrorCode::UnstableOffsetCommit,
            };
            let response: ReferenceFetched = reference::message(ApiKey::OffsetFetch, version, |writer| {
                request.write_response(writer, version, &[Ok(vec![found.clone()])], 0);
            });
            let offset = match version < 8 {
                true => {
                    let partition = &response.topics[0].partitions[0];
                    (partition.committed_offset, partition.error_code)
                }
                false => {
                    let partition = &response.groups[0].topics[0].partitions[0];
                    (partition.committed_offset, partition.error_code)
                }
            };
            assert_eq!(offset, (-1, 88));
            let read = |reader: Reader<'_>| {
                let group_id = (version >= 8).then_some("group");
                let response = OffsetFetchResponse::read(reader, version)?;
                assert_eq!(response.groups, [FoundGroup { group_id, offsets: Ok(vec![found.clone()]) }]);
                Ok(response.throttle_time_ms)
            };
            reference::read_message(ApiKey::OffsetFetch, version, &response, read, |it| assert_eq!(it, 0));
            if version >= 2 {
                let body = reference::body(ApiKey::OffsetFetch, version, |writer| {
                    request.write_response(writer, version, &[Err(ErrorCode::NotCoordinator)], 0);
                });
                let reader = reference::reader(ApiKey::OffsetFetch, version, &body);
                let refused = OffsetFetchResponse::read(reader, version).unwrap();
                assert_eq!(refused.groups[0].offsets, Err(ErrorCode::NotCoordinator));
            }
        }
    }

    #[test]
    fn what_is_asked_of_groups_is_read_here_and_by_another_implementation_in_every_version() {
        for version in 1..=9 {
            let some = || Some(vec![("orders", vec![0, 7]), ("payments", vec![])]);
            let mut asked = vec![vec![AskedGroup { group_id: "group", topics: some() }]];
            if version >= 2 {
                asked.push(vec![AskedGroup { group_id: "group", topics: None }]);
            }
            if version >= 8 {
                asked.push(vec![
                    AskedGroup { group_id: "group", topics: some() },
                    AskedGroup { group_id: "other", topics: None },
                ]);
            }
            for groups in asked {
                let request = OffsetFetchRequest { groups, require_stable: version >= 7 };
                let write = |writer: &mut Writer| request.write(writer, version);
                let read: ReferenceFetch = reference::message(ApiKey::OffsetFetch, version, write);
                assert_eq!(read.require_stable, version >= 7);
                assert_eq!(read.groups.len(), if version >= 8 { request.groups.len() } else { 0 });
                let body = reference::body(ApiKey::OffsetFetch, version, write);
                let reader = reference::reader(ApiKey::OffsetFetch, version, &body);
                assert_eq!(OffsetFetchRequest::read(reader, version), Ok(request.clone()));
            }
        }
    }
}
