//! The graph of a case: named entities, the roles that send to them and receive from them, and what is measured.
//!
//! ```text
//! load ──▶ in ──▶ pipeline ──▶ out ──▶ sink        with a pipeline
//! load ──▶ in ─────────────────────────▶ sink      without
//! load ──▶ in ─┬▶ pipeline                         with a pipeline that forwards nothing: the sink reads what it reads
//!              └───────────────────────▶ sink
//!
//! load ──▶ in ──▶ pipeline ─┬▶ out ──▶ sink        to several destinations, each of which gets every event
//!                           └▶ audit ─▶ sink       and has a sink of its own
//! ```
//!
//! A scenario says it in a section of its own, or by the sections `hubs` or `queues`, which are short forms: the load
//! sends to `source`, the pipeline forwards from there to `destination`, the sink receives from it, and the pipeline is
//! measured. Whatever form it has, [`Parameters::topology`](super::Parameters::topology) resolves it, and nothing else
//! looks at the form.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::end::is_usual;
use super::{
    ByName, Connection, End, Entities, Entity, EntitySection, KafkaClient, OneOrMore, PipelineEnd, Protocol,
    Queue, Receiving, Sending, Transport,
};
use crate::results::{Noun, Role};

/// A resolved graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// What the service has, by the names that the roles use.
    pub entities: BTreeMap<String, Entity>,
    /// Where the load sends.
    pub load: End,
    /// What forwards events; `None` where the load's entity is also the sink's.
    pub pipeline: Option<Pipeline>,
    /// Where the sinks receive, one end for each; the figures of the case are of the first. Where a pipeline takes messages
    /// of a queue and forwards nothing, there is none.
    pub sinks: Vec<End>,
    /// What is measured.
    pub measure: Measured,
}

/// Between which entities the pipeline is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// What it reads.
    pub from: End,
    /// Where it sends: every event to each of these. Empty where it is a consumer that forwards nothing.
    pub to: Vec<End>,
}

/// What a case measures: whose CPU and memory, and whose throughput.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measured {
    /// What forwards events: our relay, or the command in its place.
    #[default]
    Pipeline,
    /// The sending side.
    Load,
    /// The receiving side.
    Sink,
    /// The embedded service.
    Service,
}

/// The section `topology`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologySection {
    /// The entities by their names.
    pub entities: BTreeMap<String, EntitySection>,
    /// The entity that the load sends to.
    pub load: ByName<Sending>,
    /// Where the pipeline reads and sends; without it there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineSection>,
    /// The entity that the sink receives from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<ByName<Receiving>>,
    /// The same for several sinks, each of which verifies every event. The figures of the case are of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sinks: Option<Vec<ByName<Receiving>>>,
    /// What is measured.
    #[serde(default)]
    pub measure: Measured,
}

/// The section `topology.pipeline`. What it says of how the service is reached holds for both of its ends, unless an end says
/// something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelineSection {
    /// What it reads: an entity, and of a topic a subscription after a `/`.
    pub from: ByName<PipelineEnd>,
    /// The entity that it sends to, or several, each of which gets every event; none where it forwards nothing.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub to: OneOrMore,
    /// What is spoken.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub protocol: Protocol,
    /// Whether it is encrypted.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub tls: bool,
    /// What carries the bytes.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub transport: Transport,
    /// Which client speaks Kafka.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub client: KafkaClient,
}

impl Topology {
    /// The graph that a form of it means. `tls` is whether the system under test is to use it, whatever the form says.
    pub(super) fn of(entities: &Entities, tls: bool) -> Self {
        let straight = |source: Entity, destination: Entity, protocol: Protocol| {
            let usual = Connection { protocol, ..Connection::default() };
            let connection = Connection { tls, ..usual };
            Self {
                entities: [(SOURCE.to_owned(), source), (DESTINATION.to_owned(), destination)].into(),
                load: End::of(SOURCE, usual),
                pipeline: Some(Pipeline {
                    from: End::of(SOURCE, connection),
                    to: vec![End::of(DESTINATION, connection)],
                }),
                sinks: vec![End::of(DESTINATION, usual)],
                measure: Measured::Pipeline,
            }
        };
        match entities {
            Entities::Hubs(hubs) => straight(
                Entity::Hub(hubs.source.clone()),
                Entity::Hub(hubs.destination.clone()),
                hubs.protocol,
            ),
            Entities::Queues(queues) => {
                let queue = |name: &str| {
                    Entity::Queue(Queue {
                        name: name.to_owned(),
                        lock_duration: queues.lock_duration,
                        maximum_delivery_count: queues.maximum_delivery_count,
                        largest_message: queues.largest_message,
                    })
                };
                straight(queue(&queues.source.name), queue(&queues.destination.name), Protocol::Amqp)
            }
            Entities::Topology(section) => {
                let entities = section.entities.iter();
                let pipeline = section.pipeline.as_ref().map(|pipeline| pipeline.resolve(tls));
                // What a consumer has done shows in its progress through a log, which the sink reads as well.
                let consumed = pipeline.iter().filter(|pipeline| pipeline.to.is_empty());
                let is_log = |end: &End| section.entities.get(&end.entity).is_some_and(|it| it.0.is_log());
                let read = consumed
                    .map(|pipeline| End { connection: Connection::default(), ..pipeline.from.clone() });
                let sinks = section.sinks().map(End::from).chain(read.filter(is_log)).collect();
                Self {
                    entities: entities.map(|(name, entity)| (name.clone(), entity.0.clone())).collect(),
                    load: End::from(&section.load.0),
                    pipeline,
                    sinks,
                    measure: section.measure,
                }
            }
        }
    }

