//! Metadata, 0 to 12: which topics there are, their partitions, and where their leaders are. The service here is one broker; a
//! client may find more.

use super::authorized_operations::AuthorizedOperations;
use crate::ErrorCode;
use crate::fetch::TopicRef;
use crate::read::{Malformed, Reader, Uuid};
use crate::write::Writer;

/// Which topics a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataRequest<'a> {
    /// These; all there are, if `None`.
    pub topics: Option<Vec<TopicRef<'a>>>,
    /// Whether those that are missing are to be created.
    pub allows_creation: bool,
    /// Whether it asks what it may do with the cluster.
    pub asks_cluster_operations: bool,
    /// Whether it asks what it may do with each topic.
    pub asks_topic_operations: bool,
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
    /// What the client may do with it.
    pub operations: AuthorizedOperations,
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
        let has_cluster = (8..=10).contains(&version);
        let asks_cluster_operations = has_cluster && reader.bool("authorized operations of the cluster")?;
        let asks_topic_operations = version >= 8 && reader.bool("authorized operations of topics")?;
        reader.skip_tagged_fields("request")?;
        Ok(Self { topics, allows_creation, asks_cluster_operations, asks_topic_operations })
    }

    /// Writes the body of a request of `version`. Topics are asked for by id since version 12; before version 4 those that are
    /// missing may be created whatever is said here; and in version 0 no topics are all topics.
    pub fn write(&self, writer: &mut Writer, version: i16) {
        match &self.topics {
            None if version == 0 => writer.array_length(0),
            topics => writer.nullable_array_length(topics.as_ref().map(Vec::len)),
        }
        for topic in self.topics.iter().flatten() {
            let (id, name) = match topic {
                TopicRef::Name(name) => (Uuid::default(), Some(*name)),
                TopicRef::Id(id) => (*id, None),
            };
            if version >= 10 {
                writer.uuid(&id);
                writer.nullable_string(name);
            } else {
                writer.string(name.unwrap_or_default());
            }
            writer.tagged_fields_end();
        }
        if version >= 4 {
            writer.bool(self.allows_creation);
        }
        if (8..=10).contains(&version) {
            writer.bool(self.asks_cluster_operations);
        }
        if version >= 8 {
            writer.bool(self.asks_topic_operations);
        }
        writer.tagged_fields_end();
    }
}

/// What a client learns of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataResponse<'a> {
    /// Where the brokers are.
    pub brokers: Vec<BrokerAddress<'a>>,
    /// What the cluster is called.
    pub cluster_id: Option<&'a str>,
    /// The broker that takes changes of topics; -1 if that is not known.
    pub controller_id: i32,
    /// The topics that were asked for.
    pub topics: Vec<FoundTopic<'a>>,
    /// How many milliseconds to wait before the next request.
    pub throttle_time_ms: i32,
}

/// Where a broker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerAddress<'a> {
    /// Its number.
    pub id: i32,
    /// The host.
    pub host: &'a str,
    /// The port there.
    pub port: u16,
}

/// What a client learns of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundTopic<'a> {
    /// The error, if it can't be used.
    pub error: ErrorCode,
    /// Its name; `None` if it was asked for by an id that there is not.
    pub name: Option<&'a str>,
    /// Its id; zero if there is none.
    pub id: Uuid,
    /// Whether it is one of the brokers' own.
    pub is_internal: bool,
    /// Its partitions, in any order.
    pub partitions: Vec<FoundPartition>,
}

/// What a client learns of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundPartition {
    /// The error, if it can't be used.
    pub error: ErrorCode,
    /// Its number.
    pub index: i32,
    /// The broker to write to and to read from; -1 if there is none at the moment.
    pub leader_id: i32,
    /// Which of its leaders this is; -1 if that is not known.
    pub leader_epoch: i32,
}

impl<'a> MetadataResponse<'a> {
    /// Reads the body of the response to a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let throttle_time_ms = if version >= 3 { reader.i32("throttle time")? } else { 0 };
        let mut brokers = Vec::new();
        for _ in 0..reader.array_length("brokers")? {
            brokers.push(BrokerAddress::read(&mut reader, version >= 1)?);
        }
        let cluster_id = if version >= 2 { reader.nullable_string("cluster id")? } else { None };
        let controller_id = if version >= 1 { reader.i32("controller")? } else { -1 };
        let mut topics = Vec::new();
        for _ in 0..reader.array_length("topics")? {
            topics.push(FoundTopic::read(&mut reader, version)?);
        }
        if (8..=10).contains(&version) {
            reader.i32("authorized operations of the cluster")?;
        }
        reader.skip_tagged_fields("response")?;
        Ok(Self { brokers, cluster_id, controller_id, topics, throttle_time_ms })
    }
}

