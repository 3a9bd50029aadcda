//! CreateTopics, 0 to 7.

use super::configs::ConfigEntry;
use crate::ErrorCode;
use crate::read::{Malformed, Reader, Uuid};
use crate::write::Writer;

/// What a client wants to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTopicsRequest<'a> {
    /// The topics.
    pub topics: Vec<NewTopic<'a>>,
    /// Whether the client only wants to know if they could be created.
    pub validate_only: bool,
}

/// A topic that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic<'a> {
    /// Its name.
    pub name: &'a str,
    /// How many partitions; -1 for as many as the broker likes, or as are assigned.
    pub partitions: i32,
    /// How many replicas of each; -1 for as many as the broker likes, or as are assigned.
    pub replication_factor: i16,
    /// Partitions, and the brokers that are to have them; empty if the broker may decide.
    pub assignments: Vec<(i32, Vec<i32>)>,
    /// Names and values.
    pub configs: Vec<(&'a str, Option<&'a str>)>,
}

/// A topic that was created, or why it was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTopic<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it is.
    pub result: Result<TopicShape, (ErrorCode, Option<String>)>,
}

/// What a topic is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicShape {
    /// Its id; zero if it was not really created.
    pub id: Uuid,
    /// How many partitions it has.
    pub partitions: i32,
    /// How many replicas each has.
    pub replication_factor: i16,
    /// Its configuration.
    pub configs: Vec<ConfigEntry>,
}

impl<'a> CreateTopicsRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let mut topics = Vec::new();
        for _ in 0..reader.array_length("topics")? {
            topics.push(NewTopic::read(&mut reader)?);
        }
        reader.i32("timeout")?;
        let validate_only = version >= 1 && reader.bool("validation")?;
        reader.skip_tagged_fields("request")?;
        Ok(Self { topics, validate_only })
    }
}

impl<'a> NewTopic<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let name = reader.string("topic")?;
        let partitions = reader.i32("number of partitions")?;
        let replication_factor = reader.i16("number of replicas")?;
        let mut assignments = Vec::new();
        for _ in 0..reader.array_length("assignments")? {
            let index = reader.i32("partition")?;
            let mut brokers = Vec::new();
            for _ in 0..reader.array_length("brokers")? {
                brokers.push(reader.i32("broker")?);
            }
            reader.skip_tagged_fields("assignment")?;
            assignments.push((index, brokers));
        }
        let mut configs = Vec::new();
        for _ in 0..reader.array_length("configs")? {
            configs.push((reader.string("config")?, reader.nullable_string("value")?));
            reader.skip_tagged_fields("config")?;
        }
        reader.skip_tagged_fields("topic")?;
        Ok(Self { name, partitions, replication_factor, assignments, configs })
    }
}

