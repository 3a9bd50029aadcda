//! The durable service under `kill -9`, while events stream in: whatever was acknowledged is there afterwards, once, in
//! order, and numbered without a gap. `producers` does the same to idempotent producers, `queues` to queues and topics,
//! `transactions` to what is carried between queues as a whole, `administration` to queues that come and go. `disk_errors` has the disk
//! fail first.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

mod administration;
mod disk_errors;
mod producers;
mod queue_ledger;
mod queues;
mod rest_client;
mod rig;
mod transactions;

use std::time::Duration;

use rig::Rig;
use units::Random;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_moments_it_keeps_every_event_that_it_acknowledged_after_a_sync() {
    killed(&["--sync", "always"], 24).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_costs_nothing_either_where_only_a_power_cut_might() {
    killed(&["--sync", "50 ms"], 4).await;
    killed(&["--sync", "os"], 4).await;
}

/// Kills a service of these settings so many times under load, and looks at what is left.
async fn killed(settings: &[&str], kills: u32) {
    const SEED: u64 = 20_260_301;
    let test = async {
        let mut rig = Rig::new(settings);
        let mut random = Random::from_seed(SEED);
        for _ in 0..kills {
            // From the very first acknowledgement to thousands of them.
            rig.serve_until_acknowledged(1 + random.below(5_000)).await;
        }
        let (delivery, acknowledged) = rig.verdict().await;
        assert!(acknowledged > u64::from(kills), "seed {SEED}");
        // What was under way when the service was killed may be there or not.
        assert!(delivery.is_intact(), "seed {SEED}: {delivery:?}");
        assert_eq!(delivery.counts.duplicated, 0, "seed {SEED}: {delivery:?}");
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

/// Longer than any of these takes on a machine that does much else besides.
const PATIENCE: Duration = Duration::from_secs(180);
