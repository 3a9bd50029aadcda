//! What a person asks with `curl`: what there is, and how much of it.
//!
//! ```text
//! $Resources/EventHubs, …/Queues, …/Topics     all of them
//! HUB                                          a hub
//! HUB/consumergroups[/GROUP]                   its consumer groups
//! HUB/consumergroups/GROUP/partitions[/N]      its partitions
//! QUEUE, TOPIC                                 a queue or a topic
//! TOPIC/subscriptions[/NAME]                   its subscriptions
//! ```

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::rest::target::split_at_keyword;
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;
use queue_store::{Entity, Queue, QueueOptions, Subscription, Topic};
use units::date::iso_date;

use super::atom::{self, Description, Entry, duration};
use super::refusal::Refusal;
use super::reply::Reply;
use super::session::{Session, after};
use super::{Request, Step};
use crate::front::pending::Until;
use crate::namespace::{Hub, Namespace, Partition};

impl Session {
    /// Tells what is at a path.
    ///
    /// # Errors
    /// There is nothing.
    pub(super) fn read(&self, request: &Request<'_>, path: &str) -> Result<Step, Refusal> {
        let telling = Telling { session: self, request, namespace: &self.front.namespace };
        let reply = telling.tell(path)?;
        Ok(after(reply, Until { commit: CommitNumber::DONE, instant: self.answer_at(path) }))
    }
}

/// Who tells whom.
struct Telling<'a> {
    session: &'a Session,
    request: &'a Request<'a>,
    namespace: &'a Namespace,
}

