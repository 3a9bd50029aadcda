//! What the relay does with the events: batches, routes, checkpoints, retries.

use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::ownership::{Ownership, OwnershipMode};
use super::prefetch::Prefetch;

/// The section `relay`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Relay {
    /// Relay processes that share the partitions of the source among them, or compete for its messages, under one limit
    /// together.
    pub instances: u32,
    /// When a batch of a partition is complete.
    pub batch: Batch,
    /// Events per partition that the source may have on the way before they are asked for. From a queue: messages beyond
    /// those that are worked on, and 0 for none.
    pub prefetch: Prefetch,
    /// Queues: messages that are worked on at once, each from its receipt to its settlement; 1 unless it says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Queues: threads that a command may have for its work on messages, where it needs any. Our relay works on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// How an event finds its destination.
    pub route: Route,
    /// Partitions of the destination hub that events are routed to: the first `fan_out` of them.
    pub fan_out: u32,
    /// When progress is recorded.
    pub checkpoint: Checkpoint,
    /// Where it is recorded, and where claims are.
    pub checkpoint_store: CheckpointStore,
    /// How several instances divide the partitions among them.
    pub ownership: Ownership,
    /// The probability that a send fails on purpose, from 0 to 1. Each failure stops its partition, as a lost
    /// ownership would; of a queue it abandons its messages.
    pub failure_ratio: f64,
    /// Sends from one partition to one destination at once. 1 keeps the order of events even when a send fails.
    pub in_flight: u32,
    /// How long one try of a send may take.
    #[serde(with = "units::duration")]
    pub try_timeout: Duration,
    /// What happens after a try that failed for a passing reason.
    pub retry: Retry,
    /// How long a partition rests after a failed batch before it resumes from its checkpoint.
    #[serde(with = "units::duration")]
    pub restart_after: Duration,
}

/// When a batch is complete: by count or by time, whichever comes first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Batch {
    /// Events of a full batch.
    pub events: u32,
    /// How long the first event of a batch waits for the others.
    #[serde(with = "units::duration")]
    pub wait: Duration,
}

/// How an event finds its destination. All of them are pure: an event that is delivered twice goes the same way twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// By a seeded hash of partition and sequence number: evenly, without a pattern.
    Random,
    /// By a hash of the event's partition key: same key, same destination.
    Key,
    /// By sequence number: each destination in turn.
    RoundRobin,
}

/// When progress is recorded. Written as `each-batch` or as `{every: 1 s}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// After each batch that was accepted as a whole.
    EachBatch,
    /// At most this often per partition.
    Every(Duration),
}

/// Where progress is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointStore {
    /// In each instance's memory, for what the relay costs without it.
    Memory,
    /// In files that all instances share.
    File,
    /// In blobs of the embedded service, as the official SDKs lay them out.
    Blob,
}

/// Tries of a send: exponential delays between them, bounded in number and length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// Tries in all, the first one included.
    pub attempts: u32,
    /// The delay before the second try; it doubles with each further one.
    #[serde(with = "units::duration")]
    pub delay: Duration,
    /// The longest delay between two tries.
    #[serde(with = "units::duration")]
    pub max_delay: Duration,
}

impl Relay {
    /// Queues: messages that are worked on at once.
    #[must_use]
    pub fn messages_at_once(&self) -> u32 {
        self.concurrency.unwrap_or(1)
    }
}

impl Default for Relay {
    fn default() -> Self {
        Self {
            instances: 1,
            batch: Batch::default(),
            prefetch: Prefetch::Events(512),
            concurrency: None,
            threads: None,
            route: Route::Random,
            fan_out: 32,
            checkpoint: Checkpoint::EachBatch,
            checkpoint_store: CheckpointStore::File,
            ownership: Ownership::new(OwnershipMode::Static),
            failure_ratio: 0.0,
            in_flight: 1,
            try_timeout: Duration::from_secs(5),
            retry: Retry::default(),
            restart_after: Duration::from_secs(1),
        }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self { events: 128, wait: Duration::from_millis(10) }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 4, delay: Duration::from_millis(100), max_delay: Duration::from_secs(5) }
    }
}

/// The mapping form of [`Checkpoint`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Periodic {
    #[serde(with = "units::duration")]
    every: Duration,
}

impl Serialize for Checkpoint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::EachBatch => serializer.serialize_str(EACH_BATCH),
            Self::Every(every) => Periodic { every }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Checkpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Checkpoint;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("`each-batch` or `{every: 1 s}`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Checkpoint, E> {
                if text == EACH_BATCH {
                    Ok(Checkpoint::EachBatch)
                } else {
                    Err(E::invalid_value(de::Unexpected::Str(text), &self))
                }
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Checkpoint, A::Error> {
                let Periodic { every } = Periodic::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Checkpoint::Every(every))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

const EACH_BATCH: &str = "each-batch";
