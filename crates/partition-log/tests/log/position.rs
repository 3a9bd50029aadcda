//! Where reading can begin.

use super::{append, at, log, rest};
use partition_log::{Edge, PartitionLog, PositionError, Start};

/// Three batches of two records at 10 ms, 20 ms, 20 ms, and one of one record at 30 ms: numbers 0 to 6.
fn seven_records() -> PartitionLog {
    let log = log();
    for milliseconds in [10, 20, 20] {
        append(&log, milliseconds, &[b"x", b"y"]);
    }
    append(&log, 30, &[b"z"]);
    log
}

fn first_read(log: &PartitionLog, start: Start) -> Option<u64> {
    let mut cursor = log.position(start).expect("the tests ask for places that exist");
    rest(log, &mut cursor).first().map(|(number, _sections)| *number)
}

#[test]
fn earliest_is_the_oldest_record_and_latest_the_end_or_the_last_record() {
    let log = seven_records();
    assert_eq!(first_read(&log, Start::Earliest), Some(0));
    assert_eq!(first_read(&log, Start::Latest(Edge::Exclusive)), None);
    assert_eq!(first_read(&log, Start::Latest(Edge::Inclusive)), Some(6));
}

#[test]
fn a_sequence_number_is_the_place_before_or_after_it_in_the_middle_of_a_batch_too() {
    let log = seven_records();
    for number in 0..7 {
        assert_eq!(first_read(&log, Start::SequenceNumber(number, Edge::Inclusive)), Some(number));
        let after = first_read(&log, Start::SequenceNumber(number, Edge::Exclusive));
        assert_eq!(after, (number < 6).then_some(number + 1));
    }
}

#[test]
fn a_sequence_number_beyond_the_end_is_an_error_with_the_last_one() {
    let log = seven_records();
    for edge in [Edge::Inclusive, Edge::Exclusive] {
        for requested in [7, u64::MAX] {
            let error = PositionError::BeyondEnd { requested, last: Some(6) };
            assert_eq!(log.position(Start::SequenceNumber(requested, edge)), Err(error));
        }
    }
}

#[test]
fn a_time_is_the_first_record_since_or_after_it() {
    let log = seven_records();
    for (milliseconds, inclusive, exclusive) in [
        (i64::MIN, Some(0), Some(0)),
        (9, Some(0), Some(0)),
        (10, Some(0), Some(2)),
        (11, Some(2), Some(2)),
        (20, Some(2), Some(6)),
        (21, Some(6), Some(6)),
        (30, Some(6), None),
        (31, None, None),
        (i64::MAX, None, None),
    ] {
        let first = |edge| first_read(&log, Start::AppendTime(at(milliseconds), edge));
        assert_eq!(first(Edge::Inclusive), inclusive, "from {milliseconds}");
        assert_eq!(first(Edge::Exclusive), exclusive, "after {milliseconds}");
    }
}

#[test]
fn a_log_where_nothing_was_appended_has_a_beginning_and_an_end() {
    let log = log();
    for start in [
        Start::Earliest,
        Start::Latest(Edge::Inclusive),
        Start::Latest(Edge::Exclusive),
        Start::SequenceNumber(0, Edge::Inclusive),
        Start::AppendTime(at(0), Edge::Inclusive),
    ] {
        let mut cursor = log.position(start).unwrap();
        assert!(log.read(&mut cursor, 1).is_none());
        assert_eq!(cursor.next_sequence_number(), 0);
    }
    let beyond = PositionError::BeyondEnd { requested: 0, last: None };
    assert_eq!(log.position(Start::SequenceNumber(0, Edge::Exclusive)), Err(beyond));
}

#[test]
fn every_record_of_a_log_of_many_segments_is_found_by_number_and_by_time() {
    let log = log();
    let payload = [1; 100];
    for batch in 0..20_000 {
        append(&log, batch, &[&payload, &payload]);
    }
    for number in (0..40_000).step_by(997) {
        assert_eq!(
            log.position(Start::SequenceNumber(number, Edge::Inclusive)).map(|mut cursor| {
                log.read(&mut cursor, 1)
                    .and_then(|chunk| chunk.records().next().map(|record| record.sequence_number))
            }),
            Ok(Some(number))
        );
        let batch = number as i64 / 2;
        let cursor = log.position(Start::AppendTime(at(batch), Edge::Inclusive)).unwrap();
        assert_eq!(cursor.next_sequence_number(), batch as u64 * 2);
    }
}
