use std::sync::Arc;

use amqp::Value;
use amqp::codec::{Symbol, write};
use amqp::message::{MessageView, Properties, encode};
use convert::annotations::{self, RecordAnnotations};
use kafka::compression::Compression;
use kafka::record::{self, Records};
use kafka::record_batch::{self, RecordBatch};
use partition_log::{BlockPool, Edge, LogChunk, LogLimits, NewRecord, PartitionLog, Start, UnixTime};
use units::ByteSize;

use super::*;

const NOW: UnixTime = UnixTime::from_milliseconds(1_700_000_000_000);

fn pool() -> Arc<BlockPool> {
    BlockPool::new(ByteSize::from_mebibytes(1))
}

fn log() -> PartitionLog {
    PartitionLog::new(LogLimits::default(), pool())
}

fn chunk(log: &PartitionLog) -> LogChunk {
    let mut cursor = log.position(Start::SequenceNumber(0, Edge::Inclusive)).unwrap();
    log.read(&mut cursor, 1 << 20).unwrap()
}

/// The first batch of a chunk in one or several pieces, from the record `wanted` on.
fn pieces(chunk: &LogChunk, wanted: u64) -> Result<Vec<LogChunk>, ConvertError> {
    match amqp_batch(chunk, &pool())? {
        AmqpBatch::Whole(whole) => Ok(vec![whole]),
        AmqpBatch::Unpacking(mut rest) => {
            let (mut pieces, mut wanted) = (Vec::new(), wanted);
            while rest.precedes(wanted) {
                pieces.extend(rest.advance(wanted, &pool())?);
                wanted = pieces.last().map_or(wanted, |piece: &LogChunk| piece.end().next_sequence_number());
            }
            Ok(pieces)
        }
    }
}

/// A batch of three records, of which one has everything.
fn batch() -> Vec<u8> {
    let mut batch = vec![0; RecordBatch::HEADER_LENGTH];
    let headers = [("trace", &b"first"[..]), ("other", b"\x00\xff"), ("trace", b"last")]
        .map(|(name, value)| (name.as_bytes(), Some(value)));
    record::encode(&mut batch, 0, Some(b"key"), Some(b"value"), headers.into_iter());
    record::encode(&mut batch, 1, None, None, std::iter::empty());
    record::encode(&mut batch, 2, None, Some(&[7; 300]), std::iter::empty());
    record_batch::complete(&mut batch, 0, -1, 3, 1);
    batch
}

fn assert_is_the_batch_over_amqp(converted: &LogChunk) {
    let [first, second, third] = &converted.records().collect::<Vec<_>>()[..] else { panic!("three") };
    assert_eq!((first.sequence_number, third.sequence_number, first.append_time), (0, 2, NOW));
    let [mut of_first, mut of_second, mut of_third] = [const { Vec::new() }; 3];
    for (record, section) in [(first, &mut of_first), (second, &mut of_second), (third, &mut of_third)] {
        annotations::section(section, record.annotation_count, record.annotations);
    }
    let of_first = annotations::of_message(&of_first).unwrap();
    assert_eq!((of_first.key, of_first.is_tombstone, of_first.headers.len()), (Some(&b"key"[..]), false, 3));
    let of_second = annotations::of_message(&of_second).unwrap();
    assert_eq!((of_second.key, of_second.is_tombstone), (None, true));
    assert_eq!(annotations::of_message(&of_third), Some(RecordAnnotations::default()));
    let message = MessageView::parse(first.sections).unwrap();
    assert_eq!(message.data().unwrap(), Some(&b"value"[..]));
    let properties = message.application_properties().unwrap();
    assert_eq!(properties.entries().unwrap().len(), 2);
    assert_eq!(properties.find("trace").unwrap(), Some(Value::Binary(b"last".to_vec())));
    assert_eq!(properties.find("other").unwrap(), Some(Value::Binary(b"\x00\xff".to_vec())));
    assert_eq!(MessageView::parse(second.sections).unwrap().data().unwrap(), Some(&b""[..]));
    assert_eq!(MessageView::parse(third.sections).unwrap().data().unwrap(), Some(&[7; 300][..]));
}

#[test]
fn records_of_kafka_are_messages_with_their_key_headers_and_value() {
    let log = log();
    log.append_record_batch(NOW, &RecordBatch::check(&batch()).unwrap()).unwrap();
    assert_is_the_batch_over_amqp(&pieces(&chunk(&log), 0).unwrap()[0]);
}

/// The batch with `packed` in place of its records.
fn compressed(code: u8, packed: &[u8]) -> Vec<u8> {
    let mut batch = [&batch()[..RecordBatch::HEADER_LENGTH], packed].concat();
    let length = (batch.len() - 12) as u32;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch[22] = code;
    let checksum = crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&checksum.to_be_bytes());
    batch
}

/// The same with another count of records.
fn with_count(mut batch: Vec<u8>, count: i32) -> Vec<u8> {
    batch[57..61].copy_from_slice(&count.to_be_bytes());
    batch[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    let checksum = crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&checksum.to_be_bytes());
    batch
}

/// By the polynomial, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

