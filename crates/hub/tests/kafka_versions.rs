//! Requests of clients that are older than the broker, or newer, and those that are refused: what they get, and what is counted.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use hub::namespace::{HubConfig, NamespaceConfig, StorageConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use kafka::ApiKey;
use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, DescribeClusterRequest, DescribeClusterResponse,
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse, GroupId, MetadataRequest,
    MetadataResponse, OffsetFetchRequest, OffsetFetchResponse,
};
use kafka_protocol::protocol::StrBytes;
use partition_log::disk::StorageOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::kafka_peer::{Peer, batch, produce, service, start, within};

/// The body of the answer to a request whose body is written byte by byte, of a version that is not flexible.
async fn ask(peer: &mut Peer, key: ApiKey, version: i16, body: &[u8]) -> Vec<u8> {
    send(peer, key, version, body).await;
    peer.heard += 1;
    let frame = peer.frame().await;
    assert_eq!(frame[..4], peer.heard.to_be_bytes());
    frame[4..].to_vec()
}

async fn send(peer: &mut Peer, key: ApiKey, version: i16, body: &[u8]) {
    peer.sent += 1;
    let numbers =
        [&key.number().to_be_bytes()[..], &version.to_be_bytes(), &peer.sent.to_be_bytes()].concat();
    peer.send_frame(&[&numbers[..], &text("old"), body].concat()).await;
}

fn text(text: &str) -> Vec<u8> {
    [&u16::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat()
}

fn i32s(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn i64s(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// One topic with one partition, the first.
fn partition(topic: &str) -> Vec<u8> {
    [i32s(&[1]), text(topic), i32s(&[1, 0])].concat()
}

/// The metrics of a service.
async fn metrics(service: &Service) -> String {
    let mut page = TcpStream::connect(service.address(Protocol::Operations).unwrap()).await.unwrap();
    page.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut metrics = String::new();
    within(page.read_to_string(&mut metrics)).await.unwrap();
    metrics
}

fn has_line(metrics: &str, expected: &str) {
    assert!(metrics.lines().any(|line| line == expected), "{expected} is not in:\n{metrics}");
}

#[tokio::test]
async fn every_request_is_served_from_its_first_version_but_those_with_records() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let answer: ApiVersionsResponse = peer.ask(ApiKey::ApiVersions, 0, &ApiVersionsRequest::default()).await;
    assert_eq!(answer.api_keys.len(), ApiKey::all().count());
    for listed in &answer.api_keys {
        let first = if listed.api_key == ApiKey::Fetch.number() { 4 } else { 0 };
        assert_eq!(listed.min_version, first, "{:?}", ApiKey::of(listed.api_key));
    }
    service.stop().await;
}

#[tokio::test]
async fn first_clients_of_groups_commit_and_read_what_they_have_committed() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let group = text("group");
    let no_member = [i32s(&[-1]), text("")].concat();
    for (version, offset) in [(0, 5), (1, 7)] {
        let member = if version == 1 { &no_member[..] } else { &[] };
        let time = if version == 1 { i64s(&[-1]) } else { Vec::new() };
        let body =
            [&group[..], member, &partition("Events"), &i64s(&[offset]), &time, &text("mine")].concat();
        let committed = ask(&mut peer, ApiKey::OffsetCommit, version, &body).await;
        assert_eq!(committed, [partition("Events"), vec![0, 0]].concat(), "version {version}");
        let fetched =
            ask(&mut peer, ApiKey::OffsetFetch, 0, &[&group[..], &partition("Events")].concat()).await;
        assert_eq!(fetched, [partition("Events"), i64s(&[offset]), text("mine"), vec![0, 0]].concat());
    }
    // Newer clients find the same.
    let request = OffsetFetchRequest::default()
        .with_group_id(GroupId(StrBytes::from_static_str("group")))
        .with_topics(None);
    let answer: OffsetFetchResponse = peer.ask(ApiKey::OffsetFetch, 7, &request).await;
    assert_eq!(answer.topics[0].partitions[0].committed_offset, 7);
    service.stop().await;
}

#[tokio::test]
async fn first_clients_find_the_ends_of_logs_and_create_and_delete_topics() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    for _ in 0..3 {
        peer.produce(&produce("Events", 0, batch(&[b"x"]))).await;
    }
    // The latest, the earliest, before there was anything, and long after.
    for (time, offsets) in [(-1, &[3][..]), (-2, &[0]), (0, &[]), (i64::MAX, &[3])] {
        let body = [i32s(&[-1]), partition("Events"), i64s(&[time]), i32s(&[1])].concat();
        let found = ask(&mut peer, ApiKey::ListOffsets, 0, &body).await;
        let count = i32s(&[i32::try_from(offsets.len()).unwrap()]);
        assert_eq!(found, [partition("Events"), vec![0, 0], count, i64s(offsets)].concat(), "{time}");
    }
    let new = |name| [i32s(&[1]), text(name), i32s(&[3]), vec![0, 1], i32s(&[0, 0]), i32s(&[5_000])].concat();
    let created = ask(&mut peer, ApiKey::CreateTopics, 0, &new("first")).await;
    assert_eq!(created, [i32s(&[1]), text("first"), vec![0, 0]].concat());
    let validated = ask(&mut peer, ApiKey::CreateTopics, 1, &[&new("second")[..], &[1]].concat()).await;
    assert_eq!(validated, [i32s(&[1]), text("second"), vec![0, 0, 0xff, 0xff]].concat());
    assert_eq!(service.namespace().hub("first").unwrap().partitions().len(), 3);
    assert!(service.namespace().hub("second").is_none(), "it was validated alone");
    let body = [i32s(&[1]), text("first"), i32s(&[5_000])].concat();
    let deleted = ask(&mut peer, ApiKey::DeleteTopics, 0, &body).await;
    assert_eq!(deleted, [i32s(&[1]), text("first"), vec![0, 0]].concat());
    assert!(service.namespace().hub("first").is_none());
    service.stop().await;
}

