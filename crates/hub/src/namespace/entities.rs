//! Creation, change and deletion of hubs while a namespace serves.
//!
//! Readers take a snapshot, which is one lock for as long as it takes to count a reference. Changes are made one at a
//! time, each to a copy of the list, which then takes the list's place.

use super::config::HubConfig;
use super::consumer_group::{ConsumerGroup, DEFAULT_CONSUMER_GROUP};
use super::hub::{Creation, Hub, HubError};
use super::hubs::{Hubs, MAXIMUM_TOTAL_PARTITIONS};
use super::storage::{CoordinatorLog, DataDirectoryError, DeclarationError, Storage};
use super::topic_settings::TopicSettings;
use crate::aside::aside;
use partition_log::{BlockPool, LogBudget, LogLimits, PartitionLog, UnixTime};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// Why an entity was not created or deleted.
#[derive(Debug, thiserror::Error)]
pub enum EntityError {
    /// There is a hub of that name; letter case makes no difference.
    #[error("The hub '{name}' exists already")]
    HubExists {
        /// Its name, as it was given when it was made.
        name: String,
    },
    /// There is no hub of that name.
    #[error("There is no hub '{name}'")]
    NoHub {
        /// What was asked for.
        name: String,
    },
    /// There is a consumer group of that name; letter case makes no difference.
    #[error("The hub '{hub}' already has a consumer group '{name}'")]
    ConsumerGroupExists {
        /// The hub.
        hub: String,
        /// The group's name.
        name: String,
    },
    /// There is no consumer group of that name.
    #[error("The hub '{hub}' has no consumer group '{name}'")]
    NoConsumerGroup {
        /// The hub.
        hub: String,
        /// What was asked for.
        name: String,
    },
    /// There is a queue or topic of that name; letter case makes no difference.
    #[error("There is a queue or topic '{name}' already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// A hub has partitions that it can't lose, or has as many already.
    #[error("The hub '{hub}' has {partitions} partitions, and can only get more")]
    PartitionCount {
        /// The hub.
        hub: String,
        /// How many it has.
        partitions: usize,
    },
    /// All hubs together would have too many partitions.
    #[error(
        "The hubs have {existing} partitions in all; with {added} more they would have more than {MAXIMUM_TOTAL_PARTITIONS}"
    )]
    TotalPartitions {
        /// Partitions of all hubs.
        existing: usize,
        /// Partitions to be added.
        added: usize,
    },
    /// The group that every hub has can't be deleted.
    #[error("The consumer group '{DEFAULT_CONSUMER_GROUP}' of a hub can't be deleted")]
    DefaultConsumerGroup,
    /// What is to be created is nothing that the service takes.
    #[error("{0}")]
    Invalid(HubError),
    /// The data directory does not take the change.
    #[error("The change can't be stored: {0}")]
    Storage(DataDirectoryError),
}

/// The hubs as they are now, and the right to change them.
#[derive(Debug)]
pub(super) struct Entities {
    current: RwLock<Arc<Hubs>>,
    /// Where changes are kept, if anywhere. Held from reading the list until it is replaced.
    storage: Mutex<Option<Storage>>,
    is_durable: bool,
    /// Whether logs may hold record batches of Kafka.
    has_record_batches: AtomicBool,
    /// Whether logs may hold transactions, or start behind records that were deleted.
    has_transactions: AtomicBool,
    /// How many hubs were ever made in memory; [`Storage`] counts those on disk.
    hubs_created: AtomicU64,
    /// Whether there may be a journal of Kafka's coordinators.
    has_coordinators: AtomicBool,
    /// Who is to hear of hubs that are deleted.
    observer: OnceLock<Arc<dyn DeletionObserver>>,
}

/// Someone who knows something of hubs that goes with them.
pub(crate) trait DeletionObserver: std::fmt::Debug + Send + Sync {
    /// The hub of this name was deleted, and there is no other one of that name before this returns.
    fn hub_deleted(&self, name: &str);
}

impl Entities {
    pub(super) fn new(hubs: Hubs, storage: Option<Storage>) -> Self {
        Self {
            hubs_created: AtomicU64::new(hubs.len() as u64),
            current: RwLock::new(Arc::new(hubs)),
            is_durable: storage.is_some(),
            storage: Mutex::new(storage),
            has_record_batches: AtomicBool::new(false),
            has_transactions: AtomicBool::new(false),
            has_coordinators: AtomicBool::new(false),
            observer: OnceLock::new(),
        }
    }

