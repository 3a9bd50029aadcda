//! OffsetCommit, 0 to 9: how far a group has come, for the broker to remember.

use super::by_topic;
use super::group::MemberRef;
use super::outcome::PartitionOutcomes;
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// How far a group has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetCommitRequest<'a> {
    /// Who says so. Who is no member has no generation (-1) and no id.
    pub member: MemberRef<'a>,
    /// Partitions of one topic stand together.
    pub partitions: Vec<CommittedOffset<'a>>,
}

/// How far a group has come in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedOffset<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition's number.
    pub index: i32,
    /// The offset of the next record.
    pub offset: i64,
    /// The leader's epoch of the last one; -1 if it is not known.
    pub leader_epoch: i32,
    /// Whatever the group wants to remember.
    pub metadata: &'a str,
}

/// What stands between an offset and its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BesideOffset {
    Nothing,
    /// The time of the commit, by the clock of the client.
    CommitTime,
    LeaderEpoch,
}

impl BesideOffset {
    const fn in_commit_of(version: i16) -> Self {
        match version {
            1 => Self::CommitTime,
            ..6 => Self::Nothing,
            _ => Self::LeaderEpoch,
        }
    }
}

impl<'a> CommittedOffset<'a> {
    /// Reads what follows the name of the topic.
    pub(super) fn read(
        reader: &mut Reader<'a>,
        topic: &'a str,
        beside: BesideOffset,
    ) -> Result<Self, Malformed> {
        let index = reader.i32("partition")?;
        let offset = reader.i64("offset")?;
        let leader_epoch = match beside {
            BesideOffset::Nothing => -1,
            BesideOffset::CommitTime => {
                reader.i64("time of the commit")?;
                -1
            }
            BesideOffset::LeaderEpoch => reader.i32("leader epoch")?,
        };
        let metadata = reader.nullable_string("metadata")?.unwrap_or_default();
        reader.skip_tagged_fields("partition")?;
        Ok(Self { topic, index, offset, leader_epoch, metadata })
    }

    /// Writes what follows the name of the topic.
    pub(super) fn write(&self, writer: &mut Writer, beside: BesideOffset) {
        writer.i32(self.index);
        writer.i64(self.offset);
        match beside {
            BesideOffset::Nothing => {}
            // That of the broker counts.
            BesideOffset::CommitTime => writer.i64(-1),
            BesideOffset::LeaderEpoch => writer.i32(self.leader_epoch),
        }
        writer.nullable_string(Some(self.metadata));
        writer.tagged_fields_end();
    }
}

