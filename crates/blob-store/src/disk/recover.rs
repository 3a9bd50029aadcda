//! What is there at the start.
//!
//! What makes no sense, since a power cut or another program changed it, is set aside (`.damaged`), reported and counted; the
//! blob that it belonged to is gone, and everything else is served. A container without its description is served without
//! its metadata.
//!
//! Files that were being written, folders of deleted containers, and after a crash pieces that no description names are
//! removed: their writer got no acknowledgement, or a client deleted them. After a close there are no such pieces, so one
//! that is found then has lost its description, and is set aside.
//!
//! After a process that ended in good order, contents are not compared with their checksums here but when they are read first.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::names;
use crate::service_properties::ServiceProperties;
use partition_log::durable_file::NEW;

use super::piece::Content;
use super::{
    ACCOUNT, BLOB, CONTAINER, COPY, DAMAGED, Disk, Folder, Health, KeptBlob, KeptContainer, KeptPlace, PIECE,
    PieceFile, PieceHead, PieceName, StagedHead, form,
};

/// A container that was found.
#[derive(Debug)]
pub(crate) struct FoundContainer {
    pub(crate) name: String,
    pub(crate) folder: Folder,
    /// Its description; none, if that is damaged.
    pub(crate) kept: Option<KeptContainer>,
    /// Its blobs.
    pub(crate) blobs: Vec<RecoveredBlob>,
    /// Blocks that wait to be committed: of which blob, and in which piece.
    pub(crate) staged: Vec<(String, StagedHead, Arc<PieceFile>)>,
}

/// A blob as found in a data directory.
#[derive(Debug)]
pub(crate) struct RecoveredBlob {
    /// The number of the description.
    pub(crate) number: u64,
    pub(crate) kept: KeptBlob,
    /// The pieces of the blocks; `None` for a hole.
    pub(crate) pieces: Vec<Option<Arc<PieceFile>>>,
}

/// Whether contents are compared with their checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// The last process ended in good order.
    Lengths,
    /// It did not.
    Contents,
}

/// Everything beneath `directory`.
///
/// # Errors
/// The directory can't be read; damage is no error.
pub(crate) fn recover(
    directory: &Path,
    disk: &Arc<Disk>,
    suspicion: Suspicion,
) -> io::Result<Vec<FoundContainer>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = entry.path();
        if is_deleted(&name) {
            fs::remove_dir_all(&path)?;
        } else if !names::is_container(&name) {
            // Someone else's.
        } else if is_unfinished(&path)? {
            fs::remove_dir_all(&path)?;
        } else {
            let scan = Scan { folder: Folder::new(path, Arc::clone(disk)), suspicion };
            found.push(scan.container(name)?);
        }
    }
    Ok(found)
}

/// Reads the properties of the account. A damaged file is set aside, and the defaults are returned.
///
/// # Errors
/// The directory can't be read.
pub(crate) fn read_account(directory: &Path, disk: &Arc<Disk>) -> io::Result<ServiceProperties> {
    let path = directory.join(ACCOUNT);
    if !path.try_exists()? {
        return Ok(ServiceProperties::default());
    }
    match form::read_line(&path) {
        Ok((account, _)) => Ok(account),
        Err(error) => {
            set_aside(disk, &path, &error);
            Ok(ServiceProperties::default())
        }
    }
}

/// Whether this is the name that a container's folder gets when a client deletes the container.
fn is_deleted(name: &str) -> bool {
    name.split_once('~')
        .is_some_and(|(container, number)| names::is_container(container) && number.parse::<u64>().is_ok())
}

