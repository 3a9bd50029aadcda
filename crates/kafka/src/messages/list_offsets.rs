//! ListOffsets, 0 to 9: where a partition begins and ends, and where a point in time lies.
//!
//! Version 0 is older than timestamps of records: a time stands for the last segment of the log that was written before it, and the
//! answer is a list, of which one offset is given here.

use super::by_topic;
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOffsetsRequest<'a> {
    /// Whether the end is where the first open transaction begins.
    pub is_read_committed: bool,
    /// Partitions of one topic stand together.
    pub partitions: Vec<PartitionTime<'a>>,
}

/// A point in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionTime<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition's number.
    pub index: i32,
    /// The epoch that the client believes the leader to have; -1 if it has no opinion.
    pub current_leader_epoch: i32,
    /// The point.
    pub at: OffsetSpec,
}

/// What a timestamp stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// After the last record.
    Latest,
    /// At the oldest record.
    Earliest,
    /// At the record with the greatest timestamp.
    MaxTimestamp,
    /// At the oldest record that is not in cheaper storage alone.
    EarliestLocal,
    /// After the last record that is in cheaper storage.
    LatestTiered,
    /// At the first record with this timestamp or a greater one, in milliseconds since 1970.
    At(i64),
    /// At the beginning of the last segment that was written up to this time, in milliseconds since 1970.
    SegmentBefore(i64),
    /// Not defined, or not in this version.
    Unknown,
}

/// Where a point lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundOffset<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition's number.
    pub index: i32,
    /// The error.
    pub error: ErrorCode,
    /// The timestamp of the record; -1 where none was asked for.
    pub timestamp: i64,
    /// The offset; -1 if there is none.
    pub offset: i64,
    /// The epoch of the leader; -1 with an error.
    pub leader_epoch: i32,
}

impl<'a> ListOffsetsRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        reader.i32("replica id")?;
        let is_read_committed = version >= 2 && reader.i8("isolation level")? != 0;
        let partitions = by_topic::read(&mut reader, |reader, topic| {
            let index = reader.i32("partition")?;
            let current_leader_epoch = if version >= 4 { reader.i32("leader epoch")? } else { -1 };
            let at = OffsetSpec::of(reader.i64("timestamp")?, version);
            if version == 0 {
                reader.i32("most offsets")?;
            }
            reader.skip_tagged_fields("partition")?;
            Ok(PartitionTime { topic, index, current_leader_epoch, at })
        })?;
        reader.skip_tagged_fields("request")?;
        Ok(Self { is_read_committed, partitions })
    }

    /// Writes the body of a request of `version`. Before version 2 all that is written is visible, before version 4 no one has an
    /// opinion on epochs.
    pub fn write(&self, writer: &mut Writer, version: i16) {
        // No broker asks.
        writer.i32(-1);
        if version >= 2 {
            writer.i8(i8::from(self.is_read_committed));
        }
        by_topic::write(
            writer,
            &self.partitions,
            |first| first.topic,
            |writer, partition| {
                writer.i32(partition.index);
                if version >= 4 {
                    writer.i32(partition.current_leader_epoch);
                }
                writer.i64(partition.at.timestamp());
                if version == 0 {
                    writer.i32(1);
                }
                writer.tagged_fields_end();
            },
        );
        writer.tagged_fields_end();
    }
}

impl OffsetSpec {
    const fn of(timestamp: i64, version: i16) -> Self {
        match timestamp {
            -1 => Self::Latest,
            -2 => Self::Earliest,
            -3 if version >= 7 => Self::MaxTimestamp,
            -4 if version >= 8 => Self::EarliestLocal,
            -5 if version >= 9 => Self::LatestTiered,
            0.. if version == 0 => Self::SegmentBefore(timestamp),
            0.. => Self::At(timestamp),
            _ => Self::Unknown,
        }
    }

