//! What the committer's threads do.
//!
//! A round takes some partitions at a time, so that the number of open files stays bounded however many there are:
//!
//! 1. write what is new of each, under checksums;
//! 2. `always`: sync it, which `syncing.rs` has;
//! 3. let readers see it, finish segments that are complete (sidecar, memory may go), remove files of dropped ones;
//! 4. settle the numbers.
//!
//! One log may be written ahead: what others hold that was appended after it waits until it is where it has to be. It is looked
//! at when the work of another one has been collected, so whatever that work holds, the log has what came before.
//!
//! A partition where something fails keeps everything in memory, refuses appends and is tried again after a pause.

use super::commits::CommitNumber;
use super::committer::{CloseError, Entry, Shared, Stop, lock};
use super::directory::segment_path;
use super::fault::Unavailable;
use super::files::Access;
use super::options::SyncPolicy;
use super::partition::{PartitionDisk, Piece, Work};
use super::recover::write_sidecar;
use super::sealing::Stage;
use super::sidecar::{Assurance, Sidecar};
use super::syncing::{sync_all, sync_log};
use crate::partition_log::PartitionLog;
use crate::segment::Storage;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The committer's thread.
pub(super) fn write(shared: &Shared) {
    // Runs even if this thread panics: nobody must wait for ever.
    struct EndQueue<'a>(&'a Shared);
    impl Drop for EndQueue<'_> {
        fn drop(&mut self) {
            self.0.end_queue();
        }
    }
    let end_queue = EndQueue(shared);
    let mut writer = Writer {
        shared,
        syncs_now: shared.options.sync == SyncPolicy::Always,
        with_open_files: VecDeque::new(),
        stage: Stage::default(),
    };
    let mut not_before = Instant::now();
    let stop = loop {
        match writer.shared.next_round(not_before) {
            Ok(entries) => {
                let started = Instant::now();
                writer.round(&entries);
                if entries.len() > 1 && !writer.syncs_now {
                    not_before = started + ROUND_SPACING;
                }
            }
            Err(stop) => break stop,
        }
    };
    if stop == Stop::Close {
        writer.close();
    }
    drop(end_queue);
}

/// The thread that reads segments back.
pub(super) fn load(shared: &Shared) {
    while let Some((log, ordinal)) = shared.next_load() {
        let Some(log) = log.upgrade() else { continue };
        count(&shared.counters.loads, 1);
        log.load(ordinal);
        shared.residency.enforce();
    }
}

/// The thread that syncs after each interval.
pub(super) fn sync(shared: &Shared, interval: Duration) {
    while let Some(logs) = shared.next_sync(interval) {
        let logs: Vec<_> = logs.iter().filter_map(Weak::upgrade).collect();
        for log in &logs {
            if let Some(disk) = &log.disk {
                disk.lock().awaits_sync = false;
            }
        }
        for (log, result) in logs.iter().zip(sync_all(shared, &logs)) {
            match result {
                Ok(()) => finish(shared, log, Storage::Synced),
                Err(error) => fail(shared, log, &error, Vec::new()),
            }
        }
        shared.residency.enforce();
    }
}

struct Writer<'a> {
    shared: &'a Shared,
    /// Syncing belongs to every round.
    syncs_now: bool,
    /// Those whose files were opened, oldest first; some may be closed again.
    with_open_files: VecDeque<Weak<PartitionLog>>,
    stage: Stage,
}

/// A partition that was written in this round.
struct Written {
    log: Arc<PartitionLog>,
    number: Option<CommitNumber>,
    work: Work,
    /// Syncing it belongs to the round.
    syncs_now: bool,
}