#[test]
fn a_compressed_batch_is_unpacked_and_one_that_lies_is_refused() {
    let plain = batch()[RecordBatch::HEADER_LENGTH..].to_vec();
    // A literal of Snappy: its length, a tag with the length in two bytes, and the bytes.
    let literal = |length: usize, bytes: &[u8]| {
        let mut packed = Vec::new();
        kafka::write::unsigned_varint(&mut packed, length as u32);
        packed.push(61 << 2);
        packed.extend_from_slice(&(bytes.len() as u16 - 1).to_le_bytes());
        [&packed, bytes].concat()
    };
    let good = compressed(2, &literal(plain.len(), &plain));
    let checked = RecordBatch::check(&good).unwrap();
    assert_eq!(checked.compression(), Ok(Compression::Snappy));
    let log_of = |batch: &[u8]| {
        let log = log();
        log.append_record_batch(NOW, &RecordBatch::check(batch).unwrap()).unwrap();
        log
    };
    assert_is_the_batch_over_amqp(&pieces(&chunk(&log_of(&good)), 0).unwrap()[0]);
    // Fewer records than it says, records that are none, and a bomb.
    let [one, ..] = &[plain[..1 + (plain[0] as usize >> 1)].to_vec()];
    for packed in [literal(one.len(), one), literal(9, &[1; 9]), literal(1 << 30, &plain), vec![]] {
        let refused = pieces(&chunk(&log_of(&compressed(2, &packed))), 0);
        assert!(refused.is_err(), "{refused:?}");
    }
}

#[test]
fn compressed_batch_is_converted_piece_by_piece_from_any_record() {
    let mut records = Vec::new();
    for delta in 0..40 {
        let value = vec![delta as u8; 100_000];
        record::encode(&mut records, delta, None, Some(&value), std::iter::empty());
    }
    let mut packed = Vec::new();
    Compression::Lz4.pack(&records, &mut packed).unwrap();
    let batch = with_count(compressed(Compression::Lz4.code() as u8, &packed), 40);
    let log = log();
    log.append_record_batch(NOW, &RecordBatch::check(&batch).unwrap()).unwrap();
    for wanted in [0, 1, 17, 39] {
        let pieces = pieces(&chunk(&log), wanted).unwrap();
        let numbers: Vec<u64> =
            pieces.iter().flat_map(|piece| piece.records().map(|it| it.sequence_number)).collect();
        assert_eq!(numbers, (wanted..40).collect::<Vec<_>>());
        assert!(pieces.iter().all(|piece| piece.bytes().len() <= 512 * 1024), "pieces are small");
        let last = pieces.last().unwrap().records().last().unwrap();
        assert_eq!(MessageView::parse(last.sections).unwrap().data().unwrap(), Some(&[39; 100_000][..]));
    }
}

#[test]
fn messages_of_amqp_are_records_with_their_properties_as_headers() {
    let log = log();
    let mut annotations = Vec::new();
    write::symbol(&mut annotations, "x-opt-partition-key");
    write::string(&mut annotations, "key of the partition");
    write::symbol(&mut annotations, "x-own");
    write::string(&mut annotations, "is not for Kafka");
    let mut full = Vec::new();
    let properties = Properties {
        message_id: Some(Value::from("id 1")),
        content_type: Some(Symbol::from_static("application/json")),
        creation_time: Some(1_650_000_000_000),
        ..Properties::default()
    };
    properties.encode(&mut full);
    encode::application_properties(&mut full, &[("text", Value::from("a")), ("number", Value::Int(54))]);
    encode::data(&mut full, b"first ");
    encode::data(&mut full, b"second");
    let (mut plain, mut value) = (Vec::new(), Vec::new());
    encode::data(&mut plain, b"plain");
    encode::value(&mut value, &Value::from("text"));
    let records = [
        NewRecord { annotation_count: 0, annotations: &[], sections: &[&plain] },
        NewRecord { annotation_count: 2, annotations: &annotations, sections: &[&full] },
        NewRecord { annotation_count: 0, annotations: &[], sections: &[&value] },
    ];
    log.append_records(NOW, &records[..2]).unwrap();
    log.append_records(NOW, &records[2..]).unwrap();

    let mut out = Vec::new();
    record_batches(&chunk(&log), &mut out);
    let first = RecordBatch::read(&out).unwrap();
    let second = RecordBatch::check(&out[first.bytes().len()..]);
    assert!(second.is_err(), "its offset is not 0");
    let second = RecordBatch::read(&out[first.bytes().len()..]).unwrap();
    assert_eq!((first.base_offset(), first.record_count()), (0, 2));
    assert_eq!((second.base_offset(), second.record_count()), (2, 1));
    assert_eq!((first.base_timestamp(), first.max_timestamp()), (NOW.milliseconds(), NOW.milliseconds()));
    let records: Vec<_> = Records::of(first.records()).map(Result::unwrap).collect();
    assert_eq!((records[0].value, records[0].headers.count()), (Some(&b"plain"[..]), 0));
    assert_eq!((records[1].key, records[1].value), (None, Some(&b"first second"[..])));
    let headers: Vec<_> = records[1].headers.iter().map(|(name, value)| (name, value.unwrap())).collect();
    assert_eq!(
        headers,
        [
            ("x-opt-partition-key", &b"key of the partition"[..]),
            ("message-id", b"id 1"),
            ("content-type", b"application/json"),
            ("creation-time", b"1650000000000"),
            ("text", b"\xa1\x01a"),
            ("number", b"\x54\x36"),
        ]
    );
    let [value] = &Records::of(second.records()).map(Result::unwrap).collect::<Vec<_>>()[..] else {
        panic!("one")
    };
    assert_eq!(value.value, Some(&b"\xa1\x04text"[..]));
}

#[test]
fn a_key_that_came_over_kafka_is_a_key_again() {
    let log = log();
    log.append_record_batch(NOW, &RecordBatch::check(&batch()).unwrap()).unwrap();
    let converted = pieces(&chunk(&log), 0).unwrap().remove(0);
    let mut out = Vec::new();
    record_batches(&converted, &mut out);
    let back = Records::of(RecordBatch::read(&out).unwrap().records()).next().unwrap().unwrap();
    assert_eq!((back.key, back.value), (Some(&b"key"[..]), Some(&b"value"[..])));
}
