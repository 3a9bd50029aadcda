//! The configuration of a role: the first line that it gets.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    clock::RunClock,
    load::LoadPlan,
    record::LatencyRecording,
    results::Role,
    roles::{protocol::DoneBy, service_config::ServiceConfig},
    scenario::{
        self, ClientProgram, EndClient, Entity, KafkaProperties, Payload, Producer, Protocol, Readiness,
        Secret, Transport,
    },
    verify::Expectation,
};

/// The first line to a role: what it is to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum RoleConfig {
    /// The embedded service.
    Service(Box<ServiceConfig>),
    /// A command in the embedded service's place.
    ServiceCommand(Box<ExternalConfig>),
    /// The generator.
    Load(Box<LoadConfig>),
    /// The pipeline.
    Relay(Box<RelayConfig>),
    /// A command in the pipeline's place.
    External(Box<ExternalConfig>),
    /// The receiver that verifies.
    Sink(Box<SinkConfig>),
}

/// One end of a role: an entity, where it is, and how to get in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// What is spoken there.
    #[serde(default)]
    pub protocol: Protocol,
    /// What carries the bytes. Whether it is encrypted, the connection string says.
    #[serde(default)]
    pub transport: Transport,
    /// The namespace's connection string; empty where a cluster of Kafka is reached, which has none.
    #[serde(default)]
    pub connection_string: Secret,
    /// How Kafka is spoken there, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka: Option<KafkaAccess>,
    /// The producer that sends there, where that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer: Option<Producer>,
    /// The program that is this producer, where one is and Kafka is not spoken: there the access to Kafka has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProducerProgram>,
    /// A file of certificates to trust besides those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<PathBuf>,
    /// The entity in it.
    pub entity: Entity,
    /// The subscription that is read, if the entity is a topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
}

/// How Kafka is spoken at an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaAccess {
    /// By which client.
    #[serde(default)]
    pub client: EndClient,
    /// What it is told of how the service is reached, without what the end says.
    #[serde(default, skip_serializing_if = "KafkaProperties::is_empty")]
    pub reached: KafkaProperties,
    /// The time of the run on the lab's machine, where clients that are programs run.
    pub clock: RunClock,
    /// All that it is told.
    pub properties: KafkaProperties,
}

/// A producer that is a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProducerProgram {
    /// The program.
    pub client: Box<ClientProgram>,
    /// The time of the run on the lab's machine, where it runs.
    pub clock: RunClock,
}

/// Where a reader without a checkpoint begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadFrom {
    /// At the oldest event: the hubs are the run's own.
    Beginning,
    /// After what lay in the hub when the role became ready: others have used it before.
    Now,
}

/// What the generator is to send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadConfig {
    /// The time of the run.
    pub clock: RunClock,
    /// The source.
    pub source: Endpoint,
    /// The run's number, for the payloads.
    pub run: u8,
    /// What is offered when.
    pub plan: LoadPlan,
    /// How many workers, each on a connection of its own, share the streams.
    pub workers: u16,
    /// What the events carry.
    pub payload: Payload,
    /// How long the service may take to answer the last sends, once the load is stopped.
    #[serde(with = "units::duration")]
    pub answer_patience: Duration,
    /// Whether latencies are recorded.
    pub latency_recording: LatencyRecording,
}

/// What the pipeline is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayConfig {
    /// The time of the run.
    pub clock: RunClock,
    /// Where events come from.
    pub source: Endpoint,
    /// Where they go: every event to each of these.
    pub destinations: Vec<Endpoint>,
    /// What happens in between.
    pub relay: scenario::Relay,
    /// Which of [`scenario::Relay::instances`] this process is, from 0.
    pub instance: u32,
    /// Where a partition without a checkpoint begins.
    pub read_from: ReadFrom,
    /// It takes the place of one that has ended: nothing is passed over, wherever that begins.
    #[serde(default)]
    pub goes_on: bool,
    /// A folder for checkpoints that all instances share; empty when the trial begins.
    pub checkpoints: PathBuf,
    /// The storage account, where checkpoints are blobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Secret>,
    /// The seed of routes and injected failures.
    pub seed: u64,
    /// Whether somebody wants to see its metrics while it runs.
    #[serde(default)]
    pub tells_metrics: bool,
}

/// Which command is to take the place of the pipeline, or of the embedded service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalConfig {
    /// The time of the run.
    pub clock: RunClock,
    /// What the system is called.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Its variables, beside the environment of this process.
    pub environment: BTreeMap<String, Secret>,
    /// Of how many partitions its lines say what it has done; `None` if they are not looked at for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_lines: Option<u32>,
    /// How it is known to be ready.
    pub ready: Readiness,
    /// How long that may take.
    #[serde(with = "units::duration")]
    pub ready_within: Duration,
    /// How long it may take to end when it is asked to.
    #[serde(with = "units::duration")]
    pub stop_within: Duration,
}

/// What the receiver is to watch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkConfig {
    /// The time of the run.
    pub clock: RunClock,
    /// The destination.
    pub destination: Endpoint,
    /// The dead-letter queue of the source, where that is the lab's own: what is in it is not lost.
    #[serde(default)]
    pub dead_letters: Option<Endpoint>,
    /// Where the destination is what a consumer reads: how it is known what that has done. An event arrives when it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_by: Option<DoneBy>,
    /// What the run can contain.
    pub expectation: Expectation,
    /// What the load sends: the sink holds each intended instant against it.
    pub plan: LoadPlan,
    /// How many workers, each on a connection of its own, share the partitions.
    pub workers: u16,
    /// Events per partition that may be on the way.
    pub prefetch: u32,
    /// Where it begins.
    pub read_from: ReadFrom,
    /// Where the header of an event is: in its payload, or beside it.
    pub payload: Payload,
    /// Whether latencies are recorded.
    pub latency_recording: LatencyRecording,
}

impl RoleConfig {
    /// The role that is configured.
    #[must_use]
    pub const fn role(&self) -> Role {
        match self {
            Self::Service(_) | Self::ServiceCommand(_) => Role::Service,
            Self::Load(_) => Role::Load,
            Self::Relay(_) | Self::External(_) => Role::Relay,
            Self::Sink(_) => Role::Sink,
        }
    }
}
