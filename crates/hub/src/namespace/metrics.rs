//! The metrics of a namespace: its hubs, its queues, the disk beneath them, and its service profile.

use std::fmt;
use std::sync::Arc;

use listen::MetricsWriter;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::{Hubs, Namespace, Partition, queue_metrics};
use crate::counters::CounterValues;
use crate::memory::{Memory, Purpose};
use crate::profile::ProfileCounterValues;
use partition_log::disk::StorageCounters;
use partition_log::{DroppedRecords, ProducerStats};

/// Collects what passed through a namespace.
#[derive(Debug)]
pub(crate) struct NamespaceMetrics(pub(crate) Arc<Namespace>);

impl Collector for NamespaceMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(namespace) = self;
        let mut metrics = MetricsWriter::new(encoder);
        partitions(&namespace.hubs(), &mut metrics)?;
        if let Some(budget) = namespace.log_budget() {
            metrics.gauge(
                "parshall_hub_log_total_bytes",
                "Bytes in all logs together.",
                budget.used().bytes(),
            )?;
            metrics.gauge(
                "parshall_hub_log_total_limit_bytes",
                "Maximum size of all logs together.",
                budget.total().bytes(),
            )?;
        }
        queue_metrics::encode(namespace.queues(), namespace.transaction_counters().values(), &mut metrics)?;
        shared_memory(namespace.memory(), &mut metrics)?;
        if let Some(profile) = namespace.profile().counters() {
            profile_figures(&profile, &mut metrics)?;
        }
        if let Some(storage) = namespace.storage_counters() {
            storage_figures(&storage, &mut metrics)?;
        }
        Ok(())
    }
}

fn shared_memory(memory: &Memory, metrics: &mut MetricsWriter<'_>) -> fmt::Result {
    let labels = |purpose: &Purpose| [("purpose", purpose.name())];
    let all = Purpose::ALL.iter();
    metrics.gauges(
        "parshall_memory_shared_bytes",
        "Memory that connections hold of a budget that they share.",
        all.clone().map(|purpose| (labels(purpose), memory.usage(*purpose).0)),
    )?;
    metrics.gauges(
        "parshall_memory_shared_limit_bytes",
        "The budget.",
        all.clone().map(|purpose| (labels(purpose), purpose.limit())),
    )?;
    metrics.counters(
        "parshall_memory_shared_refused",
        "Requests, answers and messages that were refused because the budget was used up.",
        all.map(|purpose| (labels(purpose), memory.usage(*purpose).1)),
    )
}

fn partitions(hubs: &Hubs, metrics: &mut MetricsWriter<'_>) -> fmt::Result {
    let partitions: Vec<(&str, String, &Partition)> = hubs
        .iter()
        .flat_map(|hub| {
            hub.partitions().iter().map(|partition| (hub.name(), partition.id().to_string(), &**partition))
        })
        .collect();
    let labels = |hub, id| [("hub", hub), ("partition", id)];
    for (name, help, figure) in COUNTERS {
        let series = partitions.iter().map(|(hub, id, partition)| {
            let values = partition.counters().values();
            (labels(*hub, id.as_str()), figure(&values))
        });
        metrics.counters(name, help, series)?;
    }
    let series = partitions.iter().map(|(hub, id, partition)| {
        let bytes = partition.log().stats().bytes;
        (labels(*hub, id.as_str()), bytes)
    });
    metrics.gauges("parshall_hub_log_bytes", "Bytes in the log.", series)?;
    let dropped = |figure: fn(&DroppedRecords) -> u64| {
        partitions
            .iter()
            .map(move |(hub, id, partition)| (labels(*hub, id.as_str()), figure(&partition.log().dropped())))
    };
    metrics.counters(
        "parshall_hub_events_dropped",
        "Events that retention dropped.",
        dropped(|dropped| dropped.records),
    )?;
    metrics.counters(
        "parshall_hub_events_dropped_unread",
        "Events that retention dropped before any reader had received them since the service started.",
        dropped(|dropped| dropped.unread),
    )?;
    let stats: Vec<ProducerStats> =
        partitions.iter().map(|(_, _, partition)| partition.log().producer_stats()).collect();
    let producers = |figure: fn(&ProducerStats) -> u64| {
        let series = partitions.iter().zip(&stats);
        series.map(move |((hub, id, _), stats)| (labels(*hub, id.as_str()), figure(stats)))
    };
    metrics.gauges(
        "parshall_hub_producers",
        "Producers whose sequence numbers are known.",
        producers(|stats| stats.known),
    )?;
    metrics.counters(
        "parshall_hub_producers_expired",
        "Producers forgotten because they had sent nothing for a day.",
        producers(|stats| stats.expired),
    )?;
    metrics.counters(
        "parshall_hub_producers_evicted",
        "Producers forgotten because there were too many.",
        producers(|stats| stats.evicted),
    )
}

