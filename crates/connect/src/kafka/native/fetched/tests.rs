//! What becomes of the batches of a partition, readable or not.

use std::time::Duration;

use amqp::message::MessageView;
use kafka::compression::Compression;
use kafka::control_batch::TransactionMarker;
use kafka::producer_batch::ProducerBatch;
use kafka::record_batch::{ProducerNumbers, number};

use super::*;
use crate::event::Unreadable;
use crate::source::BatchOptions;

fn batch(base_offset: u64, values: &[&str], compression: Compression, transaction: Option<i64>) -> Vec<u8> {
    let mut batch = ProducerBatch::default();
    for (at, value) in (0..).zip(values) {
        batch.push(1_000 + at, Some(b"key"), Some(value.as_bytes()), std::iter::empty());
    }
    let producer = transaction.map(|id| ProducerNumbers { id, epoch: 0, base_sequence: 0 });
    let mut bytes = batch.complete(compression, producer, transaction.is_some()).unwrap();
    number(&mut bytes, base_offset, 0);
    bytes
}

fn marker(offset: u64, producer_id: i64, end: TransactionEnd) -> Vec<u8> {
    let marker = TransactionMarker { producer_id, producer_epoch: 0, end, coordinator_epoch: 0 };
    let mut bytes = marker.encode(0);
    number(&mut bytes, offset, 0);
    bytes
}

/// Nothing has arrived, and batches are unpacked to 8 MiB at most.
fn empty() -> Fetched {
    Fetched::new(8 << 20)
}

/// Takes an answer that is not damaged.
fn take(fetched: &mut Fetched, records: &Bytes, offset: i64, aborted: Vec<AbortedTransaction>) -> i64 {
    let (next, taken) = fetched.take(Arrived { records, offset, high_watermark: 1_000, aborted });
    assert_eq!(taken, Ok(()));
    next
}

/// Number and value of all events, `limit` at once.
fn events(fetched: &mut Fetched, next: &mut i64, limit: usize) -> Vec<(i64, String)> {
    events_as(Encoding::Kafka, fetched, next, limit)
}

fn events_as(encoding: Encoding, fetched: &mut Fetched, next: &mut i64, limit: usize) -> Vec<(i64, String)> {
    let options = BatchOptions { max_events: 3, max_wait: Duration::ZERO };
    let mut builder = BatchBuilder::new(options, 1);
    let now = Instant::now();
    while fetched.deliver(&mut builder, now, PartitionId(0), encoding, next, limit).0 > 0 {}
    builder.handle_timeout(now);
    let mut found = Vec::new();
    while let Some(batch) = builder.pop_sealed() {
        if let Some(Unreadable { numbers, records, reason }) = batch.unreadable() {
            assert!(reason.contains(&format!("from offset {} on", numbers.start)), "{reason}");
            let reason = reason.split("read: ").last().unwrap();
            found.push((numbers.start, format!("{records} up to {}: {reason}", numbers.end - 1)));
            assert_eq!(batch.events()[0].sequence_number, numbers.end - 1);
            continue;
        }
        let vacant = batch.vacant_numbers().iter().cloned().flatten();
        found.extend(vacant.map(|number| (number, "no event".to_owned())));
        for event in batch.events() {
            assert_eq!(batch.partition_key(event), Some(&b"key"[..]));
            let message = batch.message(event);
            let value = match encoding {
                Encoding::Amqp => MessageView::parse(message).unwrap().data().unwrap().unwrap(),
                // Length and key, length and value, no headers.
                _ => &message[5..event.message_len() - 1],
            };
            found.push((event.sequence_number, String::from_utf8(value.to_vec()).unwrap()));
        }
    }
    assert_eq!((fetched.bytes(), fetched.records()), (0, 0));
    found
}

/// Gives a batch that was changed the checksum of what it is now.
fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// The same batch with other bytes at a place, under a good checksum.
fn changed(mut bytes: Vec<u8>, at: usize, to: &[u8]) -> Vec<u8> {
    bytes[at..at + to.len()].copy_from_slice(to);
    seal(bytes)
}

/// The same batch with other records, under a good checksum.
fn with_records(mut bytes: Vec<u8>, records: &[u8]) -> Vec<u8> {
    bytes.truncate(RecordBatch::HEADER_LENGTH);
    bytes.extend_from_slice(records);
    let length = bytes.len() as i32 - 12;
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    seal(bytes)
}

