//! Compressed batches of Kafka: checked before they are stored, and searched by timestamp.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use kafka::ApiKey;
use kafka::compression::Compression;
use kafka::record_batch::RecordBatch;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use crate::kafka_peer::{Peer, batch, produce, service, topic};

const PACKING: [Compression; 4] =
    [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

/// The header of `plain` before `packed`, with a good checksum.
fn with_records(plain: &[u8], compression: Compression, packed: &[u8]) -> Vec<u8> {
    let mut batch = [&plain[..RecordBatch::HEADER_LENGTH], packed].concat();
    let length = u32::try_from(batch.len() - 12).unwrap();
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch[22] = compression.code() as u8;
    sealed(batch)
}

fn sealed(mut batch: Vec<u8>) -> Vec<u8> {
    let checksum = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&checksum.to_be_bytes());
    batch
}

pub(crate) fn compressed(plain: &[u8], compression: Compression) -> Vec<u8> {
    let mut packed = Vec::new();
    compression.pack(&plain[RecordBatch::HEADER_LENGTH..], &mut packed).unwrap();
    with_records(plain, compression, &packed)
}

/// The same with the timestamp `at` of its last record, which is the greatest one according to the header as well.
fn at(mut plain: Vec<u8>, at: i64) -> Vec<u8> {
    plain[27..35].copy_from_slice(&at.to_be_bytes());
    plain[35..43].copy_from_slice(&at.to_be_bytes());
    // The timestamps are those of the producer.
    plain[22] = 0;
    sealed(plain)
}

#[tokio::test]
async fn compressed_batches_are_checked_before_they_are_stored() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let two = batch(&[b"one", b"two"]);
    let one = batch(&[b"one"]);
    let mut offset = 0;
    for compression in PACKING {
        assert_eq!(peer.produce(&produce("Events", 0, compressed(&two, compression))).await, (0, offset));
        offset += 2;
        let fewer = {
            let mut packed = Vec::new();
            compression.pack(&one[RecordBatch::HEADER_LENGTH..], &mut packed).unwrap();
            with_records(&two, compression, &packed)
        };
        let garbage = with_records(&two, compression, b"not packed at all");
        for refused in [fewer, garbage] {
            assert_eq!(peer.produce(&produce("Events", 0, refused)).await, (87, -1), "{compression:?}");
        }
    }
    let large = vec![0; 33 << 20];
    let bomb = compressed(&batch(&[&large]), Compression::Lz4);
    assert!(bomb.len() < 1 << 20, "a client may send it");
    assert_eq!(peer.produce(&produce("Events", 0, bomb)).await, (10, -1));
    assert_eq!(peer.produce(&produce("Events", 0, batch(&[b"last"]))).await, (0, offset));
    service.stop().await;
}

#[tokio::test]
async fn offsets_are_found_by_the_timestamps_of_compressed_records() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    for time in [1_000, 3_000, 2_000] {
        let plain = at(batch(&[b"one", b"two"]), time);
        for compression in [Compression::Lz4, Compression::None] {
            assert_eq!(peer.produce(&produce("Events", 0, compressed(&plain, compression))).await.0, 0);
        }
    }
    // A header may name a greater timestamp than any record has. It is corrected, as by Kafka.
    let mut lying = at(batch(&[b"one"]), 500);
    lying[35..43].copy_from_slice(&9_000_i64.to_be_bytes());
    let lying = compressed(&sealed(lying), Compression::Gzip);
    assert_eq!(peer.produce(&produce("Events", 0, lying)).await, (0, 12));
    for (timestamp, found) in
        [(0, (0, 1_000)), (1_001, (4, 3_000)), (3_001, (-1, -1)), (-3, (4, 3_000)), (-2, (0, -1))]
    {
        assert_eq!(list(&mut peer, &[timestamp]).await, [(0, found.0, found.1)], "{timestamp}");
    }
    // The clocks of producers may be ahead of that of the service.
    let ahead = 4_000_000_000_000;
    assert_eq!(peer.produce(&produce("Events", 0, at(batch(&[b"one"]), ahead))).await, (0, 13));
    for (timestamp, found) in [(ahead - 1, 13), (ahead + 1, -1), (3_000, 4), (-3, 13)] {
        assert_eq!(list(&mut peer, &[timestamp]).await[0].1, found, "{timestamp}");
    }
    // A partition that is named twice is not looked at.
    assert_eq!(list(&mut peer, &[0, -3]).await, [(42, -1, -1); 2]);
    service.stop().await;
}

/// Error, offset and timestamp of each answer about the first partition.
async fn list(peer: &mut Peer, timestamps: &[i64]) -> Vec<(i16, i64, i64)> {
    let partition =
        |timestamp: &i64| ListOffsetsPartition::default().with_partition_index(0).with_timestamp(*timestamp);
    let partitions = timestamps.iter().map(partition).collect();
    let topic = ListOffsetsTopic::default().with_name(topic("Events")).with_partitions(partitions);
    let request = ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(vec![topic]);
    let answer: ListOffsetsResponse = peer.ask(ApiKey::ListOffsets, 8, &request).await;
    answer.topics[0].partitions.iter().map(|it| (it.error_code, it.offset, it.timestamp)).collect()
}
