//! A checkpoint store in memory that remembers every call, for tests, and for runs that need not survive their process.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::{
    Checkpoint, CheckpointStore, Claimed, ConsumerGroup, ETag, FailedClaim, Ownership, StoreError,
    StoreFuture,
};
use crate::event::PartitionId;

/// A store whose clones share their content. Its clock begins at the Unix epoch and goes by tokio's time, which tests
/// can pause.
#[derive(Clone, Debug)]
pub struct MemoryCheckpointStore {
    content: Arc<Mutex<Content>>,
    made: Instant,
}

#[derive(Debug, Default)]
struct Content {
    checkpoints: BTreeMap<(ConsumerGroup, PartitionId), Checkpoint>,
    ownership: BTreeMap<(ConsumerGroup, PartitionId), Ownership>,
    updates: Vec<Checkpoint>,
    update_delay: Duration,
    pace: Duration,
    failing_updates: u32,
    failing_lists: u32,
    failing_claims: u32,
    /// Of this many listings of ownership and single claims, one fails.
    failing_each: Option<NonZeroU32>,
    /// Number of those listings and claims so far.
    ownership_calls: u32,
    writings: u64,
}

impl MemoryCheckpointStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self { content: Arc::default(), made: Instant::now() }
    }

    /// Lets every later update take this long (in tokio's time) before it is stored.
    pub fn delay_updates(&self, delay: Duration) {
        self.content().update_delay = delay;
    }

    /// Asks for this time between writings.
    pub fn ask_for_pace(&self, pace: Duration) {
        self.content().pace = pace;
    }

    /// Lets the next `count` updates fail after their delay.
    pub fn fail_updates(&self, count: u32) {
        self.content().failing_updates = count;
    }

    /// Lets the next `count` listings of checkpoints fail.
    pub fn fail_lists(&self, count: u32) {
        self.content().failing_lists = count;
    }

    /// Lets the next `count` listings of ownership, and single claims, fail.
    pub fn fail_claims(&self, count: u32) {
        self.content().failing_claims = count;
    }

    /// Lets each `n`th listing of ownership, or single claim, fail; none for 0.
    pub fn fail_each(&self, n: u32) {
        self.content().failing_each = NonZeroU32::new(n);
    }

    /// Every checkpoint that was stored, in order.
    #[must_use]
    pub fn updates(&self) -> Vec<Checkpoint> {
        self.content().updates.clone()
    }

    /// The stored checkpoint of a partition.
    #[must_use]
    pub fn checkpoint(&self, group: &ConsumerGroup, partition: PartitionId) -> Option<Checkpoint> {
        self.content().checkpoints.get(&(group.clone(), partition)).cloned()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CheckpointStore for MemoryCheckpointStore {
    fn list_checkpoints(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Checkpoint>> {
        let mut content = self.content();
        let listed = fail_some(&mut content.failing_lists, "a listing that was told to fail")
            .map(|()| of_group(&content.checkpoints, group));
        Box::pin(std::future::ready(listed))
    }

    fn update_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<()> {
        let store = self.clone();
        let delay = store.content().update_delay;
        Box::pin(async move {
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            let mut content = store.content();
            content.maybe_fail_update()?;
            content.store(checkpoint);
            Ok(())
        })
    }

    fn replace_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<ETag> {
        let store = self.clone();
        let delay = store.content().update_delay;
        Box::pin(async move {
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            let mut content = store.content();
            content.maybe_fail_update()?;
            let key = (checkpoint.group.clone(), checkpoint.partition);
            let current = content.checkpoints.get(&key);
            if current.and_then(|current| current.etag.as_ref()) != checkpoint.etag.as_ref() {
                return Err(StoreError::NotOwner { partition: checkpoint.partition });
            }
            Ok(content.store(checkpoint))
        })
    }

    fn list_ownership(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Ownership>> {
        let mut content = self.content();
        let listed = content.maybe_fail_claim().map(|()| of_group(&content.ownership, group));
        Box::pin(std::future::ready(listed))
    }

    fn claim_ownership(&self, claims: Vec<Ownership>, _: Duration) -> StoreFuture<Claimed> {
        let now = self.now();
        let mut content = self.content();
        let mut claimed = Claimed::default();
        for claim in claims {
            match content.maybe_fail_claim() {
                Ok(()) => claimed.written.extend(content.claim(claim, now)),
                Err(error) => claimed.failed.push(FailedClaim { partition: claim.partition, error }),
            }
        }
        Box::pin(std::future::ready(Ok(claimed)))
    }

    fn now(&self) -> SystemTime {
        UNIX_EPOCH + self.made.elapsed()
    }

    fn pace(&self) -> Duration {
        self.content().pace
    }
}

impl Default for MemoryCheckpointStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Content {
    fn maybe_fail_update(&mut self) -> Result<(), StoreError> {
        fail_some(&mut self.failing_updates, "an update that was told to fail")
    }

    fn maybe_fail_claim(&mut self) -> Result<(), StoreError> {
        self.ownership_calls = self.ownership_calls.wrapping_add(1);
        if self.failing_each.is_some_and(|n| self.ownership_calls % n == 0) {
            self.failing_claims = self.failing_claims.saturating_add(1);
        }
        fail_some(&mut self.failing_claims, "a claim that was told to fail")
    }

    fn store(&mut self, checkpoint: Checkpoint) -> ETag {
        let etag = self.next_etag();
        let checkpoint = Checkpoint { etag: Some(etag.clone()), ..checkpoint };
        self.updates.push(checkpoint.clone());
        self.checkpoints.insert((checkpoint.group.clone(), checkpoint.partition), checkpoint);
        etag
    }

    fn next_etag(&mut self) -> ETag {
        self.writings += 1;
        ETag(format!("0x{:X}", self.writings))
    }

    fn claim(&mut self, claim: Ownership, now: SystemTime) -> Option<Ownership> {
        let key = (claim.group.clone(), claim.partition);
        let current = self.ownership.get(&key).and_then(|current| current.etag.as_ref());
        if claim.etag.as_ref() != current {
            return None;
        }
        let written = Ownership { etag: Some(self.next_etag()), last_modified: Some(now), ..claim };
        self.ownership.insert(key, written.clone());
        Some(written)
    }
}

/// Fails as long as there are failures left.
fn fail_some(left: &mut u32, reason: &str) -> Result<(), StoreError> {
    match left.checked_sub(1) {
        None => Ok(()),
        Some(fewer) => {
            *left = fewer;
            Err(StoreError::Unavailable { reason: reason.to_owned() })
        }
    }
}

fn of_group<T: Clone>(all: &BTreeMap<(ConsumerGroup, PartitionId), T>, group: &ConsumerGroup) -> Vec<T> {
    let everything = (group.clone(), PartitionId(0))..=(group.clone(), PartitionId(u32::MAX));
    all.range(everything).map(|(_, value)| value.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::suite;

    suite::of_store!((MemoryCheckpointStore::new(), ()));
}