#[test]
fn records_become_events_once_from_the_offset_that_is_wanted() {
    for compression in (0..5).filter_map(Compression::of) {
        let bytes =
            [batch(10, &["a", "b", "c"], compression, None), batch(13, &["d", "e"], compression, None)];
        let mut cut = batch(15, &["f"], compression, None);
        cut.pop();
        let records = Bytes::from([bytes.concat(), cut].concat());
        for limit in [1, 2, 100] {
            let mut fetched = empty();
            assert_eq!(take(&mut fetched, &records, 11, Vec::new()), 15, "the last one is cut off");
            let expected = [(11, "b"), (12, "c"), (13, "d"), (14, "e")];
            let found = events(&mut fetched, &mut 11, limit);
            assert!(found.iter().map(|(offset, value)| (*offset, value.as_str())).eq(expected), "{found:?}");
            assert_eq!((fetched.bytes(), fetched.records()), (0, 0));
        }
        let mut fetched = empty();
        assert_eq!(take(&mut fetched, &records, 14, Vec::new()), 15);
        assert_eq!(events(&mut fetched, &mut 14, 9), [(14, "e".to_owned())]);
    }
}

#[test]
fn compressed_batches_are_unpacked_one_at_a_time() {
    let value = "x".repeat(1 << 20);
    let batches: Vec<_> = (0..50).map(|offset| batch(offset, &[&value], Compression::Zstd, None)).collect();
    let mut fetched = empty();
    take(&mut fetched, &Bytes::from(batches.concat()), 0, Vec::new());
    let options = BatchOptions { max_events: 3, max_wait: Duration::ZERO };
    let mut next = 0;
    while fetched.records() > 0 {
        assert!(fetched.bytes() < 2 << 20, "{} bytes", fetched.bytes());
        let mut builder = BatchBuilder::new(options, 1);
        let now = Instant::now();
        fetched.deliver(&mut builder, now, PartitionId(0), Encoding::Kafka, &mut next, 1);
    }
    assert_eq!((next, fetched.bytes()), (50, 0));
}

#[test]
fn what_was_aborted_and_what_says_so_is_left_out() {
    let none = Compression::None;
    let bytes = [
        batch(0, &["aborted"], none, Some(7)),
        batch(1, &["kept"], none, Some(8)),
        batch(2, &["plain"], none, None),
        marker(3, 7, TransactionEnd::Abort),
        batch(4, &["again"], none, Some(7)),
        marker(5, 7, TransactionEnd::Commit),
        marker(6, 8, TransactionEnd::Commit),
    ];
    let records = Bytes::from(bytes.concat());
    let aborted = vec![AbortedTransaction { producer_id: 7, first_offset: 0 }];
    let numbers = |aborted| {
        let mut fetched = empty();
        assert_eq!(take(&mut fetched, &records, 0, aborted), 7);
        let mut found = events(&mut fetched, &mut 0, 9);
        found.sort();
        let shown = |(offset, value): (i64, String)| match value.as_str() {
            "no event" => -offset,
            _ => offset,
        };
        found.into_iter().map(shown).collect::<Vec<_>>()
    };
    // Negative ones are of no event.
    assert_eq!(numbers(aborted), [0, 1, 2, -3, 4]);
    assert_eq!(numbers(Vec::new()), [0, 1, 2, -3, 4]);
}

/// The records of a batch with these offset deltas, each with its delta as the value.
fn records(deltas: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    for &delta in deltas {
        kafka::record::encode(
            &mut out,
            delta,
            Some(b"key"),
            Some(delta.to_string().as_bytes()),
            std::iter::empty(),
        );
    }
    out
}

