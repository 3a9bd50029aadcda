//! What events pass through, as scenarios write it: two hubs, two queues, or a topology.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::ByteSize;

use super::end::is_usual;
use super::{Protocol, TopologySection};

/// The entities of a case: the section `hubs`, or the section `queues` or `topology` in its place. For what they mean,
/// see [`Topology`](super::Topology).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entities {
    /// Logs of partitions, read by position.
    Hubs(Hubs),
    /// Messages that are locked, settled and gone.
    Queues(Queues),
    /// A graph of any of them.
    Topology(Box<TopologySection>),
}

/// The section `hubs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hubs {
    /// Where the load goes and the relay receives.
    pub source: Hub,
    /// Where the relay sends and the sink receives.
    pub destination: Hub,
    /// What every role speaks with them.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub protocol: Protocol,
}

/// One hub. The embedded service creates it; in a namespace that exists it has the partitions that it has there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hub {
    /// The hub's name in the namespace.
    pub name: String,
    /// The number of its partitions.
    pub partitions: u32,
    /// The consumer group that is read through: the relay's on the source, the sink's on the destination.
    pub consumer_group: String,
}

impl Hub {
    /// The share of each partition of what the hub may hold.
    #[must_use]
    pub fn share_of(&self, hub: ByteSize) -> ByteSize {
        ByteSize::from_bytes(hub.bytes() / u64::from(self.partitions.max(1)))
    }
}

/// The section `queues`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Queues {
    /// Where the load goes and the relay receives.
    pub source: QueueName,
    /// Where the relay sends and the sink receives.
    pub destination: QueueName,
    /// How long a message stays locked for who received it. Of the embedded service's queues.
    #[serde(with = "units::duration")]
    pub lock_duration: Duration,
    /// How often a message is delivered before it goes to the dead-letter queue. Of the embedded service's queues.
    pub maximum_delivery_count: u32,
    /// The largest message or batch that the embedded service takes. It is advertised to clients, and some
    /// allocate as much for each message that they send.
    pub largest_message: ByteSize,
}

/// A queue of the section `queues`. In a namespace that is not the embedded service it must exist, without sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueName {
    /// The queue's name in the namespace.
    pub name: String,
}

/// One queue with its settings, which the embedded service creates it with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// The queue's name in the namespace.
    pub name: String,
    /// How long a message stays locked for its receiver.
    #[serde(with = "units::duration")]
    pub lock_duration: Duration,
    /// How often a message is delivered before it goes to the dead-letter queue.
    pub maximum_delivery_count: u32,
    /// The largest message or batch that the service takes.
    pub largest_message: ByteSize,
}

impl Queue {
    /// A queue with the usual settings.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        let Queues { lock_duration, maximum_delivery_count, largest_message, .. } = Queues::default();
        Self { name: name.into(), lock_duration, maximum_delivery_count, largest_message }
    }
}

impl Default for Queues {
    fn default() -> Self {
        let queue = |name: &str| QueueName { name: name.to_owned() };
        Self {
            source: queue("source"),
            destination: queue("destination"),
            lock_duration: Duration::from_secs(60),
            maximum_delivery_count: 10,
            largest_message: ByteSize::from_kibibytes(256),
        }
    }
}
