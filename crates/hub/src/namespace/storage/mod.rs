//! Hubs that outlive the process: where they are kept, and the committer that brings their events there.
//!
//! * `directory` is the data directory: whose it is, and what is in it; `lock` and `version` are two of its files.
//! * `manifest` says which hubs, queues and topics there are, `changes` what clients have done to the latter since it was written.
//! * `entities` keeps what is done to queues and topics, `opening` opens the logs of hubs.
//!
//! A hub is created by opening its logs first, which makes no file, and naming it in the manifest then. It is deleted in
//! the opposite order: the manifest names it as deleted until its folders are gone, so that the next start goes on where
//! a crash came in between. Nothing else is ever removed: data that the manifest does not account for refuses the start.

mod changes;
mod directory;
mod entities;
mod lock;
mod manifest;
mod opening;
mod version;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::config::HubConfig;
use super::hub::Hub;
use super::queue_config::{QueueConfig, TopicConfig};
use super::topic_settings::TopicSettings;
use directory::DataDirectory;
pub use directory::{DataDirectoryError, verify};
pub(super) use entities::Kept;
use manifest::KeptHub;
use opening::OpenedLog;
use partition_log::UnixTime;
use partition_log::disk::{
    Committer, OpenError, PartitionDirectory, Presence, RecoveryReport, StorageOptions, SystemFiles,
};
use partition_log::{BlockPool, LogLimits, PartitionLog, WhenFull};
use queue_store::QueueStore;
use units::ByteSize;

/// Where a namespace keeps its hubs, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageConfig {
    /// The data directory. It is made if it is not there, and one process has it at a time.
    pub directory: PathBuf,
    /// How events are kept in it.
    #[serde(default)]
    pub options: StorageOptions,
}

impl StorageConfig {
    /// Whether the data directory was never one before: what hubs are in one that was is decided already.
    #[must_use]
    pub fn is_new(&self) -> bool {
        !version::is_marked(&self.directory).unwrap_or(false)
    }

    /// Makes the directory, readable for its owner alone, if it is not there.
    ///
    /// # Errors
    /// What the system says.
    pub fn make_directory(&self) -> std::io::Result<()> {
        partition_log::owner_only::create_directories(&self.directory)
    }

    /// Where beneath the data directory the certificate for TLS and its authority have their place.
    #[must_use]
    pub fn tls_directory(&self) -> PathBuf {
        self.directory.join(directory::TLS)
    }
}

/// The data directory of a namespace at work.
#[derive(Debug)]
pub(super) struct Storage {
    directory: DataDirectory,
    committer: Arc<Committer>,
    /// The limits of each log of hubs that declare none.
    default_log: LogLimits,
    /// The paths, in lower case, of entities that are kept and not there yet.
    reserved: HashSet<String>,
}

/// The log of the coordinators' journal.
#[derive(Debug)]
pub(crate) struct CoordinatorLog {
    pub(crate) log: Arc<PartitionLog>,
    pub(crate) path: PathBuf,
    /// Whether the directory may hold it already.
    pub(super) is_admitted: bool,
}

/// Why a declared hub does not come to be.
#[derive(Debug)]
pub(super) enum DeclarationError {
    /// It makes no sense.
    Hub(super::hub::HubError),
    /// It can't be kept.
    DataDirectory(DataDirectoryError),
}

impl Storage {
    /// Takes the data directory and starts the committer.
    ///
    /// # Errors
    /// The directory can't be had.
    pub(super) fn open(config: &StorageConfig, default_log: LogLimits) -> Result<Self, DataDirectoryError> {
        let directory = DataDirectory::open(&config.directory)?;
        let committer = Committer::start(config.options, Arc::new(SystemFiles))
            .map_err(|error| directory.unusable("the committer can't be started", &error))?;
        Ok(Self { directory, committer, default_log, reserved: HashSet::new() })
    }

    /// All queues and topics: those that are declared, and those that are kept besides.
    pub(super) fn merged_queues(
        &self,
        queues: &[QueueConfig],
        topics: &[TopicConfig],
    ) -> (Vec<QueueConfig>, Vec<TopicConfig>) {
        let manifest = &self.directory.manifest;
        (manifest.merged_queues(queues), manifest.merged_topics(topics))
    }

    /// What the namespace is called as a cluster of Kafka, once its hubs are open.
    pub(super) fn cluster_id(&self) -> Option<&str> {
        self.directory.manifest.cluster_id()
    }

