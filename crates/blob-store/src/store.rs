//! The account: all containers.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use units::ByteSize;

use super::budget::Budget;
use super::conditions::Conditions;
use super::container::{Container, NewProperties, Shared};
use super::disk::{BlobFiles, Disk, Folder, Suspicion, read_account, recover};
use super::error::BlobError;
use super::limits::BlobLimits;
use super::now::Now;
use super::properties::Metadata;
use super::public_access::{ContainerAccess, PublicAccess};
use super::service_properties::ServiceProperties;
use super::tags::{TagExpression, Tags};
use partition_log::disk::SyncPolicy;
use partition_log::durable_file::{self, Safety, SystemFiles};
use partition_log::owner_only;

/// All containers of a storage account.
#[derive(Debug)]
pub struct BlobStore {
    containers: RwLock<BTreeMap<String, Arc<Container>>>,
    shared: Arc<Shared>,
    kept: Option<Kept>,
    service_properties: RwLock<Arc<ServiceProperties>>,
    /// Held while containers come and go, or the properties of the account are set.
    changing: Mutex<()>,
}

/// Where an account is kept.
#[derive(Debug)]
struct Kept {
    directory: PathBuf,
    disk: Arc<Disk>,
}

/// What a store holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobStoreFigures {
    /// Containers.
    pub containers: u64,
    /// Blobs.
    pub blobs: u64,
    /// Bytes of memory that are charged for.
    pub memory_bytes: u64,
    /// Operations that the disk failed.
    pub storage_failures: u64,
    /// Files that were found damaged, at the start or when they were read.
    pub damaged_files: u64,
}

/// A blob that was found by its tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundBlob {
    /// The container.
    pub container: String,
    /// The name of the blob.
    pub name: String,
    /// The tags that the expression names, as in the service.
    pub tags: Tags,
}

impl BlobStore {
    /// An empty account in memory, which holds no more than `memory`.
    #[must_use]
    pub fn in_memory(memory: ByteSize, limits: BlobLimits) -> Self {
        Self {
            containers: RwLock::default(),
            shared: shared(memory, limits),
            kept: None,
            service_properties: RwLock::default(),
            changing: Mutex::default(),
        }
    }

    /// The account that is kept beneath `directory`, which is made if it is not there. Whoever calls this has the
    /// directory for itself. It blocks.
    ///
    /// # Errors
    /// What the system says. Files that make no sense are no error: they are set aside, reported and counted.
    pub fn open(
        directory: &Path,
        sync: SyncPolicy,
        memory: ByteSize,
        limits: BlobLimits,
    ) -> io::Result<Self> {
        Self::open_with(Box::new(SystemFiles), directory, sync, memory, limits)
    }

    pub(super) fn open_with(
        files: Box<dyn BlobFiles>,
        directory: &Path,
        sync: SyncPolicy,
        memory: ByteSize,
        limits: BlobLimits,
    ) -> io::Result<Self> {
        owner_only::create_directories(directory)?;
        let suspicion = match directory.join(OPEN).exists() {
            true => Suspicion::Contents,
            false => Suspicion::Lengths,
        };
        owner_only::create(&directory.join(OPEN))?.sync_all()?;
        durable_file::sync_folder(directory)?;
        let safety = match sync {
            SyncPolicy::Always => Safety::Now,
            SyncPolicy::Interval(_) | SyncPolicy::Os => Safety::Later,
        };
        let disk = Disk::new(files, safety);
        let shared = shared(memory, limits);
        let mut containers = BTreeMap::new();
        for found in recover(directory, &disk, suspicion)? {
            let container = Container::load(found, Arc::clone(&shared)).map_err(io::Error::other)?;
            containers.insert(container.name().to_owned(), Arc::new(container));
        }
        let service_properties = read_account(directory, &disk)?;
        Ok(Self {
            containers: RwLock::new(containers),
            service_properties: RwLock::new(Arc::new(service_properties)),
            shared,
            kept: Some(Kept { directory: directory.to_owned(), disk }),
            changing: Mutex::default(),
        })
    }

