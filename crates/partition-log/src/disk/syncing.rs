//! Bringing what was written to the device, for many partitions at once.
//!
//! There are two ways, and neither is always the better one:
//!
//! * **file by file**, several at once so that the device's flushes merge. Costs a journal commit or a flush for nearly
//!   every file.
//! * **the whole file system** (`syncfs`): one commit and one flush, however many files there are; and the pages that
//!   others have written to the same file system, which can be gigabytes.
//!
//! [`Pace`] takes whichever was faster last time, and goes back to the other one carefully. One file is always synced by
//! itself. When the sync of the file system fails, the files are asked one by one, so that a partition fails for its own
//! file and for no other.

use super::committer::{Shared, lock};
use super::files::FileSystem;
use super::partition::PartitionDisk;
use super::segment_files::SyncJob;
use crate::partition_log::PartitionLog;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How long each way of syncing takes.
#[derive(Debug)]
pub(super) struct Pace {
    /// Of one file among several, from the last time.
    of_a_file: Duration,
    /// Of the file system, from the last time.
    of_the_file_system: Duration,
    /// If the file system was the slower way: when it is worth another try.
    again_at: Option<Instant>,
}

/// Syncs logs, and gives one result for each, in their order.
pub(super) fn sync_all(shared: &Shared, logs: &[Arc<PartitionLog>]) -> Vec<io::Result<()>> {
    let started = Instant::now();
    let whole = lock(&shared.pace).prefers_the_file_system(logs.len(), started);
    if whole
        && let Some(file_system) = shared.file_system(logs)
        && sync_file_system(shared, &*file_system, logs).is_ok()
    {
        lock(&shared.pace).file_system_took(started.elapsed(), logs.len(), Instant::now());
        return logs.iter().map(|_| Ok(())).collect();
    }
    let started = Instant::now();
    let results = sync_one_by_one(shared, logs);
    if logs.len() > 1 {
        lock(&shared.pace).files_took(started.elapsed(), logs.len());
    }
    results
}

/// Syncs what the logs have written so far along with everything else on their file system.
fn sync_file_system(
    shared: &Shared,
    file_system: &dyn FileSystem,
    logs: &[Arc<PartitionLog>],
) -> io::Result<()> {
    let mut all: Vec<(&PartitionDisk, Vec<SyncJob>, u64)> = Vec::with_capacity(logs.len());
    for disk in logs.iter().filter_map(|log| log.disk.as_ref()) {
        let mut files = disk.lock();
        let jobs = files.sync_jobs(&*shared.disk, &disk.path, &shared.open_files)?;
        all.push((disk, jobs, files.entries_made()));
    }
    file_system.sync()?;
    shared.counters.syncs.fetch_add(1, Ordering::Relaxed);
    for (disk, jobs, entries_made) in &all {
        let mut files = disk.lock();
        jobs.iter().for_each(|job| files.synced(job));
        files.synced_entries(*entries_made);
    }
    Ok(())
}

fn sync_one_by_one(shared: &Shared, logs: &[Arc<PartitionLog>]) -> Vec<io::Result<()>> {
    let next = AtomicUsize::new(0);
    let results: Vec<_> = logs.iter().map(|_| Mutex::new(Ok(()))).collect();
    let work = || {
        while let place = next.fetch_add(1, Ordering::Relaxed)
            && let (Some(log), Some(result)) = (logs.get(place), results.get(place))
        {
            *lock(result) = sync_log(shared, log);
        }
    };
    thread::scope(|scope| {
        for _ in 1..logs.len().min(SYNC_THREADS) {
            scope.spawn(work);
        }
        work();
    });
    let take = |result: Mutex<_>| std::mem::replace(&mut *lock(&result), Ok(()));
    results.into_iter().map(take).collect()
}

/// Syncs one log.
pub(super) fn sync_log(shared: &Shared, log: &PartitionLog) -> io::Result<()> {
    let Some(disk) = &log.disk else {
        return Ok(());
    };
    let jobs = disk.lock().sync_jobs(&*shared.disk, &disk.path, &shared.open_files)?;
    for job in jobs {
        // Without the lock: with the policy `interval` writing goes on meanwhile.
        job.run()?;
        shared.counters.syncs.fetch_add(1, Ordering::Relaxed);
        disk.lock().synced(&job);
    }
    disk.lock().sync_entries(&*shared.disk, &disk.path)
}

impl Default for Pace {
    fn default() -> Self {
        Self { of_a_file: EXPECTED, of_the_file_system: Duration::ZERO, again_at: None }
    }
}

impl Pace {
    fn prefers_the_file_system(&self, files: usize, now: Instant) -> bool {
        files > 1
            && (self.of_the_file_system <= self.of(files)
                || self.again_at.is_none_or(|again_at| again_at <= now))
    }

    fn file_system_took(&mut self, time: Duration, files: usize, now: Instant) {
        self.of_the_file_system = time;
        self.again_at = (time > self.of(files)).then(|| now + time * PATIENCE);
    }

    fn files_took(&mut self, time: Duration, files: usize) {
        self.of_a_file = time / u32::try_from(files).unwrap_or(u32::MAX).max(1);
    }

    fn of(&self, files: usize) -> Duration {
        self.of_a_file.saturating_mul(u32::try_from(files).unwrap_or(u32::MAX))
    }
}

/// Syncs under way at once. The device merges their flushes.
const SYNC_THREADS: usize = 32;

/// What a file among several is believed to take before it was tried: about what fast devices need.
const EXPECTED: Duration = Duration::from_micros(200);

/// How many times as long as it took a file system that was slow is left alone: trying again costs a twentieth at most.
const PATIENCE: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn one_file_is_synced_by_itself() {
        assert!(!Pace::default().prefers_the_file_system(1, Instant::now()));
    }

    #[test]
    fn the_faster_way_is_taken_and_the_slower_one_tried_again_much_later() {
        let now = Instant::now();
        let mut pace = Pace::default();
        assert!(pace.prefers_the_file_system(10, now), "it has to be known");
        pace.file_system_took(MILLISECOND, 10, now);
        assert!(pace.prefers_the_file_system(10, now), "2 ms were expected");

        // Others write a lot.
        pace.file_system_took(1000 * MILLISECOND, 10, now);
        assert!(!pace.prefers_the_file_system(10, now));
        pace.files_took(20 * MILLISECOND, 10);
        let later = now + 19_999 * MILLISECOND;
        assert!(!pace.prefers_the_file_system(10, later));
        assert!(pace.prefers_the_file_system(1000, later), "2 s one by one");
        assert!(pace.prefers_the_file_system(10, later + MILLISECOND));

        pace.file_system_took(3 * MILLISECOND, 10, later);
        assert!(pace.prefers_the_file_system(10, later), "20 ms one by one");
    }
}
