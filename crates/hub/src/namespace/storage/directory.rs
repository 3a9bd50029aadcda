//! The data directory itself: that it is ours, that nobody else has it, and what is in it.
//!
//! ```text
//!  LOCK            locked for as long as a process has the directory; its process id inside
//!  VERSION         that this is such a directory, and of which form
//!  manifest.json   the hubs, queues and topics; older than VERSION
//!  manifest.changes   what clients have done to queues and topics since, if anything
//!  hubs/
//!    orders~1.0/   one folder per partition, made when it gets its first event
//!    orders~1.2/
//!  queues/         one folder per queue or topic, where there are any
//!  kafka/          the journal of the coordinators of Kafka's groups and transactions, from its first record on
//! ```
//!
//! Folders are made one by one on some file systems' own time, half a millisecond each where it was measured: so declaring
//! a hub makes none, and there is none per hub.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::changes::{self, Appended, ChangeLog, ReadChanges};
use super::lock::{LOCK, Lock, lock};
use super::manifest::{EntityChange, FILE, KeptHub, Manifest, NEW_FILE};
use super::version::{
    FIRST_WITH_CHANGES, FIRST_WITH_COORDINATORS, FIRST_WITH_MANIFEST, FIRST_WITH_PRODUCERS,
    FIRST_WITH_RECORD_BATCHES, FIRST_WITH_TOPIC_SETTINGS, FIRST_WITH_TRANSACTIONS, NEW_VERSION_FILE, VERSION,
    VERSION_FILE, is_marked, version, write_version,
};
use partition_log::disk::Verification;
use partition_log::owner_only;
use queue_store::QueueStore;

