//! What events pass through: two hubs, or two queues.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::ByteSize;

/// The two entities of a case. Written as the section `hubs`, or as the section `queues` in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entities {
    /// Logs of partitions, read by position.
    Hubs(Hubs),
    /// Messages that are locked, settled and gone.
    Queues(Queues),
}

/// The section `hubs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hubs {
    /// Where the load goes and the relay receives.
    pub source: Hub,
    /// Where the relay sends and the sink receives.
    pub destination: Hub,
}

/// One hub. The embedded service creates it; in another namespace it must exist with as many partitions.
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

/// The section `queues`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Queues {
    /// Where the load goes and the relay receives.
    pub source: Queue,
    /// Where the relay sends and the sink receives.
    pub destination: Queue,
    /// How long a message stays locked for who received it. Of the embedded service's queues.
    #[serde(with = "units::duration")]
    pub lock_duration: Duration,
    /// How often a message is delivered before it goes to the dead-letter queue. Of the embedded service's queues.
    pub maximum_delivery_count: u32,
    /// The largest message or batch that the embedded service takes. Clients are told, and some take as much memory for each
    /// message that they send.
    pub largest_message: ByteSize,
}

/// One queue. The embedded service creates it; in another namespace it must exist, without sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Queue {
    /// The queue's name in the namespace.
    pub name: String,
}

/// One end of what is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entity {
    /// A hub.
    Hub(Hub),
    /// A queue.
    Queue(Queue),
}

impl Entities {
    /// Where the load goes and the relay receives.
    #[must_use]
    pub fn source(&self) -> Entity {
        match self {
            Self::Hubs(hubs) => Entity::Hub(hubs.source.clone()),
            Self::Queues(queues) => Entity::Queue(queues.source.clone()),
        }
    }

    /// Where the relay sends and the sink receives.
    #[must_use]
    pub fn destination(&self) -> Entity {
        match self {
            Self::Hubs(hubs) => Entity::Hub(hubs.destination.clone()),
            Self::Queues(queues) => Entity::Queue(queues.destination.clone()),
        }
    }

    /// The hubs, if it is hubs.
    #[must_use]
    pub const fn hubs(&self) -> Option<&Hubs> {
        match self {
            Self::Hubs(hubs) => Some(hubs),
            Self::Queues(_) => None,
        }
    }

    /// The queues, if it is queues.
    #[must_use]
    pub const fn queues(&self) -> Option<&Queues> {
        match self {
            Self::Hubs(_) => None,
            Self::Queues(queues) => Some(queues),
        }
    }
}

impl Entity {
    /// Its name in the namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Hub(hub) => &hub.name,
            Self::Queue(queue) => &queue.name,
        }
    }

    /// How many parts it has that are read side by side: a queue is one.
    #[must_use]
    pub const fn partitions(&self) -> u32 {
        match self {
            Self::Hub(hub) => hub.partitions,
            Self::Queue(_) => 1,
        }
    }
}

impl Default for Queues {
    fn default() -> Self {
        let queue = |name: &str| Queue { name: name.to_owned() };
        Self {
            source: queue("source"),
            destination: queue("destination"),
            lock_duration: Duration::from_secs(60),
            maximum_delivery_count: 10,
            largest_message: ByteSize::from_kibibytes(256),
        }
    }
}
