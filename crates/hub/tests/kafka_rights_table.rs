//! Which right each request of Kafka needs: the table of `docs/rights.md`, which this is, walked with keys of all kinds.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::fmt::Debug;

use access::Right;
use hub::namespace::HubConfig;
use hub::service::Service;
use kafka::ApiKey;
use kafka::messages::consumer_protocol::Subscription;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::alter_configs_request::{
    AlterConfigsResource as LegacyResource, AlterableConfig as LegacyConfig,
};
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_producers_request::TopicRequest as ProducersTopic;
use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use crate::kafka_peer::{Peer, batch, fetch, produce, topic};
use crate::kafka_rights::{Key, log_in, service};

/// What a client must have proven for a request, or for all that the answer can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// Nothing.
    Nothing,
    /// Any key or token.
    Login,
    /// One of these rights on the topic.
    Topic(&'static [Right]),
    /// One of these rights on each topic of the group.
    Group(&'static [Right]),
    /// The id that the group has given to a member, which joined with the right to listen.
    Member,
    /// The right to send to any topic.
    Transactions,
    /// The same, and the right to listen on each topic of the group.
    TransactionOfGroup,
    /// The right to manage the whole namespace.
    Namespace,
}

const SEND: Needs = Needs::Topic(&[Right::Send]);
const LISTEN: Needs = Needs::Topic(&[Right::Listen]);
const MANAGE: Needs = Needs::Topic(&[Right::Manage]);
const ANY: Needs = Needs::Topic(&[Right::Listen, Right::Send, Right::Manage]);
const GROUP: Needs = Needs::Group(&[Right::Listen]);

/// What a request needs. There is no other arm: a request that is new has to say it.
const fn needs(key: ApiKey) -> Needs {
    match key {
        ApiKey::SaslHandshake | ApiKey::SaslAuthenticate | ApiKey::ApiVersions => Needs::Nothing,
        ApiKey::FindCoordinator
        | ApiKey::DescribeCluster
        | ApiKey::DescribeAcls
        | ApiKey::DescribeClientQuotas
        | ApiKey::DescribeUserScramCredentials => Needs::Login,
        ApiKey::Produce | ApiKey::AddPartitionsToTxn => SEND,
        ApiKey::Fetch | ApiKey::ListOffsets | ApiKey::OffsetForLeaderEpoch | ApiKey::DescribeProducers => {
            LISTEN
        }
        ApiKey::Metadata
        | ApiKey::DescribeTopicPartitions
        | ApiKey::DescribeConfigs
        | ApiKey::DescribeLogDirs => ANY,
        ApiKey::CreateTopics
        | ApiKey::DeleteTopics
        | ApiKey::DeleteRecords
        | ApiKey::CreatePartitions
        | ApiKey::AlterConfigs
        | ApiKey::IncrementalAlterConfigs => MANAGE,
        ApiKey::OffsetCommit
        | ApiKey::OffsetFetch
        | ApiKey::OffsetDelete
        | ApiKey::JoinGroup
        | ApiKey::LeaveGroup
        | ApiKey::DescribeGroups
        | ApiKey::ListGroups
        | ApiKey::ConsumerGroupHeartbeat
        | ApiKey::ConsumerGroupDescribe => GROUP,
        ApiKey::DeleteGroups => Needs::Group(&[Right::Listen, Right::Manage]),
        ApiKey::Heartbeat | ApiKey::SyncGroup => Needs::Member,
        ApiKey::InitProducerId
        | ApiKey::AddOffsetsToTxn
        | ApiKey::EndTxn
        | ApiKey::DescribeTransactions
        | ApiKey::ListTransactions => Needs::Transactions,
        ApiKey::TxnOffsetCommit => Needs::TransactionOfGroup,
        ApiKey::CreateAcls | ApiKey::DeleteAcls => Needs::Namespace,
    }
}

/// The keys that ask, on the namespace, on the topic and on another one.
const NAMES: [&str; 3] = ["root", "reader", "sender"];
const HUBS: [Option<&str>; 3] = [None, Some(TOPIC), Some("payroll")];
const TOPIC: &str = "events";

fn holds(key: Key, right: Right) -> bool {
    match key.name {
        "root" => true,
        "reader" => right == Right::Listen,
        _ => right == Right::Send,
    }
}

/// Whether a key may do what needs this.
fn is_enough(key: Key, needs: Needs) -> bool {
    let is_of_topic = key.hub != Some("payroll");
    let holds_one = |rights: &[Right]| rights.iter().any(|right| holds(key, *right));
    match needs {
        Needs::Nothing | Needs::Login => true,
        Needs::Topic(rights) | Needs::Group(rights) => is_of_topic && holds_one(rights),
        // Nobody here is one.
        Needs::Member => false,
        Needs::Transactions => holds(key, Right::Send),
        Needs::TransactionOfGroup => is_of_topic && holds(key, Right::Send) && holds(key, Right::Listen),
        Needs::Namespace => key.hub.is_none() && holds(key, Right::Manage),
    }
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn id(name: &str) -> TransactionalId {
    TransactionalId(text(name))
}

/// A request about the topic, or about a group of it, and the text of the answer.
struct Asking<'a> {
    peer: &'a mut Peer,
    group: &'a str,
}

impl Asking<'_> {
    async fn say<T: Decodable + Debug>(
        &mut self,
        key: ApiKey,
        version: i16,
        request: &impl Encodable,
    ) -> String {
        let answer: T = self.peer.ask(key, version, request).await;
        format!("{answer:?}")
    }

    async fn ask(&mut self, key: ApiKey) -> String {
        let group = GroupId(text(self.group));
        let member = text("member");
        let events = topic(TOPIC);
        match key {
            ApiKey::Produce => {
                let request = produce(TOPIC, 0, batch(&[b"record"]));
                self.say::<ProduceResponse>(key, 9, &request).await
            }
            ApiKey::Fetch => {
                let mut request = fetch(0, 0, 0);
                request.topics[0].topic = events;
                self.say::<FetchResponse>(key, 12, &request).await
            }
            ApiKey::ListOffsets => {
                let asked = ListOffsetsPartition::default().with_partition_index(0).with_timestamp(-1);
                let asked = ListOffsetsTopic::default().with_name(events).with_partitions(vec![asked]);
                let request =
                    ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(vec![asked]);
                self.say::<ListOffsetsResponse>(key, 8, &request).await
            }
            ApiKey::Metadata => {
                let asked = MetadataRequestTopic::default().with_name(Some(events));
                let request = MetadataRequest::default().with_topics(Some(vec![asked]));
                self.say::<MetadataResponse>(key, 12, &request).await
            }
            ApiKey::OffsetCommit => {
                let asked =
                    OffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(7);
                let asked =
                    OffsetCommitRequestTopic::default().with_name(events).with_partitions(vec![asked]);
                let request = OffsetCommitRequest::default()
                    .with_group_id(group)
                    .with_generation_id_or_member_epoch(-1)
                    .with_topics(vec![asked]);
                self.say::<OffsetCommitResponse>(key, 8, &request).await
            }
            ApiKey::OffsetFetch => {
                let asked =
                    OffsetFetchRequestTopic::default().with_name(events).with_partition_indexes(vec![0]);
                let request =
                    OffsetFetchRequest::default().with_group_id(group).with_topics(Some(vec![asked]));
                self.say::<OffsetFetchResponse>(key, 7, &request).await
            }
            ApiKey::FindCoordinator => {
                let request = FindCoordinatorRequest::default()
                    .with_key_type(0)
                    .with_coordinator_keys(vec![text(self.group)]);
                self.say::<FindCoordinatorResponse>(key, 4, &request).await
            }
            ApiKey::JoinGroup => {
                let protocol = JoinGroupRequestProtocol::default()
                    .with_name(text("range"))
                    .with_metadata(Subscription::to(vec![TOPIC]).encode(Vec::new(), 0).into());
                let request = JoinGroupRequest::default()
                    .with_group_id(group)
                    .with_session_timeout_ms(30_000)
                    .with_rebalance_timeout_ms(30_000)
                    .with_group_instance_id(Some(member))
                    .with_protocol_type(text("consumer"))
                    .with_protocols(vec![protocol]);
                self.say::<JoinGroupResponse>(key, 5, &request).await
            }
            ApiKey::Heartbeat => {
                let request = HeartbeatRequest::default().with_group_id(group).with_member_id(member);
                self.say::<HeartbeatResponse>(key, 4, &request).await
            }
            ApiKey::LeaveGroup => {
                let identity = MemberIdentity::default().with_group_instance_id(Some(member));
                let request = LeaveGroupRequest::default().with_group_id(group).with_members(vec![identity]);
                self.say::<LeaveGroupResponse>(key, 5, &request).await
            }
            ApiKey::SyncGroup => {
                let request = SyncGroupRequest::default().with_group_id(group).with_member_id(member);
                self.say::<SyncGroupResponse>(key, 4, &request).await
            }
            ApiKey::DescribeGroups => {
                let request = DescribeGroupsRequest::default().with_groups(vec![group]);
                self.say::<DescribeGroupsResponse>(key, 5, &request).await
            }
            ApiKey::ListGroups => self.say::<ListGroupsResponse>(key, 4, &ListGroupsRequest::default()).await,
            ApiKey::SaslHandshake => {
                let request = SaslHandshakeRequest::default().with_mechanism(text("PLAIN"));
                self.say::<SaslHandshakeResponse>(key, 1, &request).await
            }
            ApiKey::SaslAuthenticate => {
                let request = SaslAuthenticateRequest::default().with_auth_bytes("\0nobody\0secret".into());
                self.say::<SaslAuthenticateResponse>(key, 2, &request).await
            }
            ApiKey::ApiVersions => {
                let request = ApiVersionsRequest::default()
                    .with_client_software_name(text("test"))
                    .with_client_software_version(text("1"));
                self.say::<ApiVersionsResponse>(key, 3, &request).await
            }
            ApiKey::CreateTopics => {
                let wanted = CreatableTopic::default()
                    .with_name(events)
                    .with_num_partitions(1)
                    .with_replication_factor(1);
                let request =
                    CreateTopicsRequest::default().with_topics(vec![wanted]).with_timeout_ms(30_000);
                self.say::<CreateTopicsResponse>(key, 7, &request).await
            }
            ApiKey::DeleteTopics => {
                let doomed = DeleteTopicState::default().with_name(Some(events));
                let request =
                    DeleteTopicsRequest::default().with_topics(vec![doomed]).with_timeout_ms(30_000);
                self.say::<DeleteTopicsResponse>(key, 6, &request).await
            }
            ApiKey::DeleteRecords => {
                let asked = DeleteRecordsPartition::default().with_partition_index(0).with_offset(0);
                let asked = DeleteRecordsTopic::default().with_name(events).with_partitions(vec![asked]);
                let request =
                    DeleteRecordsRequest::default().with_topics(vec![asked]).with_timeout_ms(30_000);
                self.say::<DeleteRecordsResponse>(key, 2, &request).await
            }
            ApiKey::InitProducerId => {
                let request = InitProducerIdRequest::default()
                    .with_transactional_id(Some(id(self.group)))
                    .with_transaction_timeout_ms(60_000)
                    .with_producer_id(ProducerId(-1))
                    .with_producer_epoch(-1);
                self.say::<InitProducerIdResponse>(key, 4, &request).await
            }
            ApiKey::OffsetForLeaderEpoch => {
                let asked = OffsetForLeaderPartition::default()
                    .with_partition(0)
                    .with_current_leader_epoch(-1)
                    .with_leader_epoch(0);
                let asked = OffsetForLeaderTopic::default().with_topic(events).with_partitions(vec![asked]);
                let request = OffsetForLeaderEpochRequest::default()
                    .with_replica_id((-1).into())
                    .with_topics(vec![asked]);
                self.say::<OffsetForLeaderEpochResponse>(key, 4, &request).await
            }
            ApiKey::AddPartitionsToTxn => {
                let asked = AddPartitionsToTxnTopic::default().with_name(events).with_partitions(vec![0]);
                let request = AddPartitionsToTxnRequest::default()
                    .with_v3_and_below_transactional_id(id(self.group))
                    .with_v3_and_below_producer_id(ProducerId(7))
                    .with_v3_and_below_topics(vec![asked]);
                self.say::<AddPartitionsToTxnResponse>(key, 3, &request).await
            }
            ApiKey::AddOffsetsToTxn => {
                let request = AddOffsetsToTxnRequest::default()
                    .with_transactional_id(id(self.group))
                    .with_producer_id(ProducerId(7))
                    .with_group_id(group);
                self.say::<AddOffsetsToTxnResponse>(key, 3, &request).await
            }
            ApiKey::EndTxn => {
                let request = EndTxnRequest::default()
                    .with_transactional_id(id(self.group))
                    .with_producer_id(ProducerId(7));
                self.say::<EndTxnResponse>(key, 3, &request).await
            }
            ApiKey::TxnOffsetCommit => {
                let asked = TxnOffsetCommitRequestPartition::default()
                    .with_partition_index(0)
                    .with_committed_offset(3);
                let asked =
                    TxnOffsetCommitRequestTopic::default().with_name(events).with_partitions(vec![asked]);
                let request = TxnOffsetCommitRequest::default()
                    .with_transactional_id(id(self.group))
                    .with_producer_id(ProducerId(7))
                    .with_group_id(group)
                    .with_generation_id(-1)
                    .with_topics(vec![asked]);
                self.say::<TxnOffsetCommitResponse>(key, 3, &request).await
            }
            ApiKey::DescribeAcls => {
                self.say::<DescribeAclsResponse>(key, 3, &DescribeAclsRequest::default()).await
            }
            ApiKey::CreateAcls => {
                let request = CreateAclsRequest::default().with_creations(vec![AclCreation::default()]);
                self.say::<CreateAclsResponse>(key, 3, &request).await
            }
            ApiKey::DeleteAcls => {
                let request = DeleteAclsRequest::default().with_filters(vec![DeleteAclsFilter::default()]);
                self.say::<DeleteAclsResponse>(key, 3, &request).await
            }
            ApiKey::DescribeConfigs => {
                let asked =
                    DescribeConfigsResource::default().with_resource_type(2).with_resource_name(text(TOPIC));
                let request = DescribeConfigsRequest::default()
                    .with_resources(vec![asked.with_configuration_keys(None)]);
                self.say::<DescribeConfigsResponse>(key, 4, &request).await
            }
            ApiKey::AlterConfigs => {
                let config =
                    LegacyConfig::default().with_name(text("retention.ms")).with_value(Some(text("100000")));
                let asked = LegacyResource::default().with_resource_type(2).with_resource_name(text(TOPIC));
                let request = AlterConfigsRequest::default()
                    .with_resources(vec![asked.with_configs(vec![config])])
                    .with_validate_only(true);
                self.say::<AlterConfigsResponse>(key, 2, &request).await
            }
            ApiKey::IncrementalAlterConfigs => {
                let config = AlterableConfig::default()
                    .with_name(text("retention.ms"))
                    .with_value(Some(text("100000")));
                let asked =
                    AlterConfigsResource::default().with_resource_type(2).with_resource_name(text(TOPIC));
                let request = IncrementalAlterConfigsRequest::default()
                    .with_resources(vec![asked.with_configs(vec![config])])
                    .with_validate_only(true);
                self.say::<IncrementalAlterConfigsResponse>(key, 1, &request).await
            }
            ApiKey::DescribeLogDirs => {
                let request = DescribeLogDirsRequest::default().with_topics(None);
                self.say::<DescribeLogDirsResponse>(key, 4, &request).await
            }
            ApiKey::CreatePartitions => {
                let asked =
                    CreatePartitionsTopic::default().with_name(events).with_count(9).with_assignments(None);
                let request =
                    CreatePartitionsRequest::default().with_topics(vec![asked]).with_validate_only(true);
                self.say::<CreatePartitionsResponse>(key, 3, &request).await
            }
            ApiKey::DeleteGroups => {
                let request = DeleteGroupsRequest::default().with_groups_names(vec![group]);
                self.say::<DeleteGroupsResponse>(key, 2, &request).await
            }
            ApiKey::OffsetDelete => {
                let asked = OffsetDeleteRequestPartition::default().with_partition_index(0);
                let asked =
                    OffsetDeleteRequestTopic::default().with_name(events).with_partitions(vec![asked]);
                let request = OffsetDeleteRequest::default().with_group_id(group).with_topics(vec![asked]);
                self.say::<OffsetDeleteResponse>(key, 0, &request).await
            }
            ApiKey::DescribeClientQuotas => {
                let request = DescribeClientQuotasRequest::default();
                self.say::<DescribeClientQuotasResponse>(key, 1, &request).await
            }
            ApiKey::DescribeUserScramCredentials => {
                let request = DescribeUserScramCredentialsRequest::default();
                self.say::<DescribeUserScramCredentialsResponse>(key, 0, &request).await
            }
            ApiKey::DescribeCluster => {
                self.say::<DescribeClusterResponse>(key, 1, &DescribeClusterRequest::default()).await
            }
            ApiKey::DescribeProducers => {
                let asked = ProducersTopic::default().with_name(events).with_partition_indexes(vec![0]);
                let request = DescribeProducersRequest::default().with_topics(vec![asked]);
                self.say::<DescribeProducersResponse>(key, 0, &request).await
            }
            ApiKey::DescribeTransactions => {
                let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![id(SHOWN)]);
                self.say::<DescribeTransactionsResponse>(key, 0, &request).await
            }
            ApiKey::ListTransactions => {
                let request = ListTransactionsRequest::default().with_duration_filter(-1);
                self.say::<ListTransactionsResponse>(key, 1, &request).await
            }
            ApiKey::ConsumerGroupHeartbeat => {
                let request = ConsumerGroupHeartbeatRequest::default()
                    .with_group_id(group)
                    .with_member_id(member)
                    .with_rebalance_timeout_ms(30_000)
                    .with_subscribed_topic_names(Some(vec![events]))
                    .with_topic_partitions(Some(vec![]));
                self.say::<ConsumerGroupHeartbeatResponse>(key, 0, &request).await
            }
            ApiKey::ConsumerGroupDescribe => {
                let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group]);
                self.say::<ConsumerGroupDescribeResponse>(key, 0, &request).await
            }
            ApiKey::DescribeTopicPartitions => {
                let asked = TopicRequest::default().with_name(events);
                let request = DescribeTopicPartitionsRequest::default()
                    .with_topics(vec![asked])
                    .with_response_partition_limit(10);
                self.say::<DescribeTopicPartitionsResponse>(key, 0, &request).await
            }
        }
    }
}

