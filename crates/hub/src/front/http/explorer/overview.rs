//! The namespace at a glance.
//!
//! Counters are sent as they stand, with the instant: the page computes rates from two of them. So nothing is kept here for a
//! page.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use listen::Recent;
use queue_store::{Entity, EntityStatus, Queue, Topic};
use serde::Serialize;

use super::ExplorerParts;
use crate::groups::{GroupProgress, Groups};
use crate::namespace::{Hub, Namespace};

/// Finds out about a namespace, for all who look together.
#[derive(Debug)]
pub(super) struct Overview {
    parts: ExplorerParts,
    recent: Recent<Bytes>,
}

/// What there is at one moment.
#[derive(Debug, Serialize)]
struct Snapshot {
    host: String,
    version: &'static str,
    /// By the clock of the machine: rates are of time that passes.
    at_ms: u64,
    /// The time of the service, which locks end by.
    clock_ms: u64,
    /// Whether what is sent survives the process.
    durable: bool,
    /// Whether a service profile slows down or breaks anything.
    shaped: bool,
    connections: usize,
    hubs: Vec<HubGlance>,
    queues: Vec<QueueGlance>,
    topics: Vec<TopicGlance>,
}

#[derive(Debug, Serialize)]
struct HubGlance {
    name: String,
    partitions: usize,
    /// Events that are kept.
    events: u64,
    bytes: u64,
    events_in: u64,
    bytes_in: u64,
    events_out: u64,
    bytes_out: u64,
    refused: u64,
    readers: Vec<ReaderGlance>,
}

/// Those who read a hub under one name.
#[derive(Debug, Serialize)]
pub(super) struct ReaderGlance {
    /// `amqp` for a consumer group of the hub, `kafka` for one of Kafka's.
    pub(super) protocol: &'static str,
    pub(super) group: String,
    /// How many receivers or members there are.
    pub(super) readers: usize,
    /// Events that are kept and that they have not got yet, in the partitions of which that is known.
    pub(super) lag: u64,
    /// Of Kafka's, the state of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<&'static str>,
}

/// A queue, or a subscription.
#[derive(Debug, Serialize)]
pub(super) struct QueueGlance {
    /// What it is called where it is.
    pub(super) name: String,
    /// What it is called from outside.
    pub(super) path: String,
    pub(super) active: u64,
    pub(super) locked: u64,
    pub(super) deferred: u64,
    pub(super) scheduled: u64,
    pub(super) dead_letters: u64,
    pub(super) transfer_dead_letters: u64,
    pub(super) bytes: u64,
    pub(super) requires_session: bool,
    pub(super) status: EntityStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) forward_to: Option<String>,
    pub(super) enqueued: u64,
    pub(super) delivered: u64,
    pub(super) completed: u64,
    pub(super) abandoned: u64,
    pub(super) dead_lettered: u64,
    pub(super) expired: u64,
    pub(super) lock_expirations: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct TopicGlance {
    pub(super) name: String,
    pub(super) scheduled: u64,
    pub(super) bytes: u64,
    pub(super) status: EntityStatus,
    pub(super) subscriptions: Vec<QueueGlance>,
}

/// Who is connected.
#[derive(Debug, Serialize)]
pub(super) struct ConnectedClients {
    /// How many are not listed.
    unlisted: usize,
    clients: Vec<ConnectedClient>,
}

#[derive(Debug, Serialize)]
struct ConnectedClient {
    address: SocketAddr,
    protocol: &'static str,
    since_ms: u64,
}

impl Overview {
    pub(super) fn new(parts: ExplorerParts) -> Self {
        Self { parts, recent: Recent::default() }
    }

    /// The present overview as JSON; that of a moment ago, if many ask.
    pub(super) async fn get(&self) -> Bytes {
        let text = async { serde_json::to_vec(&self.snapshot()).ok().map(Bytes::from) };
        self.recent.get(text).await.map(|text| Bytes::clone(&text)).unwrap_or_default()
    }

    /// Who is connected now: the newest connections of each protocol.
    pub(super) fn clients(&self) -> ConnectedClients {
        let mut connected = ConnectedClients { unlisted: 0, clients: Vec::new() };
        for clients in &self.parts.clients {
            let (open, newest) = clients.describe(CLIENTS_MAX);
            connected.unlisted += open - newest.len();
            connected.clients.extend(newest.into_iter().map(|client| ConnectedClient {
                address: client.peer,
                protocol: client.protocol.name_over(access::TransportSecurity::Plain),
                since_ms: milliseconds(client.since),
            }));
        }
        connected
    }

    /// How far groups of Kafka's have come in each topic.
    pub(super) fn kafka_groups(&self) -> KafkaGroups {
        KafkaGroups::of(self.parts.groups.as_deref())
    }

    fn snapshot(&self) -> Snapshot {
        let namespace: &Namespace = &self.parts.namespace;
        let groups = self.kafka_groups();
        let (mut queues, mut topics) = (Vec::new(), Vec::new());
        for entity in namespace.queues().entities() {
            match entity {
                Entity::Queue(queue) => queues.push(QueueGlance::of(&queue, queue.name())),
                Entity::Topic(topic) => topics.push(TopicGlance::of(&topic)),
            }
        }
        Snapshot {
            host: namespace.host().to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            at_ms: milliseconds(SystemTime::now()),
            clock_ms: milliseconds(namespace.clock().now()),
            durable: namespace.storage_counters().is_some(),
            shaped: namespace.profile().present().is_some(),
            connections: self.parts.clients.iter().map(|clients| clients.describe(0).0).sum(),
            hubs: namespace.hubs().iter().map(|hub| HubGlance::of(hub, &groups)).collect(),
            queues,
            topics,
        }
    }
}

