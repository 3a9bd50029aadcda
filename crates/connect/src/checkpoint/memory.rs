//! A checkpoint store in memory that remembers every call, for tests, and for runs that need not survive their process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::{Checkpoint, CheckpointStore, ConsumerGroup, ETag, Ownership, StoreError, StoreFuture};
use crate::event::PartitionId;

/// A store whose clones share their content.
#[derive(Clone, Debug, Default)]
pub struct MemoryCheckpointStore {
    content: Arc<Mutex<Content>>,
}

#[derive(Debug, Default)]
struct Content {
    checkpoints: BTreeMap<(ConsumerGroup, PartitionId), Checkpoint>,
    ownership: BTreeMap<(ConsumerGroup, PartitionId), Ownership>,
    updates: Vec<Checkpoint>,
    update_delay: Duration,
    failing_updates: u32,
    failing_lists: u32,
    writings: u64,
}

impl MemoryCheckpointStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets every later update take this long (in tokio's time) before it is stored.
    pub fn delay_updates(&self, delay: Duration) {
        self.content().update_delay = delay;
    }

    /// Lets the next `count` updates fail after their delay.
    pub fn fail_updates(&self, count: u32) {
        self.content().failing_updates = count;
    }

    /// Lets the next `count` listings of checkpoints fail.
    pub fn fail_lists(&self, count: u32) {
        self.content().failing_lists = count;
    }

    /// Every checkpoint that was stored, in order.
    #[must_use]
    pub fn updates(&self) -> Vec<Checkpoint> {
        self.content().updates.clone()
    }

    /// The stored checkpoint of a partition.
    #[must_use]
    pub fn checkpoint(&self, group: &ConsumerGroup, partition: PartitionId) -> Option<Checkpoint> {
        self.content()
            .checkpoints
            .get(&(group.clone(), partition))
            .cloned()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CheckpointStore for MemoryCheckpointStore {
    fn list_checkpoints(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Checkpoint>> {
        let mut content = self.content();
        let listed = if content.failing_lists > 0 {
            content.failing_lists -= 1;
            Err(StoreError::Unavailable {
                reason: "a listing that was told to fail".to_owned(),
            })
        } else {
            Ok(of_group(&content.checkpoints, group))
        };
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
            if content.failing_updates > 0 {
                content.failing_updates -= 1;
                return Err(StoreError::Unavailable {
                    reason: "an update that was told to fail".to_owned(),
                });
            }
            content.updates.push(checkpoint.clone());
            content
                .checkpoints
                .insert((checkpoint.group.clone(), checkpoint.partition), checkpoint);
            Ok(())
        })
    }

    fn list_ownership(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Ownership>> {
        Box::pin(std::future::ready(Ok(of_group(
            &self.content().ownership,
            group,
        ))))
    }

    fn claim_ownership(&self, claims: Vec<Ownership>) -> StoreFuture<Vec<Ownership>> {
        let mut content = self.content();
        let claimed = claims
            .into_iter()
            .filter_map(|claim| content.claim(claim))
            .collect();
        Box::pin(std::future::ready(Ok(claimed)))
    }
}

impl Content {
    fn claim(&mut self, claim: Ownership) -> Option<Ownership> {
        let key = (claim.group.clone(), claim.partition);
        let current = self
            .ownership
            .get(&key)
            .and_then(|current| current.etag.as_ref());
        if claim.etag.as_ref() != current {
            return None;
        }
        self.writings += 1;
        let etag = Some(ETag(format!("0x{:X}", self.writings)));
        let written = Ownership {
            etag,
            last_modified: Some(SystemTime::now()),
            ..claim
        };
        self.ownership.insert(key, written.clone());
        Some(written)
    }
}

fn of_group<T: Clone>(
    all: &BTreeMap<(ConsumerGroup, PartitionId), T>,
    group: &ConsumerGroup,
) -> Vec<T> {
    let everything = (group.clone(), PartitionId(0))..=(group.clone(), PartitionId(u32::MAX));
    all.range(everything)
        .map(|(_, value)| value.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::suite;

    suite::of_store!((MemoryCheckpointStore::new(), ()));
}
