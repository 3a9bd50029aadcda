//! The durable side of a partition log: what the committer takes from it and tells it, and what is read back.
//!
//! Lock order: the partition's files, then the log's state, then the committer's lists. No lock of a log is held during a
//! file operation.

use super::commits::CommitNumber;
use super::committer::Committer;
use super::directory::{Damage, DamageCause, OpenError, PartitionDirectory, Presence, segment_path};
use super::fault::Unavailable;
use super::files::{Access, DiskFile, read_fully};
use super::recover::{Sync, describe, read_segment, recover};
use super::report::RecoveryReport;
use super::salvage::Break;
use super::segment_files::SegmentFiles;
use super::sidecar::{Assurance, Sidecar};
use super::start::{read_start, write_start};
use crate::UnixTime;
use crate::block::{BlockSlice, BlockWriter};
use crate::durable_file::ReplaceError;
use crate::knowledge::Knowledge;
use crate::partition_log::{LogEnd, PartitionLog};
use crate::position::Isolation;
use crate::segment::{Defect, LoadedSegment, Segment, SegmentIndex, Storage};
use crate::state::State;
use crate::subscription::News;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The files of one durable log. Apart from its state, since file operations take their time.
pub(crate) struct PartitionDisk {
    pub(super) path: PathBuf,
    pub(super) committer: Arc<Committer>,
    files: Mutex<SegmentFiles>,
}

/// What the state of a durable log has in addition: its way to the committer.
pub(crate) struct Durable {
    committer: Arc<Committer>,
    log: Weak<PartitionLog>,
    /// The end of what is committed, whatever transactions are open; nothing behind it is seen.
    pub(crate) committed: LogEnd,
    /// The number under which the log stands in the committer's list; done, if it does not.
    pending: CommitNumber,
    /// Why nothing may be appended.
    pub(crate) unavailable: Option<Unavailable>,
    /// Segments that were dropped and whose files are still there.
    pub(crate) removals: Vec<u64>,
    /// The directory belongs to somebody else now: nothing more is written.
    retired: bool,
}

/// What is to be brought onto the disk, as it stood at one moment.
pub(super) struct Work {
    /// All segments that are not finished, oldest first.
    pub(super) pieces: Vec<Piece>,
    /// Segments whose files are to go.
    pub(super) removals: Vec<u64>,
    /// If no segment is left: what an empty one must tell the next start.
    pub(super) marker: Option<Sidecar>,
}

/// One segment's batches.
pub(super) struct Piece {
    pub(super) ordinal: u64,
    pub(super) bytes: BlockSlice,
    /// What its sidecar would say now.
    pub(super) sidecar: Sidecar,
    /// Nothing will be added.
    pub(super) sealed: bool,
}

impl PartitionDirectory {
    /// The state that a log begins with.
    pub(crate) fn recover(&self) -> Result<(State, RecoveryReport), OpenError> {
        if self.presence == Presence::Absent {
            return Ok((State::new(0, None), RecoveryReport::default()));
        }
        let sync = || self.committer.sync_what_was_left(&self.path);
        let sync: Option<Sync<'_>> = match self.committer.syncs() {
            true => Some(&sync),
            false => None,
        };
        let (recovered, report) = recover(self.committer.files(), &self.path, sync)?;
        for (path, damage) in &report.damaged {
            tracing::error!(segment = %path.display(), %damage, "a segment is damaged; its events can't be read");
        }
        let mut state = State::new(recovered.next_sequence_number, recovered.last_append_time);
        state.producers = recovered.producers.map(Box::new);
        state.transactions = recovered.transactions.map(Box::new);
        for segment in recovered.segments {
            let sidecar = segment.sidecar;
            let storage = match segment.is_synced {
                true => Storage::Synced,
                false => Storage::Written,
            };
            state.bytes += sidecar.length;
            let mut on_disk = Segment::on_disk(&sidecar, storage, segment.defect);
            // The sidecar of a segment that is only written is written again when it is synced.
            if storage == Storage::Written {
                on_disk.known = sidecar.known;
            }
            state.segments.push_back(on_disk);
        }
        state.may_be_mixed = !state.segments.is_empty();
        state.deleted_before = self.deleted_before(state.next_sequence_number)?;
        Ok((state, report))
    }
}