    /// An entity that a role names. The checks of the scenario have seen that there is one.
    #[must_use]
    pub fn entity(&self, end: &End) -> &Entity {
        self.entities.get(&end.entity).expect("roles name entities of the topology, which is checked")
    }

    /// Every end of every role, along the way of an event.
    pub fn ends(&self) -> impl Iterator<Item = &End> {
        let pipeline = self.pipeline.iter();
        let pipeline = pipeline.flat_map(|pipeline| std::iter::once(&pipeline.from).chain(&pipeline.to));
        std::iter::once(&self.load).chain(pipeline).chain(&self.sinks)
    }

    /// The entities along the way of an event, each once, with their names.
    #[must_use]
    pub fn in_order(&self) -> Vec<(&str, &Entity)> {
        let mut entities: Vec<(&str, &Entity)> = Vec::new();
        for end in self.ends() {
            if !entities.iter().any(|(name, _)| *name == end.entity) {
                entities.push((&end.entity, self.entity(end)));
            }
        }
        entities
    }

    /// What the load sends to.
    #[must_use]
    pub fn of_load(&self) -> &Entity {
        self.entity(&self.load)
    }

    /// What the first sink receives from.
    #[must_use]
    pub fn of_sink(&self) -> &Entity {
        self.entity(&self.sinks[0])
    }

    /// What the pipeline reads, if there is one.
    #[must_use]
    pub fn of_pipeline(&self) -> Option<&Entity> {
        self.pipeline.as_ref().map(|pipeline| self.entity(&pipeline.from))
    }

    /// What it sends to.
    pub fn destinations(&self) -> impl Iterator<Item = &Entity> {
        self.pipeline.iter().flat_map(|pipeline| &pipeline.to).map(|to| self.entity(to))
    }

    /// The address of what is read at an end, which is also what the service counts it under.
    #[must_use]
    pub fn address(&self, end: &End) -> String {
        let name = self.entity(end).name();
        match &end.subscription {
            Some(subscription) => format!("{name}/Subscriptions/{subscription}"),
            None => name.to_owned(),
        }
    }

    /// The address that shows what arrived at an end that is written: of a topic it is that of a subscription with a
    /// sink, since each gets every message.
    #[must_use]
    pub fn written_at(&self, to: &End) -> String {
        let reader = self.sinks.iter().find(|sink| sink.entity == to.entity);
        self.address(reader.unwrap_or(to))
    }

    /// The places of an entity that are read, each once: itself, or subscriptions of it.
    #[must_use]
    pub fn places_of(&self, entity: &str) -> Vec<&End> {
        let readers = self.pipeline.iter().map(|pipeline| &pipeline.from).chain(&self.sinks);
        let mut places: Vec<&End> = Vec::new();
        for reader in readers.filter(|reader| reader.entity == entity) {
            if !places.iter().any(|place| place.is_same_place(reader)) {
                places.push(reader);
            }
        }
        places
    }

    /// The role whose processes are measured.
    #[must_use]
    pub const fn measured_role(&self) -> Role {
        match self.measure {
            Measured::Pipeline => Role::Relay,
            Measured::Load => Role::Load,
            Measured::Sink => Role::Sink,
            Measured::Service => Role::Service,
        }
    }

    /// What sentences call the things that the load sends.
    #[must_use]
    pub fn noun(&self) -> Noun {
        match self.of_load().is_log() {
            true => Noun::Events,
            false => Noun::Messages,
        }
    }
}

impl TopologySection {
    /// What `sink` or `sinks` has.
    fn sinks(&self) -> impl Iterator<Item = &Receiving> {
        self.sink.iter().chain(self.sinks.iter().flatten()).map(|sink| &sink.0)
    }
}

impl PipelineSection {
    fn resolve(&self, tls: bool) -> Pipeline {
        let usual = Connection { protocol: self.protocol, tls: self.tls, transport: self.transport };
        let reached = |end: &PipelineEnd| {
            let (connection, kafka) = end.reached(usual, self.client);
            (Connection { tls: tls || connection.tls, ..connection }, kafka)
        };
        let written = |ByName(end): &ByName<PipelineEnd>| {
            let (connection, kafka) = reached(end);
            End { kafka, ..End::of(&end.entity, connection) }
        };
        let (connection, kafka) = reached(&self.from.0);
        Pipeline {
            from: End { kafka, ..End::read(&self.from.0.entity, connection) },
            to: self.to.0.iter().map(written).collect(),
        }
    }
}

/// What the short forms call the entity that the load sends to.
const SOURCE: &str = "source";

/// What they call the one that the sink receives from.
const DESTINATION: &str = "destination";
