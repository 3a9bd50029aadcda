//! The file LOCK of a data directory: which process has it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use partition_log::owner_only;
use rustix::fs::{FlockOperation, flock};

use super::directory::{DataDirectoryError, unusable};

/// The file LOCK, which is locked as long as this is there.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    /// Closing the file is not enough: a child process has a copy of it from its fork until it runs its own program, and the
    /// lock would stay that long.
    fn drop(&mut self) {
        // What cannot be unlocked is unlocked by the end of the process.
        let _ = self.0.unlock();
    }
}

/// Locks the directory, and says who has it where that can't be done.
pub(super) fn lock(path: &Path) -> Result<Lock, DataDirectoryError> {
    let unusable = unusable(path);
    let mut file = owner_only::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path.join(LOCK))
        .map_err(|error| unusable("LOCK can't be opened", &error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            return Err(DataDirectoryError::InUse {
                path: path.to_owned(),
                process: text.trim().parse().ok(),
            });
        }
        Err(error) => return Err(unusable("LOCK can't be locked", &error)),
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(|error| unusable("LOCK can't be written", &error))?;
    Ok(Lock(file))
}

/// Its name.
pub(super) const LOCK: &str = "LOCK";