impl Writer<'_> {
    fn round(&mut self, entries: &[Entry]) {
        count(&self.shared.counters.rounds, 1);
        for group in entries.chunks(GROUP) {
            self.group(group);
            if let Some(last) = group.iter().rev().find_map(|entry| entry.number) {
                self.shared.commits.settle(last);
            }
            self.shared.residency.enforce();
            self.close_some_files();
        }
    }

    fn group(&mut self, entries: &[Entry]) {
        let mut failed = Vec::new();
        let mut written = Vec::with_capacity(entries.len());
        for entry in entries {
            match entry.log.upgrade().and_then(|log| self.write(log, entry)) {
                Some(each) => written.push(each),
                None => failed.extend(entry.number),
            }
        }
        let syncing = written.iter().filter(|each| each.syncs_now);
        let logs: Vec<_> = syncing.map(|each| Arc::clone(&each.log)).collect();
        let mut results = sync_all(self.shared, &logs).into_iter();
        written.retain_mut(|each| {
            if each.syncs_now
                && let Some(Err(error)) = results.next()
            {
                let removals = std::mem::take(&mut each.work.removals);
                fail(self.shared, &each.log, &error, removals);
                failed.extend(each.number);
                return false;
            }
            true
        });
        // One number is settled after the other, so failures are noted in that order too.
        failed.sort_unstable();
        for number in failed {
            self.shared.commits.fail(number);
        }
        for each in &written {
            self.complete(each);
        }
    }

    /// Writes what is new in a log. `None` if there is nothing to go on with: the log is retired, or the disk failed.
    fn write(&mut self, log: Arc<PartitionLog>, entry: &Entry) -> Option<Written> {
        let disk = log.disk.as_ref()?;
        let mut files = disk.lock();
        if entry.number.is_none() {
            files.awaits_retry = false;
        }
        let work = log.collect()?;
        // After a failure nothing is believed before it was synced.
        let has_failed = files.last_fault.is_some();
        let syncs_now = self.syncs_now || (has_failed && self.shared.options.sync != SyncPolicy::Os);
        let ahead = self.shared.to_be_written_before(&log).map_err(unwritten);
        if let Err(error) = ahead.and_then(|ahead| ahead.map_or(Ok(()), |ahead| self.write_ahead(ahead))) {
            drop(files);
            fail(self.shared, &log, &error, work.removals);
            return None;
        }
        let opened_before = self.shared.open_files.count();
        let Shared { disk: system, open_files, .. } = self.shared;
        let written = files.write(&**system, &disk.path, open_files, &work, &mut self.stage);
        drop(files);
        if self.shared.open_files.count() > opened_before {
            self.with_open_files.push_back(Arc::downgrade(&log));
        }
        let written = written.and_then(|bytes| {
            // With the others of its group it might come after them.
            match syncs_now && self.shared.is_ahead(&log) {
                true => sync_log(self.shared, &log).map(|()| bytes),
                false => Ok(bytes),
            }
        });
        match written {
            Ok(bytes) => {
                count(&self.shared.counters.writes, 1);
                count(&self.shared.counters.bytes_written, bytes);
                Some(Written { log, number: entry.number, work, syncs_now })
            }
            Err(error) => {
                fail(self.shared, &log, &error, work.removals);
                None
            }
        }
    }

    /// Writes the log that is ahead of another one, although it is not its turn: those who wait for it are answered then.
    fn write_ahead(&mut self, ahead: Arc<PartitionLog>) -> io::Result<()> {
        let entry = Entry { log: Arc::downgrade(&ahead), number: None };
        match self.write(Arc::clone(&ahead), &entry) {
            Some(written) => {
                self.complete(&written);
                Ok(())
            }
            None => {
                let fault = ahead.disk.as_ref().and_then(|disk| disk.lock().last_fault);
                Err(unwritten(fault.unwrap_or(Unavailable::Closed)))
            }
        }
    }

    /// What was promised has happened.
    fn complete(&self, written: &Written) {
        let Some(disk) = &written.log.disk else {
            return;
        };
        let work = &written.work;
        self.publish(&written.log, &work.pieces);
        match self.shared.options.sync {
            _ if written.syncs_now => finish(self.shared, &written.log, Storage::Synced),
            SyncPolicy::Os => finish(self.shared, &written.log, Storage::Written),
            SyncPolicy::Always | SyncPolicy::Interval(_) => {
                let mut files = disk.lock();
                if !std::mem::replace(&mut files.awaits_sync, true) {
                    self.shared.await_sync(Arc::downgrade(&written.log));
                }
            }
        }
        if work.removals.is_empty() {
            return;
        }
        let removed =
            disk.lock().remove(&*self.shared.disk, &disk.path, &work.removals, work.marker.as_ref());
        if let Err(error) = removed {
            tracing::warn!(directory = %disk.path.display(), %error, "files of dropped segments can't be removed");
            written.log.postpone(work.removals.clone());
        }
    }

    fn publish(&self, log: &PartitionLog, pieces: &[Piece]) {
        if let Some(disk) = &log.disk {
            let mut files = disk.lock();
            files.failures = 0;
            if files.last_fault.take().is_some() {
                tracing::info!(directory = %disk.path.display(), "the disk accepts writes again");
            }
        }
        log.publish(pieces);
    }

    /// Closes the files that were opened first, when there are too many.
    fn close_some_files(&mut self) {
        while self.shared.open_files.count() > MAXIMUM_OPEN_FILES
            && let Some(log) = self.with_open_files.pop_front()
        {
            if let Some(log) = log.upgrade()
                && let Some(disk) = &log.disk
            {
                disk.lock().close_files();
            }
        }
    }

    /// Writes and syncs everything, in whatever way is configured, and finishes all segments.
    fn close(&mut self) {
        self.syncs_now = true;
        let logs = self.shared.logs();
        logs.iter().for_each(|log| log.close());
        // Appends are refused now, so this list is the last one.
        let mut entries = self.shared.take_entries();
        let listed: HashSet<_> = entries.iter().map(|entry| entry.log.as_ptr()).collect();
        entries.extend(
            logs.iter()
                .filter(|log| !listed.contains(&Arc::as_ptr(log)) && log.is_unfinished())
                .map(|log| Entry { log: Arc::downgrade(log), number: None }),
        );
        self.round(&entries);
        for log in &logs {
            let result = self.sync_written(log);
            let failed = match result {
                Err(error) => Some(Unavailable::from(&error)),
                Ok(()) if log.is_unfinished() => {
                    let fault = log.disk.as_ref().and_then(|disk| disk.lock().last_fault);
                    Some(fault.unwrap_or(Unavailable::Closed))
                }
                Ok(()) => None,
            };
            if let (Some(reason), Some(disk)) = (failed, &log.disk) {
                let mut error = lock(&self.shared.close_error);
                let count = error.as_ref().map_or(0, |error| error.count) + 1;
                *error = Some(CloseError { count, path: disk.path.clone(), reason });
            }
        }
    }

    /// Syncs the segments that were only written, as the policy `os` leaves them.
    fn sync_written(&self, log: &PartitionLog) -> io::Result<()> {
        let Some(disk) = &log.disk else {
            return Ok(());
        };
        let segments = log.written_segments();
        for (ordinal, sidecar) in &segments {
            let path = segment_path(&disk.path, sidecar.first_sequence_number);
            self.shared.disk.open(&path, Access::Read)?.sync()?;
            write_sidecar(&*self.shared.disk, &disk.path, sidecar)?;
            log.mark_synced(*ordinal);
        }
        match segments.is_empty() {
            true => Ok(()),
            false => self.shared.disk.sync_directory(&disk.path),
        }
    }
}

