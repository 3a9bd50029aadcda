//! Replacing a file so that, whatever instant the process or the system ends at, there is the old content or the new one.
//!
//! ```text
//!  write NAME.new ── sync it ── rename it to NAME ── sync the folder
//!  └──────────── the old content ──────────────────┘└─ the new one: surely, once the folder is synced
//! ```
//!
//! A crash on the way leaves `NAME.new` behind, which the next replacement overwrites. An attempt that fails removes it.

use crate::owner_only;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// What replacing takes, behind a trait, so that tests can put faults in between.
pub trait FileOperations: fmt::Debug {
    /// Makes a file of these parts, one after the other, in the place of any that is there.
    fn write(&self, path: &Path, parts: &[&[u8]], safety: Safety) -> io::Result<()>;

    /// Gives a file another name, in the place of any that has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Brings the entries of a directory to the device.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// When what is written is safe against a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safety {
    /// Before the operation is over.
    Now,
    /// Later.
    Later,
}

/// The files of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFiles;

/// A file was not replaced.
#[derive(Debug, thiserror::Error)]
#[error("{step} {}: {source}", path.display())]
pub struct ReplaceError {
    /// What failed.
    pub step: ReplaceStep,
    /// What it was done to.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// A step of replacing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceStep {
    /// The new content could not be written. The old one is there.
    Write,
    /// The new content could not be given its name. The old one is there.
    Rename,
    /// The new content is there, and a power cut may bring the old one back.
    SyncFolder,
}

/// Replaces the file at `path`, for its owner alone to read. When this returns, the new content is on the device under
/// its name.
///
/// # Errors
/// It was not replaced, or it is not sure to stay so; the error's step says which.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), ReplaceError> {
    replace_and_sync_folder(&SystemFiles, path, content)
}

/// Replaces the file at `path` without syncing its folder, which the caller does for several at a time.
///
/// # Errors
/// It was not replaced: the old content is there.
pub fn replace_content(
    files: &(impl FileOperations + ?Sized),
    path: &Path,
    parts: &[&[u8]],
    safety: Safety,
) -> Result<(), ReplaceError> {
    let new = new_path(path);
    let written = files.write(&new, parts, safety).map_err(ReplaceError::at(ReplaceStep::Write, &new));
    let replaced =
        written.and_then(|()| files.rename(&new, path).map_err(ReplaceError::at(ReplaceStep::Rename, &new)));
    if replaced.is_err() {
        // A full disk needs the space. What can't be removed is overwritten by the next attempt.
        let _ = files.remove(&new);
    }
    replaced
}

/// Brings the names in a folder to the device: of files that were created, renamed or removed there.
///
/// # Errors
/// What the system says.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn replace_and_sync_folder(
    files: &impl FileOperations,
    path: &Path,
    content: &[u8],
) -> Result<(), ReplaceError> {
    replace_content(files, path, &[content], Safety::Now)?;
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    files.sync_directory(folder).map_err(ReplaceError::at(ReplaceStep::SyncFolder, folder))
}

/// The name of a file's new content until it is complete.
fn new_path(path: &Path) -> PathBuf {
    let mut new = path.as_os_str().to_owned();
    new.push(NEW);
    PathBuf::from(new)
}

impl ReplaceError {
    /// The error of a step that was done to `path`.
    pub fn at(step: ReplaceStep, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { step, path: path.to_owned(), source }
    }
}

impl fmt::Display for ReplaceStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Write => "writing",
            Self::Rename => "renaming",
            Self::SyncFolder => "syncing",
        })
    }
}

impl From<ReplaceError> for io::Error {
    fn from(error: ReplaceError) -> Self {
        Self::new(error.source.kind(), error)
    }
}

impl FileOperations for SystemFiles {
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

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        sync_folder(path)
    }
}

/// The end of the name of a file that is being written.
pub const NEW: &str = ".new";

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// The system's files until a number of operations is done. Then the process is gone, or the disk is full.
    #[derive(Debug)]
    struct EndsAfter {
        operations: usize,
        done: RefCell<Vec<&'static str>>,
        how: End,
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum End {
        /// Nothing is done any more, not even cleaning up.
        Crash,
        /// What needs space fails.
        FullDisk,
    }

    impl EndsAfter {
        fn new(operations: usize, how: End) -> Self {
            Self { operations, done: RefCell::default(), how }
        }

        fn begin(&self, operation: &'static str) -> io::Result<()> {
            let mut done = self.done.borrow_mut();
            if done.len() >= self.operations {
                return Err(io::ErrorKind::StorageFull.into());
            }
            done.push(operation);
            Ok(())
        }
    }

    impl FileOperations for EndsAfter {
        fn write(&self, path: &Path, parts: &[&[u8]], safety: Safety) -> io::Result<()> {
            if let Err(error) = self.begin("write") {
                // A part of it gets there.
                let part = parts[0];
                SystemFiles.write(path, &[&part[..part.len() / 2]], Safety::Later)?;
                return Err(error);
            }
            SystemFiles.write(path, parts, safety)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.begin("rename")?;
            SystemFiles.rename(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            match self.how {
                End::Crash => Err(io::ErrorKind::Other.into()),
                End::FullDisk => SystemFiles.remove(path),
            }
        }

        fn sync_directory(&self, path: &Path) -> io::Result<()> {
            self.begin("sync folder")?;
            SystemFiles.sync_directory(path)
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_new_content_gets_its_name_when_it_is_complete_and_stays_once_the_folder_is_synced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let files = EndsAfter::new(usize::MAX, End::Crash);
        replace_and_sync_folder(&files, &path, b"first").unwrap();
        assert_eq!(*files.done.borrow(), ["write", "rename", "sync folder"]);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        replace(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn a_crash_between_any_two_steps_leaves_the_old_content_or_the_new_one() {
        for (operations, step, content, left) in [
            (0, ReplaceStep::Write, &b"old"[..], &["file", "file.new"][..]),
            (1, ReplaceStep::Rename, b"old", &["file", "file.new"]),
            (2, ReplaceStep::SyncFolder, b"new content", &["file"]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            replace(&path, b"old").unwrap();
            let crash = EndsAfter::new(operations, End::Crash);
            let error = replace_and_sync_folder(&crash, &path, b"new content").unwrap_err();
            assert_eq!(error.step, step);
            assert_eq!(fs::read(&path).unwrap(), content, "{operations}");
            assert_eq!(names(folder.path()), left, "{operations}");
            // What was left behind is not in the way, nor is anything of it in the next content.
            replace(&path, b"n").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"n");
            assert_eq!(names(folder.path()), ["file"]);
        }
    }

    #[test]
    fn an_attempt_that_fails_gives_its_space_back_and_says_what_failed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        replace(&path, b"old").unwrap();
        for operations in 0..2 {
            let full = EndsAfter::new(operations, End::FullDisk);
            let error = replace_and_sync_folder(&full, &path, b"new").unwrap_err();
            assert!(error.to_string().contains("file.new: "), "{error}");
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::StorageFull);
            assert_eq!(names(folder.path()), ["file"]);
            assert_eq!(fs::read(&path).unwrap(), b"old");
        }
    }

    #[test]
    fn what_is_made_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        replace(&path, b"secret").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
