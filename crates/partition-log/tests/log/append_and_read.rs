//! What was appended is read, unchanged and in order.

use super::{append, at, log, rest};
use partition_log::batch::{BatchHeader, RecordFormat, split_record};
use partition_log::recovery::scan;
use partition_log::{AppendError, Edge, LogEnd, NewRecord, Record, Start};

#[test]
fn a_record_is_read_as_it_was_appended() {
    let log = log();
    let first =
        NewRecord { annotation_count: 2, annotations: b"keys and values", sections: &[b"one", b"", b"two"] };
    let second = NewRecord { annotation_count: 0, annotations: b"", sections: &[] };
    let appended = log.append_records(at(42), &[first, second]).unwrap();
    assert_eq!((appended.first_sequence_number, appended.record_count, appended.append_time), (0, 2, at(42)));

    let mut cursor = log.position(Start::Earliest).unwrap();
    let chunk = log.read(&mut cursor, usize::MAX).unwrap();
    let records: Vec<Record<'_>> = chunk.records().collect();
    let expected = Record {
        sequence_number: 0,
        append_time: at(42),
        annotation_count: 2,
        annotations: b"keys and values",
        sections: b"onetwo",
    };
    let empty =
        Record { sequence_number: 1, annotation_count: 0, annotations: b"", sections: b"", ..expected };
    assert_eq!(records, [expected, empty]);
    assert_eq!((chunk.record_count(), chunk.skipped()), (2, 0));
    assert!(log.read(&mut cursor, usize::MAX).is_none());
}

#[test]
fn numbers_go_on_from_batch_to_batch_and_time_never_goes_back() {
    let log = log();
    append(&log, 10, &[b"a", b"b"]);
    let earlier = append(&log, 5, &[b"c"]);
    assert_eq!((earlier.first_sequence_number, earlier.append_time), (2, at(10)));
    assert_eq!(append(&log, 11, &[b"d"]).append_time, at(11));
    let stats = log.stats();
    assert_eq!((stats.begin_sequence_number, stats.last_sequence_number), (0, Some(3)));
    assert_eq!(stats.last_append_time, Some(at(11)));
}

#[test]
fn a_batch_without_records_changes_nothing() {
    let log = log();
    let appended = log.append_records(at(1), &[]).unwrap();
    assert_eq!((appended.record_count, appended.bytes), (0, 0));
    let stats = log.stats();
    assert!(stats.is_empty);
    assert_eq!((stats.last_sequence_number, stats.last_append_time, stats.bytes), (None, None, 0));
}

#[test]
fn a_batch_whose_encoding_fails_leaves_nothing_behind() {
    let log = log();
    append(&log, 1, &[b"before"]);
    let failed = log.append(at(2), |encoder| {
        encoder.push(&NewRecord { annotation_count: 0, annotations: &[], sections: &[b"half"] });
        Err("malformed")
    });
    assert_eq!(failed, Err(AppendError::Encoding("malformed")));
    append(&log, 3, &[b"after"]);
    let mut cursor = log.position(Start::Earliest).unwrap();
    assert_eq!(rest(&log, &mut cursor), [(0, b"before".to_vec()), (1, b"after".to_vec())]);
}

#[test]
fn a_batch_whose_encoding_panics_leaves_the_log_usable() {
    let log = log();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = log.append::<()>(at(1), |encoder| {
            encoder.push(&NewRecord { annotation_count: 0, annotations: &[], sections: &[b"half"] });
            panic!("in the middle of a batch")
        });
    }));
    assert!(panicked.is_err());
    append(&log, 2, &[b"whole"]);
    let mut cursor = log.position(Start::Earliest).unwrap();
    assert_eq!(rest(&log, &mut cursor), [(0, b"whole".to_vec())]);
}

#[test]
fn a_batch_larger_than_any_block_so_far_is_kept_whole() {
    let log = log();
    let large = vec![3; 9 << 20];
    append(&log, 1, &[&large, b"small"]);
    append(&log, 1, &[b"next"]);
    append(&log, 1, &[&large]);
    let mut cursor = log.position(Start::Earliest).unwrap();
    let records = rest(&log, &mut cursor);
    let lengths: Vec<usize> = records.iter().map(|(_number, sections)| sections.len()).collect();
    assert_eq!(lengths, [large.len(), 5, 4, large.len()]);
}

#[test]
fn a_batch_that_outgrows_its_block_while_it_is_encoded_is_kept_whole() {
    let log = log();
    append(&log, 1, &[b"first"]);
    let payload = [9; 100];
    let records: Vec<&[u8]> = vec![&payload; 20_000];
    append(&log, 1, &records);
    let mut cursor = log.position(Start::Earliest).unwrap();
    let read = rest(&log, &mut cursor);
    assert_eq!(read.len(), 20_001);
    assert!(read.iter().enumerate().all(|(index, (number, _sections))| index as u64 == *number));
}

