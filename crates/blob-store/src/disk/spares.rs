//! Empty files of one container, kept for reuse.
//!
//! File systems give a file another name much faster than they make or remove one. ext4 is the worst: to make a file it passes over every
//! inode that was removed in the last five seconds, so that replacing blobs gets slower the more of them are replaced. Files that are
//! written again were never removed.
//!
//! A spare file is empty and its name is that of a file that is being written, so that the next start removes it. Where each change is to
//! be safe at once there are none: what is written must not depend on the order in which the device gets it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use partition_log::durable_file::{NEW, ReplaceError, ReplaceStep, Safety};

use super::{Disk, PIECE};

/// The state of the target path of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// No file exists there.
    Free,
    /// A file may exist there.
    Taken,
}

/// The spare files of one container.
#[derive(Debug)]
pub(super) struct Spares {
    folder: PathBuf,
    pub(super) disk: Arc<Disk>,
    files: Mutex<Vec<PathBuf>>,
}

impl Spares {
    pub(super) fn new(folder: PathBuf, disk: Arc<Disk>) -> Arc<Self> {
        Arc::new(Self { folder, disk, files: Mutex::default() })
    }

    /// Writes a file under a temporary name and renames it to `path`, so that it is complete as soon as it has that name. An existing file
    /// is replaced.
    pub(super) fn write(&self, path: &Path, parts: &[&[u8]], place: Place) -> io::Result<()> {
        self.disk.set_unsynced();
        let files = &self.disk.files;
        let new = self.take();
        let written =
            files.write(&new, parts, self.disk.safety).map_err(ReplaceError::at(ReplaceStep::Write, &new));
        if written.is_ok() && place == Place::Taken && self.has_room() && files.exchange(&new, path).is_ok() {
            self.keep(new);
            return Ok(());
        }
        let renamed = written
            .and_then(|()| files.rename(&new, path).map_err(ReplaceError::at(ReplaceStep::Rename, &new)));
        if renamed.is_err() {
            // A full disk needs the space.
            let _ = files.remove(&new);
        }
        Ok(renamed?)
    }

    /// Removes a file atomically, and keeps it for reuse if it has no other name.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        if self.has_room() && self.disk.files.is_only_name(path) {
            let spare = self.unused_path();
            self.disk.files.rename(path, &spare)?;
            self.keep(spare);
            return Ok(());
        }
        self.disk.files.remove(path)
    }

    /// Returns the temporary path for a new file: that of a spare file, or a new one.
    fn take(&self) -> PathBuf {
        let spare = self.files.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| self.unused_path())
    }

    /// Truncates a file with a temporary name, and keeps it for reuse.
    fn keep(&self, path: PathBuf) {
        if self.has_room() && self.disk.files.empty(&path).is_ok() {
            self.files.lock().unwrap_or_else(PoisonError::into_inner).push(path);
        } else {
            // What stays goes at the next start.
            let _ = self.disk.files.remove(&path);
        }
    }

    fn has_room(&self) -> bool {
        self.disk.safety == Safety::Later
            && self.files.lock().unwrap_or_else(PoisonError::into_inner).len() < AT_MOST
    }

    fn unused_path(&self) -> PathBuf {
        self.folder.join(format!("{}{PIECE}{NEW}", self.disk.next_number()))
    }
}

/// Maximum number of spare files per container.
const AT_MOST: usize = 64;
