//! Rights of keys to groups.

use hub::namespace::{HubConfig, NamespaceConfig, RightConfig, RuleConfig};
use hub::service::Service;
use kafka::ApiKey;
use kafka::messages::consumer_protocol::Subscription;
use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse, DeleteGroupsRequest, DeleteGroupsResponse, DescribeClusterRequest,
    DescribeClusterResponse, DescribeGroupsRequest, DescribeGroupsResponse, DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse, GroupId, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, ListGroupsRequest, ListGroupsResponse,
    MetadataRequest, MetadataResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest,
    OffsetDeleteResponse, OffsetFetchRequest, OffsetFetchResponse, SaslAuthenticateRequest,
    SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse, SyncGroupRequest,
    SyncGroupResponse, TransactionalId, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use kafka_protocol::protocol::StrBytes;

use crate::kafka_peer::{Peer, start, topic};

const fn group(name: &'static str) -> GroupId {
    GroupId(StrBytes::from_static_str(name))
}

const TOPIC_REFUSED: i16 = 29;
const GROUP_REFUSED: i16 = 30;

/// A key of these names, on the namespace or on one of its hubs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) hub: Option<&'static str>,
}

const ROOT: Key = Key { name: "root", hub: None };
const READER: Key = Key { name: "reader", hub: None };
/// Keys that may not see the groups of the hub `payroll`.
const STRANGERS: [Key; 4] = [
    Key { name: "sender", hub: None },
    Key { name: "reader", hub: Some("events") },
    Key { name: "sender", hub: Some("events") },
    Key { name: "root", hub: Some("events") },
];

pub(crate) async fn service() -> Service {
    let rule = |name: &str, rights: Vec<RightConfig>| RuleConfig {
        name: name.into(),
        key: format!("secret of {name}").into(),
        rights,
    };
    let mut namespace =
        NamespaceConfig::with_hubs(vec![HubConfig::new("events", 2), HubConfig::new("payroll", 2)]);
    namespace.authorization_rules = vec![
        rule("root", vec![RightConfig::Manage, RightConfig::Send, RightConfig::Listen]),
        rule("reader", vec![RightConfig::Listen]),
        rule("sender", vec![RightConfig::Send]),
    ];
    start(namespace).await
}

pub(crate) async fn log_in(service: &Service, Key { name, hub }: Key) -> Peer {
    let mut peer = Peer::new(service).await;
    let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("PLAIN"));
    let _: SaslHandshakeResponse = peer.ask(ApiKey::SaslHandshake, 1, &request).await;
    let path = hub.map(|hub| format!(";EntityPath={hub}")).unwrap_or_default();
    let string =
        format!("Endpoint=sb://localhost/;SharedAccessKeyName={name};SharedAccessKey=secret of {name}{path}");
    let message = format!("\0$ConnectionString\0{string}").into_bytes();
    let request = SaslAuthenticateRequest::default().with_auth_bytes(message.into());
    let answer: SaslAuthenticateResponse = peer.ask(ApiKey::SaslAuthenticate, 2, &request).await;
    assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    peer
}

async fn commit(peer: &mut Peer, id: &'static str, name: &'static str, member: (&StrBytes, i32)) -> i16 {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(0)
        .with_committed_offset(7)
        .with_committed_metadata(Some(StrBytes::from_static_str("a secret")));
    let topic = OffsetCommitRequestTopic::default().with_name(topic(name)).with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(group(id))
        .with_member_id(member.0.clone())
        .with_generation_id_or_member_epoch(member.1)
        .with_topics(vec![topic]);
    let answer: OffsetCommitResponse = peer.ask(ApiKey::OffsetCommit, 8, &request).await;
    answer.topics[0].partitions[0].error_code
}

/// Joins a group as a consumer of these topics.
async fn join(peer: &mut Peer, id: &'static str, topics: &[&str]) -> JoinGroupResponse {
    let metadata = Subscription::to(topics.to_vec()).encode(Vec::new(), 0);
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(StrBytes::from_static_str("range"))
        .with_metadata(metadata.into());
    let request = JoinGroupRequest::default()
        .with_group_id(group(id))
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(30_000)
        .with_group_instance_id(Some(StrBytes::from_static_str("instance")))
        .with_protocol_type(StrBytes::from_static_str("consumer"))
        .with_protocols(vec![protocol]);
    peer.ask(ApiKey::JoinGroup, 5, &request).await
}

