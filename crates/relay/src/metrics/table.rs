//! The one table of the relay's metrics: the field that counts, the name that users read, and what it says.
//!
//! A name says what is counted and in which unit; durations are in seconds, as Prometheus has it. Names and labels do not
//! change: dashboards and alerts are built on them. A metric that is added here is written to `/metrics`, and a test asks for
//! its row in `docs/metrics.md`.

use std::time::Instant;

use hdrhistogram::Histogram;

use super::{durations, sizes};
use crate::health::Health;

/// A counter or gauge: its name (Prometheus appends `_total` to counters), its help, and where it is.
type Plain = (&'static str, &'static str, fn(&Metrics) -> u64);

/// Counters by cause: name, help, the label, and for each of its values where the count is.
type ByCause = (&'static str, &'static str, &'static str, &'static [(&'static str, fn(&Metrics) -> f64)]);

/// A distribution: name, help, where it is, how many of its units make one of the name, and the upper bounds of its buckets.
type Distribution = (&'static str, &'static str, fn(&Metrics) -> &Histogram<u64>, f64, &'static [u64]);

/// Makes [`Metrics`] and the lists of what is written of it, in the order of the rows.
macro_rules! metrics {
    (
        counters { $($(#[$c_doc:meta])* $c:ident: $c_name:literal = $c_help:literal;)* }
        by_cause { $(
            $f_name:literal = $f_help:literal, $f_label:literal, $f_unit:literal {
                $($(#[$f_doc:meta])* $f:ident: $f_value:literal;)*
                $(+ $also:ident: $also_value:literal;)*
            }
        )* }
        intervals_us { $($i:ident: $i_name:literal = $i_help:literal;)* }
        gauges { $($g:ident: $g_name:literal = $g_help:literal;)* }
        distributions { $(
            $(#[$d_doc:meta])* $d:ident: $d_name:literal = $d_help:literal, $d_new:expr, $d_unit:literal, $d_bounds:expr;
        )* }
        others { $($(#[$o_doc:meta])* $o:ident: $o_type:ty = $o_new:expr;)* }
    ) => {
        /// Counters, gauges and distributions of one relay since it was made. What `_us` and `_ns` stand for is exact to
        /// that unit.
        #[derive(Clone, Debug)]
        pub struct Metrics {
            $(#[doc = $c_help] #[doc = ""] $(#[$c_doc])* pub $c: u64,)*
            $($($(#[$f_doc])* pub $f: u64,)*)*
            $(#[doc = $i_help] pub $i: u64,)*
            $(#[doc = $g_help] pub $g: u64,)*
            $(#[doc = $d_help] #[doc = ""] $(#[$d_doc])* pub $d: Histogram<u64>,)*
            $($(#[$o_doc])* pub $o: $o_type,)*
        }

        impl Metrics {
            pub(crate) fn new() -> Self {
                Self {
                    $($c: 0,)*
                    $($($f: 0,)*)*
                    $($i: 0,)*
                    $($g: 0,)*
                    $($d: $d_new,)*
                    $($o: $o_new,)*
                }
            }
        }

        /// The counters.
        pub(super) const COUNTERS: &[Plain] = &[$(($c_name, $c_help, |metrics| metrics.$c),)*];

        /// What is counted by cause.
        pub(super) const CAUSES: &[ByCause] = &[$((
            $f_name,
            $f_help,
            $f_label,
            &[
                $(($f_value, |metrics| metrics.$f as f64 / $f_unit),)*
                $(($also_value, |metrics| metrics.$also as f64 / $f_unit),)*
            ],
        ),)*];

        /// Settings that others are compared with, in microseconds.
        pub(super) const INTERVALS: &[Plain] = &[$(($i_name, $i_help, |metrics| metrics.$i),)*];

        /// The gauges.
        pub(super) const GAUGES: &[Plain] = &[$(($g_name, $g_help, |metrics| metrics.$g),)*];

        /// The distributions.
        pub(super) const DISTRIBUTIONS: &[Distribution] =
            &[$(($d_name, $d_help, |metrics| &metrics.$d, $d_unit, $d_bounds),)*];
    };
}

metrics! {
    counters {
        received_events: "parshall_relay_received_events" = "Events received from the source";
        received_batches: "parshall_relay_received_batches" = "Batches received from the source";
        undated_events: "parshall_relay_undated_events"
            = "Events without an append time, or with one ahead of this machine's clock";
        received_bytes: "parshall_relay_received_message_bytes" = "Message bytes received from the source";
        /// Events that a destination has accepted; one that is sent again after a failure counts again.
        forwarded_events: "parshall_relay_forwarded_events" = "Events accepted by a destination";
        forwarded_bytes: "parshall_relay_forwarded_message_bytes" = "Message bytes accepted by a destination";
        completed_batches: "parshall_relay_completed_batches" = "Batches whose events were all accepted";
        /// Events that the watermarks have passed, where one that is received again counts once; of a source that
        /// settles, [`confirmed_events`](Self::confirmed_events).
        completed_events: "parshall_relay_completed_events"
            = "Events below the watermarks, or messages whose completion was confirmed";
        missed_events: "parshall_relay_missed_events"
            = "Events that the source had already removed when they were due to be read";
        /// Events that a destination refused permanently, or that a transform could not be applied to; one that is refused again counts
        /// once.
        poison_events: "parshall_relay_poison_events"
            = "Events that a destination refused permanently, or for which an expression failed, and unreadable batches";
        /// Batches of the source that can't be read, wholly or from a record on; one that is read again counts once.
        unreadable_batches: "parshall_relay_unreadable_batches" = "Batches of the source that can't be read";
        unreadable_records: "parshall_relay_unreadable_records"
            = "Records in unreadable batches, as far as these say, that can't be read";
        restarted_partitions: "parshall_relay_restarted_partitions"
            = "Partitions whose source restarted the numbering of events";
        redelivered_events: "parshall_relay_redelivered_events"
            = "Events that the service marked as redelivered";
        /// Events of sends that may have been accepted without an outcome: those that timed out, broke off, or
        /// were under way when their batch was abandoned.
        doubtful_events: "parshall_relay_doubtful_events"
            = "Events of sends that timed out or were interrupted; they may have been accepted";
        sends: "parshall_relay_sends" = "Sends passed to the sink, including retries";
        retries: "parshall_relay_send_retries" = "Sends passed to the sink again";
        failed_sends: "parshall_relay_failed_sends"
            = "Sends that ended with an error, including throttled and timed-out ones";
        throttled_sends: "parshall_relay_throttled_sends" = "Sends for which the service asked to slow down";
        timed_out_sends: "parshall_relay_timed_out_sends" = "Sends without an outcome within try_timeout";
        late_outcomes: "parshall_relay_late_outcomes" = "Outcomes that arrived after their send had been given up";
        split_sends: "parshall_relay_split_sends" = "Groups split into several sends because of their size";
        busy_sink: "parshall_relay_sink_busy" = "Times that the sink was busy";
        injected_failures: "parshall_relay_injected_failures" = "Sends that failed by injection";
        failed_batches: "parshall_relay_failed_batches"
            = "Batches that failed: their partition stopped, or some of their messages were abandoned";
        closed_partitions: "parshall_relay_closed_partitions" = "Partitions closed by the service";
        throttled_partitions: "parshall_relay_throttled_partitions"
            = "Partitions closed by the service because a quota was exhausted";
        opened_partitions: "parshall_relay_opened_partitions" = "Partitions opened, including restarts";
        checkpoints: "parshall_relay_checkpoints" = "Checkpoints written";
        failed_checkpoints: "parshall_relay_failed_checkpoints" = "Checkpoints that could not be written";
        refused_checkpoints: "parshall_relay_refused_checkpoints"
            = "Checkpoints refused because another relay had written one";
        ownership_cycles: "parshall_relay_ownership_cycles" = "Rounds of renewing and balancing claims";
        claimed_partitions: "parshall_relay_claimed_partitions" = "Partitions claimed, including stolen ones";
        stolen_partitions: "parshall_relay_stolen_partitions"
            = "Partitions taken from a relay with more than its share";
        asked_partitions: "parshall_relay_asked_partitions"
            = "Partitions that another relay was asked to give back";
        lost_partitions: "parshall_relay_lost_partitions"
            = "Partitions lost to another relay, or not renewed in time";
        returned_partitions: "parshall_relay_returned_partitions" = "Partitions released";
        failed_renewals: "parshall_relay_failed_renewals" = "Claims that could not be renewed";
        group_generations: "parshall_relay_group_generations"
            = "Generations of the consumer group that the relay has been a member of";
    }
    by_cause {
        "parshall_relay_partition_openings" = "Partitions opened, by reason", "reason", 1.0 {
            /// Partitions that were opened when the relay began.
            opened_at_start: "start";
            /// Partitions that were opened again after a rest.
            opened_after_rest: "rest";
            /// Partitions that were opened because they had been claimed.
            opened_after_claim: "claim";
        }
        "parshall_relay_partition_closings" = "Partitions that stopped accepting batches, by reason", "reason", 1.0 {
            /// Partitions that were stopped because a batch had failed.
            closed_after_batch: "batch";
            /// Partitions that were stopped because their checkpoint could not be written.
            closed_after_checkpoint: "checkpoint";
            /// Partitions that were stopped because the service had closed them.
            closed_by_service: "service";
            /// Partitions that were stopped because they were lost.
            closed_after_loss: "loss";
            /// Partitions that were opened too early: their last owner wrote once more, so that they begin elsewhere.
            closed_by_fence: "fence";
            /// Partitions that were closed when the relay stopped.
            closed_at_stop: "stop";
        }
        "parshall_relay_ownership_gains" = "Partitions claimed, by their state before the claim", "reason", 1.0 {
            /// Partitions that were claimed because they had no owner.
            claimed_free_partitions: "free";
            /// Partitions that were claimed because their owner had not renewed its claim.
            claimed_expired_partitions: "expired";
            /// Partitions that were claimed because they bore this relay's name already.
            claimed_own_partitions: "own";
            /// Partitions that were assigned to this relay by its consumer group.
            claimed_assigned_partitions: "assigned";
            + stolen_partitions: "stolen";
        }
        "parshall_relay_ownership_losses" = "Partitions lost, by reason", "reason", 1.0 {
            /// Those of them that another relay has taken.
            taken_partitions: "taken";
            /// Those of them whose claim was not renewed in time.
            expired_partitions: "expired";
        }
        "parshall_relay_settled_messages" = "Settled messages, by outcome", "result", 1.0 {
            /// Messages of which the service has confirmed that they are completed.
            confirmed_events: "completed";
            /// Messages of which the service has confirmed that they are abandoned: it delivers them again.
            abandoned_events: "abandoned";
            /// Messages that were given back as if they had not been delivered, and the service has confirmed it.
            released_events: "released";
            /// Messages that are in the dead-letter queue now: they could not be read, or the service said so. Events
            /// that were put into the file of dead letters.
            dead_lettered_events: "dead-lettered";
            /// Messages whose lock had expired when they were settled: they come again.
            lock_lost_events: "lock-lost";
            /// Messages whose settlement broke off or was refused: they may come again.
            unsettled_events: "unconfirmed";
        }
        "parshall_relay_lock_renewals" = "Renewals of message locks, by result", "result", 1.0 {
            /// Locks of messages that were renewed.
            lock_renewals: "renewed";
            /// Locks of messages that could not be renewed.
            failed_lock_renewals: "failed";
        }
        "parshall_relay_waiting_seconds" = "Time that the loop slept, by what it waited for", "for", 1e9 {
            /// Nanoseconds in which the loop slept because no batch had come.
            waited_for_source_ns: "source";
            /// Nanoseconds in which it slept because as much was under way as may be: every open partition had
            /// fetched as many events as it may hold unreleased, or as many batches.
            waited_for_sends_ns: "sends";
            /// Nanoseconds in which it slept because the sink was busy.
            waited_for_destination_ns: "destination";
            /// Nanoseconds in which it slept because it held as many bytes as it may.
            waited_for_memory_ns: "memory";
            /// Nanoseconds in which it slept because no partition was open.
            waited_for_partitions_ns: "partitions";
        }
    }
    intervals_us {
        ownership_renew_us: "parshall_relay_ownership_renew_seconds"
            = "Interval between renewals of claims; 0 if partitions are not shared";
        ownership_expire_us: "parshall_relay_ownership_expire_seconds"
            = "Time after which a claim expires without renewal; 0 if partitions are not shared";
    }
    gauges {
        batches_in_flight: "parshall_relay_batches_in_flight" = "Batches in flight";
        events_limit: "parshall_relay_events_limit" = "Events that may be in progress at once; 0 if there is no limit";
        held_bytes: "parshall_relay_held_message_bytes" = "Message bytes held in memory";
        held_bytes_maximum: "parshall_relay_held_message_bytes_maximum" = "Message bytes that may be held in memory";
        source_partitions: "parshall_relay_source_partitions"
            = "Partitions that the relay shares with others or has alone";
        owned_partitions: "parshall_relay_owned_partitions" = "Partitions owned";
        open_partitions: "parshall_relay_open_partitions" = "Partitions open";
        uncarried_partitions: "parshall_relay_uncarried_partitions"
            = "Partitions added to the source since the start, which are carried after a restart";
    }
    distributions {
        /// How long ago the service had appended each event when its batch was received, in microseconds: by the
        /// service's clock, which has milliseconds, and this machine's. That a batch waits to be full is part of
        /// it.
        source_age_us: "parshall_relay_source_age_seconds"
            = "Age of an event when its batch was received, since its append by the service", sizes(), 1e6, AGES_US;
        queue_us: "parshall_relay_queue_seconds"
            = "Time that a batch waited between its receipt and its processing", durations(), 1e6, DURATIONS_US;
        process_us: "parshall_relay_process_seconds"
            = "Time from the start of a batch's processing until the acceptance of its last event", durations(), 1e6, DURATIONS_US;
        batch_send_us: "parshall_relay_batch_send_seconds"
            = "Time from the first send of a batch to its last outcome", durations(), 1e6, DURATIONS_US;
        /// Microseconds from handing one send to the sink to its acceptance. A send that is tried again begins again.
        send_us: "parshall_relay_send_seconds"
            = "Time from passing a send to the sink until its acceptance", durations(), 1e6, DURATIONS_US;
        failed_send_us: "parshall_relay_failed_send_seconds"
            = "Time from passing a send to the sink until its failure", sizes(), 1e6, DURATIONS_US;
        checkpoint_us: "parshall_relay_checkpoint_seconds"
            = "Duration of a checkpoint write", durations(), 1e6, DURATIONS_US;
        failed_checkpoint_us: "parshall_relay_failed_checkpoint_seconds"
            = "Duration of a checkpoint write that failed", sizes(), 1e6, DURATIONS_US;
        settle_us: "parshall_relay_settle_seconds"
            = "Time from sending a settlement to the service until its reply", durations(), 1e6, DURATIONS_US;
        /// Microseconds from the answer to one settlement until the next message took the place among those in work.
        vacant_us: "parshall_relay_vacant_seconds"
            = "Time from the reply to a settlement until the next message is processed in its place", durations(), 1e6, DURATIONS_US;
        ownership_cycle_us: "parshall_relay_ownership_cycle_seconds"
            = "Time from reading the claims of all relays until the renewal of the relay's own", sizes(), 1e6, DURATIONS_US;
        batch_events: "parshall_relay_batch_events"
            = "Events per batch received", sizes(), 1.0, COUNTS;
        batch_bytes: "parshall_relay_batch_message_bytes"
            = "Message bytes per batch received", sizes(), 1.0, BYTES;
        send_events: "parshall_relay_send_events"
            = "Events per accepted send", sizes(), 1.0, COUNTS;
        send_bytes: "parshall_relay_send_message_bytes"
            = "Message bytes per accepted send", sizes(), 1.0, BYTES;
    }
    others {
        /// Whether the relay carries events at the moment, and how far it is.
        health: Health = Health::default();
        /// Of several sinks, what [`send_us`](Self::send_us) is for each; empty if there is one.
        sink_send_us: Vec<Histogram<u64>> = Vec::new();
        /// Of each sink, the events that it did not get because of a transform; one that is received again counts again. Those of
        /// which a transform could not say it are among the poison events instead.
        filtered_events: Vec<u64> = Vec::new();
        /// When a checkpoint was written last.
        last_checkpoint_at: Option<Instant> = None;
        /// When the first send was accepted.
        first_forwarded_at: Option<Instant> = None;
        /// When the last one was.
        last_forwarded_at: Option<Instant> = None;
    }
}

/// [`Metrics::filtered_events`], by `sink`.
pub(super) const FILTERED: (&str, &str) = (
    "parshall_relay_filtered_events",
    "Events that a sink did not get because of a filter or of its condition",
);

/// [`Metrics::send_us`] of each `sink`.
pub(super) const SINK_SEND: (&str, &str) =
    ("parshall_relay_sink_send_seconds", "Time from passing a send to one of the sinks until its acceptance");

/// Whether there is a connection, by `side`.
pub(super) const CONNECTED: &str = "parshall_relay_connected";

/// Whether the relay is ready.
pub(super) const READY: &str = "parshall_relay_ready";

/// The last error by `place`, with its `class` and `condition`.
pub(super) const LAST_ERROR: &str = "parshall_relay_last_error_timestamp_seconds";

/// When a checkpoint was written last.
pub(super) const LAST_CHECKPOINT: &str = "parshall_relay_last_checkpoint_timestamp_seconds";

/// When the position of each `partition` moved last.
pub(super) const POSITION_MOVED: &str = "parshall_relay_position_timestamp_seconds";

/// How far each `partition` is done.
pub(super) const POSITION: &str = "parshall_relay_position_sequence_number";

/// How far each `partition` reaches.
pub(super) const LAST_ENQUEUED: &str = "parshall_relay_last_enqueued_sequence_number";

/// How much of each `partition` is not done, in events.
pub(super) const LAG_EVENTS: &str = "parshall_relay_lag_events";

/// How old the oldest event of each `partition` is that is not done.
pub(super) const LAG_SECONDS: &str = "parshall_relay_lag_seconds";

/// The gauges of the relay's health: name and help.
pub(super) const HEALTH: &[(&str, &str)] = &[
    (CONNECTED, "Whether the source and the sink are connected"),
    (READY, "Whether the relay is ready, as /ready says"),
    (LAST_ERROR, "Time of the last error in each place, in seconds since the Unix epoch"),
    (LAST_CHECKPOINT, "Time at which a checkpoint was written last, in seconds since the Unix epoch"),
    (
        POSITION_MOVED,
        "Time at which the position of the partition moved last, in seconds since the Unix epoch",
    ),
    (POSITION, "The sequence number up to which every event of the partition is done"),
    (LAST_ENQUEUED, "The sequence number of the newest event of the partition"),
    (LAG_EVENTS, "Events of the partition that are not done"),
    (LAG_SECONDS, "Age of the oldest event of the partition that is not done, since its append"),
];

/// From a file write to a send that waits for its time-out, in microseconds.
pub(super) const DURATIONS_US: &[u64] = &[
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
            .chain([SINK_SEND.0, FILTERED.0])
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
        names.push(SINK_SEND.0.to_owned());
        names.push(format!("{}_total", FILTERED.0));
        names.sort_unstable();
        documented.sort_unstable();
        assert_eq!(documented, names);
    }
}
