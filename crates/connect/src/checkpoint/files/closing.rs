//! Closed checkpoint versions.
//!
//! ```text
//!   owner      writes a slot          asks whether it is closed: if so, the writing is not acknowledged
//!   successor  closes the version     reads the slots again: if there is a newer one, it takes nothing over
//! ```
//!
//! In any order of these steps, the successor has seen every acknowledged write. Closing removes the write permission of the
//! file. A process that has the file open can still write, but detects the permission. If a successor ends before it
//! has created its own version, the file stays closed until the next takeover.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use super::file_error;
use crate::checkpoint::StoreError;

/// Closes a version. One that does not exist already has a successor.
pub(super) fn close(path: &Path) -> Result<(), StoreError> {
    match std::fs::set_permissions(path, Permissions::from_mode(CLOSED)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file_error("close", path, error)),
        _ => Ok(()),
    }
}

/// Reopens a version for writers that share it, which never run together with owners.
pub(super) fn reopen(path: &Path) -> Result<(), StoreError> {
    let reopen = || match is_writable(std::fs::metadata(path)?.mode()) {
        true => Ok(()),
        false => std::fs::set_permissions(path, Permissions::from_mode(OPEN)),
    };
    reopen().map_err(|source| file_error("open", path, source))
}

/// Whether a version is closed or removed.
pub(super) fn is_closed(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    Ok(metadata.nlink() == 0 || !is_writable(metadata.mode()))
}

const fn is_writable(mode: u32) -> bool {
    mode & 0o200 != 0
}

const OPEN: u32 = 0o600;
const CLOSED: u32 = 0o400;
