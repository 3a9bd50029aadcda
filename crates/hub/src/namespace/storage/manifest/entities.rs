//! The queues, topics and subscriptions of a manifest, and what clients do to them.
//!
//! A change takes no longer the more there are: it finds what it is about by its name.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::{KeptFacts, Manifest};
use crate::namespace::facts::subscription_path;
use crate::namespace::{EntityFacts, QueueConfig, SubscriptionConfig, TopicConfig};
use partition_log::UnixTime;
use queue_store::{QueueOptions, TopicOptions};

/// What a client has done to a queue, a topic or a subscription, as the log of changes has it. Changes that are applied again in
/// their order come to the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::namespace::storage) enum EntityChange {
    /// There is this queue, or it has these options.
    Queue { queue: QueueConfig, facts: EntityFacts },
    /// There is this topic, which is new.
    Topic { topic: TopicConfig, facts: EntityFacts },
    /// A topic has these options.
    TopicOptions { topic: String, options: TopicOptions, facts: EntityFacts },
    /// A topic has this subscription, which is new.
    Subscription { topic: String, subscription: SubscriptionConfig, facts: EntityFacts },
    /// A subscription has these options.
    SubscriptionOptions { topic: String, subscription: String, options: QueueOptions, facts: EntityFacts },
    /// A queue or topic is deleted. Its folder may still be there.
    Deleted { name: String },
    /// A subscription is deleted.
    SubscriptionDeleted { topic: String, subscription: String },
}

impl Manifest {
    /// The queues: those that are declared, then those that were kept besides. With them it is as with hubs: what is
    /// declared says how they are to be, and leaving one out removes nothing.
    pub(in crate::namespace::storage) fn merged_queues(&self, declared: &[QueueConfig]) -> Vec<QueueConfig> {
        let mut queues = declared.to_vec();
        let mut others = self.queues.clone();
        for queue in &mut queues {
            let path = queue.name.to_ascii_lowercase();
            if let Some(kept) = others.remove(&path)
                && self.is_declared_as(&path, &queue.options)
            {
                queue.options = kept.options;
            }
        }
        queues.extend(others.into_values());
        queues
    }

    /// The topics in the same way, and so with the subscriptions of each.
    pub(in crate::namespace::storage) fn merged_topics(&self, declared: &[TopicConfig]) -> Vec<TopicConfig> {
        let mut topics = declared.to_vec();
        let mut others = self.topics.clone();
        for topic in &mut topics {
            let path = topic.name.to_ascii_lowercase();
            let Some(kept) = others.remove(&path) else {
                continue;
            };
            if self.is_declared_as(&path, &as_queue_options(&topic.options)) {
                topic.options = kept.options;
            }
            let mut others: Vec<SubscriptionConfig> = kept.subscriptions;
            for subscription in &mut topic.subscriptions {
                let known = others.iter().position(|kept| kept.name.eq_ignore_ascii_case(&subscription.name));
                let path = subscription_path(&path, &subscription.name).to_ascii_lowercase();
                if let Some(kept) = known.map(|place| others.remove(place))
                    && self.is_declared_as(&path, &subscription.options)
                {
                    subscription.options = kept.options;
                }
            }
            topic.subscriptions.extend(others);
        }
        topics.extend(others.into_values());
        topics
    }

    /// Whether what is at this path, in lower case, was declared so when clients changed it.
    fn is_declared_as(&self, path: &str, options: &QueueOptions) -> bool {
        self.facts.get(path).is_some_and(|facts| facts.declared.as_ref() == Some(options))
    }

    /// The names of the queues and topics.
    pub(in crate::namespace::storage) fn queue_names(&self) -> impl Iterator<Item = &str> {
        let queues = self.queues.values().map(|queue| queue.name.as_str());
        queues.chain(self.topics.values().map(|topic| topic.name.as_str()))
    }

    /// Whether a queue or topic has this name, whatever the letter case.
    pub(in crate::namespace::storage) fn has_queue_or_topic(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        self.queues.contains_key(&name) || self.topics.contains_key(&name)
    }

