//! Transactions, as a client sees them that does what no library would.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::path::Path;

use hub::namespace::{HubConfig, NamespaceConfig, RightConfig, RuleConfig, StorageConfig};
use hub::service::Service;
use kafka::ApiKey;
use kafka::control_batch::TransactionMarker;
use kafka::record::Records;
use kafka::record_batch::RecordBatch;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    DescribeTransactionsRequest, DescribeTransactionsResponse, EndTxnRequest, EndTxnResponse,
    FindCoordinatorRequest, FindCoordinatorResponse, GroupId, InitProducerIdRequest, InitProducerIdResponse,
    ListTransactionsRequest, ListTransactionsResponse, OffsetFetchRequest, OffsetFetchResponse,
    ProduceRequest, ProducerId, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
    SaslHandshakeResponse, TransactionalId, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use kafka_protocol::protocol::StrBytes;
use partition_log::disk::{StorageOptions, SyncPolicy};

use crate::kafka_peer::{Peer, batch, fetch, produce, service, start, topic};

const GROUP: GroupId = GroupId(StrBytes::from_static_str("group"));
const MOVER: TransactionalId = TransactionalId(StrBytes::from_static_str("mover"));

/// Who a producer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Producer {
    id: i64,
    epoch: i16,
}

async fn begin(peer: &mut Peer) -> Result<Producer, i16> {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(Some(MOVER))
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    let answer: InitProducerIdResponse = peer.ask(ApiKey::InitProducerId, 4, &request).await;
    let producer = Producer { id: answer.producer_id.0, epoch: answer.producer_epoch };
    if answer.error_code == 0 { Ok(producer) } else { Err(answer.error_code) }
}

/// Until what was open is aborted.
async fn begin_again(peer: &mut Peer) -> Producer {
    loop {
        match begin(peer).await {
            Ok(producer) => return producer,
            Err(error) => assert_eq!(error, 51),
        }
    }
}

async fn add(peer: &mut Peer, producer: Producer, name: &'static str, index: i32) -> i16 {
    let topic = AddPartitionsToTxnTopic::default().with_name(topic(name)).with_partitions(vec![index]);
    let request = AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(MOVER)
        .with_v3_and_below_producer_id(ProducerId(producer.id))
        .with_v3_and_below_producer_epoch(producer.epoch)
        .with_v3_and_below_topics(vec![topic]);
    let answer: AddPartitionsToTxnResponse = peer.ask(ApiKey::AddPartitionsToTxn, 3, &request).await;
    answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
}

async fn bring_offset(peer: &mut Peer, producer: Producer, offset: i64) -> (i16, i16) {
    let request = AddOffsetsToTxnRequest::default()
        .with_transactional_id(MOVER)
        .with_producer_id(ProducerId(producer.id))
        .with_producer_epoch(producer.epoch)
        .with_group_id(GROUP);
    let added: AddOffsetsToTxnResponse = peer.ask(ApiKey::AddOffsetsToTxn, 3, &request).await;
    let partition = TxnOffsetCommitRequestPartition::default()
        .with_partition_index(1)
        .with_committed_offset(offset)
        .with_committed_metadata(None);
    let topic =
        TxnOffsetCommitRequestTopic::default().with_name(topic("Events")).with_partitions(vec![partition]);
    let request = TxnOffsetCommitRequest::default()
        .with_transactional_id(MOVER)
        .with_group_id(GROUP)
        .with_producer_id(ProducerId(producer.id))
        .with_producer_epoch(producer.epoch)
        .with_generation_id(-1)
        .with_topics(vec![topic]);
    let brought: TxnOffsetCommitResponse = peer.ask(ApiKey::TxnOffsetCommit, 3, &request).await;
    (added.error_code, brought.topics[0].partitions[0].error_code)
}

async fn end(peer: &mut Peer, producer: Producer, commits: bool) -> i16 {
    let request = EndTxnRequest::default()
        .with_transactional_id(MOVER)
        .with_producer_id(ProducerId(producer.id))
        .with_producer_epoch(producer.epoch)
        .with_committed(commits);
    let answer: EndTxnResponse = peer.ask(ApiKey::EndTxn, 3, &request).await;
    answer.error_code
}

/// A batch of one record that belongs to a transaction.
fn transactional(producer: Producer, index: i32, sequence: i32, value: &[u8]) -> ProduceRequest {
    let mut batch = batch(&[value]);
    batch[22] |= 0x10;
    batch[43..51].copy_from_slice(&producer.id.to_be_bytes());
    batch[51..53].copy_from_slice(&producer.epoch.to_be_bytes());
    batch[53..57].copy_from_slice(&sequence.to_be_bytes());
    let checksum = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&checksum.to_be_bytes());
    produce("Events", index, batch).with_transactional_id(Some(MOVER))
}