    /// The hubs as they are now.
    pub(super) fn snapshot(&self) -> Arc<Hubs> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn create_hub(
        &self,
        config: &HubConfig,
        defaults: LogLimits,
        pool: &Arc<BlockPool>,
        budget: Option<&Arc<LogBudget>>,
        now: UnixTime,
        is_queue: impl FnOnce(&str) -> bool,
    ) -> Result<Arc<Hub>, EntityError> {
        self.change(|mut storage| {
            let is_reserved = storage.as_ref().is_some_and(|storage| storage.is_reserved(&config.name));
            if is_reserved || is_queue(&config.name) {
                return Err(EntityError::NameTaken { name: config.name.clone() });
            }
            let mut hubs = Hubs::clone(&self.snapshot());
            if let Some(there) = hubs.find(&config.name) {
                return Err(EntityError::HubExists { name: there.name().to_owned() });
            }
            hubs.check_total(config.partitions.into())?;
            let hub = match &mut *storage {
                Some(storage) => storage.create_hub(config, pool, now)?,
                None => {
                    let number = self.hubs_created.fetch_add(1, Ordering::Relaxed) + 1;
                    let creation = Creation { number, at: now };
                    Arc::new(Hub::new(config, defaults, pool, creation).map_err(EntityError::Invalid)?)
                }
            };
            hub.join(budget, 0);
            hubs.insert(Arc::clone(&hub)).expect("no hub has the name, as was seen above");
            self.replace(hubs);
            Ok(hub)
        })
    }

    pub(super) fn delete_hub(&self, name: &str) -> Result<(), EntityError> {
        self.change(|mut storage| {
            let hubs = self.snapshot();
            let hub = hubs.find(name).ok_or_else(|| no_hub(name))?;
            let forgotten = match &mut *storage {
                Some(storage) => storage.forget_hub(name).map_err(EntityError::Storage)?,
                None => None,
            };
            self.replace(hubs.without(hub));
            // After the replacement, so that a reader that is woken does not find it again.
            hub.mark_deleted();
            if let Some(observer) = self.observer.get() {
                observer.hub_deleted(hub.name());
            }
            if let (Some(storage), Some(forgotten)) = (&mut *storage, forgotten) {
                storage.remove_files(&forgotten);
            }
            Ok(())
        })
    }

    /// Whether a hub could be created: as [`create_hub`](Self::create_hub), and nothing is changed.
    pub(super) fn check_hub(&self, config: &HubConfig) -> Result<(), EntityError> {
        let hubs = self.snapshot();
        if let Some(there) = hubs.find(&config.name) {
            return Err(EntityError::HubExists { name: there.name().to_owned() });
        }
        hubs.check_total(config.partitions.into())?;
        Hub::check(config).map_err(EntityError::Invalid)
    }

    /// Gives a hub more partitions, so that it has `count` in all.
    pub(super) fn grow_hub(
        &self,
        name: &str,
        count: u16,
        pool: &Arc<BlockPool>,
        budget: Option<&Arc<LogBudget>>,
    ) -> Result<Arc<Hub>, EntityError> {
        self.change(|mut storage| {
            let mut hubs = Hubs::clone(&self.snapshot());
            let hub = Arc::clone(hubs.find(name).ok_or_else(|| no_hub(name))?);
            let added = check_growth(&hubs, &hub, count)?;
            let logs = match &mut *storage {
                Some(storage) => storage.grow_hub(hub.name(), count, hub.limits(), pool)?,
                None => {
                    (0..added).map(|_| Arc::new(PartitionLog::new(hub.limits(), Arc::clone(pool)))).collect()
                }
            };
            let grown = Arc::new(hub.grown(logs));
            grown.join(budget, hub.partitions().len());
            hubs.replace(Arc::clone(&grown));
            self.replace(hubs);
            hub.grow_into(Arc::clone(&grown));
            Ok(grown)
        })
    }

    /// Whether a hub could have `count` partitions.
    pub(super) fn check_growth(&self, name: &str, count: u16) -> Result<(), EntityError> {
        let hubs = self.snapshot();
        check_growth(&hubs, hubs.find(name).ok_or_else(|| no_hub(name))?, count).map(drop)
    }

    /// Replaces the settings that clients have given to a hub by those that `change` makes of them.
    pub(super) fn change_settings<E: From<EntityError>>(
        &self,
        name: &str,
        change: impl FnOnce(&TopicSettings) -> Result<TopicSettings, E>,
    ) -> Result<(), E> {
        self.change(|mut storage| {
            let hubs = self.snapshot();
            let hub = hubs.find(name).ok_or_else(|| no_hub(name))?;
            let settings = change(&hub.settings())?;
            Hub::check_limits(&settings.limits(hub.base_limits())).map_err(EntityError::Invalid)?;
            if let Some(storage) = &mut *storage {
                storage.keep_settings(hub.name(), &settings).map_err(EntityError::Storage)?;
            }
            hub.set_settings(settings);
            Ok(())
        })
    }

    pub(super) fn create_consumer_group(
        &self,
        hub: &str,
        name: &str,
    ) -> Result<Arc<ConsumerGroup>, EntityError> {
        self.change(|mut storage| {
            let hubs = self.snapshot();
            let hub = hubs.find(hub).ok_or_else(|| no_hub(hub))?;
            hub.check_consumer_group(name).map_err(|error| match error {
                HubError::RepeatedConsumerGroup { name } => {
                    EntityError::ConsumerGroupExists { hub: hub.name().to_owned(), name }
                }
                error => EntityError::Invalid(error),
            })?;
            if let Some(storage) = &mut *storage {
                storage.keep_consumer_group(hub.name(), name).map_err(EntityError::Storage)?;
            }
            hub.create_consumer_group(name).map_err(EntityError::Invalid)
        })
    }

