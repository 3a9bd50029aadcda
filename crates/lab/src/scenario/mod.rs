//! What is to be measured: the scenario file, typed, and the cases that follow from it.
//!
//! A scenario is a YAML file that a person reads and writes. It names the target, the load, the relay's settings, the
//! limits and the phases, and it sweeps some of them. [`Scenario::cases`] resolves it to a list of [`Case`]s, each with
//! complete [`Parameters`]. In this order, later ones win:
//!
//! 1. the defaults of the types in this module,
//! 2. the file,
//! 3. its section `quick`, where that is asked for,
//! 4. what the sweep sets for all of its cases, and the values that make the case,
//! 5. `--set path=value`. A `--set` of a path that a sweep varies replaces the values of that sweep.
//!
//! Then `${VARIABLES}` are filled in, the document is typed, and ranges and relations are checked. Each mistake is a
//! [`settings::SettingsError`] that points at its place, in the file or in the argument.

mod capacity;
mod case;
mod client;
mod end;
mod entities;
mod entity;
mod file;
mod footprint;
mod found;
mod glob;
pub(crate) mod kafka;
mod load;
mod parameters;
mod prefetch;
mod producer;
mod relay;
mod roles;
mod sweep;
mod system;
mod target;
mod topology;
mod validate;

pub use crate::results::{Prices, Published};
pub use capacity::{Capacity, Percent, PercentError, PurposefulFailures};
pub use case::{Axis, Case};
pub use client::{ClientProgram, EndClient};
pub use end::{
    ByName, Connection, End, KafkaEnd, Named, OneOrMore, PipelineEnd, Protocol, Receiving, Sending, Transport,
};
pub use entities::{Entities, Hub, Hubs, Queue, QueueName, Queues};
pub use entity::{Container, Entity, EntitySection, Topic};
pub use file::{CaseOptions, Scenario, ScenarioError, TargetName};
pub use footprint::Footprint;
pub use found::FoundHub;
pub use load::{Arrivals, Load, LoadMode, Payload, SMALLEST_PAYLOAD};
pub use parameters::{Embedded, Limits, Parameters, Phases, RoleLimits, Secret, Sink, WhenFull};
pub use pipeline::kafka::{KafkaClient, KafkaProperties};
pub use pipeline::vocabulary::{
    Batch, CheckpointPolicy, Delivery, Dispatch, Events, Order, Ownership, OwnershipMode, Retry, Route,
    Strategy,
};
pub use prefetch::Prefetch;
pub use producer::{Buffering, ClientTime, Connections, Delay, Producer};
pub use relay::{CheckpointStore, EndBy, OpenTelemetry, Relay, Restart, Sends};
pub use roles::{Launch, Roles};
pub use system::{Done, Readiness, SystemTransport, SystemUnderTest};
pub use target::{KafkaCluster, Namespace, ServiceCommand, Target};
pub use topology::{Measured, Pipeline, PipelineSection, Topology, TopologySection};
