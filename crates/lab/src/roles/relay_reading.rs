//! The relay's metrics in the lab's words.

use std::collections::BTreeMap;
use std::time::Instant;

use relay::metrics::Metrics;

use super::backend::RelayReading;
use super::protocol::RelayCounters;
use crate::clock::RunClock;
use crate::results::{LatencyDistribution, RelayActivity, Size, Stage};

/// What the metrics of one relay say, as they are now. Where it archives events, `archives` says of each of its sinks whether it is
/// that archive.
pub(super) fn reading(metrics: &Metrics, clock: RunClock, archives: &[bool]) -> RelayReading {
    let (now, run_now) = (Instant::now(), clock.now());
    let run_time = |at: Instant| run_now.minus(now.saturating_duration_since(at));
    let distribution = |histogram: &hdrhistogram::Histogram<u64>| LatencyDistribution {
        histogram: histogram.clone(),
        negative: None,
    };
    let stages = [
        (Stage::InHub, &metrics.source_age_us),
        (Stage::Queue, &metrics.queue_us),
        (Stage::Process, &metrics.process_us),
        (Stage::BatchSend, &metrics.batch_send_us),
        (Stage::Send, &metrics.send_us),
        (Stage::Checkpoint, &metrics.checkpoint_us),
        (Stage::Ownership, &metrics.ownership_cycle_us),
        (Stage::Settle, &metrics.settle_us),
        (Stage::Vacant, &metrics.vacant_us),
    ];
    let sizes = [
        (Size::BatchEvents, &metrics.batch_events),
        (Size::BatchBytes, &metrics.batch_bytes),
        (Size::SendEvents, &metrics.send_events),
        (Size::SendBytes, &metrics.send_bytes),
    ];
    let mut stages: BTreeMap<Stage, LatencyDistribution> =
        stages.map(|(stage, histogram)| (stage, distribution(histogram))).into();
    if archives.contains(&true) {
        for (is_archive, histogram) in archives.iter().zip(&metrics.sink_send_us) {
            let stage = if *is_archive { Stage::Archive } else { Stage::Forward };
            stages.entry(stage).or_default().merge(&distribution(histogram));
        }
    }
    RelayReading {
        counters: RelayCounters {
            received: metrics.received_events,
            forwarded: metrics.forwarded_events,
            doubtful: metrics.doubtful_events,
            completed: metrics.completed_events,
            opened: metrics.opened_partitions,
            owned: metrics.owned_partitions,
            missed: metrics.missed_events,
            throttled: metrics.throttled_sends,
            first_forwarded: metrics.first_forwarded_at.map(run_time),
            last_forwarded: metrics.last_forwarded_at.map(run_time),
        },
        stages,
        sizes: sizes.map(|(size, histogram)| (size, distribution(histogram))).into(),
        activity: Some(RelayActivity::of(metrics)),
        page: None,
    }
}