#[test]
fn records_that_can_not_be_read_are_handed_over_as_such_between_those_that_can() {
    let (none, zstd) = (Compression::None, Compression::Zstd);
    let three = |compression| batch(5, &["a", "b", "c"], compression, None);
    let packed = |records: &[u8]| {
        let mut out = Vec::new();
        zstd.pack(records, &mut out).unwrap();
        with_records(three(zstd), &out)
    };
    let count = 57;
    let whole = |reason: &str| vec![(5, format!("3 up to 7: {reason}"))];
    let rest = |reason: &str| vec![(5, "0".to_owned()), (6, format!("2 up to 7: {reason}"))];
    let offset = "an offset does not follow the one before it, or is beyond the end of the batch";
    let other_count = "their number is not that in the header of the batch";
    let mut cut = records(&[0, 1, 2]);
    cut.pop();
    let mut wrong_value = records(&[0, 1, 2]);
    // The length of the value of the second record.
    let at = wrong_value.len() / 3 + 8;
    wrong_value[at] = 0x7e;
    let zeros = "\0".repeat(9 << 20);
    let cases = [
        (changed(three(none), 22, &[7]), whole("compression 7 is not defined")),
        (with_records(three(zstd), b"not packed at all"), whole("they can't be unpacked")),
        (packed(&[0xff; 50]), whole("malformed length of a record")),
        (
            packed(&cut),
            vec![
                (5, "0".to_owned()),
                (6, "1".to_owned()),
                (7, "1 up to 7: malformed length of a record".to_owned()),
            ],
        ),
        (with_records(three(none), &wrong_value), rest("malformed value of a record")),
        (with_records(three(none), &[]), whole(other_count)),
        (with_records(three(none), &records(&[0, 1000, 2])), rest(offset)),
        (with_records(three(none), &records(&[0, 0, 0])), rest(offset)),
        (
            with_records(three(none), &records(&[0, 1])),
            vec![(5, "0".to_owned()), (6, format!("2 up to 7: {other_count}"))],
        ),
        (
            with_records(three(none), &records(&[0, 1, 2, 3])),
            vec![(5, "0".to_owned()), (6, "1".to_owned()), (7, format!("1 up to 7: {other_count}"))],
        ),
        (changed(three(none), count, &0_i32.to_be_bytes()), vec![(5, format!("1 up to 7: {other_count}"))]),
        (
            changed(three(none), count, &i32::MAX.to_be_bytes()),
            vec![(5, "a".to_owned()), (6, "b".to_owned()), (7, format!("1 up to 7: {other_count}"))],
        ),
        (
            batch(5, &[&zeros, "b", "c"], zstd, None),
            whole("they have more than 8388608 bytes when unpacked (max.unpacked.batch.bytes)"),
        ),
    ];
    for (bad, expected) in cases {
        for encoding in [Encoding::Kafka, Encoding::Amqp] {
            for limit in [1, 100] {
                let around = [batch(3, &["x", "y"], none, None), bad.clone(), batch(8, &["z"], zstd, None)];
                let mut fetched = empty();
                assert_eq!(take(&mut fetched, &Bytes::from(around.concat()), 3, Vec::new()), 9);
                let mut next = 3;
                let found = events_as(encoding, &mut fetched, &mut next, limit);
                assert_eq!((found[..2].to_vec(), next), (vec![(3, "x".to_owned()), (4, "y".to_owned())], 9));
                assert_eq!(found.last(), Some(&(8, "z".to_owned())));
                let between = &found[2..found.len() - 1];
                assert_eq!(between.len(), expected.len(), "{between:?} {expected:?}");
                for ((number, found), (expected_number, expected)) in between.iter().zip(&expected) {
                    assert!(number == expected_number && found.starts_with(expected.as_str()), "{between:?}");
                }
            }
        }
    }
}

#[test]
fn a_batch_that_is_unreadable_from_a_record_on_is_whole_in_the_event_of_the_rest() {
    let bad = with_records(batch(5, &["a", "b", "c"], Compression::None, None), &records(&[0, 0, 0]));
    let mut fetched = empty();
    take(&mut fetched, &Bytes::from(bad.clone()), 6, Vec::new());
    let mut builder = BatchBuilder::new(BatchOptions { max_events: 9, max_wait: Duration::ZERO }, 1);
    let mut next = 6;
    fetched.deliver(&mut builder, Instant::now(), PartitionId(0), Encoding::Kafka, &mut next, 9);
    let sealed = builder.pop_sealed().unwrap();
    assert_eq!((sealed.message(&sealed.events()[0]), next), (&bad[..], 8));
    assert_eq!(sealed.vacant_numbers().iter().cloned().flatten().collect::<Vec<_>>(), [6]);
    assert!(builder.pop_sealed().is_none());
}

#[test]
fn compacted_batches_are_readable() {
    let none = Compression::None;
    let count = |bytes, count: i32| changed(bytes, 57, &count.to_be_bytes());
    let bytes = [
        count(with_records(batch(0, &["a", "b", "c"], none, None), &records(&[1])), 1),
        count(with_records(batch(3, &["a", "b"], none, None), &[]), 0),
        batch(5, &["d"], none, None),
    ];
    let mut fetched = empty();
    assert_eq!(take(&mut fetched, &Bytes::from(bytes.concat()), 0, Vec::new()), 6);
    let mut found = events(&mut fetched, &mut 0, 9);
    found.sort();
    let vacant = |number| (number, "no event".to_owned());
    assert_eq!(found, [vacant(0), (1, "1".to_owned()), vacant(2), vacant(3), vacant(4), (5, "d".to_owned())]);
}

