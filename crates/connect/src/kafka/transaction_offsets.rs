//! Checkpoints that the transactions of a sink bring with them: they are read, and never written.

use std::time::Duration;

use super::offsets::GroupOffsetStore;
use super::options::KafkaOptions;
use crate::checkpoint::{
    Checkpoint, CheckpointStore, Claimed, ConsumerGroup, ETag, Ownership, StoreError, StoreFuture,
};

/// The committed offsets of a consumer group in the cluster of a [sink with transactions](super::connect_transactional_sink). An offset
/// that a transaction may yet change is waited for; so whoever asks once the sink is connected begins behind all that has committed, and
/// behind nothing else.
#[derive(Debug)]
pub struct TransactionOffsetStore(GroupOffsetStore);

impl TransactionOffsetStore {
    /// Connects to the coordinator of the group. `sink` says how to reach the cluster. Made within a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// As with [`GroupOffsetStore::open`].
    pub async fn open(sink: &KafkaOptions, group_id: &str) -> Result<Self, StoreError> {
        GroupOffsetStore::open(sink, group_id).await.map(Self)
    }
}

impl CheckpointStore for TransactionOffsetStore {
    fn list_checkpoints(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Checkpoint>> {
        self.0.list_checkpoints(group)
    }

    /// The events up to there have committed, and their offset with them.
    fn update_checkpoint(&self, _: Checkpoint) -> StoreFuture<()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn replace_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<ETag> {
        self.0.replace_checkpoint(checkpoint)
    }

    fn list_ownership(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Ownership>> {
        self.0.list_ownership(group)
    }

    fn claim_ownership(&self, claims: Vec<Ownership>, within: Duration) -> StoreFuture<Claimed> {
        self.0.claim_ownership(claims, within)
    }

    fn pace(&self) -> Duration {
        Duration::ZERO
    }
}
