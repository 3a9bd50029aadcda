//! Locks against a second relay that would carry the same events again.
//!
//! ```text
//!   <consumer group>/LOCK       one process alone; or, shared, any number that have split the partitions up
//!   <consumer group>/LOCK.<p>   the process that has partition p of such a split
//! ```
//!
//! Each holds the id of the process that locked it last. A lock ends with its process, whatever happens to that.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::PoisonError;

use super::{FileCheckpointStore, Folder, durability, file_error};
use crate::checkpoint::{ConsumerGroup, StoreError};
use crate::event::PartitionId;

/// What a process does with the checkpoints of a consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage<'a> {
    /// It writes all of them, and no other process does.
    Alone,
    /// It writes those of these partitions, and no other process does.
    Partitions(&'a [PartitionId]),
    /// It shares them with others by ownership.
    Shared,
}

/// A file that is locked as long as this is there.
#[derive(Debug)]
pub(super) struct Lock(pub(super) File);

impl Drop for Lock {
    /// Closing the file is not enough: a child process has a copy of it from its fork until it runs its own program, and the
    /// lock would stay that long.
    fn drop(&mut self) {
        // What cannot be unlocked is unlocked by the end of the process.
        let _ = self.0.unlock();
    }
}

impl FileCheckpointStore {
    /// Keeps other processes from using the checkpoints of a consumer group in a way that does not go together with this
    /// one, for as long as the store is open.
    ///
    /// # Errors
    /// [`StoreError::InUse`] when another process is there already, and what can go wrong with files.
    pub fn lock(&self, group: &ConsumerGroup, usage: Usage<'_>) -> Result<(), StoreError> {
        self.folder.lock(group, usage)
    }
}

impl Folder {
    fn lock(&self, group: &ConsumerGroup, usage: Usage<'_>) -> Result<(), StoreError> {
        let folder = self.group_folder(group);
        durability::make_folder(&folder)?;
        let whole = match usage {
            Usage::Alone => File::try_lock,
            Usage::Partitions(_) | Usage::Shared => File::try_lock_shared,
        };
        let mut taken = vec![take(group, folder.join(LOCK), whole)?];
        if let Usage::Partitions(partitions) = usage {
            for partition in partitions {
                let path = folder.join(format!("{LOCK}.{partition}"));
                taken.push(take(group, path, File::try_lock)?);
            }
        }
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.append(&mut taken);
        Ok(())
    }
}

/// Locks a file, which is made if it is not there, and puts the id of this process into it.
fn take(
    group: &ConsumerGroup,
    path: PathBuf,
    try_lock: fn(&File) -> Result<(), TryLockError>,
) -> Result<Lock, StoreError> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|source| file_error("open", &path, source))?;
    match try_lock(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(StoreError::InUse { group: group.clone(), process: holder(&mut file), path });
        }
        Err(TryLockError::Error(source)) => return Err(file_error("lock", &path, source)),
    }
    note_process(&mut file).map_err(|source| file_error("write", &path, source))?;
    Ok(Lock(file))
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn note_process(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}

const LOCK: &str = "LOCK";