impl<'a> BrokerAddress<'a> {
    fn read(reader: &mut Reader<'a>, has_rack: bool) -> Result<Self, Malformed> {
        let (id, host) = (reader.i32("broker")?, reader.string("host of a broker")?);
        let port = reader.i32("port of a broker")?;
        if has_rack {
            reader.nullable_string("rack of a broker")?;
        }
        reader.skip_tagged_fields("broker")?;
        let port = u16::try_from(port).map_err(|_no_port| Malformed("port of a broker"))?;
        Ok(Self { id, host, port })
    }
}

impl<'a> FoundTopic<'a> {
    fn read(reader: &mut Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let error = ErrorCode::of(reader.i16("error of a topic")?);
        let name = match version >= 12 {
            true => reader.nullable_string("topic")?,
            false => Some(reader.string("topic")?),
        };
        let id = if version >= 10 { reader.uuid("topic id")? } else { Uuid::default() };
        let is_internal = version >= 1 && reader.bool("kind of topic")?;
        let mut partitions = Vec::new();
        for _ in 0..reader.array_length("partitions")? {
            partitions.push(FoundPartition::read(reader, version)?);
        }
        if version >= 8 {
            reader.i32("authorized operations of a topic")?;
        }
        reader.skip_tagged_fields("topic")?;
        Ok(Self { error, name, id, is_internal, partitions })
    }
}

impl FoundPartition {
    fn read(reader: &mut Reader<'_>, version: i16) -> Result<Self, Malformed> {
        let error = ErrorCode::of(reader.i16("error of a partition")?);
        let (index, leader_id) = (reader.i32("partition")?, reader.i32("leader")?);
        let leader_epoch = if version >= 7 { reader.i32("leader epoch")? } else { -1 };
        let lists = if version >= 5 { 3 } else { 2 };
        for what in ["replicas", "replicas in sync", "replicas offline"].into_iter().take(lists) {
            let count = reader.array_length(what)?;
            reader.take(count.saturating_mul(size_of::<i32>()), what)?;
        }
        reader.skip_tagged_fields("partition")?;
        Ok(Self { error, index, leader_id, leader_epoch })
    }
}

