//! The one list of the metrics' names, with what they count and where it is.
//!
//! A name says what is counted and in which unit; durations are in seconds, as Prometheus has it. Names and labels do not
//! change: dashboards and alerts are built on them.

use hdrhistogram::Histogram;

use super::Metrics;

/// A counter or gauge: its name (Prometheus appends `_total` to counters), its help, and where it is.
type Plain = (&'static str, &'static str, fn(&Metrics) -> u64);

/// Counters by cause: name, help, the label, and for each of its values where the count is.
type ByCause = (&'static str, &'static str, &'static str, &'static [(&'static str, fn(&Metrics) -> f64)]);

/// A distribution: name, help, where it is, how many of its units make one of the name, and the upper bounds of its buckets.
type Distribution = (&'static str, &'static str, fn(&Metrics) -> &Histogram<u64>, f64, &'static [u64]);

/// The counters.
pub const COUNTERS: &[Plain] = &[
    ("parshall_relay_received_events", "Events received from the source", |metrics| metrics.received_events),
    ("parshall_relay_received_batches", "Batches received from the source", |metrics| {
        metrics.received_batches
    }),
    (
        "parshall_relay_undated_events",
        "Events that bear no date of their append, or one ahead of this machine's clock",
        |metrics| metrics.undated_events,
    ),
    ("parshall_relay_received_message_bytes", "Message bytes received from the source", |metrics| {
        metrics.received_bytes
    }),
    ("parshall_relay_forwarded_events", "Events accepted by a destination", |metrics| {
        metrics.forwarded_events
    }),
    ("parshall_relay_forwarded_message_bytes", "Message bytes accepted by a destination", |metrics| {
        metrics.forwarded_bytes
    }),
    ("parshall_relay_completed_batches", "Batches of which every event was accepted", |metrics| {
        metrics.completed_batches
    }),
    (
        "parshall_relay_completed_events",
        "Events that the watermarks have passed, or messages confirmed to be completed",
        |metrics| metrics.completed_events,
    ),
    (
        "parshall_relay_missed_events",
        "Events that the source no longer had when they were to be read",
        |metrics| metrics.missed_events,
    ),
    ("parshall_relay_poison_events", "Events that a destination refused for good", |metrics| {
        metrics.poison_events
    }),
    (
        "parshall_relay_restarted_partitions",
        "Partitions whose events the source has begun to number again",
        |metrics| metrics.restarted_partitions,
    ),
    (
        "parshall_relay_redelivered_events",
        "Events that the service said it had delivered before",
        |metrics| metrics.redelivered_events,
    ),
    (
        "parshall_relay_doubtful_events",
        "Events of sends that timed out or broke off, accepted or not",
        |metrics| metrics.doubtful_events,
    ),
    ("parshall_relay_sends", "Sends handed to the sink, retries included", |metrics| metrics.sends),
    ("parshall_relay_send_retries", "Sends handed to the sink again", |metrics| metrics.retries),
    (
        "parshall_relay_failed_sends",
        "Sends that ended with an error, throttled and timed out ones included",
        |metrics| metrics.failed_sends,
    ),
    ("parshall_relay_throttled_sends", "Sends that the service asked to slow down", |metrics| {
        metrics.throttled_sends
    }),
    ("parshall_relay_timed_out_sends", "Sends without an outcome in time", |metrics| metrics.timed_out_sends),
    ("parshall_relay_late_outcomes", "Outcomes of sends that had been given up", |metrics| {
        metrics.late_outcomes
    }),
    ("parshall_relay_split_sends", "Groups sent in parts because of their size", |metrics| {
        metrics.split_sends
    }),
    ("parshall_relay_sink_busy", "Times that the sink was busy", |metrics| metrics.busy_sink),
    ("parshall_relay_injected_failures", "Sends that failed on purpose", |metrics| metrics.injected_failures),
    (
        "parshall_relay_failed_batches",
        "Batches that failed: their partition stopped, or messages of them were abandoned",
        |metrics| metrics.failed_batches,
    ),
    ("parshall_relay_closed_partitions", "Partitions closed by the service", |metrics| {
        metrics.closed_partitions
    }),
    (
        "parshall_relay_throttled_partitions",
        "Partitions closed by the service because a quota was used up",
        |metrics| metrics.throttled_partitions,
    ),
    ("parshall_relay_opened_partitions", "Partitions opened, restarts included", |metrics| {
        metrics.opened_partitions
    }),
    ("parshall_relay_checkpoints", "Checkpoints written", |metrics| metrics.checkpoints),
    ("parshall_relay_failed_checkpoints", "Checkpoints that could not be written", |metrics| {
        metrics.failed_checkpoints
    }),
    (
        "parshall_relay_refused_checkpoints",
        "Checkpoints refused because another relay had written",
        |metrics| metrics.refused_checkpoints,
    ),
    ("parshall_relay_ownership_cycles", "Rounds of renewing and balancing claims", |metrics| {
        metrics.ownership_cycles
    }),
    ("parshall_relay_claimed_partitions", "Partitions claimed, stolen ones included", |metrics| {
        metrics.claimed_partitions
    }),
    (
        "parshall_relay_stolen_partitions",
        "Partitions taken from a relay with more than its share",
        |metrics| metrics.stolen_partitions,
    ),
    (
        "parshall_relay_lost_partitions",
        "Partitions lost to another relay or not renewed in time",
        |metrics| metrics.lost_partitions,
    ),
    ("parshall_relay_returned_partitions", "Partitions given back", |metrics| metrics.returned_partitions),
    ("parshall_relay_failed_renewals", "Claims that could not be renewed", |metrics| metrics.failed_renewals),
];

/// What is counted by cause.
pub const CAUSES: &[ByCause] = &[
    (
        "parshall_relay_partition_openings",
        "Partitions opened, by reason",
        "reason",
        &[
            ("start", |metrics| metrics.opened_at_start as f64),
            ("rest", |metrics| metrics.opened_after_rest as f64),
            ("claim", |metrics| metrics.opened_after_claim as f64),
        ],
    ),
    (
        "parshall_relay_partition_closings",
        "Partitions that ceased to take batches, by reason",
        "reason",
        &[
            ("batch", |metrics| metrics.closed_after_batch as f64),
            ("checkpoint", |metrics| metrics.closed_after_checkpoint as f64),
            ("service", |metrics| metrics.closed_by_service as f64),
            ("loss", |metrics| metrics.closed_after_loss as f64),
            ("fence", |metrics| metrics.closed_by_fence as f64),
            ("stop", |metrics| metrics.closed_at_stop as f64),
        ],
    ),
    (
        "parshall_relay_ownership_gains",
        "Partitions claimed, by why they could be",
        "reason",
        &[
            ("free", |metrics| metrics.claimed_free_partitions as f64),
            ("expired", |metrics| metrics.claimed_expired_partitions as f64),
            ("own", |metrics| metrics.claimed_own_partitions as f64),
            ("stolen", |metrics| metrics.stolen_partitions as f64),
        ],
    ),
    (
        "parshall_relay_ownership_losses",
        "Partitions lost, by how",
        "reason",
        &[
            ("taken", |metrics| metrics.taken_partitions as f64),
            ("expired", |metrics| metrics.expired_partitions as f64),
        ],
    ),
    (
        "parshall_relay_settled_messages",
        "Messages that were settled, by what became of them",
        "result",
        &[
            ("completed", |metrics| metrics.confirmed_events as f64),
            ("abandoned", |metrics| metrics.abandoned_events as f64),
            ("released", |metrics| metrics.released_events as f64),
            ("dead-lettered", |metrics| metrics.dead_lettered_events as f64),
            ("lock-lost", |metrics| metrics.lock_lost_events as f64),
            ("unconfirmed", |metrics| metrics.unsettled_events as f64),
        ],
    ),
    (
        "parshall_relay_lock_renewals",
        "Locks of messages renewed, by whether they were",
        "result",
        &[
            ("renewed", |metrics| metrics.lock_renewals as f64),
            ("failed", |metrics| metrics.failed_lock_renewals as f64),
        ],
    ),
    (
        "parshall_relay_waiting_seconds",
        "How long the loop slept, by what it waited for",
        "for",
        &[
            ("source", |metrics| seconds(metrics.waited_for_source_ns)),
            ("sends", |metrics| seconds(metrics.waited_for_sends_ns)),
            ("destination", |metrics| seconds(metrics.waited_for_destination_ns)),
            ("memory", |metrics| seconds(metrics.waited_for_memory_ns)),
            ("partitions", |metrics| seconds(metrics.waited_for_partitions_ns)),
        ],
    ),
];

/// Settings that others are compared with, in microseconds.
pub const INTERVALS: &[Plain] = &[
    (
        "parshall_relay_ownership_renew_seconds",
        "How often claims are renewed; 0 where partitions are not shared",
        |metrics| metrics.ownership_renew_us,
    ),
    (
        "parshall_relay_ownership_expire_seconds",
        "When a claim that is not renewed expires; 0 where partitions are not shared",
        |metrics| metrics.ownership_expire_us,
    ),
];

/// The gauges.
pub const GAUGES: &[Plain] = &[
    ("parshall_relay_batches_in_flight", "Batches under way", |metrics| metrics.batches_in_flight),
    ("parshall_relay_held_message_bytes", "Message bytes held", |metrics| metrics.held_bytes),
    ("parshall_relay_owned_partitions", "Partitions owned", |metrics| metrics.owned_partitions),
    ("parshall_relay_open_partitions", "Partitions open", |metrics| metrics.open_partitions),
];

/// What the relay is built from.
pub const BUILD_INFO: &str = "parshall_build_info";

/// Whether there is a connection, by `side`.
pub const CONNECTED: &str = "parshall_relay_connected";

/// Whether the relay is ready.
pub const READY: &str = "parshall_relay_ready";

/// The last error by `place`, with its `class` and `condition`.
pub const LAST_ERROR: &str = "parshall_relay_last_error_timestamp_seconds";

/// How far each `partition` is done.
pub const POSITION: &str = "parshall_relay_position_sequence_number";

/// How far each `partition` reaches.
pub const LAST_ENQUEUED: &str = "parshall_relay_last_enqueued_sequence_number";

/// How much of each `partition` is not done, in events.
pub const LAG_EVENTS: &str = "parshall_relay_lag_events";

/// How old the oldest event of each `partition` is that is not done.
pub const LAG_SECONDS: &str = "parshall_relay_lag_seconds";

/// The gauges of the relay's health: name and help.
pub const HEALTH: &[(&str, &str)] = &[
    (BUILD_INFO, "What the relay is built from, which is always 1"),
    (CONNECTED, "Whether there is a connection to the source and to the sink"),
    (READY, "Whether the relay is ready, as /ready says"),
    (LAST_ERROR, "When each place had its last error, in seconds since the Unix epoch"),
    (POSITION, "The sequence number up to which every event of the partition is done"),
    (LAST_ENQUEUED, "The sequence number of the newest event of the partition"),
    (LAG_EVENTS, "Events of the partition that are not done"),
    (LAG_SECONDS, "How long ago the oldest event of the partition was appended that is not done"),
];

/// The distributions.
pub const DISTRIBUTIONS: &[Distribution] = &[
    (
        "parshall_relay_source_age_seconds",
        "How long ago the service had appended an event when its batch was received",
        |metrics| &metrics.source_age_us,
        1e6,
        AGES_US,
    ),
    (
        "parshall_relay_queue_seconds",
        "How long a batch waited for its turn after it was received",
        |metrics| &metrics.queue_us,
        1e6,
        DURATIONS_US,
    ),
    (
        "parshall_relay_process_seconds",
        "From taking a batch up to the acceptance of its last event",
        |metrics| &metrics.process_us,
        1e6,
        DURATIONS_US,
    ),
    (
        "parshall_relay_batch_send_seconds",
        "From the first send of a batch to its last outcome",
        |metrics| &metrics.batch_send_us,
        1e6,
        DURATIONS_US,
    ),
    (
        "parshall_relay_send_seconds",
        "From handing one send to the sink to its acceptance",
        |metrics| &metrics.send_us,
        1e6,
        DURATIONS_US,
    ),
    (
        "parshall_relay_failed_send_seconds",
        "From handing one send to the sink to its failure",
        |metrics| &metrics.failed_send_us,
        1e6,
        DURATIONS_US,
    ),
    (
        "parshall_relay_checkpoint_seconds",
        "How long writing a checkpoint took",
        |metrics| &metrics.checkpoint_us,
        1e6,
        DURATIONS_US,
    ),
    (
        "parshall_relay_failed_checkpoint_seconds",
        "After what time the writing of a checkpoint failed",
        |metrics| &metrics.failed_checkpoint_us,
        1e6,
        DURATIONS_US,
    ),
    (
        "parshall_relay_settle_seconds",
        "From telling the service what is to become of a message to its answer",
        |metrics| &metrics.settle_us,
        1e6,
        DURATIONS_US,
    ),
    (
        "parshall_relay_vacant_seconds",
        "From the answer to one settlement until the next message is in work in its place",
        |metrics| &metrics.vacant_us,
        1e6,
        DURATIONS_US,
    ),
    (
        "parshall_relay_ownership_cycle_seconds",
        "From reading the claims of all relays to the renewal of one's own",
        |metrics| &metrics.ownership_cycle_us,
        1e6,
        DURATIONS_US,
    ),
    (
        "parshall_relay_batch_events",
        "Events per batch received",
        |metrics| &metrics.batch_events,
        1.0,
        COUNTS,
    ),
    (
        "parshall_relay_batch_message_bytes",
        "Message bytes per batch received",
        |metrics| &metrics.batch_bytes,
        1.0,
        BYTES,
    ),
    ("parshall_relay_send_events", "Events per accepted send", |metrics| &metrics.send_events, 1.0, COUNTS),
    (
        "parshall_relay_send_message_bytes",
        "Message bytes per accepted send",
        |metrics| &metrics.send_bytes,
        1.0,
        BYTES,
    ),
];

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// From a file write to a send that waits for its time-out, in microseconds.
const DURATIONS_US: &[u64] = &[
    5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// From what a service's clock can tell apart to a backlog of a day, in microseconds.
const AGES_US: &[u64] = &[
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    60_000_000,
    600_000_000,
    3_600_000_000,
    86_400_000_000,
];

const COUNTS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096];

/// From one short event to the largest batch that a service takes.
const BYTES: &[u64] = &[64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 524_288, 1_048_576, 2_097_152];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once_and_says_its_unit() {
        let plain = [COUNTERS, INTERVALS, GAUGES];
        let plain = plain.into_iter().flatten().map(|metric| metric.0);
        let mut names: Vec<_> = plain
            .chain(DISTRIBUTIONS.iter().map(|metric| metric.0))
            .chain(CAUSES.iter().map(|metric| metric.0))
            .chain(HEALTH.iter().map(|metric| metric.0))
            .filter(|name| *name != BUILD_INFO)
            .collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.iter().all(|name| name.starts_with("parshall_relay_")));
        let timed = DISTRIBUTIONS.iter().filter(|metric| metric.3 > 1.0);
        assert!(timed.map(|metric| metric.0).all(|name| name.ends_with("_seconds")));
    }

    /// The rows of the relay in the document of metrics.
    #[test]
    fn every_metric_is_documented_and_nothing_else_is() {
        let document = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md"));
        let relay = document.split_once("## Relay").expect("the document has a part for the relay").1;
        let mut documented: Vec<&str> = relay
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split(['`', '{']).next())
            .filter(|name| !name.starts_with('/'))
            .collect();
        let counters = COUNTERS.iter().map(|metric| metric.0);
        let counters = counters.chain(CAUSES.iter().map(|metric| metric.0));
        let counters = counters.map(|name| format!("{name}_total"));
        let others = [INTERVALS, GAUGES].into_iter().flatten();
        let others = others.map(|metric| metric.0);
        let others = others.chain(DISTRIBUTIONS.iter().map(|metric| metric.0));
        let mut names: Vec<String> = counters.chain(others.map(str::to_owned)).collect();
        names.extend(HEALTH.iter().map(|metric| metric.0.to_owned()));
        names.sort_unstable();
        documented.sort_unstable();
        assert_eq!(documented, names);
    }
}