    /// Whether operations may wait for a disk.
    #[must_use]
    pub const fn is_on_disk(&self) -> bool {
        self.kept.is_some()
    }

    /// The container of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn container(&self, name: &str) -> Result<Arc<Container>, BlobError> {
        let containers = self.containers.read();
        let containers = containers.unwrap_or_else(PoisonError::into_inner);
        containers.get(name).cloned().ok_or(BlobError::ContainerNotFound)
    }

    /// All containers whose names begin with `prefix`, in the order of their names.
    #[must_use]
    pub fn containers(&self, prefix: &str) -> Vec<Arc<Container>> {
        let containers = self.containers.read();
        let containers = containers.unwrap_or_else(PoisonError::into_inner);
        containers
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|(name, _)| name.starts_with(prefix))
            .map(|(_, container)| Arc::clone(container))
            .collect()
    }

    /// Makes a container for its owner alone, whose name the caller has checked.
    ///
    /// # Errors
    /// There is one, or there is no room.
    pub fn create_container(
        &self,
        name: &str,
        metadata: Metadata,
        now: Now,
    ) -> Result<Arc<Container>, BlobError> {
        self.create_container_for(name, metadata, None, now)
    }

    /// Makes a container that anyone may read, as far as `public` says.
    ///
    /// # Errors
    /// As [`create_container`](Self::create_container).
    pub fn create_container_for(
        &self,
        name: &str,
        metadata: Metadata,
        public: Option<PublicAccess>,
        now: Now,
    ) -> Result<Arc<Container>, BlobError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.container(name).is_ok() {
            return Err(BlobError::ContainerAlreadyExists);
        }
        let access = ContainerAccess { public, policies: Vec::new() };
        let version = self.shared.next_version(now);
        let properties = NewProperties { version, metadata, lease: None, access };
        let folder =
            self.kept.as_ref().map(|kept| Folder::new(kept.directory.join(name), Arc::clone(&kept.disk)));
        let new_folder = folder.clone().filter(|folder| !folder.path.exists());
        let made = self.make_container(name, properties, folder);
        if made.is_err()
            && let Some(Folder { path, .. }) = new_folder
            && let Err(error) = fs::remove_dir_all(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::error!(directory = %path.display(), %error, "the container was not created, and the next start finds it");
        }
        let container = Arc::new(made?);
        self.write().insert(name.to_owned(), Arc::clone(&container));
        Ok(container)
    }

    /// Makes a container, first in its `folder` if it has one.
    fn make_container(
        &self,
        name: &str,
        properties: NewProperties,
        folder: Option<Folder>,
    ) -> Result<Container, BlobError> {
        if let (Some(folder), Some(kept)) = (&folder, &self.kept) {
            owner_only::create_directories(&folder.path)?;
            folder.write_container(&properties.kept())?;
            folder.sync_names()?;
            durable_file::sync_folder(&kept.directory)?;
        }
        Container::new(name.to_owned(), properties, Arc::clone(&self.shared), folder)
    }

    /// Deletes a container with all its blobs.
    ///
    /// # Errors
    /// There is none, a condition does not hold, or the disk does not let go of it.
    pub fn delete_container(&self, name: &str, conditions: &Conditions, now: Now) -> Result<(), BlobError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let container = self.container(name)?;
        let mut condemned = None;
        container.end(|| {
            container.check_delete(conditions, now)?;
            if let (Some(kept), Some(folder)) = (&self.kept, container.folder()) {
                // No container's name has this character, and no two have one number.
                let number = kept.disk.next_number();
                let path = kept.directory.join(format!("{name}~{number}"));
                fs::rename(&folder.path, &path)?;
                condemned = Some(path);
            }
            Ok(())
        })?;
        self.write().remove(name);
        if let Some(path) = condemned
            && let Err(error) = fs::remove_dir_all(&path)
        {
            tracing::warn!(directory = %path.display(), %error, "a deleted container can't be removed; the next start tries again");
        }
        match &self.kept {
            Some(kept) => kept.disk.sync_directory(&kept.directory).map_err(BlobError::unknown),
            None => Ok(()),
        }
    }

    /// Finds blobs by their tags, at most `maximum`, in the order of the names of their containers and their own: from the one of
    /// `from` on, or of all. Also returns where the next page begins, if there is one.
    #[must_use]
    pub fn find(
        &self,
        container: Option<&str>,
        expression: &TagExpression,
        from: Option<(&str, &str)>,
        maximum: usize,
    ) -> (Vec<FoundBlob>, Option<(String, String)>) {
        let mut found = Vec::new();
        let containers = self.containers("").into_iter();
        for each in containers.filter(|each| container.is_none_or(|name| each.name() == name)) {
            let start = match from {
                Some((container, _)) if each.name() < container => continue,
                Some((container, name)) if each.name() == container => name,
                _ => "",
            };
            for (name, tags) in each.tagged(start, expression, maximum - found.len() + 1) {
                if found.len() == maximum {
                    return (found, Some((each.name().to_owned(), name)));
                }
                found.push(FoundBlob { container: each.name().to_owned(), name, tags });
            }
        }
        (found, None)
    }

    /// Returns the properties of the account.
    #[must_use]
    pub fn service_properties(&self) -> Arc<ServiceProperties> {
        Arc::clone(&self.service_properties.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the properties of the account.
    ///
    /// # Errors
    /// The disk does not take it; what was set before is in effect then. Or it is not known whether it would outlive a power cut.
    pub fn set_service_properties(
        &self,
        change: impl FnOnce(&mut ServiceProperties),
    ) -> Result<(), BlobError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut properties = ServiceProperties::clone(&self.service_properties());
        change(&mut properties);
        if let Some(kept) = &self.kept {
            kept.disk.write_account(&kept.directory, &properties)?;
        }
        *self.service_properties.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(properties);
        match &self.kept {
            Some(kept) => kept.disk.sync_directory(&kept.directory).map_err(BlobError::unknown),
            None => Ok(()),
        }
    }

    /// What it holds and has done.
    #[must_use]
    pub fn figures(&self) -> BlobStoreFigures {
        let containers = self.containers("");
        let disk = self.kept.as_ref().map(|kept| &kept.disk);
        BlobStoreFigures {
            containers: containers.len() as u64,
            blobs: containers.iter().map(|it| it.blob_count()).sum(),
            memory_bytes: self.shared.budget.used(),
            storage_failures: disk.map_or(0, |disk| disk.failures()),
            damaged_files: disk.map_or(0, |disk| disk.damaged()),
        }
    }

    /// Brings to the device what was written since the last call. It blocks.
    ///
    /// # Errors
    /// What the system says; the next call tries again.
    pub fn sync(&self) -> io::Result<()> {
        let Some(kept) = &self.kept else {
            return Ok(());
        };
        if !kept.disk.take_unsynced() {
            return Ok(());
        }
        let synced = sync_file_system(&kept.directory);
        if synced.is_err() {
            kept.disk.set_unsynced();
        }
        synced
    }

    /// Brings everything to the device and notes that nothing is under way. To be called once nobody writes any more. It
    /// blocks.
    ///
    /// # Errors
    /// What the system says. The next start then looks closely at what is there.
    pub fn close(&self) -> io::Result<()> {
        let Some(kept) = &self.kept else {
            return Ok(());
        };
        self.sync()?;
        fs::remove_file(kept.directory.join(OPEN))?;
        durable_file::sync_folder(&kept.directory)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<String, Arc<Container>>> {
        self.containers.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shared(memory: ByteSize, limits: BlobLimits) -> Arc<Shared> {
    Arc::new(Shared { budget: Budget::new(memory), limits, last_etag: AtomicU64::new(0) })
}

#[cfg(target_os = "linux")]
fn sync_file_system(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(directory)?)?)
}

#[cfg(not(target_os = "linux"))]
fn sync_file_system(_directory: &Path) -> io::Result<()> {
    rustix::fs::sync();
    Ok(())
}

/// There while a process has the account open.
const OPEN: &str = "OPEN";
