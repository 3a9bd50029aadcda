//! Group commit: writes and syncs the appends to all durable logs of a service.
//!
//! An append puts its partition into a list, and a thread takes the whole list at once: that is a round. While the thread
//! writes and syncs, the next list grows, so the slower the disk, the more appends share one sync. `rounds.rs` has
//! the steps of a round. A second thread reads segments back for readers. With the policy `interval` a third thread
//! syncs, because acknowledgements then wait for writing only.

use super::commits::{CommitNumber, CommitState, CommitWatch, Commits};
use super::directory::Damage;
use super::fault::Unavailable;
use super::files::{DiskFiles, FileSystem};
use super::options::{StorageOptions, SyncPolicy};
use super::partition::Durable;
use super::residency::Residency;
use super::rounds;
use super::sidecar::BootId;
use super::syncing::Pace;
use crate::partition_log::{LogEnd, PartitionLog};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Writes and syncs the durable logs of a service, and reports its progress.
///
/// * Logs use it through [`PartitionDirectory`](super::PartitionDirectory).
/// * Front ends wait with a [`CommitWatch`] from [`subscribe`](Self::subscribe).
/// * The service ends with [`close`](Self::close). A committer that is dropped without it leaves what a crash leaves:
///   all that was acknowledged, and a tail that the next start scans.
pub struct Committer {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the committer has done since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageCounters {
    /// Rounds that wrote something.
    pub rounds: u64,
    /// Partitions written, once per round.
    pub writes: u64,
    /// Bytes written to segment files.
    pub bytes_written: u64,
    /// Syncs: of a segment file, or of all of them at once.
    pub syncs: u64,
    /// Failed attempts to write or sync a partition.
    pub failures: u64,
    /// Segments read back.
    pub loads: u64,
    /// Segments that could not be read back, because they are damaged or the system did not give them.
    pub damaged_segments: u64,
    /// Bytes of memory that hold segments which are on disk as well.
    pub resident_bytes: u64,
}

/// Not everything could be brought onto the disk at the end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{count} partitions could not be written completely; the first is {}: {reason}", path.display())]
pub struct CloseError {
    /// How many partitions.
    pub count: usize,
    /// The directory of one of them.
    pub path: PathBuf,
    /// What is wrong there.
    pub reason: Unavailable,
}

/// What the threads and everyone else have in common.
pub(super) struct Shared {
    pub(super) options: StorageOptions,
    pub(super) disk: Arc<dyn DiskFiles>,
    pub(super) boot: Option<BootId>,
    pub(super) commits: Arc<Commits>,
    pub(super) residency: Arc<Residency>,
    pub(super) open_files: OpenFiles,
    pub(super) counters: Counters,
    pub(super) pace: Mutex<Pace>,
    /// The file system of all logs, once it was looked at.
    file_system: OnceLock<Option<Arc<dyn FileSystem>>>,
    queue: Mutex<Queue>,
    /// There is something in the queue.
    queue_changed: Condvar,
    unsynced: Mutex<Unsynced>,
    unsynced_changed: Condvar,
    loads: Mutex<Loads>,
    loads_changed: Condvar,
    logs: Mutex<Vec<Weak<PartitionLog>>>,
    /// The log of which nothing may be missing that others were written after.
    ahead: OnceLock<Weak<PartitionLog>>,
    /// Whether nothing of that log was missing on disk when it was dropped.
    ahead_is_whole: AtomicBool,
    /// What the process before has left with the system is on the device.
    is_past_synced: Mutex<bool>,
    pub(super) close_error: Mutex<Option<CloseError>>,
}

/// The committer's list.
#[derive(Default)]
struct Queue {
    entries: Vec<Entry>,
    last_number: CommitNumber,
    /// Partitions whose last attempt failed, and when to try again.
    retries: Vec<(Instant, Weak<PartitionLog>)>,
    stop: Option<Stop>,
    /// The thread is gone.
    ended: bool,
}

/// A partition to be written.
pub(super) struct Entry {
    pub(super) log: Weak<PartitionLog>,
    /// Who waits for it; nobody, if this is a further attempt.
    pub(super) number: Option<CommitNumber>,
}

/// How the threads are to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Everything is written and synced first.
    Close,
    /// At once.
    Abandon,
}

