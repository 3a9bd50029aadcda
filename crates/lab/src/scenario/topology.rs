//! The graph of a case: named entities, the roles that send to them and receive from them, and what is measured.
//!
//! ```text
//! load ──▶ in ──▶ pipeline ──▶ out ──▶ sink        with a pipeline
//! load ──▶ in ─────────────────────────▶ sink      without
//! ```
//!
//! A scenario says it in a section of its own, or by the sections `hubs` or `queues`, which are short forms: the load sends to
//! `source`, the pipeline forwards from there to `destination`, the sink receives from it, and the pipeline is measured.
//! Whatever form it has, [`Parameters::topology`](super::Parameters::topology) resolves it, and nothing else looks at the
//! form.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use units::ByteSize;

use super::{Entities, Hub, Queue};
use crate::results::{Noun, Role};

/// A resolved graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// What the service has, by the names that the roles use.
    pub entities: BTreeMap<String, Entity>,
    /// Where the load sends.
    pub load: String,
    /// What forwards events; `None` where the load's entity is also the sink's.
    pub pipeline: Option<Pipeline>,
    /// Where the sink receives.
    pub sink: String,
    /// What is measured.
    pub measure: Measured,
}

/// Between which entities the pipeline is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// What it reads.
    pub from: String,
    /// Where it sends.
    pub to: String,
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

/// Something in the service that is sent to and received from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entity {
    /// An event hub: logs of partitions, read by position.
    Hub(Hub),
    /// A queue: messages that are locked, settled and gone.
    Queue(Queue),
}

/// The section `topology`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologySection {
    /// The entities by their names.
    pub entities: BTreeMap<String, EntitySection>,
    /// The entity that the load sends to.
    pub load: String,
    /// Where the pipeline reads and sends; without it there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Pipeline>,
    /// The entity that the sink receives from.
    pub sink: String,
    /// What is measured.
    #[serde(default)]
    pub measure: Measured,
}

/// An entity as a scenario writes it: `{hub: events, partitions: 4}` or `{queue: orders}`. The key that says what it is has
/// its name in the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntitySection(pub Entity);

/// The keys of [`EntitySection`], all of which may be left out.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    hub: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer_group: Option<String>,
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    lock_duration: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maximum_delivery_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    largest_message: Option<ByteSize>,
}

impl Topology {
    /// The graph that a form of it means.
    pub(super) fn of(entities: &Entities) -> Self {
        let straight = |source: Entity, destination: Entity| Self {
            entities: [(SOURCE.to_owned(), source), (DESTINATION.to_owned(), destination)].into(),
            load: SOURCE.to_owned(),
            pipeline: Some(Pipeline { from: SOURCE.to_owned(), to: DESTINATION.to_owned() }),
            sink: DESTINATION.to_owned(),
            measure: Measured::Pipeline,
        };
        match entities {
            Entities::Hubs(hubs) => {
                straight(Entity::Hub(hubs.source.clone()), Entity::Hub(hubs.destination.clone()))
            }
            Entities::Queues(queues) => {
                let queue = |name: &str| {
                    Entity::Queue(Queue {
                        name: name.to_owned(),
                        lock_duration: queues.lock_duration,
                        maximum_delivery_count: queues.maximum_delivery_count,
                        largest_message: queues.largest_message,
                    })
                };
                straight(queue(&queues.source.name), queue(&queues.destination.name))
            }
            Entities::Topology(section) => Self {
                entities: section
                    .entities
                    .iter()
                    .map(|(name, entity)| (name.clone(), entity.0.clone()))
                    .collect(),
                load: section.load.clone(),
                pipeline: section.pipeline.clone(),
                sink: section.sink.clone(),
                measure: section.measure,
            },
        }
    }

    /// An entity that a role names. The checks of the scenario have seen that there is one.
    #[must_use]
    pub fn entity(&self, name: &str) -> &Entity {
        self.entities.get(name).expect("roles name entities of the topology, which is checked")
    }

    /// The entities along the way of an event, each once.
    #[must_use]
    pub fn in_order(&self) -> Vec<&str> {
        let ends = self.pipeline.iter().flat_map(|pipeline| [&pipeline.from, &pipeline.to]);
        let mut names: Vec<&str> = Vec::new();
        for name in [&self.load].into_iter().chain(ends).chain([&self.sink]) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    /// What the load sends to.
    #[must_use]
    pub fn of_load(&self) -> &Entity {
        self.entity(&self.load)
    }

    /// What the sink receives from.
    #[must_use]
    pub fn of_sink(&self) -> &Entity {
        self.entity(&self.sink)
    }

    /// What the pipeline reads, and what it sends to.
    #[must_use]
    pub fn of_pipeline(&self) -> Option<(&Entity, &Entity)> {
        let pipeline = self.pipeline.as_ref()?;
        Some((self.entity(&pipeline.from), self.entity(&pipeline.to)))
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
        match self.of_load() {
            Entity::Hub(_) => Noun::Events,
            Entity::Queue(_) => Noun::Messages,
        }
    }
}

impl Entity {
    /// Its name in the service.
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

impl Serialize for EntitySection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = match self.0.clone() {
            Entity::Hub(hub) => Written {
                hub: Some(hub.name),
                partitions: Some(hub.partitions),
                consumer_group: Some(hub.consumer_group),
                ..Written::default()
            },
            Entity::Queue(queue) => Written {
                queue: Some(queue.name),
                lock_duration: Some(queue.lock_duration),
                maximum_delivery_count: Some(queue.maximum_delivery_count),
                largest_message: Some(queue.largest_message),
                ..Written::default()
            },
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EntitySection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        let of_queue = written.lock_duration.is_some()
            || written.maximum_delivery_count.is_some()
            || written.largest_message.is_some();
        let of_hub = written.partitions.is_some() || written.consumer_group.is_some();
        let entity = match (written.hub, written.queue) {
            (Some(name), None) if !of_queue => Entity::Hub(Hub {
                name,
                partitions: written.partitions.unwrap_or(DEFAULT_PARTITIONS),
                consumer_group: written.consumer_group.unwrap_or_else(|| "$Default".to_owned()),
            }),
            (None, Some(name)) if !of_hub => {
                let usual = Queue::named(name);
                Entity::Queue(Queue {
                    lock_duration: written.lock_duration.unwrap_or(usual.lock_duration),
                    maximum_delivery_count: written
                        .maximum_delivery_count
                        .unwrap_or(usual.maximum_delivery_count),
                    largest_message: written.largest_message.unwrap_or(usual.largest_message),
                    ..usual
                })
            }
            (Some(_), None) => {
                return Err(de::Error::custom(
                    "a hub has `partitions` and `consumer_group`, and no settings of a queue",
                ));
            }
            (None, Some(_)) => {
                return Err(de::Error::custom("a queue has neither `partitions` nor `consumer_group`"));
            }
            (None, None) | (Some(_), Some(_)) => {
                return Err(de::Error::custom(
                    "an entity is a `hub` or a `queue`, with its name in the service",
                ));
            }
        };
        Ok(Self(entity))
    }
}

/// A duration that may be absent.
mod optional_duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Text(#[serde(with = "units::duration")] Duration);

    pub(super) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(Text).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Text>::deserialize(deserializer)?.map(|text| text.0))
    }
}

/// What the short forms call the entity that the load sends to.
const SOURCE: &str = "source";

/// What they call the one that the sink receives from.
const DESTINATION: &str = "destination";

/// Of a hub that does not say.
const DEFAULT_PARTITIONS: u32 = 32;
