//! What the relay does with the events: batches, routes, checkpoints, retries.

use std::time::Duration;

use pipeline::vocabulary::{
    Batch, CheckpointPolicy, Delivery, Dispatch, Ownership, OwnershipMode, Retry, RetryKeys, Route,
    Settlement, TransformStep,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use telemetry::options::Settings;

use super::end::is_usual;
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
    /// How much is in progress at once where every event goes to several destinations.
    #[serde(skip_serializing_if = "is_usual")]
    pub dispatch: Dispatch,
    /// What events go through before they are sent. One that a filter leaves out is a lost one to the verification.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transform: Vec<TransformStep>,
    /// How an event finds its destination.
    pub route: Route,
    /// Partitions of the destination hub that events are routed to: the first `fan_out` of them.
    pub fan_out: u32,
    /// When progress is recorded.
    pub checkpoint: CheckpointPolicy,
    /// Whether the next events of a partition wait for the checkpoint that covers those before.
    #[serde(skip_serializing_if = "is_usual")]
    pub checkpoint_wait: bool,
    /// What one send to a queue or topic has.
    #[serde(skip_serializing_if = "is_usual")]
    pub send: Sends,
    /// How many requests to an archive are under way at once, each with an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_requests: Option<u32>,
    /// Traces and metrics that each instance exports while it is measured.
    #[serde(skip_serializing_if = "is_usual")]
    pub open_telemetry: OpenTelemetry,
    /// Where it is recorded, and where claims are.
    pub checkpoint_store: CheckpointStore,
    /// How several instances divide the partitions among them.
    pub ownership: Ownership,
    /// How often an event may arrive.
    #[serde(skip_serializing_if = "is_usual")]
    pub delivery: Delivery,
    /// Queues: whether a message is completed after it was sent, or in one transaction with that.
    #[serde(skip_serializing_if = "is_usual")]
    pub settlement: Settlement,
    /// An instance that ends in the measured phase, and is started again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
    /// The probability that a send fails on purpose, from 0 to 1. Each failure stops its partition, as a lost
    /// ownership would; of a queue it abandons its messages.
    pub failure_ratio: f64,
    /// Sends from one partition to one destination at once. 1 keeps the order of events even when a send fails.
    pub in_flight: u32,
    /// How long one try of a send may take.
    #[serde(with = "units::duration")]
    pub try_timeout: Duration,
    /// What happens after a try that failed for a passing reason.
    #[serde(deserialize_with = "retry_with_defaults")]
    pub retry: Retry,
    /// How long a partition rests after a failed batch before it resumes from its checkpoint.
    #[serde(with = "units::duration")]
    pub restart_after: Duration,
}

/// What an instance exports over OTLP. Without an endpoint, or with an empty one, nothing, whatever the environment says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OpenTelemetry {
    /// The collector, such as `http://localhost:4318`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The part of batches that is traced, from 0 to 1 [default: 0.01].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces: Option<f64>,
    /// How often metrics are exported [default: 60 s]; 0 s for never.
    #[serde(with = "units::duration::optional", skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Duration>,
}

impl OpenTelemetry {
    /// Where it is exported to, if it is.
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref().filter(|endpoint| !endpoint.is_empty())
    }

    /// The same as the relay has it.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let endpoint = self.endpoint().map(str::to_owned);
        Settings { endpoint, traces: self.traces, metrics: self.metrics }
    }
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
    /// As committed offsets of the consumer group, where the source is read over Kafka.
    Group,
}

/// What one send to a queue or topic has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sends {
    /// One message, as the published studies send: it is accepted or refused by itself.
    #[default]
    Single,
    /// A batch, which is accepted or refused as a whole.
    Batch,
}

/// The end of an instance in mid-run: of the last, if they are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// How it ends.
    #[serde(default)]
    pub by: EndBy,
    /// How long after the beginning of the measured phase.
    #[serde(with = "units::duration")]
    pub after: Duration,
    /// How long it is gone before it is started again.
    #[serde(with = "units::duration")]
    pub down: Duration,
}

/// How an instance ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EndBy {
    /// As a crash ends it (`SIGKILL`).
    #[default]
    Kill,
    /// In good order: it finishes what is under way, and gives back what it has.
    Stop,
}

impl Relay {
    /// Whether every event is to arrive once, whatever happens.
    #[must_use]
    pub fn is_exactly_once(&self) -> bool {
        self.delivery == Delivery::ExactlyOnce
    }

    /// Whether messages are completed in the transactions that they are sent in.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.settlement == Settlement::Transactional
    }

    /// Whether progress is the committed offsets of a group of Kafka, whoever commits them.
    #[must_use]
    pub fn commits_offsets(&self) -> bool {
        self.is_exactly_once() || self.checkpoint_store == CheckpointStore::Group
    }

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
            dispatch: Dispatch::default(),
            transform: Vec::new(),
            route: Route::Random,
            fan_out: 32,
            checkpoint: CheckpointPolicy::EachBatch,
            checkpoint_wait: false,
            send: Sends::default(),
            archive_requests: None,
            open_telemetry: OpenTelemetry::default(),
            checkpoint_store: CheckpointStore::File,
            ownership: Ownership::new(OwnershipMode::Static),
            delivery: Delivery::default(),
            settlement: Settlement::default(),
            restart: None,
            failure_ratio: 0.0,
            in_flight: 1,
            try_timeout: Duration::from_secs(5),
            retry: retry(),
            restart_after: Duration::from_secs(1),
        }
    }
}

/// A scenario's defaults for the retry are those of the study, which tries again sooner than a relay in production does.
fn retry() -> Retry {
    Retry { attempts: 4, delay: Duration::from_millis(100), max_delay: Duration::from_secs(5) }
}

fn retry_with_defaults<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Retry, D::Error> {
    Ok(RetryKeys::deserialize(deserializer)?.or(retry()))
}