/// The id of transactions that there is.
const SHOWN: &str = "shown";

/// Whether an answer carries out or tells what was asked for.
fn is_done(key: ApiKey, group: &str, answer: &str) -> bool {
    let has = |codes: &[i16]| codes.iter().any(|code| answer.contains(&format!("error_code: {code},")));
    // Of a topic, a group, the cluster, an id of transactions.
    const REFUSED: [i16; 4] = [29, 30, 31, 53];
    match key {
        ApiKey::ListGroups => answer.contains(group),
        ApiKey::ListTransactions => answer.contains(SHOWN),
        ApiKey::DescribeLogDirs => answer.contains(TOPIC),
        // There is no such member.
        ApiKey::Heartbeat | ApiKey::SyncGroup => !has(&[25, 30]),
        // Who may not know of a topic is told that there is none.
        ApiKey::Metadata | ApiKey::DescribeTopicPartitions | ApiKey::DescribeConfigs => !has(&[3, 29]),
        _ => !has(&REFUSED),
    }
}

async fn is_done_by(service: &Service, key: ApiKey, of: Key, number: usize) -> (bool, String) {
    let group = format!("group-{number}-of-{}", key.number());
    let mut root = log_in(service, Key { name: "root", hub: None }).await;
    Asking { peer: &mut root, group: &group }.ask(ApiKey::OffsetCommit).await;
    let mut peer = match needs(key) {
        Needs::Nothing => Peer::new(service).await,
        _ => log_in(service, of).await,
    };
    if key == ApiKey::SaslAuthenticate {
        Asking { peer: &mut peer, group: &group }.ask(ApiKey::SaslHandshake).await;
    }
    let answer = Asking { peer: &mut peer, group: &group }.ask(key).await;
    if service.namespace().hub(TOPIC).is_none() {
        let now = service.namespace().clock().unix_time();
        service.namespace().create_hub(&HubConfig::new(TOPIC, 2), now).unwrap();
    }
    (is_done(key, &group, &answer), answer)
}

