//! What there is, as descriptions.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::rest::administration::entity::{
    AuthorizationRule, EntityDescription, MessageCounts, Status, UNLIMITED,
};
use partition_log::UnixTime;
use queue_store::rules::RuleCounts;
use queue_store::{EntityStatus, Queue, QueueCounts, QueueOptions, Subscription, Topic, TopicOptions};

use super::options::DUPLICATE_DETECTION_WINDOW;
use crate::namespace::{EntityFacts, KeptKey};

/// A queue. `largest` is the longest message that the service takes, in bytes.
pub(super) fn queue(queue: &Queue, facts: &EntityFacts, largest: u64, now: UnixTime) -> EntityDescription {
    let counts = queue.counts();
    EntityDescription {
        size_in_bytes: Some(counts.bytes),
        message_count: Some(message_counts(&counts).total()),
        counts: Some(message_counts(&counts)),
        accessed_at: queue.used_at(now).map(time_of),
        support_ordering: Some(facts.wishes.support_ordering),
        enable_partitioning: Some(facts.wishes.enable_partitioning),
        enable_express: Some(facts.wishes.enable_express),
        maximum_message_kibibytes: Some(largest / 1024),
        ..queue_options(&queue.options(), facts)
    }
}

/// A topic.
pub(super) fn topic(topic: &Topic, facts: &EntityFacts, largest: u64, now: UnixTime) -> EntityDescription {
    let subscriptions = topic.subscriptions();
    let counts: Vec<RuleCounts> = subscriptions.iter().map(|each| each.rule_counts()).collect();
    let filters: usize = counts.iter().map(|counts| counts.all).sum();
    let correlations: usize = counts.iter().map(|counts| counts.correlations).sum();
    EntityDescription {
        size_in_bytes: Some(topic.bytes()),
        counts: Some(MessageCounts { scheduled: topic.scheduled(), ..MessageCounts::default() }),
        subscription_count: Some(subscriptions.len() as u64),
        sql_filter_count: Some((filters - correlations) as u64),
        correlation_filter_count: Some(correlations as u64),
        accessed_at: topic.used_at(now).map(time_of),
        maximum_message_kibibytes: Some(largest / 1024),
        ..topic_options(&topic.options(), facts)
    }
}

/// A subscription.
pub(super) fn subscription(
    subscription: &Subscription,
    facts: &EntityFacts,
    now: UnixTime,
) -> EntityDescription {
    let queue = subscription.queue();
    let counts = message_counts(&queue.counts());
    EntityDescription {
        message_count: Some(counts.total()),
        counts: Some(counts),
        // That nobody has used it yet is said of queues and topics alone.
        accessed_at: Some(time_of(queue.used_at(now).unwrap_or_else(|| facts.created_at()))),
        dead_lettering_on_filter_exceptions: Some(facts.wishes.dead_lettering_on_filter_exceptions),
        ..queue_options(&queue.options(), facts)
    }
}

/// What its owner can say of a queue, or of a subscription.
pub(super) fn queue_options(options: &QueueOptions, facts: &EntityFacts) -> EntityDescription {
    EntityDescription {
        lock_duration: Some(options.lock_duration),
        maximum_mebibytes: Some(options.size_limit.bytes() >> 20),
        requires_duplicate_detection: Some(options.duplicate_detection.is_some()),
        requires_session: Some(options.requires_session),
        default_time_to_live: Some(options.default_time_to_live.unwrap_or(UNLIMITED)),
        dead_lettering_on_expiration: Some(options.dead_lettering_on_expiration),
        duplicate_detection_window: Some(window(options.duplicate_detection, facts)),
        maximum_delivery_count: Some(options.maximum_delivery_count),
        status: Some(status(options.status)),
        forward_to: options.forward_to.clone().or_else(|| facts.wishes.forward_to.clone()),
        forward_dead_letters_to: options.forward_dead_lettered_messages_to.clone(),
        ..known(facts)
    }
}

/// What its owner can say of a topic.
pub(super) fn topic_options(options: &TopicOptions, facts: &EntityFacts) -> EntityDescription {
    EntityDescription {
        maximum_mebibytes: Some(options.size_limit.bytes() >> 20),
        requires_duplicate_detection: Some(options.duplicate_detection.is_some()),
        default_time_to_live: Some(options.default_time_to_live.unwrap_or(UNLIMITED)),
        duplicate_detection_window: Some(window(options.duplicate_detection, facts)),
        status: Some(status(options.status)),
        support_ordering: Some(facts.wishes.support_ordering),
        enable_partitioning: Some(facts.wishes.enable_partitioning),
        enable_express: Some(facts.wishes.enable_express),
        ..known(facts)
    }
}

fn known(facts: &EntityFacts) -> EntityDescription {
    EntityDescription {
        enable_batched_operations: Some(facts.wishes.enable_batched_operations),
        auto_delete_on_idle: Some(facts.auto_delete_on_idle.unwrap_or(UNLIMITED)),
        created_at: Some(time_of(facts.created_at())),
        updated_at: Some(time_of(facts.updated_at())),
        user_metadata: facts.user_metadata.clone(),
        authorization_rules: Some(facts.keys.iter().map(authorization_rule).collect()),
        ..EntityDescription::default()
    }
}

fn authorization_rule(key: &KeptKey) -> AuthorizationRule {
    AuthorizationRule {
        key_name: key.name.clone(),
        rights: key.rights.clone(),
        primary_key: key.primary.reveal().to_owned(),
        secondary_key: key.secondary.reveal().to_owned(),
    }
}

fn window(duplicate_detection: Option<Duration>, facts: &EntityFacts) -> Duration {
    let wished = facts.wishes.duplicate_detection_window;
    duplicate_detection.or(wished).unwrap_or(DUPLICATE_DETECTION_WINDOW)
}

/// What is put aside counts as active, as in the service.
fn message_counts(counts: &QueueCounts) -> MessageCounts {
    MessageCounts {
        active: counts.active + counts.deferred,
        dead_letters: counts.dead_letters,
        scheduled: counts.scheduled,
        transfer_dead_letters: counts.transfer_dead_letters,
        transfer: 0,
    }
}

const fn status(status: EntityStatus) -> Status {
    match status {
        EntityStatus::Active => Status::Active,
        EntityStatus::Disabled => Status::Disabled,
        EntityStatus::SendDisabled => Status::SendDisabled,
        EntityStatus::ReceiveDisabled => Status::ReceiveDisabled,
    }
}

/// An instant as the system has it.
pub(super) fn time_of(time: UnixTime) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(time.milliseconds()).unwrap_or(0))
}