    pub(super) fn delete_consumer_group(&self, hub: &str, name: &str) -> Result<(), EntityError> {
        if name.eq_ignore_ascii_case(DEFAULT_CONSUMER_GROUP) {
            return Err(EntityError::DefaultConsumerGroup);
        }
        self.change(|mut storage| {
            let hubs = self.snapshot();
            let hub = hubs.find(hub).ok_or_else(|| no_hub(hub))?;
            if hub.consumer_group(name).is_none() {
                return Err(EntityError::NoConsumerGroup {
                    hub: hub.name().to_owned(),
                    name: name.to_owned(),
                });
            }
            if let Some(storage) = &mut *storage {
                storage.forget_consumer_group(hub.name(), name).map_err(EntityError::Storage)?;
            }
            hub.delete_consumer_group(name);
            Ok(())
        })
    }

    /// Lets logs hold batches that bear the stamp of a producer.
    pub(super) fn admit_producers(&self) -> Result<(), EntityError> {
        self.admit(Storage::admit_producers)
    }

    /// Lets logs hold record batches of Kafka. Once that is so, this costs nothing.
    pub(super) fn admit_record_batches(&self) -> Result<(), EntityError> {
        if self.has_record_batches.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.admit(Storage::admit_record_batches)?;
        self.has_record_batches.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Lets logs hold transactions, and start behind records that were deleted. Once that is so, this costs nothing.
    pub(super) fn admit_transactions(&self) -> Result<(), EntityError> {
        if self.has_transactions.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.admit(Storage::admit_transactions)?;
        self.has_transactions.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The log of the journal of Kafka's coordinators, if anything is kept on disk, and whether it was there before.
    pub(super) fn open_coordinator_log(
        &self,
        pool: &Arc<BlockPool>,
    ) -> Result<Option<CoordinatorLog>, DataDirectoryError> {
        self.change(|storage| {
            let Some(storage) = &*storage else {
                return Ok(None);
            };
            let opened = storage.open_coordinator_log(pool)?;
            self.has_coordinators.store(opened.is_admitted, Ordering::Relaxed);
            Ok(Some(opened))
        })
    }

    pub(super) fn has_coordinator_log(&self) -> bool {
        self.change(|storage| storage.as_ref().is_some_and(Storage::has_coordinator_log))
    }

    /// Lets there be a journal of Kafka's coordinators. Once that is so, this costs nothing, and can be called while a hub is
    /// being deleted.
    pub(super) fn admit_coordinators(&self) -> Result<(), EntityError> {
        if self.has_coordinators.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.admit(Storage::admit_coordinators)?;
        self.has_coordinators.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Why the data directory can't be used, for a reason that someone else has found.
    pub(super) fn unusable(&self, what: &str, error: &dyn std::fmt::Display) -> DataDirectoryError {
        self.change(|storage| match &*storage {
            Some(storage) => storage.unusable(what, error),
            None => DataDirectoryError::Unusable { path: PathBuf::new(), reason: format!("{what}: {error}") },
        })
    }

    /// From now on `observer` hears of hubs that are deleted. There is one at most.
    pub(super) fn observe_deletions(&self, observer: Arc<dyn DeletionObserver>) {
        let is_first = self.observer.set(observer).is_ok();
        debug_assert!(is_first, "there is one observer");
    }

    fn admit(
        &self,
        admit: impl FnOnce(&mut Storage) -> Result<(), DataDirectoryError>,
    ) -> Result<(), EntityError> {
        self.change(|mut storage| match &mut *storage {
            Some(storage) => admit(storage).map_err(EntityError::Storage),
            None => Ok(()),
        })
    }

    /// Makes a change of what there is; there is one at a time. It may wait for the disk, so another thread serves the connections of
    /// this one meanwhile.
    pub(super) fn change<T>(&self, change: impl FnOnce(MutexGuard<'_, Option<Storage>>) -> T) -> T {
        let change = || change(self.storage.lock().unwrap_or_else(PoisonError::into_inner));
        match self.is_durable {
            true => aside(change),
            false => change(),
        }
    }

    fn replace(&self, hubs: Hubs) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(hubs);
    }
}

impl From<DeclarationError> for EntityError {
    fn from(error: DeclarationError) -> Self {
        match error {
            DeclarationError::Hub(error) => Self::Invalid(error),
            DeclarationError::DataDirectory(error) => Self::Storage(error),
        }
    }
}

/// Returns the number of partitions to add to a hub so that it has `count`.
fn check_growth(hubs: &Hubs, hub: &Hub, count: u16) -> Result<usize, EntityError> {
    Hub::check_partitions(count).map_err(EntityError::Invalid)?;
    let partitions = hub.partitions().len();
    let Some(added) = usize::from(count).checked_sub(partitions).filter(|added| *added > 0) else {
        return Err(EntityError::PartitionCount { hub: hub.name().to_owned(), partitions });
    };
    hubs.check_total(added)?;
    Ok(added)
}

fn no_hub(name: &str) -> EntityError {
    EntityError::NoHub { name: name.to_owned() }
}
