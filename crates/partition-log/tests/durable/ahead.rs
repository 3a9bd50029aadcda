//! A log that is written ahead of the others: what they got after it is on disk only where that is.

use super::{Disk, content, rest, settle, try_append, wait_for};
use partition_log::disk::{CommitNumber, CommitState, Committer, SyncPolicy, Unavailable};
use partition_log::{AppendError, PartitionLog, Start};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

/// A committer with a log that is written ahead, and another one. That which is ahead is dropped first.
struct Two {
    committer: Arc<Committer>,
    ahead: Arc<PartitionLog>,
    other: Arc<PartitionLog>,
}

impl Two {
    fn open(disk: &Disk) -> Self {
        let committer = disk.committer();
        let log = |name| disk.open_log(&committer, name).unwrap().0;
        let (ahead, other) = (log("ahead"), log("other"));
        assert!(committer.write_ahead(&ahead));
        assert!(committer.write_ahead(&ahead), "it is already");
        assert!(!committer.write_ahead(&other), "there is one");
        Self { committer, ahead, other }
    }

    /// Appends to the other log, to the one that is ahead, and to the other again, while the committer waits for a sync: so the other is first in
    /// its list. Gives the numbers of the two last ones.
    fn append_in_one_round(&self, disk: &Disk, length: usize) -> [CommitNumber; 2] {
        let (busy, _) = disk.open_log(&self.committer, "busy").unwrap();
        disk.files.state().gate_closed = true;
        let waits = try_append(&busy, 1, b"busy").unwrap().commit;
        disk.files.wait_for_sync();
        append(&self.other, 0);
        let ahead = try_append(&self.ahead, 1, &content(0, length)).unwrap().commit;
        let other = try_append(&self.other, 1, &content(1, OTHERS)).unwrap().commit;
        // What the disk takes is said before the next round, and the round of the busy log has written.
        disk.files.state().space = Some(SPACE);
        disk.files.open_gate();
        assert_eq!(settle(&self.committer, waits), CommitState::Done);
        [ahead, other]
    }

    /// How many records there are in both.
    fn counts(&self) -> [usize; 2] {
        [&self.ahead, &self.other].map(|log| {
            let mut cursor = log.position(Start::Earliest).unwrap();
            rest(log, &mut cursor).unwrap().len()
        })
    }

    fn crash(self) {
        let committer = Arc::downgrade(&self.committer);
        drop(self);
        wait_for(|| committer.strong_count() == 0);
    }
}

fn append(log: &PartitionLog, number: u64) {
    try_append(log, 1, &content(number, OTHERS)).unwrap();
}

/// What the segments of a log hold.
fn stored(disk: &Disk, name: &str) -> Vec<u8> {
    // There is no folder before something is written.
    let entries = fs::read_dir(disk.directory.path().join(name)).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    let segments = paths.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    segments.flat_map(|path| fs::read(path).unwrap()).collect()
}

/// Length of a record of the other log.
const OTHERS: usize = 1_000;

/// Room for one long record, and not for two short ones beside it.
const SPACE: u64 = 12_000;

#[test]
fn what_is_ahead_is_written_first_although_the_other_is_first_in_the_list() {
    let disk = Disk::new();
    let two = Two::open(&disk);
    let [ahead, other] = two.append_in_one_round(&disk, 11_000);
    assert_eq!(settle(&two.committer, ahead), CommitState::Done);
    assert_eq!(settle(&two.committer, other), CommitState::Failed);
    two.crash();
    disk.files.state().space = None;
    disk.files.cut_power(|_| 0);
    assert_eq!(Two::open(&disk).counts(), [1, 0]);
}

#[test]
fn nothing_else_is_written_while_what_is_ahead_can_not_be() {
    let disk = Disk::new();
    let two = Two::open(&disk);
    let [ahead, other] = two.append_in_one_round(&disk, 13_000);
    assert_eq!(settle(&two.committer, ahead), CommitState::Failed);
    assert_eq!(settle(&two.committer, other), CommitState::Failed);
    let refused = try_append(&two.other, 1, b"no");
    assert_eq!(refused, Err(AppendError::Unavailable(Unavailable::DiskFull)));
    assert_eq!(two.counts(), [0, 0]);
    let marker = content(1, OTHERS);
    assert!(!stored(&disk, "other").windows(OTHERS).any(|window| window == marker));
    // Both are tried again by themselves.
    disk.files.state().space = None;
    wait_for(|| two.counts() == [1, 2]);
    two.crash();
    assert_eq!(Two::open(&disk).counts(), [1, 2]);
}

#[test]
fn what_is_ahead_is_synced_before_the_other_is_written() {
    let disk = Disk::new();
    let two = Two::open(&disk);
    disk.files.state().gate_closed = true;
    let ahead = try_append(&two.ahead, 1, b"ahead").unwrap().commit;
    let other = try_append(&two.other, 1, b"after it").unwrap().commit;
    disk.files.wait_for_sync();
    assert!(stored(&disk, "ahead").ends_with(b"ahead"));
    assert!(!stored(&disk, "other").ends_with(b"after it"));
    disk.files.open_gate();
    assert_eq!(settle(&two.committer, ahead), CommitState::Done);
    assert_eq!(settle(&two.committer, other), CommitState::Done);
    assert!(stored(&disk, "other").ends_with(b"after it"));
}

#[test]
fn no_crash_leaves_what_came_after_something_without_it() {
    for policy in [SyncPolicy::Always, SyncPolicy::Interval(Duration::from_millis(1)), SyncPolicy::Os] {
        let disk = Disk::with(policy);
        for crash in 0..20 {
            let two = Two::open(&disk);
            let [before, others] = two.counts();
            assert!(before >= others / 2, "{policy}, {crash}: {before} and {others}");
            // In step again, whatever the crash has left.
            let pairs = before.max(others.div_ceil(2));
            (before..pairs).for_each(|number| append(&two.ahead, number as u64));
            (others..2 * pairs).for_each(|number| append(&two.other, number as u64));
            for pair in 0..crash * 3 {
                append(&two.other, pair);
                append(&two.ahead, pair);
                append(&two.other, pair);
            }
            two.crash();
        }
    }
}
