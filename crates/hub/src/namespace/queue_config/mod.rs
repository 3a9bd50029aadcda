//! The queues and topics that a namespace is to have, as plain data, and what may be wrong with it.

mod check;
mod circles;
mod fields;

pub(super) use check::{check, check_forwarding, check_values};

use fields::{QueueFields, SubscriptionFields, TopicFields};
use queue_store::rules::{Rule, RuleError, RuleSet};
use queue_store::{QueueOptions, TopicOptions};
use serde::{Deserialize, Serialize};

/// One queue. In a file its options stand beside its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "QueueFields")]
pub struct QueueConfig {
    /// As [`access::NamedEntity::Queue`] has it.
    pub name: String,
    /// Its options.
    #[serde(flatten)]
    pub options: QueueOptions,
}

/// One topic with its subscriptions. In a file its options stand beside its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "TopicFields")]
pub struct TopicConfig {
    /// As [`access::NamedEntity::Topic`] has it.
    pub name: String,
    /// Its options.
    #[serde(flatten)]
    pub options: TopicOptions,
    /// Its subscriptions. A topic without any drops what is sent to it.
    pub subscriptions: Vec<SubscriptionConfig>,
}

/// One subscription of a topic. In a file its options stand beside its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "SubscriptionFields")]
pub struct SubscriptionConfig {
    /// As [`access::NamedEntity::Subscription`] has it.
    pub name: String,
    /// Its options. It detects no duplicates, and has the size limit of its topic.
    #[serde(flatten)]
    pub options: QueueOptions,
    /// Which messages it gets; `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<Rule>>,
}

/// What in the queues and topics makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct QueueConfigError {
    /// Where, such as `topics[1].subscriptions[0].rules[2].name`.
    pub path: String,
    /// What is wrong there.
    pub reason: String,
}

impl QueueConfig {
    /// A queue with the default options.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), options: QueueOptions::default() }
    }
}

impl TopicConfig {
    /// A topic with the default options and these subscriptions, which get everything.
    pub fn new<'a>(name: impl Into<String>, subscriptions: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            name: name.into(),
            options: TopicOptions::default(),
            subscriptions: subscriptions.into_iter().map(SubscriptionConfig::new).collect(),
        }
    }
}

impl SubscriptionConfig {
    /// A subscription with the default options, which gets everything.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), options: QueueOptions::default(), rules: None }
    }

    /// Its rules as one: those that are listed, or the one that lets everything through.
    ///
    /// # Errors
    /// The first that can't be, with its place in the list and the reason.
    pub fn rule_set(&self) -> Result<RuleSet, (usize, RuleError)> {
        match &self.rules {
            Some(rules) => RuleSet::of(rules.iter().cloned()),
            None => Ok(RuleSet::default()),
        }
    }
}
