//! Checkpoints: how far a consumer group has got in each partition, and who works on it.
//!
//! The shape is that of the official SDKs' checkpoint stores, which keep one blob per partition for the checkpoint and
//! one for the ownership: `<namespace>/<hub>/<consumer group>/{checkpoint,ownership}/<partition>`. A store behind
//! [`CheckpointStore`] that is laid out so on blobs, as [`BlobCheckpointStore`] is, can be shared with processors written in
//! other languages.
//!
//! # Fencing
//! Ownership runs out by time, so a process that was paused may believe that it still owns a partition. What keeps it
//! from writing over its successor's checkpoints is the ETag of the checkpoint itself, the one condition that a blob, a
//! file and a map in memory can all be written under:
//!
//! ```text
//!   win the claim → list the checkpoint (ETag 7) → replace it by itself (ETag 8) → open the partition → replace …
//!                                                        from here on a replacement of 7 is refused
//! ```
//!
//! Everyone who writes under ownership uses [`CheckpointStore::replace_checkpoint`], and a new owner does so before it
//! reads its first event.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use crate::event::PartitionId;

pub mod blobs;
mod files;
mod memory;
#[cfg(test)]
mod suite;

pub use blobs::BlobCheckpointStore;
pub use files::{FileCheckpointStore, Usage};
pub use memory::MemoryCheckpointStore;

/// Remembers checkpoints and ownership.
///
/// The futures own what they need, so that any number of calls may be under way; calls for one partition are made one
/// after the other by those who care about their order.
pub trait CheckpointStore: Send + Sync + fmt::Debug {
    /// All checkpoints of a consumer group, in the order of their partitions.
    fn list_checkpoints(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Checkpoint>>;

    /// Sets the checkpoint of a partition whatever is stored; its ETag is of no account. For partitions that are not
    /// shared: the last writer wins.
    fn update_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<()>;

    /// Sets the checkpoint of a partition only if the stored one still has the ETag that is given, or if none is stored
    /// where none is given. Answers with the new ETag, for the next replacement.
    ///
    /// # Errors
    /// [`StoreError::NotOwner`] when somebody else has written in the meantime, besides what can go wrong with any call.
    fn replace_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<ETag>;

    /// The ownership of all partitions of a consumer group that anyone has ever claimed, in the order of the partitions.
    fn list_ownership(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Ownership>>;

    /// Tries to write each claim, and returns what became of it. Each stands for itself.
    ///
    /// A claim with an ETag is written only if the stored one still has that ETag, a claim without only if none is
    /// stored. A claim that is lost is in neither list of the answer. An empty `owner_id` gives a partition back.
    ///
    /// A store that is too busy is asked again, less and less often, until `within` has passed since the call.
    ///
    /// # Errors
    /// No claim could be tried.
    fn claim_ownership(&self, claims: Vec<Ownership>, within: Duration) -> StoreFuture<Claimed>;

    /// Counts changes of what is owned that the store hears of by itself, so that nobody has to list it to find out; none of a store that
    /// hears of nothing.
    ///
    /// Such a store is told by others who owns what, and lists what the asker is to own, with an empty `owner_id` what of that is to be
    /// given back. Nothing else can be claimed.
    fn ownership_changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// How many generations of a consumer group the user of the store has been in as a member: one once it has joined, and one more
    /// whenever the group has changed over.
    fn generations(&self) -> u64 {
        0
    }

    /// Ends what the store does for others to know that its user is there: nothing is asked of it any more. Not waited for by those who
    /// have no time.
    fn leave(&self) -> StoreFuture<()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The time by the clock that [`Ownership::last_modified`] is taken from, by which claims expire.
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    /// How long one who writes the checkpoints of many partitions leaves between the beginnings of two writings when it has
    /// more to write than that, so that writing does not take the time that carrying needs. A store that costs next to
    /// nothing has none.
    fn pace(&self) -> Duration {
        Duration::ZERO
    }
}

/// What a call to a store answers with, in time.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// A consumer group of a hub of a namespace; cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerGroup {
    /// The namespace's host name, such as `example.servicebus.windows.net`.
    pub namespace: Arc<str>,
    /// The hub's name.
    pub hub: Arc<str>,
    /// The group's name, such as `$Default`.
    pub name: Arc<str>,
}

/// How far a consumer group has got in one partition: everything up to and including this event is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The group whose progress it is.
    pub group: ConsumerGroup,
    /// The partition.
    pub partition: PartitionId,
    /// The sequence number of the last event that is done.
    pub sequence_number: Option<i64>,
    /// The service's opaque offset of that event.
    pub offset: Option<String>,
    /// [Identity](crate::source::Source::log_id) of the log that the event is in. `None` if its source has none, or the store or the
    /// version that wrote the checkpoint does not keep it.
    pub log_id: Option<String>,
    /// Which writing of the checkpoint this is; none where nothing is stored.
    pub etag: Option<ETag>,
}

