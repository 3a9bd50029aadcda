//! The data directory itself: that it is ours, that nobody else has it, and what is in it.
//!
//! ```text
//!  LOCK            locked for as long as a process has the directory; its process id inside
//!  VERSION         that this is such a directory, and of which form
//!  manifest.json   the hubs
//!  hubs/
//!    orders~1.0/   one folder per partition, made when it gets its first event
//!    orders~1.2/
//!  queues/         one folder per queue or topic, where there are any
//! ```
//!
//! Folders are made one by one on some file systems' own time, half a millisecond each where it was measured: so declaring
//! a hub makes none, and there is none per hub.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::manifest::{FILE, KeptHub, Manifest, NEW_FILE};

/// A data directory that this process has.
#[derive(Debug)]
pub(super) struct DataDirectory {
    path: PathBuf,
    pub(super) manifest: Manifest,
    /// Locked until it is closed.
    _lock: File,
}

/// Why a data directory can't be used. One line each, with the directory's path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataDirectoryError {
    /// Another process has it.
    #[error("the data directory {} is in use{}", path.display(), by(*process))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The id of that process, if it could be found out.
        process: Option<u32>,
    },
    /// A newer program made it.
    #[error(
        "the data directory {} has version {version}; this program knows versions up to {VERSION}", path.display()
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// It holds something, and none of it is ours.
    #[error("the directory {} is not empty and is no data directory", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// A hub is declared with another number of partitions than it has.
    #[error(
        "the hub {hub} has {kept} partitions in the data directory {} and is declared with {declared}; the number can't change",
        path.display()
    )]
    PartitionCount {
        /// The directory.
        path: PathBuf,
        /// The hub's name, as it is kept.
        hub: String,
        /// How many it has.
        kept: u16,
        /// How many were declared.
        declared: u16,
    },
    /// Something in it can't be read or written.
    #[error("the data directory {} can't be used: {reason}", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What was done to what, and what the system said.
        reason: String,
    },
}

impl DataDirectory {
    /// Takes the directory at `path`, which is made if it is not there. From then on no other process can.
    ///
    /// # Errors
    /// Someone else has it, it is not ours, or the system refuses.
    pub(super) fn open(path: &Path) -> Result<Self, DataDirectoryError> {
        let unusable = unusable(path);
        fs::create_dir_all(path).map_err(|error| unusable("it can't be made", &error))?;
        // Before anything is put into it.
        if !is_ours(path).map_err(|error| unusable("it can't be listed", &error))? {
            return Err(DataDirectoryError::Foreign {
                path: path.to_owned(),
            });
        }
        let lock = take(path)?;
        match version(path).map_err(|error| unusable("VERSION can't be read", &error))? {
            Some(VERSION) => {}
            Some(version) => {
                return Err(DataDirectoryError::Newer {
                    path: path.to_owned(),
                    version,
                });
            }
            None => {
                write_version(path)
                    .map_err(|error| unusable("VERSION can't be written", &error))?;
            }
        }
        let manifest = Manifest::read(path)
            .map_err(|error| unusable(&format!("{FILE} can't be read"), &error))?;
        let hubs = path.join(HUBS);
        fs::create_dir_all(&hubs).map_err(|error| unusable("hubs can't be made", &error))?;
        Ok(Self {
            path: path.to_owned(),
            manifest,
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of queues and topics, which is made when there are some.
    pub(super) fn queues(&self) -> PathBuf {
        self.path.join(QUEUES)
    }

    /// The folder of a partition of a hub.
    pub(super) fn folder(&self, hub: &KeptHub, partition: u16) -> PathBuf {
        self.path.join(HUBS).join(hub.folder(partition))
    }

    /// The folders that are there, by their names.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn folders(&self) -> Result<HashSet<String>, DataDirectoryError> {
        names(&self.path.join(HUBS))
            .map(HashSet::from_iter)
            .map_err(|error| self.unusable("hubs can't be listed", &error))
    }

    /// Removes the folders of a hub that the manifest does not name any longer.
    pub(super) fn remove_folders(&self, hub: &KeptHub) {
        for partition in 0..hub.partitions {
            self.remove(&self.folder(hub, partition));
        }
    }

    /// Removes those of `folders` that belong to no hub: what deletions left that did not come to their end.
    pub(super) fn remove_leftovers(&self, mut folders: HashSet<String>) {
        for hub in self.manifest.hubs() {
            for partition in 0..hub.partitions {
                // Nearly always there is nothing to look for.
                if folders.is_empty() {
                    return;
                }
                folders.remove(&hub.folder(partition));
            }
        }
        // Only what has the form of a folder of ours; what else someone put there is theirs.
        for name in folders.iter().filter(|name| name.contains('~')) {
            self.remove(&self.path.join(HUBS).join(name));
        }
    }

    /// Puts a manifest in the place of the one that is there.
    ///
    /// # Errors
    /// What the system said; what was there before is still there.
    pub(super) fn save(&self, manifest: Manifest) -> Result<Manifest, DataDirectoryError> {
        manifest
            .write(&self.path)
            .map_err(|error| self.unusable(&format!("{FILE} can't be written"), &error))?;
        Ok(manifest)
    }

    pub(super) fn unusable(&self, what: &str, error: &dyn std::fmt::Display) -> DataDirectoryError {
        unusable(&self.path)(what, error)
    }

    /// Renames first: a write under way must not put a file into a folder that is being removed.
    fn remove(&self, folder: &Path) {
        let condemned = match folder.file_name().and_then(OsStr::to_str) {
            Some(name) if !name.starts_with(DELETED) => {
                let condemned = folder.with_file_name(format!("{DELETED}{name}"));
                match fs::rename(folder, &condemned) {
                    Ok(()) => condemned,
                    // Most partitions of most hubs never get an event.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return,
                    Err(_) => folder.to_owned(),
                }
            }
            _ => folder.to_owned(),
        };
        match fs::remove_dir_all(&condemned) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                // It is no hub's any longer, so the next start tries again.
                tracing::warn!(folder = %condemned.display(), %error, "a deleted hub's folder can't be removed");
            }
            _ => {}
        }
    }
}

