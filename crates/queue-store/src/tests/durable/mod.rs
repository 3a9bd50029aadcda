//! Queues and topics that are kept in a directory.

mod crashes;
mod faults;
mod restarts;
mod rules;
mod torn;
mod transactions;

use super::*;
use partition_log::BlockPool;
use partition_log::disk::{
    CommitNumber, CommitState, Committer, DiskFiles, StorageOptions, SyncPolicy, SystemFiles,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use tempfile::TempDir;
use units::ByteSize;

/// A directory, and the files over it.
struct Disk {
    directory: TempDir,
    files: Arc<dyn DiskFiles>,
}

/// A running process's view of it.
struct Running {
    committer: Arc<Committer>,
    store: Arc<QueueStore>,
}

impl Disk {
    fn new() -> Self {
        Self::with(Arc::new(SystemFiles))
    }

    fn with(files: Arc<dyn DiskFiles>) -> Self {
        Self { directory: TempDir::new().unwrap(), files }
    }

    fn start(&self) -> Running {
        let options = StorageOptions { sync: SyncPolicy::Os, ..StorageOptions::default() };
        let committer = Committer::start(options, Arc::clone(&self.files)).unwrap();
        let path = self.directory.path().join("queues");
        let pool = BlockPool::new(ByteSize::ZERO);
        let store = QueueStore::open_with(&path, Arc::clone(&committer), pool, SLACK).unwrap();
        Running { committer, store }
    }

    /// The segment files of an entity, oldest first.
    fn segments(&self, folder: &str) -> Vec<PathBuf> {
        let path = self.directory.path().join("queues").join(folder);
        let Ok(entries) = fs::read_dir(path) else {
            return Vec::new();
        };
        let mut paths: Vec<_> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
            .collect();
        paths.sort();
        paths
    }

    /// Makes these bytes all that there is of a segment's entity.
    fn put_back(&self, segment: &Path, bytes: &[u8]) {
        fs::write(segment, bytes).unwrap();
        for left in fs::read_dir(segment.parent().unwrap()).unwrap() {
            let path = left.unwrap().path();
            if path != segment {
                fs::remove_file(path).unwrap();
            }
        }
    }

    fn bytes(&self, folder: &str) -> u64 {
        let paths = self.segments(folder);
        paths.iter().map(|path| path.metadata().unwrap().len()).sum()
    }
}

impl Running {
    fn queue(&self, name: &str, options: QueueOptions) -> Arc<Queue> {
        self.store.create_queue(name, options).unwrap()
    }

    /// Waits until it is known what became of a commit.
    fn outcome(&self, commit: CommitNumber) -> CommitState {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut watch = self.committer.subscribe();
        loop {
            let state = watch.state_of(commit);
            if state != CommitState::Waiting {
                return state;
            }
            if watch.poll_committed(&mut Context::from_waker(&waker)).is_pending() {
                thread::park();
            }
        }
    }

    /// Waits until all that was written to the journal of this queue's entity is safe.
    fn safe(&self, queue: &Queue) {
        let commit = queue.entity.lock().journal.as_ref().unwrap().last_commit();
        assert_eq!(self.outcome(commit), CommitState::Done);
    }

    /// Ends as if it were killed: what was not written yet never is.
    fn kill(self) {
        let committer = Arc::downgrade(&self.committer);
        drop(self);
        // A thread that works on a log keeps both until it is done.
        while committer.strong_count() > 0 {
            thread::yield_now();
        }
    }

    fn close(self) {
        self.committer.close().unwrap();
    }
}

/// Cuts the one segment of an entity at every byte from `from` on, and lets `check` look at what a start finds; it is told
/// how long the segment was.
fn cut_at_every_byte(disk: &Disk, folder: &str, from: u64, check: impl Fn(&Running, u64)) {
    let segment = disk.segments(folder).pop().unwrap();
    let bytes = fs::read(&segment).unwrap();
    assert_eq!(disk.segments(folder).len(), 1);
    for length in (from..=bytes.len() as u64).rev() {
        disk.put_back(&segment, &bytes[..length as usize]);
        let running = disk.start();
        check(&running, length);
        running.kill();
    }
}

/// Little, so that journals are cleaned often.
const SLACK: ByteSize = ByteSize::from_bytes(64 * 1024);
