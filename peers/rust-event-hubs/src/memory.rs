//! Checkpoints and ownership that live as long as the process, for targets without a storage account.

use azure_messaging_eventhubs::models::{Checkpoint, Ownership};
use azure_messaging_eventhubs::{CheckpointStore, InMemoryCheckpointStore};

/// The SDK's store in memory, except that a claim that came too late is not an error but a claim that was lost: for the
/// processor an error is the end.
#[derive(Default)]
pub struct MemoryCheckpointStore(InMemoryCheckpointStore);

#[async_trait::async_trait]
impl CheckpointStore for MemoryCheckpointStore {
    async fn claim_ownership(&self, ownerships: &[Ownership]) -> azure_core::Result<Vec<Ownership>> {
        let claims = ownerships.iter();
        Ok(claims.filter_map(|claim| self.0.update_ownership(claim).ok()).collect())
    }

    async fn list_checkpoints(
        &self,
        namespace: &str,
        event_hub_name: &str,
        consumer_group: &str,
    ) -> azure_core::Result<Vec<Checkpoint>> {
        self.0.list_checkpoints(namespace, event_hub_name, consumer_group).await
    }

    async fn list_ownerships(
        &self,
        namespace: &str,
        event_hub_name: &str,
        consumer_group: &str,
    ) -> azure_core::Result<Vec<Ownership>> {
        self.0.list_ownerships(namespace, event_hub_name, consumer_group).await
    }

    async fn update_checkpoint(&self, checkpoint: Checkpoint) -> azure_core::Result<()> {
        self.0.update_checkpoint(checkpoint).await
    }
}