/// Whether a folder has nothing in it but what the creation of a container leaves that was cut short.
fn is_unfinished(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if name.to_str().and_then(|name| name.strip_suffix(NEW)) != Some(CONTAINER) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether this is the name of a file of ours that is not complete.
fn is_being_written(name: &str) -> bool {
    let Some(name) = name.strip_suffix(NEW) else {
        return false;
    };
    let numbered = [BLOB, PIECE, COPY].iter().find_map(|end| name.strip_suffix(end));
    name == CONTAINER || numbered.is_some_and(|number| number.parse::<u64>().is_ok())
}

/// Reads one container.
struct Scan {
    folder: Folder,
    suspicion: Suspicion,
}

impl Scan {
    fn container(&self, name: String) -> io::Result<FoundContainer> {
        let path = self.folder.path.join(CONTAINER);
        let description = match form::read_line(&path) {
            Ok((kept, _)) => Some(kept),
            Err(error) => {
                self.set_aside(&path, &error);
                tracing::error!(
                    container = %self.folder.path.display(),
                    "the description of a container is lost; its blobs are served, without its metadata and lease"
                );
                None
            }
        };
        let (descriptions, mut pieces) = self.names()?;
        let mut blobs = Vec::new();
        let mut is_whole = true;
        let mut staged_after: HashMap<String, u64> = HashMap::new();
        for number in descriptions {
            match self.blob(number, &mut pieces) {
                Ok(blob) => {
                    let kept = &blob.kept;
                    if kept.snapshot.is_none() {
                        staged_after.insert(kept.name.clone(), kept.staged_after);
                    }
                    blobs.push(blob);
                }
                Err(error) => {
                    is_whole = false;
                    self.set_aside(&self.folder.blob_path(number), &error);
                }
            }
        }
        let mut staged = Vec::new();
        for (name, path) in pieces {
            match self.staged(name, &path) {
                Ok(Some((blob, block, piece)))
                    if staged_after.get(&blob).is_none_or(|after| name.number > *after) =>
                {
                    staged.push((name.number, (blob, block, piece)));
                }
                // A content that no description names, or a block that was not taken.
                Ok(_) if is_whole && self.suspicion == Suspicion::Contents => {
                    fs::remove_file(&path)?;
                }
                // A block that a later list has made void, and that could not be removed.
                Ok(Some((blob, ..))) if staged_after.contains_key(&blob) => fs::remove_file(&path)?,
                // It may be the content of a blob whose description is damaged.
                Ok(_) => self.set_aside(&path, &"it has no description"),
                Err(error) => self.set_aside(&path, &error),
            }
        }
        // Of two blocks with one id the later one counts.
        staged.sort_by_key(|(number, _)| *number);
        Ok(FoundContainer {
            name,
            folder: self.folder.clone(),
            kept: description,
            blobs,
            staged: staged.into_iter().map(|(_, staged)| staged).collect(),
        })
    }

    /// The numbers of descriptions, and the pieces by their names; leftovers are removed.
    fn names(&self) -> io::Result<(Vec<u64>, HashMap<PieceName, PathBuf>)> {
        let (mut descriptions, mut pieces) = (Vec::new(), HashMap::new());
        for entry in fs::read_dir(&self.folder.path)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let numbered = |end| name.strip_suffix(end)?.parse::<u64>().ok();
            if let Some(number) = name.strip_suffix(DAMAGED).and_then(|name| {
                let ends = [BLOB, PIECE, COPY].into_iter();
                ends.filter_map(|end| name.strip_suffix(end)?.parse().ok()).next()
            }) {
                // Another file of this number would take its place if it became damaged as well.
                self.folder.disk.has_number(number);
            }
            if is_being_written(&name) {
                fs::remove_file(entry.path())?;
            } else if let Some(number) = numbered(BLOB) {
                self.folder.disk.has_number(number);
                descriptions.push(number);
            } else if let Some(number) = numbered(PIECE) {
                self.folder.disk.has_number(number);
                pieces.insert(PieceName::own(number), entry.path());
            } else if let Some(number) = numbered(COPY) {
                self.folder.disk.has_number(number);
                pieces.insert(PieceName { number, is_copy: true }, entry.path());
            }
        }
        Ok((descriptions, pieces))
    }

    /// A blob, whose pieces are taken out of `pieces`.
    fn blob(&self, number: u64, pieces: &mut HashMap<PieceName, PathBuf>) -> io::Result<RecoveredBlob> {
        let (kept, _): (KeptBlob, u64) = form::read_line(&self.folder.blob_path(number))?;
        let mut found: Vec<Option<Arc<PieceFile>>> = Vec::with_capacity(kept.blocks.len());
        let mut known: HashMap<PieceName, Arc<PieceFile>> = HashMap::new();
        for block in &kept.blocks {
            let KeptPlace::Piece(name) = block.place() else {
                found.push(None);
                continue;
            };
            // A block list may name one block twice.
            if let Some(piece) = known.get(&name) {
                found.push(Some(Arc::clone(piece)));
                continue;
            }
            let path = self.folder.piece_path(name);
            let (_, content_at): (PieceHead, u64) = form::read_line(&path)?;
            self.check(&path, content_at, block.length, block.crc)?;
            let piece = self.piece(name, path, content_at);
            known.insert(name, Arc::clone(&piece));
            found.push(Some(piece));
        }
        for name in known.keys() {
            pieces.remove(name);
        }
        Ok(RecoveredBlob { number, kept, pieces: found })
    }

    /// The uncommitted block that a piece is, if it is one. What is a copy was committed.
    fn staged(
        &self,
        name: PieceName,
        path: &Path,
    ) -> io::Result<Option<(String, StagedHead, Arc<PieceFile>)>> {
        let (head, content_at): (PieceHead, u64) = form::read_line(path)?;
        let Some(block) = head.block.filter(|_| !name.is_copy) else {
            return Ok(None);
        };
        self.check(path, content_at, block.length, block.crc)?;
        let piece = self.piece(name, path.to_owned(), content_at);
        Ok(Some((head.blob, block, piece)))
    }

    /// Whether a piece has the content that it should have.
    fn check(&self, path: &Path, content_at: u64, length: u64, crc: u32) -> io::Result<()> {
        let content = Content { path, content_at };
        match self.suspicion {
            Suspicion::Lengths => content.check_length(length),
            Suspicion::Contents => content.check(length, crc),
        }
    }

    fn piece(&self, name: PieceName, path: PathBuf, content_at: u64) -> Arc<PieceFile> {
        let health = match self.suspicion {
            Suspicion::Lengths => Health::Unknown,
            Suspicion::Contents => Health::Sound,
        };
        PieceFile::new(name, path, content_at, health, &self.folder.spares)
    }

    fn set_aside(&self, path: &Path, reason: &dyn std::fmt::Display) {
        set_aside(&self.folder.disk, path, reason);
    }
}

/// Renames a file that makes no sense, reports and counts it.
fn set_aside(disk: &Disk, path: &Path, reason: &dyn std::fmt::Display) {
    tracing::error!(file = %path.display(), %reason, "a file of a blob is damaged; it is set aside");
    disk.damaged.fetch_add(1, Ordering::Relaxed);
    let mut aside = path.as_os_str().to_owned();
    aside.push(DAMAGED);
    if let Err(error) = fs::rename(path, &aside)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::error!(file = %path.display(), %error, "it can't be set aside");
    }
}