#[tokio::test]
async fn version_that_is_not_served_is_refused_where_clients_can_find_the_error_and_counted() {
    let namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 2)]);
    let config = ServiceConfig::loopback(namespace).and(Protocol::Kafka).and(Protocol::Operations);
    let service = Service::start(config).await.unwrap();
    let mut peer = Peer::new(&service).await;
    // The answer to a request of before waits for no commit here, and comes first all the same.
    peer.send(ApiKey::Produce, 9, &produce("Events", 0, batch(&[b"x"]))).await;
    let set = [vec![0, 1], i32s(&[9]), partition("Events"), i32s(&[3]), vec![1, 2, 3]].concat();
    send(&mut peer, ApiKey::Produce, 2, &set).await;
    let _: kafka_protocol::messages::ProduceResponse = peer.hear(ApiKey::Produce, 9).await;
    peer.heard += 1;
    let refused = [partition("Events"), vec![0, 35], i64s(&[-1, -1]), i32s(&[0])].concat();
    assert_eq!(peer.frame().await[4..], refused);
    let body = [i32s(&[-1, 9, 1]), partition("Events"), i64s(&[0]), i32s(&[1_000])].concat();
    let fetched = ask(&mut peer, ApiKey::Fetch, 0, &body).await;
    assert_eq!(fetched, [partition("Events"), vec![0, 35], i64s(&[-1]), i32s(&[0])].concat());
    // A header that ends with tagged fields, and a body of which nothing is known.
    send(&mut peer, ApiKey::Heartbeat, 99, &[0, 1, 2, 3]).await;
    peer.heard += 1;
    assert_eq!(peer.frame().await[4..], [0, 0, 0, 0, 0, 0, 35, 0]);
    // It has no place for an error.
    send(&mut peer, ApiKey::Metadata, 99, &[0]).await;
    assert!(peer.is_closed().await);
    let mut unknown = Peer::new(&service).await;
    unknown.send_frame(&[&[3, 0xe7, 0, 0, 0, 0, 0, 1][..], &text("old")].concat()).await;
    assert!(unknown.is_closed().await);
    let metrics = metrics(&service).await;
    for request in ["Produce", "Fetch", "Heartbeat", "Metadata", "Unknown"] {
        let labels = format!("request=\"{request}\",error=\"UNSUPPORTED_VERSION\"");
        has_line(&metrics, &format!("parshall_kafka_refusals_total{{{labels}}} 1"));
    }
    service.stop().await;
}

#[tokio::test]
async fn refused_requests_are_counted_by_request_and_error_and_agreements_are_not() {
    let namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 2)]);
    let config = ServiceConfig::loopback(namespace).and(Protocol::Kafka).and(Protocol::Operations);
    let service = Service::start(config).await.unwrap();
    let mut peer = Peer::new(&service).await;
    for _ in 0..3 {
        assert_eq!(peer.produce(&produce("missing", 0, batch(&[b"x"]))).await, (3, -1));
    }
    assert_eq!(peer.produce(&produce("Events", 0, vec![0; 2 << 20])).await, (10, -1));
    // A new member is told its id by an error, and comes again with it.
    let join =
        [text("group"), i32s(&[30_000, 30_000]), text(""), text("consumer"), i32s(&[1]), text("range")];
    let joined = ask(&mut peer, ApiKey::JoinGroup, 4, &[&join.concat()[..], &i32s(&[0])].concat()).await;
    assert_eq!(joined[4..6], [0, 79]);
    let mut broken = Peer::new(&service).await;
    broken.stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert!(broken.is_closed().await);
    let metrics = metrics(&service).await;
    for (request, error, count) in [
        ("Produce", "UNKNOWN_TOPIC_OR_PARTITION", 3),
        ("Produce", "MESSAGE_TOO_LARGE", 1),
        ("Connection", "malformed", 1),
    ] {
        let labels = format!("request=\"{request}\",error=\"{error}\"");
        has_line(&metrics, &format!("parshall_kafka_refusals_total{{{labels}}} {count}"));
    }
    assert!(!metrics.contains("MEMBER_ID_REQUIRED"), "{metrics}");
    service.stop().await;
}

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

#[tokio::test]
async fn no_user_has_scram_credentials() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let key = ApiKey::DescribeUserScramCredentials;
    let all = DescribeUserScramCredentialsRequest::default().with_users(None);
    let answer: DescribeUserScramCredentialsResponse = peer.ask(key, 0, &all).await;
    assert_eq!((answer.error_code, answer.results.len()), (0, 0));
    service.stop().await;
}
