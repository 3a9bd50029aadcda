//! A checkpoint store of blobs, laid out as the official SDKs lay theirs out, so that a relay and a processor in another
//! language can share the partitions of a hub.
//!
//! ```text
//!   <namespace>/<hub>/<group>/checkpoint/<partition>   metadata  sequencenumber, offset; writing and logid, of ours
//!   <namespace>/<hub>/<group>/ownership/<partition>    metadata  ownerid; empty once it was given back
//! ```
//!
//! The blobs are empty; what they say is their metadata, which is written under a condition on the blob's ETag and listed for
//! all partitions in one request.
//!
//! | | |
//! |---|---|
//! | [`options`] | where the container is, and how names are spelled |
//! | `names`, `metadata` | the layout |
//! | `unsure` | writings whose answer was lost |
//! | `claims` | many claims at once, no faster than the account accepts them |
//! | `container` | the requests, on the official client, and what their errors mean |
//! | `shared_key`, `transport` | the two parts of that client that are ours: signing by the account's key, HTTP |
//!
//! # Letter case
//! The SDKs for Python, JavaScript, .NET and Java (whose processor does it, not its store) write the whole name in lower
//! case, those for Go and Rust as it was given.
//! It makes a difference for `$Default`. [`Spelling::Found`], the default, goes by what is in the container when the group is
//! used first: whichever spelling has been written last; where there is nothing yet, lower case, as most.
//!
//! # Beside an SDK
//! An SDK writes its checkpoints without a condition. One that has lost a partition and writes once more takes it back to
//! where it was; the ETag that the present owner holds is old then, its next checkpoint is refused, and it begins again from
//! what is stored: events come twice, none is left out.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, SystemTime};

use tokio::sync::Mutex;

use super::{Checkpoint, CheckpointStore, Claimed, ConsumerGroup, ETag, Ownership, StoreError, StoreFuture};
use crate::event::PartitionId;
use crate::retry::{RetryMode, RetryPolicy};

mod bearer;
mod claims;
mod container;
mod metadata;
mod names;
mod options;
mod shared_key;
#[cfg(test)]
mod tests;
mod unsure;

pub(crate) use container::{BlobProperties, Condition, Container};
use container::{ListedBlob, Written};
use metadata::Metadata;
use names::{GroupNames, Kind, partition_of_checkpoint};
pub use options::{BlobStoreOptions, MissingContainer, Spelling};
use unsure::{Unsure, random_seed};

/// Checkpoints and ownership in the blobs of a container. Clones share their connections.
#[derive(Clone, Debug)]
pub struct BlobCheckpointStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    container: Container,
    spelling: Spelling,
    /// What has been found out about the groups whose names have capitals.
    found: Mutex<HashMap<ConsumerGroup, GroupNames>>,
    unsure: Unsure,
    /// Number of claims that the account has accepted at once of late.
    claims_at_once: AtomicUsize,
}

