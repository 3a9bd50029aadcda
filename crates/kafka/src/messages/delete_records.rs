//! DeleteRecords, 0 to 2: taking away the beginning of partitions.

use super::by_topic;
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// What a client wants to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRecordsRequest<'a> {
    /// Partitions of one topic stand together.
    pub partitions: Vec<DeletedPrefix<'a>>,
}

/// The beginning of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedPrefix<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition's number.
    pub index: i32,
    /// The offset before which everything goes; -1 is the end.
    pub offset: i64,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedRecords<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition's number.
    pub index: i32,
    /// The offset of the first record that is left; -1 with an error.
    pub low_watermark: i64,
    /// The error.
    pub error: ErrorCode,
}

impl<'a> DeleteRecordsRequest<'a> {
    /// Reads the body of a request of any version.
    pub fn read(mut reader: Reader<'a>) -> Result<Self, Malformed> {
        let partitions = by_topic::read(&mut reader, |reader, topic| {
            let index = reader.i32("partition")?;
            let offset = reader.i64("offset")?;
            reader.skip_tagged_fields("partition")?;
            Ok(DeletedPrefix { topic, index, offset })
        })?;
        reader.i32("timeout")?;
        reader.skip_tagged_fields("request")?;
        Ok(Self { partitions })
    }
}

/// Writes the response to a request of any version. What became of one topic stands together.
pub fn write_response(writer: &mut Writer, deleted: &[DeletedRecords<'_>], throttle_time_ms: i32) {
    writer.i32(throttle_time_ms);
    by_topic::write(
        writer,
        deleted,
        |first| first.topic,
        |writer, partition| {
            writer.i32(partition.index);
            writer.i64(partition.low_watermark);
            writer.error(partition.error, partition.topic);
            writer.tagged_fields_end();
        },
    );
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
    use kafka_protocol::messages::{DeleteRecordsRequest as Reference, DeleteRecordsResponse, TopicName};
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    #[test]
    fn another_implementation_reads_and_writes_the_same_in_every_version() {
        for version in 0..=2 {
            let partition = |index, offset| {
                DeleteRecordsPartition::default().with_partition_index(index).with_offset(offset)
            };
            let topic = DeleteRecordsTopic::default()
                .with_name(TopicName(StrBytes::from_static_str("orders")))
                .with_partitions(vec![partition(0, 700), partition(1, -1)]);
            let request = Reference::default().with_topics(vec![topic]).with_timeout_ms(30_000);
            let read = |reader: Reader<'_>| {
                let request = DeleteRecordsRequest::read(reader)?;
                let found = request.partitions.iter().map(|it| (it.topic == "orders", it.index, it.offset));
                Ok(found.collect::<Vec<_>>())
            };
            reference::read_message(ApiKey::DeleteRecords, version, &request, read, |found| {
                assert_eq!(found, [(true, 0, 700), (true, 1, -1)]);
            });
            let deleted =
                |topic, index, low_watermark, error| DeletedRecords { topic, index, low_watermark, error };
            let deleted = [
                deleted("orders", 0, 700, ErrorCode::None),
                deleted("orders", 1, -1, ErrorCode::OffsetOutOfRange),
                deleted("others", 0, 3, ErrorCode::None),
            ];
            let response: DeleteRecordsResponse =
                reference::message(ApiKey::DeleteRecords, version, |writer| {
                    write_response(writer, &deleted, 5)
                });
            assert_eq!((response.throttle_time_ms, response.topics.len()), (5, 2));
            assert_eq!(response.topics[1].name.as_str(), "others");
            let [first, second] = &response.topics[0].partitions[..] else { panic!("two partitions") };
            assert_eq!((first.partition_index, first.low_watermark, first.error_code), (0, 700, 0));
            assert_eq!((second.partition_index, second.low_watermark, second.error_code), (1, -1, 1));
        }
    }
}