/// The error and the offset in the second partition, for those who wait for what is decided, and for those who do not.
async fn offsets(peer: &mut Peer) -> [(i16, i64); 2] {
    let mut found = [(0, 0); 2];
    for (require_stable, found) in [true, false].into_iter().zip(&mut found) {
        let topic =
            OffsetFetchRequestTopics::default().with_name(topic("Events")).with_partition_indexes(vec![1]);
        let group = OffsetFetchRequestGroup::default().with_group_id(GROUP).with_topics(Some(vec![topic]));
        let request =
            OffsetFetchRequest::default().with_groups(vec![group]).with_require_stable(require_stable);
        let answer: OffsetFetchResponse = peer.ask(ApiKey::OffsetFetch, 8, &request).await;
        let partition = &answer.groups[0].topics[0].partitions[0];
        *found = (partition.error_code, partition.committed_offset);
    }
    found
}

/// Checks what is in a partition: values of records, and how transactions ended.
async fn expect(peer: &mut Peer, index: i32, expected: &[&str]) {
    let mut content = Vec::new();
    let mut offset = 0;
    while content.len() < expected.len() {
        // What was there before a restart is read from the disk, a segment at a time.
        let (error, bytes) = peer.fetch(&fetch(index, offset, 600_000)).await;
        assert_eq!(error, 0);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let batch = RecordBatch::read(rest).unwrap();
            match TransactionMarker::read(&batch) {
                Some(marker) => content.push(format!("{:?}", marker.end)),
                None => content.extend(Records::of(batch.records()).map(|record| {
                    String::from_utf8(record.unwrap().value.unwrap_or_default().to_vec()).unwrap()
                })),
            }
            offset = batch.base_offset() + i64::from(batch.record_count());
            rest = &rest[batch.bytes().len()..];
        }
    }
    assert_eq!(content, expected);
}

async fn durable(directory: &Path) -> Service {
    let options = StorageOptions { sync: SyncPolicy::Os, ..StorageOptions::default() };
    let storage = StorageConfig { directory: directory.to_owned(), options };
    let hubs = vec![HubConfig::new("Events", 2)];
    start(NamespaceConfig { storage: Some(storage), ..NamespaceConfig::with_hubs(hubs) }).await
}

#[tokio::test]
async fn what_a_transaction_writes_counts_as_a_whole_with_its_offsets() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let find = FindCoordinatorRequest::default()
        .with_key_type(1)
        .with_coordinator_keys(vec![StrBytes::from_static_str("mover")]);
    let found: FindCoordinatorResponse = peer.ask(ApiKey::FindCoordinator, 4, &find).await;
    assert_eq!(found.coordinators[0].error_code, 0);
    let producer = begin(&mut peer).await.unwrap();
    assert_eq!(peer.produce(&transactional(producer, 0, 0, b"early")).await, (48, -1));
    assert_eq!(add(&mut peer, producer, "Events", 9).await, 3);
    assert_eq!(add(&mut peer, producer, "Missing", 0).await, 3);
    for index in [0, 1] {
        assert_eq!(add(&mut peer, producer, "Events", index).await, 0);
        assert_eq!(peer.produce(&transactional(producer, index, 0, b"one")).await, (0, 0));
    }
    assert_eq!(bring_offset(&mut peer, producer, 5).await, (0, 0));
    assert_eq!(offsets(&mut peer).await, [(88, -1), (0, -1)]);

    let ids = DescribeTransactionsRequest::default()
        .with_transactional_ids(vec![MOVER, TransactionalId(StrBytes::from_static_str("other"))]);
    let described: DescribeTransactionsResponse = peer.ask(ApiKey::DescribeTransactions, 0, &ids).await;
    let [mover, other] = &described.transaction_states[..] else { panic!("two") };
    assert_eq!((mover.transaction_state.as_str(), &mover.topics[0].partitions[..]), ("Ongoing", &[0, 1][..]));
    assert_eq!(other.error_code, 105);
    let all = ListTransactionsRequest::default();
    let listed: ListTransactionsResponse = peer.ask(ApiKey::ListTransactions, 1, &all).await;
    assert_eq!(listed.transaction_states[0].producer_id.0, producer.id);

    assert_eq!(end(&mut peer, producer, true).await, 0);
    assert_eq!(end(&mut peer, producer, true).await, 0, "again");
    assert_eq!(end(&mut peer, producer, false).await, 48);
    assert_eq!(offsets(&mut peer).await, [(0, 5); 2]);
    expect(&mut peer, 0, &["one", "Commit"]).await;

    assert_eq!(add(&mut peer, producer, "Events", 0).await, 0);
    assert_eq!(peer.produce(&transactional(producer, 0, 1, b"two")).await, (0, 2));
    assert_eq!(bring_offset(&mut peer, producer, 9).await, (0, 0));
    assert_eq!(end(&mut peer, producer, false).await, 0);
    assert_eq!(offsets(&mut peer).await, [(0, 5); 2]);
    expect(&mut peer, 0, &["one", "Commit", "two", "Abort"]).await;
    expect(&mut peer, 1, &["one", "Commit"]).await;
    service.stop().await;
}

