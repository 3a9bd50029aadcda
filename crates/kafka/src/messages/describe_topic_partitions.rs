//! DescribeTopicPartitions, 0: the partitions of topics, a page at a time.

use super::metadata::TopicMetadata;
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// What a client wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeTopicPartitionsRequest<'a> {
    /// The names of the topics; all there are, if it is empty.
    pub topics: Vec<&'a str>,
    /// How many partitions an answer may have.
    pub partition_limit: i32,
    /// Where the answer before this one has ended: the topic and the partition to begin with.
    pub cursor: Option<(&'a str, i32)>,
}

impl<'a> DescribeTopicPartitionsRequest<'a> {
    /// Reads the body of a request.
    pub fn read(mut reader: Reader<'a>) -> Result<Self, Malformed> {
        let mut topics = Vec::new();
        for _ in 0..reader.array_length("topics")? {
            topics.push(reader.string("topic")?);
            reader.skip_tagged_fields("topic")?;
        }
        let partition_limit = reader.i32("partition limit")?;
        let cursor = match reader.i8("cursor")? {
            ..0 => None,
            _ => {
                let cursor = (reader.string("topic of the cursor")?, reader.i32("partition of the cursor")?);
                reader.skip_tagged_fields("cursor")?;
                Some(cursor)
            }
        };
        reader.skip_tagged_fields("request")?;
        Ok(Self { topics, partition_limit, cursor })
    }
}

/// A topic, and those of its partitions that are on this page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicPage<'a> {
    /// The topic.
    pub topic: TopicMetadata<'a>,
    /// The first of its partitions here.
    pub first: u32,
    /// The one after the last.
    pub end: u32,
}

/// Writes the response: a page, and where the next one begins, if there is one.
pub fn write_response(
    writer: &mut Writer,
    broker: i32,
    topics: &[TopicPage<'_>],
    next: Option<(&str, i32)>,
    throttle_time_ms: i32,
) {
    writer.i32(throttle_time_ms);
    writer.array_length(topics.len());
    for TopicPage { topic, first, end } in topics {
        writer.error(topic.error, topic.name.unwrap_or_default());
        writer.nullable_string(topic.name);
        writer.uuid(&topic.id);
        writer.bool(false);
        writer.array_length(end.saturating_sub(*first) as usize);
        for index in *first..*end {
            writer.i16(ErrorCode::None.code());
            writer.i32(index.cast_signed());
            writer.i32(broker);
            writer.i32(topic.leader_epoch);
            // Its replicas, and those that are in sync.
            for _ in 0..2 {
                writer.array_length(1);
                writer.i32(broker);
            }
            // Those that may lead besides, that last could, and that are offline: none, and never null, which clients written
            // in Java fall over.
            for _ in 0..3 {
                writer.array_length(0);
            }
            writer.tagged_fields_end();
        }
        topic.operations.write(writer);
        writer.tagged_fields_end();
    }
    match next {
        None => writer.i8(-1),
        Some((topic, partition)) => {
            writer.i8(1);
            writer.string(topic);
            writer.i32(partition);
            writer.tagged_fields_end();
        }
    }
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
    use kafka_protocol::messages::{
        DescribeTopicPartitionsRequest as Reference, DescribeTopicPartitionsResponse, TopicName,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::authorized_operations::AuthorizedOperations;
    use crate::messages::reference;

    #[test]
    fn another_implementation_reads_and_writes_the_same() {
        let name = || TopicName(StrBytes::from_static_str("orders"));
        let key = ApiKey::DescribeTopicPartitions;
        for cursor in [None, Some(("orders", 7))] {
            let at = cursor.map(|_| Cursor::default().with_topic_name(name()).with_partition_index(7));
            let request = Reference::default()
                .with_topics(vec![TopicRequest::default().with_name(name())])
                .with_response_partition_limit(9)
                .with_cursor(at);
            let expected =
                DescribeTopicPartitionsRequest { topics: vec!["orders"], partition_limit: 9, cursor };
            let read = |reader: Reader<'_>| Ok(DescribeTopicPartitionsRequest::read(reader)? == expected);
            reference::read_message(key, 0, &request, read, |it| assert!(it));
        }
        let topic = TopicMetadata {
            error: ErrorCode::None,
            name: Some("orders"),
            id: [5; 16],
            partitions: 9,
            leader_epoch: 0,
            operations: AuthorizedOperations::READ,
        };
        for next in [None, Some(("orders", 5))] {
            let response: DescribeTopicPartitionsResponse = reference::message(key, 0, |writer| {
                write_response(writer, 0, &[TopicPage { topic, first: 3, end: 5 }], next, 0);
            });
            let partitions = &response.topics[0].partitions;
            assert_eq!(response.topics[0].topic_authorized_operations, 8);
            let indices: Vec<_> = partitions.iter().map(|partition| partition.partition_index).collect();
            assert_eq!(indices, [3, 4]);
            assert_eq!(partitions[0].eligible_leader_replicas.as_deref(), Some(&[][..]));
            assert_eq!(response.next_cursor.map(|next| next.partition_index), next.map(|(_, index)| index));
        }
    }
}
