//! Opening many logs at once.
//!
//! To open a log is to wait for the disk, for listings and small reads and, after a crash, small writes; so logs are opened
//! by more threads than there are processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use partition_log::disk::{OpenError, PartitionDirectory, Presence, RecoveryReport};
use partition_log::{BlockPool, LogLimits, PartitionLog};

/// A log, and what was found where it is kept.
#[derive(Debug)]
pub(super) struct OpenedLog {
    pub(super) log: Arc<PartitionLog>,
    pub(super) report: RecoveryReport,
}

/// Opens all these logs. The results are in the order of `directories`.
pub(super) fn open_logs(
    directories: Vec<(LogLimits, PartitionDirectory)>,
    pool: &Arc<BlockPool>,
) -> Vec<Result<OpenedLog, OpenError>> {
    let open = |(limits, directory): &(LogLimits, PartitionDirectory)| {
        let (log, report) = PartitionLog::open(*limits, Arc::clone(pool), directory.clone())?;
        Ok(OpenedLog { log, report })
    };
    let is_present =
        |(_, directory): &&(LogLimits, PartitionDirectory)| directory.presence == Presence::Present;
    let threads = directories.iter().filter(is_present).take(MOST_THREADS).count();
    if threads <= 1 {
        return directories.iter().map(open).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut opened = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            match directories.get(place) {
                Some(directory) => opened.push((place, open(directory))),
                None => return opened,
            }
        }
    };
    let mut opened: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (1..threads)
            // A system that has no thread left has this one.
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let own = work();
        let others =
            workers.into_iter().flat_map(|worker| worker.join().expect("opening a log does not panic"));
        own.into_iter().chain(others).collect()
    });
    opened.sort_unstable_by_key(|(place, _)| *place);
    opened.into_iter().map(|(_, result)| result).collect()
}

/// Enough that a disk always has something to do.
const MOST_THREADS: usize = 16;
