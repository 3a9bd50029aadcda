//! Versions of a checkpoint that are closed to their writer.
//!
//! ```text
//!   owner      writes a slot          asks whether it is closed: if so, the writing is not acknowledged
//!   successor  closes the version     reads the slots again: if there is a newer one, it takes nothing over
//! ```
//!
//! Whichever comes first, a writing that was acknowledged is one that the successor has seen. A file is closed by taking
//! the right to write it from its user; who has it open can still write, but sees that it shall not. A successor that ends
//! before it has made its own version leaves the file closed, to be taken over by the next one.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use super::file_error;
use crate::checkpoint::StoreError;

/// Closes a version, if it is still there: of one that was removed there is a successor already.
pub(super) fn close(path: &Path) -> Result<(), StoreError> {
    match std::fs::set_permissions(path, Permissions::from_mode(CLOSED)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file_error("close", path, error)),
        _ => Ok(()),
    }
}

/// Opens a version again to those who share its file, which are never there together with owners.
pub(super) fn reopen(path: &Path) -> Result<(), StoreError> {
    let reopen = || match is_writable(std::fs::metadata(path)?.mode()) {
        true => Ok(()),
        false => std::fs::set_permissions(path, Permissions::from_mode(OPEN)),
    };
    reopen().map_err(|source| file_error("open", path, source))
}

/// Whether a version is closed, or was removed, which comes after that.
pub(super) fn is_closed(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    Ok(metadata.nlink() == 0 || !is_writable(metadata.mode()))
}

const fn is_writable(mode: u32) -> bool {
    mode & 0o200 != 0
}

const OPEN: u32 = 0o600;
const CLOSED: u32 = 0o400;
