//! What is there after a restart, what is in memory meanwhile, and what retention takes.

use super::{Disk, SEGMENT, SMALL, records, rest, settle, try_append};
use partition_log::UnixTime;
use partition_log::disk::{CommitState, RecoveryReport, SyncPolicy};
use partition_log::{Edge, LogLimits, Start, WhenFull};
use std::fs;
use std::time::Duration;
use units::ByteSize;

#[test]
fn after_a_close_everything_is_there_and_nothing_is_scanned() {
    for policy in [SyncPolicy::Always, SyncPolicy::default(), SyncPolicy::Os] {
        let disk = Disk { limits: *SMALL, ..Disk::with(policy) };
        let service = disk.open();
        assert_eq!(service.report, RecoveryReport::default());
        service.fill(50, 10_000);
        service.close();
        let again = disk.open();
        assert_eq!((again.report.records, again.report.scanned_bytes), (50, 0), "{policy}: {}", again.report);
        assert_eq!(again.report.bytes, again.log.stats().bytes);
        assert_eq!(again.all(), records(0..50, 10_000));
        again.fill(3, 10);
        assert_eq!(again.log.stats().last_sequence_number, Some(52));
    }
}

#[test]
fn after_a_crash_the_last_segment_is_scanned_once() {
    for policy in [SyncPolicy::Always, SyncPolicy::default(), SyncPolicy::Os] {
        let disk = Disk { limits: *SMALL, ..Disk::with(policy) };
        let service = disk.open();
        service.fill(30, 10_000);
        service.crash();
        let again = disk.open();
        assert_eq!(again.report.records, 30, "{policy}: {}", again.report);
        assert!(again.report.torn.is_empty());
        if policy != SyncPolicy::default() {
            assert!(again.report.scanned_bytes <= SEGMENT, "{policy}: {}", again.report);
        }
        assert_eq!(again.all(), records(0..30, 10_000));
        again.crash();
        let third = disk.open();
        assert_eq!((third.report.records, third.report.scanned_bytes), (30, 0));
    }
}

#[test]
fn an_absent_directory_costs_no_file_operation_until_the_first_append() {
    let disk = Disk::new();
    let service = disk.open();
    assert_eq!(service.log.stats().last_sequence_number, None);
    assert_eq!(disk.files.state().operations, 0);
    service.close();
    assert!(!disk.path().exists());
    disk.open().fill(1, 1);
    assert!(disk.path().exists());
}

#[test]
fn segments_leave_memory_and_come_back_for_readers() {
    let mut disk = Disk::new();
    disk.limits = *SMALL;
    disk.options.resident = ByteSize::from_bytes(2 * SEGMENT);
    let service = disk.open();
    service.fill(80, 10_000);
    let resident = || service.committer.counters().resident_bytes;
    assert!(resident() <= 2 * SEGMENT);
    for _ in 0..2 {
        assert_eq!(service.all(), records(0..80, 10_000));
        // The loader wakes the reader before it looks at the bound.
        super::wait_for(|| resident() <= 2 * SEGMENT);
    }
    assert!(service.committer.counters().loads >= 8);
}

#[test]
fn a_chunk_outlives_the_segment_that_it_is_from() {
    let mut disk = Disk::new();
    disk.limits = *SMALL;
    disk.options.resident = ByteSize::ZERO;
    let service = disk.open();
    service.fill(2, 10_000);
    let mut cursor = service.log.position(Start::Earliest).unwrap();
    let chunk = service.log.read(&mut cursor, 1).unwrap();
    service.fill(200, 10_000);
    assert!(service.log.stats().begin_sequence_number > 1);
    assert_eq!(chunk.records().next().unwrap().sections, records(0..1, 10_000)[0].1);
}