    /// Sets the queues and topics. Those that are new are made at `now`.
    pub(in crate::namespace::storage) fn set_queues(
        &mut self,
        queues: &[QueueConfig],
        topics: &[TopicConfig],
        now: UnixTime,
    ) {
        let before: HashMap<String, QueueOptions> =
            options_by_path(self.queues.values(), self.topics.values()).collect();
        let mut facts = BTreeMap::new();
        for (path, options) in options_by_path(queues.iter(), topics.iter()) {
            let mut kept = self
                .facts
                .remove(&path)
                .unwrap_or_else(|| KeptFacts { facts: EntityFacts::of(now), declared: None });
            // It is declared otherwise now, and that is what counts.
            if before.get(&path) != Some(&options) {
                kept.declared = None;
            }
            facts.insert(path, kept);
        }
        self.facts = facts;
        self.queues = by_name(queues.iter().cloned());
        self.topics = by_name(topics.iter().cloned());
    }

    /// What is known of queues, topics and subscriptions besides their options, by their paths in lower case.
    pub(in crate::namespace::storage) fn facts(&self) -> impl Iterator<Item = (&String, &EntityFacts)> {
        self.facts.iter().map(|(path, kept)| (path, &kept.facts))
    }

    /// The number of the last change that is in here.
    pub(in crate::namespace::storage) const fn last_change(&self) -> u64 {
        self.last_change
    }

    /// Everything up to this change of the log is in here, or was not made.
    pub(in crate::namespace::storage) const fn set_last_change(&mut self, number: u64) {
        self.last_change = number;
    }

    /// Makes a change, which has this number in the log.
    pub(in crate::namespace::storage) fn apply(&mut self, number: u64, change: EntityChange) {
        self.last_change = number;
        match change {
            EntityChange::Queue { queue, facts } => {
                let path = queue.name.to_ascii_lowercase();
                let before = match self.queues.get_mut(&path) {
                    Some(known) => Some(std::mem::replace(&mut known.options, queue.options)),
                    None => {
                        self.deleted_queues.remove(&path);
                        self.queues.insert(path.clone(), queue);
                        None
                    }
                };
                self.note(path, before, facts);
            }
            EntityChange::Topic { topic, facts } => {
                let path = topic.name.to_ascii_lowercase();
                for subscription in &topic.subscriptions {
                    let path = subscription_path(&path, &subscription.name).to_ascii_lowercase();
                    self.note(path, None, EntityFacts::of(facts.created_at()));
                }
                self.deleted_queues.remove(&path);
                self.topics.insert(path.clone(), topic);
                self.note(path, None, facts);
            }
            EntityChange::TopicOptions { topic, options, facts } => {
                let path = topic.to_ascii_lowercase();
                if let Some(topic) = self.topics.get_mut(&path) {
                    let before = std::mem::replace(&mut topic.options, options);
                    self.note(path, Some(as_queue_options(&before)), facts);
                }
            }
            EntityChange::Subscription { topic, subscription, facts } => {
                if let Some(known) = self.topics.get_mut(&topic.to_ascii_lowercase()) {
                    let path = subscription_path(&topic, &subscription.name).to_ascii_lowercase();
                    known.subscriptions.push(subscription);
                    self.note(path, None, facts);
                }
            }
            EntityChange::SubscriptionOptions { topic, subscription, options, facts } => {
                let path = subscription_path(&topic, &subscription).to_ascii_lowercase();
                let known = self.topics.get_mut(&topic.to_ascii_lowercase());
                let mut known = known.into_iter().flat_map(|topic| &mut topic.subscriptions);
                if let Some(known) = known.find(|each| each.name.eq_ignore_ascii_case(&subscription)) {
                    let before = std::mem::replace(&mut known.options, options);
                    self.note(path, Some(before), facts);
                }
            }
            EntityChange::Deleted { name } => self.remove_queue_or_topic(name.to_ascii_lowercase()),
            EntityChange::SubscriptionDeleted { topic, subscription } => {
                self.facts.remove(&subscription_path(&topic, &subscription).to_ascii_lowercase());
                if let Some(topic) = self.topics.get_mut(&topic.to_ascii_lowercase()) {
                    topic.subscriptions.retain(|each| !each.name.eq_ignore_ascii_case(&subscription));
                }
            }
        }
    }

