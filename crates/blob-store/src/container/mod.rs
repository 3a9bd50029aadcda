//! A container and its blobs.
//!
//! Each blob has a [`Slot`]. Whoever changes the blob holds the slot's lock from the evaluation of conditions until what is
//! new is kept and visible, so each change happens as one; readers take what is visible and wait for nobody.
//!
//! * `change` is one change of one blob, however it is made.
//! * `put` writes whole blobs, metadata and headers, and deletes.
//! * `blocks` puts blobs together from blocks, `append` makes them longer, `pages` writes in them, `copy` makes them of others.
//! * `snapshots` keeps blobs as they were.
//! * `listing` says what there is.
//! * `leasing` locks blobs and the container for clients; `state` is what is known of the container itself.
//! * `loading` is what was found in a data directory.

mod append;
mod blocks;
mod change;
mod copy;
mod leasing;
mod listing;
mod loading;
mod pages;
mod put;
mod snapshots;
mod state;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{SystemTime, UNIX_EPOCH};

pub use append::{AppendRequest, Appended};
pub use blocks::{BlockChoice, BlockLists, BlockSource, ListedBlock};
pub use copy::{CopyForm, CopyRequest};
pub use listing::{ListRequest, ListStart, Listed, Listing};
pub use pages::{
    PAGE_BLOB_BYTES, PAGE_BYTES, PageChange, PageRange, PageRequest, PropertiesRequest, SequenceAction,
    SequenceConditions, is_of_pages,
};
pub use put::{PutContent, PutRequest, Replacing};
pub use snapshots::{DeletedSnapshots, SnapshotTime};
pub use state::ContainerProperties;
pub(super) use state::NewProperties;

use super::budget::{Budget, Charge};
use super::conditions::{Conditions, Etag, Version};
use super::content::{Block, ContentReader, Piece};
use super::disk::{Folder, KeptBlob, KeptBlock, KeptPlace};
use super::error::BlobError;
use super::lease::{self, Lease, Leased};
use super::limits::{BlobLimits, ENTRY_BYTES};
use super::now::Now;
use super::properties::{BlobForm, BlobKind, Description, from_unix_s, unix_s, whole_seconds};
use change::{Change, NewBlob, StagedBlocks};

/// A container.
#[derive(Debug)]
pub struct Container {
    name: String,
    /// Replaced as a whole by whoever holds `changing`.
    properties: RwLock<Arc<ContainerProperties>>,
    changing: Mutex<()>,
    shared: Arc<Shared>,
    /// Where it is kept, if it is.
    folder: Option<Folder>,
    /// Whether it is there. Held for reading by whoever writes a file of it, so that none is written after its end.
    is_there: RwLock<bool>,
    slots: RwLock<BTreeMap<String, Arc<Slot>>>,
    _charge: Charge,
}

/// What all containers of an account share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) budget: Arc<Budget>,
    pub(super) limits: BlobLimits,
    pub(super) last_etag: AtomicU64,
}

/// A blob as it is at one moment. It never changes; another one takes its place.
#[derive(Debug)]
pub struct Blob {
    /// That of its description on the disk.
    number: u64,
    form: BlobForm,
    version: Version,
    created_at: SystemTime,
    description: Description,
    length: u64,
    /// Uncommitted blocks in pieces up to this number are void.
    staged_after: u64,
    lease: Option<Lease>,
    /// Its time, if it is a snapshot.
    snapshot: Option<SnapshotTime>,
    blocks: Vec<Block>,
    _charge: Charge,
}

/// The place of a blob of one name, whether there is one at present or not.
#[derive(Debug)]
struct Slot {
    staged: Mutex<Staged>,
    visible: RwLock<Option<Arc<Blob>>>,
    snapshots: RwLock<BTreeMap<SnapshotTime, Arc<Blob>>>,
    /// Time of the first block that waits, in seconds since 1970; 0 if none does. For listings, which must not wait for a writer.
    staged_unix_s: AtomicU64,
}