async fn listed(peer: &mut Peer) -> Vec<String> {
    let answer: ListGroupsResponse = peer.ask(ApiKey::ListGroups, 4, &ListGroupsRequest::default()).await;
    answer.groups.iter().map(|group| group.group_id.to_string()).collect()
}

/// Returns the error for a group, and the offset and error of each partition of all topics or of one.
async fn fetched(peer: &mut Peer, id: &'static str, of: Option<&'static str>) -> (i16, Vec<(i64, i16)>) {
    let named =
        |name| OffsetFetchRequestTopic::default().with_name(topic(name)).with_partition_indexes(vec![0]);
    let request =
        OffsetFetchRequest::default().with_group_id(group(id)).with_topics(of.map(|name| vec![named(name)]));
    let answer: OffsetFetchResponse = peer.ask(ApiKey::OffsetFetch, 7, &request).await;
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    (answer.error_code, partitions.map(|it| (it.committed_offset, it.error_code)).collect())
}

/// Returns the errors that requests about a group are answered with, by name.
async fn errors(peer: &mut Peer, id: &'static str) -> Vec<(&'static str, i16)> {
    let mut errors = Vec::new();
    let request = DescribeGroupsRequest::default().with_groups(vec![group(id)]);
    let answer: DescribeGroupsResponse = peer.ask(ApiKey::DescribeGroups, 5, &request).await;
    assert!(answer.groups[0].members.is_empty());
    errors.push(("DescribeGroups", answer.groups[0].error_code));
    let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group(id)]);
    let answer: ConsumerGroupDescribeResponse = peer.ask(ApiKey::ConsumerGroupDescribe, 0, &request).await;
    errors.push(("ConsumerGroupDescribe", answer.groups[0].error_code));
    let no_member = StrBytes::from_static_str("");
    errors.push(("OffsetCommit", commit(peer, id, "events", (&no_member, -1)).await));
    errors.push(("JoinGroup", join(peer, id, &["events"]).await.error_code));
    let identity =
        MemberIdentity::default().with_group_instance_id(Some(StrBytes::from_static_str("instance")));
    let request = LeaveGroupRequest::default().with_group_id(group(id)).with_members(vec![identity]);
    let answer: LeaveGroupResponse = peer.ask(ApiKey::LeaveGroup, 5, &request).await;
    errors.push(("LeaveGroup", answer.members[0].error_code));
    let request = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(group(id))
        .with_member_id(StrBytes::from_static_str("member"))
        .with_rebalance_timeout_ms(30_000)
        .with_subscribed_topic_names(Some(vec![]))
        .with_topic_partitions(Some(vec![]));
    let answer: ConsumerGroupHeartbeatResponse = peer.ask(ApiKey::ConsumerGroupHeartbeat, 0, &request).await;
    errors.push(("ConsumerGroupHeartbeat", answer.error_code));
    let partition = OffsetDeleteRequestPartition::default().with_partition_index(0);
    let asked =
        OffsetDeleteRequestTopic::default().with_name(topic("payroll")).with_partitions(vec![partition]);
    let request = OffsetDeleteRequest::default().with_group_id(group(id)).with_topics(vec![asked]);
    let answer: OffsetDeleteResponse = peer.ask(ApiKey::OffsetDelete, 0, &request).await;
    errors.push(("OffsetDelete", answer.error_code));
    let request = DeleteGroupsRequest::default().with_groups_names(vec![group(id)]);
    let answer: DeleteGroupsResponse = peer.ask(ApiKey::DeleteGroups, 2, &request).await;
    errors.push(("DeleteGroups", answer.results[0].error_code));
    errors
}

