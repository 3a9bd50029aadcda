//! Queues, topics and subscriptions as they stand in a file: one mapping for each, so that its options stand beside its
//! name. What the keys mean is said where the options are.
//!
//! For writing, the options are put beside the name as they are. For reading, each mapping is spelled out, since what is
//! read that way would not know where in the file a mistake is.

use super::{QueueConfig, SubscriptionConfig, TopicConfig};
use queue_store::rules::Rule;
use queue_store::{EntityStatus, QueueOptions, TopicOptions};
use serde::Deserialize;
use std::time::Duration;
use units::{ByteSize, duration};

/// A queue as it stands in a file: one mapping. The options say what the keys mean.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueFields {
    name: String,
    #[serde(default = "default_lock_duration", with = "duration")]
    lock_duration: Duration,
    #[serde(default = "default_maximum_delivery_count")]
    maximum_delivery_count: u32,
    #[serde(default, with = "duration::optional")]
    default_time_to_live: Option<Duration>,
    #[serde(default)]
    dead_lettering_on_expiration: bool,
    #[serde(default)]
    requires_session: bool,
    #[serde(default, with = "duration::optional")]
    duplicate_detection: Option<Duration>,
    #[serde(default)]
    forward_to: Option<String>,
    #[serde(default)]
    forward_dead_lettered_messages_to: Option<String>,
    #[serde(default = "default_size_limit")]
    size_limit: ByteSize,
    #[serde(default)]
    status: EntityStatus,
}

/// A topic as it stands in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TopicFields {
    name: String,
    #[serde(default, with = "duration::optional")]
    default_time_to_live: Option<Duration>,
    #[serde(default, with = "duration::optional")]
    duplicate_detection: Option<Duration>,
    #[serde(default = "default_size_limit")]
    size_limit: ByteSize,
    #[serde(default)]
    status: EntityStatus,
    #[serde(default)]
    subscriptions: Vec<SubscriptionConfig>,
}

/// A subscription as it stands in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SubscriptionFields {
    name: String,
    #[serde(default = "default_lock_duration", with = "duration")]
    lock_duration: Duration,
    #[serde(default = "default_maximum_delivery_count")]
    maximum_delivery_count: u32,
    #[serde(default, with = "duration::optional")]
    default_time_to_live: Option<Duration>,
    #[serde(default)]
    dead_lettering_on_expiration: bool,
    #[serde(default)]
    requires_session: bool,
    #[serde(default)]
    forward_to: Option<String>,
    #[serde(default)]
    forward_dead_lettered_messages_to: Option<String>,
    #[serde(default)]
    status: EntityStatus,
    #[serde(default)]
    rules: Option<Vec<Rule>>,
}

impl From<QueueFields> for QueueConfig {
    fn from(fields: QueueFields) -> Self {
        Self {
            name: fields.name,
            options: QueueOptions {
                lock_duration: fields.lock_duration,
                maximum_delivery_count: fields.maximum_delivery_count,
                default_time_to_live: fields.default_time_to_live,
                dead_lettering_on_expiration: fields.dead_lettering_on_expiration,
                requires_session: fields.requires_session,
                duplicate_detection: fields.duplicate_detection,
                forward_to: fields.forward_to,
                forward_dead_lettered_messages_to: fields.forward_dead_lettered_messages_to,
                size_limit: fields.size_limit,
                status: fields.status,
            },
        }
    }
}

impl From<TopicFields> for TopicConfig {
    fn from(fields: TopicFields) -> Self {
        Self {
            name: fields.name,
            options: TopicOptions {
                default_time_to_live: fields.default_time_to_live,
                duplicate_detection: fields.duplicate_detection,
                size_limit: fields.size_limit,
                status: fields.status,
            },
            subscriptions: fields.subscriptions,
        }
    }
}

impl From<SubscriptionFields> for SubscriptionConfig {
    fn from(fields: SubscriptionFields) -> Self {
        Self {
            name: fields.name,
            options: QueueOptions {
                lock_duration: fields.lock_duration,
                maximum_delivery_count: fields.maximum_delivery_count,
                default_time_to_live: fields.default_time_to_live,
                dead_lettering_on_expiration: fields.dead_lettering_on_expiration,
                requires_session: fields.requires_session,
                forward_to: fields.forward_to,
                forward_dead_lettered_messages_to: fields.forward_dead_lettered_messages_to,
                status: fields.status,
                ..QueueOptions::default()
            },
            rules: fields.rules,
        }
    }
}

fn default_lock_duration() -> Duration {
    QueueOptions::default().lock_duration
}

fn default_maximum_delivery_count() -> u32 {
    QueueOptions::default().maximum_delivery_count
}

fn default_size_limit() -> ByteSize {
    QueueOptions::default().size_limit
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;
    use queue_store::rules::{Filter, RuleSet, SqlFilter};

    #[test]
    fn defaults_are_those_of_the_options_and_everything_survives_being_written() {
        let queue: QueueConfig = serde_json::from_str(r#"{"name": "orders"}"#).unwrap();
        assert_eq!(queue, QueueConfig::new("orders"));
        let topic: TopicConfig = serde_json::from_str(
            r#"{"name": "news", "duplicate_detection": "20 s", "subscriptions": [
                {"name": "all", "requires_session": true, "lock_duration": "30 s"},
                {"name": "red", "maximum_delivery_count": 3, "rules": [
                    {"name": "red", "filter": {"sql": "color = 'red'"}, "action": "REMOVE color"},
                    {"name": "urgent", "filter": {"correlation": {"label": "urgent", "properties": {"size": 10}}}},
                    {"name": "rest", "filter": "none"}]}]}"#,
        )
        .unwrap();
        check([], &[], std::slice::from_ref(&topic)).unwrap();
        let red = topic.subscriptions[1].rule_set().unwrap();
        assert_eq!(red.rules().len(), 3);
        assert_eq!(red.rules()[0].filter, Filter::Sql(SqlFilter::parse("color = 'red'").unwrap()));
        assert_eq!(topic.subscriptions[0].rule_set().unwrap(), RuleSet::default());
        let text = serde_json::to_string(&(&queue, &topic)).unwrap();
        let read: (QueueConfig, TopicConfig) = serde_json::from_str(&text).unwrap();
        assert_eq!(read, (queue, topic));
    }
}
