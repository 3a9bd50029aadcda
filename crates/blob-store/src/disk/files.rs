//! What blobs do with files, behind a trait, so that tests can put faults in between.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use partition_log::durable_file::{FileOperations, Safety, SystemFiles};

/// Operations that change something.
pub(crate) trait BlobFiles: FileOperations + Send + Sync {
    /// Gives a file another name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Writes into a file that is there.
    fn write_at(&self, path: &Path, position: u64, bytes: &[u8], safety: Safety) -> io::Result<()>;
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
}
