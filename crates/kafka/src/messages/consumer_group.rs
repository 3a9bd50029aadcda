//! Groups whose partitions the broker assigns (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe, 0 and 1.

use super::authorized_operations::AuthorizedOperations;
use crate::ErrorCode;
use crate::read::{Malformed, Reader, Uuid};
use crate::write::Writer;

/// What a member says of itself. Apart from the first time it names only what has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerGroupHeartbeatRequest<'a> {
    /// The group.
    pub group_id: &'a str,
    /// Who it is; empty in version 0 if it is new.
    pub member_id: &'a str,
    /// The epoch that it is in; [`JOIN`], [`LEAVE`] or [`LEAVE_FOR_A_WHILE`].
    pub member_epoch: i32,
    /// The name that it keeps.
    pub instance_id: Option<&'a str>,
    /// Where it runs.
    pub rack_id: Option<&'a str>,
    /// How many milliseconds it may take to give partitions back.
    pub rebalance_timeout_ms: Option<i32>,
    /// The topics that it wants.
    pub topic_names: Option<Vec<&'a str>>,
    /// A pattern of more topics that it wants; empty if there is none any more.
    pub topic_regex: Option<&'a str>,
    /// Which way of assignment it prefers.
    pub assignor: Option<&'a str>,
    /// What it holds.
    pub owned: Option<Vec<TopicPartitions>>,
}

/// The epoch of a member that is new.
pub const JOIN: i32 = 0;

/// The epoch of a member that leaves.
pub const LEAVE: i32 = -1;

/// The epoch of a static member that leaves and will be back.
pub const LEAVE_FOR_A_WHILE: i32 = -2;

/// Partitions of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicPartitions {
    /// The topic.
    pub topic_id: Uuid,
    /// The partitions' numbers.
    pub partitions: Vec<i32>,
}

impl<'a> ConsumerGroupHeartbeatRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let group_id = reader.string("group")?;
        let member_id = reader.string("member id")?;
        let member_epoch = reader.i32("member epoch")?;
        let instance_id = reader.nullable_string("instance id")?;
        let rack_id = reader.nullable_string("rack")?;
        let rebalance_timeout_ms = Some(reader.i32("rebalance timeout")?).filter(|timeout| *timeout >= 0);
        let topic_names = match reader.nullable_array("topics")? {
            None => None,
            Some(count) => {
                let mut names = Vec::new();
                for _ in 0..count {
                    names.push(reader.string("topic")?);
                }
                Some(names)
            }
        };
        let topic_regex = if version >= 1 { reader.nullable_string("pattern of topics")? } else { None };
        let assignor = reader.nullable_string("assignor")?;
        let owned = match reader.nullable_array("owned topics")? {
            None => None,
            Some(count) => {
                let mut owned = Vec::new();
                for _ in 0..count {
                    let topic_id = reader.uuid("topic id")?;
                    let mut partitions = Vec::new();
                    for _ in 0..reader.array_length("partitions")? {
                        partitions.push(reader.i32("partition")?);
                    }
                    reader.skip_tagged_fields("topic")?;
                    owned.push(TopicPartitions { topic_id, partitions });
                }
                Some(owned)
            }
        };
        reader.skip_tagged_fields("request")?;
        Ok(Self {
            group_id,
            member_id,
            member_epoch,
            instance_id,
            rack_id,
            rebalance_timeout_ms,
            topic_names,
            topic_regex,
            assignor,
            owned,
        })
    }
}

/// What a member is to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerGroupHeartbeatResponse {
    /// Who it is.
    pub member_id: String,
    /// The epoch that it is in.
    pub member_epoch: i32,
    /// After how many milliseconds it is expected again.
    pub heartbeat_interval_ms: i32,
    /// What it may hold; `None` if that has not changed.
    pub assignment: Option<Vec<TopicPartitions>>,
}

/// Writes the response to a heartbeat in this group, or the error with what the member may want to know of it.
pub fn write_heartbeat_response(
    writer: &mut Writer,
    group_id: &str,
    result: &Result<ConsumerGroupHeartbeatResponse, (ErrorCode, String)>,
    throttle_time_ms: i32,
) {
    writer.i32(throttle_time_ms);
    match result {
        Ok(response) => {
            writer.i16(ErrorCode::None.code());
            writer.nullable_string(None);
            writer.nullable_string(Some(&response.member_id));
            writer.i32(response.member_epoch);
            writer.i32(response.heartbeat_interval_ms);
            match &response.assignment {
                None => writer.i8(ABSENT),
                Some(assignment) => {
                    writer.i8(PRESENT);
                    writer.array_length(assignment.len());
                    for topic in assignment {
                        writer.uuid(&topic.topic_id);
                        write_partitions(writer, &topic.partitions);
                        writer.tagged_fields_end();
                    }
                    writer.tagged_fields_end();
                }
            }
        }
        Err((error, message)) => {
            writer.error(*error, group_id);
            writer.nullable_string(Some(message));
            writer.nullable_string(None);
            writer.i32(0);
            writer.i32(0);
            writer.i8(ABSENT);
        }
    }
    writer.tagged_fields_end();
}