impl PartitionDirectory {
    /// The number before which records were deleted, of a log that ends before `end`.
    fn deleted_before(&self, end: u64) -> Result<u64, OpenError> {
        match read_start(&self.path) {
            Ok(Some(start)) if start > end => {
                // The end of the log was lost. Its numbers are given again, to records that nobody has deleted.
                let io = |error: ReplaceError| OpenError::Io { path: error.path, error: error.source };
                write_start(&self.path, end).map_err(io)?;
                Ok(end)
            }
            Ok(start) => Ok(start.unwrap_or(0)),
            Err(error) => {
                tracing::error!(
                    directory = %self.path.display(), %error,
                    "it is not known where the partition starts; deleted events may be seen again"
                );
                Ok(0)
            }
        }
    }
}

impl PartitionDisk {
    pub(crate) fn new(directory: PartitionDirectory) -> Self {
        let files = SegmentFiles::new(directory.presence, directory.committer.syncs());
        Self { path: directory.path, committer: directory.committer, files: Mutex::new(files) }
    }

    /// The log's directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, SegmentFiles> {
        // What the files' progress says is set after the operation that it stands for.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Durable {
    pub(super) fn new(committer: Arc<Committer>, log: Weak<PartitionLog>, committed: LogEnd) -> Self {
        Self {
            committer,
            log,
            committed,
            pending: CommitNumber::DONE,
            unavailable: None,
            removals: Vec::new(),
            retired: false,
        }
    }

    /// Sees to it that the committer comes by, and gives the number under which it will have.
    #[inline]
    pub(crate) fn enqueue(&mut self) -> CommitNumber {
        if self.pending.is_done() {
            self.pending = self.committer.enqueue(self.log.clone());
        }
        self.pending
    }
}

impl State {
    fn is_retired(&self) -> bool {
        self.durable.as_ref().is_none_or(|durable| durable.retired)
    }

    /// Has the segment at `index` loaded, if it is on disk and nobody has asked for it yet.
    pub(crate) fn request_load(&mut self, index: usize) {
        let ordinal = self.dropped_segments + index as u64;
        if let Some(durable) = &self.durable
            && let Some(segment) = self.segments.get_mut(index)
            && segment.can_be_loaded()
        {
            segment.start_loading();
            durable.committer.load(durable.log.clone(), ordinal);
        }
    }

    /// Lets the next reader try again, if it was the reading that failed.
    pub(crate) fn forget_failed_reading(&mut self, index: usize, damage: &Damage) {
        if matches!(damage.cause, DamageCause::Read(_))
            && let Some(segment) = self.segments.get_mut(index)
        {
            segment.forget_damage();
        }
    }

    /// Ends the segment that is being written, so that it can be finished.
    pub(crate) fn seal_last(&mut self) {
        if let Some(last) = self.segments.back()
            && !last.sealed
            && last.length() > 0
        {
            self.seal();
            if let Some(durable) = &mut self.durable {
                durable.enqueue();
            }
        }
    }
}

/// For the committer's threads.
impl Drop for PartitionLog {
    fn drop(&mut self) {
        if let Some(disk) = &self.disk {
            disk.committer.note_end_of(self);
        }
    }
}

impl PartitionLog {
    /// Ends all writing for this log, whose directory is to be removed: appends are refused, and senders who still wait get
    /// a failure. A file operation under way may still end after this returns, so rename the directory before removing
    /// it. A log in memory gives up what it holds, whoever still holds the log.
    pub fn retire(&self) {
        let mut state = self.lock();
        if let Some(durable) = &mut state.durable {
            durable.unavailable = Some(Unavailable::Closed);
            durable.retired = true;
            return;
        }
        let dropped: Vec<_> = std::iter::from_fn(|| state.drop_oldest(u64::MAX)).collect();
        // Their memory goes back to where it came from, outside of the lock.
        drop(state);
        drop(dropped);
    }

