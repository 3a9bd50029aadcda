//! Members of groups over a restart of a durable service.

use std::path::Path;

use hub::namespace::{HubConfig, NamespaceConfig, StorageConfig};
use hub::service::Service;
use kafka::ApiKey;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    DescribeGroupsRequest, DescribeGroupsResponse, GroupId, HeartbeatRequest, HeartbeatResponse,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, OffsetCommitRequest,
    OffsetCommitResponse, SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::StrBytes;
use partition_log::disk::{StorageOptions, SyncPolicy};

use crate::kafka_peer::{Peer, start, topic};

const GROUP: GroupId = GroupId(StrBytes::from_static_str("group"));

/// A member of a generation, by its id.
#[derive(Clone, Debug)]
struct Member {
    id: StrBytes,
    generation: i32,
    instance: Option<StrBytes>,
}

async fn durable(directory: &Path) -> Service {
    let options = StorageOptions { sync: SyncPolicy::Always, ..StorageOptions::default() };
    let storage = StorageConfig { directory: directory.to_owned(), options };
    let hubs = vec![HubConfig::new("Events", 2)];
    start(NamespaceConfig { storage: Some(storage), ..NamespaceConfig::with_hubs(hubs) }).await
}

/// Joins as a member with a name that it keeps, and fetches its assignment; a leader assigns `part` to itself.
async fn join(peer: &mut Peer, instance: &'static str, part: &'static [u8]) -> (Member, Vec<u8>) {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(StrBytes::from_static_str("range"))
        .with_metadata("topics".into());
    let instance = Some(StrBytes::from_static_str(instance));
    let request = JoinGroupRequest::default()
        .with_group_id(GROUP)
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(30_000)
        .with_group_instance_id(instance.clone())
        .with_protocol_type(StrBytes::from_static_str("consumer"))
        .with_protocols(vec![protocol]);
    let joined: JoinGroupResponse = peer.ask(ApiKey::JoinGroup, 9, &request).await;
    assert_eq!(joined.error_code, 0);
    let member = Member { id: joined.member_id, generation: joined.generation_id, instance };
    let assignment =
        SyncGroupRequestAssignment::default().with_member_id(member.id.clone()).with_assignment(part.into());
    let request = SyncGroupRequest::default()
        .with_group_id(GROUP)
        .with_generation_id(member.generation)
        .with_member_id(member.id.clone())
        .with_group_instance_id(member.instance.clone())
        .with_assignments(if joined.skip_assignment { vec![] } else { vec![assignment] });
    let synced: SyncGroupResponse = peer.ask(ApiKey::SyncGroup, 4, &request).await;
    assert_eq!(synced.error_code, 0);
    (member, synced.assignment.to_vec())
}

async fn heartbeat(peer: &mut Peer, member: &Member) -> i16 {
    let request = HeartbeatRequest::default()
        .with_group_id(GROUP)
        .with_generation_id(member.generation)
        .with_member_id(member.id.clone())
        .with_group_instance_id(member.instance.clone());
    let answer: HeartbeatResponse = peer.ask(ApiKey::Heartbeat, 4, &request).await;
    answer.error_code
}

async fn commit(peer: &mut Peer, member: &Member) -> i16 {
    let partition = OffsetCommitRequestPartition::default().with_partition_index(1).with_committed_offset(5);
    let topic =
        OffsetCommitRequestTopic::default().with_name(topic("Events")).with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(GROUP)
        .with_generation_id_or_member_epoch(member.generation)
        .with_member_id(member.id.clone())
        .with_group_instance_id(member.instance.clone())
        .with_topics(vec![topic]);
    let answer: OffsetCommitResponse = peer.ask(ApiKey::OffsetCommit, 8, &request).await;
    answer.topics[0].partitions[0].error_code
}

async fn state(peer: &mut Peer) -> String {
    let request = DescribeGroupsRequest::default().with_groups(vec![GROUP]);
    let answer: DescribeGroupsResponse = peer.ask(ApiKey::DescribeGroups, 5, &request).await;
    answer.groups[0].group_state.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn member_goes_on_in_its_generation_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let service = durable(directory.path()).await;
    let mut peer = Peer::new(&service).await;
    let (member, part) = join(&mut peer, "a", b"part").await;
    assert_eq!((part.as_slice(), heartbeat(&mut peer, &member).await), (&b"part"[..], 0));
    service.stop().await;

    let service = durable(directory.path()).await;
    let mut peer = Peer::new(&service).await;
    assert_eq!(state(&mut peer).await, "Stable", "without a commit as well");
    assert_eq!((heartbeat(&mut peer, &member).await, commit(&mut peer, &member).await), (0, 0));
    let earlier = Member { generation: member.generation - 1, ..member.clone() };
    assert_eq!((heartbeat(&mut peer, &earlier).await, commit(&mut peer, &earlier).await), (22, 22));
    // The member has started again as well: it has the same part in the same generation, under another id.
    let (again, part) = join(&mut peer, "a", b"other").await;
    assert_eq!((again.generation, part.as_slice()), (member.generation, &b"part"[..]));
    service.stop().await;

    let service = durable(directory.path()).await;
    let mut peer = Peer::new(&service).await;
    assert_eq!((heartbeat(&mut peer, &member).await, heartbeat(&mut peer, &again).await), (82, 0));
    let identity = MemberIdentity::default().with_group_instance_id(again.instance.clone());
    let request = LeaveGroupRequest::default().with_group_id(GROUP).with_members(vec![identity]);
    let answer: LeaveGroupResponse = peer.ask(ApiKey::LeaveGroup, 5, &request).await;
    assert_eq!(answer.members[0].error_code, 0);
    service.stop().await;

    let service = durable(directory.path()).await;
    let mut peer = Peer::new(&service).await;
    assert_eq!(state(&mut peer).await, "Empty");
    let (next, part) = join(&mut peer, "a", b"next").await;
    assert!(next.generation > again.generation, "no generation is used twice");
    assert_eq!(part, b"next");
    service.stop().await;
}
