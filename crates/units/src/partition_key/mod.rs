//! Which partition a key belongs to, as others have decided it, so that equal keys meet whoever sends them.

mod event_hubs;
mod kafka;

/// Maximum length of a partition key of Event Hubs and Service Bus, in characters.
pub const LONGEST: usize = 128;

/// Whether a partition key is longer than [`LONGEST`].
#[inline]
#[must_use]
pub fn is_too_long(key: &str) -> bool {
    key.len() > LONGEST && key.chars().count() > LONGEST
}

/// Who has decided it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partitioner {
    /// Event Hubs, and its official SDKs: see `event_hubs.rs`.
    #[default]
    EventHubs,
    /// The default partitioner of Kafka's Java client (`murmur2_random` of librdkafka): see `kafka.rs`.
    Kafka,
}

impl Partitioner {
    /// The partition, below `partitions`, of a key; 0 where `partitions` is 0.
    #[inline]
    #[must_use]
    pub fn partition_of(self, key: &[u8], partitions: u32) -> u32 {
        match self {
            Self::EventHubs => event_hubs::partition_of(key, partitions),
            Self::Kafka => kafka::partition_of(key, partitions),
        }
    }
}
