//! What blobs do with files, behind a trait, so that tests can put faults in between.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use partition_log::owner_only;

/// Operations that change something.
pub(crate) trait BlobFiles: fmt::Debug + Send + Sync {
    /// Makes a file of these parts, one after the other, in the place of any that is there.
    fn write(&self, path: &Path, parts: &[&[u8]], safety: Safety) -> io::Result<()>;

    /// Writes into a file that is there.
    fn write_at(&self, path: &Path, position: u64, bytes: &[u8], safety: Safety) -> io::Result<()>;

    /// Gives a file another name, in the place of any that has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Brings the entries of a directory to the device.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// When what is written is safe against a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Safety {
    /// Before the operation is over.
    Now,
    /// Later.
    Later,
}

/// The files of the operating system.
#[derive(Debug)]
pub(crate) struct SystemFiles;

impl BlobFiles for SystemFiles {
    fn write(&self, path: &Path, parts: &[&[u8]], safety: Safety) -> io::Result<()> {
        let mut file = owner_only::create(path)?;
        for part in parts {
            file.write_all(part)?;
        }
        match safety {
            Safety::Now => file.sync_all(),
            Safety::Later => Ok(()),
        }
    }

    fn write_at(&self, path: &Path, position: u64, bytes: &[u8], safety: Safety) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.write_all_at(bytes, position)?;
        match safety {
            Safety::Now => file.sync_data(),
            Safety::Later => Ok(()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}