/// Partitions that were written since the last sync.
#[derive(Default)]
struct Unsynced {
    logs: Vec<Weak<PartitionLog>>,
    /// When the first of them was.
    since: Option<Instant>,
    stopped: bool,
}

#[derive(Default)]
struct Loads {
    wanted: VecDeque<(Weak<PartitionLog>, u64)>,
    stopped: bool,
}

/// Counts open files: each clone stands for one.
pub(super) struct OpenFiles(Arc<AtomicUsize>);

#[derive(Default)]
pub(super) struct Counters {
    pub(super) rounds: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) bytes_written: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) loads: AtomicU64,
    pub(super) damaged_segments: AtomicU64,
}

impl Committer {
    /// Starts the threads. `disk` is [`SystemFiles`](super::SystemFiles), except in tests.
    pub fn start(options: StorageOptions, disk: Arc<dyn DiskFiles>) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared {
            options,
            boot: disk.boot_id(),
            disk,
            commits: Arc::default(),
            residency: Residency::new(options.resident.bytes()),
            open_files: OpenFiles(Arc::default()),
            counters: Counters::default(),
            pace: Mutex::default(),
            file_system: OnceLock::new(),
            queue: Mutex::default(),
            queue_changed: Condvar::new(),
            unsynced: Mutex::default(),
            unsynced_changed: Condvar::new(),
            loads: Mutex::default(),
            loads_changed: Condvar::new(),
            logs: Mutex::default(),
            ahead: OnceLock::new(),
            ahead_is_whole: AtomicBool::new(false),
            is_past_synced: Mutex::default(),
            close_error: Mutex::default(),
        });
        let committer = Arc::new(Self { shared: Arc::clone(&shared), threads: Mutex::default() });
        committer.spawn("log-committer", rounds::write)?;
        committer.spawn("log-loader", rounds::load)?;
        if let SyncPolicy::Interval(interval) = options.sync {
            committer.spawn("log-syncer", move |shared| rounds::sync(shared, interval))?;
        }
        Ok(committer)
    }

    /// A view of the progress for a task that waits for commits.
    #[must_use]
    pub fn subscribe(&self) -> CommitWatch {
        self.shared.commits.watch()
    }

    /// The last number that is settled.
    #[must_use]
    pub fn committed(&self) -> CommitNumber {
        self.shared.commits.settled()
    }

    /// How it stands with `number`.
    #[must_use]
    pub fn state_of(&self, number: CommitNumber) -> CommitState {
        self.shared.commits.state_of(number)
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> StorageCounters {
        let counters = &self.shared.counters;
        StorageCounters {
            rounds: counters.rounds.load(Ordering::Relaxed),
            writes: counters.writes.load(Ordering::Relaxed),
            bytes_written: counters.bytes_written.load(Ordering::Relaxed),
            syncs: counters.syncs.load(Ordering::Relaxed),
            failures: counters.failures.load(Ordering::Relaxed),
            loads: counters.loads.load(Ordering::Relaxed),
            damaged_segments: counters.damaged_segments.load(Ordering::Relaxed),
            resident_bytes: self.shared.residency.bytes(),
        }
    }

    /// Refuses further appends, writes and syncs everything, and writes the sidecars, so that the next start scans
    /// nothing. Blocks until that is done. A second call does nothing.
    ///
    /// # Errors
    /// If something could not be written. What was acknowledged before is on disk all the same, as far as the
    /// policy promises.
    pub fn close(&self) -> Result<(), CloseError> {
        self.stop(Stop::Close);
        match lock(&self.shared.close_error).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// The files that it writes to.
    pub fn files(&self) -> &dyn DiskFiles {
        &*self.shared.disk
    }

    /// Has `log` written ahead of all others from now on: what was appended to another log after an append to this one is not
    /// on disk, after whatever crash of the process, unless that append is. Where the policy is `always`, the same holds for a
    /// power cut. A committer does so for one log; `false` if it does already for another.
    pub fn write_ahead(&self, log: &Arc<PartitionLog>) -> bool {
        let ahead = Arc::downgrade(log);
        self.shared.ahead.get_or_init(|| ahead.clone()).ptr_eq(&ahead)
    }

    /// A log of this committer is being dropped.
    pub(super) fn note_end_of(&self, log: &PartitionLog) {
        self.shared.note_end_of(log);
    }

    /// Whether this policy ever syncs.
    pub(super) fn syncs(&self) -> bool {
        self.shared.options.sync != SyncPolicy::Os
    }

    /// Syncs the file system of `directory`, which must be that of all logs, unless that was done before: once is enough for
    /// what another process has written, and a sync per partition would take minutes for thousands of them.
    pub(super) fn sync_what_was_left(&self, directory: &Path) -> io::Result<()> {
        let mut is_synced = lock(&self.shared.is_past_synced);
        if !*is_synced {
            self.shared.disk.sync_file_system(directory)?;
            *is_synced = true;
        }
        Ok(())
    }

    pub(super) fn residency(&self) -> Arc<Residency> {
        Arc::clone(&self.shared.residency)
    }

    /// Makes a log known, so that it is closed in the end. `committed` is what was recovered.
    pub(crate) fn register(self: Arc<Self>, log: Weak<PartitionLog>, committed: LogEnd) -> Durable {
        let mut logs = lock(&self.shared.logs);
        if logs.len() == logs.capacity() {
            logs.retain(|log| log.strong_count() > 0);
        }
        logs.push(log.clone());
        drop(logs);
        Durable::new(self, log, committed)
    }

    /// Puts a log into the list. The log's lock is held.
    pub(super) fn enqueue(&self, log: Weak<PartitionLog>) -> CommitNumber {
        let mut queue = lock(&self.shared.queue);
        let number = queue.last_number.next();
        queue.last_number = number;
        if queue.ended {
            self.shared.commits.fail(number);
            self.shared.commits.settle(number);
            return number;
        }
        queue.entries.push(Entry { log, number: Some(number) });
        let is_first = queue.entries.len() == 1;
        drop(queue);
        if is_first {
            self.shared.queue_changed.notify_one();
        }
        number
    }

    /// Has a segment read back. The log's lock is held.
    pub(super) fn load(&self, log: Weak<PartitionLog>, ordinal: u64) {
        lock(&self.shared.loads).wanted.push_back((log, ordinal));
        self.shared.loads_changed.notify_one();
    }

    /// Makes known that a segment can't be read.
    pub(super) fn report_damage(&self, directory: &Path, damage: &Damage) {
        let counters = &self.shared.counters;
        counters.damaged_segments.fetch_add(1, Ordering::Relaxed);
        tracing::error!(directory = %directory.display(), %damage, "a segment can't be read");
    }

    fn spawn(&self, name: &str, work: impl FnOnce(&Shared) + Send + 'static) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(&shared))?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Ends the threads and waits for them, except for the one that calls.
    fn stop(&self, how: Stop) {
        // The syncer first: the committer syncs what is left.
        lock(&self.shared.unsynced).stopped = true;
        self.shared.unsynced_changed.notify_all();
        lock(&self.shared.loads).stopped = true;
        self.shared.loads_changed.notify_all();
        lock(&self.shared.queue).stop.get_or_insert(how);
        self.shared.queue_changed.notify_all();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                tracing::error!("a thread of the durable log panicked");
            }
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.stop(Stop::Abandon);
    }
}

impl Shared {
    /// The next round's entries, once there are some and `not_before` has come. `Err` when it is time to stop, and how.
    pub(super) fn next_round(&self, not_before: Instant) -> Result<Vec<Entry>, Stop> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(stop) = queue.stop {
                return Err(stop);
            }
            let now = Instant::now();
            let next_retry = queue.retries.iter().map(|(at, _)| *at).min();
            let next = match queue.entries.is_empty() {
                true => next_retry.map(|at| at.max(not_before)),
                false => Some(not_before),
            };
            queue = match next {
                None => wait(&self.queue_changed, queue),
                Some(at) if at > now => {
                    let waited = self.queue_changed.wait_timeout(queue, at - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let mut entries = std::mem::take(&mut queue.entries);
                    let due = queue.retries.extract_if(.., |(at, _)| *at <= now);
                    entries.extend(due.map(|(_, log)| Entry { log, number: None }));
                    return Ok(entries);
                }
            };
        }
    }

    /// All that is in the list, without waiting.
    pub(super) fn take_entries(&self) -> Vec<Entry> {
        std::mem::take(&mut lock(&self.queue).entries)
    }

    /// Nothing will be taken from the list any more: whoever is in it, and whoever comes, fails.
    pub(super) fn end_queue(&self) {
        let mut queue = lock(&self.queue);
        queue.ended = true;
        let entries = std::mem::take(&mut queue.entries);
        let numbers = entries.iter().filter_map(|entry| entry.number);
        numbers.for_each(|number| self.commits.fail(number));
        self.commits.settle(queue.last_number);
    }

    /// The file system that the logs are on, if it can be synced as a whole.
    pub(super) fn file_system(&self, logs: &[Arc<PartitionLog>]) -> Option<Arc<dyn FileSystem>> {
        let disk = logs.first()?.disk.as_ref()?;
        let open = || self.disk.file_system(disk.path.parent()?);
        self.file_system.get_or_init(open).clone()
    }

    /// The log that is written ahead of `other`, if that is to be done now.
    ///
    /// # Errors
    /// It was dropped before all of it was written, so that nothing may be written after it.
    pub(super) fn to_be_written_before(
        &self,
        other: &Arc<PartitionLog>,
    ) -> Result<Option<Arc<PartitionLog>>, Unavailable> {
        let Some(ahead) = self.ahead.get().filter(|ahead| ahead.as_ptr() != Arc::as_ptr(other)) else {
            return Ok(None);
        };
        match ahead.upgrade() {
            Some(ahead) => Ok(ahead.awaits_writing().then_some(ahead)),
            None if self.ahead_is_whole.load(Ordering::Acquire) => Ok(None),
            None => Err(Unavailable::Closed),
        }
    }

    /// A log is being dropped.
    pub(super) fn note_end_of(&self, log: &PartitionLog) {
        if self.ahead.get().is_some_and(|ahead| std::ptr::eq(ahead.as_ptr(), log)) && !log.awaits_writing() {
            self.ahead_is_whole.store(true, Ordering::Release);
        }
    }

    /// Whether this log is written ahead of all others.
    pub(super) fn is_ahead(&self, log: &Arc<PartitionLog>) -> bool {
        self.ahead.get().is_some_and(|ahead| ahead.as_ptr() == Arc::as_ptr(log))
    }

    /// Has a partition tried again at some time.
    pub(super) fn retry(&self, at: Instant, log: Weak<PartitionLog>) {
        lock(&self.queue).retries.push((at, log));
        self.queue_changed.notify_one();
    }

    /// Notes that a log has something to sync.
    pub(super) fn await_sync(&self, log: Weak<PartitionLog>) {
        let mut unsynced = lock(&self.unsynced);
        unsynced.logs.push(log);
        if unsynced.since.is_none() {
            unsynced.since = Some(Instant::now());
            self.unsynced_changed.notify_one();
        }
    }

    /// What has waited for its sync long enough. `None` when it is time to stop.
    pub(super) fn next_sync(&self, interval: std::time::Duration) -> Option<Vec<Weak<PartitionLog>>> {
        let mut unsynced = lock(&self.unsynced);
        loop {
            if unsynced.stopped {
                return None;
            }
            let Some(since) = unsynced.since else {
                unsynced = wait(&self.unsynced_changed, unsynced);
                continue;
            };
            let pause = interval.saturating_sub(since.elapsed());
            if pause.is_zero() {
                unsynced.since = None;
                return Some(std::mem::take(&mut unsynced.logs));
            }
            let waited = self.unsynced_changed.wait_timeout(unsynced, pause);
            unsynced = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next segment that a reader wants. `None` when it is time to stop.
    pub(super) fn next_load(&self) -> Option<(Weak<PartitionLog>, u64)> {
        let mut loads = lock(&self.loads);
        loop {
            if loads.stopped {
                return None;
            }
            if let Some(wanted) = loads.wanted.pop_front() {
                return Some(wanted);
            }
            loads = wait(&self.loads_changed, loads);
        }
    }

    /// All logs that there are.
    pub(super) fn logs(&self) -> Vec<Arc<PartitionLog>> {
        lock(&self.logs).iter().filter_map(Weak::upgrade).collect()
    }
}

impl OpenFiles {
    /// How many clones there are.
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clone for OpenFiles {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        // The original, which counts nothing, lives as long as the committer: by then nobody looks.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for CommitNumber {
    fn default() -> Self {
        Self::DONE
    }
}

impl fmt::Debug for Committer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Committer")
            .field("options", &self.shared.options)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Locked sections of this module push, take and assign; what is there is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
