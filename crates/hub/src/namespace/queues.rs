//! Making the queues and topics that a namespace is to have.

use super::queue_config::{QueueConfig, QueueConfigError, SubscriptionConfig, TopicConfig};
use crate::queue::{NewSubscription, QueueStore};

/// Makes these queues and topics in `store`, which is new.
///
/// # Errors
/// The first that can't be made, with its place.
pub(super) fn make(
    store: &QueueStore,
    queues: &[QueueConfig],
    topics: &[TopicConfig],
) -> Result<(), QueueConfigError> {
    let mistake = |path: String, reason: String| QueueConfigError { path, reason };
    for (index, queue) in queues.iter().enumerate() {
        store
            .create_queue(&queue.name, queue.options.clone())
            .map_err(|cause| mistake(format!("queues[{index}]"), cause.to_string()))?;
    }
    for (index, topic) in topics.iter().enumerate() {
        let place = format!("topics[{index}]");
        let subscription = |(number, subscription): (usize, &SubscriptionConfig)| {
            let rules = subscription.rule_set().map_err(|(rule, cause)| {
                let path = format!("{place}.subscriptions[{number}].rules[{rule}]");
                mistake(path, cause.to_string())
            })?;
            Ok(NewSubscription {
                name: subscription.name.clone(),
                options: subscription.options.clone(),
                rules,
            })
        };
        let subscriptions = topic.subscriptions.iter().enumerate();
        let subscriptions = subscriptions.map(subscription).collect::<Result<_, _>>()?;
        store
            .create_topic(&topic.name, topic.options.clone(), subscriptions)
            .map_err(|cause| mistake(place, cause.to_string()))?;
    }
    Ok(())
}
