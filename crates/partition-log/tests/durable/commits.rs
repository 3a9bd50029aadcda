//! When an append is settled, who sees it when, and what shares a sync.

use super::{Disk, content, records, settle, try_append, wait_for};
use partition_log::disk::{CommitNumber, CommitState, SyncPolicy};
use partition_log::{Edge, Readiness, Start, Subscriber};
use std::fs;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const LONG: SyncPolicy = SyncPolicy::Interval(Duration::from_secs(3600));

#[test]
fn an_event_is_invisible_until_it_is_safe_and_then_all_readers_are_woken() {
    let disk = Disk::new();
    let service = disk.open();
    disk.files.state().gate_closed = true;
    let subscriber = Subscriber::new();
    let mut subscription = service.log.subscribe(&subscriber, 7);
    let mut cursor = service.log.position(Start::Latest(Edge::Exclusive)).unwrap();
    let appended = try_append(&service.log, 1, b"safe").unwrap();
    disk.files.wait_for_sync();
    assert_eq!(service.committer.state_of(appended.commit), CommitState::Waiting);
    assert!(service.log.read(&mut cursor, 1).is_none());
    assert_eq!(service.log.stats().last_sequence_number, None);
    assert_eq!(subscription.arm(&cursor), Readiness::Waiting);

    disk.files.open_gate();
    assert_eq!(settle(&service.committer, appended.commit), CommitState::Done);
    let mut keys = Vec::new();
    let ready = subscriber.poll_ready(&mut Context::from_waker(Waker::noop()), &mut keys);
    assert_eq!((ready, keys), (Poll::Ready(()), vec![7]));
    assert_eq!(service.log.read(&mut cursor, 1).unwrap().record_count(), 1);
}

#[test]
fn what_is_appended_during_a_sync_shares_the_next_one() {
    let disk = Disk::new();
    let service = disk.open();
    disk.files.state().gate_closed = true;
    let first = try_append(&service.log, 1, &content(0, 9)).unwrap();
    disk.files.wait_for_sync();
    let later: Vec<CommitNumber> =
        (1..33).map(|number| try_append(&service.log, 1, &content(number, 9)).unwrap().commit).collect();
    assert!(later.iter().all(|commit| *commit == later[0] && *commit != first.commit));
    disk.files.open_gate();
    assert_eq!(settle(&service.committer, later[0]), CommitState::Done);
    assert_eq!(service.committer.counters().syncs, 2);
    assert_eq!(service.all(), records(0..33, 9));
}

#[test]
fn with_an_interval_an_append_waits_for_the_system_and_not_for_the_device() {
    for policy in [LONG, SyncPolicy::Os] {
        let disk = Disk::with(policy);
        let service = disk.open();
        disk.files.state().gate_closed = true;
        assert_eq!(service.append(b"handed over"), CommitState::Done);
        let stored = fs::read(&disk.segments()[0]).unwrap();
        assert!(stored.ends_with(b"handed over"));
        assert_eq!(service.committer.counters().syncs, 0);
        disk.files.open_gate();
        service.close();
        assert!(disk.files.state().syncs > 0, "{policy}: the end is synced");
    }
}

#[test]
fn an_interval_that_is_over_brings_a_sync_without_further_appends() {
    let disk = Disk::with(SyncPolicy::Interval(Duration::from_millis(1)));
    let service = disk.open();
    assert_eq!(service.append(b"soon"), CommitState::Done);
    wait_for(|| service.committer.counters().syncs > 0);
}

#[test]
fn appends_are_refused_once_the_committer_is_closed() {
    let disk = Disk::new();
    let service = disk.open();
    service.fill(1, 10);
    service.committer.close().unwrap();
    let refused = try_append(&service.log, 1, b"late").unwrap_err();
    assert_eq!(refused.to_string(), "the log is closed");
    assert_eq!(service.all(), records(0..1, 10), "what is there can be read");
}

#[test]
fn a_retired_log_fails_its_senders_and_leaves_the_directory_alone() {
    let disk = Disk::new();
    let service = disk.open();
    disk.files.state().gate_closed = true;
    try_append(&service.log, 1, b"first").unwrap();
    disk.files.wait_for_sync();
    let waiting = try_append(&service.log, 1, b"second").unwrap();
    service.log.retire();
    assert!(try_append(&service.log, 1, b"third").is_err());
    disk.files.open_gate();
    assert_eq!(settle(&service.committer, waiting.commit), CommitState::Failed);
    fs::remove_dir_all(disk.path()).unwrap();
    service.committer.close().unwrap();
    assert!(!disk.path().exists());
}

#[test]
fn what_fails_under_way_when_a_log_is_retired_is_no_fault_of_the_disk() {
    let disk = Disk::new();
    let service = disk.open();
    disk.files.state().gate_closed = true;
    let waiting = try_append(&service.log, 1, b"first").unwrap();
    disk.files.wait_for_sync();
    service.log.retire();
    fs::remove_dir_all(disk.path()).unwrap();
    disk.files.state().syncs_lose = true;
    disk.files.open_gate();
    assert_eq!(settle(&service.committer, waiting.commit), CommitState::Failed);
    assert_eq!(service.committer.counters().failures, 0);
    service.committer.close().unwrap();
}

#[test]
fn a_thousand_partitions_are_written_with_a_bounded_number_of_open_files() {
    let disk = Disk::with(LONG);
    let committer = disk.committer();
    let logs: Vec<_> = (0..1000).map(|id| disk.open_log(&committer, &id.to_string()).unwrap().0).collect();
    let numbers: Vec<_> = logs.iter().map(|log| try_append(log, 1, b"one of many").unwrap().commit).collect();
    for number in numbers {
        assert_eq!(settle(&committer, number), CommitState::Done);
    }
    let open = fs::read_dir("/proc/self/fd").unwrap().filter(|entry| {
        let target = fs::read_link(entry.as_ref().unwrap().path()).unwrap_or_default();
        target.starts_with(disk.directory.path())
    });
    assert!(open.count() <= 512);
    committer.close().unwrap();
    let committer = disk.committer();
    for id in 0..1000 {
        let (log, report) = disk.open_log(&committer, &id.to_string()).unwrap();
        assert_eq!((report.records, report.scanned_bytes), (1, 0));
        assert_eq!(log.stats().last_sequence_number, Some(0));
    }
}