/// What whoever changes a blob holds.
#[derive(Debug, Default)]
struct Staged {
    /// Blocks that wait to be committed, by their ids.
    blocks: BTreeMap<String, Block>,
    /// When the first of them came.
    since: Option<SystemTime>,
    /// The slot is no container's any longer.
    is_removed: bool,
}

/// Whether a change may make the blob that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absent {
    Made,
    Refused,
}

impl Blob {
    /// How it is written.
    #[must_use]
    pub const fn kind(&self) -> BlobKind {
        self.form.kind()
    }

    /// Returns the kind with its specific properties.
    #[must_use]
    pub const fn form(&self) -> BlobForm {
        self.form
    }

    /// Which version this is.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// When the first version was written.
    #[must_use]
    pub const fn created_at(&self) -> SystemTime {
        self.created_at
    }

    /// Its headers and metadata.
    #[must_use]
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// Bytes of its content.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// The lease on it, which may have ended.
    #[must_use]
    pub const fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// The time of the snapshot that it is; `None` if it is the blob itself.
    #[must_use]
    pub const fn snapshot(&self) -> Option<SnapshotTime> {
        self.snapshot
    }

    /// Whether it may be read.
    ///
    /// # Errors
    /// A condition does not hold, or the lease id is wrong.
    pub fn check_read(&self, conditions: &Conditions, now: Now) -> Result<(), BlobError> {
        lease::check_read(self.lease.as_ref(), conditions.lease, Leased::Blob, now.lease_time)?;
        conditions.check_tags(&self.description.tags)?;
        conditions.check_read(self.version)
    }

    /// A reader of a part of the content; what lies beyond its end is left out.
    #[must_use]
    pub fn read(&self, range: Range<u64>) -> ContentReader {
        ContentReader::new(&self.blocks, range)
    }

    /// Returns whether its tier must be changed before the content can be read or written.
    #[must_use]
    pub fn is_archived(&self) -> bool {
        self.description.tier.is_some_and(|setting| setting.tier.is_archive())
    }
}

