//! DescribeLogDirs, 0 to 4: how much partitions hold. There is one directory here.

use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// Topics with the numbers of partitions; `None` for all there are.
pub type AskedTopics<'a> = Option<Vec<(&'a str, Vec<i32>)>>;

/// Reads the body of a request of any version.
pub fn read<'a>(mut reader: Reader<'a>) -> Result<AskedTopics<'a>, Malformed> {
    let length = reader.nullable_array("topics")?;
    let mut topics = length.map(|_| Vec::new());
    for _ in 0..length.unwrap_or(0) {
        let topic = reader.string("topic")?;
        let mut partitions = Vec::new();
        for _ in 0..reader.array_length("partitions")? {
            partitions.push(reader.i32("partition")?);
        }
        reader.skip_tagged_fields("topic")?;
        topics.get_or_insert_default().push((topic, partitions));
    }
    reader.skip_tagged_fields("request")?;
    Ok(topics)
}

/// A topic, and the numbers and sizes in bytes of its partitions.
pub type TopicSizes = (String, Vec<(i32, i64)>);

/// Writes the response to a request of `version`: what there is in the one directory, or why that is not told.
pub fn write_response(
    writer: &mut Writer,
    version: i16,
    log_dir: &str,
    sizes: Result<&[TopicSizes], ErrorCode>,
    throttle_time_ms: i32,
) {
    writer.i32(throttle_time_ms);
    if version >= 3 {
        writer.error(sizes.err().unwrap_or(ErrorCode::None), "");
    }
    let Ok(topics) = sizes else {
        writer.array_length(0);
        writer.tagged_fields_end();
        return;
    };
    writer.array_length(1);
    writer.i16(ErrorCode::None.code());
    writer.string(log_dir);
    writer.array_length(topics.len());
    for (topic, partitions) in topics {
        writer.string(topic);
        writer.array_length(partitions.len());
        for (index, size) in partitions {
            writer.i32(*index);
            writer.i64(*size);
            // How far it is behind, and whether it is about to take another one's place.
            writer.i64(0);
            writer.bool(false);
            writer.tagged_fields_end();
        }
        writer.tagged_fields_end();
    }
    if version >= 4 {
        // The room that there is, and that is left: not known.
        writer.i64(-1);
        writer.i64(-1);
    }
    writer.tagged_fields_end();
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
    use kafka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse, TopicName};
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    #[test]
    fn another_implementation_reads_and_writes_the_same_in_every_version() {
        for version in 1..=4 {
            for expected in [None, Some(vec![("orders", vec![3])])] {
                let topics = expected.clone().map(|_| {
                    let name = TopicName(StrBytes::from_static_str("orders"));
                    vec![DescribableLogDirTopic::default().with_topic(name).with_partitions(vec![3])]
                });
                let request = DescribeLogDirsRequest::default().with_topics(topics);
                let read = |reader: Reader<'_>| Ok(read(reader)? == expected);
                reference::read_message(ApiKey::DescribeLogDirs, version, &request, read, |it| assert!(it));
            }
            let sizes = [("orders".to_owned(), vec![(3, 500)])];
            let response: DescribeLogDirsResponse =
                reference::message(ApiKey::DescribeLogDirs, version, |writer| {
                    write_response(writer, version, "memory", Ok(&sizes), 0);
                });
            let directory = &response.results[0];
            assert_eq!(directory.log_dir.as_str(), "memory");
            let partition = &directory.topics[0].partitions[0];
            assert_eq!((partition.partition_index, partition.partition_size), (3, 500));
            let response: DescribeLogDirsResponse =
                reference::message(ApiKey::DescribeLogDirs, version, |writer| {
                    let refused = Err(ErrorCode::ClusterAuthorizationFailed);
                    write_response(writer, version, "memory", refused, 0);
                });
            assert_eq!(response.error_code, if version >= 3 { 31 } else { 0 });
        }
    }
}