#[tokio::test]
async fn groups_are_for_those_who_may_read_their_topics() {
    let service = service().await;
    let mut root = log_in(&service, ROOT).await;
    let no_member = StrBytes::from_static_str("");
    assert_eq!(commit(&mut root, "salaries", "payroll", (&no_member, -1)).await, 0);
    let joined = join(&mut root, "members", &["payroll"]).await;
    assert_eq!(joined.error_code, 0);
    for key in STRANGERS {
        let mut stranger = log_in(&service, key).await;
        assert!(listed(&mut stranger).await.is_empty(), "{key:?}");
        for id in ["salaries", "members"] {
            for (name, error) in errors(&mut stranger, id).await {
                assert_eq!(error, GROUP_REFUSED, "{name} of {id} by {key:?}");
            }
        }
        let (whole, told) = fetched(&mut stranger, "salaries", None).await;
        assert!(told.is_empty() && [0, GROUP_REFUSED].contains(&whole), "{key:?}");
        let (whole, told) = fetched(&mut stranger, "salaries", Some("payroll")).await;
        assert!(whole == GROUP_REFUSED || told == [(-1, TOPIC_REFUSED)], "{key:?}: {told:?}");
        assert_eq!(commit(&mut stranger, "salaries", "payroll", (&no_member, -1)).await, GROUP_REFUSED);
    }
    // Nothing of it was done.
    let request = HeartbeatRequest::default()
        .with_group_id(group("members"))
        .with_member_id(joined.member_id.clone())
        .with_generation_id(joined.generation_id);
    let answer: HeartbeatResponse = root.ask(ApiKey::Heartbeat, 4, &request).await;
    assert_eq!(answer.error_code, 0);
    let mut reader = log_in(&service, READER).await;
    assert_eq!(fetched(&mut reader, "salaries", None).await, (0, vec![(7, 0)]));
    assert_eq!(listed(&mut reader).await, ["members", "salaries"]);
    let request = DeleteGroupsRequest::default().with_groups_names(vec![group("none"), group("salaries")]);
    let answer: DeleteGroupsResponse = reader.ask(ApiKey::DeleteGroups, 2, &request).await;
    let results: Vec<_> = answer.results.iter().map(|it| (it.group_id.to_string(), it.error_code)).collect();
    assert_eq!(results, [("none".to_owned(), 69), ("salaries".to_owned(), 0)]);
    service.stop().await;
}

#[tokio::test]
async fn a_key_of_one_hub_has_groups_of_its_own() {
    let service = service().await;
    let mut own = log_in(&service, Key { name: "reader", hub: Some("events") }).await;
    let joined = join(&mut own, "consumers", &["events"]).await;
    assert_eq!(joined.error_code, 0);
    assert_eq!(join(&mut own, "others", &["events", "payroll"]).await.error_code, GROUP_REFUSED);
    let member = (&joined.member_id, joined.generation_id);
    let sync = SyncGroupRequest::default()
        .with_group_id(group("consumers"))
        .with_member_id(joined.member_id.clone())
        .with_generation_id(joined.generation_id);
    let _: SyncGroupResponse = own.ask(ApiKey::SyncGroup, 4, &sync).await;
    assert_eq!(commit(&mut own, "consumers", "events", member).await, 0);
    assert_eq!(listed(&mut own).await, ["consumers"]);
    // One that may read more joins, and reads more: the member is none the less.
    let mut reader = log_in(&service, READER).await;
    assert_eq!(listed(&mut reader).await, ["consumers"]);
    let mut sender = log_in(&service, Key { name: "sender", hub: None }).await;
    let partition =
        TxnOffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(3);
    let asked =
        TxnOffsetCommitRequestTopic::default().with_name(topic("events")).with_partitions(vec![partition]);
    let request = TxnOffsetCommitRequest::default()
        .with_transactional_id(TransactionalId(StrBytes::from_static_str("transaction")))
        .with_group_id(group("consumers"))
        .with_topics(vec![asked]);
    let answer: TxnOffsetCommitResponse = sender.ask(ApiKey::TxnOffsetCommit, 3, &request).await;
    assert_eq!(answer.topics[0].partitions[0].error_code, GROUP_REFUSED);
    assert_eq!(fetched(&mut own, "consumers", None).await, (0, vec![(7, 0)]));
    service.stop().await;
}

