//! Files and folders that are still there, and whole, after a power cut.
//!
//! What is new is written under another name, synced, and only then given its name, in a folder that is synced as well: so
//! a checkpoint file is never empty. A slot that is written in place is synced soon after, in the background: a power cut
//! takes checkpoints back by [`SYNC_AFTER`] or so, and after it events come twice. None is damaged by it, since a slot never
//! crosses a sector and the other one is left alone.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::file_error;
use crate::checkpoint::StoreError;

/// A file that is written in place, and whether it was since it was last synced.
#[derive(Debug)]
pub(super) struct SyncedFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
    is_dirty: AtomicBool,
}

/// When a new file is forced to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sync {
    /// Before it has its name.
    Now,
    /// When the system gets to it.
    Later,
}

/// Files that are to be synced.
#[derive(Clone, Debug, Default)]
pub(super) struct Syncer {
    dirty: Arc<Mutex<Vec<Arc<SyncedFile>>>>,
}

impl SyncedFile {
    pub(super) const fn new(path: PathBuf, file: File) -> Self {
        Self { path, file, is_dirty: AtomicBool::new(false) }
    }

    fn sync(&self) {
        self.is_dirty.store(false, Ordering::SeqCst);
        if let Err(error) = self.file.sync_data() {
            tracing::warn!(
                file = %self.path.display(), %error,
                "a checkpoint can't be synced: after a power cut, more events may be duplicated"
            );
        }
    }
}

impl Syncer {
    /// Syncs a file that was just written, some time later.
    pub(super) fn sync_soon(&self, file: &Arc<SyncedFile>) {
        if file.is_dirty.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        dirty.push(Arc::clone(file));
        if dirty.len() > 1 {
            return;
        }
        let syncer = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(SYNC_AFTER).await;
            // Nothing waits for it, and one that panics has said so.
            let _ = tokio::task::spawn_blocking(move || syncer.sync_now()).await;
        });
    }

    /// Syncs all files that were written since they were last synced.
    pub(super) fn sync_now(&self) {
        let dirty = std::mem::take(&mut *self.dirty.lock().unwrap_or_else(PoisonError::into_inner));
        dirty.iter().for_each(|file| file.sync());
    }
}

/// Makes a folder, and those above it, for this user alone. The folders that they are in are synced.
pub(super) fn make_folder(folder: &Path) -> Result<(), StoreError> {
    let missing: Vec<&Path> =
        folder.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()).collect();
    for folder in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => {}
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            Err(source) => return Err(file_error("create", folder, source)),
        }
        if let Some(parent) = folder.parent() {
            sync_folder(parent)?;
        }
    }
    Ok(())
}

/// Lets the names in a folder outlive a power cut.
pub(super) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    File::open(folder)
        .and_then(|opened| opened.sync_all())
        .map_err(|source| file_error("sync", folder, source))
}

/// Makes a file for this user alone, with this content.
pub(super) fn write_new(path: &Path, content: &[u8], sync: Sync) -> Result<(), StoreError> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(content)?;
        match sync {
            Sync::Now => file.sync_all(),
            Sync::Later => Ok(()),
        }
    };
    write().map_err(|source| file_error("write", path, source))
}

/// How long after a writing its file is synced. Later writings share the sync.
pub(super) const SYNC_AFTER: Duration = Duration::from_secs(1);