impl BlobCheckpointStore {
    /// Opens the store: the container is there, or is made if the options say so, and may be listed.
    ///
    /// # Errors
    /// [`StoreError::NoContainer`] when it is not there, [`StoreError::Unavailable`] when the service can't be reached or
    /// refuses.
    pub async fn open(options: BlobStoreOptions) -> Result<Self, StoreError> {
        let container = Container::new(&options)?;
        match options.missing_container {
            MissingContainer::Refuse => {}
            MissingContainer::Create => again(|| container.create()).await?,
        }
        // The one request that needs no right beyond those that the store needs anyway.
        again(|| container.probe()).await?;
        let spelling = options.spelling;
        let inner = Inner {
            container,
            spelling,
            found: Mutex::default(),
            unsure: Unsure::new(),
            claims_at_once: AtomicUsize::new(claims::AT_ONCE_MAX),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// How far the checkpoints of a hub's consumer group are, by the sequence numbers of the last events that are done: in
    /// whatever namespace and spelling processors write them. For one who watches processors, and writes nothing.
    ///
    /// # Errors
    /// As those of [`open`](Self::open).
    pub async fn progress_of(
        &self,
        hub: &str,
        consumer_group: &str,
    ) -> Result<Vec<(PartitionId, i64)>, StoreError> {
        let listed = again(|| self.inner.container.list("")).await?;
        let progress = listed.into_iter().filter_map(|blob| {
            let partition = partition_of_checkpoint(&blob.name, hub, consumer_group)?;
            Some((partition, metadata::sequence_number(&blob.metadata)?))
        });
        Ok(progress.collect())
    }
}

impl Inner {
    /// How the names of a group begin.
    async fn names(&self, group: &ConsumerGroup) -> Result<GroupNames, StoreError> {
        let given = GroupNames::as_given(group);
        let lower = given.lower_case();
        match self.spelling {
            Spelling::AsGiven => return Ok(given),
            Spelling::LowerCase => return Ok(lower),
            Spelling::Found if given == lower => return Ok(given),
            Spelling::Found => {}
        }
        // Held until it is known: whoever asks at the same time must get the same answer.
        let mut found = self.found.lock().await;
        if let Some(names) = found.get(group) {
            return Ok(names.clone());
        }
        let in_lower = self.last_writing(&lower).await?;
        let in_given = self.last_writing(&given).await?;
        let names = if in_given > in_lower { given } else { lower };
        tracing::info!(%group, names = names.prefix(), "the spelling of the group's blobs");
        found.insert(group.clone(), names.clone());
        Ok(names)
    }

    /// When a blob whose name begins so was last written.
    async fn last_writing(&self, names: &GroupNames) -> Result<Option<SystemTime>, StoreError> {
        let listed = again(|| self.container.list(names.prefix())).await?;
        Ok(listed.into_iter().filter_map(|blob| blob.last_modified).max())
    }

    /// What is stored of one kind, by partition. Blobs of other names are not ours.
    async fn list(
        &self,
        group: &ConsumerGroup,
        kind: Kind,
    ) -> Result<Vec<(PartitionId, ListedBlob)>, StoreError> {
        let prefix = self.names(group).await?.of_kind(kind);
        let listed = again(|| self.container.list(&prefix)).await?;
        let mut of_partitions: Vec<_> = listed
            .into_iter()
            .filter_map(|blob| {
                let partition = blob.name.strip_prefix(prefix.as_str())?.parse().ok()?;
                Some((PartitionId(partition), blob))
            })
            .collect();
        of_partitions.sort_by_key(|(partition, _)| *partition);
        Ok(of_partitions)
    }

    async fn replace(&self, checkpoint: &Checkpoint) -> Result<Written, StoreError> {
        let partition = checkpoint.partition;
        let names = self.names(&checkpoint.group).await?;
        let name = names.of_partition(Kind::Checkpoint, partition);
        let mut metadata = metadata::of_checkpoint(checkpoint);
        metadata::mark(&mut metadata, self.unsure.begin(&name));
        let mut written = self.write_over(&name, metadata.clone(), checkpoint.etag.as_ref()).await?;
        if written.is_none()
            && self.unsure.any_before_the_last(&name)
            && let Some(there) = again(|| self.container.properties(&name)).await?
            && metadata::mark_of(&there.metadata).is_some_and(|mark| self.unsure.has(&name, mark))
        {
            written = self.write_over(&name, metadata, Some(&there.etag)).await?;
        }
        self.unsure.forget(&name);
        written.ok_or(StoreError::NotOwner { partition })
    }

    /// Writes over what has this ETag or, without one, where nothing is yet; none if that is not so.
    async fn write_over(
        &self,
        name: &str,
        metadata: Metadata,
        etag: Option<&ETag>,
    ) -> Result<Option<Written>, StoreError> {
        match etag {
            Some(etag) => {
                let condition = Condition::Unchanged(etag);
                self.container.set_metadata(name, metadata, condition).await
            }
            None => {
                let condition = Condition::Absent;
                self.container.put(name, metadata, condition).await
            }
        }
    }

    async fn update(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let names = self.names(&checkpoint.group).await?;
        let name = names.of_partition(Kind::Checkpoint, checkpoint.partition);
        let metadata = metadata::of_checkpoint(checkpoint);
        let there = self.container.set_metadata(&name, metadata.clone(), Condition::None).await?;
        if there.is_none() {
            self.container.put(&name, metadata, Condition::None).await?;
        }
        Ok(())
    }

    /// Writes one claim; none if it is lost.
    async fn claim(&self, claim: Ownership) -> Result<Option<Ownership>, StoreError> {
        let names = self.names(&claim.group).await?;
        let name = names.of_partition(Kind::Ownership, claim.partition);
        let metadata = metadata::of_ownership(&claim);
        let etag = claim.etag.as_ref();
        let written = self.write_over(&name, metadata, etag).await?;
        Ok(written.map(|written| Ownership {
            etag: Some(written.etag),
            last_modified: Some(written.last_modified),
            ..claim
        }))
    }
}

impl CheckpointStore for BlobCheckpointStore {
    fn list_checkpoints(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Checkpoint>> {
        let (inner, group) = (Arc::clone(&self.inner), group.clone());
        Box::pin(async move {
            let listed = inner.list(&group, Kind::Checkpoint).await?;
            let checkpoints = listed
                .into_iter()
                .map(|(partition, blob)| metadata::to_checkpoint(group.clone(), partition, blob));
            Ok(checkpoints.collect())
        })
    }

    fn update_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<()> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move { inner.update(&checkpoint).await })
    }

    fn replace_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<ETag> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move { Ok(inner.replace(&checkpoint).await?.etag) })
    }

    fn list_ownership(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Ownership>> {
        let (inner, group) = (Arc::clone(&self.inner), group.clone());
        Box::pin(async move {
            let listed = inner.list(&group, Kind::Ownership).await?;
            let owned = listed
                .into_iter()
                .map(|(partition, blob)| metadata::to_ownership(group.clone(), partition, blob));
            Ok(owned.collect())
        })
    }

    fn claim_ownership(&self, claims: Vec<Ownership>, within: Duration) -> StoreFuture<Claimed> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let write = |claim| inner.claim(claim);
            Ok(claims::claim_all(claims, within, &inner.claims_at_once, random_seed(), write).await)
        })
    }

    fn now(&self) -> SystemTime {
        self.inner.container.now()
    }

    fn pace(&self) -> Duration {
        PACE
    }
}

/// Asks as often as [`READ_RETRY`] says, as long as the service is not to be had. Only for what may be done twice.
async fn again<T, F>(ask: impl Fn() -> F + Send) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>> + Send,
{
    let mut failures = 0;
    loop {
        let answer = ask().await;
        let Err(StoreError::Unavailable { reason }) = &answer else {
            return answer;
        };
        failures += 1;
        let Some(delay) = READ_RETRY.delay_after(failures, random_seed()) else {
            return answer;
        };
        tracing::debug!(reason, "the blobs are asked again");
        tokio::time::sleep(delay).await;
    }
}

/// One reply of "busy" is no reason to give up a start, or a cycle of ownership.
const READ_RETRY: RetryPolicy = RetryPolicy {
    attempts: 3,
    mode: RetryMode::Exponential,
    delay: Duration::from_millis(200),
    max_delay: Duration::from_secs(1),
    try_timeout: Duration::ZERO,
    jitter: 0.5,
    seed: 0,
};

/// A writing is a request of some 100 µs of this process's time, and an account answers some thousands per second. At most
/// 500 writings per second, of all partitions together, cost a relay a twentieth of its core.
const PACE: Duration = Duration::from_millis(2);