/// A log can't be written since the one that is ahead of it can't.
fn unwritten(fault: Unavailable) -> io::Error {
    io::Error::new(fault.kind(), format!("the log that is written ahead of it can't be written: {fault}"))
}

/// Finishes the segments of a log that are completely where `storage` says.
fn finish(shared: &Shared, log: &PartitionLog, storage: Storage) {
    let Some(disk) = &log.disk else { return };
    let mut files = disk.lock();
    while let Some((ordinal, sidecar)) = files.take_finished(storage) {
        write_finished_sidecar(shared, disk, sidecar, storage);
        log.finish_segment(ordinal, storage);
    }
}

/// A sidecar that can't be written costs time at the next start and nothing else.
fn write_finished_sidecar(shared: &Shared, disk: &PartitionDisk, sidecar: Sidecar, storage: Storage) {
    let assurance = match (storage, shared.boot) {
        (Storage::Synced, _) => Assurance::Synced,
        (Storage::Written, Some(boot)) => Assurance::Written(boot),
        (Storage::Written | Storage::Unfinished, _) => return,
    };
    let sidecar = Sidecar { assurance, ..sidecar };
    if let Err(error) = write_sidecar(&*shared.disk, &disk.path, &sidecar) {
        tracing::warn!(
            directory = %disk.path.display(),
            segment = sidecar.first_sequence_number,
            %error,
            "the sidecar of a segment can't be written"
        );
    }
}

/// A file operation failed: appends are refused, and there is another attempt later. Of a log that is retired nothing is written
/// any longer, so nothing fails.
fn fail(shared: &Shared, log: &Arc<PartitionLog>, error: &io::Error, removals: Vec<u64>) {
    let Some(disk) = &log.disk else { return };
    if log.is_retired() {
        // Its directory may have gone while this was under way.
        return;
    }
    count(&shared.counters.failures, 1);
    let mut files = disk.lock();
    files.doubt();
    files.failures = files.failures.saturating_add(1);
    if files.last_fault.replace(error.into()).is_none() {
        tracing::error!(directory = %disk.path.display(), %error, "the disk fails; appends are refused until it works again");
    }
    let pause = FIRST_PAUSE * 2_u32.saturating_pow((files.failures - 1).min(16));
    let awaits_retry = std::mem::replace(&mut files.awaits_retry, true);
    drop(files);
    log.fail(Unavailable::from(error), removals);
    if !awaits_retry {
        shared.retry(Instant::now() + pause.min(LONGEST_PAUSE), Arc::downgrade(log));
    }
}

fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// From the start of one round to that of the next, where no sync does it and more than one partition is written to: rounds
/// that follow each other at once are small, and each one wakes everybody.
const ROUND_SPACING: Duration = Duration::from_micros(500);

/// Partitions that are written together; each may open a file or two.
const GROUP: usize = 128;

/// Between rounds no more files than this stay open, of the 1,024 that a process usually may have.
const MAXIMUM_OPEN_FILES: usize = 256;

/// After the first failure of a partition; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// A disk that works again is noticed after this time at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