    /// The names of the hubs that are kept.
    pub(super) fn hub_names(&self) -> impl Iterator<Item = &str> {
        let hubs = self.directory.manifest.hubs().iter();
        hubs.map(|kept| kept.name.as_str())
    }

    /// All hubs: those that are kept, with what `declared` adds to them, and those of `declared` that are new. The place
    /// in `declared` goes with each error. The manifest is only changed if everything is well; then it names these queues
    /// and topics, too.
    pub(super) fn open_hubs(
        &mut self,
        declared: &[HubConfig],
        (queues, topics): (&[QueueConfig], &[TopicConfig]),
        pool: &Arc<BlockPool>,
        now: UnixTime,
    ) -> Result<Vec<Arc<Hub>>, (Option<usize>, DeclarationError)> {
        let mut manifest = self.directory.manifest.clone();
        let places: HashMap<String, usize> = manifest
            .hubs()
            .iter()
            .enumerate()
            .map(|(place, kept)| (kept.name.to_ascii_lowercase(), place))
            .collect();
        for (index, config) in declared.iter().enumerate() {
            // Whatever is kept of it already: what is declared must make sense by itself.
            Hub::check(config).map_err(|error| (Some(index), DeclarationError::Hub(error)))?;
            match places.get(&config.name.to_ascii_lowercase()) {
                Some(place) => self
                    .merge(manifest.hub_mut(*place), config)
                    .map_err(|error| (Some(index), DeclarationError::DataDirectory(error)))?,
                None => drop(manifest.add(config, now)),
            }
        }
        manifest.set_default_log(self.default_log);
        let place_of = |name: &str| declared.iter().position(|config| config.name.eq_ignore_ascii_case(name));
        let of_directory = |error| (None, DeclarationError::DataDirectory(error));
        let folders = self.directory.folders().map_err(of_directory)?;
        let leftovers = self.directory.leftovers(&manifest, &folders);
        let leftovers = leftovers.map_err(of_directory)?;
        let queue_names = queues.iter().map(|queue| queue.name.as_str());
        let topic_names = topics.iter().map(|topic| topic.name.as_str());
        self.directory.remove_queue_leftovers(&mut manifest).map_err(of_directory)?;
        self.directory.check_queue_folders(queue_names.chain(topic_names)).map_err(of_directory)?;
        let directories = manifest.hubs().iter().flat_map(|kept| self.directories(kept, &folders)).collect();
        let mut opened = opening::open_logs(directories, pool).into_iter();
        let mut hubs = Vec::with_capacity(manifest.hubs().len());
        for kept in manifest.hubs() {
            let logs = opened.by_ref().take(kept.partitions.into());
            let (hub, report) = self.assemble(kept, logs).map_err(|error| (place_of(&kept.name), error))?;
            if is_worth_telling(&report) {
                tracing::info!(hub = kept.name, "{report}");
            }
            hubs.push(hub);
        }
        // Those of the start before this one are gone by now, or among the leftovers.
        let is_gone = |number: u64| {
            let mut names = folders.iter();
            !names.any(|name| KeptHub::number_of_folder(name) == Some(number))
        };
        manifest.forget_deleted(is_gone);
        manifest.set_queues(queues, topics, now);
        manifest.name_cluster();
        self.directory.save_first(manifest).map_err(of_directory)?;
        self.directory.remove_leftovers(&leftovers);
        Ok(hubs)
    }

    /// Creates a hub and keeps it.
    pub(super) fn create_hub(
        &mut self,
        config: &HubConfig,
        pool: &Arc<BlockPool>,
        now: UnixTime,
    ) -> Result<Arc<Hub>, DeclarationError> {
        let mut manifest = self.directory.manifest.clone();
        let kept = manifest.add(config, now);
        manifest.set_default_log(self.default_log);
        // A new number, so there can be no folder.
        let directories = self.directories(&kept, &HashSet::new());
        let logs = opening::open_logs(directories, pool);
        let (hub, _report) = self.assemble(&kept, logs.into_iter())?;
        if !kept.settings().is_empty() {
            self.directory.admit_topic_settings().map_err(DeclarationError::DataDirectory)?;
        }
        self.directory.save(manifest).map_err(DeclarationError::DataDirectory)?;
        Ok(hub)
    }