impl Container {
    /// A container that has just been made, or found.
    pub(super) fn new(
        name: String,
        properties: NewProperties,
        shared: Arc<Shared>,
        folder: Option<Folder>,
    ) -> Result<Self, BlobError> {
        let charge = shared.budget.charge(ENTRY_BYTES + name.len() as u64)?;
        let properties = properties.charged(&shared)?;
        Ok(Self {
            name,
            properties: RwLock::new(Arc::new(properties)),
            changing: Mutex::default(),
            shared,
            folder,
            is_there: RwLock::new(true),
            slots: RwLock::default(),
            _charge: charge,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is known of it, as it is now.
    #[must_use]
    pub fn properties(&self) -> Arc<ContainerProperties> {
        Arc::clone(&read(&self.properties))
    }

    /// The blob of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn blob(&self, name: &str) -> Result<Arc<Blob>, BlobError> {
        let slot = read(&self.slots).get(name).cloned();
        slot.and_then(|slot| slot.blob()).ok_or(BlobError::BlobNotFound)
    }

    /// How many blobs there are.
    #[must_use]
    pub fn blob_count(&self) -> u64 {
        let slots = read(&self.slots);
        slots.values().filter(|slot| slot.blob().is_some()).count() as u64
    }

    /// Where it is kept.
    pub(super) const fn folder(&self) -> Option<&Folder> {
        self.folder.as_ref()
    }

    /// Ends it: whoever is about to change one of its blobs comes too late from now on. `end` happens while nobody does.
    pub(super) fn end(&self, end: impl FnOnce() -> Result<(), BlobError>) -> Result<(), BlobError> {
        let mut is_there = write(&self.is_there);
        if !*is_there {
            return Err(BlobError::ContainerNotFound);
        }
        end()?;
        *is_there = false;
        Ok(())
    }

    /// Changes the blob of a name by `change`, which nobody else does meanwhile.
    fn change<T>(
        &self,
        name: &str,
        absent: Absent,
        change: impl FnOnce(&mut Change<'_>) -> Result<T, BlobError>,
    ) -> Result<T, BlobError> {
        let is_there = read(&self.is_there);
        if !*is_there {
            return Err(BlobError::ContainerNotFound);
        }
        loop {
            let slot = self.slot(name, absent)?;
            let staged = lock(&slot.staged);
            // Removed between having been found and having been locked: there may be another one now.
            if staged.is_removed {
                continue;
            }
            let mut under_way = Change { container: self, name, staged, current: slot.blob(), slot: &slot };
            let result = change(&mut under_way);
            if slot.blob().is_none() && under_way.staged.blocks.is_empty() && read(&slot.snapshots).is_empty()
            {
                under_way.staged.is_removed = true;
                write(&self.slots).remove(name);
            }
            return result;
        }
    }

    fn slot(&self, name: &str, absent: Absent) -> Result<Arc<Slot>, BlobError> {
        if let Some(slot) = read(&self.slots).get(name) {
            return Ok(Arc::clone(slot));
        }
        match absent {
            Absent::Refused => Err(BlobError::BlobNotFound),
            Absent::Made => {
                let mut slots = write(&self.slots);
                Ok(Arc::clone(slots.entry(name.to_owned()).or_default()))
            }
        }
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            staged: Mutex::default(),
            visible: RwLock::new(None),
            snapshots: RwLock::default(),
            staged_unix_s: AtomicU64::new(0),
        }
    }
}

impl Slot {
    /// Notes whether blocks wait, after that has changed.
    fn note_staged(&self, staged: &Staged) {
        let since = staged.since.filter(|_| !staged.blocks.is_empty());
        self.staged_unix_s.store(since.map_or(0, |since| unix_s(since).max(1)), Ordering::Relaxed);
    }

    /// Time of the first block that waits, if one does.
    fn staged_at(&self) -> Option<SystemTime> {
        Some(self.staged_unix_s.load(Ordering::Relaxed)).filter(|since| *since > 0).map(from_unix_s)
    }

    fn blob(&self) -> Option<Arc<Blob>> {
        read(&self.visible).clone()
    }
}

impl Shared {
    /// The next version of anything. Tags are ticks of 100 ns, as in the service, and only ever grow.
    pub(super) fn next_version(&self, now: Now) -> Version {
        let since = now.time_of_day.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ticks = u64::try_from(since.as_nanos() / 100).unwrap_or(0);
        let ticks = ticks.saturating_add(TICKS_TO_1970);
        let last = self
            .last_etag
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(ticks.max(last.saturating_add(1)))
            })
            .unwrap_or_default();
        Version { etag: Etag(ticks.max(last.saturating_add(1))), modified_at: whole_seconds(now.time_of_day) }
    }
}

impl Blob {
    /// What is written of it to the disk.
    fn kept(&self, name: &str) -> KeptBlob {
        let block = |block: &Block| {
            let place = match &block.piece {
                Piece::File(file) => KeptPlace::Piece(file.name()),
                Piece::Hole => KeptPlace::Hole,
                Piece::Memory(..) => return None,
            };
            Some(KeptBlock::new(block.id.clone(), block.length, block.crc, place, block.written))
        };
        KeptBlob {
            name: name.to_owned(),
            kind: self.kind(),
            etag: self.version.etag.0,
            created_unix_s: unix_s(self.created_at),
            modified_unix_s: unix_s(self.version.modified_at),
            headers: self.description.headers.clone(),
            metadata: self.description.metadata.clone(),
            tags: self.description.tags.clone(),
            tier: self.description.tier,
            copy: self.description.copy.clone(),
            appended_blocks: match self.form {
                BlobForm::Append { blocks } => blocks,
                BlobForm::Block | BlobForm::Page { .. } => 0,
            },
            sequence_number: self.sequence_number().unwrap_or(0),
            staged_after: self.staged_after,
            lease: self.lease,
            snapshot: self.snapshot.map(|time| time.0),
            blocks: self.blocks.iter().filter_map(block).collect(),
        }
    }
}

/// A panic while a lock was held left what it guards as it was before or after, since nothing is changed in steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// From the year 1 to 1970, in units of 100 ns.
const TICKS_TO_1970: u64 = 621_355_968_000_000_000;
