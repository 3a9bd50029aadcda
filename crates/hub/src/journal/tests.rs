//! A journal on a disk: what is told again, how it is kept short, and what is refused.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use partition_log::disk::{Committer, PartitionDirectory, Presence, StorageOptions, SystemFiles};
use partition_log::{BlockPool, LogLimits, WhenFull};
use units::ByteSize;

use super::*;

const NOW: UnixTime = UnixTime::from_milliseconds(1_700_000_000_000);

fn place(directory: &Path, slack: u64) -> (JournalLog, Arc<Committer>) {
    let committer = Committer::start(StorageOptions::default(), Arc::new(SystemFiles)).unwrap();
    let path = directory.join("kafka");
    let presence = if path.exists() { Presence::Present } else { Presence::Absent };
    let place = PartitionDirectory { path: path.clone(), presence, committer: Arc::clone(&committer) };
    let bytes = ByteSize::from_bytes(u64::MAX);
    let limits = LogLimits { bytes, when_full: WhenFull::Retention, retention: None };
    let (log, _report) =
        PartitionLog::open(limits, BlockPool::new(ByteSize::from_mebibytes(1)), place).unwrap();
    let admission = Admission(Box::new(|| Ok(())));
    (JournalLog { log, path, admission, slack }, committer)
}

/// Opens the journal, and lists what it tells.
fn open(directory: &Path, slack: u64) -> Result<(Journal, Arc<Committer>, Vec<String>), JournalError> {
    let (place, committer) = place(directory, slack);
    let mut told = Vec::new();
    let journal = Journal::open(place, |record| told.push(format!("{record:?}")))?;
    Ok((journal, committer, told))
}

fn offset(number: i64) -> Record<'static> {
    Record::Offset(OffsetRecord {
        group: "group",
        topic: "topic",
        index: 0,
        offset: number,
        leader_epoch: 0,
        committed_at: NOW.milliseconds(),
        metadata: "",
    })
}

#[test]
fn what_is_written_is_told_again_in_its_order() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, committer, told) = open(directory.path(), SLACK).unwrap();
    assert!(told.is_empty());
    assert!(!directory.path().join("kafka").exists(), "the first record makes it");
    journal.append(NOW, &[Record::GroupRemoved { group: "a" }, offset(1)]).unwrap();
    journal.append(NOW, &[]).unwrap();
    journal.append(NOW, &[offset(2)]).unwrap();
    committer.close().unwrap();
    assert!(matches!(journal.append(NOW, &[offset(3)]), Err(Refused::Unavailable(_))));
    let (_journal, committer, told) = open(directory.path(), SLACK).unwrap();
    let expected = [Record::GroupRemoved { group: "a" }, offset(1), offset(2)];
    assert_eq!(told, expected.map(|record| format!("{record:?}")));
    committer.close().unwrap();
}

#[test]
fn an_account_takes_the_place_of_all_that_came_before() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, committer, _) = open(directory.path(), 100_000).unwrap();
    assert!(journal.tidy().is_none(), "it is short");
    (0..2_000).for_each(|number| _ = journal.append(NOW, &[offset(number)]).unwrap());
    let long = journal.bytes();
    let begun = journal.tidy().expect("it is long");
    // A crash here, or at any later moment, leaves the old segments, the account, or both.
    journal.append(NOW, &[offset(2_000)]).unwrap();
    journal.append_each(NOW, &[Record::GroupRemoved { group: "other" }, offset(2_000)]).unwrap();
    journal.end_account(&begun);
    let end = Instant::now() + Duration::from_secs(30);
    while journal.bytes() >= long {
        assert!(journal.tidy().is_none(), "one account is enough");
        let kept = journal.kept.as_ref().unwrap();
        assert!(
            Instant::now() < end,
            "the old segments go when the account is on disk: {:?} {:?} {} of {long}",
            kept.account,
            kept.place.log.on_disk_before(),
            journal.bytes()
        );
        std::thread::yield_now();
    }
    journal.append(NOW, &[offset(2_001)]).unwrap();
    committer.close().unwrap();
    let (_journal, committer, told) = open(directory.path(), SLACK).unwrap();
    assert_eq!(told.last(), Some(&format!("{:?}", offset(2_001))));
    assert_eq!(told.len(), 4, "{told:?}");
    committer.close().unwrap();
}

#[test]
fn damage_and_records_of_other_versions_refuse_the_journal_and_name_it() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, committer, _) = open(directory.path(), SLACK).unwrap();
    (0..100).for_each(|number| _ = journal.append(NOW, &[offset(number)]).unwrap());
    committer.close().unwrap();
    let folder = directory.path().join("kafka");
    let names = || fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let segment = names().find(|path| path.extension().is_some_and(|it| it == "log")).unwrap();
    let sound = fs::read(&segment).unwrap();
    let mut damaged = sound.clone();
    damaged[sound.len() / 2] ^= 1;
    fs::write(&segment, &damaged).unwrap();
    let error = open(directory.path(), SLACK).map(drop).unwrap_err();
    assert!(matches!(error, JournalError::Damaged { .. }), "{error}");
    assert!(error.to_string().starts_with(&folder.display().to_string()), "{error}");

    fs::write(&segment, &sound).unwrap();
    let (place, committer) = place(directory.path(), SLACK);
    let record = NewRecord { annotation_count: 0, annotations: &[], sections: &[&[99]] };
    place.log.append_records(NOW, &[record]).unwrap();
    committer.close().unwrap();
    let error = open(directory.path(), SLACK).map(drop).unwrap_err();
    assert_eq!(error, JournalError::Record { path: folder, record: 100 });
}
