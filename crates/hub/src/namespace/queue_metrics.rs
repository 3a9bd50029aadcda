//! The metrics of queues and subscriptions.

use std::fmt;
use std::sync::Arc;

use listen::MetricsWriter;
use queue_store::{Entity, Queue, QueueCounters, QueueCounts, QueueStore};

use super::TransactionCounterValues;

/// Writes what there is of each queue and each subscription of `store`, by the name that clients use for it, and what has become
/// of transactions.
pub(super) fn encode(
    store: &QueueStore,
    transactions: TransactionCounterValues,
    metrics: &mut MetricsWriter<'_>,
) -> fmt::Result {
    let queues = queues(store);
    if queues.is_empty() {
        return Ok(());
    }
    let counts: Vec<QueueCounts> = queues.iter().map(|queue| queue.counts()).collect();
    let counters: Vec<QueueCounters> = queues.iter().map(|queue| queue.lifecycle_counters()).collect();
    let messages = queues.iter().zip(&counts).flat_map(|(queue, counts)| {
        states(counts).map(|(state, figure)| ([("entity", queue.name()), ("state", state)], figure))
    });
    let help = "Messages in the queue, by their state.";
    metrics.gauges("parshall_hub_queue_messages", help, messages)?;
    let bytes = queues.iter().zip(&counts).map(|(queue, counts)| ([("entity", queue.name())], counts.bytes));
    let help = "Bytes of messages and dead letters that count towards the size limit.";
    metrics.gauges("parshall_hub_queue_bytes", help, bytes)?;
    for (name, help, figure) in COUNTERS {
        let series = queues
            .iter()
            .zip(&counters)
            .map(|(queue, counters)| ([("entity", queue.name())], figure(counters)));
        metrics.counters(name, help, series)?;
    }
    let name = "parshall_hub_queue_transactions_declared";
    metrics.counter(name, "Transactions that clients have opened.", transactions.declared)?;
    let ends = [
        ("committed", transactions.committed),
        ("rolled-back", transactions.rolled_back),
        ("expired", transactions.expired),
    ];
    let series = ends.map(|(end, figure)| ([("end", end)], figure));
    metrics.counters("parshall_hub_queue_transactions_ended", "Transactions, by their end.", series)
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

/// Which counter a metric shows.
type Figure = fn(&QueueCounters) -> u64;

const COUNTERS: [(&str, &str, Figure); 8] = [
    ("parshall_hub_queue_enqueued", "Messages that became available.", |counters| counters.enqueued),
    ("parshall_hub_queue_delivered", "Deliveries to receivers.", |counters| counters.delivered),
    ("parshall_hub_queue_completed", "Messages completed.", |counters| counters.completed),
    ("parshall_hub_queue_abandoned", "Deliveries abandoned.", |counters| counters.abandoned),
    ("parshall_hub_queue_deferred", "Times that a message was deferred.", |counters| counters.deferred),
    ("parshall_hub_queue_dead_lettered", "Messages dead-lettered.", |counters| counters.dead_lettered),
    ("parshall_hub_queue_expired", "Messages that expired.", |counters| counters.expired),
    ("parshall_hub_queue_lock_expirations", "Message locks that expired.", |counters| {
        counters.lock_expirations
    }),
];

#[cfg(test)]
mod tests {
    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::DescriptorEncoder;
    use prometheus_client::registry::Registry;

    use super::*;
    use partition_log::UnixTime;
    use queue_store::rules::RuleSet;
    use queue_store::{NewMessage, NewSubscription, QueueOptions, TopicOptions};

    const TRANSACTIONS: TransactionCounterValues =
        TransactionCounterValues { declared: 9, committed: 4, rolled_back: 3, expired: 1 };

    #[derive(Debug)]
    struct Queues(Arc<QueueStore>);

    impl Collector for Queues {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            super::encode(&self.0, TRANSACTIONS, &mut MetricsWriter::new(encoder))
        }
    }

    #[test]
    fn queues_and_subscriptions_are_shown_by_name_and_state() {
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
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Queues(store)));
        let text = listen::open_metrics(&registry);
        for line in [
            "# TYPE parshall_hub_queue_messages gauge",
            "parshall_hub_queue_messages{entity=\"jobs\",state=\"available\"} 2",
            "parshall_hub_queue_messages{entity=\"jobs\",state=\"dead-letter\"} 0",
            "parshall_hub_queue_messages{entity=\"news/Subscriptions/all\",state=\"available\"} 0",
            "parshall_hub_queue_bytes{entity=\"jobs\"} 138",
            "parshall_hub_queue_enqueued_total{entity=\"jobs\"} 2",
            "parshall_hub_queue_lock_expirations_total{entity=\"news/Subscriptions/all\"} 0",
            "parshall_hub_queue_transactions_declared_total 9",
            "parshall_hub_queue_transactions_ended_total{end=\"committed\"} 4",
            "parshall_hub_queue_transactions_ended_total{end=\"rolled-back\"} 3",
            "parshall_hub_queue_transactions_ended_total{end=\"expired\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
