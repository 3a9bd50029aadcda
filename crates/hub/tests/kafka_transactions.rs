//! What clients of Kafka see of transactions, and of deleted records, in the logs.
//!
//! Transactions are written straight to the logs here: what coordinates them is tested elsewhere.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::sync::Arc;
use std::time::SystemTime;

use crate::kafka_peer::{Peer, batch, fetch, produce, service, start, topic, transactional};
use hub::namespace::{HubConfig, NamespaceConfig, RightConfig, RuleConfig};
use hub::service::Service;
use kafka::ApiKey;
use kafka::record_batch::RecordBatch;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{
    DeleteRecordsRequest, DeleteRecordsResponse, DescribeProducersRequest, DescribeProducersResponse,
    FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
    SaslHandshakeResponse,
};
use kafka_protocol::protocol::StrBytes;
use partition_log::{PartitionLog, TransactionEnd, TransactionMarker};

/// The log of the first partition.
fn log(service: &Service) -> Arc<PartitionLog> {
    Arc::clone(service.namespace().hub("Events").unwrap().partitions()[0].log())
}

fn write(log: &PartitionLog, id: i64, sequence: i32, values: &[&[u8]]) {
    let bytes = transactional(id, sequence, values);
    log.append_record_batch(SystemTime::now().into(), &RecordBatch::check(&bytes).unwrap()).unwrap();
}

fn end(log: &PartitionLog, id: i64, end: TransactionEnd) {
    let marker = TransactionMarker { producer_id: id, producer_epoch: 0, end, coordinator_epoch: 2 };
    log.end_transaction(SystemTime::now().into(), &marker).unwrap().unwrap();
}

/// What a reader of committed records is answered.
#[derive(Debug, PartialEq, Eq)]
struct Fetched {
    error: i16,
    high_watermark: i64,
    last_stable_offset: i64,
    /// Producer and first offset.
    aborted: Vec<(i64, i64)>,
    /// The base offsets of the batches.
    batches: Vec<i64>,
}

fn committed(offset: i64, wait_ms: i32) -> FetchRequest {
    fetch(0, offset, wait_ms).with_isolation_level(1)
}

async fn heard(peer: &mut Peer) -> Fetched {
    let response: FetchResponse = peer.hear(ApiKey::Fetch, 12).await;
    let partition = &response.responses[0].partitions[0];
    let aborted = partition.aborted_transactions.iter().flatten();
    let mut records = partition.records.as_deref().unwrap();
    let mut batches = Vec::new();
    while !records.is_empty() {
        let batch = RecordBatch::read(records).unwrap();
        batches.push(batch.base_offset());
        records = &records[batch.bytes().len()..];
    }
    Fetched {
        error: partition.error_code,
        high_watermark: partition.high_watermark,
        last_stable_offset: partition.last_stable_offset,
        aborted: aborted.map(|it| (it.producer_id.0, it.first_offset)).collect(),
        batches,
    }
}

async fn fetched(peer: &mut Peer, request: &FetchRequest) -> Fetched {
    peer.send(ApiKey::Fetch, 12, request).await;
    heard(peer).await
}

fn found(last_stable_offset: i64, high_watermark: i64, aborted: &[(i64, i64)], batches: &[i64]) -> Fetched {
    Fetched {
        error: 0,
        high_watermark,
        last_stable_offset,
        aborted: aborted.to_vec(),
        batches: batches.to_vec(),
    }
}

#[tokio::test]
async fn a_reader_of_committed_records_gets_what_is_decided_and_learns_what_was_aborted() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let log = log(&service);
    assert_eq!(peer.produce(&produce("Events", 0, batch(&[b"0"]))).await, (0, 0));
    write(&log, 7, 0, &[b"1", b"2"]);
    write(&log, 9, 0, &[b"3"]);
    assert_eq!(peer.produce(&produce("Events", 0, batch(&[b"4"]))).await, (0, 4));
    assert_eq!(fetched(&mut peer, &committed(0, 0)).await, found(1, 5, &[], &[0]));
    assert_eq!(fetched(&mut peer, &committed(1, 0)).await, found(1, 5, &[], &[]));
    assert_eq!(fetched(&mut peer, &committed(5, 0)).await, found(1, 5, &[], &[]), "the end is no error");
    assert_eq!(fetched(&mut peer, &committed(6, 0)).await.error, 1);
    let all = fetch(0, 0, 0);
    assert_eq!(fetched(&mut peer, &all).await, found(1, 5, &[], &[0, 1, 3, 4]));

    end(&log, 7, TransactionEnd::Abort);
    assert_eq!(fetched(&mut peer, &committed(0, 0)).await, found(3, 6, &[(7, 1)], &[0, 1]));
    end(&log, 9, TransactionEnd::Commit);
    assert_eq!(fetched(&mut peer, &committed(0, 0)).await, found(7, 7, &[(7, 1)], &[0, 1, 3, 4, 5, 6]));
    assert_eq!(fetched(&mut peer, &committed(2, 0)).await, found(7, 7, &[(7, 1)], &[1, 3, 4, 5, 6]));
    assert_eq!(fetched(&mut peer, &committed(6, 0)).await, found(7, 7, &[], &[6]));
    // Those who read everything get the markers and no list.
    assert_eq!(fetched(&mut peer, &all).await, found(7, 7, &[], &[0, 1, 3, 4, 5, 6]));
    service.stop().await;
}

