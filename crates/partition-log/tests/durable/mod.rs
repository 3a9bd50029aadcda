//! Durable logs through their public face: commits, recovery, loading, retention, faults of the disk, and a model with
//! crashes.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test, with the place")]

mod ahead;
mod commits;
mod crashes;
mod damage;
mod faults;
mod faulty_files;
mod keeping;
mod producers;
mod timestamps;
mod transactions;

use faulty_files::FaultyFiles;
use partition_log::UnixTime;
use partition_log::disk::{
    CommitNumber, CommitState, Committer, Damage, OpenError, PartitionDirectory, Presence, RecoveryReport,
    StorageOptions, SyncPolicy,
};
use partition_log::{
    AppendError, Appended, BlockPool, Cursor, LogLimits, NewRecord, PartitionLog, Readiness, Start,
    Subscriber,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;
use tempfile::TempDir;
use units::ByteSize;

/// A data directory, with faulty files over it.
struct Disk {
    directory: TempDir,
    files: FaultyFiles,
    options: StorageOptions,
    limits: LogLimits,
}

/// A running service's view of it.
struct Service {
    committer: Arc<Committer>,
    log: Arc<PartitionLog>,
    report: RecoveryReport,
}

impl Disk {
    /// A disk that is synced before anything is acknowledged.
    fn new() -> Self {
        Self::with(SyncPolicy::Always)
    }

    fn with(sync: SyncPolicy) -> Self {
        Self {
            directory: TempDir::new().unwrap(),
            files: FaultyFiles::default(),
            options: StorageOptions { sync, ..StorageOptions::default() },
            limits: LogLimits::default(),
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("0")
    }

    fn committer(&self) -> Arc<Committer> {
        Committer::start(self.options, Arc::new(self.files.clone())).unwrap()
    }

    fn open(&self) -> Service {
        self.try_open().unwrap()
    }

    fn try_open(&self) -> Result<Service, OpenError> {
        let committer = self.committer();
        let (log, report) = self.open_log(&committer, "0")?;
        Ok(Service { committer, log, report })
    }

    fn open_log(
        &self,
        committer: &Arc<Committer>,
        name: &str,
    ) -> Result<(Arc<PartitionLog>, RecoveryReport), OpenError> {
        let path = self.directory.path().join(name);
        let presence = match path.exists() {
            true => Presence::Present,
            false => Presence::Absent,
        };
        let directory = PartitionDirectory { path, presence, committer: Arc::clone(committer) };
        PartitionLog::open(self.limits, BlockPool::new(ByteSize::ZERO), directory)
    }

    /// The segment files, oldest first.
    fn segments(&self) -> Vec<PathBuf> {
        self.files_named("log")
    }

    fn files_named(&self, extension: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path()) else {
            return Vec::new();
        };
        let mut paths: Vec<_> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|it| it == extension))
            .collect();
        paths.sort();
        paths
    }
}

impl Service {
    /// Appends one record and waits until it is settled.
    fn append(&self, sections: &[u8]) -> CommitState {
        let appended = try_append(&self.log, 1, sections).unwrap();
        settle(&self.committer, appended.commit)
    }

    /// Appends `count` records of `length` bytes each, in batches of one, and waits for all of them.
    fn fill(&self, count: u64, length: usize) {
        for _ in 0..count {
            let number = self.log.stats().last_sequence_number.map_or(0, |last| last + 1);
            assert_eq!(self.append(&content(number, length)), CommitState::Done);
        }
    }

    /// Ends without writing anything more than what is being written.
    fn crash(self) {
        let committer = Arc::downgrade(&self.committer);
        drop(self);
        // A thread that works on the log keeps both until it is done.
        wait_for(|| committer.strong_count() == 0);
    }

    fn close(self) {
        self.committer.close().unwrap();
    }

    /// All records that can be read now, with their numbers.
    fn all(&self) -> Vec<(u64, Vec<u8>)> {
        let mut cursor = self.log.position(Start::Earliest).unwrap();
        rest(&self.log, &mut cursor).unwrap()
    }
}

fn try_append(log: &PartitionLog, milliseconds: i64, sections: &[u8]) -> Result<Appended, AppendError> {
    let record = NewRecord { annotation_count: 0, annotations: &[], sections: &[sections] };
    log.append_records(UnixTime::from_milliseconds(milliseconds), &[record])
}

/// What record `number` holds in these tests, so that each can be known again.
fn content(number: u64, length: usize) -> Vec<u8> {
    let seed = number.to_be_bytes();
    seed.iter().copied().cycle().take(length).collect()
}

/// Waits until `number` is settled.
fn settle(committer: &Committer, number: CommitNumber) -> CommitState {
    let mut watch = committer.subscribe();
    let mut state = CommitState::Waiting;
    wait_until(|context| {
        loop {
            state = watch.state_of(number);
            if state != CommitState::Waiting {
                return Poll::Ready(());
            }
            if watch.poll_committed(context).is_pending() {
                return Poll::Pending;
            }
        }
    });
    state
}

/// The number and sections of every record from `cursor` to the end, waiting for segments to be loaded.
fn rest(log: &Arc<PartitionLog>, cursor: &mut Cursor) -> Result<Vec<(u64, Vec<u8>)>, Damage> {
    let mut records = Vec::new();
    rest_into(log, cursor, &mut records)?;
    Ok(records)
}

/// As [`rest`], and keeps those that come before damage.
fn rest_into(
    log: &Arc<PartitionLog>,
    cursor: &mut Cursor,
    records: &mut Vec<(u64, Vec<u8>)>,
) -> Result<(), Damage> {
    let end = log.stats().last_sequence_number.map_or(0, |last| last + 1);
    let subscriber = Subscriber::new();
    let mut subscription = log.subscribe(&subscriber, 0);
    let mut keys = Vec::new();
    while cursor.next_sequence_number() < end {
        if let Some(chunk) = log.read(cursor, 10_000) {
            assert_eq!(chunk.skipped(), 0);
            records.extend(chunk.records().map(|record| (record.sequence_number, record.sections.to_vec())));
            continue;
        }
        match subscription.arm(cursor) {
            Readiness::Ready => {}
            Readiness::Waiting => {
                wait_until(|context| subscriber.poll_ready(context, &mut keys));
                keys.clear();
            }
            Readiness::Damaged(damage) => return Err(damage),
        }
    }
    Ok(())
}

/// Polls until ready, sleeping in between until woken.
fn wait_until(mut poll: impl FnMut(&mut Context<'_>) -> Poll<()>) {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    while poll(&mut context).is_pending() {
        thread::park_timeout(DEADLINE);
    }
}

/// Waits for something that no waker tells.
fn wait_for(what: impl Fn() -> bool) {
    while !what() {
        thread::yield_now();
    }
}

fn flip_bit(path: &Path, position: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[position] ^= 4;
    fs::write(path, bytes).unwrap();
}

/// Expected records: `numbers`, of `length` bytes each.
fn records(numbers: std::ops::Range<u64>, length: usize) -> Vec<(u64, Vec<u8>)> {
    numbers.map(|number| (number, content(number, length))).collect()
}

/// Longer than anything takes: the park is over early when the waker is called.
const DEADLINE: Duration = Duration::from_secs(60);

/// The largest segment of a log of a mebibyte.
const SEGMENT: u64 = 128 * 1024;

/// A log of few and small segments: the first has 64 KiB, the others twice that.
static SMALL: LazyLock<LogLimits> =
    LazyLock::new(|| LogLimits { bytes: ByteSize::from_mebibytes(1), ..LogLimits::default() });
