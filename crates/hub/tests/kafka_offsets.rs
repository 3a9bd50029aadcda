//! How far groups have come: what outlives a durable service, and what goes with a hub.

use std::path::Path;

use hub::namespace::{HubConfig, NamespaceConfig, StorageConfig};
use hub::service::Service;
use kafka::ApiKey;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::{
    DeleteGroupsRequest, DeleteGroupsResponse, GroupId, ListGroupsRequest, ListGroupsResponse,
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest,
    OffsetFetchResponse,
};
use kafka_protocol::protocol::StrBytes;
use partition_log::disk::{StorageOptions, SyncPolicy};

use crate::kafka_peer::{Peer, start, topic};

const GROUP: GroupId = GroupId(StrBytes::from_static_str("group"));

async fn durable(directory: &Path, hubs: &[&str]) -> Service {
    let options = StorageOptions { sync: SyncPolicy::Os, ..StorageOptions::default() };
    let storage = StorageConfig { directory: directory.to_owned(), options };
    let hubs = hubs.iter().map(|name| HubConfig::new(*name, 2)).collect();
    start(NamespaceConfig { storage: Some(storage), ..NamespaceConfig::with_hubs(hubs) }).await
}

async fn commit(peer: &mut Peer, name: &'static str, offset: i64) -> i16 {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(1)
        .with_committed_offset(offset)
        .with_committed_leader_epoch(0)
        .with_committed_metadata(Some(StrBytes::from_static_str("note")));
    let topic = OffsetCommitRequestTopic::default().with_name(topic(name)).with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(GROUP)
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    let answer: OffsetCommitResponse = peer.ask(ApiKey::OffsetCommit, 8, &request).await;
    answer.topics[0].partitions[0].error_code
}

/// The offset in the second partition.
async fn offset(peer: &mut Peer, name: &'static str) -> i64 {
    let topic = OffsetFetchRequestTopics::default().with_name(topic(name)).with_partition_indexes(vec![1]);
    let group = OffsetFetchRequestGroup::default().with_group_id(GROUP).with_topics(Some(vec![topic]));
    let request = OffsetFetchRequest::default().with_groups(vec![group]).with_require_stable(true);
    let answer: OffsetFetchResponse = peer.ask(ApiKey::OffsetFetch, 8, &request).await;
    let partition = &answer.groups[0].topics[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    partition.committed_offset
}

async fn groups(peer: &mut Peer) -> Vec<(String, String)> {
    let answer: ListGroupsResponse = peer.ask(ApiKey::ListGroups, 4, &ListGroupsRequest::default()).await;
    answer.groups.iter().map(|it| (it.group_id.to_string(), it.group_state.to_string())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_outlive_a_durable_service_and_go_with_their_hub() {
    let directory = tempfile::tempdir().unwrap();
    let service = durable(directory.path(), &["Events", "Others"]).await;
    let mut peer = Peer::new(&service).await;
    assert_eq!(offset(&mut peer, "Events").await, -1);
    let version = || std::fs::read_to_string(directory.path().join("VERSION")).unwrap();
    assert!(version().ends_with("version 2\n"));
    for number in 0..=100 {
        assert_eq!(commit(&mut peer, "Events", number).await, 0);
    }
    assert_eq!(commit(&mut peer, "Others", 7).await, 0);
    assert_eq!(commit(&mut peer, "Missing", 7).await, 3);
    assert!(version().ends_with("version 5\n"), "older programs would not know of offsets");
    service.stop().await;

    let service = durable(directory.path(), &[]).await;
    let mut peer = Peer::new(&service).await;
    assert_eq!((offset(&mut peer, "Events").await, offset(&mut peer, "Others").await), (100, 7));
    assert_eq!(groups(&mut peer).await, [("group".to_owned(), "Empty".to_owned())]);
    service.namespace().delete_hub("Others").unwrap();
    service
        .namespace()
        .create_hub(&HubConfig::new("Others", 2), std::time::SystemTime::now().into())
        .unwrap();
    assert_eq!(offset(&mut peer, "Others").await, -1, "it is another hub");
    service.stop().await;

    let service = durable(directory.path(), &[]).await;
    let mut peer = Peer::new(&service).await;
    assert_eq!((offset(&mut peer, "Events").await, offset(&mut peer, "Others").await), (100, -1));
    let request = DeleteGroupsRequest::default().with_groups_names(vec![GROUP]);
    let answer: DeleteGroupsResponse = peer.ask(ApiKey::DeleteGroups, 2, &request).await;
    assert_eq!(answer.results[0].error_code, 0);
    service.stop().await;

    let service = durable(directory.path(), &[]).await;
    let mut peer = Peer::new(&service).await;
    assert_eq!(groups(&mut peer).await, []);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_are_deleted_one_by_one() {
    let directory = tempfile::tempdir().unwrap();
    let service = durable(directory.path(), &["Events", "Others"]).await;
    let mut peer = Peer::new(&service).await;
    let delete = |name| {
        let partition = OffsetDeleteRequestPartition::default().with_partition_index(1);
        let topic =
            OffsetDeleteRequestTopic::default().with_name(topic(name)).with_partitions(vec![partition]);
        OffsetDeleteRequest::default().with_group_id(GROUP).with_topics(vec![topic])
    };
    let answer: OffsetDeleteResponse = peer.ask(ApiKey::OffsetDelete, 0, &delete("Events")).await;
    assert_eq!(answer.error_code, 69);
    commit(&mut peer, "Events", 3).await;
    commit(&mut peer, "Others", 4).await;
    let answer: OffsetDeleteResponse = peer.ask(ApiKey::OffsetDelete, 0, &delete("Events")).await;
    assert_eq!((answer.error_code, answer.topics[0].partitions[0].error_code), (0, 0));
    assert_eq!((offset(&mut peer, "Events").await, offset(&mut peer, "Others").await), (-1, 4));
    service.stop().await;
    let service = durable(directory.path(), &[]).await;
    let mut peer = Peer::new(&service).await;
    assert_eq!((offset(&mut peer, "Events").await, offset(&mut peer, "Others").await), (-1, 4));
    service.stop().await;
}
