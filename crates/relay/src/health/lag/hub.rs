//! The ends of a hub's partitions: one request for each, to its management node.

use std::time::Duration;

use connect::event::PartitionId;
use connect::event_hubs::{EventHubsOptions, ManagementClient};
use connect::service::ServiceError;

use super::{AskEnds, LogEnd, LogEnds};

/// Asks a hub.
#[derive(Debug)]
pub struct HubEnds {
    options: EventHubsOptions,
    client: Option<ManagementClient>,
}

impl HubEnds {
    /// Of this hub. Nothing is connected yet.
    #[must_use]
    pub const fn of(options: EventHubsOptions) -> Self {
        Self { options, client: None }
    }
}

impl AskEnds for HubEnds {
    async fn ask(&mut self, partitions: &[PartitionId], ends: &LogEnds) -> Result<(), ServiceError> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => ManagementClient::connect(self.options.clone()).await?,
        };
        for &partition in partitions {
            let properties = client.partition_properties(partition).await?;
            let end = LogEnd {
                begin_sequence_number: properties.begin_sequence_number,
                last_sequence_number: properties.last_enqueued_sequence_number,
                last_enqueued: Some(properties.last_enqueued_time),
            };
            ends.note(partition, end);
            tokio::time::sleep(PAUSE).await;
        }
        self.client = Some(client);
        Ok(())
    }
}

/// Between two requests: Event Hubs answers 50 per second to a whole consumer group.
const PAUSE: Duration = Duration::from_millis(50);
