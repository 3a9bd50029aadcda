//! The files of one partition that are being written: how far each has got, and what happens to them next.
//!
//! ```text
//!  0             synced            written          published
//!  ├───────────────┼──────────────────┼─────────────────┤
//!  │ on the device │ with the system  │ in memory only  │
//! ```
//!
//! After an operation failed, nobody knows what the system still has of the bytes since the last sync: it may have
//! thrown them away and call the next sync a success. Hence all of them are written again, from memory, with the page
//! and the batch in which they begin; segments stay in memory until they are synced.

use super::committer::OpenFiles;
use super::directory::{Presence, segment_path, sidecar_path};
use super::fault::Unavailable;
use super::files::{Access, DiskFile, DiskFiles};
use super::partition::Work;
use super::recover::write_sidecar;
use super::sealing::{Stage, batch_at};
use super::sidecar::Sidecar;
use crate::segment::Storage;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The segments of a log that are not finished, and the state of its directory.
pub(crate) struct SegmentFiles {
    /// Oldest first.
    files: VecDeque<SegmentFile>,
    directory: Directory,
    /// Whether the policy ever syncs.
    syncs: bool,
    /// How often entries were made that the device did not know.
    entries_made: u64,
    /// How many of those it knows.
    entries_synced: u64,
    /// Attempts that failed since the last that did not.
    pub(super) failures: u32,
    /// What the last attempt met, if it failed.
    pub(super) last_fault: Option<Unavailable>,
    /// It stands in the list of what is to be tried again.
    pub(super) awaits_retry: bool,
    /// It stands in the list of what is to be synced when the interval is over.
    pub(super) awaits_sync: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Directory {
    Absent,
    /// It was made, and its parent may not know it.
    New,
    Present,
}

struct SegmentFile {
    ordinal: u64,
    sidecar: Sidecar,
    sealed: bool,
    /// The end of a batch, unless writing begins again `in_doubt`.
    written: u64,
    synced: u64,
    /// What was written is not believed; `written` may be within a batch.
    in_doubt: bool,
    open: Option<OpenFile>,
}

/// An open file, counted.
struct OpenFile {
    file: Arc<dyn DiskFile>,
    _count: OpenFiles,
}

/// A file to be synced, up to what it had when this was made.
pub(super) struct SyncJob {
    ordinal: u64,
    written: u64,
    file: Arc<dyn DiskFile>,
}

impl SegmentFiles {
    pub(super) fn new(presence: Presence, syncs: bool) -> Self {
        Self {
            files: VecDeque::new(),
            directory: match presence {
                Presence::Absent => Directory::Absent,
                Presence::Present => Directory::Present,
            },
            syncs,
            entries_made: 0,
            entries_synced: 0,
            failures: 0,
            last_fault: None,
            awaits_retry: false,
            awaits_sync: false,
        }
    }

    /// Writes what is new in `work`, and says how many bytes that was.
    pub(super) fn write(
        &mut self,
        disk: &dyn DiskFiles,
        path: &Path,
        open_files: &OpenFiles,
        work: &Work,
        stage: &mut Stage,
    ) -> io::Result<u64> {
        let mut count = 0;
        for piece in &work.pieces {
            let place = match self.files.iter().position(|file| file.ordinal == piece.ordinal) {
                Some(place) => place,
                None => {
                    self.files.push_back(SegmentFile {
                        ordinal: piece.ordinal,
                        sidecar: piece.sidecar.clone(),
                        sealed: false,
                        written: 0,
                        synced: 0,
                        in_doubt: false,
                        open: None,
                    });
                    self.files.len() - 1
                }
            };
            if self.files[place].written < piece.sidecar.length {
                let file = self.open(disk, path, open_files, place)?;
                let state = &mut self.files[place];
                let start = match state.in_doubt {
                    true => batch_at(&piece.bytes, state.written),
                    false => state.written,
                };
                let new = &piece.bytes[start as usize..];
                stage.write(&*file, new, start)?;
                state.written = piece.sidecar.length;
                state.in_doubt = false;
                count += new.len() as u64;
            }
            let file = &mut self.files[place];
            file.sidecar = piece.sidecar.clone();
            file.sealed = piece.sealed;
        }
        Ok(count)
    }

    /// Everything since the last sync is in doubt, and so are the open files.
    pub(super) fn doubt(&mut self) {
        for file in &mut self.files {
            file.written = file.written.min(file.synced / PAGE * PAGE);
            file.in_doubt = true;
            file.open = None;
        }
        self.entries_made += 1;
    }