    /// Whether something was appended that the committer has not taken yet, or could not write.
    pub(super) fn awaits_writing(&self) -> bool {
        let Some(disk) = &self.disk else {
            return false;
        };
        if disk.lock().last_fault.is_some() {
            return true;
        }
        let state = self.lock();
        state.durable.as_ref().is_some_and(|durable| !durable.retired && !durable.pending.is_done())
    }

    /// What is to be written now. Appends that come after this make the log enter the committer's list again. `None`
    /// if the log is retired.
    pub(super) fn collect(&self) -> Option<Work> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let durable = state.durable.as_mut()?;
        durable.pending = CommitNumber::DONE;
        if durable.retired {
            return None;
        }
        let removals = std::mem::take(&mut durable.removals);
        let mut pieces = Vec::new();
        let mut next_sequence_number = state.next_sequence_number;
        for (index, segment) in state.segments.iter().enumerate().rev() {
            if segment.storage != Storage::Unfinished {
                break;
            }
            if segment.length() > 0
                && let Some(bytes) = segment.batches()
            {
                pieces.push(Piece {
                    ordinal: state.dropped_segments + index as u64,
                    sidecar: Sidecar { length: bytes.len() as u64, ..segment.sidecar(next_sequence_number) },
                    bytes,
                    sealed: segment.sealed,
                });
            }
            next_sequence_number = segment.first_sequence_number;
        }
        pieces.reverse();
        let is_empty = state.segments.iter().all(|segment| segment.length() == 0);
        let last_append_time = state.last_append_time.unwrap_or_default();
        let marker = (is_empty && !removals.is_empty()).then(|| Sidecar {
            length: 0,
            first_sequence_number: state.next_sequence_number,
            next_sequence_number: state.next_sequence_number,
            first_append_time: last_append_time,
            last_append_time,
            latest_timestamp: last_append_time,
            assurance: Assurance::Synced,
            known: state.knowledge(state.next_sequence_number),
        });
        Some(Work { pieces, removals, marker })
    }

    /// What `pieces` hold is committed: readers may see it and are woken.
    pub(super) fn publish(&self, pieces: &[Piece]) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let stable_end = state.readable_before(Isolation::Committed);
        for piece in pieces {
            if let Some(segment) = state.segment(piece.ordinal) {
                segment.readable = Some(piece.bytes.len());
            }
        }
        if let Some(durable) = &mut state.durable {
            if let Some(last) = pieces.last() {
                let Sidecar { next_sequence_number, last_append_time, .. } = last.sidecar;
                durable.committed = LogEnd::decided(next_sequence_number, Some(last_append_time));
            }
            if durable.unavailable != Some(Unavailable::Closed) {
                durable.unavailable = None;
            }
        }
        state.settle_transactions();
        let wakers = state.subscriptions.take_wakers(state.news_since(stable_end));
        drop(guard);
        if let Some(wakers) = wakers {
            wakers.wake();
        }
    }

    /// Refuses appends until a later attempt to write succeeds. `removals` are still to be done.
    pub(super) fn fail(&self, reason: Unavailable, removals: Vec<u64>) {
        if let Some(durable) = &mut self.lock().durable {
            durable.unavailable.get_or_insert(reason);
        }
        self.postpone(removals);
    }

    /// Files that could not be removed are removed with the next ones, and before them: if the process ends in between, no
    /// gap must be left.
    pub(super) fn postpone(&self, removals: Vec<u64>) {
        if let Some(durable) = &mut self.lock().durable {
            durable.removals.splice(0..0, removals);
        }
    }

    /// A segment is completely on disk and may leave memory.
    pub(super) fn finish_segment(&self, ordinal: u64, storage: Storage) {
        let mut state = self.lock();
        let State { durable: Some(durable), .. } = &*state else {
            return;
        };
        let (log, residency) = (durable.log.clone(), durable.committer.residency());
        if let Some(segment) = state.segment(ordinal) {
            segment.storage = storage;
            if storage == Storage::Synced {
                segment.known = Knowledge::default();
            }
            let share = residency.admit(log, ordinal, segment.capacity() as u64);
            segment.set_share(share);
        }
    }

    /// Refuses appends from now on, and ends the segment that is being written.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.seal_last();
        if let Some(durable) = &mut state.durable {
            durable.unavailable = Some(Unavailable::Closed);
        }
    }

    /// Whether nothing is written for it any longer.
    pub(super) fn is_retired(&self) -> bool {
        self.lock().is_retired()
    }

    /// Whether something is in memory only, or not completely on disk.
    pub(super) fn is_unfinished(&self) -> bool {
        let state = self.lock();
        !state.is_retired()
            && state
                .segments
                .iter()
                .any(|segment| segment.storage == Storage::Unfinished && segment.length() > 0)
    }

    /// The numbers of segments that were written and never synced.
    pub(super) fn written_segments(&self) -> Vec<(u64, Sidecar)> {
        let state = self.lock();
        let written = |(index, segment): (usize, &Segment)| {
            (segment.storage == Storage::Written).then(|| {
                let sidecar = segment.sidecar(state.next_number_after(index));
                (state.dropped_segments + index as u64, sidecar)
            })
        };
        state.segments.iter().enumerate().filter_map(written).collect()
    }

    /// A written segment was synced.
    pub(super) fn mark_synced(&self, ordinal: u64) {
        if let Some(segment) = self.lock().segment(ordinal) {
            segment.storage = Storage::Synced;
            segment.known = Knowledge::default();
        }
    }

    /// Drops the memory of a segment that is on disk as well.
    pub(super) fn evict(&self, ordinal: u64) {
        let evicted = self.lock().segment(ordinal).and_then(Segment::evict);
        // Outside of the lock: giving memory back can take long.
        drop(evicted);
    }

    /// Reads a segment back from its file, checks all of it, and wakes who waits for it.
    pub(super) fn load(&self, ordinal: u64) {
        let Some((disk, loading)) = self.loading(ordinal) else {
            return;
        };
        let loaded = self.read_segment(disk, &loading);
        let damage = match &loaded {
            Ok(read) if read.defect == loading.known => None,
            Ok(read) => read.defect.map(|defect| defect.damage),
            Err(damage) => Some(*damage),
        };
        if let Some(damage) = damage {
            disk.committer.report_damage(&disk.path, &damage);
        }
        let mut guard = self.lock();
        let state = &mut *guard;
        let log = state.durable.as_ref().map(|durable| durable.log.clone());
        let (Some(log), Some(segment)) = (log, state.segment(ordinal)) else {
            return;
        };
        segment.finish_loading(loaded.map(|read| LoadedSegment {
            share: disk.committer.residency().admit(
                log,
                ordinal,
                (read.writer.published_length() + read.writer.remaining()) as u64,
            ),
            writer: read.writer,
            index: read.index,
            latest_timestamp: read.latest_timestamp,
            defect: read.defect,
        }));
        let wakers = state.subscriptions.take_wakers(News::ForAll);
        drop(guard);
        if let Some(wakers) = wakers {
            wakers.wake();
        }
    }

    /// The bytes of the damaged segment that a number belongs to, where its damage begins, and the number after its last
    /// record. `None` if it is not known to be damaged.
    pub(crate) fn damaged_segment(
        &self,
        sequence_number: u64,
    ) -> Result<Option<(Vec<u8>, Break, u64)>, OpenError> {
        let state = self.lock();
        let following =
            state.segments.partition_point(|segment| segment.first_sequence_number <= sequence_number);
        let index = following.saturating_sub(1);
        let (Some(segment), Some(disk)) = (state.segments.get(index), &self.disk) else {
            return Ok(None);
        };
        let Some(defect) = segment.defect() else {
            return Ok(None);
        };
        let from = Break { position: defect.sound_length, expected: defect.sound_until };
        let end = state.next_number_after(index);
        let path = segment_path(&disk.path, segment.first_sequence_number);
        drop(state);
        let (bytes, _) = read_segment(disk.committer.files(), &path).map_err(OpenError::io(&path))?;
        Ok(Some((bytes, from, end)))
    }

    fn loading(&self, ordinal: u64) -> Option<(&PartitionDisk, Loading)> {
        let mut state = self.lock();
        let index = usize::try_from(ordinal.checked_sub(state.dropped_segments)?).ok()?;
        let next = state.next_number_after(index);
        let segment = state.segment(ordinal)?;
        let loading = Loading {
            first: segment.first_sequence_number,
            next: segment.defect().map_or(next, |defect| defect.sound_until),
            length: segment.sound_length(),
            known: segment.defect().copied(),
        };
        Some((self.disk.as_ref()?, loading))
    }

    /// The batches of a segment file, those before the damage if there is one. The error is that nothing can be read.
    fn read_segment(&self, disk: &PartitionDisk, loading: &Loading) -> Result<ReadSegment, Damage> {
        let Loading { first, next, .. } = *loading;
        let damage = |position, cause| Damage { segment: first, position, cause };
        let unreadable = |error: io::Error| damage(0, DamageCause::Read(error.kind()));
        let path = segment_path(&disk.path, first);
        let file = disk.committer.files().open(&path, Access::Read).map_err(unreadable)?;
        let mut writer = self.pool.take(loading.length.next_power_of_two());
        fill(&*file, &mut writer, loading.length).map_err(unreadable)?;
        writer.publish();
        let batches = writer.published();
        let (sound, torn) = describe(batches, first, loading.length as u64);
        let sound_length = sound.length as usize;
        let cause = match torn {
            _ if batches.len() < loading.length => Some(DamageCause::Length),
            Some(torn) => Some(DamageCause::Batch(torn)),
            None if sound.next_sequence_number != next => Some(DamageCause::Length),
            None => None,
        };
        let found = cause.map(|cause| Defect {
            damage: match cause {
                DamageCause::Length => damage(batches.len() as u64, cause),
                _ => damage(sound.length, cause),
            },
            sound_length,
            sound_until: sound.next_sequence_number.min(next),
        });
        let defect = found.or(loading.known);
        let index = SegmentIndex::of(&batches[..sound_length]);
        Ok(ReadSegment { writer, index, latest_timestamp: sound.latest_timestamp, defect })
    }
}

/// The part of a segment that is to be read back: all of it, or what is before the damage.
struct Loading {
    first: u64,
    /// The number after its last record.
    next: u64,
    length: usize,
    /// The damage, which was reported already.
    known: Option<Defect>,
}

/// What was read of a segment file.
struct ReadSegment {
    /// All of it, published.
    writer: BlockWriter,
    /// Of the sound batches.
    index: SegmentIndex,
    /// Greatest timestamp of the sound records.
    latest_timestamp: UnixTime,
    defect: Option<Defect>,
}

/// Reads up to `length` bytes from the beginning of a file.
fn fill(file: &dyn DiskFile, writer: &mut BlockWriter, length: usize) -> io::Result<()> {
    let mut buffer = vec![0; length.min(READ_LENGTH)];
    let mut position = 0;
    while position < length {
        let wanted = buffer.len().min(length - position);
        let count = read_fully(file, &mut buffer[..wanted], position as u64)?;
        if count == 0 {
            break;
        }
        writer.write(&buffer[..count]);
        position += count;
    }
    Ok(())
}

/// Small enough to stay in the cache between reading and copying.
const READ_LENGTH: usize = 256 * 1024;
