//! Queues and subscriptions in the Prometheus text format.

use std::fmt::Write as _;
use std::sync::Arc;

use queue_store::{Entity, Queue, QueueCounters, QueueCounts, QueueStore};

/// Appends what there is of each queue and each subscription of `store`, by the name that clients use for it. Names
/// need no escaping: they have none of the characters that would.
pub(super) fn render(store: &QueueStore, text: &mut String) {
    let queues = queues(store);
    let counts: Vec<QueueCounts> = queues.iter().map(|queue| queue.counts()).collect();
    let counters: Vec<QueueCounters> = queues.iter().map(|queue| queue.lifecycle_counters()).collect();
    let name = "parshall_hub_queue_messages";
    family(text, name, "gauge", "Messages in the queue, by their state.");
    for (queue, counts) in queues.iter().zip(&counts) {
        for (state, figure) in states(counts) {
            let entity = queue.name();
            let _ = writeln!(text, "{name}{{entity=\"{entity}\",state=\"{state}\"}} {figure}");
        }
    }
    let name = "parshall_hub_queue_bytes";
    family(text, name, "gauge", "What messages and dead letters count towards the size limit.");
    for (queue, counts) in queues.iter().zip(&counts) {
        let _ = writeln!(text, "{name}{{entity=\"{}\"}} {}", queue.name(), counts.bytes);
    }
    for (name, help, figure) in COUNTERS {
        family(text, name, "counter", help);
        for (queue, counters) in queues.iter().zip(&counters) {
            let _ = writeln!(text, "{name}{{entity=\"{}\"}} {}", queue.name(), figure(counters));
        }
    }
}

/// The queues and the queues of subscriptions, in the order of their names.
fn queues(store: &QueueStore) -> Vec<Arc<Queue>> {
    let mut queues = Vec::new();
    for entity in store.entities() {
        match entity {
            Entity::Queue(queue) => queues.push(queue),
            Entity::Topic(topic) => queues
                .extend(topic.subscriptions().iter().map(|subscription| Arc::clone(subscription.queue()))),
        }
    }
    queues
}

/// Every message has one of these states.
const fn states(counts: &QueueCounts) -> [(&'static str, u64); 6] {
    [
        ("available", counts.active - counts.locked),
        ("locked", counts.locked),
        ("deferred", counts.deferred),
        ("scheduled", counts.scheduled),
        ("dead-letter", counts.dead_letters),
        ("transfer-dead-letter", counts.transfer_dead_letters),
    ]
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Which counter a metric shows.
type Figure = fn(&QueueCounters) -> u64;

const COUNTERS: [(&str, &str, Figure); 8] = [
    ("parshall_hub_queue_enqueued_total", "Messages that became available.", |counters| counters.enqueued),
    ("parshall_hub_queue_delivered_total", "Deliveries to receivers.", |counters| counters.delivered),
    ("parshall_hub_queue_completed_total", "Messages completed.", |counters| counters.completed),
    ("parshall_hub_queue_abandoned_total", "Deliveries abandoned.", |counters| counters.abandoned),
    ("parshall_hub_queue_deferred_total", "Times that a message was put aside.", |counters| {
        counters.deferred
    }),
    ("parshall_hub_queue_dead_lettered_total", "Messages that became dead letters.", |counters| {
        counters.dead_lettered
    }),
    ("parshall_hub_queue_expired_total", "Messages whose time to live was over.", |counters| {
        counters.expired
    }),
    (
        "parshall_hub_queue_lock_expirations_total",
        "Locks of messages that ended by themselves.",
        |counters| counters.lock_expirations,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use partition_log::UnixTime;
    use queue_store::rules::RuleSet;
    use queue_store::{NewMessage, NewSubscription, QueueOptions, TopicOptions};

    #[test]
    fn queues_and_subscriptions_are_told_by_name_and_state() {
        let store = QueueStore::in_memory();
        let queue = store.create_queue("jobs", QueueOptions::default()).unwrap();
        let subscription = NewSubscription {
            name: "all".to_owned(),
            options: QueueOptions::default(),
            rules: RuleSet::default(),
        };
        store.create_topic("news", TopicOptions::default(), vec![subscription]).unwrap();
        // An empty data section.
        let sections: [&[u8]; 1] = [&[0x00, 0x53, 0x75, 0xa0, 0x00]];
        let message = NewMessage { sections: &sections, ..NewMessage::default() };
        queue.enqueue(UnixTime::from_milliseconds(0), &[message, message]).unwrap();
        let mut text = String::new();
        render(&store, &mut text);
        for line in [
            "# TYPE parshall_hub_queue_messages gauge",
            "parshall_hub_queue_messages{entity=\"jobs\",state=\"available\"} 2",
            "parshall_hub_queue_messages{entity=\"jobs\",state=\"dead-letter\"} 0",
            "parshall_hub_queue_messages{entity=\"news/Subscriptions/all\",state=\"available\"} 0",
            "parshall_hub_queue_bytes{entity=\"jobs\"} 138",
            "parshall_hub_queue_enqueued_total{entity=\"jobs\"} 2",
            "parshall_hub_queue_lock_expirations_total{entity=\"news/Subscriptions/all\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
