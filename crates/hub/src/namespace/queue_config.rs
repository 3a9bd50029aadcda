//! The queues and topics that a namespace is to have, as plain data, and what may be wrong with it.

use crate::queue::rules::{Rule, RuleSet};
use crate::queue::{EntityStatus, QueueOptions, TopicOptions};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Duration;
use units::{ByteSize, duration};

/// One queue. In a file its options stand beside its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "QueueFields", into = "QueueFields")]
pub struct QueueConfig {
    /// 1 to 260 characters: letters, digits, and within `_`, `.`, `-`, `/`.
    pub name: String,
    /// Its options.
    pub options: QueueOptions,
}

/// One topic with its subscriptions. In a file its options stand beside its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "TopicFields", into = "TopicFields")]
pub struct TopicConfig {
    /// As that of a queue.
    pub name: String,
    /// Its options.
    pub options: TopicOptions,
    /// Its subscriptions. A topic without any drops what is sent to it.
    pub subscriptions: Vec<SubscriptionConfig>,
}

/// One subscription of a topic. In a file its options stand beside its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "SubscriptionFields", into = "SubscriptionFields")]
pub struct SubscriptionConfig {
    /// 1 to 50 characters: letters, digits, and within `_`, `.`, `-`.
    pub name: String,
    /// Its options. It detects no duplicates, and has the size limit of its topic.
    pub options: QueueOptions,
    /// Which messages it gets; `None`: all.
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
        Self {
            name: name.into(),
            options: QueueOptions::default(),
        }
    }
}

impl TopicConfig {
    /// A topic with the default options and these subscriptions, which get everything.
    pub fn new<'a>(
        name: impl Into<String>,
        subscriptions: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self {
            name: name.into(),
            options: TopicOptions::default(),
            subscriptions: subscriptions
                .into_iter()
                .map(SubscriptionConfig::new)
                .collect(),
        }
    }
}

impl SubscriptionConfig {
    /// A subscription with the default options, which gets everything.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            options: QueueOptions::default(),
            rules: None,
        }
    }

    /// Its rules as one: those that are listed, or the one that lets everything through.
    ///
    /// # Errors
    /// The first that can't be, with its place in the list and the reason.
    pub fn rule_set(&self) -> Result<RuleSet, (usize, crate::queue::rules::RuleError)> {
        match &self.rules {
            Some(rules) => RuleSet::of(rules.iter().cloned()),
            None => Ok(RuleSet::default()),
        }
    }
}

/// Whether these queues and topics can be, beside hubs of these names.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub(super) fn check<'a>(
    hubs: impl IntoIterator<Item = &'a str>,
    queues: &[QueueConfig],
    topics: &[TopicConfig],
) -> Result<(), QueueConfigError> {
    let mut names: HashMap<String, Kind> = hubs
        .into_iter()
        .map(|name| (name.to_ascii_lowercase(), Kind::Hub))
        .collect();
    let mut check_name = |path: String, name: &str, kind: Kind| {
        if !is_name(name, MAXIMUM_NAME_LENGTH, b"_.-/") || has_reserved_part(name) {
            let reason = format!(
                "{name:?} is not a name for a {kind}; allowed are 1 to {MAXIMUM_NAME_LENGTH} letters and digits, with any \
                 of _ . - / between them, and no part between slashes that addresses use themselves (such as \
                 Subscriptions)"
            );
            return Err(QueueConfigError { path, reason });
        }
        match names.insert(name.to_ascii_lowercase(), kind) {
            Some(there) => Err(QueueConfigError {
                path,
                reason: format!("there is a {there} with the name {name:?}"),
            }),
            None => Ok(()),
        }
    };
    for (index, queue) in queues.iter().enumerate() {
        check_name(format!("queues[{index}].name"), &queue.name, Kind::Queue)?;
    }
    for (index, topic) in topics.iter().enumerate() {
        check_name(format!("topics[{index}].name"), &topic.name, Kind::Topic)?;
    }
    for (index, queue) in queues.iter().enumerate() {
        let place = format!("queues[{index}]");
        check_options(&place, &queue.name, &queue.options, &names)?;
    }
    for (index, topic) in topics.iter().enumerate() {
        check_topic(&format!("topics[{index}]"), topic, &names)?;
    }
    Ok(())
}

