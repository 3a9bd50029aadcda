//! Batches of producers that number their records, among those of others.

use super::{append, at, log, rest};
use partition_log::batch::RecordFormat;
use partition_log::disk::CommitNumber;
use partition_log::{
    Appended, NewRecord, PartitionLog, ProduceError, Produced, ProducerError, ProducerStamp, ProducerStats,
    Start,
};
use std::time::Duration;

fn produce(
    log: &PartitionLog,
    milliseconds: i64,
    (id, epoch, first_sequence): (i64, i16, i32),
    records: &[&[u8]],
) -> Result<Produced, ProduceError> {
    let stamp = ProducerStamp::new(id, epoch, first_sequence).expect("no number is negative");
    log.append_produced(at(milliseconds), &stamp, records.len() as u32, |encoder| {
        for sections in records {
            encoder.push(&NewRecord { annotation_count: 0, annotations: &[], sections: &[sections] });
        }
        Ok(())
    })
}

fn first_number(produced: Result<Produced, ProduceError>) -> u64 {
    match produced {
        Ok(Produced::Stored(Appended { first_sequence_number, .. })) => first_sequence_number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_batch_that_comes_again_is_answered_as_stored_and_not_appended() {
    let log = log();
    append(&log, 1, &[b"other"]);
    assert_eq!(first_number(produce(&log, 1, (7, 0, 0), &[b"one", b"two"])), 1);
    append(&log, 2, &[b"other"]);
    let bytes = log.stats().bytes;
    let again = produce(&log, 3, (7, 0, 0), &[b"one", b"two"]);
    assert_eq!(again, Ok(Produced::Duplicate { first_sequence_number: 1, commit: CommitNumber::DONE }));
    assert_eq!(log.stats().bytes, bytes);
    let gap = ProducerError::OutOfOrder { expected: 2, found: 3 };
    assert_eq!(produce(&log, 3, (7, 0, 3), &[b"four"]), Err(ProduceError::Producer(gap)));
    assert_eq!(first_number(produce(&log, 3, (7, 0, 2), &[b"three"])), 4);
    let mut cursor = log.position(Start::Earliest).unwrap();
    let all: Vec<Vec<u8>> = rest(&log, &mut cursor).into_iter().map(|(_, sections)| sections).collect();
    assert_eq!(all, [&b"other"[..], b"one", b"two", b"other", b"three"]);
}

#[test]
fn nothing_is_known_of_a_batch_that_could_not_be_encoded() {
    let log = log();
    let stamp = ProducerStamp::new(7, 0, 0).unwrap();
    let failed = log.append_produced(at(1), &stamp, 1, |_encoder| Err("unreadable"));
    assert!(matches!(failed, Err(ProduceError::Append(_))), "{failed:?}");
    assert_eq!(log.producer_stats(), ProducerStats::default());
    assert_eq!(first_number(produce(&log, 1, (7, 0, 0), &[b"one"])), 0);
}

#[test]
fn readers_get_the_records_of_a_producer_from_wherever_they_start() {
    let log = log();
    produce(&log, 1, (7, 2, 5), &[b"a", b"b", b"c"]).unwrap();
    append(&log, 1, &[b"d"]);
    for first in 0..4 {
        let start = Start::SequenceNumber(first, partition_log::Edge::Inclusive);
        let mut cursor = log.position(start).unwrap();
        let numbers: Vec<u64> = rest(&log, &mut cursor).into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, (first..4).collect::<Vec<_>>());
    }
    // In the middle of a batch, by its place.
    let mut cursor = log.position(Start::Earliest).unwrap();
    let chunk = log.read(&mut cursor, 1).unwrap();
    let mut records = chunk.records();
    records.next();
    let mut cursor = records.cursor();
    assert_eq!(rest(&log, &mut cursor)[0], (1, b"b".to_vec()));
    let chunk = log.read(&mut log.position(Start::Earliest).unwrap(), 1000).unwrap();
    let formats: Vec<_> =
        chunk.batches().map(|batch| (batch.format, batch.record_count, batch.bytes[3])).collect();
    assert_eq!(formats, [(RecordFormat::AmqpOfProducer, 3, b'a'), (RecordFormat::Amqp, 1, b'd')]);
}

#[test]
fn a_producer_that_sends_nothing_for_a_day_is_forgotten_and_counted() {
    let log = log();
    let day = Duration::from_secs(24 * 60 * 60).as_millis() as i64;
    produce(&log, 0, (7, 0, 0), &[b"one"]).unwrap();
    log.enforce_retention(at(day));
    assert_eq!(log.producer_stats(), ProducerStats { known: 1, expired: 0, evicted: 0 });
    log.enforce_retention(at(day + 1));
    assert_eq!(log.producer_stats(), ProducerStats { known: 0, expired: 1, evicted: 0 });
    assert_eq!(first_number(produce(&log, day + 1, (7, 0, 0), &[b"one"])), 1);
}
