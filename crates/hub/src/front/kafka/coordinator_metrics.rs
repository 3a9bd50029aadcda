//! The metrics of groups and transactions.

use std::fmt;

use listen::MetricsWriter;
use prometheus_client::encoding::EncodeLabelSet;

use crate::namespace::Namespace;
use crate::service::Coordinators;
use crate::transactions::TransactionCounts;

/// Which group, and where.
#[derive(Clone, Debug, EncodeLabelSet)]
struct Place {
    group: String,
    topic: String,
    partition: i32,
}

/// Writes how far groups have come and how transactions end.
pub(super) fn encode(
    metrics: &mut MetricsWriter<'_>,
    namespace: &Namespace,
    coordinators: &Coordinators,
) -> fmt::Result {
    let groups = coordinators.groups.counts();
    metrics.gauge("parshall_kafka_groups", "Consumer groups of Kafka.", groups.groups)?;
    metrics.gauge("parshall_kafka_group_members", "Members of these groups.", groups.members)?;
    let lags = coordinators.groups.some_offsets(LAGS_MAX).into_iter().filter_map(|offset| {
        let (group, topic, partition, offset) = offset;
        let hub = namespace.hub(&topic)?;
        let log = hub.partitions().get(usize::try_from(partition).ok()?)?.log();
        let end = log.end().next_sequence_number.cast_signed();
        let lag = end.saturating_sub(offset).max(0);
        Some((Place { group, topic, partition }, lag))
    });
    metrics.gauges(
        "parshall_kafka_group_lag",
        "Events between the offset that a consumer group has committed and the end of the partition.",
        lags,
    )?;
    metrics.counter(
        "parshall_kafka_groups_refused",
        "Requests refused because they would create more consumer groups than there may be.",
        groups.refused,
    )?;
    let TransactionCounts { ids, open, totals } = coordinators.transactions.counts();
    metrics.gauge("parshall_kafka_transactional_ids", "Transactional ids.", ids)?;
    metrics.counter(
        "parshall_kafka_transactional_ids_forgotten",
        "Idle transactional ids forgotten to make room for new ones.",
        totals.forgotten,
    )?;
    metrics.counter(
        "parshall_kafka_transactional_ids_refused",
        "New transactional ids refused because all that there may be are in use.",
        totals.refused,
    )?;
    metrics.gauge("parshall_kafka_transactions_open", "Transactions that are open.", open)?;
    metrics.counter("parshall_kafka_transactions_committed", "Transactions committed.", totals.committed)?;
    metrics.counter("parshall_kafka_transactions_aborted", "Transactions aborted.", totals.aborted)?;
    metrics.counter(
        "parshall_kafka_transactions_timed_out",
        "Transactions aborted because their time was over.",
        totals.timed_out,
    )?;
    metrics.gauge(
        "parshall_kafka_journal_bytes",
        "Bytes of the journal of offsets and transactions.",
        coordinators.journal.bytes(),
    )
}

/// Series of one kind that a scrape gets: more would cost whoever stores them more than they tell.
const LAGS_MAX: usize = 2_000;
