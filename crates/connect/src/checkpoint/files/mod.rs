//! Checkpoints and ownership in files.
//!
//! ```text
//!   <folder>/<namespace>/<hub>/<consumer group>/checkpoint/<partition>[.<version>]  two slots of text, written in turn
//!   <folder>/<namespace>/<hub>/<consumer group>/ownership/<partition>[.<version>]   never changed
//! ```
//!
//! What replaces a file is its next version (see [`versions`]). Each claim that is won makes one; of a checkpoint, each
//! new owner makes one, whose slots it then writes in place. Before it does, it closes the version before (see [`closing`]):
//! what the former owner had acknowledged by then is seen, and nothing that it writes later is acknowledged. No lock is
//! ever held, so none can be held by a paused process.
//!
//! A process that is killed at any instant leaves each checkpoint at its newest or its newest but one writing (see
//! [`slots`]). A power cut takes it back by a second or so, never further (see [`durability`]): syncing each writing would
//! cost a thousand times as much, and an older checkpoint means no more than events that come twice.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Checkpoint, CheckpointStore, Claimed, ConsumerGroup, ETag, Ownership, StoreError, StoreFuture};
use crate::event::PartitionId;

mod closing;
mod durability;
mod lock;
mod names;
mod ownership;
mod slots;
mod versions;

use durability::{Sync, SyncedFile, Syncer};
use lock::Lock;
pub use lock::Usage;

/// A checkpoint store in a folder, to be shared by the processes of one machine. Its calls are made within a tokio
/// runtime. At any one time a consumer group is used either with ownership, where checkpoints are replaced, or without,
/// where they are updated.
#[derive(Clone, Debug)]
pub struct FileCheckpointStore {
    folder: Arc<Folder>,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Open checkpoint files. One is opened when its partition is first written and stays open.
    files: Mutex<HashMap<ConsumerGroup, HashMap<PartitionId, CheckpointFile>>>,
    syncer: Syncer,
    /// Locked until they are closed.
    locks: Mutex<Vec<Lock>>,
}

#[derive(Debug)]
struct CheckpointFile {
    synced: Arc<SyncedFile>,
    syncer: Syncer,
    /// The version that this process has made, to be the only one that writes it; none where it shares the file.
    taken_over: Option<u64>,
}

/// What the ETag of a checkpoint says: the version of the file, and the generation of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Writing {
    version: u64,
    generation: u64,
}

impl FileCheckpointStore {
    /// Opens the store in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// When the folder cannot be made or written to.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = folder.into();
        durability::make_folder(&path)?;
        let folder =
            Folder { path, files: Mutex::default(), syncer: Syncer::default(), locks: Mutex::default() };
        folder.check_writable()?;
        Ok(Self { folder: Arc::new(folder) })
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
                .unwrap_or_else(|error| Err(StoreError::Unavailable { reason: error.to_string() }))
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
        Box::pin(std::future::ready(self.folder.update_checkpoint(&checkpoint)))
    }

    /// Taking a partition over makes a new file, elsewhere; every replacement after that is written before this returns.
    fn replace_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<ETag> {
        match self.folder.replace_in_place(&checkpoint) {
            Some(replaced) => Box::pin(std::future::ready(replaced)),
            None => self.in_background(move |folder| folder.take_over(&checkpoint)),
        }
    }

    fn list_ownership(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Ownership>> {
        let group = group.clone();
        self.in_background(move |folder| folder.list_ownership(&group))
    }

    fn claim_ownership(&self, claims: Vec<Ownership>, _: Duration) -> StoreFuture<Claimed> {
        self.in_background(move |folder| folder.claim_ownership(claims))
    }
}

impl Folder {
    /// Tells a folder that cannot be written before any work is done.
    fn check_writable(&self) -> Result<(), StoreError> {
        let path = self.path.join(format!(".writable-{}", std::process::id()));
        durability::write_new(&path, b"", Sync::Later)?;
        // Another thread may have been faster.
        let _ = std::fs::remove_file(&path);
        Ok(())
    }

