//! Making the queues and topics that a namespace is to have.

use super::queue_config::{QueueConfig, QueueConfigError, SubscriptionConfig, TopicConfig};
use queue_store::{CreateError, NewSubscription, QueueStore};

/// Why a queue or topic was not made.
#[derive(Debug)]
pub(super) enum MakeError {
    /// Its configuration makes no sense, or contradicts what is kept.
    Config(QueueConfigError),
    /// What is kept of it is damaged.
    Journal(String),
}

/// Makes these queues and topics in `store`, which is new.
///
/// # Errors
/// The first that can't be made, with its place.
pub(super) fn make(
    store: &QueueStore,
    queues: &[QueueConfig],
    topics: &[TopicConfig],
) -> Result<(), MakeError> {
    let mistake = |path: String, reason: String| MakeError::Config(QueueConfigError { path, reason });
    let failure = |path: String, cause: CreateError| match cause {
        CreateError::Journal(error) => MakeError::Journal(error.to_string()),
        cause => mistake(path, cause.to_string()),
    };
    for (index, queue) in queues.iter().enumerate() {
        store
            .create_queue(&queue.name, queue.options.clone())
            .map_err(|cause| failure(format!("queues[{index}]"), cause))?;
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
            .map_err(|cause| failure(place, cause))?;
    }
    Ok(())
}
