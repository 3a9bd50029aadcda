//! OffsetForLeaderEpoch, 0 to 4: where the records end that a leader of some epoch has written, so that a client notices that what it
//! has read is no longer there.

use super::by_topic;
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// The epochs that a client asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetForLeaderEpochRequest<'a> {
    /// Partitions of one topic stand together.
    pub partitions: Vec<AskedEpoch<'a>>,
}

/// An epoch of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedEpoch<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition's number.
    pub index: i32,
    /// The epoch that the client believes the leader to have; -1 if it has no opinion.
    pub current_leader_epoch: i32,
    /// The epoch that it asks about.
    pub leader_epoch: i32,
}

/// Where an epoch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition's number.
    pub index: i32,
    /// The error.
    pub error: ErrorCode,
    /// The latest epoch up to the one that was asked for; -1 if there is none.
    pub leader_epoch: i32,
    /// The offset at which it ends; -1 if there is none.
    pub end_offset: i64,
}

impl<'a> OffsetForLeaderEpochRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        if version >= 3 {
            reader.i32("replica id")?;
        }
        let partitions = by_topic::read(&mut reader, |reader, topic| {
            let index = reader.i32("partition")?;
            let current_leader_epoch = if version >= 2 { reader.i32("current leader epoch")? } else { -1 };
            let leader_epoch = reader.i32("leader epoch")?;
            reader.skip_tagged_fields("partition")?;
            Ok(AskedEpoch { topic, index, current_leader_epoch, leader_epoch })
        })?;
        reader.skip_tagged_fields("request")?;
        Ok(Self { partitions })
    }
}

/// Writes the response to a request of `version`. The ends in one topic stand together.
pub fn write_response(writer: &mut Writer, version: i16, ends: &[EpochEnd<'_>], throttle_time_ms: i32) {
    if version >= 2 {
        writer.i32(throttle_time_ms);
    }
    by_topic::write(
        writer,
        ends,
        |first| first.topic,
        |writer, partition| {
            writer.error(partition.error, partition.topic);
            writer.i32(partition.index);
            if version >= 1 {
                writer.i32(partition.leader_epoch);
            }
            writer.i64(partition.end_offset);
            writer.tagged_fields_end();
        },
    );
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::offset_for_leader_epoch_request::{
        OffsetForLeaderPartition, OffsetForLeaderTopic,
    };
    use kafka_protocol::messages::{
        OffsetForLeaderEpochRequest as Reference, OffsetForLeaderEpochResponse, TopicName,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    /// From Kafka's definitions: the other implementation has no version without current epochs.
    #[test]
    fn oldest_versions_ask_without_a_current_epoch() {
        let topic = [0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1];
        let request = [&topic[..], &[0, 0, 0, 7, 0, 0, 0, 2]].concat();
        let end = EpochEnd { topic: "t", index: 7, error: ErrorCode::None, leader_epoch: 2, end_offset: 5 };
        let offset = [0, 0, 0, 0, 0, 0, 0, 5];
        for (version, epoch) in [(0, &[][..]), (1, &[0, 0, 0, 2])] {
            let read = OffsetForLeaderEpochRequest::read(Reader::new(&request, false), version).unwrap();
            let asked = AskedEpoch { topic: "t", index: 7, current_leader_epoch: -1, leader_epoch: 2 };
            assert_eq!(read.partitions, [asked]);
            let write = |writer: &mut Writer| write_response(writer, version, &[end], 9);
            let body = reference::body(ApiKey::OffsetForLeaderEpoch, version, write);
            assert_eq!(body, [&topic[..], &[0, 0, 0, 0, 0, 7], epoch, &offset].concat());
        }
    }

    #[test]
    fn another_implementation_reads_and_writes_the_same_in_every_version() {
        for version in 2..=4 {
            let partition = OffsetForLeaderPartition::default()
                .with_partition(4)
                .with_current_leader_epoch(7)
                .with_leader_epoch(6);
            let topic = OffsetForLeaderTopic::default()
                .with_topic(TopicName(StrBytes::from_static_str("orders")))
                .with_partitions(vec![partition]);
            let mut request = Reference::default().with_topics(vec![topic]);
            if version >= 3 {
                request = request.with_replica_id((-1).into());
            }
            let read = |reader: Reader<'_>| {
                let request = OffsetForLeaderEpochRequest::read(reader, version)?;
                let found = request.partitions.iter();
                let found = found
                    .map(|it| (it.topic == "orders", it.index, it.current_leader_epoch, it.leader_epoch));
                Ok(found.collect::<Vec<_>>())
            };
            reference::read_message(ApiKey::OffsetForLeaderEpoch, version, &request, read, |found| {
                assert_eq!(found, [(true, 4, 7, 6)]);
            });
            let end = EpochEnd {
                topic: "orders",
                index: 4,
                error: ErrorCode::None,
                leader_epoch: 6,
                end_offset: 1_700,
            };
            let none = EpochEnd {
                index: 5,
                error: ErrorCode::FencedLeaderEpoch,
                leader_epoch: -1,
                end_offset: -1,
                ..end
            };
            let response: OffsetForLeaderEpochResponse =
                reference::message(ApiKey::OffsetForLeaderEpoch, version, |writer| {
                    write_response(writer, version, &[end, none], 0);
                });
            let [first, second] = &response.topics[0].partitions[..] else { panic!("two partitions") };
            assert_eq!((first.partition, first.leader_epoch, first.end_offset), (4, 6, 1_700));
            assert_eq!((second.partition, second.error_code, second.end_offset), (5, 74, -1));
        }
    }
}
