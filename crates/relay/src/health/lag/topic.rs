//! The ends of a topic's partitions: three requests to each broker that leads some.
//!
//! Offsets are not consecutive where a log has been compacted or has markers of transactions: what is counted by them is an upper bound.

use connect::event::PartitionId;
use connect::kafka::{KafkaOptions, TopicExtents};
use connect::service::ServiceError;

use super::{AskEnds, LogEnd, LogEnds};

/// Asks a cluster of Kafka.
#[derive(Debug)]
pub struct TopicEnds {
    extents: TopicExtents,
}

impl TopicEnds {
    /// Of this topic. Nothing is connected yet.
    #[must_use]
    pub const fn of(options: KafkaOptions) -> Self {
        Self { extents: TopicExtents::of(options) }
    }
}

impl AskEnds for TopicEnds {
    async fn ask(&mut self, partitions: &[PartitionId], ends: &LogEnds) -> Result<(), ServiceError> {
        for extent in self.extents.ask().await? {
            if partitions.contains(&extent.partition) {
                let end = LogEnd {
                    begin_sequence_number: extent.start,
                    last_sequence_number: extent.end - 1,
                    last_enqueued: extent.last_time,
                };
                ends.note(extent.partition, end);
            }
        }
        Ok(())
    }
}