fn write_partitions(writer: &mut Writer, partitions: &[i32]) {
    writer.array_length(partitions.len());
    partitions.iter().for_each(|index| writer.i32(*index));
}

/// Reads which groups are to be described, and whether the client asks what it may do with them.
pub fn read_describe<'a>(mut reader: Reader<'a>) -> Result<(Vec<&'a str>, bool), Malformed> {
    let mut groups = Vec::new();
    for _ in 0..reader.array_length("groups")? {
        groups.push(reader.string("group")?);
    }
    let asks_operations = reader.bool("authorized operations")?;
    reader.skip_tagged_fields("request")?;
    Ok((groups, asks_operations))
}

/// What there is to say of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescribedConsumerGroup {
    /// Its name.
    pub group_id: String,
    /// `Empty`, `Assigning`, `Reconciling`, `Stable` or `Dead`.
    pub state: &'static str,
    /// Rises with each change of members, subscriptions or topics.
    pub group_epoch: i32,
    /// The group epoch for which partitions are assigned.
    pub assignment_epoch: i32,
    /// The way of assignment.
    pub assignor: String,
    /// Its members.
    pub members: Vec<DescribedConsumer>,
}

/// What there is to say of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescribedConsumer {
    /// Who it is.
    pub member_id: String,
    /// The name that it keeps.
    pub instance_id: Option<String>,
    /// Where it runs.
    pub rack_id: Option<String>,
    /// The epoch that it is in.
    pub member_epoch: i32,
    /// What the client calls itself.
    pub client_id: String,
    /// Where it is: `/` and the address.
    pub host: String,
    /// The topics that it wants.
    pub topic_names: Vec<String>,
    /// The pattern of more.
    pub topic_regex: Option<String>,
    /// What it may hold now.
    pub assignment: Vec<NamedPartitions>,
    /// What it will hold when all others have given theirs back.
    pub target: Vec<NamedPartitions>,
}

/// Partitions of a topic, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedPartitions {
    /// The topic.
    pub topic_id: Uuid,
    /// Its name.
    pub name: String,
    /// The partitions' numbers.
    pub partitions: Vec<i32>,
}