    fn remove_queue_or_topic(&mut self, path: String) {
        self.queues.remove(&path);
        if let Some(topic) = self.topics.remove(&path) {
            for subscription in &topic.subscriptions {
                self.facts.remove(&subscription_path(&path, &subscription.name).to_ascii_lowercase());
            }
        }
        self.facts.remove(&path);
        self.deleted_queues.insert(path);
    }

    /// The names, in lower case, of queues and topics whose folders are to be removed.
    pub(in crate::namespace::storage) fn deleted_queues(&self) -> impl Iterator<Item = &str> {
        self.deleted_queues.iter().map(String::as_str)
    }

    /// Whether the folder of a queue or topic of this name is to be removed, whatever the letter case.
    pub(in crate::namespace::storage) fn is_deleted_queue(&self, name: &str) -> bool {
        self.deleted_queues.contains(&name.to_ascii_lowercase())
    }

    /// The folder of a deleted queue or topic is gone.
    pub(in crate::namespace::storage) fn forget_deleted_queue(&mut self, name: &str) {
        self.deleted_queues.remove(&name.to_ascii_lowercase());
    }

    /// The folders of all deleted queues and topics are gone.
    pub(in crate::namespace::storage) fn forget_deleted_queues(&mut self) {
        self.deleted_queues.clear();
    }

    /// Notes what is known of the entity at `path`, in lower case, whose options were `before` if they are others now.
    fn note(&mut self, path: String, before: Option<QueueOptions>, facts: EntityFacts) {
        let declared = self.facts.remove(&path).and_then(|kept| kept.declared).or(before);
        self.facts.insert(path, KeptFacts { facts, declared });
    }
}

/// The options of all queues, topics and subscriptions by their paths in lower case.
fn options_by_path<'a>(
    queues: impl Iterator<Item = &'a QueueConfig>,
    topics: impl Iterator<Item = &'a TopicConfig>,
) -> impl Iterator<Item = (String, QueueOptions)> {
    let queues = queues.map(|queue| (queue.name.to_ascii_lowercase(), queue.options.clone()));
    let topics = topics.flat_map(|topic| {
        let own = (topic.name.to_ascii_lowercase(), as_queue_options(&topic.options));
        let subscriptions = topic.subscriptions.iter().map(|subscription| {
            let path = subscription_path(&topic.name, &subscription.name);
            (path.to_ascii_lowercase(), subscription.options.clone())
        });
        std::iter::once(own).chain(subscriptions)
    });
    queues.chain(topics)
}

/// The options of a topic as those of a queue, so that there is one form of them.
fn as_queue_options(options: &TopicOptions) -> QueueOptions {
    QueueOptions {
        default_time_to_live: options.default_time_to_live,
        duplicate_detection: options.duplicate_detection,
        size_limit: options.size_limit,
        status: options.status,
        ..QueueOptions::default()
    }
}

/// What has a name.
pub(super) trait Named {
    fn name(&self) -> &str;
}

impl Named for QueueConfig {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for TopicConfig {
    fn name(&self) -> &str {
        &self.name
    }
}

fn by_name<T: Named>(entities: impl Iterator<Item = T>) -> BTreeMap<String, T> {
    entities.map(|entity| (entity.name().to_ascii_lowercase(), entity)).collect()
}

/// Entities by their names, as a list.
pub(super) mod listed {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Named, by_name};

    pub(in super::super) fn serialize<T: Serialize, S: Serializer>(
        entities: &BTreeMap<String, T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(entities.values())
    }

    pub(in super::super) fn deserialize<'de, T: Named + Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, T>, D::Error> {
        Ok(by_name(Vec::<T>::deserialize(deserializer)?.into_iter()))
    }
}