/// Writes the response to a request of `version`.
pub fn write_response(writer: &mut Writer, version: i16, topics: &[CreatedTopic<'_>], throttle_time_ms: i32) {
    if version >= 2 {
        writer.i32(throttle_time_ms);
    }
    writer.array_length(topics.len());
    for topic in topics {
        let (shape, error, message) = match &topic.result {
            Ok(shape) => (Some(shape), ErrorCode::None, None),
            Err((error, message)) => (None, *error, message.as_deref()),
        };
        writer.string(topic.name);
        if version >= 7 {
            writer.uuid(&shape.map(|shape| shape.id).unwrap_or_default());
        }
        writer.error(error, topic.name);
        if version >= 1 {
            writer.nullable_string(message);
        }
        if version >= 5 {
            writer.i32(shape.map_or(-1, |shape| shape.partitions));
            writer.i16(shape.map_or(-1, |shape| shape.replication_factor));
            // Never null, which clients written in Java fall over.
            let configs = shape.map_or(&[][..], |shape| &shape.configs);
            writer.array_length(configs.len());
            for config in configs {
                writer.string(config.name);
                writer.nullable_string(Some(&config.value));
                writer.bool(config.is_read_only);
                writer.i8(config.source.number());
                writer.bool(false);
                writer.tagged_fields_end();
            }
        }
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::create_topics_request::{
        CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
    };
    use kafka_protocol::messages::{
        BrokerId, CreateTopicsRequest as Reference, CreateTopicsResponse, TopicName,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::configs::{ConfigSource, ConfigType};
    use crate::messages::reference;

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    /// From Kafka's definitions: the other implementation has no version without messages.
    #[test]
    fn oldest_versions_have_no_validation_and_no_messages() {
        let topic = [0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let timeout = [0, 0, 0, 9];
        let answer = [0, 0, 0, 1, 0, 1, b't', 0, 36];
        for (version, validates, message) in [(0, &[][..], &[][..]), (1, &[1], &[0, 1, b'x'])] {
            let request = [&topic[..], &timeout, validates].concat();
            let read = |bytes| CreateTopicsRequest::read(Reader::new(bytes, false), version);
            let found = read(&request).unwrap();
            assert_eq!((found.topics[0].name, found.topics[0].partitions), ("t", 3));
            assert_eq!(found.validate_only, version == 1);
            assert!((0..request.len()).all(|length| read(&request[..length]).is_err()));
            let result = Err((ErrorCode::TopicAlreadyExists, Some("x".to_owned())));
            let written = reference::body(ApiKey::CreateTopics, version, |writer| {
                write_response(writer, version, &[CreatedTopic { name: "t", result }], 9);
            });
            assert_eq!(written, [&answer[..], message].concat());
        }
    }

    #[test]
    fn requests_of_another_implementation_are_read_in_every_version() {
        for version in 2..=7 {
            let assignment = CreatableReplicaAssignment::default()
                .with_partition_index(3)
                .with_broker_ids(vec![BrokerId(0)]);
            let config =
                CreatableTopicConfig::default().with_name(text("retention.ms")).with_value(Some(text("7")));
            let none = CreatableTopicConfig::default().with_name(text("none")).with_value(None);
            let topic = CreatableTopic::default()
                .with_name(TopicName(text("orders")))
                .with_num_partitions(4)
                .with_replication_factor(1)
                .with_assignments(vec![assignment])
                .with_configs(vec![config, none]);
            let request = Reference::default().with_topics(vec![topic]).with_validate_only(true);
            let expected = NewTopic {
                name: "orders",
                partitions: 4,
                replication_factor: 1,
                assignments: vec![(3, vec![0])],
                configs: vec![("retention.ms", Some("7")), ("none", None)],
            };
            let read = |reader: Reader<'_>| {
                let request = CreateTopicsRequest::read(reader, version)?;
                Ok((request.topics == [expected.clone()], request.validate_only))
            };
            reference::read_message(ApiKey::CreateTopics, version, &request, read, |it| {
                assert_eq!(it, (true, true), "{version}");
            });
        }
    }

    #[test]
    fn responses_are_read_by_another_implementation_in_every_version() {
        let config = ConfigEntry {
            name: "retention.ms",
            value: "7".into(),
            is_read_only: false,
            source: ConfigSource::Topic,
            kind: ConfigType::Long,
            documentation: "",
        };
        let shape = TopicShape { id: [5; 16], partitions: 4, replication_factor: 1, configs: vec![config] };
        let refused = Err((ErrorCode::TopicAlreadyExists, Some("it is there".to_owned())));
        let topics = [
            CreatedTopic { name: "orders", result: Ok(shape) },
            CreatedTopic { name: "old", result: refused },
        ];
        for version in 2..=7 {
            let response: CreateTopicsResponse =
                reference::message(ApiKey::CreateTopics, version, |writer| {
                    write_response(writer, version, &topics, 3);
                });
            let [orders, old] = &response.topics[..] else { panic!("two topics") };
            assert_eq!((orders.name.as_str(), orders.error_code), ("orders", 0));
            assert_eq!((old.error_code, old.error_message.as_deref()), (36, Some("it is there")));
            if version >= 5 {
                assert_eq!((orders.num_partitions, orders.replication_factor), (4, 1));
                let configs = orders.configs.as_ref().unwrap();
                assert_eq!(
                    (configs[0].name.as_str(), configs[0].value.as_deref(), configs[0].config_source),
                    ("retention.ms", Some("7"), 1)
                );
                assert_eq!(old.configs.as_deref(), Some(&[][..]));
            }
            if version >= 7 {
                assert_eq!(orders.topic_id.into_bytes(), [5; 16]);
            }
        }
    }
}
