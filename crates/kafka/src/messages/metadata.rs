//! Metadata, 0 to 12: which topics there are, their partitions, and where their leaders are. There is one broker here.

use crate::ErrorCode;
use crate::fetch::TopicRef;
use crate::read::{Malformed, Reader, Uuid};
use crate::write::Writer;

/// Which topics a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataRequest<'a> {
    /// These; all there are, if `None`.
    pub topics: Option<Vec<TopicRef<'a>>>,
    /// Whether those that are missing are to be created.
    pub allows_creation: bool,
}

/// The one broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broker<'a> {
    /// Its number.
    pub id: i32,
    /// Where clients reach it.
    pub host: &'a str,
    /// The port there.
    pub port: u16,
    /// What the cluster is called.
    pub cluster_id: &'a str,
}

/// What there is to say of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicMetadata<'a> {
    /// The error, if it can't be used.
    pub error: ErrorCode,
    /// Its name; `None` if it was asked for by an id that there is not.
    pub name: Option<&'a str>,
    /// Its id; zero if there is none.
    pub id: Uuid,
    /// How many partitions it has.
    pub partitions: u32,
    /// The epoch of their leader.
    pub leader_epoch: i32,
}

impl<'a> MetadataRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let count = match version {
            // In the first version there is no null, and an empty array is all topics.
            0 => Some(reader.array_length("topics")?).filter(|count| *count > 0),
            _ => reader.nullable_array("topics")?,
        };
        let mut topics = count.map(|_| Vec::new());
        for _ in 0..count.unwrap_or(0) {
            let id = if version >= 10 { reader.uuid("topic id")? } else { Uuid::default() };
            let name = match version >= 10 {
                true => reader.nullable_string("topic")?,
                false => Some(reader.string("topic")?),
            };
            reader.skip_tagged_fields("topic")?;
            let topic = name.map_or(TopicRef::Id(id), TopicRef::Name);
            topics.get_or_insert_default().push(topic);
        }
        let allows_creation = version < 4 || reader.bool("topic creation")?;
        if (8..=10).contains(&version) {
            reader.bool("authorized operations of the cluster")?;
        }
        if version >= 8 {
            reader.bool("authorized operations of topics")?;
        }
        reader.skip_tagged_fields("request")?;
        Ok(Self { topics, allows_creation })
    }
}

/// Writes the response to a request of `version`.
pub fn write_response(
    writer: &mut Writer,
    version: i16,
    broker: &Broker<'_>,
    topics: &[TopicMetadata<'_>],
    throttle_time_ms: i32,
) {
    if version >= 3 {
        writer.i32(throttle_time_ms);
    }
    writer.array_length(1);
    write_broker(writer, broker, version >= 1);
    if version >= 2 {
        writer.nullable_string(Some(broker.cluster_id));
    }
    if version >= 1 {
        writer.i32(broker.id);
    }
    writer.array_length(topics.len());
    for topic in topics {
        writer.i16(topic.error.code());
        match version >= 12 {
            true => writer.nullable_string(topic.name),
            false => writer.string(topic.name.unwrap_or_default()),
        }
        if version >= 10 {
            writer.uuid(&topic.id);
        }
        if version >= 1 {
            writer.bool(false);
        }
        writer.array_length(topic.partitions as usize);
        for index in 0..topic.partitions {
            write_partition(writer, version, broker.id, index.cast_signed(), topic.leader_epoch);
        }
        if version >= 8 {
            writer.i32(NOT_ASKED);
        }
        writer.tagged_fields_end();
    }
    if (8..=10).contains(&version) {
        writer.i32(NOT_ASKED);
    }
    writer.tagged_fields_end();
}

/// Writes the broker as a member of an array.
pub(super) fn write_broker(writer: &mut Writer, broker: &Broker<'_>, has_rack: bool) {
    writer.i32(broker.id);
    writer.string(broker.host);
    writer.i32(broker.port.into());
    if has_rack {
        writer.nullable_string(None);
    }
    writer.tagged_fields_end();
}

fn write_partition(writer: &mut Writer, version: i16, broker: i32, index: i32, leader_epoch: i32) {
    writer.i16(ErrorCode::None.code());
    writer.i32(index);
    writer.i32(broker);
    if version >= 7 {
        writer.i32(leader_epoch);
    }
    // Its replicas, and those that are in sync.
    for _ in 0..2 {
        writer.array_length(1);
        writer.i32(broker);
    }
    if version >= 5 {
        writer.array_length(0);
    }
    writer.tagged_fields_end();
}

/// In place of the operations that a client may do, which it would have to ask for.
pub(super) const NOT_ASKED: i32 = i32::MIN;

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
    use kafka_protocol::messages::{MetadataRequest as Reference, MetadataResponse, TopicName};
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    #[test]
    fn requests_of_another_implementation_are_read_in_every_version() {
        for version in 0..=12 {
            let name = TopicName(StrBytes::from_static_str("orders"));
            let topic = MetadataRequestTopic::default().with_name(Some(name));
            let mut request = Reference::default().with_topics(Some(vec![topic]));
            if version >= 4 {
                request = request.with_allow_auto_topic_creation(false);
            }
            let read = |reader: Reader<'_>| {
                let request = MetadataRequest::read(reader, version)?;
                Ok((request.topics == Some(vec![TopicRef::Name("orders")]), request.allows_creation))
            };
            reference::read_request(ApiKey::Metadata, version, &request, read, |it| {
                assert_eq!(it, (true, version < 4));
            });
            let all = Reference::default().with_topics(if version == 0 { Some(vec![]) } else { None });
            let read = |reader: Reader<'_>| Ok(MetadataRequest::read(reader, version)?.topics.is_none());
            reference::read_request(ApiKey::Metadata, version, &all, read, |it| assert!(it, "{version}"));
        }
    }

    #[test]
    fn responses_are_read_by_another_implementation_in_every_version() {
        let broker = Broker { id: 0, host: "localhost", port: 9092, cluster_id: "namespace" };
        let topics = [
            TopicMetadata {
                error: ErrorCode::None,
                name: Some("orders"),
                id: [5; 16],
                partitions: 3,
                leader_epoch: 1,
            },
            TopicMetadata {
                error: ErrorCode::UnknownTopicOrPartition,
                name: Some("missing"),
                id: Uuid::default(),
                partitions: 0,
                leader_epoch: 0,
            },
        ];
        for version in 0..=12 {
            let response: MetadataResponse = reference::response(ApiKey::Metadata, version, |writer| {
                write_response(writer, version, &broker, &topics, 3);
            });
            assert_eq!((response.brokers[0].host.as_str(), response.brokers[0].port), ("localhost", 9092));
            assert_eq!(response.cluster_id.as_deref(), (version >= 2).then_some("namespace"));
            let [orders, missing] = &response.topics[..] else { panic!("two topics") };
            assert_eq!(orders.name.as_ref().map(|name| name.as_str()), Some("orders"));
            assert_eq!((orders.partitions.len(), missing.error_code), (3, 3));
            let last = &orders.partitions[2];
            assert_eq!((last.partition_index, last.leader_id.0, last.isr_nodes[0].0), (2, 0, 0));
            assert_eq!(last.leader_epoch, if version >= 7 { 1 } else { -1 });
        }
    }
}