/// Numbers of operations as a set of bits.
fn bits(operations: &[u32]) -> i32 {
    operations.iter().fold(0, |bits, operation| bits | 1 << operation)
}

#[tokio::test]
async fn client_that_asks_learns_what_its_rights_allow_in_the_words_of_kafka() {
    const READ: u32 = 3;
    const WRITE: u32 = 4;
    const CREATE: u32 = 5;
    const DELETE: u32 = 6;
    const ALTER: u32 = 7;
    const DESCRIBE: u32 = 8;
    const CLUSTER_ACTION: u32 = 9;
    const DESCRIBE_CONFIGS: u32 = 10;
    const ALTER_CONFIGS: u32 = 11;
    const IDEMPOTENT_WRITE: u32 = 12;
    // What Apache Kafka answers without an authorizer.
    let all = (3_576, 8_096, bits(&[READ, DELETE, DESCRIBE]));
    let reads = bits(&[READ, DESCRIBE, DESCRIBE_CONFIGS]);
    let writes = bits(&[WRITE, DESCRIBE, DESCRIBE_CONFIGS]);
    let sees = bits(&[DESCRIBE, DESCRIBE_CONFIGS]);
    let group_of_reader = bits(&[READ, DELETE, DESCRIBE]);
    let manages = bits(&[READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS]);
    assert_eq!(manages, all.0);
    let administers =
        bits(&[CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE]);
    assert_eq!(administers, all.1);
    let service = service().await;
    for (key, expected) in [
        (ROOT, all),
        (READER, (reads, sees, group_of_reader)),
        (Key { name: "sender", hub: None }, (writes, sees | bits(&[IDEMPOTENT_WRITE]), i32::MIN)),
        (Key { name: "root", hub: Some("events") }, (manages, sees | bits(&[IDEMPOTENT_WRITE]), all.2)),
    ] {
        let mut peer = log_in(&service, key).await;
        let asked = MetadataRequestTopic::default().with_name(Some(topic("events")));
        let missing = MetadataRequestTopic::default().with_name(Some(topic("missing")));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![asked, missing]))
            .with_allow_auto_topic_creation(false)
            .with_include_cluster_authorized_operations(true)
            .with_include_topic_authorized_operations(true);
        let answer: MetadataResponse = peer.ask(ApiKey::Metadata, 10, &request).await;
        let of_topic = answer.topics[0].topic_authorized_operations;
        // A topic that does not exist is told apart by those alone who would see it.
        let of_missing = if key.hub.is_none() { of_topic } else { i32::MIN };
        assert_eq!(answer.topics[1].topic_authorized_operations, of_missing, "{key:?}");
        let request = DescribeClusterRequest::default().with_include_cluster_authorized_operations(true);
        let described: DescribeClusterResponse = peer.ask(ApiKey::DescribeCluster, 0, &request).await;
        assert_eq!(described.cluster_authorized_operations, answer.cluster_authorized_operations);
        let request = DescribeGroupsRequest::default()
            .with_groups(vec![group("none")])
            .with_include_authorized_operations(true);
        let groups: DescribeGroupsResponse = peer.ask(ApiKey::DescribeGroups, 5, &request).await;
        let of_group = groups.groups[0].authorized_operations;
        assert_eq!((of_topic, answer.cluster_authorized_operations, of_group), expected, "{key:?}");
        let pages = DescribeTopicPartitionsRequest::default()
            .with_topics(vec![TopicRequest::default().with_name(topic("events"))])
            .with_response_partition_limit(9);
        let page: DescribeTopicPartitionsResponse =
            peer.ask(ApiKey::DescribeTopicPartitions, 0, &pages).await;
        assert_eq!(page.topics[0].topic_authorized_operations, of_topic);
    }
    let mut root = log_in(&service, ROOT).await;
    let answer: MetadataResponse =
        root.ask(ApiKey::Metadata, 10, &MetadataRequest::default().with_topics(None)).await;
    let of_topics = answer.topics.iter().map(|topic| topic.topic_authorized_operations);
    assert!(
        of_topics.chain([answer.cluster_authorized_operations]).all(|it| it == i32::MIN),
        "it did not ask"
    );
    service.stop().await;
}
