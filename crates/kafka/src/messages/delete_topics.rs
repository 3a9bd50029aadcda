//! DeleteTopics, 0 to 6.

use crate::ErrorCode;
use crate::fetch::TopicRef;
use crate::read::{Malformed, Reader, Uuid};
use crate::write::Writer;

/// Reads the body of a request of `version`: the topics.
pub fn read<'a>(mut reader: Reader<'a>, version: i16) -> Result<Vec<TopicRef<'a>>, Malformed> {
    let mut topics = Vec::new();
    for _ in 0..reader.array_length("topics")? {
        if version < 6 {
            topics.push(TopicRef::Name(reader.string("topic")?));
            continue;
        }
        let name = reader.nullable_string("topic")?;
        let id = reader.uuid("topic id")?;
        reader.skip_tagged_fields("topic")?;
        topics.push(name.map_or(TopicRef::Id(id), TopicRef::Name));
    }
    reader.i32("timeout")?;
    reader.skip_tagged_fields("request")?;
    Ok(topics)
}

/// A topic that was deleted, or why it was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedTopic {
    /// Its name; `None` if it was named by an id that there is not.
    pub name: Option<String>,
    /// Its id; zero if that is not known.
    pub id: Uuid,
    /// The error.
    pub error: ErrorCode,
    /// What there is to say of it.
    pub message: Option<String>,
}

/// Writes the response to a request of `version`.
pub fn write_response(writer: &mut Writer, version: i16, topics: &[DeletedTopic], throttle_time_ms: i32) {
    if version >= 1 {
        writer.i32(throttle_time_ms);
    }
    writer.array_length(topics.len());
    for topic in topics {
        if version >= 6 {
            writer.nullable_string(topic.name.as_deref());
            writer.uuid(&topic.id);
        } else {
            writer.string(topic.name.as_deref().unwrap_or_default());
        }
        writer.error(topic.error, topic.name.as_deref().unwrap_or_default());
        if version >= 5 {
            writer.nullable_string(topic.message.as_deref());
        }
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
    use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse, TopicName};
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    #[test]
    fn first_version_has_no_throttle_time() {
        let deleted = DeletedTopic {
            name: Some("t".to_owned()),
            id: Uuid::default(),
            error: ErrorCode::UnknownTopicOrPartition,
            message: None,
        };
        let write = |writer: &mut Writer| write_response(writer, 0, std::slice::from_ref(&deleted), 9);
        let body = reference::body(ApiKey::DeleteTopics, 0, write);
        assert_eq!(body, [0, 0, 0, 1, 0, 1, b't', 0, 3]);
    }

    #[test]
    fn another_implementation_reads_and_writes_the_same_in_every_version() {
        for version in 1..=6 {
            let name = || TopicName(StrBytes::from_static_str("orders"));
            let id = "05050505-0505-0505-0505-050505050505".parse().unwrap();
            let (request, expected) = match version >= 6 {
                true => {
                    let by_name = DeleteTopicState::default().with_name(Some(name()));
                    let by_id = DeleteTopicState::default().with_topic_id(id);
                    let request = DeleteTopicsRequest::default().with_topics(vec![by_name, by_id]);
                    (request, vec![TopicRef::Name("orders"), TopicRef::Id([5; 16])])
                }
                false => {
                    let request = DeleteTopicsRequest::default().with_topic_names(vec![name()]);
                    (request, vec![TopicRef::Name("orders")])
                }
            };
            let read = |reader: Reader<'_>| Ok(read(reader, version)? == expected);
            reference::read_message(ApiKey::DeleteTopics, version, &request, read, |it| assert!(it));
            let topic = DeletedTopic {
                name: Some("orders".to_owned()),
                id: [5; 16],
                error: ErrorCode::UnknownTopicOrPartition,
                message: Some("none".to_owned()),
            };
            let response: DeleteTopicsResponse =
                reference::message(ApiKey::DeleteTopics, version, |writer| {
                    write_response(writer, version, &[topic], 0);
                });
            let topic = &response.responses[0];
            assert_eq!(
                (topic.name.as_ref().map(|name| name.as_str()), topic.error_code),
                (Some("orders"), 3)
            );
            assert_eq!(topic.error_message.as_deref(), (version >= 5).then_some("none"));
        }
    }
}
