//! Disks that are full, read-only, slow or lying.

use super::{Disk, SMALL, content, records, settle, try_append, wait_for};
use partition_log::disk::{CommitState, Committer, SyncPolicy, Unavailable};
use partition_log::{AppendError, PartitionLog};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

const POLICIES: [SyncPolicy; 3] =
    [SyncPolicy::Always, SyncPolicy::Interval(Duration::from_secs(3600)), SyncPolicy::Os];

#[test]
fn a_full_disk_fails_the_senders_until_there_is_space_again() {
    for policy in POLICIES {
        let disk = Disk::with(policy);
        let service = disk.open();
        service.fill(3, 1000);
        disk.files.state().space = Some(500);
        let lost = content(3, 1000);
        assert_eq!(service.append(&lost), CommitState::Failed);
        assert_eq!(
            try_append(&service.log, 1, b"refused"),
            Err(AppendError::Unavailable(Unavailable::DiskFull))
        );
        assert_eq!(service.all(), records(0..3, 1000), "what was safe is readable");
        disk.files.state().space = None;
        // The committer tries again by itself; what failed may then be there after all.
        wait_for(|| service.log.stats().last_sequence_number == Some(3));
        service.fill(2, 1000);
        assert_eq!(service.all(), records(0..6, 1000));
        service.crash();
        let again = disk.open();
        assert_eq!(again.all(), records(0..6, 1000), "{policy}");
        assert!(again.report.torn.is_empty());
    }
}

#[test]
fn what_was_half_written_when_the_disk_was_full_is_torn_off_after_a_crash() {
    let disk = Disk::new();
    let service = disk.open();
    service.fill(3, 1000);
    disk.files.state().space = Some(500);
    assert_eq!(service.append(&content(3, 1000)), CommitState::Failed);
    service.crash();
    disk.files.state().space = None;
    let again = disk.open();
    assert_eq!(again.report.torn.len(), 1);
    assert_eq!(again.report.torn[0].bytes, 500);
    assert!(again.report.to_string().contains("cut 500 bytes off"));
    assert_eq!(again.all(), records(0..3, 1000));
    again.fill(1, 1000);
    assert_eq!(again.all(), records(0..4, 1000));
}

#[test]
fn a_read_only_disk_can_be_started_on_and_read() {
    let disk = Disk::new();
    let service = disk.open();
    service.fill(3, 1000);
    service.crash();
    disk.files.state().read_only = true;
    let service = disk.open();
    assert_eq!(service.all(), records(0..3, 1000));
    assert_eq!(service.append(b"no"), CommitState::Failed);
    assert_eq!(try_append(&service.log, 1, b"no"), Err(AppendError::Unavailable(Unavailable::ReadOnly)));
    let error = service.committer.close().unwrap_err();
    assert_eq!((error.count, error.reason), (1, Unavailable::ReadOnly));
}

#[test]
fn a_slow_sync_delays_acknowledgements_and_loses_none() {
    let disk = Disk::new();
    let service = disk.open();
    disk.files.state().gate_closed = true;
    let numbers: Vec<_> =
        (0..10).map(|number| try_append(&service.log, 1, &content(number, 10)).unwrap().commit).collect();
    disk.files.wait_for_sync();
    assert!(numbers[1..].iter().all(|number| service.committer.state_of(*number) == CommitState::Waiting));
    disk.files.open_gate();
    for number in numbers {
        assert_eq!(settle(&service.committer, number), CommitState::Done);
    }
    assert_eq!(service.all(), records(0..10, 10));
}

#[test]
fn after_a_failed_sync_everything_since_the_last_good_one_is_written_again() {
    let disk = Disk { limits: *SMALL, ..Disk::new() };
    let service = disk.open();
    service.fill(3, 10_000);
    disk.files.state().syncs_lose = true;
    assert_eq!(service.append(&content(3, 10_000)), CommitState::Failed);
    assert_eq!(service.log.stats().last_sequence_number, Some(2));
    let lost = fs::read(&disk.segments()[0]).unwrap();
    assert!(lost.ends_with(&[0; 10_000]), "the system has forgotten it");
    disk.files.state().syncs_lose = false;
    wait_for(|| service.log.stats().last_sequence_number == Some(3));
    service.fill(20, 10_000);
    service.crash();
    disk.files.cut_power(|_| 0);
    assert_eq!(disk.open().all(), records(0..24, 10_000));
}