/// Writes the response to a request of `version`. `operations` is what the client may do with the cluster.
pub fn write_response(
    writer: &mut Writer,
    version: i16,
    broker: &Broker<'_>,
    topics: &[TopicMetadata<'_>],
    operations: AuthorizedOperations,
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
        writer.error(topic.error, topic.name.unwrap_or_default());
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
            topic.operations.write(writer);
        }
        writer.tagged_fields_end();
    }
    if (8..=10).contains(&version) {
        operations.write(writer);
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

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
    use kafka_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use kafka_protocol::messages::{
        MetadataRequest as Reference, MetadataResponse as ReferenceResponse, TopicName,
    };
    use kafka_protocol::protocol::{Encodable as _, StrBytes};

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
            reference::read_message(ApiKey::Metadata, version, &request, read, |it| {
                assert_eq!(it, (true, version < 4));
            });
            let all = Reference::default().with_topics(if version == 0 { Some(vec![]) } else { None });
            let read = |reader: Reader<'_>| Ok(MetadataRequest::read(reader, version)?.topics.is_none());
            reference::read_message(ApiKey::Metadata, version, &all, read, |it| assert!(it, "{version}"));
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
                operations: AuthorizedOperations::READ.and(AuthorizedOperations::WRITE),
            },
            TopicMetadata {
                error: ErrorCode::UnknownTopicOrPartition,
                name: Some("missing"),
                id: Uuid::default(),
                partitions: 0,
                leader_epoch: 0,
                operations: AuthorizedOperations::NOT_ASKED,
            },
        ];
        for version in 0..=12 {
            let response: ReferenceResponse = reference::message(ApiKey::Metadata, version, |writer| {
                write_response(writer, version, &broker, &topics, AuthorizedOperations::CREATE, 3);
            });
            assert_eq!((response.brokers[0].host.as_str(), response.brokers[0].port), ("localhost", 9092));
            assert_eq!(response.cluster_id.as_deref(), (version >= 2).then_some("namespace"));
            let [orders, missing] = &response.topics[..] else { panic!("two topics") };
            assert_eq!(orders.name.as_ref().map(|name| name.as_str()), Some("orders"));
            assert_eq!((orders.partitions.len(), missing.error_code), (3, 3));
            let operations = (orders.topic_authorized_operations, missing.topic_authorized_operations);
            assert_eq!(operations, if version >= 8 { (24, i32::MIN) } else { (i32::MIN, i32::MIN) });
            let cluster = response.cluster_authorized_operations;
            assert_eq!(cluster, if (8..=10).contains(&version) { 32 } else { i32::MIN });
            let last = &orders.partitions[2];
            assert_eq!((last.partition_index, last.leader_id.0, last.isr_nodes[0].0), (2, 0, 0));
            assert_eq!(last.leader_epoch, if version >= 7 { 1 } else { -1 });
            let read = |reader: Reader<'_>| {
                let read = MetadataResponse::read(reader, version)?;
                assert_eq!(read, expected_response(version));
                Ok(())
            };
            reference::read_message(ApiKey::Metadata, version, &response, read, |()| {});
        }
    }

    /// What a client reads of the response above.
    fn expected_response(version: i16) -> MetadataResponse<'static> {
        let partition = |index| FoundPartition {
            error: ErrorCode::None,
            index,
            leader_id: 0,
            leader_epoch: if version >= 7 { 1 } else { -1 },
        };
        let topic = |error, name, id, partitions| FoundTopic {
            error,
            name: Some(name),
            id: if version >= 10 { [id; 16] } else { Uuid::default() },
            is_internal: false,
            partitions,
        };
        MetadataResponse {
            brokers: vec![BrokerAddress { id: 0, host: "localhost", port: 9092 }],
            cluster_id: (version >= 2).then_some("namespace"),
            controller_id: if version >= 1 { 0 } else { -1 },
            topics: vec![
                topic(ErrorCode::None, "orders", 5, (0..3).map(partition).collect()),
                topic(ErrorCode::UnknownTopicOrPartition, "missing", 0, vec![]),
            ],
            throttle_time_ms: if version >= 3 { 3 } else { 0 },
        }
    }

    #[test]
    fn clusters_of_several_brokers_are_read_in_every_version() {
        for version in 0..=12 {
            let broker = |id: i32| {
                let broker = MetadataResponseBroker::default()
                    .with_node_id(id.into())
                    .with_host(StrBytes::from_string(format!("broker-{id}")))
                    .with_port(9_092 + id);
                if version >= 1 { broker.with_rack(Some(StrBytes::from_static_str("rack"))) } else { broker }
            };
            let partition = |index: i32, leader: i32, error: i16| {
                let partition = MetadataResponsePartition::default()
                    .with_error_code(error)
                    .with_partition_index(index)
                    .with_leader_id(leader.into())
                    .with_replica_nodes(vec![1.into(), 2.into(), 3.into()])
                    .with_isr_nodes(vec![1.into()]);
                if version >= 5 {
                    partition.with_offline_replicas(vec![2.into(), 3.into()])
                } else {
                    partition
                }
            };
            let mut topic = MetadataResponseTopic::default()
                .with_name(Some(TopicName(StrBytes::from_static_str("orders"))))
                .with_partitions(vec![partition(1, 2, 0), partition(0, -1, 5)]);
            if version >= 1 {
                topic = topic.with_is_internal(true);
            }
            let response = ReferenceResponse::default()
                .with_brokers(vec![broker(1), broker(2)])
                .with_topics(vec![topic]);
            let read = |reader: Reader<'_>| {
                let read = MetadataResponse::read(reader, version)?;
                let brokers: Vec<_> = read.brokers.iter().map(|it| (it.id, it.host, it.port)).collect();
                assert_eq!(brokers, [(1, "broker-1", 9_093), (2, "broker-2", 9_094)]);
                assert_eq!((read.cluster_id, read.topics.len()), (None, 1));
                let [topic] = &read.topics[..] else { panic!("one topic") };
                assert_eq!((topic.name, topic.is_internal), (Some("orders"), version >= 1));
                let leaders: Vec<_> =
                    topic.partitions.iter().map(|it| (it.index, it.leader_id, it.error)).collect();
                assert_eq!(leaders, [(1, 2, ErrorCode::None), (0, -1, ErrorCode::LeaderNotAvailable)]);
                Ok(())
            };
            reference::read_message(ApiKey::Metadata, version, &response, read, |()| {});
            let far = response.with_brokers(vec![broker(1).with_port(65_536)]);
            let mut body = BytesMut::new();
            far.encode(&mut body, version).unwrap();
            let read = MetadataResponse::read(reference::reader(ApiKey::Metadata, version, &body), version);
            assert_eq!(read, Err(Malformed("port of a broker")));
        }
    }

    #[test]
    fn requests_are_read_here_and_by_another_implementation_in_every_version() {
        for version in 0..=12 {
            let mut asked = vec![None, Some(vec![TopicRef::Name("orders"), TopicRef::Name("payments")])];
            if version >= 1 {
                asked.push(Some(vec![]));
            }
            if version >= 12 {
                asked.push(Some(vec![TopicRef::Id([5; 16])]));
            }
            for topics in asked {
                let request = MetadataRequest {
                    topics,
                    allows_creation: version < 4,
                    asks_cluster_operations: (8..=10).contains(&version),
                    asks_topic_operations: version >= 8,
                };
                let write = |writer: &mut Writer| request.write(writer, version);
                let read: Reference = reference::message(ApiKey::Metadata, version, write);
                let count = request.topics.as_ref().map(Vec::len);
                let all = if version == 0 { Some(0) } else { None };
                assert_eq!(read.topics.as_ref().map(Vec::len), count.or(all));
                let body = reference::body(ApiKey::Metadata, version, write);
                let reader = reference::reader(ApiKey::Metadata, version, &body);
                assert_eq!(MetadataRequest::read(reader, version), Ok(request.clone()));
            }
        }
    }
}
