//! DescribeProducers, 0: who has written to partitions, and which transactions are open there. Operators find by it what keeps
//! readers of committed records waiting.

use super::by_topic;
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// The partitions that a client asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeProducersRequest<'a> {
    /// Topic and number. Partitions of one topic stand together.
    pub partitions: Vec<(&'a str, i32)>,
}

/// The producers of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducersOfPartition<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition's number.
    pub index: i32,
    /// The error.
    pub error: ErrorCode,
    /// Those that are known.
    pub producers: Vec<ActiveProducer>,
}

/// A producer that is known in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveProducer {
    /// Its id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// The sequence of its last record; -1 if there is none.
    pub last_sequence: i32,
    /// When it has written last, in milliseconds since 1970.
    pub last_timestamp: i64,
    /// The epoch of the coordinator that has ended its last transaction; -1 if none has.
    pub coordinator_epoch: i32,
    /// The first offset of the transaction that it has open; -1 if it has none.
    pub transaction_start: i64,
}

impl<'a> DescribeProducersRequest<'a> {
    /// Reads the body of a request.
    pub fn read(mut reader: Reader<'a>) -> Result<Self, Malformed> {
        let partitions = by_topic::read(&mut reader, |reader, topic| Ok((topic, reader.i32("partition")?)))?;
        reader.skip_tagged_fields("request")?;
        Ok(Self { partitions })
    }
}

/// Writes the response. The partitions of one topic stand together.
pub fn write_response(writer: &mut Writer, described: &[ProducersOfPartition<'_>], throttle_time_ms: i32) {
    writer.i32(throttle_time_ms);
    by_topic::write(
        writer,
        described,
        |first| first.topic,
        |writer, partition| {
            writer.i32(partition.index);
            writer.error(partition.error, partition.topic);
            writer.nullable_string(None);
            writer.array_length(partition.producers.len());
            for producer in &partition.producers {
                writer.i64(producer.id);
                writer.i32(producer.epoch.into());
                writer.i32(producer.last_sequence);
                writer.i64(producer.last_timestamp);
                writer.i32(producer.coordinator_epoch);
                writer.i64(producer.transaction_start);
                writer.tagged_fields_end();
            }
            writer.tagged_fields_end();
        },
    );
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::describe_producers_request::TopicRequest;
    use kafka_protocol::messages::{
        DescribeProducersRequest as Reference, DescribeProducersResponse, TopicName,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    #[test]
    fn another_implementation_reads_and_writes_the_same() {
        let topic = TopicRequest::default()
            .with_name(TopicName(StrBytes::from_static_str("orders")))
            .with_partition_indexes(vec![4, 5]);
        let request = Reference::default().with_topics(vec![topic]);
        let read = |reader: Reader<'_>| {
            let request = DescribeProducersRequest::read(reader)?;
            let found = request.partitions.iter().map(|(topic, index)| (*topic == "orders", *index));
            Ok(found.collect::<Vec<_>>())
        };
        reference::read_message(ApiKey::DescribeProducers, 0, &request, read, |found| {
            assert_eq!(found, [(true, 4), (true, 5)]);
        });
        let producer = ActiveProducer {
            id: 77,
            epoch: 3,
            last_sequence: 9,
            last_timestamp: 1_700_000_000_000,
            coordinator_epoch: 2,
            transaction_start: 640,
        };
        let partition =
            |index, error, producers| ProducersOfPartition { topic: "orders", index, error, producers };
        let described = [
            partition(4, ErrorCode::None, vec![producer, producer]),
            partition(5, ErrorCode::UnknownTopicOrPartition, Vec::new()),
        ];
        let response: DescribeProducersResponse =
            reference::message(ApiKey::DescribeProducers, 0, |writer| write_response(writer, &described, 0));
        let [first, second] = &response.topics[0].partitions[..] else { panic!("two partitions") };
        let found = &first.active_producers[1];
        assert_eq!((found.producer_id.0, found.producer_epoch, found.last_sequence), (77, 3, 9));
        assert_eq!((found.last_timestamp, found.coordinator_epoch), (1_700_000_000_000, 2));
        assert_eq!((found.current_txn_start_offset, first.active_producers.len()), (640, 2));
        assert_eq!((second.partition_index, second.error_code, second.active_producers.len()), (5, 3, 0));
    }
}