    const fn timestamp(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::MaxTimestamp => -3,
            Self::EarliestLocal => -4,
            Self::LatestTiered => -5,
            Self::At(timestamp) | Self::SegmentBefore(timestamp) => timestamp,
            Self::Unknown => i64::MIN,
        }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOffsetsResponse<'a> {
    /// Each point that was asked for.
    pub partitions: Vec<FoundOffset<'a>>,
    /// How many milliseconds to wait before the next request.
    pub throttle_time_ms: i32,
}

impl<'a> ListOffsetsResponse<'a> {
    /// Reads the body of the response to a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let throttle_time_ms = if version >= 2 { reader.i32("throttle time")? } else { 0 };
        let partitions = by_topic::read(&mut reader, |reader, topic| {
            let index = reader.i32("partition")?;
            let error = ErrorCode::of(reader.i16("error")?);
            let (timestamp, offset) = match version {
                0 => {
                    let offsets = reader.array_length("offsets")?;
                    (-1, (0..offsets).map(|_| reader.i64("offset")).next().transpose()?.unwrap_or(-1))
                }
                _ => (reader.i64("timestamp")?, reader.i64("offset")?),
            };
            let leader_epoch = if version >= 4 { reader.i32("leader epoch")? } else { -1 };
            reader.skip_tagged_fields("partition")?;
            Ok(FoundOffset { topic, index, error, timestamp, offset, leader_epoch })
        })?;
        reader.skip_tagged_fields("response")?;
        Ok(Self { partitions, throttle_time_ms })
    }
}

