//! Files and directories that only the user who runs the service may read: they hold events, messages and blobs.
//!
//! The mode is that of what is made here; what is there already keeps its own.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Opens an empty file for writing, in the place of any that is there.
pub fn create(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// Options to open a file with, which is made with the right mode if it is made.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Makes a directory, whose parent must be there.
pub fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY_MODE).create(path)
}

/// Makes a directory with its parents, as far as they are not there.
pub fn create_directories(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
