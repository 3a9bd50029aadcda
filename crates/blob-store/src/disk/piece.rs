//! The file of one content, and whether the content still is what was written.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::{Disk, Spares};
use crate::error::BlobError;

/// A file with the bytes of a blob or block. It is removed when it is condemned and no reader has it any longer.
#[derive(Debug)]
pub(crate) struct PieceFile {
    name: PieceName,
    path: PathBuf,
    /// Where the content begins.
    content_at: u64,
    condemned: AtomicBool,
    /// Locked while the content is compared with its checksum, so that this happens once.
    health: Mutex<Health>,
    spares: Arc<Spares>,
}

/// The name of the file of one content, unique in the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PieceName {
    pub(crate) number: u64,
    /// Whether it is another name of a content that was written for another blob.
    pub(crate) is_copy: bool,
}

impl PieceName {
    /// The name of a content that was written for its blob.
    pub(crate) const fn own(number: u64) -> Self {
        Self { number, is_copy: false }
    }
}

/// What is known of a content on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// An earlier process wrote it, and it has not been compared with its checksum since.
    Unknown,
    /// This process wrote it, or found its checksum right.
    Sound,
    /// It is not what was written. Nothing of it is given to anyone.
    Damaged,
}

impl PieceFile {
    pub(super) fn new(
        name: PieceName,
        path: PathBuf,
        content_at: u64,
        health: Health,
        spares: &Arc<Spares>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name,
            path,
            content_at,
            condemned: AtomicBool::new(false),
            health: Mutex::new(health),
            spares: Arc::clone(spares),
        })
    }

    pub(crate) const fn name(&self) -> PieceName {
        self.name
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn content_at(&self) -> u64 {
        self.content_at
    }

    /// What is known of its content.
    pub(crate) fn health(&self) -> Health {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares the first `length` bytes of the content with their checksum, unless that was done before. It reads all of
    /// them.
    ///
    /// # Errors
    /// They are others, or can't be read.
    pub(crate) fn check(&self, length: u64, crc: u32) -> Result<(), BlobError> {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        match *health {
            Health::Sound => Ok(()),
            Health::Damaged => Err(BlobError::Damaged),
            Health::Unknown => {
                let content = Content { path: &self.path, content_at: self.content_at };
                match content.check(length, crc) {
                    Ok(()) => {
                        *health = Health::Sound;
                        Ok(())
                    }
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        *health = Health::Damaged;
                        self.report(&error);
                        Err(BlobError::Damaged)
                    }
                    // A disk that does not answer now may do so later.
                    Err(error) => {
                        self.disk().failures.fetch_add(1, Ordering::Relaxed);
                        Err(error.into())
                    }
                }
            }
        }
    }

    /// Notes that what was read of it is not what was written.
    pub(crate) fn set_damaged(&self) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if *health != Health::Damaged {
            *health = Health::Damaged;
            self.report(&CHANGED);
        }
    }

    fn report(&self, reason: &dyn std::fmt::Display) {
        let file = self.path.display();
        tracing::error!(%file, %reason, "the content of a blob is damaged; reading it is refused");
        self.disk().damaged.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes at `position` of the content. What was there before it stays as it was.
    pub(crate) fn write_at(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk().set_unsynced();
        let position = self.content_at + position;
        let written = self.disk().files.write_at(&self.path, position, bytes, self.disk().safety);
        self.disk().counted(written)
    }

    /// Reads a part of the content that must be there.
    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let read = || {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            File::open(&self.path)?.read_exact_at(&mut bytes, self.content_at + range.start)?;
            Ok(Bytes::from(bytes))
        };
        self.disk().counted(read())
    }

    fn disk(&self) -> &Disk {
        &self.spares.disk
    }

    /// It is not part of any blob any longer.
    pub(crate) fn condemn(&self) {
        self.condemned.store(true, Ordering::Release);
    }
}

impl Drop for PieceFile {
    fn drop(&mut self) {
        if *self.condemned.get_mut() {
            // What stays goes at the next start.
            let _ = self.spares.remove(&self.path);
        }
    }
}

/// Where a content is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content<'a> {
    pub(super) path: &'a Path,
    /// Its first byte in the file.
    pub(super) content_at: u64,
}

impl Content<'_> {
    /// Whether there are as many bytes as there should be.
    ///
    /// # Errors
    /// `InvalidData` if there are not, or what the system says.
    pub(super) fn check_length(self, length: u64) -> io::Result<()> {
        let found = File::open(self.path)?.metadata()?.len();
        match found < self.content_at.saturating_add(length) {
            true => Err(damaged("its content is truncated")),
            false => Ok(()),
        }
    }

    /// Whether the first `length` bytes have this checksum.
    ///
    /// # Errors
    /// `InvalidData` if they have not, or what the system says.
    pub(super) fn check(self, length: u64, crc: u32) -> io::Result<()> {
        self.check_length(length)?;
        let mut file = File::open(self.path)?;
        file.seek(SeekFrom::Start(self.content_at))?;
        let mut rest = file.take(length);
        let mut buffer = vec![0; 1 << 16];
        let mut found = 0;
        loop {
            match rest.read(&mut buffer)? {
                0 => break,
                count => found = crc32c::crc32c_append(found, &buffer[..count]),
            }
        }
        match found == crc {
            true => Ok(()),
            false => Err(damaged(CHANGED)),
        }
    }
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

const CHANGED: &str = "the checksum of its content does not match";
