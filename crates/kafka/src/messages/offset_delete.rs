//! OffsetDelete 0: a group forgets how far it has come.

use super::by_topic;
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// Which offsets of a group are to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetDeleteRequest<'a> {
    /// The group.
    pub group_id: &'a str,
    /// Topics with the numbers of partitions. Those of one topic stand together.
    pub partitions: Vec<(&'a str, i32)>,
}

impl<'a> OffsetDeleteRequest<'a> {
    /// Reads the body of a request of the only version.
    pub fn read(mut reader: Reader<'a>) -> Result<Self, Malformed> {
        let group_id = reader.string("group")?;
        let partitions = by_topic::read(&mut reader, |reader, topic| Ok((topic, reader.i32("partition")?)))?;
        Ok(Self { group_id, partitions })
    }

    /// Writes the response: what became of each, or why nothing was done.
    pub fn write_response(
        &self,
        writer: &mut Writer,
        results: Result<&[ErrorCode], ErrorCode>,
        throttle_time_ms: i32,
    ) {
        writer.error(results.err().unwrap_or(ErrorCode::None), self.group_id);
        writer.i32(throttle_time_ms);
        let Ok(errors) = results else {
            writer.array_length(0);
            return;
        };
        let mut errors = errors.iter();
        by_topic::write(
            writer,
            &self.partitions,
            |first| first.0,
            |writer, (topic, index)| {
                writer.i32(*index);
                writer.error(errors.next().copied().unwrap_or(ErrorCode::None), topic);
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::offset_delete_request::{
        OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
    };
    use kafka_protocol::messages::{
        GroupId, OffsetDeleteRequest as ReferenceDelete, OffsetDeleteResponse, TopicName,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    #[test]
    fn offsets_are_deleted() {
        let partition = OffsetDeleteRequestPartition::default().with_partition_index(7);
        let topic = OffsetDeleteRequestTopic::default()
            .with_name(TopicName(text("orders")))
            .with_partitions(vec![partition]);
        let request =
            ReferenceDelete::default().with_group_id(GroupId(text("group"))).with_topics(vec![topic]);
        let read = |reader: Reader<'_>| {
            let it = OffsetDeleteRequest::read(reader)?;
            Ok((it.group_id == "group", it.partitions == [("orders", 7)]))
        };
        reference::read_message(ApiKey::OffsetDelete, 0, &request, read, |it| assert_eq!(it, (true, true)));
        let request = OffsetDeleteRequest { group_id: "group", partitions: vec![("orders", 7)] };
        let response: OffsetDeleteResponse = reference::message(ApiKey::OffsetDelete, 0, |writer| {
            request.write_response(writer, Ok(&[ErrorCode::GroupSubscribedToTopic]), 0);
        });
        assert_eq!(response.topics[0].partitions[0].error_code, 86);
        let response: OffsetDeleteResponse = reference::message(ApiKey::OffsetDelete, 0, |writer| {
            request.write_response(writer, Err(ErrorCode::GroupIdNotFound), 0);
        });
        assert_eq!((response.error_code, response.topics.len()), (69, 0));
    }
}
