//! Record batches of Kafka, among what came over AMQP.

use super::{append, at, log, rest};
use kafka::record;
use kafka::record_batch::{self, RecordBatch};
use partition_log::disk::CommitNumber;
use partition_log::{
    BlockPool, CopyError, Cursor, Edge, LEADER_EPOCH, PartitionLog, ProduceError, Produced, ProducerError,
    Protocol, Start,
};
use units::ByteSize;

/// A batch as a producer sends it: with the numbers of a producer, if it has an id.
pub(crate) fn batch(producer: Option<(i64, i16, i32)>, values: &[&[u8]]) -> Vec<u8> {
    let mut out = vec![0; RecordBatch::HEADER_LENGTH];
    for (delta, value) in (0..).zip(values) {
        record::encode(&mut out, delta, None, Some(value), std::iter::empty());
    }
    record_batch::complete(&mut out, 0, -1, values.len() as u32, 1_700_000_000_000);
    if let Some((id, epoch, sequence)) = producer {
        out[43..51].copy_from_slice(&id.to_be_bytes());
        out[51..53].copy_from_slice(&epoch.to_be_bytes());
        out[53..57].copy_from_slice(&sequence.to_be_bytes());
        let checksum = crc32c::crc32c(&out[21..]);
        out[17..21].copy_from_slice(&checksum.to_be_bytes());
    }
    out
}

fn produce(log: &PartitionLog, batch: &[u8]) -> Result<Produced, ProduceError> {
    log.append_record_batch(at(1), &RecordBatch::check(batch).expect("a good batch"))
}

fn first_number(produced: Result<Produced, ProduceError>) -> u64 {
    match produced {
        Ok(Produced::Stored(appended)) => appended.first_sequence_number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_record_batch_is_stored_as_it_came_but_for_its_numbers() {
    let log = log();
    append(&log, 1, &[b"a", b"b"]);
    let sent = batch(None, &[b"one", b"two", b"three"]);
    assert_eq!(first_number(produce(&log, &sent)), 2);
    append(&log, 2, &[b"c"]);
    assert_eq!(log.end().next_sequence_number, 6);

    let mut cursor = log.position(Start::SequenceNumber(2, Edge::Inclusive)).unwrap();
    let chunk = log.read(&mut cursor, 10_000).unwrap();
    assert_eq!((chunk.protocol(), chunk.record_count(), chunk.records().count()), (Protocol::Kafka, 3, 0));
    let [stored] = &chunk.batches().collect::<Vec<_>>()[..] else { panic!("one batch") };
    let read = RecordBatch::read(stored.bytes).unwrap();
    assert_eq!((read.base_offset(), read.bytes().len()), (2, sent.len()));
    assert_eq!(stored.bytes[12..16], LEADER_EPOCH.to_be_bytes());
    assert_eq!(stored.bytes[16..], sent[16..]);
}

#[test]
fn a_chunk_is_of_one_protocol_and_the_cursor_goes_on_behind_it() {
    let log = log();
    append(&log, 1, &[b"a", b"b"]);
    append(&log, 1, &[b"c"]);
    produce(&log, &batch(None, &[b"d"])).unwrap();
    produce(&log, &batch(None, &[b"e", b"f"])).unwrap();
    append(&log, 1, &[b"g"]);
    let mut cursor = log.position(Start::Earliest).unwrap();
    let mut chunks = Vec::new();
    while let Some(chunk) = log.read(&mut cursor, 10_000) {
        chunks.push((chunk.protocol(), chunk.record_count(), cursor.next_sequence_number()));
    }
    assert_eq!(chunks, [(Protocol::Amqp, 3, 3), (Protocol::Kafka, 3, 6), (Protocol::Amqp, 1, 7)]);
    // From the middle of a batch, the whole of it is there to be read, and the rest is counted.
    let mut cursor = log.position(Start::SequenceNumber(5, Edge::Inclusive)).unwrap();
    let chunk = log.read(&mut cursor, 10_000).unwrap();
    assert_eq!((chunk.record_count(), chunk.batches().next().unwrap().first_sequence_number), (1, 4));
    assert_eq!(rest(&log, &mut cursor), [(6, b"g".to_vec())]);
}

#[test]
fn a_numbered_batch_that_comes_again_is_answered_as_stored() {
    let log = log();
    append(&log, 1, &[b"a"]);
    assert_eq!(first_number(produce(&log, &batch(Some((7, 0, 0)), &[b"one", b"two"]))), 1);
    let again = produce(&log, &batch(Some((7, 0, 0)), &[b"one", b"two"]));
    assert_eq!(again, Ok(Produced::Duplicate { first_sequence_number: 1, commit: CommitNumber::DONE }));
    let gap = produce(&log, &batch(Some((7, 0, 3)), &[b"four"]));
    assert_eq!(gap, Err(ProduceError::Producer(ProducerError::OutOfOrder { expected: 2, found: 3 })));
    assert_eq!(first_number(produce(&log, &batch(Some((7, 0, 2)), &[b"three"]))), 3);
}

#[test]
fn a_record_batch_in_the_form_of_amqp_is_read_like_the_log() {
    let log = log();
    append(&log, 1, &[b"a"]);
    produce(&log, &batch(None, &[b"b", b"c", b"d"])).unwrap();
    append(&log, 1, &[b"e"]);
    let pool = BlockPool::new(ByteSize::from_mebibytes(1));
    let copy = |cursor: &mut Cursor| {
        let chunk = log.read(cursor, 10_000).unwrap();
        chunk.as_amqp(&pool, |batch, encoder| {
            for record in record::Records::of(RecordBatch::read(batch.bytes).unwrap().records()) {
                encoder.push_section(record?.value.unwrap_or_default());
            }
            Ok::<_, kafka::Malformed>(())
        })
    };
    for first in 1..4 {
        let mut cursor = log.position(Start::SequenceNumber(first, Edge::Inclusive)).unwrap();
        let copy = copy(&mut cursor).unwrap();
        let mut records = copy.records();
        let numbers: Vec<_> = records.by_ref().map(|record| record.sequence_number).collect();
        assert_eq!(numbers, (first..4).collect::<Vec<_>>());
        assert_eq!(rest(&log, &mut records.cursor()), [(4, b"e".to_vec())]);
        let later = copy.starting_at(3).unwrap();
        assert_eq!(
            later.records().next().map(|record| (record.sequence_number, record.sections)),
            Some((3, &b"d"[..]))
        );
        assert!(copy.starting_at(4).is_none());
    }
    let mut cursor = log.position(Start::SequenceNumber(1, Edge::Inclusive)).unwrap();
    let chunk = log.read(&mut cursor, 10_000).unwrap();
    let short = chunk.as_amqp(&pool, |_batch, encoder| {
        encoder.push_section(b"only one");
        Ok::<_, ()>(())
    });
    assert!(matches!(short, Err(CopyError::Count)));
}