#[test]
fn a_checksum_that_does_not_match_twice_makes_the_batch_unreadable() {
    let none = Compression::None;
    let mut bad = batch(1, &["b", "c"], none, None);
    *bad.last_mut().unwrap() ^= 1;
    let arrived = |records, offset| Arrived { records, offset, high_watermark: 4, aborted: Vec::new() };
    let answer = Bytes::from([batch(0, &["a"], none, None), bad.clone()].concat());
    let mut fetched = empty();
    assert_eq!(fetched.take(arrived(&answer, 0)), (1, Err(Damage::Checksum)));
    assert_eq!(events(&mut fetched, &mut 0, 9), [(0, "a".to_owned())]);
    // The header is not to be relied on: the log reaches no further than this, and the next batch begins before.
    bad[23..27].copy_from_slice(&1_000_000_i32.to_be_bytes());
    let lonely = Bytes::from(bad.clone());
    assert_eq!(fetched.take(arrived(&lonely, 1)), (4, Ok(())));
    let text = |records, last| format!("{records} up to {last}: the checksum of their batch does not match");
    assert_eq!(events(&mut fetched, &mut 1, 9), [(1, text(2, 3))]);
    let mut fetched = empty();
    let followed = Bytes::from([bad, batch(3, &["d"], none, None)].concat());
    assert_eq!(fetched.take(arrived(&followed, 1)), (1, Err(Damage::Checksum)));
    assert_eq!(fetched.take(arrived(&followed, 1)), (4, Ok(())));
    assert_eq!(events(&mut fetched, &mut 1, 9), [(1, text(2, 2)), (3, "d".to_owned())]);
    // One that was right when it was fetched again is like any other.
    let mut fetched = empty();
    let good = Bytes::from(batch(0, &["a"], none, None));
    let (damaged, whole) = (answer.slice(good.len()..), Bytes::from(batch(1, &["b", "c"], none, None)));
    assert_eq!(fetched.take(arrived(&damaged, 1)), (1, Err(Damage::Checksum)));
    assert_eq!(fetched.take(arrived(&whole, 1)), (3, Ok(())));
    assert_eq!(events(&mut fetched, &mut 1, 9), [(1, "b".to_owned()), (2, "c".to_owned())]);
}

#[test]
fn bytes_that_are_no_batch_are_damage() {
    let mut answer = batch(0, &["a"], Compression::None, None);
    let mut older = batch(1, &["b"], Compression::None, None);
    older[16] = 1;
    answer.extend_from_slice(&older);
    let mut fetched = empty();
    let records = &Bytes::from(answer);
    let arrived = Arrived { records, offset: 0, high_watermark: 2, aborted: Vec::new() };
    assert_eq!(fetched.take(arrived), (1, Err(Damage::Format(BatchError::Magic { magic: 1 }))));
    assert_eq!(events(&mut fetched, &mut 0, 9), [(0, "a".to_owned())]);
}

#[test]
fn messages_of_amqp_have_the_value_as_their_body_and_the_key_beside() {
    let records = Bytes::from(batch(5, &["x", "y"], Compression::None, None));
    let mut fetched = empty();
    take(&mut fetched, &records, 5, Vec::new());
    let options = BatchOptions { max_events: 2, max_wait: Duration::ZERO };
    let mut builder = BatchBuilder::new(options, 1);
    let delivered = fetched.deliver(&mut builder, Instant::now(), PartitionId(0), Encoding::Amqp, &mut 5, 9);
    assert_eq!(delivered.0, 2);
    let batch = builder.pop_sealed().unwrap();
    let second = &batch.events()[1];
    let message = batch.message(second);
    assert!(message.ends_with(b"\x00\x53\x75\xa0\x01y"), "{message:?}");
    let annotations = MessageView::parse(message).unwrap().message_annotations().unwrap().entries().unwrap();
    assert_eq!(annotations, [("x-opt-kafka-key".into(), amqp::Value::Binary(b"key".to_vec()))]);
    assert_eq!((batch.partition_key(second), second.sequence_number), (Some(&b"key"[..]), 6));
    assert_eq!(second.enqueued_time.unix_ms(), 1_001);
}
