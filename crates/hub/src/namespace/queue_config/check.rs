//! What may be wrong with queues and topics that is not wrong with their types.

use super::super::facts::subscription_path;
use super::circles::check_for_circles;
use super::{QueueConfig, QueueConfigError, TopicConfig};
use access::NamedEntity;
use queue_store::rules::RuleError;
use queue_store::{MAXIMUM_DELIVERY_COUNT, QueueOptions};
use std::collections::{HashMap, HashSet};
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
    let mut names: HashMap<String, NamedEntity> =
        hubs.into_iter().map(|name| (name.to_ascii_lowercase(), NamedEntity::Hub)).collect();
    let mut check_name = |path: String, name: &str, kind: NamedEntity| {
        if let Err(error) = kind.check_name(name) {
            return Err(QueueConfigError { path, reason: error.to_string() });
        }
        match names.insert(name.to_ascii_lowercase(), kind) {
            Some(there) => {
                Err(QueueConfigError { path, reason: format!("there is a {there} with the name {name:?}") })
            }
            None => Ok(()),
        }
    };
    for (index, queue) in queues.iter().enumerate() {
        check_name(format!("queues[{index}].name"), &queue.name, NamedEntity::Queue)?;
    }
    for (index, topic) in topics.iter().enumerate() {
        check_name(format!("topics[{index}].name"), &topic.name, NamedEntity::Topic)?;
    }
    for (index, queue) in queues.iter().enumerate() {
        let place = format!("queues[{index}]");
        check_values(&place, &queue.options)?;
    }
    for (index, topic) in topics.iter().enumerate() {
        check_topic(&format!("topics[{index}]"), topic)?;
    }
    Ok(())
}

/// Whether what `queues` and `topics` forward goes to one of all queues and topics, of which these are the names, and not in a circle.
/// Clients may delete what others forward to, and the service lets them forward in circles; so this holds for what is declared
/// alone.
///
/// # Errors
/// The first that forwards to nothing or in a circle, with its place.
pub(in crate::namespace) fn check_forwarding<'a>(
    names: impl Iterator<Item = &'a str>,
    queues: &[QueueConfig],
    topics: &[TopicConfig],
) -> Result<(), QueueConfigError> {
    let names: HashSet<String> = names.map(str::to_ascii_lowercase).collect();
    let check = |place: &str, path: &str, options: &QueueOptions| {
        for (field, target) in targets(options) {
            if target.eq_ignore_ascii_case(path) {
                let reason = format!("{target:?} would forward to itself");
                return Err(QueueConfigError { path: format!("{place}.{field}"), reason });
            }
            if !names.contains(&target.to_ascii_lowercase()) {
                let reason = format!("there is no queue or topic {target:?}");
                return Err(QueueConfigError { path: format!("{place}.{field}"), reason });
            }
        }
        Ok(())
    };
    for (index, queue) in queues.iter().enumerate() {
        check(&format!("queues[{index}]"), &queue.name, &queue.options)?;
    }
    for (index, topic) in topics.iter().enumerate() {
        for (number, subscription) in topic.subscriptions.iter().enumerate() {
            let path = subscription_path(&topic.name, &subscription.name);
            check(&format!("topics[{index}].subscriptions[{number}]"), &path, &subscription.options)?;
        }
    }
    check_for_circles(queues, topics)
}

fn targets(options: &QueueOptions) -> impl Iterator<Item = (&'static str, &String)> {
    let targets = [
        ("forward_to", &options.forward_to),
        ("forward_dead_lettered_messages_to", &options.forward_dead_lettered_messages_to),
    ];
    targets.into_iter().filter_map(|(field, target)| Some((field, target.as_ref()?)))
}

fn check_topic(place: &str, topic: &TopicConfig) -> Result<(), QueueConfigError> {
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
        if let Err(error) = NamedEntity::Subscription.check_name(name) {
            return Err(mistake("name", error.to_string()));
        }
        if subscriptions.insert(name.to_ascii_lowercase(), index).is_some() {
            let reason = format!("the topic has another subscription with the name {name:?}");
            return Err(mistake("name", reason));
        }
        check_values(&place, &subscription.options)?;
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

/// Whether the options of a queue at `place` make sense by themselves.
///
/// # Errors
/// The first that does not, with its place.
pub(in crate::namespace) fn check_values(
    place: &str,
    options: &QueueOptions,
) -> Result<(), QueueConfigError> {
    check_positive(place, "lock_duration", Some(options.lock_duration))?;
    check_positive(place, "default_time_to_live", options.default_time_to_live)?;
    check_positive(place, "duplicate_detection", options.duplicate_detection)?;
    let mistake = |field: &str, reason: String| QueueConfigError { path: format!("{place}.{field}"), reason };
    if !(1..=MAXIMUM_DELIVERY_COUNT).contains(&options.maximum_delivery_count) {
        let count = options.maximum_delivery_count;
        let reason = format!("{count} is not from 1 to {MAXIMUM_DELIVERY_COUNT}");
        return Err(mistake("maximum_delivery_count", reason));
    }
    if options.size_limit == ByteSize::ZERO {
        let reason = "the size limit must be above 0".to_owned();
        return Err(mistake("size_limit", reason));
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
        for name in ["", "a//b", "a/subscriptions/b", "/a", "a$", &"a".repeat(261)] {
            let mistake = mistake(&[QueueConfig::new(name)], &[]);
            assert!(mistake.starts_with("queues[0].name: "), "{mistake}");
        }
        check([], &[QueueConfig::new("-team/orders_1.x-y__")], &[]).unwrap();
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
        let missing =
            |target: &str| check_forwarding(["Orders", "OTHER"].into_iter(), &forwarding(target), &[]);
        assert_eq!(missing("other"), Ok(()));
        for target in ["nowhere", "events"] {
            let expected = format!("queues[0].forward_to: there is no queue or topic {target:?}");
            assert_eq!(missing(target).unwrap_err().to_string(), expected);
        }
        let itself = missing("orders").unwrap_err().to_string();
        assert_eq!(itself, "queues[0].forward_to: \"orders\" would forward to itself");
    }

    #[test]
    fn options_and_rules_out_of_range_are_reported_with_their_place() {
        let mut queue = QueueConfig::new("orders");
        queue.options.lock_duration = Duration::ZERO;
        assert_eq!(mistake(&[queue], &[]), "queues[0].lock_duration: 0 s is not from 1 ms to 100 years");
        let mut topic = TopicConfig::new("news", ["all"]);
        topic.subscriptions[0].options.maximum_delivery_count = 0;
        assert!(
            mistake(&[], std::slice::from_ref(&topic)).starts_with(
                "topics[0].subscriptions[0].maximum_delivery_count: 0 is not from 1 to 2147483647"
            )
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