impl<'a> OffsetCommitRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let group_id = reader.string("group")?;
        // Groups are younger than the first version.
        let (generation, member_id) = match version {
            0 => (-1, ""),
            _ => (reader.i32("generation")?, reader.string("member id")?),
        };
        let instance_id = if version >= 7 { reader.nullable_string("instance id")? } else { None };
        if (2..=4).contains(&version) {
            // How long to keep it: as long as everything else.
            reader.i64("retention time")?;
        }
        let beside = BesideOffset::in_commit_of(version);
        let partitions =
            by_topic::read(&mut reader, |reader, topic| CommittedOffset::read(reader, topic, beside))?;
        reader.skip_tagged_fields("request")?;
        let member = MemberRef { group_id, generation, member_id, instance_id };
        Ok(Self { member, partitions })
    }

    /// Writes the body of a request of `version`. Before version 7 no member keeps a name, before version 6 no one knows epochs, and
    /// version 0 is not for members.
    pub fn write(&self, writer: &mut Writer, version: i16) {
        match version {
            0 => writer.string(self.member.group_id),
            _ => self.member.write(writer, version >= 7),
        }
        if (2..=4).contains(&version) {
            // As long as the broker keeps everything else.
            writer.i64(-1);
        }
        by_topic::write(
            writer,
            &self.partitions,
            |first| first.topic,
            |writer, partition| partition.write(writer, BesideOffset::in_commit_of(version)),
        );
        writer.tagged_fields_end();
    }

    /// Reads the body of the response to a request of `version`: what became of each.
    pub fn read_response(mut reader: Reader<'_>, version: i16) -> Result<PartitionOutcomes<'_>, Malformed> {
        let throttle_time_ms = if version >= 3 { reader.i32("throttle time")? } else { 0 };
        PartitionOutcomes::read_partitions(reader, throttle_time_ms)
    }

    /// Writes the response to a request of `version`: what became of each.
    pub fn write_response(
        &self,
        writer: &mut Writer,
        version: i16,
        errors: &[ErrorCode],
        throttle_time_ms: i32,
    ) {
        if version >= 3 {
            writer.i32(throttle_time_ms);
        }
        let mut errors = errors.iter();
        by_topic::write(
            writer,
            &self.partitions,
            |first| first.topic,
            |writer, partition| {
                writer.i32(partition.index);
                writer.error(errors.next().copied().unwrap_or(ErrorCode::None), partition.topic);
                writer.tagged_fields_end();
            },
        );
        writer.tagged_fields_end();
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::offset_commit_request::{
        OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    };
    use kafka_protocol::messages::{
        GroupId, OffsetCommitRequest as ReferenceCommit, OffsetCommitResponse, TopicName,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::outcome::PartitionOutcome;
    use crate::messages::reference;

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    /// From Kafka's definitions: the other implementation has no version without retention.
    #[test]
    fn oldest_versions_commit_without_a_member_or_with_a_time() {
        let group = [0, 1, b'g'];
        let member = [0, 0, 0, 4, 0, 1, b'm'];
        let partition = [0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 99];
        let metadata = [0, 1, b'x'];
        let first = [&group[..], &partition, &metadata].concat();
        let second = [&group[..], &member, &partition, &[0xff; 8], &metadata].concat();
        let committed = CommittedOffset { topic: "t", index: 7, offset: 99, leader_epoch: -1, metadata: "x" };
        for (version, bytes, generation, member_id) in [(0, first, -1, ""), (1, second, 4, "m")] {
            let read = |bytes| OffsetCommitRequest::read(Reader::new(bytes, false), version);
            let member = MemberRef { group_id: "g", generation, member_id, instance_id: None };
            let expected = OffsetCommitRequest { member, partitions: vec![committed] };
            assert_eq!(read(&bytes), Ok(expected.clone()));
            assert!((0..bytes.len()).all(|length| read(&bytes[..length]).is_err()));
            let written =
                reference::body(ApiKey::OffsetCommit, version, |writer| expected.write(writer, version));
            assert_eq!(written, bytes);
            let answer = reference::body(ApiKey::OffsetCommit, version, |writer| {
                expected.write_response(writer, version, &[ErrorCode::IllegalGeneration], 9);
            });
            assert_eq!(answer, [&partition[..15], &[0, 22]].concat());
        }
    }

    #[test]
    fn offsets_are_committed_in_every_version() {
        for version in 2..=9 {
            let mut partition = OffsetCommitRequestPartition::default()
                .with_partition_index(7)
                .with_committed_offset(1_000)
                .with_committed_metadata(Some(text("note")));
            if version >= 6 {
                partition = partition.with_committed_leader_epoch(2);
            }
            let topic = OffsetCommitRequestTopic::default()
                .with_name(TopicName(text("orders")))
                .with_partitions(vec![partition]);
            let request = ReferenceCommit::default()
                .with_group_id(GroupId(text("group")))
                .with_generation_id_or_member_epoch(3)
                .with_member_id(text("member"))
                .with_topics(vec![topic]);
            let expected = CommittedOffset {
                topic: "orders",
                index: 7,
                offset: 1_000,
                leader_epoch: if version >= 6 { 2 } else { -1 },
                metadata: "note",
            };
            let read = |reader: Reader<'_>| {
                let it = OffsetCommitRequest::read(reader, version)?;
                Ok((it.member.group_id == "group", it.member.generation, it.partitions == [expected]))
            };
            reference::read_message(ApiKey::OffsetCommit, version, &request, read, |it| {
                assert_eq!(it, (true, 3, true))
            });
            let member = MemberRef { group_id: "group", generation: 3, member_id: "", instance_id: None };
            let request = OffsetCommitRequest { member, partitions: vec![expected] };
            let response: OffsetCommitResponse =
                reference::message(ApiKey::OffsetCommit, version, |writer| {
                    request.write_response(writer, version, &[ErrorCode::UnknownMemberId], 0);
                });
            let partition = &response.topics[0].partitions[0];
            assert_eq!((partition.partition_index, partition.error_code), (7, 25));
            let read = |reader: Reader<'_>| {
                let response = OffsetCommitRequest::read_response(reader, version)?;
                let error = ErrorCode::UnknownMemberId;
                assert_eq!(response.partitions, [PartitionOutcome { topic: "orders", index: 7, error }]);
                Ok(response.throttle_time_ms)
            };
            reference::read_message(ApiKey::OffsetCommit, version, &response, read, |it| assert_eq!(it, 0));
        }
    }

    #[test]
    fn commits_are_read_here_and_by_another_implementation_in_every_version() {
        for version in 2..=9 {
            let offset = |topic, index| CommittedOffset {
                topic,
                index,
                offset: 1_000,
                leader_epoch: if version >= 6 { 2 } else { -1 },
                metadata: "note",
            };
            let instance_id = (version >= 7).then_some("instance");
            let member = MemberRef { group_id: "group", generation: -1, member_id: "", instance_id };
            let partitions = vec![offset("orders", 0), offset("orders", 7), offset("payments", 0)];
            let request = OffsetCommitRequest { member, partitions };
            let write = |writer: &mut Writer| request.write(writer, version);
            let read: ReferenceCommit = reference::message(ApiKey::OffsetCommit, version, write);
            assert_eq!((read.generation_id_or_member_epoch, read.retention_time_ms), (-1, -1));
            assert_eq!((read.topics.len(), read.topics[0].partitions[1].committed_offset), (2, 1_000));
            let body = reference::body(ApiKey::OffsetCommit, version, write);
            let reader = reference::reader(ApiKey::OffsetCommit, version, &body);
            assert_eq!(OffsetCommitRequest::read(reader, version), Ok(request.clone()));
        }
    }
}
