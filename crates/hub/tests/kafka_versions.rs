//! Requests of clients that are older than the broker, or newer, and those that are refused: what they get, and what is counted.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use hub::namespace::{HubConfig, NamespaceConfig, StorageConfig};
use hub::service::Service;
use kafka::ApiKey;
use kafka_protocol::messages::{
    DescribeClusterRequest, DescribeClusterResponse, MetadataRequest, MetadataResponse,
};
use partition_log::disk::StorageOptions;

use crate::kafka_peer::{Peer, start};

#[tokio::test]
async fn cluster_has_an_id_of_its_own_which_a_durable_service_keeps() {
    let id_of = async |service: &Service| {
        let mut peer = Peer::new(service).await;
        let answer: MetadataResponse = peer.ask(ApiKey::Metadata, 9, &MetadataRequest::default()).await;
        let id = answer.cluster_id.unwrap().to_string();
        let request = DescribeClusterRequest::default();
        let described: DescribeClusterResponse = peer.ask(ApiKey::DescribeCluster, 0, &request).await;
        assert_eq!(described.cluster_id.as_str(), id);
        let is_in_alphabet = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        assert!(id.len() == 22 && id.bytes().all(is_in_alphabet), "{id}");
        id
    };
    let directory = tempfile::tempdir().unwrap();
    let storage =
        StorageConfig { directory: directory.path().to_owned(), options: StorageOptions::default() };
    let hubs = || NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 1)]);
    let durable = || NamespaceConfig { storage: Some(storage.clone()), ..hubs() };
    let mut ids = Vec::new();
    for namespace in [durable(), durable(), hubs(), hubs()] {
        let service = start(namespace).await;
        ids.push(id_of(&service).await);
        service.stop().await;
    }
    assert_eq!(ids[0], ids[1], "of one directory");
    ids.dedup();
    assert_eq!(ids.len(), 3, "the others are other clusters: {ids:?}");
}