#[tokio::test]
async fn each_request_is_for_the_keys_of_the_table() {
    let service = service().await;
    let mut root = log_in(&service, Key { name: "root", hub: None }).await;
    Asking { peer: &mut root, group: SHOWN }.ask(ApiKey::InitProducerId).await;
    for key in ApiKey::all() {
        let keys = NAMES.iter().flat_map(|name| HUBS.iter().map(|hub| Key { name, hub: *hub }));
        for (number, of) in keys.enumerate() {
            let (is_done, answer) = is_done_by(&service, key, of, number).await;
            let expected = is_enough(of, needs(key));
            assert_eq!(is_done, expected, "{key:?} ({:?}) by {of:?}: {answer}", needs(key));
        }
        if needs(key) != Needs::Nothing {
            let mut stranger = Peer::new(&service).await;
            let request = DescribeClusterRequest::default();
            // Whatever is in it: what decides is the key.
            let mut frame = stranger.frame_of(ApiKey::DescribeCluster, 0, &request).to_vec();
            frame[..2].copy_from_slice(&key.number().to_be_bytes());
            stranger.send_frame(&frame).await;
            assert!(stranger.is_closed().await, "{key:?} without a login");
        }
    }
    service.stop().await;
}

#[test]
fn the_table_of_the_documents_is_this_one() {
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for key in ApiKey::all() {
        let needs = match needs(key) {
            Needs::Nothing => "nothing".to_owned(),
            Needs::Login => "any key or token".to_owned(),
            Needs::Topic(rights) => format!("{} on the topic", one_of(rights)),
            Needs::Group(rights) => format!("{} on each topic of the group", one_of(rights)),
            Needs::Member => {
                "the id that the group gave to a member, which has joined with Listen".to_owned()
            }
            Needs::Transactions => "Send on any topic".to_owned(),
            Needs::TransactionOfGroup => {
                "Send on any topic, and Listen on each topic of the group".to_owned()
            }
            Needs::Namespace => "Manage on the namespace".to_owned(),
        };
        match rows.iter_mut().find(|(known, _)| *known == needs) {
            Some((_, keys)) => keys.push(format!("{key:?}")),
            None => rows.push((needs, vec![format!("{key:?}")])),
        }
    }
    let mut table = String::from("| request | needs |\n|---|---|\n");
    for (needs, keys) in rows {
        table.push_str(&format!("| {} | {needs} |\n", keys.join(", ")));
    }
    let document = include_str!("../../../docs/rights.md");
    assert!(document.contains(&table), "docs/rights.md should have this table:\n{table}");
}

fn one_of(rights: &[Right]) -> String {
    rights.iter().map(|right| format!("{right:?}")).collect::<Vec<_>>().join(" or ")
}