/// A data directory that this process has.
#[derive(Debug)]
pub(super) struct DataDirectory {
    path: PathBuf,
    pub(super) manifest: Manifest,
    pub(super) changes: ChangeLog,
    /// How long the manifest was when it was written last, in bytes.
    manifest_length: u64,
    version: u32,
    /// Locked until it is closed.
    _lock: Lock,
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
        "the data directory {} has version {version}; this program supports versions up to {VERSION}", path.display()
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// It holds something, and none of it is ours.
    #[error("the directory {} is not empty and is not a data directory", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// It was never a data directory.
    #[error("{} is not a data directory: it has no file {VERSION_FILE}", path.display())]
    NotOne {
        /// The directory.
        path: PathBuf,
    },
    /// A file that every data directory has is not there.
    #[error(
        "{file} is missing from the data directory {}, which contains {found}; without it the directory \
         can't be served: restore {file}, or use another directory; nothing was changed",
        path.display()
    )]
    Missing {
        /// The directory.
        path: PathBuf,
        /// The file.
        file: &'static str,
        /// What says that it was there.
        found: String,
    },
    /// There is data of something that the manifest does not name.
    #[error(
        "{} holds data of a {kind} that {FILE} does not name, so {FILE} is older than the data, or was changed; {advice}; \
         nothing was changed",
        folder.display()
    )]
    Unnamed {
        /// The folder.
        folder: PathBuf,
        /// What it is of.
        kind: &'static str,
        /// What can be done.
        advice: &'static str,
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
        owner_only::create_directories(path).map_err(|error| unusable("it can't be made", &error))?;
        // Before anything is put into it.
        if !is_ours(path).map_err(|error| unusable("it can't be listed", &error))? {
            return Err(match Manifest::read(path) {
                Ok(Some(_)) => missing(path, VERSION_FILE, FILE),
                _ => DataDirectoryError::Foreign { path: path.to_owned() },
            });
        }
        Self::take(path)
    }

    /// Takes the directory at `path`, which is ours or empty.
    fn take(path: &Path) -> Result<Self, DataDirectoryError> {
        let unusable = unusable(path);
        let lock = lock(path)?;
        let manifest =
            Manifest::read(path).map_err(|error| unusable(&format!("{FILE} can't be read"), &error))?;
        let version = version(path).map_err(|error| unusable("VERSION can't be read", &error))?;
        let (mut manifest, version) = match (version, manifest) {
            (Some(version), _) if version > VERSION => {
                return Err(DataDirectoryError::Newer { path: path.to_owned(), version });
            }
            (Some(version), Some(manifest)) => (manifest, version),
            (Some(FIRST_WITH_MANIFEST..), None) => return Err(missing(path, FILE, VERSION_FILE)),
            (Some(version), None) => {
                let kept = kept_hub_folder(path).map_err(|error| unusable("hubs can't be listed", &error))?;
                match kept {
                    Some(folder) => return Err(missing(path, FILE, &folder)),
                    // The first form had a manifest only once there were hubs.
                    None => (Manifest::default(), version),
                }
            }
            (None, _) => {
                let manifest = Manifest::default();
                // First, so that where VERSION is the manifest is as well.
                let written = manifest.write(path);
                written.map_err(|error| unusable(&format!("{FILE} can't be written"), &error))?;
                write_version(path, FIRST_WITH_MANIFEST)
                    .map_err(|error| unusable("VERSION can't be written", &error))?;
                (manifest, FIRST_WITH_MANIFEST)
            }
        };
        let read = ReadChanges::read(path, manifest.last_change());
        let read = read.map_err(|error| unusable(&format!("{} can't be read", changes::FILE), &error))?;
        if read.torn > 0 {
            let file = changes::FILE;
            tracing::warn!(directory = %path.display(), bytes = read.torn, "{file} has a torn end, of a change that nobody was told of; it is left out");
        }
        let length = read.length;
        for (number, change) in read.changes {
            manifest.apply(number, change);
        }
        let changes = ChangeLog::new(path, length, manifest.last_change());
        let hubs = path.join(HUBS);
        owner_only::create_directories(&hubs).map_err(|error| unusable("hubs can't be made", &error))?;
        Ok(Self { path: path.to_owned(), manifest, changes, manifest_length: 0, version, _lock: lock })
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
        names_in(&self.path.join(HUBS))
            .map(HashSet::from_iter)
            .map_err(|error| self.unusable("hubs can't be listed", &error))
    }

    /// Removes the folders of a hub that a client has deleted, and says whether all are gone.
    pub(super) fn remove_folders(&self, hub: &KeptHub) -> bool {
        let mut is_gone = true;
        for partition in 0..hub.partitions {
            is_gone &= self.remove(&self.folder(hub, partition));
        }
        is_gone
    }

    /// Those of `folders` that deletions have left which did not come to their end.
    ///
    /// # Errors
    /// There is a folder with something in it that is neither a hub's of `manifest` nor a deleted one's.
    pub(super) fn leftovers(
        &self,
        manifest: &Manifest,
        folders: &HashSet<String>,
    ) -> Result<Vec<PathBuf>, DataDirectoryError> {
        let mut unknown: HashSet<&str> = folders.iter().map(String::as_str).collect();
        for hub in manifest.hubs() {
            for partition in 0..hub.partitions {
                // Nearly always there is nothing to look for.
                if unknown.is_empty() {
                    return Ok(Vec::new());
                }
                unknown.remove(&*hub.folder(partition));
            }
        }
        let mut leftovers = Vec::new();
        for name in unknown {
            let folder = self.path.join(HUBS).join(name);
            let original = name.strip_prefix(DELETED).unwrap_or(name);
            // What else someone put there is theirs.
            let Some(number) = KeptHub::number_of_folder(original).filter(|_| folder.is_dir()) else {
                continue;
            };
            if name.starts_with(DELETED) || manifest.is_deleted(number) {
                leftovers.push(folder);
            } else if !is_empty(&folder)
                .map_err(|error| self.unusable(&format!("{HUBS}/{name} can't be listed"), &error))?
            {
                return Err(DataDirectoryError::Unnamed {
                    folder,
                    kind: "hub",
                    advice: "restore the right one, or move the folder away",
                });
            }
        }
        Ok(leftovers)
    }

    /// Removes what [`leftovers`](Self::leftovers) has found.
    pub(super) fn remove_leftovers(&self, leftovers: &[PathBuf]) {
        for folder in leftovers {
            self.remove(folder);
        }
    }

    /// Makes the folder of a queue or topic, which comes before anything names it: a named one without a folder is one whose
    /// folder somebody has removed.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn make_queue_folder(&self, name: &str) -> Result<(), DataDirectoryError> {
        let queues = self.queues();
        let folder = queues.join(QueueStore::folder(name));
        let made = match owner_only::create_directory(&folder) {
            // That of all of them comes with the first one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => owner_only::create_directories(&folder),
            made => made,
        };
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(self.unusable(&format!("the folder of '{name}' can't be made"), &error))
            }
            _ => Ok(()),
        }
    }

    /// Removes the folder of a queue or topic that a client has deleted, and says whether it is gone.
    pub(super) fn remove_queue_folder(&self, name: &str) -> bool {
        let is_gone = self.remove(&self.queues().join(QueueStore::folder(name)));
        // Another one may have the name next, and must not find what is in there, whatever happens to the machine.
        is_gone && partition_log::durable_file::sync_folder(&self.queues()).is_ok()
    }

    /// Removes what deletions of queues and topics have left which did not come to their end. Those of `manifest` that are gone are
    /// forgotten.
    ///
    /// # Errors
    /// A folder can't be removed.
    pub(super) fn remove_queue_leftovers(&self, manifest: &mut Manifest) -> Result<(), DataDirectoryError> {
        let queues = self.queues();
        for name in names_in(&queues).unwrap_or_default() {
            if name.starts_with(DELETED) {
                self.remove(&queues.join(name));
            }
        }
        for name in manifest.deleted_queues() {
            if queues.join(QueueStore::folder(name)).is_dir() && !self.remove_queue_folder(name) {
                let what =
                    format!("{QUEUES}/{}, which was deleted, can't be removed", QueueStore::folder(name));
                return Err(self.unusable(&what, &"see the warning before this"));
            }
        }
        manifest.forget_deleted_queues();
        Ok(())
    }

    /// Whether all folders with messages are of one of these queues and topics.
    ///
    /// # Errors
    /// One is of something else.
    pub(super) fn check_queue_folders<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<(), DataDirectoryError> {
        let queues = self.queues();
        let folders: HashSet<String> = match names_in(&queues) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => HashSet::new(),
            result => {
                let names = result.map_err(|error| self.unusable("queues can't be listed", &error))?;
                names.into_iter().collect()
            }
        };
        for name in self.manifest.queue_names() {
            if !folders.contains(&QueueStore::folder(name)) {
                tracing::error!(
                    entity = name,
                    directory = %queues.display(),
                    "the folder of a queue or topic is missing; it starts empty"
                );
            }
        }
        let known: HashSet<String> = names.map(QueueStore::folder).collect();
        for name in folders {
            let folder = queues.join(&name);
            let is_ours =
                known.contains(&name) || name.starts_with(DELETED) || name == QueueStore::TRANSACTIONS_FOLDER;
            if is_ours || !folder.is_dir() {
                continue;
            }
            let is_empty = is_empty(&folder)
                .map_err(|error| self.unusable(&format!("{QUEUES}/{name} can't be listed"), &error))?;
            if !is_empty {
                return Err(DataDirectoryError::Unnamed {
                    folder,
                    kind: "queue or topic",
                    advice: "restore the right one, declare the queue or topic as it was, or move the folder away",
                });
            }
        }
        Ok(())
    }

    /// Puts a manifest in the place of the one that is there, on disk and in here. The log of changes begins anew.
    ///
    /// # Errors
    /// What the system said; what was there before is still there.
    pub(super) fn save(&mut self, mut manifest: Manifest) -> Result<(), DataDirectoryError> {
        let last = self.changes.last();
        manifest.set_last_change(last);
        match manifest.write(&self.path) {
            Ok(length) => self.manifest_length = length,
            Err(error) => {
                if Manifest::is_in_place(&error) {
                    self.restore_manifest(last);
                }
                return Err(self.unusable(&format!("{FILE} can't be written"), &error));
            }
        }
        self.manifest = manifest;
        self.changes.restart();
        Ok(())
    }

    /// Writes the manifest that another one has replaced which was not sure to stay: its change is refused.
    fn restore_manifest(&mut self, last_change: u64) {
        self.manifest.set_last_change(last_change);
        if let Err(error) = self.manifest.write(&self.path)
            && !Manifest::is_in_place(&error)
        {
            tracing::error!(
                directory = %self.path.display(),
                %error,
                "the former {FILE} can't be restored; a restart before the next change finds a change that was refused"
            );
        }
    }

    /// Puts a manifest in the place of the one that was there at the start, if it is another, and makes a directory of an
    /// older form one of ours.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn save_first(&mut self, manifest: Manifest) -> Result<(), DataDirectoryError> {
        if self.version < FIRST_WITH_MANIFEST || manifest != self.manifest || self.changes.length() > 0 {
            for name in manifest.queue_names().filter(|name| !self.manifest.has_queue_or_topic(name)) {
                self.make_queue_folder(name)?;
            }
            self.save(manifest)?;
        }
        self.raise_version(FIRST_WITH_MANIFEST)
    }

    /// Appends a change of queues and topics to the log of changes. It is not made in here yet.
    ///
    /// # Errors
    /// What the system said; nothing has changed then.
    pub(super) fn append(&mut self, change: &EntityChange) -> Result<(u64, Appended), DataDirectoryError> {
        self.raise_version(FIRST_WITH_CHANGES)?;
        // So that the log is read in no more time than the manifest, and written again as seldom as that takes.
        if self.changes.has_failed() || self.changes.length() > self.manifest_length.max(SHORT_LOG) {
            self.save(self.manifest.clone())?;
        }
        let file = changes::FILE;
        self.changes
            .append(change)
            .map_err(|error| self.unusable(&format!("{file} can't be written"), &error))
    }

    /// Lets logs hold batches that bear the stamp of a producer, which older programs can't read.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn admit_producers(&mut self) -> Result<(), DataDirectoryError> {
        self.raise_version(FIRST_WITH_PRODUCERS)
    }

    /// Lets logs hold record batches of Kafka.
    pub(super) fn admit_record_batches(&mut self) -> Result<(), DataDirectoryError> {
        self.raise_version(FIRST_WITH_RECORD_BATCHES)
    }

    /// Lets logs hold transactions, and start behind records that were deleted.
    pub(super) fn admit_transactions(&mut self) -> Result<(), DataDirectoryError> {
        self.raise_version(FIRST_WITH_TRANSACTIONS)
    }

    /// Lets the manifest have settings that clients have given to hubs.
    pub(super) fn admit_topic_settings(&mut self) -> Result<(), DataDirectoryError> {
        self.raise_version(FIRST_WITH_TOPIC_SETTINGS)
    }

    /// The folder of the coordinators' journal, which is made with its first record.
    pub(super) fn coordinators(&self) -> PathBuf {
        self.path.join(COORDINATORS)
    }

    /// Lets the directory hold the coordinators' journal.
    pub(super) fn admit_coordinators(&mut self) -> Result<(), DataDirectoryError> {
        self.raise_version(FIRST_WITH_COORDINATORS)
    }

    /// Whether it may hold the coordinators' journal already.
    pub(super) const fn admits_coordinators(&self) -> bool {
        self.version >= FIRST_WITH_COORDINATORS
    }

    /// Makes the directory one of `version` at least.
    fn raise_version(&mut self, version: u32) -> Result<(), DataDirectoryError> {
        if self.version < version {
            write_version(&self.path, version)
                .map_err(|error| self.unusable("VERSION can't be written", &error))?;
            self.version = version;
        }
        Ok(())
    }

    pub(super) fn unusable(&self, what: &str, error: &dyn std::fmt::Display) -> DataDirectoryError {
        unusable(&self.path)(what, error)
    }

    /// Renames first: a write under way must not put a file into a folder that is being removed. Says whether it is gone.
    fn remove(&self, folder: &Path) -> bool {
        let condemned = match folder.file_name().and_then(OsStr::to_str) {
            Some(name) if !name.starts_with(DELETED) => {
                let condemned = folder.with_file_name(format!("{DELETED}{name}"));
                match fs::rename(folder, &condemned) {
                    Ok(()) => condemned,
                    // Most partitions of most hubs never get an event.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
                    Err(_) => folder.to_owned(),
                }
            }
            _ => folder.to_owned(),
        };
        match fs::remove_dir_all(&condemned) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                // It is no hub's any longer, so the next start tries again.
                tracing::warn!(folder = %condemned.display(), %error, "the folder of something that was deleted can't be removed");
                false
            }
            _ => true,
        }
    }
}

