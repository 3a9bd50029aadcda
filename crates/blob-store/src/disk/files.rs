//! What blobs do with files, behind a trait, so that tests can put faults in between.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use partition_log::durable_file::{FileOperations, Safety, SystemFiles};
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Operations that change something.
pub(crate) trait BlobFiles: FileOperations + Send + Sync {
    /// Gives a file another name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Writes into a file that is there.
    fn write_at(&self, path: &Path, position: u64, bytes: &[u8], safety: Safety) -> io::Result<()>;

    /// Gives each of two files the name of the other, in one step. Not every file system can.
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()>;

    /// Whether a file has no other name.
    fn is_only_name(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|found| found.nlink() == 1)
    }

    /// Drops the content of a file.
    fn empty(&self, path: &Path) -> io::Result<()> {
        OpenOptions::new().write(true).truncate(true).open(path).map(drop)
    }
}

impl BlobFiles for SystemFiles {
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn write_at(&self, path: &Path, position: u64, bytes: &[u8], safety: Safety) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.write_all_at(bytes, position)?;
        match safety {
            Safety::Now => file.sync_data(),
            Safety::Later => Ok(()),
        }
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
    }
}