    fn list_checkpoints(&self, group: &ConsumerGroup) -> Result<Vec<Checkpoint>, StoreError> {
        let folder = self.group_folder(group).join(CHECKPOINT_FOLDER);
        let mut checkpoints = Vec::new();
        for (partition, versions) in versions::of_folder(&folder)? {
            let Some(version) = versions.newest else {
                continue;
            };
            let (version, newest) = versions::read_newest(&folder, partition, version, read_newest)?;
            let writing = Writing { version, generation: newest.slot.generation };
            checkpoints.push(Checkpoint {
                group: group.clone(),
                partition,
                sequence_number: newest.slot.sequence_number,
                offset: newest.slot.offset,
                log_id: newest.slot.log_id,
                etag: Some(writing.etag()),
            });
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
                let (file, is_made) = self.open_checkpoint(checkpoint)?;
                let file = entry.insert(file);
                if is_made {
                    return Ok(());
                }
                file
            }
        };
        file.update(checkpoint)
    }

    /// Replaces a checkpoint in the version that this process has made; nothing if the ETag is not of that version.
    fn replace_in_place(&self, checkpoint: &Checkpoint) -> Option<Result<ETag, StoreError>> {
        let mut groups = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let file = groups.get_mut(&checkpoint.group)?.get_mut(&checkpoint.partition)?;
        let writing = checkpoint.etag.as_ref().and_then(Writing::parse)?;
        (file.taken_over == Some(writing.version)).then(|| file.replace(writing, checkpoint))
    }

    /// Replaces a checkpoint by the next version of its file, which only this process writes from now on.
    fn take_over(&self, checkpoint: &Checkpoint) -> Result<ETag, StoreError> {
        let partition = checkpoint.partition;
        let lost = Err(StoreError::NotOwner { partition });
        let folder = self.group_folder(&checkpoint.group).join(CHECKPOINT_FOLDER);
        durability::make_folder(&folder)?;
        let mut before = versions::of_folder(&folder)?;
        let seen = before.remove(&partition);
        let seen_version = seen.as_ref().and_then(|seen| seen.newest);
        // Also asked right before the new version is made: the owner before may write until it is closed out.
        let is_current = || {
            let current = match seen_version {
                None => None,
                Some(version) => match read_newest(&versions::path(&folder, partition, version))? {
                    None => return Ok(None),
                    Some(newest) => Some(Writing { version, generation: newest.slot.generation }),
                },
            };
            let generation = current.as_ref().map_or(0, |current| current.generation);
            let is_expected = current.map(|current| current.etag()) == checkpoint.etag;
            Ok::<_, StoreError>(is_expected.then_some(generation))
        };
        let Some(generation) = is_current()? else {
            return lost;
        };
        let generation = generation.saturating_add(1);
        let content = slots::new_file(generation, checkpoint)?;
        let made = versions::make_next(&folder, partition, seen.as_ref(), &content, Sync::Now, || {
            if let Some(version) = seen_version {
                closing::close(&versions::path(&folder, partition, version))?;
            }
            Ok(is_current()?.is_some())
        });
        let Some(version) = made? else {
            return lost;
        };
        durability::sync_folder(&folder)?;
        if !versions::is_newest(&folder, partition, version, &versions::of_folder(&folder)?) {
            return lost;
        }
        let path = versions::path(&folder, partition, version);
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return lost,
            Err(source) => return Err(file_error("open", &path, source)),
        };
        if let Some(seen) = seen {
            versions::remove_remains(&seen, &folder, partition);
        }
        let file = CheckpointFile {
            synced: Arc::new(SyncedFile::new(path, file)),
            syncer: self.syncer.clone(),
            taken_over: Some(version),
        };
        let mut groups = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let files = groups.entry(checkpoint.group.clone()).or_default();
        files.insert(partition, file);
        let writing = Writing { version, generation };
        Ok(writing.etag())
    }

    /// Opens the newest version of a checkpoint, to be shared with others. If there is none it is made, with this content;
    /// says whether it was.
    fn open_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(CheckpointFile, bool), StoreError> {
        let partition = checkpoint.partition;
        let folder = self.group_folder(&checkpoint.group).join(CHECKPOINT_FOLDER);
        durability::make_folder(&folder)?;
        let seen = versions::of_folder(&folder)?.remove(&partition);
        let (newest, is_made) = match seen.as_ref().and_then(|seen| seen.newest) {
            Some(newest) => (newest, false),
            None => {
                let content = slots::new_file(1, checkpoint)?;
                // If another process was faster, the file is there all the same.
                let made =
                    versions::make_next(&folder, partition, seen.as_ref(), &content, Sync::Now, || Ok(true))?;
                durability::sync_folder(&folder)?;
                (0, made.is_some())
            }
        };
        let path = versions::path(&folder, partition, newest);
        closing::reopen(&path)?;
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|source| file_error("open", &path, source))?;
        let file = CheckpointFile {
            synced: Arc::new(SyncedFile::new(path, file)),
            syncer: self.syncer.clone(),
            taken_over: None,
        };
        Ok((file, is_made))
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
    fn update(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let newest = self.newest()?;
        self.write(&newest, checkpoint).map(|_generation| ())
    }

    /// The same, if the newest checkpoint is the one given and the file is still the one that everybody reads. That is asked
    /// again after the writing: what was written into a version that others had closed may not have been seen by them.
    fn replace(&self, expected: Writing, checkpoint: &Checkpoint) -> Result<ETag, StoreError> {
        let lost = Err(StoreError::NotOwner { partition: checkpoint.partition });
        let is_closed = || {
            let SyncedFile { path, file, .. } = &*self.synced;
            closing::is_closed(file).map_err(|source| file_error("read", path, source))
        };
        if is_closed()? {
            return lost;
        }
        let newest = self.newest()?;
        if newest.slot.generation != expected.generation {
            return lost;
        }
        let generation = self.write(&newest, checkpoint)?;
        if is_closed()? {
            return lost;
        }
        let version = expected.version;
        let writing = Writing { version, generation };
        Ok(writing.etag())
    }

    fn newest(&self) -> Result<slots::Newest, StoreError> {
        let mut bytes = [0; slots::FILE_LEN];
        let path = &self.synced.path;
        let len = self.read(&mut bytes).map_err(|source| file_error("read", path, source))?;
        slots::newest(&bytes[..len]).map_err(|reason| damaged(path, reason))
    }

    fn write(&self, newest: &slots::Newest, checkpoint: &Checkpoint) -> Result<u64, StoreError> {
        let SyncedFile { path, file, .. } = &*self.synced;
        let (position, generation) = slots::next(newest);
        let slot = slots::encode(generation, checkpoint)?;
        file.write_all_at(&slot, position).map_err(|source| file_error("write", path, source))?;
        self.syncer.sync_soon(&self.synced);
        Ok(generation)
    }

    fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        while len < bytes.len() {
            match self.synced.file.read_at(&mut bytes[len..], len as u64) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(len)
    }
}

impl Writing {
    fn etag(self) -> ETag {
        let Self { version, generation } = self;
        ETag(format!("{version}-{generation}"))
    }

    fn parse(etag: &ETag) -> Option<Self> {
        let (version, generation) = etag.0.split_once('-')?;
        Some(Self { version: version.parse().ok()?, generation: generation.parse().ok()? })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.syncer.sync_now();
    }
}

/// The newest whole slot of a version; nothing if it has been removed, which means that there is a newer one.
fn read_newest(path: &Path) -> Result<Option<slots::Newest>, StoreError> {
    match std::fs::read(path) {
        Ok(bytes) => slots::newest(&bytes).map(Some).map_err(|reason| damaged(path, reason)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(file_error("read", path, source)),
    }
}

fn damaged(path: &Path, reason: &'static str) -> StoreError {
    StoreError::DamagedCheckpoint { path: path.to_owned(), reason }
}

fn file_error(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::File { action, path: path.to_owned(), source }
}

/// As in the blob layout of the official SDKs.
const CHECKPOINT_FOLDER: &str = "checkpoint";

#[cfg(test)]
mod tests;
