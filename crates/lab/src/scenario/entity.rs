//! What the service of a case has: hubs, queues, topics, containers of blobs, each by the name that the roles of the scenario use.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use units::ByteSize;

use super::{Hub, Queue};

/// Something in the service that is sent to and received from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entity {
    /// An event hub: logs of partitions, read by position.
    Hub(Hub),
    /// A queue: messages that are locked, settled and gone.
    Queue(Queue),
    /// A topic: each of its subscriptions is a queue, and gets every message.
    Topic(Topic),
    /// A container of blobs, in which a pipeline archives each event as a blob of its own.
    Container(Container),
}

/// A container of the embedded service's storage account, which is made for the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// Its name in the account.
    pub name: String,
}

/// One topic with its subscriptions. The embedded service creates them; in another namespace they must exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topic {
    /// The topic's name in the namespace, and how each subscription treats its messages.
    pub queue: Queue,
    /// The names of its subscriptions.
    pub subscriptions: Vec<String>,
}

/// An entity as a scenario writes it: `{hub: events, partitions: 4}`, `{queue: orders}`,
/// `{topic: orders, subscriptions: [verify]}` or `{container: archive}`. The key that says what it is has its name in the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntitySection(pub Entity);

impl Entity {
    /// Its name in the service.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Hub(hub) => &hub.name,
            Self::Queue(queue) => &queue.name,
            Self::Topic(topic) => &topic.queue.name,
            Self::Container(container) => &container.name,
        }
    }

    /// How many parts it has that are read side by side: a queue, a subscription or a container is one.
    #[must_use]
    pub const fn partitions(&self) -> u32 {
        match self {
            Self::Hub(hub) => hub.partitions,
            Self::Queue(_) | Self::Topic(_) | Self::Container(_) => 1,
        }
    }

    /// Whether it is read by position and keeps what was read. Queues and topics hand out messages that are locked and settled.
    #[must_use]
    pub const fn is_log(&self) -> bool {
        matches!(self, Self::Hub(_))
    }

    /// Whether it is an archive: written by a pipeline, and read when everything has been sent.
    #[must_use]
    pub const fn is_archive(&self) -> bool {
        matches!(self, Self::Container(_))
    }

    /// The names of its subscriptions, one of which a reader has to choose; empty unless it is a topic.
    #[must_use]
    pub fn subscriptions(&self) -> &[String] {
        match self {
            Self::Topic(topic) => &topic.subscriptions,
            Self::Hub(_) | Self::Queue(_) | Self::Container(_) => &[],
        }
    }

    /// How it treats messages, as a queue or in each of its subscriptions; `None` of a log and an archive.
    #[must_use]
    pub const fn of_messages(&self) -> Option<&Queue> {
        match self {
            Self::Hub(_) | Self::Container(_) => None,
            Self::Queue(queue) => Some(queue),
            Self::Topic(topic) => Some(&topic.queue),
        }
    }
}

/// The keys of [`EntitySection`], all of which may be left out.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    hub: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer_group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subscriptions: Option<Vec<String>>,
    #[serde(with = "units::duration::optional", skip_serializing_if = "Option::is_none")]
    lock_duration: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maximum_delivery_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    largest_message: Option<ByteSize>,
}

impl Serialize for EntitySection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let settings = self.0.of_messages();
        let mut written = Written {
            lock_duration: settings.map(|settings| settings.lock_duration),
            maximum_delivery_count: settings.map(|settings| settings.maximum_delivery_count),
            largest_message: settings.map(|settings| settings.largest_message),
            ..Written::default()
        };
        let name = Some(self.0.name().to_owned());
        match &self.0 {
            Entity::Hub(hub) => {
                written.hub = name;
                written.partitions = Some(hub.partitions);
                written.consumer_group = Some(hub.consumer_group.clone());
            }
            Entity::Queue(_) => written.queue = name,
            Entity::Container(_) => written.container = name,
            Entity::Topic(topic) => {
                written.topic = name;
                written.subscriptions = Some(topic.subscriptions.clone());
            }
        }
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EntitySection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        let of_messages = written.lock_duration.is_some()
            || written.maximum_delivery_count.is_some()
            || written.largest_message.is_some();
        let of_hub = written.partitions.is_some() || written.consumer_group.is_some();
        let of_topic = written.subscriptions.is_some();
        let queue = |name| {
            let usual = Queue::named(name);
            Queue {
                lock_duration: written.lock_duration.unwrap_or(usual.lock_duration),
                maximum_delivery_count: written
                    .maximum_delivery_count
                    .unwrap_or(usual.maximum_delivery_count),
                largest_message: written.largest_message.unwrap_or(usual.largest_message),
                ..usual
            }
        };
        let misfit = |reason| Err(de::Error::custom(reason));
        if let Some(name) = written.container {
            let is_something_else =
                written.hub.is_some() || written.queue.is_some() || written.topic.is_some();
            return match of_messages || of_hub || of_topic || is_something_else {
                true => misfit("a container has nothing but its name"),
                false => Ok(Self(Entity::Container(Container { name }))),
            };
        }
        let entity = match (written.hub, written.queue, written.topic) {
            (Some(_), None, None) if of_messages || of_topic => {
                return misfit(
                    "a hub has `partitions` and `consumer_group`, and no settings of a queue or topic",
                );
            }
            (Some(name), None, None) => Entity::Hub(Hub {
                name,
                partitions: written.partitions.unwrap_or(DEFAULT_PARTITIONS),
                consumer_group: written.consumer_group.unwrap_or_else(|| "$Default".to_owned()),
            }),
            (None, Some(_), None) if of_hub || of_topic => {
                return misfit("a queue has no `partitions`, `consumer_group` or `subscriptions`");
            }
            (None, Some(name), None) => Entity::Queue(queue(name)),
            (None, None, Some(_)) if of_hub => {
                return misfit("a topic has neither `partitions` nor `consumer_group`");
            }
            (None, None, Some(name)) => {
                let subscriptions = written.subscriptions.unwrap_or_default();
                Entity::Topic(Topic { queue: queue(name), subscriptions })
            }
            _ => {
                return misfit(
                    "an entity is a `hub`, a `queue`, a `topic` or a `container`, with its name in the service",
                );
            }
        };
        Ok(Self(entity))
    }
}

/// Of a hub that does not say.
const DEFAULT_PARTITIONS: u32 = 32;