fn missing(path: &Path, file: &'static str, found: &str) -> DataDirectoryError {
    DataDirectoryError::Missing { path: path.to_owned(), file, found: found.to_owned() }
}

/// A folder of a hub in which there is something, by its path in the directory.
fn kept_hub_folder(path: &Path) -> io::Result<Option<String>> {
    let hubs = path.join(HUBS);
    let folders = match names_in(&hubs) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result?,
    };
    for name in folders {
        let folder = hubs.join(&name);
        if KeptHub::number_of_folder(&name).is_some() && folder.is_dir() && !is_empty(&folder)? {
            return Ok(Some(format!("{HUBS}/{name}")));
        }
    }
    Ok(None)
}

fn is_empty(folder: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(folder)?.next().is_none())
}

fn by(process: Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" by process {process}"))
}

pub(super) fn unusable(path: &Path) -> impl Fn(&str, &dyn std::fmt::Display) -> DataDirectoryError {
    move |what, error| DataDirectoryError::Unusable {
        path: path.to_owned(),
        reason: format!("{what}: {error}"),
    }
}

/// Reads all events and journals in the data directory at `path`, which no service may have, and changes nothing. Blobs are not
/// read.
///
/// # Errors
/// There is no data directory, a service has it, or it can't be read as a whole.
pub fn verify(path: &Path) -> Result<Verification, DataDirectoryError> {
    let unusable = unusable(path);
    if !is_marked(path).map_err(|error| unusable("VERSION can't be read", &error))? {
        return Err(DataDirectoryError::NotOne { path: path.to_owned() });
    }
    let directory = DataDirectory::take(path)?;
    partition_log::disk::verify(&directory.path).map_err(|error| unusable("it can't be read", &error))
}