#[tokio::test]
async fn the_end_of_a_transaction_ends_the_wait_of_readers_of_committed_records() {
    let service = service().await;
    let (mut reader, mut writer) = (Peer::new(&service).await, Peer::new(&service).await);
    let log = log(&service);
    write(&log, 7, 0, &[b"0"]);
    reader.send(ApiKey::Fetch, 12, &committed(0, 600_000)).await;
    // The one that reads everything is answered by each of these, and does not disturb the other.
    for offset in 1..4 {
        assert_eq!(writer.produce(&produce("Events", 0, batch(&[b"plain"]))).await, (0, offset));
        assert_eq!(fetched(&mut writer, &fetch(0, offset, 600_000)).await.batches, [offset]);
    }
    end(&log, 7, TransactionEnd::Commit);
    assert_eq!(heard(&mut reader).await, found(5, 5, &[], &[0, 1, 2, 3, 4]));
    service.stop().await;
}

async fn listed(peer: &mut Peer, isolation: i8, timestamp: i64) -> (i64, i64) {
    let partition = ListOffsetsPartition::default().with_partition_index(0).with_timestamp(timestamp);
    let topic = ListOffsetsTopic::default().with_name(topic("Events")).with_partitions(vec![partition]);
    let request = ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_isolation_level(isolation)
        .with_topics(vec![topic]);
    let response: ListOffsetsResponse = peer.ask(ApiKey::ListOffsets, 8, &request).await;
    let partition = &response.topics[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    (partition.offset, partition.timestamp)
}

#[tokio::test]
async fn places_are_where_a_reader_of_that_isolation_finds_them_and_no_marker_is_one() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let log = log(&service);
    // Of 2023, and so all that is appended; markers are of today.
    let time = 1_700_000_000_000;
    write(&log, 9, 0, &[b"0"]);
    end(&log, 9, TransactionEnd::Commit);
    assert_eq!(listed(&mut peer, 0, -3).await, (0, time));
    assert_eq!(listed(&mut peer, 0, time + 1).await, (-1, -1));
    write(&log, 7, 0, &[b"2"]);
    assert_eq!((listed(&mut peer, 0, -1).await, listed(&mut peer, 1, -1).await), ((3, -1), (2, -1)));
    log.delete_before(2).unwrap();
    // What can't be fetched yet is not found.
    for (isolation, found) in [(0, (2, time)), (1, (-1, -1))] {
        assert_eq!(listed(&mut peer, isolation, time).await, found);
        assert_eq!(listed(&mut peer, isolation, -3).await, found);
        assert_eq!(listed(&mut peer, isolation, -2).await, (2, -1));
    }
    service.stop().await;
}