fn check_topic(
    place: &str,
    topic: &TopicConfig,
    names: &HashMap<String, Kind>,
) -> Result<(), QueueConfigError> {
    check_positive(
        place,
        "default_time_to_live",
        topic.options.default_time_to_live,
    )?;
    check_positive(
        place,
        "duplicate_detection",
        topic.options.duplicate_detection,
    )?;
    let mut subscriptions: HashMap<String, usize> = HashMap::new();
    for (index, subscription) in topic.subscriptions.iter().enumerate() {
        let place = format!("{place}.subscriptions[{index}]");
        let name = &subscription.name;
        let mistake = |field: &str, reason: String| QueueConfigError {
            path: format!("{place}.{field}"),
            reason,
        };
        if !is_name(name, MAXIMUM_SUBSCRIPTION_NAME_LENGTH, b"_.-") {
            let reason = format!(
                "{name:?} is not a name for a subscription; allowed are 1 to {MAXIMUM_SUBSCRIPTION_NAME_LENGTH} letters \
                 and digits, with any of _ . - between them"
            );
            return Err(mistake("name", reason));
        }
        if subscriptions
            .insert(name.to_ascii_lowercase(), index)
            .is_some()
        {
            let reason = format!("the topic has another subscription with the name {name:?}");
            return Err(mistake("name", reason));
        }
        let source = format!("{}/Subscriptions/{name}", topic.name);
        check_options(&place, &source, &subscription.options, names)?;
        if let Err((index, error)) = subscription.rule_set() {
            return Err(mistake(&format!("rules[{index}].name"), error.to_string()));
        }
    }
    Ok(())
}

fn check_options(
    place: &str,
    name: &str,
    options: &QueueOptions,
    names: &HashMap<String, Kind>,
) -> Result<(), QueueConfigError> {
    check_positive(place, "lock_duration", Some(options.lock_duration))?;
    check_positive(place, "default_time_to_live", options.default_time_to_live)?;
    check_positive(place, "duplicate_detection", options.duplicate_detection)?;
    let mistake = |field: &str, reason: String| QueueConfigError {
        path: format!("{place}.{field}"),
        reason,
    };
    if options.maximum_delivery_count == 0 {
        let reason = "0 is not from 1 on: a message is delivered at least once".to_owned();
        return Err(mistake("maximum_delivery_count", reason));
    }
    for (field, target) in [
        ("forward_to", &options.forward_to),
        (
            "forward_dead_lettered_messages_to",
            &options.forward_dead_lettered_messages_to,
        ),
    ] {
        let Some(target) = target else { continue };
        if target.eq_ignore_ascii_case(name) {
            return Err(mistake(
                field,
                format!("{target:?} would forward to itself"),
            ));
        }
        match names.get(&target.to_ascii_lowercase()) {
            Some(Kind::Queue | Kind::Topic) => {}
            Some(Kind::Hub) | None => {
                let reason = format!("there is no queue or topic {target:?}");
                return Err(mistake(field, reason));
            }
        }
    }
    Ok(())
}

fn check_positive(
    place: &str,
    field: &str,
    duration: Option<Duration>,
) -> Result<(), QueueConfigError> {
    match duration {
        Some(given) if given < SHORTEST || given > LONGEST => Err(QueueConfigError {
            path: format!("{place}.{field}"),
            reason: format!("{} is not from 1 ms to 100 years", duration::text(given)),
        }),
        _ => Ok(()),
    }
}

/// Letters and digits, with any of `between` except at either end.
fn is_name(name: &str, longest: usize, between: &[u8]) -> bool {
    let bytes = name.as_bytes();
    let ends_well = [bytes.first(), bytes.last()]
        .into_iter()
        .all(|end| end.is_some_and(u8::is_ascii_alphanumeric));
    ends_well
        && bytes.len() <= longest
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || between.contains(byte))
}

