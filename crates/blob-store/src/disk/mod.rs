//! Blobs in a data directory.
//!
//! * `form` is what the files look like.
//! * `files` is what is done with them, so that tests can let it fail.
//! * `recover` finds out what is there at the start.
//! * `piece` is the file of one content, which is compared with its checksum before anything of it is read.
//! * `spares` are files that are written again instead of removed.
//!
//! Nothing is acknowledged before its files have their names. A content is written before the description that names it, and
//! what a description does not name any longer is removed after it; so whatever instant the process is killed at, each
//! blob is the one before or the one after. What the system itself forgets in a power cut is found by its checksum.

mod files;
mod form;
mod piece;
mod recover;
mod spares;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::service_properties::ServiceProperties;
pub(super) use files::BlobFiles;
pub(super) use form::{KeptBlob, KeptBlock, KeptContainer, KeptPlace, PieceHead, StagedHead};
use partition_log::durable_file::{self, Safety};
pub(super) use piece::{Health, PieceFile, PieceName};
pub(super) use recover::{FoundContainer, RecoveredBlob, Suspicion, read_account, recover};
use spares::{Place, Spares};

/// What all containers share.
#[derive(Debug)]
pub(super) struct Disk {
    files: Box<dyn BlobFiles>,
    safety: Safety,
    last_number: AtomicU64,
    /// Whether something was written since the last sync of everything.
    unsynced: AtomicBool,
    failures: AtomicU64,
    damaged: AtomicU64,
}

/// The directory of one container.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    disk: Arc<Disk>,
    spares: Arc<Spares>,
}

impl Disk {
    pub(super) fn new(files: Box<dyn BlobFiles>, safety: Safety) -> Arc<Self> {
        Arc::new(Self {
            files,
            safety,
            last_number: AtomicU64::new(0),
            unsynced: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
        })
    }

    /// A number that no file has.
    pub(super) fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The highest number that was given.
    pub(super) fn last_number(&self) -> u64 {
        self.last_number.load(Ordering::Relaxed)
    }

    fn has_number(&self, number: u64) {
        self.last_number.fetch_max(number, Ordering::Relaxed);
    }

    /// Whether something was written since this was asked last.
    pub(super) fn take_unsynced(&self) -> bool {
        self.unsynced.swap(false, Ordering::AcqRel)
    }

    /// There is something to sync again.
    pub(super) fn set_unsynced(&self) {
        self.unsynced.store(true, Ordering::Release);
    }

    /// Operations that the disk failed.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Files that were found damaged.
    pub(super) fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Brings the names in a directory to the device, where that is wished at once.
    pub(super) fn sync_directory(&self, path: &Path) -> io::Result<()> {
        match self.safety {
            Safety::Now => self.counted(self.files.sync_directory(path)),
            Safety::Later => Ok(()),
        }
    }

    /// Replaces the properties of the account. The directory must be synced after it.
    pub(super) fn write_account(&self, directory: &Path, account: &ServiceProperties) -> io::Result<()> {
        let line = form::line(account)?;
        self.replace(&directory.join(ACCOUNT), &[&line])
    }

    fn counted<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// Makes a file that is complete from the moment that it has its name.
    fn replace(&self, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        self.unsynced.store(true, Ordering::Release);
        let replaced = durable_file::replace_content(&*self.files, path, parts, self.safety);
        self.counted(replaced.map_err(io::Error::from))
    }
}

impl Folder {
    pub(super) fn new(path: PathBuf, disk: Arc<Disk>) -> Self {
        let spares = Spares::new(path.clone(), Arc::clone(&disk));
        Self { path, disk, spares }
    }

    pub(super) const fn disk(&self) -> &Arc<Disk> {
        &self.disk
    }

    /// Writes a content. If it is to be found without a description, it is as safe as wished when this returns.
    pub(super) fn write_piece(&self, head: &PieceHead, content: &[u8]) -> io::Result<Arc<PieceFile>> {
        let number = self.disk.next_number();
        let path = self.piece_path(PieceName::own(number));
        let line = form::line(head)?;
        self.disk.counted(self.spares.write(&path, &[&line, content], Place::Free))?;
        let content_at = line.len() as u64;
        let piece = PieceFile::new(PieceName::own(number), path, content_at, Health::Sound, &self.spares);
        if head.block.is_some()
            && let Err(error) = self.sync_names()
        {
            piece.condemn();
            return Err(error);
        }
        Ok(piece)
    }

    /// Gives the content of a blob that is copied, which never changes, another name in this container. It lasts as long as one of
    /// its names. [`sync_names`](Self::sync_names) is to follow.
    pub(super) fn link_piece(&self, piece: &PieceFile) -> io::Result<Arc<PieceFile>> {
        let name = PieceName { number: self.disk.next_number(), is_copy: true };
        let path = self.piece_path(name);
        self.disk.set_unsynced();
        let linked = self.disk.files.link(piece.path(), &path);
        self.disk.counted(linked)?;
        Ok(PieceFile::new(name, path, piece.content_at(), piece.health(), &self.spares))
    }

    /// Puts a description in the place of the one that is there. [`sync_names`](Self::sync_names) is to follow.
    pub(super) fn write_blob(&self, number: u64, blob: &KeptBlob) -> io::Result<()> {
        let line = form::line(blob)?;
        self.disk.counted(self.spares.write(&self.blob_path(number), &[&line], Place::Taken))
    }

    /// Removes a description, and with it the blob. [`sync_names`](Self::sync_names) is to follow.
    pub(super) fn remove_blob(&self, number: u64) -> io::Result<()> {
        self.disk.set_unsynced();
        let removed = self.spares.remove(&self.blob_path(number));
        self.disk.counted(removed)
    }

    /// Describes the container itself. [`sync_names`](Self::sync_names) is to follow.
    pub(super) fn write_container(&self, container: &KeptContainer) -> io::Result<()> {
        let line = form::line(container)?;
        self.disk.replace(&self.path.join(CONTAINER), &[&line])
    }

    /// Brings names that were given and taken away to the device, where that is wished at once. They are given and taken
    /// away even if this fails; only whether a power cut would undo it is not known then.
    pub(super) fn sync_names(&self) -> io::Result<()> {
        self.disk.sync_directory(&self.path)
    }

    fn piece_path(&self, name: PieceName) -> PathBuf {
        let end = if name.is_copy { COPY } else { PIECE };
        self.path.join(format!("{}{end}", name.number))
    }

    fn blob_path(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number}{BLOB}"))
    }
}

const ACCOUNT: &str = "account.json";
const CONTAINER: &str = "container.json";
const PIECE: &str = ".piece";
const COPY: &str = ".copy";
const BLOB: &str = ".blob";

/// The end of the name of a file that makes no sense.
const DAMAGED: &str = ".damaged";