/// Whether the directory has our mark, or is empty but for what a start that was cut short leaves.
fn is_ours(path: &Path) -> io::Result<bool> {
    let harmless = [LOCK, NEW_VERSION_FILE, NEW_FILE, LOST_AND_FOUND, TLS];
    // The manifest of a start that was cut short before it had made the directory ours.
    let is_first =
        |name: &str| name == FILE && Manifest::read(path).is_ok_and(|it| it == Some(Manifest::default()));
    Ok(is_marked(path)?
        || names_in(path)?.iter().all(|name| harmless.contains(&name.as_str()) || is_first(name)))
}

/// The names in a directory that are text; ours all are.
fn names_in(directory: &Path) -> io::Result<Vec<String>> {
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    fs::read_dir(directory)?.map(name).collect()
}

/// Made before the directory is one of ours: listeners come first.
pub(super) const TLS: &str = "tls";

/// Up to this length in bytes the log of changes goes on, however short the manifest is.
const SHORT_LOG: u64 = 1 << 20;

const HUBS: &str = "hubs";
const QUEUES: &str = "queues";
const COORDINATORS: &str = "kafka";

/// Prefix of the folders of deleted hubs and queues; no other folder has it.
const DELETED: &str = QueueStore::DELETED;

/// What is in the topmost directory of some file systems.
const LOST_AND_FOUND: &str = "lost+found";
