//! The `Config.json` of Microsoft's Service Bus emulator.
//!
//! ```json
//! {"UserConfig": {
//!    "Namespaces": [{"Name": "sbemulatorns",
//!       "Queues": [{"Name": "queue.1", "Properties": {"LockDuration": "PT1M"}}],
//!       "Topics": [{"Name": "topic.1", "Subscriptions": [{"Name": "subscription.1", "Rules": []}]}]}],
//!    "Logging": {"Type": "File"}}}
//! ```
//!
//! What is left out has the default of the emulator, not ours. A key that nothing knows is refused with its place: a
//! misspelt option would otherwise be silently another one.

use hub::namespace::{QueueConfig, SubscriptionConfig, TopicConfig};
use queue_store::rules::{CorrelationFilter, Filter, PropertyList, Rule, SqlAction, SqlFilter};
use queue_store::{QueueOptions, TopicOptions};
use serde::Deserialize;
use serde::de::IgnoredAny;
use settings::{Document, Node, SettingsError};
use std::time::Duration;

use super::find;
use super::iso_duration::IsoDuration;
use super::letter_case::in_usual_letter_case;

/// Whether the file describes queues and topics.
pub(super) fn is_there(user: &Node) -> bool {
    find(user, "Namespaces").is_some()
}

/// The queues and topics that the file describes.
///
/// # Errors
/// What is missing, unknown or makes no sense, with its place.
pub(super) fn read(document: &Document) -> Result<(Vec<QueueConfig>, Vec<TopicConfig>), SettingsError> {
    let file: File = in_usual_letter_case(document).typed()?;
    let path = "UserConfig.Namespaces";
    let mut namespaces = file.user_config.namespaces.into_iter();
    let namespace = match (namespaces.next(), namespaces.next()) {
        (Some(namespace), None) => namespace,
        (None, _) => return Err(document.mistake(path, "contains no namespace", "")),
        (Some(_), Some(_)) => {
            let advice = "a service has one namespace; start a second service for the other";
            return Err(document.mistake(path, "has more than one namespace", advice));
        }
    };
    let queues = namespace.queues.into_iter().map(Into::into).collect();
    let topics = namespace.topics.into_iter().map(Into::into).collect();
    Ok((queues, topics))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct File {
    user_config: UserConfig,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct UserConfig {
    namespaces: Vec<Namespace>,
    #[serde(default, rename = "NamespaceConfig")]
    _hubs: IgnoredAny,
    #[serde(default, rename = "Logging")]
    _logging: IgnoredAny,
    #[serde(default, rename = "LoggingConfig")]
    _hub_logging: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Namespace {
    #[serde(default, rename = "Name")]
    _name: IgnoredAny,
    #[serde(default)]
    queues: Vec<Queue>,
    #[serde(default)]
    topics: Vec<Topic>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Queue {
    name: String,
    #[serde(default)]
    properties: QueueProperties,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Topic {
    name: String,
    #[serde(default)]
    properties: TopicProperties,
    #[serde(default)]
    subscriptions: Vec<Subscription>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Subscription {
    name: String,
    #[serde(default)]
    properties: SubscriptionProperties,
    #[serde(default)]
    rules: Vec<EmulatorRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase", default)]
struct QueueProperties {
    dead_lettering_on_message_expiration: bool,
    default_message_time_to_live: IsoDuration,
    lock_duration: IsoDuration,
    max_delivery_count: u32,
    requires_session: bool,
    requires_duplicate_detection: bool,
    duplicate_detection_history_time_window: IsoDuration,
    forward_to: String,
    forward_dead_lettered_messages_to: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase", default)]
struct TopicProperties {
    default_message_time_to_live: IsoDuration,
    requires_duplicate_detection: bool,
    duplicate_detection_history_time_window: IsoDuration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase", default)]
struct SubscriptionProperties {
    dead_lettering_on_message_expiration: bool,
    default_message_time_to_live: IsoDuration,
    lock_duration: IsoDuration,
    max_delivery_count: u32,
    requires_session: bool,
    forward_to: String,
    forward_dead_lettered_messages_to: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct EmulatorRule {
    name: String,
    #[serde(default)]
    properties: RuleProperties,
}

/// A filter and an action, read together, since one key says which other one counts.
#[derive(Deserialize, Default)]
#[serde(try_from = "RuleFields")]
struct RuleProperties {
    filter: Filter,
    action: Option<SqlAction>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct RuleFields {
    filter_type: Option<FilterType>,
    correlation_filter: Option<CorrelationFields>,
    sql_filter: Option<SqlFilterFields>,
    action: Option<SqlActionFields>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
enum FilterType {
    Correlation,
    Sql,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "PascalCase", default)]
struct CorrelationFields {
    content_type: Option<String>,
    correlation_id: Option<String>,
    #[serde(alias = "Subject")]
    label: Option<String>,
    message_id: Option<String>,
    reply_to: Option<String>,
    reply_to_session_id: Option<String>,
    session_id: Option<String>,
    to: Option<String>,
    properties: PropertyList,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct SqlFilterFields {
    sql_expression: SqlFilter,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct SqlActionFields {
    sql_expression: SqlAction,
}

impl Default for QueueProperties {
    fn default() -> Self {
        let SubscriptionProperties {
            dead_lettering_on_message_expiration,
            default_message_time_to_live,
            lock_duration,
            max_delivery_count,
            requires_session,
            forward_to,
            forward_dead_lettered_messages_to,
        } = SubscriptionProperties::default();
        Self {
            dead_lettering_on_message_expiration,
            default_message_time_to_live,
            lock_duration,
            max_delivery_count,
            requires_session,
            requires_duplicate_detection: false,
            duplicate_detection_history_time_window: DUPLICATE_DETECTION,
            forward_to,
            forward_dead_lettered_messages_to,
        }
    }
}

impl Default for TopicProperties {
    fn default() -> Self {
        Self {
            default_message_time_to_live: TIME_TO_LIVE,
            requires_duplicate_detection: false,
            duplicate_detection_history_time_window: DUPLICATE_DETECTION,
        }
    }
}

impl Default for SubscriptionProperties {
    fn default() -> Self {
        Self {
            dead_lettering_on_message_expiration: false,
            default_message_time_to_live: TIME_TO_LIVE,
            lock_duration: LOCK_DURATION,
            max_delivery_count: DELIVERIES,
            requires_session: false,
            forward_to: String::new(),
            forward_dead_lettered_messages_to: String::new(),
        }
    }
}

impl From<Queue> for QueueConfig {
    fn from(queue: Queue) -> Self {
        let properties = queue.properties;
        Self {
            name: queue.name,
            options: QueueOptions {
                lock_duration: properties.lock_duration.0,
                maximum_delivery_count: properties.max_delivery_count,
                default_time_to_live: Some(properties.default_message_time_to_live.0),
                dead_lettering_on_expiration: properties.dead_lettering_on_message_expiration,
                requires_session: properties.requires_session,
                duplicate_detection: properties
                    .requires_duplicate_detection
                    .then_some(properties.duplicate_detection_history_time_window.0),
                forward_to: name(properties.forward_to),
                forward_dead_lettered_messages_to: name(properties.forward_dead_lettered_messages_to),
                ..QueueOptions::default()
            },
        }
    }
}

impl From<Topic> for TopicConfig {
    fn from(topic: Topic) -> Self {
        let properties = topic.properties;
        Self {
            name: topic.name,
            options: TopicOptions {
                default_time_to_live: Some(properties.default_message_time_to_live.0),
                duplicate_detection: properties
                    .requires_duplicate_detection
                    .then_some(properties.duplicate_detection_history_time_window.0),
                ..TopicOptions::default()
            },
            subscriptions: topic.subscriptions.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Subscription> for SubscriptionConfig {
    fn from(subscription: Subscription) -> Self {
        let properties = subscription.properties;
        let rules = subscription.rules.into_iter().map(|rule| Rule {
            name: rule.name,
            filter: rule.properties.filter,
            action: rule.properties.action,
            created_at_unix_ms: None,
        });
        let rules: Vec<Rule> = rules.collect();
        Self {
            name: subscription.name,
            options: QueueOptions {
                lock_duration: properties.lock_duration.0,
                maximum_delivery_count: properties.max_delivery_count,
                default_time_to_live: Some(properties.default_message_time_to_live.0),
                dead_lettering_on_expiration: properties.dead_lettering_on_message_expiration,
                requires_session: properties.requires_session,
                forward_to: name(properties.forward_to),
                forward_dead_lettered_messages_to: name(properties.forward_dead_lettered_messages_to),
                ..QueueOptions::default()
            },
            // A list without rules means the same there as none.
            rules: (!rules.is_empty()).then_some(rules),
        }
    }
}

impl TryFrom<RuleFields> for RuleProperties {
    type Error = &'static str;

    fn try_from(fields: RuleFields) -> Result<Self, &'static str> {
        let kind = match (fields.filter_type, &fields.correlation_filter, &fields.sql_filter) {
            (Some(kind), _, _) => Some(kind),
            (None, Some(_), Some(_)) => {
                return Err("has two filters, and no `FilterType` to choose one");
            }
            (None, Some(_), None) => Some(FilterType::Correlation),
            (None, None, Some(_)) => Some(FilterType::Sql),
            (None, None, None) => None,
        };
        let filter = match (kind, fields.correlation_filter, fields.sql_filter) {
            (Some(FilterType::Correlation), Some(filter), _) => Filter::Correlation(filter.into()),
            (Some(FilterType::Sql), _, Some(filter)) => Filter::Sql(filter.sql_expression),
            (Some(FilterType::Correlation), None, _) => {
                return Err("has the `FilterType` Correlation and no `CorrelationFilter`");
            }
            (Some(FilterType::Sql), _, None) => {
                return Err("has the `FilterType` Sql and no `SqlFilter`");
            }
            (None, _, _) => Filter::True,
        };
        Ok(Self { filter, action: fields.action.map(|action| action.sql_expression) })
    }
}

impl From<CorrelationFields> for CorrelationFilter {
    fn from(fields: CorrelationFields) -> Self {
        Self {
            correlation_id: fields.correlation_id,
            message_id: fields.message_id,
            to: fields.to,
            reply_to: fields.reply_to,
            label: fields.label,
            session_id: fields.session_id,
            reply_to_session_id: fields.reply_to_session_id,
            content_type: fields.content_type,
            properties: fields.properties.0,
        }
    }
}

/// Nowhere is written as an empty name.
fn name(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// The defaults of the emulator's schema.
const TIME_TO_LIVE: IsoDuration = IsoDuration(Duration::from_secs(3600));
const LOCK_DURATION: IsoDuration = IsoDuration(Duration::from_secs(60));
const DUPLICATE_DETECTION: IsoDuration = IsoDuration(Duration::from_secs(20));
const DELIVERIES: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn entities(text: &str) -> Result<(Vec<QueueConfig>, Vec<TopicConfig>), SettingsError> {
        read(&Document::parse("Config.json", text).unwrap())
    }

    fn file(queues: &str, topics: &str) -> String {
        format!(
            "{{\"UserConfig\": {{\"Namespaces\": [{{\"Name\": \"sbemulatorns\", \"Queues\": {queues},\n\
             \"Topics\": {topics}}}], \"Logging\": {{\"Type\": \"File\"}}}}}}"
        )
    }

    #[test]
    fn what_is_left_out_has_the_defaults_of_the_emulator() {
        let (queues, _) = entities(&file(r#"[{"Name": "queue.1"}]"#, "[]")).unwrap();
        let options = &queues[0].options;
        assert_eq!(queues[0].name, "queue.1");
        assert_eq!(options.default_time_to_live, Some(Duration::from_secs(3600)));
        assert_eq!(options.lock_duration, Duration::from_secs(60));
        assert_eq!(options.maximum_delivery_count, 3);
        assert_eq!(options.duplicate_detection, None);
    }

    #[test]
    fn keys_may_have_any_letter_case_but_those_of_messages_keep_theirs() {
        let text = r#"{"$schema": "x", "userConfig": {"namespaces": [{"name": "n", "QUEUES": [], "topics": [
            {"name": "t", "subscriptions": [{"name": "s", "rules": [{"name": "r", "properties": {
                "filterType": "Correlation", "correlationFilter": {"label": "l", "properties": {"name": "x", "n": 1}}}}]}]}]}]}}"#;
        let (_, topics) = entities(text).unwrap();
        let rules = topics[0].subscriptions[0].rules.as_ref().unwrap();
        let Filter::Correlation(filter) = &rules[0].filter else {
            panic!("{rules:?}");
        };
        assert_eq!(filter.label.as_deref(), Some("l"));
        let (_, topics) = entities(&text.replace("\"label\"", "\"subject\"")).unwrap();
        let rules = topics[0].subscriptions[0].rules.as_ref().unwrap();
        assert_eq!(rules[0].filter, Filter::Correlation(filter.clone()));
        let names: Vec<&str> = filter.properties.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["name", "n"]);
    }

    #[test]
    fn what_is_unknown_or_makes_no_sense_is_refused_with_its_place() {
        let message = |queues: &str, topics: &str| entities(&file(queues, topics)).unwrap_err().to_string();
        let rule = |properties: &str| {
            let subscription = format!(
                r#"[{{"Name": "t", "Subscriptions": [{{"Name": "s", "Rules": [{{"Name": "r", "Properties": {properties}}}]}}]}}]"#
            );
            message("[]", &subscription)
        };
        let at_rule = "`UserConfig.Namespaces[0].Topics[0].Subscriptions[0].Rules[0]";
        assert_eq!(
            message(r#"[{"Name": "q", "Properties": {"LockDurations": "PT1M"}}]"#, "[]"),
            "Config.json:1:97: `UserConfig.Namespaces[0].Queues[0].Properties.LockDurations` is not a known key"
        );
        assert!(message(r#"[{"Name": "q", "Properties": {"LockDuration": "1 min"}}]"#, "[]").ends_with(
            "Queues[0].Properties.LockDuration`: \"1 min\" is not an ISO 8601 duration, such as PT1M"
        ));
        assert!(message("[{}]", "[]").ends_with("Queues[0]` lacks the key `Name`"));
        assert!(
            rule(r#"{"FilterType": "Sql"}"#)
                .ends_with(&format!("{at_rule}`: has the `FilterType` Sql and no `SqlFilter`"))
        );
        assert!(
            rule(r#"{"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a = "}}"#).ends_with(&format!(
                "{at_rule}.Properties.SqlFilter.SqlExpression`: character 5: expected a property or a constant, found the end"
            ))
        );
        assert!(
            rule(r#"{"CorrelationFilter": {"Label": "l"}, "SqlFilter": {"SqlExpression": "1=1"}}"#)
                .ends_with("has two filters, and no `FilterType` to choose one")
        );
        let namespaces = |list: &str| {
            entities(&format!("{{\"UserConfig\": {{\"Namespaces\": {list}}}}}")).unwrap_err().to_string()
        };
        assert!(namespaces("[]").ends_with("contains no namespace"));
        assert!(namespaces("[{}, {}]").ends_with("has more than one namespace"));
    }
}
