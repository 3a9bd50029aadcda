//! Real files with faults in between, and with a power cut.

use partition_log::disk::sidecar::BootId;
use partition_log::disk::{Access, DiskFile, DiskFiles, FileSystem, SystemFiles};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Files of the system, with faults that can be switched on and off. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultyFiles(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// How many more bytes fit on the disk; no bound, if `None`.
    pub(crate) space: Option<u64>,
    pub(crate) read_only: bool,
    pub(crate) reads_fail: bool,
    pub(crate) removals_fail: bool,
    /// Every sync fails, and the system forgets what it had not written back: it reads as zeros afterwards.
    pub(crate) syncs_lose: bool,
    /// Syncs wait until this is opened again.
    pub(crate) gate_closed: bool,
    /// Syncs that wait at the gate.
    pub(crate) waiting_syncs: usize,
    /// No write takes more bytes than this.
    pub(crate) largest_write: Option<usize>,
    /// Operations on paths.
    pub(crate) operations: u64,
    pub(crate) syncs: u64,
    /// Syncing the file system fails, and says nothing of any file.
    pub(crate) file_system_fails: bool,
    /// Syncs of the file system.
    pub(crate) file_system_syncs: u64,
    /// How much of each file a power cut leaves.
    synced_lengths: HashMap<PathBuf, u64>,
    /// Files that a power cut may take altogether, in the order in which they were made.
    unsynced_entries: Vec<PathBuf>,
    /// A power cut that takes a file takes those that were made later as well, as journaling file systems do.
    pub(crate) keeps_order: bool,
    power_cuts: u8,
}

#[derive(Debug)]
struct FaultyFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    faults: FaultyFiles,
}

impl FaultyFiles {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    pub(crate) fn open_gate(&self) {
        self.state().gate_closed = false;
        self.0.changed.notify_all();
    }

    /// Waits until a sync stands before the closed gate.
    pub(crate) fn wait_for_sync(&self) {
        let mut state = self.state();
        while state.waiting_syncs == 0 {
            state = self.0.changed.wait(state).unwrap();
        }
    }

    /// Takes what no sync has made safe: each file keeps what was synced and as much of the rest as `keep` says, out
    /// of how much there is.
    pub(crate) fn cut_power(&self, mut keep: impl FnMut(u64) -> u64) {
        let mut state = self.state();
        let mut paths: Vec<_> = state.synced_lengths.drain().collect();
        paths.sort();
        let entries = std::mem::take(&mut state.unsynced_entries);
        state.power_cuts += 1;
        let mut is_gone = false;
        for entry in &entries {
            is_gone = (is_gone && state.keeps_order) || keep(1) == 0;
            if is_gone && entry.exists() {
                fs::remove_file(entry).unwrap();
            }
        }
        for (path, synced) in paths {
            let Ok(length) = fs::metadata(&path).map(|metadata| metadata.len()) else {
                continue;
            };
            let kept = synced + keep(length.saturating_sub(synced));
            if kept < length {
                let file = fs::File::options().write(true).open(&path).unwrap();
                file.set_len(kept).unwrap();
            }
        }
    }

    fn pass_gate(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while state.gate_closed {
            state.waiting_syncs += 1;
            self.0.changed.notify_all();
            state = self.0.changed.wait(state).unwrap();
            state.waiting_syncs -= 1;
        }
        state
    }

    fn begin(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.operations += 1;
        state
    }

    fn begin_change(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.begin();
        match state.read_only {
            true => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            false => Ok(state),
        }
    }
}

impl DiskFiles for FaultyFiles {
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        drop(self.begin());
        SystemFiles.list(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        drop(self.begin_change()?);
        SystemFiles.create_directory(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.begin();
        state.unsynced_entries.retain(|path| path.parent() != Some(directory));
        Ok(())
    }

    fn sync_file_system(&self, _directory: &Path) -> io::Result<()> {
        let mut state = self.begin();
        state.unsynced_entries.clear();
        for (path, synced) in &mut state.synced_lengths {
            *synced = fs::metadata(path).map_or(0, |metadata| metadata.len());
        }
        Ok(())
    }

    fn file_system(&self, _directory: &Path) -> Option<Arc<dyn FileSystem>> {
        Some(Arc::new(self.clone()))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.begin();
        if access == Access::Write && !path.exists() {
            if state.read_only {
                return Err(io::ErrorKind::ReadOnlyFilesystem.into());
            }
            state.unsynced_entries.push(path.to_owned());
            state.synced_lengths.insert(path.to_owned(), 0);
        }
        drop(state);
        Ok(Arc::new(FaultyFile {
            file: SystemFiles.open(path, access)?,
            path: path.to_owned(),
            faults: self.clone(),
        }))
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        drop(self.begin());
        SystemFiles.length(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin_change()?;
        if state.removals_fail {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        state.synced_lengths.remove(path);
        state.unsynced_entries.retain(|entry| entry != path);
        drop(state);
        SystemFiles.remove(path)
    }

    fn boot_id(&self) -> Option<BootId> {
        BootId::from_bytes([self.state().power_cuts + 1; 16])
    }
}

impl FileSystem for FaultyFiles {
    fn sync(&self) -> io::Result<()> {
        let mut state = self.pass_gate();
        state.file_system_syncs += 1;
        if state.file_system_fails || state.syncs_lose {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        drop(state);
        self.sync_file_system(Path::new("/"))
    }
}

impl DiskFile for FaultyFile {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        match self.faults.state().reads_fail {
            true => Err(io::Error::from_raw_os_error(EIO)),
            false => self.file.read_at(bytes, position),
        }
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        let mut state = self.faults.begin_change()?;
        let mut length = bytes.len().min(state.largest_write.unwrap_or(usize::MAX));
        if let Some(space) = &mut state.space {
            length = length.min(*space as usize);
            *space -= length as u64;
        }
        drop(state);
        match length == 0 && !bytes.is_empty() {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.file.write_at(&bytes[..length], position),
        }
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        drop(self.faults.begin_change()?);
        self.file.truncate(length)
    }

    fn sync(&self) -> io::Result<()> {
        let length = fs::metadata(&self.path).map_or(0, |metadata| metadata.len());
        let mut state = self.faults.pass_gate();
        state.syncs += 1;
        if state.syncs_lose {
            let synced = state.synced_lengths.get(&self.path).copied().unwrap_or(0);
            let lost = vec![0; length.saturating_sub(synced) as usize];
            self.file.write_at(&lost, synced)?;
            return Err(io::Error::from_raw_os_error(EIO));
        }
        state.synced_lengths.insert(self.path.clone(), length);
        Ok(())
    }
}

const EIO: i32 = 5;
