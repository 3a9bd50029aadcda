//! A checkpoint store whose answers are waited for only so long.
//!
//! A store that never answers must not stop a partition's progress, or the sharing of partitions, for ever: what has not
//! been answered in time has failed, and is tried again as any failure is. It may yet be done: a replacement that was is
//! found out by its ETag, and a plain update is followed by the next one of its partition only when it has come to its
//! end, since one that is overtaken takes the checkpoint back. But not for ever: a call that is lost must not stop the
//! partition, and a checkpoint that goes back costs events that come twice, nothing else.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use connect::checkpoint::{
    Checkpoint, CheckpointStore, Claimed, ConsumerGroup, ETag, Ownership, StoreError, StoreFuture,
};
use connect::event::PartitionId;
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::time::Instant;

/// A store with a limit on the time of each call, for one consumer group.
pub(super) struct TimedStore {
    store: Arc<dyn CheckpointStore>,
    limit: Duration,
    updates: Mutex<HashMap<PartitionId, Arc<Update>>>,
}

/// The update of a partition's checkpoint that is under way, waited for or not.
type Update = tokio::sync::Mutex<Option<UnderWay>>;

struct UnderWay {
    call: StoreFuture<()>,
    /// Nobody waits for it any longer than this.
    lost_at: Instant,
}

impl TimedStore {
    pub(super) fn new(store: Arc<dyn CheckpointStore>, limit: Duration) -> Self {
        Self { store, limit, updates: Mutex::default() }
    }

    fn limited<T: 'static>(
        &self,
        answer: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> StoreFuture<T> {
        Self::within(self.limit, answer)
    }

    fn within<T: 'static>(
        limit: Duration,
        answer: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> StoreFuture<T> {
        Box::pin(async move {
            let unanswered = |_| StoreError::Unavailable { reason: format!("no answer within {limit:?}") };
            tokio::time::timeout(limit, answer).await.map_err(unanswered)?
        })
    }

    fn update_of(&self, partition: &PartitionId) -> Arc<Update> {
        let mut updates = self.updates.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(updates.entry(*partition).or_default())
    }

    fn updates_not_waited_for(&self) -> Vec<OwnedMutexGuard<Option<UnderWay>>> {
        let updates = self.updates.lock().unwrap_or_else(PoisonError::into_inner);
        let unlocked = |update: &Arc<Update>| Arc::clone(update).try_lock_owned().ok();
        updates.values().filter_map(unlocked).filter(|update| update.is_some()).collect()
    }
}

/// The store of a relay whose source settles, which has nothing to keep. It is never asked.
#[derive(Debug)]
pub(super) struct NoStore;

impl NoStore {
    fn refuse<T: Send + 'static>() -> StoreFuture<T> {
        let reason = "settled messages have no checkpoint".to_owned();
        Box::pin(std::future::ready(Err(StoreError::Unavailable { reason })))
    }
}

impl CheckpointStore for NoStore {
    fn list_checkpoints(&self, _: &ConsumerGroup) -> StoreFuture<Vec<Checkpoint>> {
        Self::refuse()
    }

    fn update_checkpoint(&self, _: Checkpoint) -> StoreFuture<()> {
        Self::refuse()
    }

    fn replace_checkpoint(&self, _: Checkpoint) -> StoreFuture<ETag> {
        Self::refuse()
    }

    fn list_ownership(&self, _: &ConsumerGroup) -> StoreFuture<Vec<Ownership>> {
        Self::refuse()
    }

    fn claim_ownership(&self, _: Vec<Ownership>, _: Duration) -> StoreFuture<Claimed> {
        Self::refuse()
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn pace(&self) -> Duration {
        Duration::ZERO
    }
}

/// Waits until an update that was given up is over. Whoever asked for it was told that it failed.
async fn finish(update: &mut Option<UnderWay>) {
    if let Some(UnderWay { call, lost_at }) = update {
        let _over = tokio::time::timeout_at(*lost_at, call).await;
        *update = None;
    }
}

impl CheckpointStore for TimedStore {
    fn list_checkpoints(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Checkpoint>> {
        // What was given up may yet be done, and must not come after the answer: who asks begins again from there.
        let given_up = self.updates_not_waited_for();
        let store = Arc::clone(&self.store);
        let group = group.clone();
        self.limited(async move {
            for mut update in given_up {
                finish(&mut update).await;
            }
            store.list_checkpoints(&group).await
        })
    }

    fn update_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<()> {
        let store = Arc::clone(&self.store);
        let update = self.update_of(&checkpoint.partition);
        let lost_at = Instant::now() + self.limit * LOST_AFTER;
        self.limited(async move {
            let mut under_way = update.lock().await;
            finish(&mut under_way).await;
            let UnderWay { call, .. } =
                under_way.insert(UnderWay { call: store.update_checkpoint(checkpoint), lost_at });
            let outcome = call.await;
            *under_way = None;
            outcome
        })
    }

    fn replace_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<ETag> {
        self.limited(self.store.replace_checkpoint(checkpoint))
    }

    fn list_ownership(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Ownership>> {
        self.limited(self.store.list_ownership(group))
    }

    fn claim_ownership(&self, claims: Vec<Ownership>, within: Duration) -> StoreFuture<Claimed> {
        Self::within(self.limit + within, self.store.claim_ownership(claims, within))
    }

    fn ownership_changes(&self) -> Option<watch::Receiver<u64>> {
        self.store.ownership_changes()
    }

    fn generations(&self) -> u64 {
        self.store.generations()
    }

    fn leave(&self) -> StoreFuture<()> {
        self.limited(self.store.leave())
    }

    fn now(&self) -> SystemTime {
        self.store.now()
    }

    fn pace(&self) -> Duration {
        self.store.pace()
    }
}

impl fmt::Debug for TimedStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TimedStore")
            .field("store", &self.store)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// How many times as long as a call may take an update is waited for that was given up.
const LOST_AFTER: u32 = 10;