/// Who works on a partition for a consumer group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// The group.
    pub group: ConsumerGroup,
    /// The partition.
    pub partition: PartitionId,
    /// The owner's own name; empty when the partition was given back.
    pub owner_id: String,
    /// Which writing of the ownership this is; none for a claim of what nobody has claimed before.
    pub etag: Option<ETag>,
    /// When the store wrote it; none in a claim. An owner who has not renewed its claim for long has lost it.
    pub last_modified: Option<SystemTime>,
    /// Whether the owner gives the partition back when it is asked to. The official SDKs never say so, and others steal from them.
    pub yields: bool,
    /// The identity of the one who asks the owner to give the partition back.
    pub asked_by: Option<String>,
}

impl Ownership {
    /// Creates a claim of a partition that nobody has claimed before.
    #[must_use]
    pub fn new(group: ConsumerGroup, partition: PartitionId, owner_id: impl Into<String>) -> Self {
        Self {
            group,
            partition,
            owner_id: owner_id.into(),
            etag: None,
            last_modified: None,
            yields: false,
            asked_by: None,
        }
    }
}

/// The outcome of claims.
#[derive(Debug, Default)]
pub struct Claimed {
    /// Claims that were written, in the order of their partitions, with their new ETag and time.
    pub written: Vec<Ownership>,
    /// Claims that may or may not have been written. A listing tells.
    pub failed: Vec<FailedClaim>,
}

/// A claim whose outcome is not known.
#[derive(Debug)]
pub struct FailedClaim {
    /// The partition.
    pub partition: PartitionId,
    /// The last answer of the store.
    pub error: StoreError,
}

impl From<Vec<Ownership>> for Claimed {
    /// Claims that were all written, or lost.
    fn from(written: Vec<Ownership>) -> Self {
        Self { written, failed: Vec::new() }
    }
}

/// A store's opaque mark of one writing, without quotes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ETag(pub String);

/// Why a store could not do what it was asked to. Losing a claim is not an error.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file could not be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried, as a verb: `read`, `write`, `lock`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A claim holds something else than what this store writes.
    #[error(
        "the claim {} is damaged: {reason}; remove it, and its partition will be claimed again", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The file of a checkpoint holds none.
    #[error(
        "the checkpoint {} is damaged: {reason}; restore it, or remove it so that the partition starts at \
         the pipeline's `start`", path.display()
    )]
    DamagedCheckpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Another process uses the checkpoints of the consumer group.
    #[error(
        "the checkpoints of {group} are in use{} (locked is {}): two relays without ownership would each carry every \
         event; stop the other one, or let all of them share the partitions with `ownership: {{mode: greedy}}` or \
         `balanced`",
        process.map_or_else(String::new, |process| format!(" by process {process}")), path.display()
    )]
    InUse {
        /// The group.
        group: ConsumerGroup,
        /// The lock.
        path: PathBuf,
        /// The id of that process, if it could be found out.
        process: Option<u32>,
    },
    /// An offset is longer than the store can keep.
    #[error("an offset of {length} bytes is longer than the {maximum} that the store supports")]
    OffsetTooLong {
        /// How long the offset is in the store's own form, in bytes.
        length: usize,
        /// How long it may be, in bytes.
        maximum: usize,
    },
    /// Somebody else has written the checkpoint since it was read: whoever wrote last owns the partition.
    #[error("the checkpoint of partition {partition} has been written by another owner")]
    NotOwner {
        /// The partition.
        partition: PartitionId,
    },
    /// The store has no conditions: what was written is replaced by whoever writes next.
    #[error(
        "committed offsets of Kafka are not written under a condition, so that partitions can't be shared by claims over them: use \
         `ownership: {{mode: group}}`, keep checkpoints in files or blobs, or give each relay `partitions` of its own"
    )]
    NoCondition,
    /// The consumer group takes no such member.
    #[error("the consumer group {group_id} can't be taken part in: {reason}")]
    Membership {
        /// The group.
        group_id: String,
        /// What its coordinator, or the member that leads it, says.
        reason: String,
    },
    /// The store is not there, or too busy: it may be asked again.
    #[error("the checkpoint store is not available: {reason}")]
    Unavailable {
        /// What the store or the network says.
        reason: String,
    },
    /// The store refuses, and would again.
    #[error("the checkpoint store refuses: {reason}")]
    Refused {
        /// What the store says.
        reason: String,
    },
    /// The container of blobs is not there.
    #[error(
        "the container {container} does not exist: create it (az storage container create --name {container}), or let the \
         relay do so with `create: true`; expected at {place}"
    )]
    NoContainer {
        /// The container.
        container: String,
        /// Its URL.
        place: String,
    },
}

impl ConsumerGroup {
    /// Names a consumer group.
    #[must_use]
    pub fn new(namespace: &str, hub: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), hub: hub.into(), name: name.into() }
    }
}

impl fmt::Display for ConsumerGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.hub, self.name)
    }
}
