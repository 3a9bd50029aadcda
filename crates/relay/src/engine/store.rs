//! A checkpoint store whose answers are waited for only so long.
//!
//! A store that never answers must not stop a partition's progress, or the sharing of partitions, for ever: what has not
//! been answered in time has failed, and is tried again as any failure is. It may yet be done; a replacement that was is
//! found out by its ETag, and a plain update that comes late costs events that come twice.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use connect::checkpoint::{
    Checkpoint, CheckpointStore, ConsumerGroup, ETag, Ownership, StoreError, StoreFuture,
};

/// A store with a limit on the time of each call.
#[derive(Debug)]
pub(super) struct TimedStore {
    store: Arc<dyn CheckpointStore>,
    limit: Duration,
}

impl TimedStore {
    pub(super) fn new(store: Arc<dyn CheckpointStore>, limit: Duration) -> Self {
        Self { store, limit }
    }

    fn limited<T: 'static>(&self, answer: StoreFuture<T>) -> StoreFuture<T> {
        let limit = self.limit;
        Box::pin(async move {
            let unanswered = |_| StoreError::Unavailable {
                reason: format!("no answer within {limit:?}"),
            };
            tokio::time::timeout(limit, answer)
                .await
                .map_err(unanswered)?
        })
    }
}

impl CheckpointStore for TimedStore {
    fn list_checkpoints(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Checkpoint>> {
        self.limited(self.store.list_checkpoints(group))
    }

    fn update_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<()> {
        self.limited(self.store.update_checkpoint(checkpoint))
    }

    fn replace_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<ETag> {
        self.limited(self.store.replace_checkpoint(checkpoint))
    }

    fn list_ownership(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Ownership>> {
        self.limited(self.store.list_ownership(group))
    }

    fn claim_ownership(&self, claims: Vec<Ownership>) -> StoreFuture<Vec<Ownership>> {
        self.limited(self.store.claim_ownership(claims))
    }

    fn now(&self) -> SystemTime {
        self.store.now()
    }
}
