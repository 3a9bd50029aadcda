//! Greatest timestamps of segments, in a log and after its restart.

use super::{Disk, SMALL, Service, rest, settle, try_append};
use kafka::record;
use kafka::record_batch::{self, RecordBatch};
use partition_log::disk::sidecar::Sidecar;
use partition_log::disk::{CommitState, verify};
use partition_log::{Produced, SegmentTimestamps, Start, UnixTime};
use proptest::prelude::*;
use std::fs;

/// Time of every append.
const APPENDED: i64 = 1_000;

/// Stores a record of 20 KB with this timestamp, over AMQP where there is none.
fn store(service: &Service, timestamp: Option<i64>) {
    let value = [7; 20_000];
    let appended = match timestamp {
        None => try_append(&service.log, APPENDED, &value).unwrap(),
        Some(timestamp) => {
            let mut batch = vec![0; RecordBatch::HEADER_LENGTH];
            record::encode(&mut batch, 0, None, Some(&value), std::iter::empty());
            record_batch::complete(&mut batch, 0, -1, 1, timestamp);
            let batch = RecordBatch::check(&batch).unwrap();
            let now = UnixTime::from_milliseconds(APPENDED);
            match service.log.append_record_batch(now, &batch).unwrap() {
                Produced::Stored(appended) => appended,
                duplicate => panic!("{duplicate:?}"),
            }
        }
    };
    assert_eq!(settle(&service.committer, appended.commit), CommitState::Done);
}

/// Asserts that each segment has the greatest of its records' `timestamps`, and that all segments have all records.
fn assert_has(service: &Service, timestamps: &[Option<i64>]) {
    let mut next = 0;
    for SegmentTimestamps { sequence_numbers, latest } in service.log.timestamps() {
        assert_eq!(sequence_numbers.start, next);
        let own = &timestamps[sequence_numbers.start as usize..sequence_numbers.end as usize];
        let greatest = own.iter().map(|timestamp| timestamp.unwrap_or(APPENDED)).max();
        assert_eq!(Some(latest.milliseconds()), greatest, "{sequence_numbers:?}");
        next = sequence_numbers.end;
    }
    assert_eq!(next, timestamps.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn greatest_timestamps_outlive_any_end_of_the_process(
        timestamps in proptest::collection::vec(proptest::option::of(900_i64..1_100), 1..30),
        crashes: bool,
    ) {
        let disk = Disk { limits: *SMALL, ..Disk::new() };
        let service = disk.open();
        for timestamp in &timestamps {
            store(&service, *timestamp);
        }
        assert_has(&service, &timestamps);
        match crashes {
            true => service.crash(),
            false => service.close(),
        }
        for _ in 0..2 {
            let service = disk.open();
            assert_has(&service, &timestamps);
            prop_assert_eq!(service.committer.counters().loads, 0);
            service.close();
        }
        let verification = verify(disk.directory.path()).unwrap();
        prop_assert!(verification.problems.is_empty(), "{:?}", verification.problems);
    }
}

#[test]
fn segments_without_stored_timestamps_have_the_time_of_the_append_until_they_are_read() {
    let disk = Disk { limits: *SMALL, ..Disk::new() };
    let timestamps = [Some(5); 12];
    let service = disk.open();
    timestamps.iter().for_each(|timestamp| store(&service, *timestamp));
    service.close();
    let sidecars = disk.files_named("index");
    assert!(sidecars.len() > 1);
    for path in sidecars {
        let mut sidecar = Sidecar::decode(&fs::read(&path).unwrap()).unwrap();
        sidecar.latest_timestamp = sidecar.last_append_time;
        fs::write(path, sidecar.encode()).unwrap();
    }
    let verification = verify(disk.directory.path()).unwrap();
    assert!(verification.problems.is_empty(), "{:?}", verification.problems);

    let service = disk.open();
    assert!(service.log.timestamps().iter().all(|segment| segment.latest.milliseconds() == APPENDED));
    let mut cursor = service.log.position(Start::Earliest).unwrap();
    rest(&service.log, &mut cursor).unwrap();
    assert_has(&service, &timestamps);
}
