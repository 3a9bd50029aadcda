//! Checkpoints and ownership in files.
//!
//! ```text
//!   <folder>/.lock                                                     held during a claim
//!   <folder>/<namespace>/<hub>/<consumer group>/checkpoint/<partition>  two slots of text, written in turn
//!   <folder>/<namespace>/<hub>/<consumer group>/ownership/<partition>   replaced as a whole
//! ```
//!
//! A process that is killed at any instant leaves each checkpoint at its newest or its newest but one writing (see
//! [`slots`]). What is not promised is that a writing survives the loss of power: nothing is forced to the disk, which
//! would cost a thousand times as much, and an older checkpoint means no more than events that come twice.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Checkpoint, CheckpointStore, ConsumerGroup, Ownership, StoreError, StoreFuture};
use crate::event::PartitionId;

mod names;
mod ownership;
mod slots;

/// A checkpoint store in a folder, to be shared by the processes of one machine. Its calls are made within a tokio
/// runtime.
#[derive(Clone, Debug)]
pub struct FileCheckpointStore {
    folder: Arc<Folder>,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Open checkpoint files. One is opened when its partition is first written and stays open.
    files: Mutex<HashMap<ConsumerGroup, HashMap<PartitionId, CheckpointFile>>>,
}

#[derive(Debug)]
struct CheckpointFile {
    path: PathBuf,
    file: File,
}

impl FileCheckpointStore {
    /// Opens the store in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// When the folder cannot be made or written to.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = folder.into();
        std::fs::create_dir_all(&path).map_err(|source| file_error("create", &path, source))?;
        let folder = Folder {
            path,
            files: Mutex::default(),
        };
        // The lock is needed later; to open it now tells a folder that cannot be written before any work is done.
        folder.open_lock()?;
        Ok(Self {
            folder: Arc::new(folder),
        })
    }

    /// Runs something that may wait for the disk or the lock where it keeps nobody from working.
    fn in_background<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<T> {
        let folder = Arc::clone(&self.folder);
        Box::pin(async move {
            tokio::task::spawn_blocking(move || work(&folder))
                .await
                .unwrap_or_else(|error| {
                    Err(StoreError::Unavailable {
                        reason: error.to_string(),
                    })
                })
        })
    }
}

impl CheckpointStore for FileCheckpointStore {
    fn list_checkpoints(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Checkpoint>> {
        let group = group.clone();
        self.in_background(move |folder| folder.list_checkpoints(&group))
    }

    /// Written before this returns: two system calls on a file that is open, far less than a task switch.
    fn update_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<()> {
        Box::pin(std::future::ready(
            self.folder.update_checkpoint(&checkpoint),
        ))
    }

    fn list_ownership(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Ownership>> {
        let group = group.clone();
        self.in_background(move |folder| folder.list_ownership(&group))
    }

    fn claim_ownership(&self, claims: Vec<Ownership>) -> StoreFuture<Vec<Ownership>> {
        self.in_background(move |folder| folder.claim_ownership(claims))
    }
}

impl Folder {
    fn list_checkpoints(&self, group: &ConsumerGroup) -> Result<Vec<Checkpoint>, StoreError> {
        let mut checkpoints = Vec::new();
        for (partition, path) in partition_files(&self.group_folder(group).join(CHECKPOINT_FOLDER))?
        {
            let bytes = std::fs::read(&path).map_err(|source| file_error("read", &path, source))?;
            if let Some(newest) =
                slots::newest(&bytes).map_err(|reason| StoreError::Damaged { path, reason })?
            {
                let slots::Slot {
                    sequence_number,
                    offset,
                    ..
                } = newest.slot;
                checkpoints.push(Checkpoint {
                    group: group.clone(),
                    partition,
                    sequence_number,
                    offset,
                });
            }
        }
        Ok(checkpoints)
    }

    fn update_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let mut groups = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let files = match groups.get_mut(&checkpoint.group) {
            Some(files) => files,
            None => groups.entry(checkpoint.group.clone()).or_default(),
        };
        let file = match files.entry(checkpoint.partition) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(self.open_checkpoint(&checkpoint.group, checkpoint.partition)?)
            }
        };
        file.write(checkpoint)
    }

    fn open_checkpoint(
        &self,
        group: &ConsumerGroup,
        partition: PartitionId,
    ) -> Result<CheckpointFile, StoreError> {
        let folder = self.group_folder(group).join(CHECKPOINT_FOLDER);
        std::fs::create_dir_all(&folder).map_err(|source| file_error("create", &folder, source))?;
        let path = folder.join(partition.to_string());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let file = file.map_err(|source| file_error("open", &path, source))?;
        Ok(CheckpointFile { path, file })
    }

    fn group_folder(&self, group: &ConsumerGroup) -> PathBuf {
        self.path
            .join(names::path_component(&group.namespace))
            .join(names::path_component(&group.hub))
            .join(names::path_component(&group.name))
    }
}

impl CheckpointFile {
    /// Writes the slot that does not hold the newest checkpoint. Both are read first, since another process may have
    /// had the partition in the meantime.
    fn write(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let mut bytes = [0; slots::FILE_LEN];
        let len = self
            .read(&mut bytes)
            .map_err(|source| file_error("read", &self.path, source))?;
        let newest = slots::newest(&bytes[..len]).map_err(|reason| StoreError::Damaged {
            path: self.path.clone(),
            reason,
        })?;
        let (position, generation) = slots::next(newest.as_ref());
        let slot = slots::encode(generation, checkpoint)?;
        self.file
            .write_all_at(&slot, position)
            .map_err(|source| file_error("write", &self.path, source))
    }

    fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        while len < bytes.len() {
            match self.file.read_at(&mut bytes[len..], len as u64) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(len)
    }
}

/// The files of a folder that are named after a partition, in the order of the partitions; none if there is no folder.
fn partition_files(folder: &Path) -> Result<Vec<(PartitionId, PathBuf)>, StoreError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(file_error("read", folder, source)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| file_error("read", folder, source))?;
        if let Some(id) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        {
            files.push((PartitionId(id), entry.path()));
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn file_error(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::File {
        action,
        path: path.to_owned(),
        source,
    }
}

/// As in the blob layout of the official SDKs.
const CHECKPOINT_FOLDER: &str = "checkpoint";

#[cfg(test)]
mod tests;