#[test]
fn a_failed_sync_after_an_interval_stops_senders_and_is_made_good() {
    let disk = Disk::with(SyncPolicy::Interval(Duration::from_millis(1)));
    let service = disk.open();
    service.fill(3, 1000);
    disk.files.state().syncs_lose = true;
    wait_for(|| match try_append(&service.log, 1, &content(3, 1000)) {
        Ok(appended) => {
            // Acknowledged before the sync failed; not any more once it has.
            settle(&service.committer, appended.commit);
            false
        }
        Err(error) => {
            assert!(matches!(error, AppendError::Unavailable(Unavailable::Failed(_))));
            true
        }
    });
    let acknowledged = service.log.stats().last_sequence_number.unwrap();
    disk.files.state().syncs_lose = false;
    wait_for(|| try_append(&service.log, 1, b"after").is_ok());
    service.close();
    let again = disk.open();
    assert!(again.report.torn.is_empty() && again.report.damaged.is_empty());
    let all = again.all();
    assert!(all.len() as u64 > acknowledged + 1);
    assert_eq!(all[..3], records(0..3, 1000));
    assert!(all[3..all.len() - 1].iter().all(|(_, sections)| *sections == content(3, 1000)));
}

#[test]
fn writes_that_take_a_few_bytes_at_a_time_are_completed() {
    let disk = Disk::new();
    disk.files.state().largest_write = Some(7);
    let service = disk.open();
    service.fill(5, 1000);
    service.crash();
    assert_eq!(disk.open().all(), records(0..5, 1000));
}

#[test]
fn partitions_written_together_are_synced_together_and_survive_a_power_cut() {
    let disk = Disk::new();
    let (committer, logs) = many(&disk);
    for number in 0..5 {
        assert_eq!(append_to_all(&disk, &committer, &logs, number), [CommitState::Done; MANY]);
    }
    assert!(disk.files.state().file_system_syncs > 0);
    drop((committer, logs));
    assert_eq!(last_after_a_power_cut(&disk), [Some(4); MANY]);
}

#[test]
fn a_failed_sync_of_the_file_system_is_no_failure_of_files_that_are_well() {
    let disk = Disk::new();
    disk.files.state().file_system_fails = true;
    let (committer, logs) = many(&disk);
    assert_eq!(append_to_all(&disk, &committer, &logs, 0), [CommitState::Done; MANY]);
    assert!(disk.files.state().file_system_syncs > 0);
    drop((committer, logs));
    assert_eq!(last_after_a_power_cut(&disk), [Some(0); MANY]);
}

/// The last sequence number of each log, after a power cut that takes all it can.
fn last_after_a_power_cut(disk: &Disk) -> [Option<u64>; MANY] {
    disk.files.cut_power(|_| 0);
    let (_committer, logs) = many(disk);
    logs.map(|log| log.stats().last_sequence_number)
}

const MANY: usize = 8;

fn many(disk: &Disk) -> (Arc<Committer>, [Arc<PartitionLog>; MANY]) {
    let committer = disk.committer();
    let logs = std::array::from_fn(|id| disk.open_log(&committer, &id.to_string()).unwrap().0);
    (committer, logs)
}

/// Appends record `number` to each log; the first one holds the disk until the others can go together.
fn append_to_all(
    disk: &Disk,
    committer: &Committer,
    logs: &[Arc<PartitionLog>; MANY],
    number: u64,
) -> [CommitState; MANY] {
    disk.files.state().gate_closed = true;
    let commits = std::array::from_fn::<_, MANY, _>(|index| {
        let appended = try_append(&logs[index], 1, &content(number, 100)).unwrap();
        if index == 0 {
            disk.files.wait_for_sync();
        }
        appended.commit
    });
    disk.files.open_gate();
    commits.map(|commit| settle(committer, commit))
}