/// Writes the response to a request of `version`: of each group the error, what there is to say of it, and what the client may do
/// with it.
pub fn write_describe_response(
    writer: &mut Writer,
    version: i16,
    groups: &[(ErrorCode, DescribedConsumerGroup, AuthorizedOperations)],
    throttle_time_ms: i32,
) {
    writer.i32(throttle_time_ms);
    writer.array_length(groups.len());
    for (error, group, operations) in groups {
        writer.error(*error, &group.group_id);
        writer.nullable_string(None);
        writer.string(&group.group_id);
        writer.string(group.state);
        writer.i32(group.group_epoch);
        writer.i32(group.assignment_epoch);
        writer.string(&group.assignor);
        writer.array_length(group.members.len());
        for member in &group.members {
            writer.string(&member.member_id);
            writer.nullable_string(member.instance_id.as_deref());
            writer.nullable_string(member.rack_id.as_deref());
            writer.i32(member.member_epoch);
            writer.string(&member.client_id);
            writer.string(&member.host);
            writer.array_length(member.topic_names.len());
            member.topic_names.iter().for_each(|name| writer.string(name));
            writer.nullable_string(member.topic_regex.as_deref());
            write_assignment(writer, &member.assignment);
            write_assignment(writer, &member.target);
            if version >= 1 {
                writer.i8(MEMBER_OF_THIS_PROTOCOL);
            }
            writer.tagged_fields_end();
        }
        operations.write(writer);
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
}

fn write_assignment(writer: &mut Writer, topics: &[NamedPartitions]) {
    writer.array_length(topics.len());
    for topic in topics {
        writer.uuid(&topic.topic_id);
        writer.string(&topic.name);
        write_partitions(writer, &topic.partitions);
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
}

/// A structure that may be absent begins with one of these.
const PRESENT: i8 = 1;
const ABSENT: i8 = -1;

/// In contrast to one of the classic protocol, in a group that is being converted.
const MEMBER_OF_THIS_PROTOCOL: i8 = 1;

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions as ReferencePartitions;
    use kafka_protocol::messages::{
        ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse,
        ConsumerGroupHeartbeatRequest as ReferenceRequest,
        ConsumerGroupHeartbeatResponse as ReferenceResponse, GroupId, TopicName,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    const ID: Uuid = [7; 16];
    const ID_TEXT: &str = "07070707-0707-0707-0707-070707070707";

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    #[test]
    fn heartbeats_are_read_in_every_version() {
        let key = ApiKey::ConsumerGroupHeartbeat;
        for version in 0..=1 {
            let mut full = ReferenceRequest::default()
                .with_group_id(GroupId(text("group")))
                .with_member_id(text("member"))
                .with_member_epoch(3)
                .with_instance_id(Some(text("instance")))
                .with_rack_id(Some(text("rack")))
                .with_rebalance_timeout_ms(5_000)
                .with_subscribed_topic_names(Some(vec![TopicName(text("topic"))]))
                .with_server_assignor(Some(text("range")))
                .with_topic_partitions(Some(vec![
                    ReferencePartitions::default()
                        .with_topic_id(ID_TEXT.parse().unwrap())
                        .with_partitions(vec![1, 2]),
                ]));
            if version >= 1 {
                full = full.with_subscribed_topic_regex(Some(text("t.*")));
            }
            let read = |reader: Reader<'_>| {
                let read = ConsumerGroupHeartbeatRequest::read(reader, version)?;
                let owned = vec![TopicPartitions { topic_id: ID, partitions: vec![1, 2] }];
                let expected = ConsumerGroupHeartbeatRequest {
                    group_id: "group",
                    member_id: "member",
                    member_epoch: 3,
                    instance_id: Some("instance"),
                    rack_id: Some("rack"),
                    rebalance_timeout_ms: Some(5_000),
                    topic_names: Some(vec!["topic"]),
                    topic_regex: (version >= 1).then_some("t.*"),
                    assignor: Some("range"),
                    owned: Some(owned),
                };
                assert_eq!(read, expected);
                Ok(())
            };
            reference::read_message(key, version, &full, read, |()| {});
            let least = ReferenceRequest::default()
                .with_group_id(GroupId(text("group")))
                .with_member_id(text("member"))
                .with_member_epoch(3);
            let read = |reader: Reader<'_>| {
                let read = ConsumerGroupHeartbeatRequest::read(reader, version)?;
                Ok(read.topic_names.is_none() && read.owned.is_none() && read.rebalance_timeout_ms.is_none())
            };
            reference::read_message(key, version, &least, read, |is_unchanged| assert!(is_unchanged));
        }
    }

    #[test]
    fn members_are_answered_in_every_version() {
        let key = ApiKey::ConsumerGroupHeartbeat;
        for version in 0..=1 {
            for assignment in [None, Some(vec![TopicPartitions { topic_id: ID, partitions: vec![0, 3] }])] {
                let result = Ok(ConsumerGroupHeartbeatResponse {
                    member_id: "member".to_owned(),
                    member_epoch: 4,
                    heartbeat_interval_ms: 5_000,
                    assignment: assignment.clone(),
                });
                let response: ReferenceResponse = reference::message(key, version, |writer| {
                    write_heartbeat_response(writer, "group", &result, 0)
                });
                assert_eq!(response.member_epoch, 4);
                let partitions = response.assignment.map(|it| it.topic_partitions[0].partitions.clone());
                assert_eq!(partitions, assignment.map(|it| it[0].partitions.clone()));
            }
            let refused = Err((ErrorCode::FencedMemberEpoch, "another epoch".to_owned()));
            let response: ReferenceResponse = reference::message(key, version, |writer| {
                write_heartbeat_response(writer, "group", &refused, 0)
            });
            assert_eq!((response.error_code, response.assignment), (110, None));
        }
    }

    #[test]
    fn groups_are_described_in_every_version() {
        let key = ApiKey::ConsumerGroupDescribe;
        for version in 0..=1 {
            let request =
                ConsumerGroupDescribeRequest::default().with_group_ids(vec![GroupId(text("group"))]);
            let read = |reader: Reader<'_>| Ok(read_describe(reader)? == (vec!["group"], false));
            reference::read_message(key, version, &request, read, |is_same| assert!(is_same));
            let partitions =
                || NamedPartitions { topic_id: ID, name: "topic".to_owned(), partitions: vec![5] };
            let group = DescribedConsumerGroup {
                group_id: "group".to_owned(),
                state: "Stable",
                group_epoch: 2,
                assignment_epoch: 1,
                assignor: "uniform".to_owned(),
                members: vec![DescribedConsumer {
                    member_id: "member".to_owned(),
                    host: "/127.0.0.1".to_owned(),
                    topic_names: vec!["topic".to_owned()],
                    topic_regex: Some("t.*".to_owned()),
                    assignment: vec![partitions()],
                    target: vec![partitions()],
                    ..DescribedConsumer::default()
                }],
            };
            let response: ConsumerGroupDescribeResponse = reference::message(key, version, |writer| {
                let described = (ErrorCode::None, group, AuthorizedOperations::READ);
                write_describe_response(writer, version, &[described], 0);
            });
            let group = &response.groups[0];
            assert_eq!((group.group_state.as_str(), group.group_epoch), ("Stable", 2));
            assert_eq!(group.members[0].target_assignment.topic_partitions[0].partitions, [5]);
        }
    }
}