    /// The files that have something to sync.
    pub(super) fn sync_jobs(
        &mut self,
        disk: &dyn DiskFiles,
        path: &Path,
        open_files: &OpenFiles,
    ) -> io::Result<Vec<SyncJob>> {
        let mut jobs = Vec::new();
        for place in 0..self.files.len() {
            if self.files[place].synced < self.files[place].written {
                let file = self.open(disk, path, open_files, place)?;
                jobs.push(SyncJob {
                    ordinal: self.files[place].ordinal,
                    written: self.files[place].written,
                    file,
                });
            }
        }
        Ok(jobs)
    }

    /// A job was done.
    pub(super) fn synced(&mut self, job: &SyncJob) {
        if let Some(file) = self.files.iter_mut().find(|file| file.ordinal == job.ordinal) {
            file.synced = file.synced.max(job.written);
            file.written = file.written.max(file.synced);
        }
    }

    /// Syncs the directory, if files were made in it.
    pub(super) fn sync_entries(&mut self, disk: &dyn DiskFiles, path: &Path) -> io::Result<()> {
        if self.directory == Directory::New {
            if let Some(parent) = path.parent() {
                disk.sync_directory(parent)?;
            }
            self.directory = Directory::Present;
        }
        if self.entries_synced < self.entries_made && self.directory == Directory::Present {
            disk.sync_directory(path)?;
            self.entries_synced = self.entries_made;
        }
        Ok(())
    }

    /// What a sync of the file system that begins now will have done: to be given to [`synced_entries`].
    ///
    /// [`synced_entries`]: Self::synced_entries
    pub(super) fn entries_made(&self) -> u64 {
        self.entries_made
    }

    /// The file system was synced since there were so many entries.
    pub(super) fn synced_entries(&mut self, made: u64) {
        self.entries_synced = self.entries_synced.max(made);
        if self.directory == Directory::New && made == self.entries_made {
            self.directory = Directory::Present;
        }
    }

    /// Takes the oldest file, if its segment is completely where `storage` says.
    pub(super) fn take_finished(&mut self, storage: Storage) -> Option<(u64, Sidecar)> {
        let oldest = self.files.front()?;
        let progress = match storage {
            Storage::Synced => oldest.synced,
            Storage::Written => oldest.written,
            Storage::Unfinished => return None,
        };
        let is_finished = oldest.sealed && progress == oldest.sidecar.length;
        let finished = is_finished.then(|| self.files.pop_front())??;
        Some((finished.ordinal, finished.sidecar))
    }

    /// Removes the files of dropped segments, oldest first; an empty one takes their place, if `marker` says so.
    pub(super) fn remove(
        &mut self,
        disk: &dyn DiskFiles,
        path: &Path,
        removals: &[u64],
        marker: Option<&Sidecar>,
    ) -> io::Result<()> {
        if let Some(marker) = marker {
            let number = marker.first_sequence_number;
            disk.open(&segment_path(path, number), Access::Write)?;
            write_sidecar(disk, path, marker)?;
            disk.sync_directory(path)?;
        }
        for &number in removals {
            // The sidecar first: a segment without one is scanned, a sidecar without a segment proves that it was lost.
            remove_if_there(disk, &sidecar_path(path, number))?;
            remove_if_there(disk, &segment_path(path, number))?;
        }
        Ok(())
    }

    /// Closes all files; they are opened again when they are needed.
    pub(super) fn close_files(&mut self) {
        self.files.iter_mut().for_each(|file| file.open = None);
    }

    fn open(
        &mut self,
        disk: &dyn DiskFiles,
        path: &Path,
        open_files: &OpenFiles,
        place: usize,
    ) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(open) = &self.files[place].open {
            return Ok(Arc::clone(&open.file));
        }
        if self.directory == Directory::Absent {
            disk.create_directory(path)?;
            self.directory = Directory::New;
            self.entries_made += 1;
        }
        let is_new = self.files[place].written == 0;
        if is_new && self.syncs && self.entries_synced < self.entries_made {
            // No crash may leave the later one of two new segments and not the earlier one.
            self.sync_entries(disk, path)?;
        }
        let number = self.files[place].sidecar.first_sequence_number;
        let file = disk.open(&segment_path(path, number), Access::Write)?;
        self.entries_made += u64::from(is_new);
        self.files[place].open = Some(OpenFile { file: Arc::clone(&file), _count: open_files.clone() });
        Ok(file)
    }
}

impl SyncJob {
    pub(super) fn run(&self) -> io::Result<()> {
        self.file.sync()
    }
}

fn remove_if_there(disk: &dyn DiskFiles, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// At least as large as what any system writes back as one.
const PAGE: u64 = 64 * 1024;