fn has_reserved_part(name: &str) -> bool {
    name.split('/')
        .any(|part| part.is_empty() || part.eq_ignore_ascii_case("Subscriptions"))
}

/// What a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Hub,
    Queue,
    Topic,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Hub => "hub",
            Self::Queue => "queue",
            Self::Topic => "topic",
        })
    }
}

/// A queue as it stands in a file: one mapping. The options say what the keys mean.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueFields {
    name: String,
    #[serde(default = "default_lock_duration", with = "duration")]
    lock_duration: Duration,
    #[serde(default = "default_maximum_delivery_count")]
    maximum_delivery_count: u32,
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    default_time_to_live: Option<Duration>,
    #[serde(default)]
    dead_lettering_on_expiration: bool,
    #[serde(default)]
    requires_session: bool,
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    duplicate_detection: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forward_to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forward_dead_lettered_messages_to: Option<String>,
    #[serde(default = "default_size_limit")]
    size_limit: ByteSize,
    #[serde(default)]
    status: EntityStatus,
}

/// A topic as it stands in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicFields {
    name: String,
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    default_time_to_live: Option<Duration>,
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    duplicate_detection: Option<Duration>,
    #[serde(default = "default_size_limit")]
    size_limit: ByteSize,
    #[serde(default)]
    status: EntityStatus,
    #[serde(default)]
    subscriptions: Vec<SubscriptionConfig>,
}

/// A subscription as it stands in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubscriptionFields {
    name: String,
    #[serde(default = "default_lock_duration", with = "duration")]
    lock_duration: Duration,
    #[serde(default = "default_maximum_delivery_count")]
    maximum_delivery_count: u32,
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    default_time_to_live: Option<Duration>,
    #[serde(default)]
    dead_lettering_on_expiration: bool,
    #[serde(default)]
    requires_session: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forward_to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forward_dead_lettered_messages_to: Option<String>,
    #[serde(default)]
    status: EntityStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