#[tokio::test]
async fn a_producer_whose_place_is_taken_is_fenced() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let first = begin(&mut peer).await.unwrap();
    add(&mut peer, first, "Events", 0).await;
    assert_eq!(peer.produce(&transactional(first, 0, 0, b"one")).await, (0, 0));
    let second = begin_again(&mut peer).await;
    assert!(second.id == first.id && second.epoch > first.epoch);
    expect(&mut peer, 0, &["one", "Abort"]).await;
    assert_eq!(peer.produce(&transactional(first, 0, 1, b"two")).await, (47, -1));
    assert_eq!(add(&mut peer, first, "Events", 0).await, 90);
    assert_eq!(end(&mut peer, first, true).await, 90);
    add(&mut peer, second, "Events", 0).await;
    assert_eq!(peer.produce(&transactional(second, 0, 0, b"three")).await, (0, 2));
    assert_eq!(end(&mut peer, second, true).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn transactions_need_the_right_to_send() {
    let mut namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 2)]);
    namespace.authorization_rules =
        vec![RuleConfig { name: "reader".into(), key: "reading".into(), rights: vec![RightConfig::Listen] }];
    let service = start(namespace).await;
    let mut peer = Peer::new(&service).await;
    let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("PLAIN"));
    let _: SaslHandshakeResponse = peer.ask(ApiKey::SaslHandshake, 1, &request).await;
    let request = SaslAuthenticateRequest::default().with_auth_bytes("\0reader\0reading".into());
    let _: SaslAuthenticateResponse = peer.ask(ApiKey::SaslAuthenticate, 2, &request).await;
    assert_eq!(begin(&mut peer).await, Err(53));
    let nobody = Producer { id: 1, epoch: 0 };
    assert_eq!(add(&mut peer, nobody, "Events", 0).await, 53);
    assert_eq!(bring_offset(&mut peer, nobody, 0).await, (53, 53));
    assert_eq!(end(&mut peer, nobody, true).await, 53);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_goes_on_after_a_restart_and_ends_as_it_was_decided() {
    let directory = tempfile::tempdir().unwrap();
    let service = durable(directory.path()).await;
    let mut peer = Peer::new(&service).await;
    let producer = begin(&mut peer).await.unwrap();
    add(&mut peer, producer, "Events", 0).await;
    assert_eq!(peer.produce(&transactional(producer, 0, 0, b"one")).await, (0, 0));
    assert_eq!(bring_offset(&mut peer, producer, 5).await, (0, 0));
    service.stop().await;

    let service = durable(directory.path()).await;
    let mut peer = Peer::new(&service).await;
    assert_eq!(offsets(&mut peer).await, [(88, -1), (0, -1)]);
    assert_eq!(peer.produce(&transactional(producer, 0, 1, b"two")).await, (0, 1));
    assert_eq!(end(&mut peer, producer, true).await, 0);
    assert_eq!(offsets(&mut peer).await, [(0, 5); 2]);
    expect(&mut peer, 0, &["one", "two", "Commit"]).await;
    // The next one is cut off by a restart, after which another producer takes the place.
    assert_eq!(add(&mut peer, producer, "Events", 0).await, 0);
    assert_eq!(peer.produce(&transactional(producer, 0, 2, b"three")).await, (0, 3));
    service.stop().await;

    let service = durable(directory.path()).await;
    let mut peer = Peer::new(&service).await;
    let next = begin_again(&mut peer).await;
    assert!(next.id == producer.id && next.epoch > producer.epoch);
    expect(&mut peer, 0, &["one", "two", "Commit", "three", "Abort"]).await;
    assert_eq!(offsets(&mut peer).await, [(0, 5); 2]);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_coordinator_knows_of_is_aborted_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let service = durable(directory.path()).await;
    let mut peer = Peer::new(&service).await;
    let producer = begin(&mut peer).await.unwrap();
    add(&mut peer, producer, "Events", 0).await;
    assert_eq!(peer.produce(&transactional(producer, 0, 0, b"one")).await, (0, 0));
    service.stop().await;
    std::fs::remove_dir_all(directory.path().join("kafka")).unwrap();

    let service = durable(directory.path()).await;
    let mut peer = Peer::new(&service).await;
    let hub = service.namespace().hub("Events").unwrap();
    assert!(hub.partitions()[0].log().open_transactions().is_empty());
    expect(&mut peer, 0, &["one", "Abort"]).await;
    assert_eq!(end(&mut peer, producer, true).await, 49);
    service.stop().await;
}
