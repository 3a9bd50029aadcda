//! The relay's metrics in the lab's words.

use std::time::Instant;

use relay::metrics::Metrics;

use super::fabric::RelayReading;
use super::protocol::RelayCounters;
use crate::clock::RunClock;
use crate::results::{
    BatchCounts, CheckpointCounts, ClosingCounts, GainCounts, LatencyDistribution, LossCounts, OpeningCounts,
    OwnershipActivity, RelayActivity, RoundCounts, SendCounts, Size, Stage, WaitingTimes, WholeTrial,
};

/// What the metrics of one relay say, as they are now.
pub(super) fn reading(metrics: &Metrics, clock: RunClock) -> RelayReading {
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
    RelayReading {
        counters: RelayCounters {
            received: metrics.received_events,
            forwarded: metrics.forwarded_events,
            doubtful: metrics.doubtful_events,
            completed: metrics.completed_events,
            opened: metrics.opened_partitions,
            owned: metrics.owned_partitions,
            missed: metrics.missed_events,
            first_forwarded: metrics.first_forwarded_at.map(run_time),
            last_forwarded: metrics.last_forwarded_at.map(run_time),
        },
        stages: stages.map(|(stage, histogram)| (stage, distribution(histogram))).into(),
        sizes: sizes.map(|(size, histogram)| (size, distribution(histogram))).into(),
        activity: Some(activity(metrics)),
    }
}

fn activity(metrics: &Metrics) -> RelayActivity {
    RelayActivity {
        instances: 1,
        batches: BatchCounts {
            received: metrics.received_batches,
            completed: metrics.completed_batches,
            failed: metrics.failed_batches,
        },
        sends: SendCounts {
            made: metrics.sends,
            failed: metrics.failed_sends,
            throttled: metrics.throttled_sends,
            timed_out: metrics.timed_out_sends,
            repeated: metrics.retries,
            split: metrics.split_sends,
            failed_on_purpose: metrics.injected_failures,
        },
        checkpoints: CheckpointCounts {
            written: metrics.checkpoints,
            failed: metrics.failed_checkpoints,
            refused: metrics.refused_checkpoints,
        },
        opened: OpeningCounts {
            start: metrics.opened_at_start,
            rest: metrics.opened_after_rest,
            claim: metrics.opened_after_claim,
        },
        closed: ClosingCounts {
            batch: metrics.closed_after_batch,
            checkpoint: metrics.closed_after_checkpoint,
            service: metrics.closed_by_service,
            loss: metrics.closed_after_loss,
            fence: metrics.closed_by_fence,
            stop: metrics.closed_at_stop,
        },
        ownership: (metrics.ownership_renew_us > 0).then(|| ownership(metrics)),
        waiting_us: WaitingTimes {
            source: metrics.waited_for_source_ns / 1_000,
            sends: metrics.waited_for_sends_ns / 1_000,
            destination: metrics.waited_for_destination_ns / 1_000,
            memory: metrics.waited_for_memory_ns / 1_000,
            partitions: metrics.waited_for_partitions_ns / 1_000,
        },
        whole_trial: WholeTrial {
            failed_batches: metrics.failed_batches,
            restarts: metrics.opened_after_rest,
            lost_partitions: metrics.lost_partitions,
            opened_partitions: metrics.opened_partitions,
            closed_partitions: metrics.opened_partitions - metrics.taking_partitions(),
            gained_partitions: metrics.claimed_partitions,
            missed_events: metrics.missed_events,
            restarted_partitions: metrics.restarted_partitions,
            sends: metrics.sends,
            refused_sends: metrics.failed_sends.saturating_sub(metrics.timed_out_sends),
            throttled_sends: metrics.throttled_sends,
        },
        ..RelayActivity::default()
    }
}

fn ownership(metrics: &Metrics) -> OwnershipActivity {
    OwnershipActivity {
        renew_us: metrics.ownership_renew_us,
        expire_us: metrics.ownership_expire_us,
        rounds: RoundCounts {
            completed: metrics.ownership_cycles,
            failed_renewals: metrics.failed_renewals,
            returned: metrics.returned_partitions,
        },
        gained: GainCounts {
            free: metrics.claimed_free_partitions,
            expired: metrics.claimed_expired_partitions,
            own: metrics.claimed_own_partitions,
            stolen: metrics.stolen_partitions,
        },
        lost: LossCounts { taken: metrics.taken_partitions, expired: metrics.expired_partitions },
    }
}
