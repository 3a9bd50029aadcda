//! The shape of a case: what findings need to know of its settings to judge its figures.
//!
//! The runner stores it with the case, typed, so that nothing has to be read out of parameters by their paths. What
//! does not exist in a case (a pipeline, a batch size between queues) is absent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Noun;
use crate::scenario::{Buffering, Connections, LoadMode};

/// What a case consists of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// What its sentences call the things that are carried.
    pub noun: Noun,
    /// How the load is paced.
    pub load: LoadMode,
    /// Whether a full log of the embedded service refuses sends.
    #[serde(default)]
    pub full_log_throttles: bool,
    /// Events of a burst, where the load comes in bursts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_events: Option<u64>,
    /// How load and sink speak Kafka, where both do and no pipeline is between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka: Option<KafkaShape>,
    /// The producer that sends, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer: Option<ProducerShape>,
    /// What carries it; absent where the load's entity is also the sink's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineShape>,
}

/// A producer by what bounds its sends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProducerShape {
    /// Calls that are made side by side at most.
    pub callers: u64,
    /// Events of a call.
    pub batch: u64,
    /// The program that it is; absent where it is ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Which connections carry them.
    pub connections: Connections,
    /// Whether events wait for one another, and what a call waits for.
    pub buffering: Buffering,
    /// How many events fill a batch; absent where events are not gathered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_events: Option<u64>,
    /// After what time a batch leaves that is not full; absent where it leaves when the one before it was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_us: Option<u64>,
}

/// Two clients of Kafka, of which one sends what the other receives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KafkaShape {
    /// The load's.
    pub producer: ClientShape,
    /// The sink's.
    pub consumer: ClientShape,
}

/// One client of Kafka.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientShape {
    /// Which one.
    pub client: String,
    /// What was set, by the names that librdkafka has for it. Secrets are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// A pipeline by what bounds its work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineShape {
    /// What it reads.
    pub source: SourceShape,
    /// Events per partition that may be on their way, or messages beyond those that are worked on; absent where the relay
    /// adapts that to the distance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<u64>,
    /// How long one try of a send may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub try_timeout_us: Option<u64>,
    /// Whether sends fail on purpose.
    #[serde(default)]
    pub fails_on_purpose: bool,
    /// Whether every event is to arrive once, whatever happens.
    #[serde(default)]
    pub exactly_once: bool,
    /// How its events go to their destinations, where one of these is an archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archiving: Option<ArchivingShape>,
}

/// A pipeline that also archives each event, by how many events it works on at once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArchivingShape {
    /// Whether the destinations of an event are served one after the other.
    pub one_by_one: bool,
    /// Events in work at once; absent where nothing bounds them but batches and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Whether the next events are taken up only when a checkpoint covers those before.
    pub awaits_checkpoint: bool,
    /// How many sends the service carries out at once at the first destination, if its profile says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_capacity: Option<u64>,
    /// How long the service takes for one of them, by its profile, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub forward_us: Option<f64>,
}

/// What a pipeline reads, and how much of it at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum SourceShape {
    /// The partitions of a log, in batches.
    Log {
        /// How many there are.
        partitions: u64,
        /// Events of a full batch.
        batch_events: u64,
        /// How long a batch waits to be full.
        batch_wait_us: u64,
        /// Sends from a partition to a destination at once.
        in_flight: u64,
    },
    /// A queue, message by message.
    Queue {
        /// Messages that all instances together work on at once.
        messages_at_once: u64,
        /// Threads that a command may have for them, all of its instances together.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        threads: Option<u64>,
        /// How often a message is delivered before it goes to the dead-letter queue.
        maximum_delivery_count: u64,
        /// The largest message that the service takes.
        largest_message_bytes: u64,
    },
}

impl Default for SourceShape {
    fn default() -> Self {
        Self::Log { partitions: 1, batch_events: 1, batch_wait_us: 0, in_flight: 1 }
    }
}

impl Shape {
    /// What the pipeline reads, if there is one.
    #[must_use]
    pub fn source(&self) -> Option<&SourceShape> {
        self.pipeline.as_ref().map(|pipeline| &pipeline.source)
    }

    /// Whether the load always has more to offer than is carried.
    #[must_use]
    pub const fn always_offers_more(&self) -> bool {
        matches!(self.load, LoadMode::Saturate | LoadMode::Backlog)
    }

    /// The shape of a case in results that were written before it was stored: read from the parameters, by their paths.
    pub(super) fn of_older_results(params: &BTreeMap<String, Value>) -> Self {
        let number = |path: &str| params.get(path)?.as_u64();
        let text = |path: &str| params.get(path)?.as_str();
        let microseconds =
            |path: &str| u64::try_from(units::duration::parse(text(path)?).ok()?.as_micros()).ok();
        let instances = number("relay.instances").unwrap_or(1).max(1);
        let is_queue = params.contains_key("queues.source.name");
        let source = match is_queue {
            true => SourceShape::Queue {
                messages_at_once: number("relay.concurrency").unwrap_or(1).saturating_mul(instances),
                threads: number("relay.threads").map(|threads| threads.saturating_mul(instances)),
                maximum_delivery_count: number("queues.maximum_delivery_count").unwrap_or(10),
                largest_message_bytes: text("queues.largest_message")
                    .and_then(|size| size.parse().ok())
                    .map_or(0, units::ByteSize::bytes),
            },
            false => SourceShape::Log {
                partitions: number("hubs.source.partitions").unwrap_or(1),
                batch_events: number("relay.batch.events").unwrap_or(1),
                batch_wait_us: microseconds("relay.batch.wait").unwrap_or(0),
                in_flight: number("relay.in_flight").unwrap_or(1),
            },
        };
        let load = params.get("load.mode").and_then(|mode| LoadMode::deserialize(mode).ok());
        Self {
            noun: if is_queue { Noun::Messages } else { Noun::Events },
            load: load.unwrap_or_default(),
            full_log_throttles: text("embedded.when_full") == Some("throttle"),
            burst_events: None,
            kafka: None,
            producer: None,
            pipeline: Some(PipelineShape {
                source,
                prefetch: number("relay.prefetch"),
                try_timeout_us: microseconds("relay.try_timeout"),
                fails_on_purpose: params
                    .get("relay.failure_ratio")
                    .and_then(Value::as_f64)
                    .is_some_and(|ratio| ratio > 0.0),
                exactly_once: false,
                archiving: None,
            }),
        }
    }
}
