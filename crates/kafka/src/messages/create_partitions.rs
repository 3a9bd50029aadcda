//! CreatePartitions, 0 to 3: more partitions of topics.

use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// What a client wants to have more of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatePartitionsRequest<'a> {
    /// The topics.
    pub topics: Vec<Growth<'a>>,
    /// Whether the client only wants to know if they could be created.
    pub validate_only: bool,
}

/// A topic that is to have more partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth<'a> {
    /// Its name.
    pub name: &'a str,
    /// How many partitions it is to have in all.
    pub count: i32,
    /// The brokers that are to have each of the new ones; `None` if the broker may decide.
    pub assignments: Option<Vec<Vec<i32>>>,
}

impl<'a> CreatePartitionsRequest<'a> {
    /// Reads the body of a request of any version.
    pub fn read(mut reader: Reader<'a>) -> Result<Self, Malformed> {
        let mut topics = Vec::new();
        for _ in 0..reader.array_length("topics")? {
            let name = reader.string("topic")?;
            let count = reader.i32("number of partitions")?;
            let length = reader.nullable_array("assignments")?;
            let mut assignments = length.map(|_| Vec::new());
            for _ in 0..length.unwrap_or(0) {
                let mut brokers = Vec::new();
                for _ in 0..reader.array_length("brokers")? {
                    brokers.push(reader.i32("broker")?);
                }
                reader.skip_tagged_fields("assignment")?;
                assignments.get_or_insert_default().push(brokers);
            }
            reader.skip_tagged_fields("topic")?;
            topics.push(Growth { name, count, assignments });
        }
        reader.i32("timeout")?;
        let validate_only = reader.bool("validation")?;
        reader.skip_tagged_fields("request")?;
        Ok(Self { topics, validate_only })
    }
}

/// Writes the response to a request of any version: what became of each topic.
pub fn write_response(
    writer: &mut Writer,
    results: &[(&str, ErrorCode, Option<String>)],
    throttle_time_ms: i32,
) {
    writer.i32(throttle_time_ms);
    writer.array_length(results.len());
    for (name, error, message) in results {
        writer.string(name);
        writer.error(*error, name);
        writer.nullable_string(message.as_deref());
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::create_partitions_request::{
        CreatePartitionsAssignment, CreatePartitionsTopic,
    };
    use kafka_protocol::messages::{
        BrokerId, CreatePartitionsRequest as Reference, CreatePartitionsResponse, TopicName,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    #[test]
    fn another_implementation_reads_and_writes_the_same_in_every_version() {
        for version in 0..=3 {
            for assignments in [None, Some(vec![vec![0]])] {
                let assigned = assignments
                    .clone()
                    .map(|_| vec![CreatePartitionsAssignment::default().with_broker_ids(vec![BrokerId(0)])]);
                let topic = CreatePartitionsTopic::default()
                    .with_name(TopicName(StrBytes::from_static_str("orders")))
                    .with_count(8)
                    .with_assignments(assigned);
                let request = Reference::default().with_topics(vec![topic]).with_validate_only(true);
                let expected = Growth { name: "orders", count: 8, assignments };
                let read = |reader: Reader<'_>| {
                    let request = CreatePartitionsRequest::read(reader)?;
                    Ok(request.topics == [expected.clone()] && request.validate_only)
                };
                reference::read_message(ApiKey::CreatePartitions, version, &request, read, |it| assert!(it));
            }
            let response: CreatePartitionsResponse =
                reference::message(ApiKey::CreatePartitions, version, |writer| {
                    let message = Some("fewer".to_owned());
                    write_response(writer, &[("orders", ErrorCode::InvalidPartitions, message)], 0);
                });
            let result = &response.results[0];
            assert_eq!((result.error_code, result.error_message.as_deref()), (37, Some("fewer")));
        }
    }
}