/// Which counter of a partition a metric shows.
type Figure = fn(&CounterValues) -> u64;

const COUNTERS: [(&str, &str, Figure); 10] = [
    ("parshall_hub_events_in", "Events appended.", |values| values.events_in),
    ("parshall_hub_bytes_in", "Bytes appended.", |values| values.bytes_in),
    ("parshall_hub_batches_in", "Batches appended.", |values| values.batches_in),
    (
        "parshall_hub_batches_refused",
        "Batches refused because the log, or all logs together, were full.",
        |values| values.batches_refused,
    ),
    (
        "parshall_hub_batches_throttled",
        "Batches refused because the namespace's quota was exhausted.",
        |values| values.batches_throttled,
    ),
    (
        "parshall_hub_events_duplicate",
        "Events of idempotent producers dropped because they were already stored.",
        |values| values.events_duplicate,
    ),
    (
        "parshall_hub_batches_out_of_order",
        "Batches of idempotent producers rejected because of their sequence numbers.",
        |values| values.batches_out_of_order,
    ),
    (
        "parshall_hub_batches_of_older_epoch",
        "Batches of idempotent producers rejected because of a newer epoch.",
        |values| values.batches_of_older_epoch,
    ),
    ("parshall_hub_events_out", "Events delivered, once per reader.", |values| values.events_out),
    ("parshall_hub_bytes_out", "Bytes delivered, once per reader.", |values| values.bytes_out),
];

fn storage_figures(values: &StorageCounters, metrics: &mut MetricsWriter<'_>) -> fmt::Result {
    metrics.counter(
        "parshall_hub_storage_rounds",
        "Rounds in which the committer wrote something.",
        values.rounds,
    )?;
    metrics.counter(
        "parshall_hub_storage_written_bytes",
        "Bytes written to segment files.",
        values.bytes_written,
    )?;
    metrics.counter("parshall_hub_storage_syncs", "Segment files synced.", values.syncs)?;
    metrics.counter(
        "parshall_hub_storage_failures",
        "Failed attempts to write or sync a partition.",
        values.failures,
    )?;
    metrics.counter("parshall_hub_storage_loads", "Segments read back for a reader.", values.loads)?;
    metrics.counter(
        "parshall_hub_storage_damaged_segments",
        "Segments found damaged when they were read back.",
        values.damaged_segments,
    )?;
    metrics.gauge(
        "parshall_hub_storage_resident_bytes",
        "Memory used by segments that are also on disk.",
        values.resident_bytes,
    )?;
    Ok(())
}

fn profile_figures(values: &ProfileCounterValues, metrics: &mut MetricsWriter<'_>) -> fmt::Result {
    metrics.counter(
        "parshall_hub_throttled_events",
        "Events of batches refused because the quota was exhausted.",
        values.throttled_events,
    )?;
    metrics.counter(
        "parshall_hub_throttled_bytes",
        "Bytes of batches refused because the quota was exhausted.",
        values.throttled_bytes,
    )?;
    metrics.counter(
        "parshall_hub_delivery_pauses",
        "Times that a connection's readers waited because the quota was exhausted.",
        values.delivery_pauses,
    )?;
    metrics.counter(
        "parshall_hub_queued_operations",
        "Sends and blob requests that waited because of the capacity of their entity or container.",
        values.queued_operations,
    )?;
    metrics.counter(
        "parshall_hub_injected_send_failures",
        "Batches refused by injection.",
        values.failed_sends,
    )?;
    metrics.counter(
        "parshall_hub_injected_acknowledgement_failures",
        "Batches stored, but answered with an injected error.",
        values.unacknowledged_sends,
    )?;
    metrics.counter(
        "parshall_hub_injected_detaches",
        "Links detached by injection.",
        values.detached_links,
    )?;
    metrics.counter(
        "parshall_hub_injected_disconnects",
        "Connections broken by injection.",
        values.disconnects,
    )?;
    Ok(())
}