    /// Keeps that a hub has more partitions, `count` in all, and gives the logs of those that are new.
    pub(super) fn grow_hub(
        &mut self,
        name: &str,
        count: u16,
        limits: LogLimits,
        pool: &Arc<BlockPool>,
    ) -> Result<Vec<Arc<PartitionLog>>, DeclarationError> {
        let mut manifest = self.directory.manifest.clone();
        let mut logs = Vec::new();
        if let Some(kept) = manifest.find_mut(name) {
            let first = kept.grow(count);
            // No partition ever had these numbers, so there can be no folder.
            let directories = self.directories(kept, &HashSet::new()).split_off(first.into());
            let directories = directories.into_iter().map(|(_, directory)| (limits, directory)).collect();
            for opened in opening::open_logs(directories, pool) {
                logs.push(opened.map_err(|error| self.unopened(&error))?.log);
            }
        }
        self.directory.save(manifest).map_err(DeclarationError::DataDirectory)?;
        Ok(logs)
    }

    /// Stores the settings that clients have given to a hub.
    pub(super) fn keep_settings(
        &mut self,
        hub: &str,
        settings: &TopicSettings,
    ) -> Result<(), DataDirectoryError> {
        let mut manifest = self.directory.manifest.clone();
        if let Some(kept) = manifest.find_mut(hub) {
            kept.set_settings(settings.clone());
        }
        self.directory.admit_topic_settings()?;
        self.directory.save(manifest)?;
        Ok(())
    }

    /// Forgets a hub. Its files are still there: [`remove_files`](Self::remove_files).
    pub(super) fn forget_hub(&mut self, name: &str) -> Result<Option<KeptHub>, DataDirectoryError> {
        let mut manifest = self.directory.manifest.clone();
        let forgotten = manifest.remove(name);
        self.directory.save(manifest)?;
        Ok(forgotten)
    }

    /// Removes the files of a hub that was forgotten and whose logs are retired.
    pub(super) fn remove_files(&mut self, hub: &KeptHub) {
        if self.directory.remove_folders(hub) {
            // It is on disk with the next change.
            self.directory.manifest.forget_deleted(|number| number == hub.number());
        }
    }

    /// Lets logs hold batches that bear the stamp of a producer.
    pub(super) fn admit_producers(&mut self) -> Result<(), DataDirectoryError> {
        self.directory.admit_producers()
    }

    /// Lets logs hold record batches of Kafka.
    pub(super) fn admit_record_batches(&mut self) -> Result<(), DataDirectoryError> {
        self.directory.admit_record_batches()
    }

    /// Lets logs hold transactions, and start behind records that were deleted.
    pub(super) fn admit_transactions(&mut self) -> Result<(), DataDirectoryError> {
        self.directory.admit_transactions()
    }

    /// Stores a new consumer group of a hub.
    pub(super) fn keep_consumer_group(&mut self, hub: &str, group: &str) -> Result<(), DataDirectoryError> {
        self.change_consumer_groups(hub, |kept| kept.push(group.to_owned()))
    }

    /// Forgets a consumer group of a hub.
    pub(super) fn forget_consumer_group(&mut self, hub: &str, group: &str) -> Result<(), DataDirectoryError> {
        self.change_consumer_groups(hub, |kept| {
            kept.retain(|kept| !kept.eq_ignore_ascii_case(group));
        })
    }

    fn change_consumer_groups(
        &mut self,
        hub: &str,
        change: impl FnOnce(&mut Vec<String>),
    ) -> Result<(), DataDirectoryError> {
        let mut manifest = self.directory.manifest.clone();
        if let Some(kept) = manifest.find_mut(hub) {
            change(&mut kept.consumer_groups);
        }
        self.directory.save(manifest)?;
        Ok(())
    }

    /// The store of queues and topics. They find what they held when they are made again under their names.
    ///
    /// # Errors
    /// The system does not let it be.
    pub(super) fn open_queues(&self, pool: &Arc<BlockPool>) -> Result<Arc<QueueStore>, DataDirectoryError> {
        QueueStore::open(&self.directory.queues(), Arc::clone(&self.committer), Arc::clone(pool))
            .map_err(|error| self.directory.unusable("the queues can't be opened", &error))
    }

