//! The file that says that the service is ready: there once clients can connect, gone once they can't.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

use crate::exit::CommandError;

/// A place for the file, which can be written.
#[derive(Debug)]
pub(super) struct ReadyFile {
    path: PathBuf,
    /// In the same directory, so that it takes the file's place in one step. Only its owner can read it: it has keys.
    written: NamedTempFile,
}

/// The file. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Ready {
    _file: TempPath,
}

impl ReadyFile {
    /// Takes the place, and removes what an earlier service left there when it was killed.
    ///
    /// # Errors
    /// The directory can't be written, or the place is not a file's.
    pub(super) fn reserve(path: PathBuf) -> Result<Self, CommandError> {
        let directory = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let written = NamedTempFile::new_in(directory).map_err(|error| unavailable(&path, &error))?;
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unavailable(&path, &error)),
            _ => Ok(Self { path, written }),
        }
    }

    /// Puts it there with this content, all at once.
    ///
    /// # Errors
    /// It can't be written.
    pub(super) fn write(mut self, content: &str) -> Result<Ready, CommandError> {
        self.written.write_all(content.as_bytes()).map_err(|error| unavailable(&self.path, &error))?;
        self.written.persist(&self.path).map_err(|error| unavailable(&self.path, &error.error))?;
        let file = TempPath::try_from_path(&self.path).map_err(|error| unavailable(&self.path, &error))?;
        Ok(Ready { _file: file })
    }
}

fn unavailable(path: &Path, error: &io::Error) -> CommandError {
    CommandError::Unavailable {
        message: format!("the ready file {} can't be written: {error}", path.display()),
    }
}