/// Kafka's consumer groups by the topics that they read.
#[derive(Debug, Default)]
pub(super) struct KafkaGroups {
    groups: Vec<GroupProgress>,
    /// Places in `groups`.
    by_topic: HashMap<String, Vec<usize>>,
}

impl KafkaGroups {
    fn of(groups: Option<&Groups>) -> Self {
        let groups = groups.map(Groups::progress).unwrap_or_default();
        let mut by_topic: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, group) in groups.iter().enumerate() {
            for (topic, ..) in &group.offsets {
                let places = by_topic.entry(topic.clone()).or_default();
                if places.last() != Some(&place) {
                    places.push(place);
                }
            }
        }
        Self { groups, by_topic }
    }

    /// Those that have committed offsets of this topic.
    pub(super) fn of_topic(&self, topic: &str) -> impl Iterator<Item = &GroupProgress> {
        let places = self.by_topic.get(topic).map(Vec::as_slice).unwrap_or_default();
        places.iter().map(|place| &self.groups[*place])
    }
}

impl HubGlance {
    fn of(hub: &Hub, groups: &KafkaGroups) -> Self {
        let counters = hub.counters();
        let (mut events, mut bytes) = (0, 0);
        let mut ends = Vec::with_capacity(hub.partitions().len());
        for partition in hub.partitions() {
            let stats = partition.log().committed_stats();
            let end = stats.last_sequence_number.map_or(0, |last| last + 1);
            events += end.saturating_sub(stats.begin_sequence_number);
            bytes += stats.bytes;
            ends.push((stats.begin_sequence_number, end));
        }
        Self {
            name: hub.name().to_owned(),
            partitions: ends.len(),
            events,
            bytes,
            events_in: counters.events_in,
            bytes_in: counters.bytes_in,
            events_out: counters.events_out,
            bytes_out: counters.bytes_out,
            refused: counters.batches_refused + counters.batches_throttled,
            readers: readers(hub, &ends, groups),
        }
    }
}

/// Who reads a hub, of which each partition has events from one number to before another.
pub(super) fn readers(hub: &Hub, ends: &[(u64, u64)], groups: &KafkaGroups) -> Vec<ReaderGlance> {
    let lag = |partition: usize, next: u64| {
        ends.get(partition).map_or(0, |(begin, end)| end.saturating_sub(next.max(*begin)))
    };
    let mut by_group: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for (place, partition) in hub.partitions().iter().enumerate() {
        for receiver in partition.receivers().describe() {
            let (readers, behind) = by_group.entry(receiver.consumer_group).or_default();
            *readers += 1;
            *behind += receiver.next_sequence_number.map_or(0, |next| lag(place, next));
        }
    }
    let amqp = by_group.into_iter().map(|(group, (readers, lag))| ReaderGlance {
        protocol: "amqp",
        group,
        readers,
        lag,
        state: None,
    });
    let kafka = groups.of_topic(hub.name()).map(|group| {
        let own = group.offsets.iter().filter(|(topic, ..)| topic == hub.name());
        let lag = |index: i32, offset: i64| {
            usize::try_from(index).ok().zip(u64::try_from(offset).ok()).map_or(0, |(at, next)| lag(at, next))
        };
        ReaderGlance {
            protocol: "kafka",
            group: group.group_id.clone(),
            readers: group.members,
            lag: own.map(|(_, index, offset)| lag(*index, *offset)).sum(),
            state: Some(group.state),
        }
    });
    amqp.chain(kafka).collect()
}

impl QueueGlance {
    pub(super) fn of(queue: &Queue, name: &str) -> Self {
        let (counts, counters, options) = (queue.counts(), queue.lifecycle_counters(), queue.options());
        Self {
            name: name.to_owned(),
            path: queue.name().to_owned(),
            active: counts.active,
            locked: counts.locked,
            deferred: counts.deferred,
            scheduled: counts.scheduled,
            dead_letters: counts.dead_letters,
            transfer_dead_letters: counts.transfer_dead_letters,
            bytes: counts.bytes,
            requires_session: options.requires_session,
            status: options.status,
            forward_to: options.forward_to.clone(),
            enqueued: counters.enqueued,
            delivered: counters.delivered,
            completed: counters.completed,
            abandoned: counters.abandoned,
            dead_lettered: counters.dead_lettered,
            expired: counters.expired,
            lock_expirations: counters.lock_expirations,
        }
    }
}

impl TopicGlance {
    pub(super) fn of(topic: &Topic) -> Self {
        let subscriptions = topic.subscriptions();
        Self {
            name: topic.name().to_owned(),
            scheduled: topic.scheduled(),
            bytes: topic.bytes(),
            status: topic.options().status,
            subscriptions: subscriptions.iter().map(|one| QueueGlance::of(one.queue(), one.name())).collect(),
        }
    }
}

pub(super) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Connections of each front that are listed.
const CLIENTS_MAX: usize = 500;