    /// The log of the coordinators' journal.
    ///
    /// # Errors
    /// It can't be read as a whole.
    pub(super) fn open_coordinator_log(
        &self,
        pool: &Arc<BlockPool>,
    ) -> Result<CoordinatorLog, DataDirectoryError> {
        let path = self.directory.coordinators();
        let presence = match self.has_coordinator_log() {
            true => Presence::Present,
            false => Presence::Absent,
        };
        let limits = LogLimits {
            // The coordinators keep it short, and retention must not.
            bytes: ByteSize::from_bytes(u64::MAX),
            when_full: WhenFull::Retention,
            retention: None,
        };
        let committer = Arc::clone(&self.committer);
        let directory = PartitionDirectory { path: path.clone(), presence, committer };
        let (log, report) = PartitionLog::open(limits, Arc::clone(pool), directory)
            .map_err(|error| self.directory.unusable("the journal of Kafka's coordinators", &error))?;
        if is_worth_telling(&report) {
            tracing::info!(journal = %path.display(), "{report}");
        }
        Ok(CoordinatorLog { log, path, is_admitted: self.directory.admits_coordinators() })
    }

    /// Whether the coordinators have a journal from before.
    pub(super) fn has_coordinator_log(&self) -> bool {
        self.directory.coordinators().is_dir()
    }

    /// Lets the directory hold the coordinators' journal.
    pub(super) fn admit_coordinators(&mut self) -> Result<(), DataDirectoryError> {
        self.directory.admit_coordinators()
    }

    /// Why the directory can't be used, for a reason that someone else has found.
    pub(super) fn unusable(&self, what: &str, error: &dyn std::fmt::Display) -> DataDirectoryError {
        self.directory.unusable(what, error)
    }

    /// The committer of all logs.
    pub(super) fn committer(&self) -> &Arc<Committer> {
        &self.committer
    }

    /// Adds what is declared of a hub to what is kept of it.
    fn merge(&self, kept: &mut KeptHub, config: &HubConfig) -> Result<(), DataDirectoryError> {
        if !kept.is_declared_as(config.partitions) {
            return Err(DataDirectoryError::PartitionCount {
                path: self.directory.path().to_owned(),
                hub: kept.name.clone(),
                kept: kept.partitions,
                declared: config.partitions,
            });
        }
        for group in &config.consumer_groups {
            let is_kept = |kept: &String| kept.eq_ignore_ascii_case(group);
            if !kept.consumer_groups.iter().any(is_kept) {
                kept.consumer_groups.push(group.clone());
            }
        }
        kept.declare_limits(config.log);
        Ok(())
    }

    /// Where the logs of a hub are kept, some of whose folders are among `folders`.
    fn directories(&self, kept: &KeptHub, folders: &HashSet<String>) -> Vec<(LogLimits, PartitionDirectory)> {
        let directory = |id| {
            let directory = PartitionDirectory {
                path: self.directory.folder(kept, id),
                presence: match folders.contains(&kept.folder(id)) {
                    true => Presence::Present,
                    false => Presence::Absent,
                },
                committer: Arc::clone(&self.committer),
            };
            (kept.config().limits(self.default_log), directory)
        };
        (0..kept.partitions).map(directory).collect()
    }

    fn unopened(&self, error: &OpenError) -> DeclarationError {
        DeclarationError::DataDirectory(DataDirectoryError::Unusable {
            path: self.directory.path().to_owned(),
            reason: error.to_string(),
        })
    }

    /// A hub of its logs, and what opening them found.
    fn assemble(
        &self,
        kept: &KeptHub,
        opened: impl Iterator<Item = Result<OpenedLog, OpenError>>,
    ) -> Result<(Arc<Hub>, RecoveryReport), DeclarationError> {
        let config = kept.config();
        Hub::check(&config).map_err(DeclarationError::Hub)?;
        let mut report = RecoveryReport::default();
        let mut logs = Vec::with_capacity(kept.partitions.into());
        for log in opened {
            let log = log.map_err(|error| self.unopened(&error))?;
            report.add(log.report);
            logs.push(log.log);
        }
        let hub = Hub::with_logs(&config, self.default_log, logs, kept.creation())
            .map_err(DeclarationError::Hub)?;
        Ok((Arc::new(hub), report))
    }
}

/// Whether the process that had the hub before did not come to a good end, or the disk did not keep what it was given.
fn is_worth_telling(report: &RecoveryReport) -> bool {
    let RecoveryReport { scanned_bytes, rebuilt_sidecars, torn, damaged, .. } = report;
    *scanned_bytes > 0 || *rebuilt_sidecars > 0 || !torn.is_empty() || !damaged.is_empty()
}