impl Telling<'_> {
    fn tell(&self, path: &str) -> Result<Reply, Refusal> {
        if path.is_empty() {
            return Ok(self.feed(path, "Publicly Listed Services", Vec::new()));
        }
        if let Some(kind) = path.strip_prefix("$Resources/").or_else(|| path.strip_prefix("$resources/")) {
            return self.all(path, kind);
        }
        let found = self.hub(path).or_else(|| self.of_hub(path)).or_else(|| self.of_queues(path));
        found.ok_or_else(|| Refusal::not_found(path))
    }

    fn all(&self, path: &str, kind: &str) -> Result<Reply, Refusal> {
        let entities = || self.namespace.queues().map(|store| store.entities()).unwrap_or_default();
        let entries: Vec<Entry> = match kind.to_ascii_lowercase().as_str() {
            "eventhubs" => self.namespace.hubs().iter().map(|hub| self.hub_entry(hub)).collect(),
            "queues" => entities()
                .iter()
                .filter_map(|entity| match entity {
                    Entity::Queue(queue) => Some(self.queue_entry(queue)),
                    Entity::Topic(_) => None,
                })
                .collect(),
            "topics" => entities()
                .iter()
                .filter_map(|entity| match entity {
                    Entity::Topic(topic) => Some(self.topic_entry(topic)),
                    Entity::Queue(_) => None,
                })
                .collect(),
            _ => return Err(Refusal::not_found(path)),
        };
        Ok(self.feed(path, kind, entries))
    }

    fn hub(&self, path: &str) -> Option<Reply> {
        self.namespace.hub(path).map(|hub| atom::entry(&self.hub_entry(hub.latest())))
    }

    /// Consumer groups and partitions.
    fn of_hub(&self, path: &str) -> Option<Reply> {
        if let Some((hub, last)) = path.rsplit_once('/')
            && last.eq_ignore_ascii_case("consumergroups")
        {
            let hub = self.namespace.hub(hub)?;
            let groups = hub.consumer_groups();
            let entries = groups.iter().map(|group| self.group_entry(&hub, group.name())).collect();
            return Some(self.feed(path, "consumergroups", entries));
        }
        if let Some((before, group)) = split_at_keyword(path, "consumergroups") {
            let hub = self.namespace.hub(before)?;
            let group = hub.consumer_group(group)?;
            return Some(atom::entry(&self.group_entry(&hub, group.name())));
        }
        let (before, id) = match split_at_keyword(path, "partitions") {
            Some((before, id)) => (before, Some(id)),
            None => {
                let (before, last) = path.rsplit_once('/')?;
                (last.eq_ignore_ascii_case("partitions").then_some(before)?, None)
            }
        };
        let (hub, group) = split_at_keyword(before, "consumergroups")?;
        let hub = self.namespace.hub(hub)?;
        hub.consumer_group(group)?;
        let hub = hub.latest();
        let entry = |partition: &Partition| {
            let path = format!("{before}/partitions/{}", partition.id());
            self.partition_entry(&path, partition)
        };
        Some(match id {
            Some(id) => atom::entry(&entry(hub.partition(id)?)),
            None => {
                let entries = hub.partitions().iter().map(|partition| entry(partition)).collect();
                self.feed(path, "partitions", entries)
            }
        })
    }

    fn of_queues(&self, path: &str) -> Option<Reply> {
        match self.namespace.queue_or_topic(path) {
            Some(Entity::Queue(queue)) => return Some(atom::entry(&self.queue_entry(&queue))),
            Some(Entity::Topic(topic)) => return Some(atom::entry(&self.topic_entry(&topic))),
            None => {}
        }
        let topic = |name| match self.namespace.queue_or_topic(name)? {
            Entity::Topic(topic) => Some(topic),
            Entity::Queue(_) => None,
        };
        if let Some((name, subscription)) = split_at_keyword(path, "subscriptions") {
            let topic = topic(name)?;
            return Some(atom::entry(&self.subscription_entry(&topic, topic.subscription(subscription)?)));
        }
        let (name, last) = path.rsplit_once('/')?;
        let topic = last.eq_ignore_ascii_case("subscriptions").then(|| topic(name))??;
        let entries = topic.subscriptions().iter().map(|one| self.subscription_entry(&topic, one)).collect();
        Some(self.feed(path, "subscriptions", entries))
    }

    fn hub_entry(&self, hub: &Hub) -> Entry {
        let retention = hub.limits().retention.map_or(7, |time| time.as_secs().div_ceil(86_400));
        let created = time_of(hub.created_at());
        let description = Description::new("EventHubDescription")
            .with("MessageRetentionInDays", retention)
            .with("Status", "Active")
            .with("CreatedAt", iso_date(created))
            .with("UpdatedAt", iso_date(created))
            .with("PartitionCount", hub.partitions().len())
            .with_strings(
                "PartitionIds",
                hub.partitions().iter().map(|partition| partition.id().to_string()),
            );
        self.entry(hub.name(), hub.name(), Some(created), description)
    }

    fn group_entry(&self, hub: &Hub, group: &str) -> Entry {
        let created = time_of(hub.created_at());
        let description = Description::new("ConsumerGroupDescription")
            .with("CreatedAt", iso_date(created))
            .with("UpdatedAt", iso_date(created));
        self.entry(&format!("{}/consumergroups/{group}", hub.name()), group, Some(created), description)
    }

    fn partition_entry(&self, path: &str, partition: &Partition) -> Entry {
        let stats = partition.log().committed_stats();
        let last = stats.last_sequence_number;
        let description = Description::new("PartitionDescription")
            .with("SizeInBytes", stats.bytes)
            .with("BeginSequenceNumber", stats.begin_sequence_number)
            .with("EndSequenceNumber", last.map_or(-1, u64::cast_signed))
            .with_some("LastEnqueuedTimeUtc", stats.last_append_time.map(|time| iso_date(time_of(time))));
        self.entry(path, &partition.id().to_string(), None, description)
    }

    fn queue_entry(&self, queue: &Queue) -> Entry {
        let options = queue.options();
        let counts = queue.counts();
        let description = Description::new("QueueDescription")
            .with("LockDuration", duration(Some(options.lock_duration)))
            .with("MaxSizeInMegabytes", options.size_limit.bytes() >> 20)
            .with("RequiresDuplicateDetection", options.duplicate_detection.is_some())
            .with("RequiresSession", options.requires_session)
            .with("DefaultMessageTimeToLive", duration(options.default_time_to_live))
            .with("DeadLetteringOnMessageExpiration", options.dead_lettering_on_expiration)
            .with("MaxDeliveryCount", options.maximum_delivery_count)
            .with("SizeInBytes", counts.bytes)
            .with("MessageCount", messages(queue))
            .with("Status", format!("{:?}", options.status))
            .with_some("ForwardTo", options.forward_to.as_ref())
            .with_counts(details(queue));
        self.entry(queue.name(), queue.name(), None, description)
    }

    fn topic_entry(&self, topic: &Topic) -> Entry {
        let options = topic.options();
        let description = Description::new("TopicDescription")
            .with("DefaultMessageTimeToLive", duration(options.default_time_to_live))
            .with("MaxSizeInMegabytes", options.size_limit.bytes() >> 20)
            .with("RequiresDuplicateDetection", options.duplicate_detection.is_some())
            .with("SizeInBytes", topic.bytes())
            .with("Status", format!("{:?}", options.status))
            .with_counts([
                ("ActiveMessageCount", 0),
                ("DeadLetterMessageCount", 0),
                ("ScheduledMessageCount", topic.scheduled()),
                ("TransferDeadLetterMessageCount", 0),
                ("TransferMessageCount", 0),
            ])
            .with("SubscriptionCount", topic.subscriptions().len());
        self.entry(topic.name(), topic.name(), None, description)
    }

    fn subscription_entry(&self, topic: &Topic, subscription: &Subscription) -> Entry {
        let queue = subscription.queue();
        let options: &QueueOptions = queue.options();
        let description = Description::new("SubscriptionDescription")
            .with("LockDuration", duration(Some(options.lock_duration)))
            .with("RequiresSession", options.requires_session)
            .with("DefaultMessageTimeToLive", duration(options.default_time_to_live))
            .with("DeadLetteringOnMessageExpiration", options.dead_lettering_on_expiration)
            .with("MessageCount", messages(queue))
            .with("MaxDeliveryCount", options.maximum_delivery_count)
            .with("Status", format!("{:?}", options.status))
            .with_some("ForwardTo", options.forward_to.as_ref())
            .with_counts(details(queue));
        let path = format!("{}/Subscriptions/{}", topic.name(), subscription.name());
        self.entry(&path, subscription.name(), None, description)
    }

    fn entry(
        &self,
        path: &str,
        title: &str,
        published: Option<SystemTime>,
        description: Description,
    ) -> Entry {
        let url = self.session.url(self.request, path);
        Entry { url, title: title.to_owned(), published, description }
    }

    fn feed(&self, path: &str, title: &str, entries: Vec<Entry>) -> Reply {
        atom::feed(&self.session.url(self.request, path), title, &entries)
    }
}

fn time_of(time: UnixTime) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(time.milliseconds()).unwrap_or(0))
}

fn messages(queue: &Queue) -> u64 {
    details(queue).iter().map(|(_, count)| count).sum()
}

fn details(queue: &Queue) -> [(&'static str, u64); 5] {
    let counts = queue.counts();
    [
        ("ActiveMessageCount", counts.active + counts.deferred),
        ("DeadLetterMessageCount", counts.dead_letters),
        ("ScheduledMessageCount", counts.scheduled),
        ("TransferDeadLetterMessageCount", counts.transfer_dead_letters),
        ("TransferMessageCount", 0),
    ]
}