#[test]
fn reading_can_begin_at_a_time_in_a_segment_that_is_on_disk_only() {
    let mut disk = Disk::new();
    disk.limits = *SMALL;
    let service = disk.open();
    for number in 0..40 {
        let sections = super::content(number, 10_000);
        let appended = try_append(&service.log, 100 + number as i64 * 10, &sections).unwrap();
        assert_eq!(settle(&service.committer, appended.commit), CommitState::Done);
    }
    service.close();
    for number in 0..40 {
        // Anew each time, so that nothing is in memory.
        let service = disk.open();
        let exactly = UnixTime::from_milliseconds(100 + number as i64 * 10);
        for (edge, first) in [(Edge::Inclusive, number), (Edge::Exclusive, number + 1)] {
            let mut cursor = service.log.position(Start::AppendTime(exactly, edge)).unwrap();
            assert_eq!(rest(&service.log, &mut cursor).unwrap(), records(first..40, 10_000));
        }
    }
}

#[test]
fn retention_by_bytes_bounds_the_disk() {
    let mut disk = Disk::new();
    disk.limits =
        LogLimits { bytes: ByteSize::from_mebibytes(1), when_full: WhenFull::Retention, retention: None };
    let service = disk.open();
    service.fill(300, 10_000);
    let on_disk = || -> u64 {
        let paths = disk.segments();
        paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum()
    };
    assert!(on_disk() <= (1 << 20) + SEGMENT, "{}", on_disk());
    let begin = service.log.stats().begin_sequence_number;
    service.close();
    assert_eq!(disk.segments().len(), disk.files_named("index").len());
    let again = disk.open();
    assert_eq!(again.log.stats().begin_sequence_number, begin);
    assert_eq!(again.all(), records(begin..300, 10_000));
}

#[test]
fn files_that_could_not_be_removed_leave_no_gap() {
    let disk = Disk { limits: *SMALL, ..Disk::new() };
    let service = disk.open();
    service.fill(150, 10_000);
    let oldest = disk.segments()[0].clone();
    disk.files.state().removals_fail = true;
    service.fill(60, 10_000);
    disk.files.state().removals_fail = false;
    assert!(oldest.exists());
    service.fill(60, 10_000);
    assert!(!oldest.exists());
    let begin = service.log.stats().begin_sequence_number;
    service.crash();
    let service = disk.open();
    assert_eq!(service.log.stats().begin_sequence_number, begin);
    assert_eq!(service.log.stats().last_sequence_number, Some(269));
}

#[test]
fn when_retention_has_taken_everything_numbers_go_on_all_the_same() {
    let mut disk = Disk::new();
    disk.limits.retention = Some(Duration::from_millis(100));
    let service = disk.open();
    service.fill(5, 100);
    // The first call ends the segment, which goes once it is finished.
    super::wait_for(|| {
        service.log.enforce_retention(UnixTime::from_milliseconds(1000));
        service.log.stats().is_empty
    });
    service.close();
    let segments = disk.segments();
    assert_eq!(segments.len(), 1);
    assert_eq!(fs::metadata(&segments[0]).unwrap().len(), 0);
    for kept in 5..8 {
        let again = disk.open();
        let stats = again.log.stats();
        assert_eq!(stats.last_sequence_number, Some(kept - 1));
        assert_eq!(again.all(), records(5..kept, 10));
        again.fill(1, 10);
        again.crash();
    }
}

#[test]
fn writers_and_readers_get_along_while_segments_come_and_go() {
    let mut disk = Disk::with(SyncPolicy::Interval(Duration::from_millis(1)));
    disk.limits.bytes = ByteSize::from_mebibytes(8);
    disk.options.resident = ByteSize::from_mebibytes(1);
    let service = disk.open();
    let end = 1500;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..end / 3 {
                    let appended = try_append(&service.log, 1, &[7; 3000]).unwrap();
                    assert_eq!(settle(&service.committer, appended.commit), CommitState::Done);
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut cursor = service.log.position(Start::Earliest).unwrap();
                let mut expected = 0;
                while expected < end {
                    for (number, sections) in rest(&service.log, &mut cursor).unwrap() {
                        assert_eq!((number, sections.len()), (expected, 3000));
                        expected += 1;
                    }
                    std::thread::yield_now();
                }
            });
        }
    });
    service.close();
    assert_eq!(disk.open().report.records, end);
}