fn by(process: Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" by process {process}"))
}

fn unusable(path: &Path) -> impl Fn(&str, &dyn std::fmt::Display) -> DataDirectoryError {
    move |what, error| DataDirectoryError::Unusable {
        path: path.to_owned(),
        reason: format!("{what}: {error}"),
    }
}

/// Whether the directory says that it is one of ours.
pub(super) fn is_marked(path: &Path) -> io::Result<bool> {
    match fs::read(path.join(VERSION_FILE)) {
        Ok(text) => Ok(text.starts_with(MARK.as_bytes())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the directory has our mark, or is empty but for what a start that was cut short leaves.
fn is_ours(path: &Path) -> io::Result<bool> {
    let harmless = [LOCK, NEW_VERSION_FILE, NEW_FILE, LOST_AND_FOUND, TLS];
    Ok(is_marked(path)?
        || names(path)?
            .iter()
            .all(|name| harmless.contains(&name.as_str())))
}

/// Locks the directory, and says who has it where that can't be done.
fn take(path: &Path) -> Result<File, DataDirectoryError> {
    let unusable = unusable(path);
    let mut file = File::options()
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
    Ok(file)
}

/// The version that the directory says it has.
fn version(path: &Path) -> io::Result<Option<u32>> {
    match fs::read_to_string(path.join(VERSION_FILE)) {
        Ok(text) => text
            .strip_prefix(MARK)
            .and_then(|number| number.trim().parse().ok())
            .map(Some)
            .ok_or_else(|| io::Error::other(format!("`{}` names no version", text.trim()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_version(path: &Path) -> io::Result<()> {
    let new = path.join(NEW_VERSION_FILE);
    let mut file = File::create(&new)?;
    writeln!(file, "{MARK}{VERSION}")?;
    file.sync_all()?;
    fs::rename(&new, path.join(VERSION_FILE))?;
    File::open(path)?.sync_all()
}

/// The names in a directory that are text; ours all are.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let name =
        |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    fs::read_dir(directory)?.map(name).collect()
}

/// The form of data directories that this program writes, and the newest that it reads.
const VERSION: u32 = 1;

/// What the file of the version begins with.
const MARK: &str = "parshall data directory, version ";

/// Made before the directory is one of ours: listeners come first.
pub(super) const TLS: &str = "tls";

const VERSION_FILE: &str = "VERSION";
const NEW_VERSION_FILE: &str = "VERSION.new";
const LOCK: &str = "LOCK";
const HUBS: &str = "hubs";
const QUEUES: &str = "queues";

/// What the folders of deleted hubs begin with; no hub's folder does, since no name begins with an underscore.
const DELETED: &str = "_deleted-";

/// What is in the topmost directory of some file systems.
const LOST_AND_FOUND: &str = "lost+found";
