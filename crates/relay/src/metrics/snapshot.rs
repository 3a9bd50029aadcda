//! Metrics on their way to another process: one JSON object, all numbers since the start of the relay.
//!
//! Rates and the distribution of a phase come from two snapshots, the later minus the earlier; HdrHistograms can be
//! subtracted without loss.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use serde::{Deserialize, Serialize};

use super::Metrics;

/// A distribution in HdrHistogram's plain V2 form, in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncodedHistogram {
    /// The encoded histogram.
    pub histogram: String,
}

macro_rules! snapshot {
    ($(#[$about:meta])* plain { $($plain:ident),* $(,)? } distributions { $($distribution:ident),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Snapshot {
            $(#[doc = concat!("See [`Metrics::", stringify!($plain), "`].")] pub $plain: u64,)*
            $(#[doc = concat!("See [`Metrics::", stringify!($distribution), "`].")] pub $distribution: EncodedHistogram,)*
        }

        impl Snapshot {
            pub(super) fn of(metrics: &Metrics) -> Self {
                Self {
                    $($plain: metrics.$plain,)*
                    $($distribution: EncodedHistogram::of(&metrics.$distribution),)*
                }
            }
        }
    };
}

snapshot! {
    /// The metrics of a relay as they were at one instant.
    plain {
        received_events, received_batches, received_bytes, forwarded_events, forwarded_bytes, completed_batches,
        completed_events, redelivered_events, confirmed_events, abandoned_events, released_events, dead_lettered_events, lock_lost_events,
        unsettled_events, lock_renewals, failed_lock_renewals, doubtful_events, sends, retries, failed_sends, throttled_sends, timed_out_sends, late_outcomes,
        split_sends, busy_sink, injected_failures, failed_batches, closed_partitions, opened_partitions, opened_at_start,
        opened_after_rest, opened_after_claim, closed_after_batch, closed_after_checkpoint, closed_by_service,
        closed_after_loss, closed_by_fence, closed_at_stop, checkpoints, failed_checkpoints, refused_checkpoints,
        ownership_cycles, claimed_partitions, claimed_free_partitions, claimed_expired_partitions,
        claimed_own_partitions, stolen_partitions, lost_partitions, taken_partitions, expired_partitions,
        returned_partitions, failed_renewals, waited_for_source_ns, waited_for_sends_ns, waited_for_destination_ns,
        waited_for_memory_ns, waited_for_partitions_ns, ownership_renew_us, ownership_expire_us, owned_partitions,
        batches_in_flight, held_bytes, open_partitions,
    }
    distributions {
        queue_us, process_us, batch_send_us, send_us, failed_send_us, checkpoint_us, failed_checkpoint_us, settle_us,
        ownership_cycle_us, batch_events, batch_bytes, send_events, send_bytes,
    }
}

impl EncodedHistogram {
    fn of(histogram: &Histogram<u64>) -> Self {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(histogram, &mut bytes)
            .expect("a vector takes any number of bytes, and no count reaches 2^63");
        Self {
            histogram: STANDARD.encode(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;

    use super::*;

    #[test]
    fn a_snapshot_is_one_json_object_and_its_distributions_come_back() {
        let mut metrics = Metrics::new();
        metrics.received_events = 7;
        crate::metrics::record_count(&mut metrics.process_us, 1_234);
        let json = serde_json::to_string(&metrics.snapshot()).expect("plain data");
        assert!(
            json.starts_with(r#"{"received_events":7,"received_batches":0,"#),
            "{json}"
        );
        let read: Snapshot = serde_json::from_str(&json).expect("our own text");
        assert_eq!(read, metrics.snapshot());
        let bytes = STANDARD.decode(read.process_us.histogram).expect("base64");
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .expect("a histogram");
        assert_eq!((histogram.len(), histogram.max()), (1, 1_234));
    }
}
