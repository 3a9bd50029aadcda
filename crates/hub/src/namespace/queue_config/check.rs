//! What may be wrong with queues and topics that is not wrong with their types.

use super::circles::check_for_circles;
use super::{QueueConfig, QueueConfigError, TopicConfig};
use queue_store::QueueOptions;
use queue_store::rules::RuleError;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;
use units::{ByteSize, duration};

/// Whether these queues and topics can be, beside hubs of these names.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub(in crate::namespace) fn check<'a>(
    hubs: impl IntoIterator<Item = &'a str>,
    queues: &[QueueConfig],
    topics: &[TopicConfig],
) -> Result<(), QueueConfigError> {
    let mut names: HashMap<String, Kind> =
        hubs.into_iter().map(|name| (name.to_ascii_lowercase(), Kind::Hub)).collect();
    let mut check_name = |path: String, name: &str, kind: Kind| {
        if !is_name(name, MAXIMUM_NAME_LENGTH, b"_.-/") || has_reserved_part(name) {
            let reason = format!(
                "{name:?} is not a valid name for a {kind}; allowed are 1 to {MAXIMUM_NAME_LENGTH} letters and digits, with any \
                 of _ . - / between them, and no part between slashes that addresses use themselves (such as \
                 Subscriptions)"
            );
            return Err(QueueConfigError { path, reason });
        }
        match names.insert(name.to_ascii_lowercase(), kind) {
            Some(there) => {
                Err(QueueConfigError { path, reason: format!("there is a {there} with the name {name:?}") })
            }
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
    check_for_circles(queues, topics)
}

fn check_topic(
    place: &str,
    topic: &TopicConfig,
    names: &HashMap<String, Kind>,
) -> Result<(), QueueConfigError> {
    check_positive(place, "default_time_to_live", topic.options.default_time_to_live)?;
    check_positive(place, "duplicate_detection", topic.options.duplicate_detection)?;
    if topic.options.size_limit == ByteSize::ZERO {
        return Err(QueueConfigError {
            path: format!("{place}.size_limit"),
            reason: "the size limit must be above 0".to_owned(),
        });
    }
    let mut subscriptions: HashMap<String, usize> = HashMap::new();
    for (index, subscription) in topic.subscriptions.iter().enumerate() {
        let place = format!("{place}.subscriptions[{index}]");
        let name = &subscription.name;
        let mistake =
            |field: &str, reason: String| QueueConfigError { path: format!("{place}.{field}"), reason };
        if !is_name(name, MAXIMUM_SUBSCRIPTION_NAME_LENGTH, b"_.-") {
            let reason = format!(
                "{name:?} is not a valid name for a subscription; allowed are 1 to {MAXIMUM_SUBSCRIPTION_NAME_LENGTH} letters \
                 and digits, with any of _ . - between them"
            );
            return Err(mistake("name", reason));
        }
        if subscriptions.insert(name.to_ascii_lowercase(), index).is_some() {
            let reason = format!("the topic has another subscription with the name {name:?}");
            return Err(mistake("name", reason));
        }
        let source = format!("{}/Subscriptions/{name}", topic.name);
        check_options(&place, &source, &subscription.options, names)?;
        if let Err((index, error)) = subscription.rule_set() {
            let field = match error {
                RuleError::Filter { .. } => "filter",
                _ => "name",
            };
            let field = format!("rules[{index}].{field}");
            return Err(mistake(&field, error.to_string()));
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
    let mistake = |field: &str, reason: String| QueueConfigError { path: format!("{place}.{field}"), reason };
    if options.maximum_delivery_count == 0 {
        let reason = "must be at least 1: a message is delivered at least once".to_owned();
        return Err(mistake("maximum_delivery_count", reason));
    }
    if options.size_limit == ByteSize::ZERO {
        let reason = "the size limit must be above 0".to_owned();
        return Err(mistake("size_limit", reason));
    }
    for (field, target) in [
        ("forward_to", &options.forward_to),
        ("forward_dead_lettered_messages_to", &options.forward_dead_lettered_messages_to),
    ] {
        let Some(target) = target else { continue };
        if target.eq_ignore_ascii_case(name) {
            return Err(mistake(field, format!("{target:?} would forward to itself")));
        }
        match names.get(&target.to_ascii_lowercase()) {
            Some(Kind::Queue | Kind::Topic) => {}
            Some(Kind::Hub) | None => {
                let reason = format!("there is no queue or topic {target:?}");
                return Err(mistake(field, reason));
            }
        }
    }
    if options.requires_session && options.forward_to.is_some() {
        let reason = "messages of sessions can't be forwarded".to_owned();
        return Err(mistake("forward_to", reason));
    }
    Ok(())
}

fn check_positive(place: &str, field: &str, duration: Option<Duration>) -> Result<(), QueueConfigError> {
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
    let ends_well =
        [bytes.first(), bytes.last()].into_iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric));
    ends_well
        && bytes.len() <= longest
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || between.contains(byte))
}

fn has_reserved_part(name: &str) -> bool {
    name.split('/').any(|part| part.is_empty() || part.eq_ignore_ascii_case("Subscriptions"))
}

/// What a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Hub,
    Queue,
    Topic,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hub => "hub",
            Self::Queue => "queue",
            Self::Topic => "topic",
        })
    }
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
    use queue_store::rules::Rule;

    fn mistake(queues: &[QueueConfig], topics: &[TopicConfig]) -> String {
        check(["events"], queues, topics).unwrap_err().to_string()
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
    fn names_that_are_reserved_words_of_addresses_are_refused() {
        for name in ["", "a//b", "a/subscriptions/b", "-a", "a$", &"a".repeat(261)] {
            let mistake = mistake(&[QueueConfig::new(name)], &[]);
            assert!(mistake.starts_with("queues[0].name: "), "{mistake}");
        }
        check([], &[QueueConfig::new("team/orders_1.x-y")], &[]).unwrap();
        for name in ["", "a/b", &"a".repeat(51)] {
            let mistake = mistake(&[], &[TopicConfig::new("news", [name])]);
            assert!(mistake.starts_with("topics[0].subscriptions[0].name: "), "{mistake}");
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
    fn options_and_rules_out_of_range_are_reported_with_their_place() {
        let mut queue = QueueConfig::new("orders");
        queue.options.lock_duration = Duration::ZERO;
        assert_eq!(mistake(&[queue], &[]), "queues[0].lock_duration: 0 s is not from 1 ms to 100 years");
        let mut topic = TopicConfig::new("news", ["all"]);
        topic.subscriptions[0].options.maximum_delivery_count = 0;
        assert!(
            mistake(&[], std::slice::from_ref(&topic))
                .starts_with("topics[0].subscriptions[0].maximum_delivery_count: must be at least 1")
        );
        let subscription = &mut topic.subscriptions[0];
        subscription.options.maximum_delivery_count = 1;
        subscription.rules = Some(vec![Rule::match_all(), Rule::match_all()]);
        assert_eq!(
            mistake(&[], &[topic]),
            "topics[0].subscriptions[0].rules[1].name: The subscription already has a rule '$Default'"
        );
    }
}