impl From<QueueConfig> for QueueFields {
    fn from(config: QueueConfig) -> Self {
        let options = config.options;
        Self {
            name: config.name,
            lock_duration: options.lock_duration,
            maximum_delivery_count: options.maximum_delivery_count,
            default_time_to_live: options.default_time_to_live,
            dead_lettering_on_expiration: options.dead_lettering_on_expiration,
            requires_session: options.requires_session,
            duplicate_detection: options.duplicate_detection,
            forward_to: options.forward_to,
            forward_dead_lettered_messages_to: options.forward_dead_lettered_messages_to,
            size_limit: options.size_limit,
            status: options.status,
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

impl From<TopicConfig> for TopicFields {
    fn from(config: TopicConfig) -> Self {
        let options = config.options;
        Self {
            name: config.name,
            default_time_to_live: options.default_time_to_live,
            duplicate_detection: options.duplicate_detection,
            size_limit: options.size_limit,
            status: options.status,
            subscriptions: config.subscriptions,
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

impl From<SubscriptionConfig> for SubscriptionFields {
    fn from(config: SubscriptionConfig) -> Self {
        let options = config.options;
        Self {
            name: config.name,
            lock_duration: options.lock_duration,
            maximum_delivery_count: options.maximum_delivery_count,
            default_time_to_live: options.default_time_to_live,
            dead_lettering_on_expiration: options.dead_lettering_on_expiration,
            requires_session: options.requires_session,
            forward_to: options.forward_to,
            forward_dead_lettered_messages_to: options.forward_dead_lettered_messages_to,
            status: options.status,
            rules: config.rules,
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

/// The service's own limits.
const MAXIMUM_NAME_LENGTH: usize = 260;
const MAXIMUM_SUBSCRIPTION_NAME_LENGTH: usize = 50;
const SHORTEST: Duration = Duration::from_millis(1);
/// Far enough for "for ever", and near enough that adding it to a time makes one.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::rules::{Filter, SqlFilter};

    fn mistake(queues: &[QueueConfig], topics: &[TopicConfig]) -> String {
        check(["events"], queues, topics).unwrap_err().to_string()
    }

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
        assert_eq!(
            red.rules()[0].filter,
            Filter::Sql(SqlFilter::parse("color = 'red'").unwrap())
        );
        assert_eq!(
            topic.subscriptions[0].rule_set().unwrap(),
            RuleSet::default()
        );
        let text = serde_json::to_string(&(&queue, &topic)).unwrap();
        let read: (QueueConfig, TopicConfig) = serde_json::from_str(&text).unwrap();
        assert_eq!(read, (queue, topic));
    }

    #[test]
    fn names_are_unique_among_hubs_queues_and_topics_whatever_the_letter_case() {
        let queue = QueueConfig::new("orders");
        assert_eq!(
            mistake(&[queue.clone(), QueueConfig::new("EVENTS")], &[]),
            "queues[1].name: there is a hub with the name \"EVENTS\""
        );
        assert_eq!(
            mistake(&[queue], &[TopicConfig::new("Orders", [])]),
            "topics[0].name: there is a queue with the name \"Orders\""
        );
        assert_eq!(
            mistake(&[], &[TopicConfig::new("news", ["all", "ALL"])]),
            "topics[0].subscriptions[1].name: the topic has another subscription with the name \"ALL\""
        );
    }

    #[test]
    fn names_that_addresses_could_not_tell_from_their_own_words_are_refused() {
        for name in [
            "",
            "a//b",
            "a/subscriptions/b",
            "-a",
            "a$",
            &"a".repeat(261),
        ] {
            let mistake = mistake(&[QueueConfig::new(name)], &[]);
            assert!(mistake.starts_with("queues[0].name: "), "{mistake}");
        }
        check([], &[QueueConfig::new("team/orders_1.x-y")], &[]).unwrap();
        for name in ["", "a/b", &"a".repeat(51)] {
            let mistake = mistake(&[], &[TopicConfig::new("news", [name])]);
            assert!(
                mistake.starts_with("topics[0].subscriptions[0].name: "),
                "{mistake}"
            );
        }
    }

    #[test]
    fn forwarding_goes_to_a_queue_or_topic_that_is_there() {
        let forwarding = |target: &str| {
            let mut queue = QueueConfig::new("orders");
            queue.options.forward_to = Some(target.to_owned());
            [queue, QueueConfig::new("Other")]
        };
        check([], &forwarding("other"), &[]).unwrap();
        assert_eq!(
            mistake(&forwarding("nowhere"), &[]),
            "queues[0].forward_to: there is no queue or topic \"nowhere\""
        );
        assert_eq!(
            mistake(&forwarding("events"), &[]),
            "queues[0].forward_to: there is no queue or topic \"events\""
        );
        assert_eq!(
            mistake(&forwarding("Orders"), &[]),
            "queues[0].forward_to: \"Orders\" would forward to itself"
        );
    }

    #[test]
    fn options_and_rules_out_of_range_are_told_with_their_place() {
        let mut queue = QueueConfig::new("orders");
        queue.options.lock_duration = Duration::ZERO;
        assert_eq!(
            mistake(&[queue], &[]),
            "queues[0].lock_duration: 0 s is not from 1 ms to 100 years"
        );
        let mut topic = TopicConfig::new("news", ["all"]);
        topic.subscriptions[0].options.maximum_delivery_count = 0;
        assert!(
            mistake(&[], std::slice::from_ref(&topic))
                .starts_with("topics[0].subscriptions[0].maximum_delivery_count: 0 is not")
        );
        let subscription = &mut topic.subscriptions[0];
        subscription.options.maximum_delivery_count = 1;
        subscription.rules = Some(vec![Rule::match_all(), Rule::match_all()]);
        assert_eq!(
            mistake(&[], &[topic]),
            "topics[0].subscriptions[0].rules[1].name: The subscription has a rule '$Default' already"
        );
    }
}
