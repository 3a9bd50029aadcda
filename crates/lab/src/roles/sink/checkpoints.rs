//! The checkpoints of a consumer, looked at again and again.

use connect::checkpoint::BlobCheckpointStore;
use connect::checkpoint::blobs::BlobStoreOptions;
use connect::event::PartitionId;
use tokio::sync::mpsc;

use crate::{
    clock::RunClock,
    roles::{
        RoleError,
        protocol::{CHECKPOINT_CONTAINER, CHECKPOINTS_EVERY, DoneMark},
    },
    scenario::Secret,
};

/// The checkpoints of one consumer group of a hub.
#[derive(Debug, Clone)]
pub(super) struct Checkpoints {
    store: BlobCheckpointStore,
    hub: String,
    consumer_group: String,
    clock: RunClock,
}

impl Checkpoints {
    /// Finds the container.
    pub(super) async fn open(
        storage: &Secret,
        hub: String,
        consumer_group: String,
        clock: RunClock,
    ) -> Result<Self, RoleError> {
        let account = storage.reveal().parse().map_err(failed)?;
        let options = BlobStoreOptions::new(account, CHECKPOINT_CONTAINER);
        let store = BlobCheckpointStore::open(options).await.map_err(failed)?;
        Ok(Self { store, hub, consumer_group, clock })
    }

    /// How far they are at this moment.
    pub(super) async fn marks(&self) -> Result<Vec<DoneMark>, RoleError> {
        let progress = self.store.progress_of(&self.hub, &self.consumer_group).await.map_err(failed)?;
        let at = self.clock.now();
        let mark = |(partition, sequence_number): (PartitionId, i64)| DoneMark {
            partition: partition.0,
            sequence_number,
            at,
        };
        Ok(progress.into_iter().map(mark).collect())
    }

    /// Reads them until the receiver is gone, or reading fails.
    pub(super) async fn watch(self, found: mpsc::Sender<Result<Vec<DoneMark>, RoleError>>) {
        let mut ticks = tokio::time::interval(CHECKPOINTS_EVERY);
        loop {
            ticks.tick().await;
            let marks = self.marks().await;
            let has_failed = marks.is_err();
            if found.send(marks).await.is_err() || has_failed {
                return;
            }
        }
    }
}

fn failed<E: std::error::Error + Send + Sync + 'static>(source: E) -> RoleError {
    RoleError::connect("reading the checkpoints")(source)
}