/// Writes the response to a request of `version`. What was found of one topic stands together.
pub fn write_response(writer: &mut Writer, version: i16, found: &[FoundOffset<'_>], throttle_time_ms: i32) {
    if version >= 2 {
        writer.i32(throttle_time_ms);
    }
    by_topic::write(
        writer,
        found,
        |first| first.topic,
        |writer, partition| {
            writer.i32(partition.index);
            writer.error(partition.error, partition.topic);
            if version == 0 {
                writer.array_length((partition.offset >= 0).into());
                if partition.offset >= 0 {
                    writer.i64(partition.offset);
                }
                return;
            }
            writer.i64(partition.timestamp);
            writer.i64(partition.offset);
            if version >= 4 {
                writer.i32(partition.leader_epoch);
            }
            writer.tagged_fields_end();
        },
    );
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
    use kafka_protocol::messages::{
        ListOffsetsRequest as Reference, ListOffsetsResponse as ReferenceResponse, TopicName,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    /// From Kafka's definitions: the other implementation has no version with lists.
    #[test]
    fn first_version_asks_for_lists_and_gets_one_offset_or_none() {
        let topic = [0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 7];
        // Replica; a time in partition 7, and at most two offsets.
        let time = [0, 0, 0, 0, 0, 0, 0, 99];
        let request = [&[0xff; 4][..], &topic, &time, &[0, 0, 0, 2]].concat();
        let read = |bytes| ListOffsetsRequest::read(Reader::new(bytes, false), 0);
        let asked = PartitionTime {
            topic: "t",
            index: 7,
            current_leader_epoch: -1,
            at: OffsetSpec::SegmentBefore(99),
        };
        let expected = ListOffsetsRequest { is_read_committed: false, partitions: vec![asked] };
        assert_eq!(read(&request), Ok(expected));
        assert!((0..request.len()).all(|length| read(&request[..length]).is_err()));
        for (offset, list) in [(5, &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5][..]), (-1, &[0, 0, 0, 0])] {
            let error = ErrorCode::None;
            let found = FoundOffset { topic: "t", index: 7, error, timestamp: -1, offset, leader_epoch: -1 };
            let body =
                reference::body(ApiKey::ListOffsets, 0, |writer| write_response(writer, 0, &[found], 9));
            assert_eq!(body, [&topic[..], &[0, 0], list].concat());
            let own = ListOffsetsResponse::read(reference::reader(ApiKey::ListOffsets, 0, &body), 0);
            assert_eq!(own, Ok(ListOffsetsResponse { partitions: vec![found], throttle_time_ms: 0 }));
        }
    }

    #[test]
    fn another_implementation_reads_and_writes_the_same_in_every_version() {
        for version in 1..=9 {
            let partition = |index, timestamp| {
                let partition =
                    ListOffsetsPartition::default().with_partition_index(index).with_timestamp(timestamp);
                if version >= 4 { partition.with_current_leader_epoch(3) } else { partition }
            };
            let topic = ListOffsetsTopic::default()
                .with_name(TopicName(StrBytes::from_static_str("orders")))
                .with_partitions(vec![partition(0, -1), partition(1, -3), partition(2, 1_700_000_000_000)]);
            let mut request = Reference::default().with_replica_id((-1).into()).with_topics(vec![topic]);
            if version >= 2 {
                request = request.with_isolation_level(1);
            }
            let read = |reader: Reader<'_>| {
                let request = ListOffsetsRequest::read(reader, version)?;
                let found = request.partitions.iter().map(|it| (it.topic == "orders", it.index, it.at));
                Ok((request.is_read_committed, found.collect::<Vec<_>>()))
            };
            reference::read_message(
                ApiKey::ListOffsets,
                version,
                &request,
                read,
                |(is_read_committed, found)| {
                    assert_eq!(is_read_committed, version >= 2);
                    let max = if version >= 7 { OffsetSpec::MaxTimestamp } else { OffsetSpec::Unknown };
                    let at = OffsetSpec::At(1_700_000_000_000);
                    assert_eq!(found, [(true, 0, OffsetSpec::Latest), (true, 1, max), (true, 2, at)]);
                },
            );
            let found = [FoundOffset {
                topic: "orders",
                index: 1,
                error: ErrorCode::None,
                timestamp: 5,
                offset: 77,
                leader_epoch: 0,
            }];
            let response: ReferenceResponse = reference::message(ApiKey::ListOffsets, version, |writer| {
                write_response(writer, version, &found, 0);
            });
            let partition = &response.topics[0].partitions[0];
            assert_eq!((partition.partition_index, partition.offset, partition.timestamp), (1, 77, 5));
            let read = |reader: Reader<'_>| {
                let leader_epoch = if version >= 4 { 0 } else { -1 };
                let response = ListOffsetsResponse::read(reader, version)?;
                assert_eq!(response.partitions, found.map(|it| FoundOffset { leader_epoch, ..it }));
                Ok(response.throttle_time_ms)
            };
            reference::read_message(ApiKey::ListOffsets, version, &response, read, |it| assert_eq!(it, 0));
        }
    }

    #[test]
    fn requests_are_read_here_and_by_another_implementation_in_every_version() {
        for version in 1..=9 {
            let at = |topic, index, at| PartitionTime {
                topic,
                index,
                current_leader_epoch: if version >= 4 { 3 } else { -1 },
                at,
            };
            let mut partitions = vec![
                at("orders", 0, OffsetSpec::Latest),
                at("orders", 7, OffsetSpec::Earliest),
                at("payments", 0, OffsetSpec::At(1_700_000_000_000)),
            ];
            if version >= 9 {
                partitions.extend(
                    [OffsetSpec::MaxTimestamp, OffsetSpec::EarliestLocal, OffsetSpec::LatestTiered]
                        .map(|it| at("payments", 1, it)),
                );
            }
            let request = ListOffsetsRequest { is_read_committed: version >= 2, partitions };
            let write = |writer: &mut Writer| request.write(writer, version);
            let read: Reference = reference::message(ApiKey::ListOffsets, version, write);
            assert_eq!((read.replica_id.0, read.isolation_level), (-1, i8::from(version >= 2)));
            let [orders, payments] = &read.topics[..] else { panic!("two topics") };
            assert_eq!((orders.name.as_str(), payments.name.as_str()), ("orders", "payments"));
            let times: Vec<_> =
                orders.partitions.iter().map(|it| (it.partition_index, it.timestamp)).collect();
            assert_eq!(times, [(0, -1), (7, -2)]);
            let body = reference::body(ApiKey::ListOffsets, version, write);
            let reader = reference::reader(ApiKey::ListOffsets, version, &body);
            assert_eq!(ListOffsetsRequest::read(reader, version), Ok(request.clone()));
        }
    }
}
