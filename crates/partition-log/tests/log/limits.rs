//! What a log does at its bounds.

use super::{append, at, limited, limits, rest};
use partition_log::{AppendError, LogBudget, LogLimits, NewRecord, Start, WhenFull};
use std::time::Duration;
use units::ByteSize;

const MEBIBYTE: ByteSize = ByteSize::from_mebibytes(1);

#[test]
fn a_log_with_retention_drops_the_oldest_and_stays_near_its_bound() {
    let log = limited(limits(MEBIBYTE, WhenFull::Retention));
    let payload = [0; 1000];
    for batch in 0..10_000 {
        append(&log, batch, &[&payload]);
        assert!(log.stats().bytes <= MEBIBYTE.bytes() + MEBIBYTE.bytes() / 8);
    }
    let stats = log.stats();
    assert_eq!(stats.last_sequence_number, Some(9999));
    let kept = 10_000 - stats.begin_sequence_number;
    assert!(kept > 800, "{kept} of about 1000 records that fit");
    let mut cursor = log.position(Start::Earliest).unwrap();
    assert_eq!(rest(&log, &mut cursor).len() as u64, kept);
}

#[test]
fn a_reader_that_retention_overtook_learns_how_much_it_missed_and_goes_on_at_the_oldest() {
    let log = limited(limits(MEBIBYTE, WhenFull::Retention));
    let payload = [0; 1000];
    let mut cursor = log.position(Start::Earliest).unwrap();
    append(&log, 1, &[b"first", b"second"]);
    let chunk = log.read(&mut cursor, 1).unwrap();
    cursor = {
        let mut records = chunk.records();
        records.next();
        records.cursor()
    };
    for _ in 0..5000 {
        append(&log, 1, &[&payload]);
    }
    let begin = log.stats().begin_sequence_number;
    assert!(begin > 1);
    let chunk = log.read(&mut cursor, 1).unwrap();
    assert_eq!(chunk.skipped(), begin - 1);
    assert_eq!(chunk.records().next().unwrap().sequence_number, begin);
    assert_eq!(log.read(&mut cursor, 1).unwrap().skipped(), 0);
}

#[test]
fn a_place_that_retention_dropped_means_the_oldest_record() {
    let log = limited(limits(MEBIBYTE, WhenFull::Retention));
    let payload = [0; 1000];
    for _ in 0..5000 {
        append(&log, 1, &[&payload]);
    }
    let begin = log.stats().begin_sequence_number;
    for edge in [partition_log::Edge::Inclusive, partition_log::Edge::Exclusive] {
        let cursor = log.position(Start::SequenceNumber(3, edge)).unwrap();
        assert_eq!(cursor.next_sequence_number(), begin);
    }
}

#[test]
fn a_log_that_throttles_refuses_what_does_not_fit_and_takes_what_does() {
    let log = limited(limits(ByteSize::from_bytes(2000), WhenFull::Throttle));
    let held = append(&log, 1, &[&[0; 1500]]).bytes as u64;
    let large: &[u8] = &[0; 600];
    let record = NewRecord { annotation_count: 0, annotations: &[], sections: &[large] };
    let Err(AppendError::Full { held: told, batch, bound }) = log.append_records(at(1), &[record]) else {
        panic!("600 bytes more should not fit");
    };
    assert_eq!((told.bytes(), bound.bytes()), (held, 2000));
    assert!(batch.bytes() > 600);
    let room = 2000 - held - (batch.bytes() - 600);
    append(&log, 1, &[&vec![0; room as usize]]);
    assert_eq!(log.stats().bytes, 2000);
    assert!(
        log.append_records(at(1), &[NewRecord { annotation_count: 0, annotations: &[], sections: &[] }])
            .is_err()
    );
    assert_eq!(log.stats().last_sequence_number, Some(1));
}

#[test]
fn records_older_than_the_retention_go_and_make_room_in_a_log_that_throttles() {
    let retention = Some(Duration::from_secs(60));
    let log =
        limited(LogLimits { bytes: ByteSize::from_bytes(2000), when_full: WhenFull::Throttle, retention });
    append(&log, 0, &[&[0; 1500]]);
    log.enforce_retention(at(60_000));
    assert!(!log.stats().is_empty, "exactly as old as allowed");
    log.enforce_retention(at(60_001));
    let stats = log.stats();
    assert!(stats.is_empty);
    assert_eq!((stats.begin_sequence_number, stats.last_sequence_number, stats.bytes), (1, Some(0), 0));
    let mut cursor = log.position(Start::Earliest).unwrap();
    assert!(log.read(&mut cursor, 1).is_none());
    append(&log, 60_002, &[&[0; 1500]]);
    assert_eq!(log.read(&mut cursor, 1).unwrap().records().next().unwrap().sequence_number, 1);
}

#[test]
fn appending_drops_old_segments_by_itself() {
    let retention = Some(Duration::from_secs(1));
    let bytes = ByteSize::from_mebibytes(16);
    let log = limited(LogLimits { retention, ..limits(bytes, WhenFull::Retention) });
    let payload = [0; 1000];
    for batch in 0..10_000 {
        append(&log, batch * 10, &[&payload]);
    }
    let stats = log.stats();
    // A second holds a hundred records, a segment of 2 MiB two thousand: one is being written, one still needed.
    assert!(stats.begin_sequence_number > 10_000 - 2 * 2100 - 100, "{stats:?}");
}

#[test]
fn logs_of_one_budget_drop_their_own_oldest_before_it_is_used_up_and_give_back_what_they_held() {
    const TOTAL: ByteSize = ByteSize::from_mebibytes(32);
    let budget = LogBudget::new(TOTAL);
    let [dropping, retaining] = [WhenFull::Retention, WhenFull::Throttle].map(|when_full| {
        let log = limited(limits(LogLimits::UNLIMITED, when_full));
        log.join(&budget);
        log
    });
    let payload = [0; 10_000];
    for batch in 0..5_000 {
        append(&dropping, batch, &[&payload]);
        assert!(budget.used() <= TOTAL);
    }
    let dropped = dropping.dropped();
    assert_eq!((dropped.records, dropped.unread), (dropping.stats().begin_sequence_number, dropped.records));
    assert!(dropping.droppable_since().is_some());
    let unread = dropped.unread;
    dropping.note_read(4_900);
    while dropping.drop_oldest_segment() > 0 {}
    let dropped = dropping.dropped();
    assert_eq!((budget.used().bytes(), dropped.records, dropped.unread), (0, 5_000, unread + 100));

    let record = NewRecord { annotation_count: 0, annotations: &[], sections: &[&payload] };
    let refused = (0..5_000).find_map(|_| retaining.append_records(at(6_000), &[record]).err());
    assert!(matches!(refused, Some(AppendError::TotalReached { total: TOTAL, .. })), "{refused:?}");
    assert_eq!((retaining.droppable_since(), retaining.drop_oldest_segment()), (None, 0));
    assert_eq!(retaining.dropped().records, 0);
    drop(retaining);
    assert_eq!(budget.used(), ByteSize::ZERO);
}