#[tokio::test]
async fn an_epoch_ends_with_the_log_and_there_was_none_before() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    peer.produce(&produce("Events", 0, batch(&[b"0", b"1"]))).await;
    for version in 2..=4 {
        for (name, current, epoch, expected) in [
            ("Events", -1, 0, (0, 0, 2)),
            ("Events", 0, 0, (0, 0, 2)),
            ("Events", 0, 1, (0, -1, -1)),
            ("Events", 1, 0, (75, -1, -1)),
            ("missing", 0, 0, (3, -1, -1)),
        ] {
            let partition = OffsetForLeaderPartition::default()
                .with_current_leader_epoch(current)
                .with_leader_epoch(epoch);
            let asked =
                OffsetForLeaderTopic::default().with_topic(topic(name)).with_partitions(vec![partition]);
            let mut request = OffsetForLeaderEpochRequest::default().with_topics(vec![asked]);
            if version >= 3 {
                request = request.with_replica_id((-1).into());
            }
            let response: OffsetForLeaderEpochResponse =
                peer.ask(ApiKey::OffsetForLeaderEpoch, version, &request).await;
            let found = &response.topics[0].partitions[0];
            assert_eq!((found.error_code, found.leader_epoch, found.end_offset), expected, "{name} {epoch}");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn producers_and_their_open_transactions_are_described() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let log = log(&service);
    write(&log, 7, 0, &[b"0", b"1"]);
    write(&log, 9, 5, &[b"2"]);
    end(&log, 7, TransactionEnd::Commit);
    let asked = TopicRequest::default().with_name(topic("Events")).with_partition_indexes(vec![0, 1, 2]);
    let request = DescribeProducersRequest::default().with_topics(vec![asked]);
    let response: DescribeProducersResponse = peer.ask(ApiKey::DescribeProducers, 0, &request).await;
    let [first, second, third] = &response.topics[0].partitions[..] else { panic!("three partitions") };
    let producers = first.active_producers.iter().map(|producer| {
        assert!(producer.last_timestamp > 0);
        let id = producer.producer_id.0;
        (id, producer.last_sequence, producer.coordinator_epoch, producer.current_txn_start_offset)
    });
    assert_eq!(producers.collect::<Vec<_>>(), [(7, 1, 2, -1), (9, 5, -1, 2)]);
    assert_eq!((second.error_code, second.active_producers.len(), third.error_code), (0, 0, 3));
    service.stop().await;
}

/// Low watermark and error.
async fn deleted(peer: &mut Peer, version: i16, offset: i64) -> (i64, i16) {
    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(offset);
    let asked = DeleteRecordsTopic::default().with_name(topic("Events")).with_partitions(vec![partition]);
    let request = DeleteRecordsRequest::default().with_topics(vec![asked]).with_timeout_ms(30_000);
    let response: DeleteRecordsResponse = peer.ask(ApiKey::DeleteRecords, version, &request).await;
    let partition = &response.topics[0].partitions[0];
    (partition.low_watermark, partition.error_code)
}

#[tokio::test]
async fn deleted_records_are_gone_for_every_reader() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    for offset in 0..5 {
        assert_eq!(peer.produce(&produce("Events", 0, batch(&[b"x"]))).await, (0, offset));
    }
    assert_eq!(deleted(&mut peer, 0, 6).await, (-1, 1));
    assert_eq!(deleted(&mut peer, 0, -2).await, (-1, 1));
    assert_eq!(deleted(&mut peer, 1, 3).await, (3, 0));
    assert_eq!(deleted(&mut peer, 2, 1).await, (3, 0), "it begins later");
    assert_eq!(fetched(&mut peer, &fetch(0, 2, 0)).await.error, 1);
    assert_eq!(fetched(&mut peer, &fetch(0, 3, 0)).await.batches, [3, 4]);
    assert_eq!(listed(&mut peer, 0, -2).await, (3, -1));
    assert_eq!(deleted(&mut peer, 2, -1).await, (5, 0));
    assert_eq!(fetched(&mut peer, &fetch(0, 5, 0)).await, found(5, 5, &[], &[]));
    assert_eq!(peer.produce(&produce("Events", 0, batch(&[b"x"]))).await, (0, 5));
    assert_eq!(fetched(&mut peer, &fetch(0, 5, 0)).await.batches, [5]);
    service.stop().await;
}

#[tokio::test]
async fn only_who_may_manage_a_hub_may_delete_its_records() {
    let mut namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 1)]);
    let rights = vec![RightConfig::Listen, RightConfig::Send];
    namespace.authorization_rules = vec![RuleConfig { name: "user".into(), key: "secret".into(), rights }];
    let service = start(namespace).await;
    let mut peer = Peer::new(&service).await;
    let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("PLAIN"));
    let _: SaslHandshakeResponse = peer.ask(ApiKey::SaslHandshake, 1, &request).await;
    let request = SaslAuthenticateRequest::default().with_auth_bytes("\0user\0secret".into());
    let result: SaslAuthenticateResponse = peer.ask(ApiKey::SaslAuthenticate, 2, &request).await;
    assert_eq!(result.error_code, 0);
    assert_eq!(peer.produce(&produce("Events", 0, batch(&[b"x"]))).await, (0, 0));
    assert_eq!(deleted(&mut peer, 2, 1).await, (-1, 29));
    assert_eq!(fetched(&mut peer, &fetch(0, 0, 0)).await.batches, [0]);
    service.stop().await;
}

/// A client leaves out what a producer has written until it meets the marker of a transaction that it was told of. If it were told of
/// one that it has passed, it would leave out what is committed.
#[tokio::test]
async fn an_aborted_transaction_is_not_named_again_in_a_session_that_has_passed_it() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let log = log(&service);
    write(&log, 7, 0, &[b"0"]);
    end(&log, 7, TransactionEnd::Abort);
    peer.send(ApiKey::Fetch, 12, &committed(0, 0).with_session_epoch(0)).await;
    let response: FetchResponse = peer.hear(ApiKey::Fetch, 12).await;
    assert_eq!(response.responses[0].partitions[0].aborted_transactions.as_ref().map(Vec::len), Some(1));
    write(&log, 7, 1, &[b"2"]);
    end(&log, 7, TransactionEnd::Commit);
    let next =
        |epoch, offset| committed(offset, 0).with_session_id(response.session_id).with_session_epoch(epoch);
    assert_eq!(fetched(&mut peer, &next(1, 2)).await, found(4, 4, &[], &[2, 3]));
    // Retention may take what it has passed.
    log.delete_before(3).unwrap();
    write(&log, 7, 2, &[b"4"]);
    end(&log, 7, TransactionEnd::Abort);
    assert_eq!(fetched(&mut peer, &next(2, 4)).await, found(6, 6, &[(7, 4)], &[4, 5]));
    service.stop().await;
}