#[test]
fn a_batch_beyond_the_longest_possible_is_refused_before_it_is_written() {
    let log = log();
    let large = vec![0; 8 << 20];
    let sections: [&[u8]; 9] = [&large; 9];
    let record = NewRecord { annotation_count: 0, annotations: &[], sections: &sections };
    assert_eq!(log.append_records(at(1), &[record]), Err(AppendError::TooLong));
    assert_eq!(append(&log, 1, &[b"next"]).first_sequence_number, 0);
}

#[test]
fn a_chunk_has_whole_batches_within_the_size_that_was_asked_for_and_at_least_one() {
    let log = log();
    let batch = append(&log, 1, &[&b"0123456789"[..]; 3]).bytes;
    for _ in 0..9 {
        append(&log, 1, &[&b"0123456789"[..]; 3]);
    }
    for (max_bytes, batches) in
        [(0, 1), (1, 1), (batch, 1), (2 * batch - 1, 1), (2 * batch, 2), (usize::MAX, 10)]
    {
        let mut cursor = log.position(Start::Earliest).unwrap();
        let chunk = log.read(&mut cursor, max_bytes).unwrap();
        assert_eq!(chunk.bytes().len(), batches * batch, "{max_bytes}");
        assert_eq!(chunk.record_count(), 3 * batches as u64);
        assert_eq!(chunk.records().count(), 3 * batches);
        assert_eq!(cursor.next_sequence_number(), 3 * batches as u64);
    }
}

#[test]
fn a_chunk_gives_its_batches_whole_also_to_a_reader_who_stands_within_the_first() {
    let log = log();
    append(&log, 1, &[b"one", b"two", b"three"]);
    append(&log, 2, &[b"four"]);
    let mut cursor = log.position(Start::SequenceNumber(1, Edge::Inclusive)).unwrap();
    let chunk = log.read(&mut cursor, usize::MAX).unwrap();
    let batches: Vec<_> = chunk.batches().collect();
    let described: Vec<_> = batches
        .iter()
        .map(|batch| (batch.format, batch.first_sequence_number, batch.record_count, batch.append_time))
        .collect();
    assert_eq!(described, [(RecordFormat::Amqp, 0, 3, at(1)), (RecordFormat::Amqp, 3, 1, at(2))]);
    let (record, rest) = split_record(batches[1].bytes).unwrap();
    assert_eq!((record.sections, rest), (&b"four"[..], &[][..]));
    assert_eq!(chunk.record_count(), 3, "of the first batch the reader wants two");
}

#[test]
fn without_transactions_a_log_ends_where_its_stable_part_does() {
    let log = log();
    assert_eq!(log.end(), LogEnd { next_sequence_number: 0, stable_sequence_number: 0, append_time: None });
    append(&log, 7, &[b"one", b"two"]);
    let end = LogEnd { next_sequence_number: 2, stable_sequence_number: 2, append_time: Some(at(7)) };
    assert_eq!(log.end(), end);
}

#[test]
fn a_reader_may_stop_at_any_record_and_go_on_there() {
    let log = log();
    for batch in 0..40 {
        append(&log, 1, &vec![&b"0123456789"[..]; batch % 5 + 1]);
    }
    let mut all = log.position(Start::Earliest).unwrap();
    let expected = rest(&log, &mut all);
    for step in 1..7 {
        let mut cursor = log.position(Start::Earliest).unwrap();
        let mut read = Vec::new();
        while let Some(chunk) = log.read(&mut cursor, 500) {
            let mut records = chunk.records();
            read.extend(
                records.by_ref().take(step).map(|record| (record.sequence_number, record.sections.to_vec())),
            );
            assert_eq!(records.cursor().next_sequence_number(), read.len() as u64);
            cursor = records.cursor();
        }
        assert_eq!(read, expected, "in steps of {step}");
    }
}

#[test]
fn a_chunk_outlives_the_log() {
    let log = log();
    append(&log, 1, &[b"kept"]);
    let mut cursor = log.position(Start::Earliest).unwrap();
    let chunk = log.read(&mut cursor, usize::MAX).unwrap();
    drop(log);
    assert_eq!(chunk.records().next().unwrap().sections, b"kept");
}

#[test]
fn the_bytes_of_chunks_are_what_recovery_finds_again_under_their_checksums() {
    let log = log();
    for batch in 0..100 {
        append(&log, batch, &[b"some", b"records"]);
    }
    let mut cursor = log.position(Start::Earliest).unwrap();
    let chunk = log.read(&mut cursor, usize::MAX).unwrap();
    let mut bytes = chunk.bytes().to_vec();
    let mut rest = &mut bytes[..];
    while !rest.is_empty() {
        let length = BatchHeader::read(rest).unwrap().length as usize;
        let (batch, following) = rest.split_at_mut(length);
        assert_eq!(batch[4..8], [0; 4], "a log in memory computes none");
        let checksum = crc32c::crc32c(&batch[8..]);
        batch[4..8].copy_from_slice(&checksum.to_le_bytes());
        rest = following;
    }
    let found = scan(&bytes);
    assert_eq!(found.torn, None);
    assert_eq!((found.batches, found.records), (100, 200));
    assert_eq!(found.sequence_numbers, Some((0, 200)));
    assert_eq!(found.last_append_time, Some(at(99)));
}
