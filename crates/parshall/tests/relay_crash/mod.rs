//! The pipeline under `kill -9`, under injected failures, and stopped in good order: what arrives, how often, and in
//! what order. `archives` looks at what was archived, `sharing` does the same to several relays at once, `groups` to members of a consumer group,
//! `queues` to one between queues, `transactions` to one that settles in transactions, `topics` to one between topics of Kafka, `strategies` to one that takes each event to a topic and to archives.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

mod archives;
mod blobs;
mod groups;
mod queues;
mod rig;
mod sharing;
mod strategies;
mod topics;
mod transactions;

use std::time::Duration;

use partition_log::{LogLimits, WhenFull};
use rig::{Rig, SOURCES};
use units::{ByteSize, Random};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_moments_it_loses_nothing_and_repeats_no_more_than_was_under_way() {
    let (_, duplicated) =
        kill_at_random_moments(20_240_117, async |settings| Rig::start(settings).await).await;
    // A kill repeats at most what no checkpoint covered: everything that each partition had fetched.
    let bound = KILLS * u64::from(SOURCES) * PREFETCH;
    assert!(duplicated <= bound, "{duplicated} duplicates, more than {bound}");
}

/// How often a relay is killed.
const KILLS: u64 = 24;

/// Events of a partition that it may fetch ahead.
const PREFETCH: u64 = 400;

/// Kills relays of a rig that is made with lines of the pipeline, and holds what arrives against what was sent: nothing is lost.
/// Gives how many events there were, and how many came again.
async fn kill_at_random_moments(seed: u64, rig: impl AsyncFnOnce(&str) -> Rig) -> (u64, u64) {
    const BATCH: u64 = 40;
    let test = async {
        let settings = format!(
            "route: random\nseed: 5\nbatch: {{events: {BATCH}, wait: 2 ms}}\nprefetch: {PREFETCH}\nin_flight: 3\n"
        );
        let mut rig = rig(&settings).await;
        let mut random = Random::from_seed(seed);
        for _ in 0..KILLS {
            let mut relay = rig.relay();
            // From the very first event that a relay has sent on, to many batches later.
            let goal = rig.held() + 1 + random.below(8_000);
            rig.until(&mut relay, |seen| seen.received >= goal).await;
            relay.kill().await;
        }
        // One more that may finish its work.
        let (sends, sent) = rig.finish(rig.relay()).await;

        let verdict = rig.verdict(&sends).await;
        assert!(verdict.is_intact(), "seed {seed}: {verdict:?}");
        assert_eq!((verdict.sent, verdict.distinct), (sent, sent), "seed {seed}");
        (sent, verdict.counts.duplicated)
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_whose_batch_fails_resumes_from_its_checkpoint_in_order() {
    const ENOUGH: u64 = 100_000;
    let test = async {
        // About every fiftieth batch fails.
        let settings = "route: random\nseed: 6\nbatch: {events: 40, wait: 2 ms}\nprefetch: 400\n\
                        failure_ratio: 0.003\nrestart_after: 10 ms\nmetrics: 127.0.0.1:0\n";
        let mut rig = Rig::start(settings).await;
        let mut relay = rig.relay();
        let metrics = relay.metrics_address().await;
        rig.until(&mut relay, |seen| seen.distinct >= ENOUGH).await;
        let sends = rig.stop_publishing().await;
        let sent: u64 = sends.iter().map(|stream| u64::from(stream.sent)).sum();
        rig.until(&mut relay, |seen| seen.distinct >= sent).await;
        let failed = relay.metric(&metrics, "parshall_relay_failed_batches_total").await;
        let opened = relay.metric(&metrics, "parshall_relay_opened_partitions_total").await;
        assert!(failed >= 10, "only {failed} batches failed");
        assert!(opened > u64::from(SOURCES), "no partition was opened again");
        let (status, said) = relay.terminate().await;
        assert_eq!(status.code(), Some(0), "{said}");

        let verdict = rig.verdict(&sends).await;
        assert!(verdict.is_intact(), "{verdict:?}");
        // What a partition had fetched, though most of it is accepted while the partition rests.
        let bound = failed * 400;
        assert!(verdict.counts.duplicated <= bound, "at most {bound}: {verdict:?}");
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_in_good_order_and_started_again_it_neither_loses_nor_repeats() {
    stop_and_start_again(async |settings| Rig::start(settings).await).await;
}

/// Stops relays of a rig that is made with lines of the pipeline, and holds what arrives against what was sent.
async fn stop_and_start_again(rig: impl AsyncFnOnce(&str) -> Rig) {
    let test = async {
        let mut rig =
            rig("route: random\nbatch: {events: 40, wait: 2 ms}\nprefetch: 400\nin_flight: 4\n").await;
        for _ in 0..4 {
            let mut relay = rig.relay();
            let goal = rig.held() + 5_000;
            rig.until(&mut relay, |seen| seen.received >= goal).await;
            let (status, said) = relay.terminate().await;
            assert_eq!(status.code(), Some(0), "{said}");
            assert!(said.contains("Stopped gracefully."), "{said}");
        }
        let (sends, sent) = rig.finish(rig.relay()).await;

        let verdict = rig.verdict(&sends).await;
        assert!(verdict.is_intact(), "{verdict:?}");
        assert_eq!((verdict.distinct, verdict.counts.duplicated), (sent, 0));
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_finished_does_not_hold_up_a_second_signal() {
    let test = async {
        // The destination takes so much and no more, and the relay would wait for that to change.
        let log =
            LogLimits { bytes: ByteSize::from_mebibytes(2), when_full: WhenFull::Throttle, retention: None };
        let settings = "fan_out: 1\nretry: {attempts: 100}\nstop_timeout: 1 h\nmetrics: 127.0.0.1:0\n";
        let rig = Rig::start_with_logs(settings, log).await;
        let mut relay = rig.relay();
        let metrics = relay.metrics_address().await;
        // All partitions have a batch under way that is refused.
        while relay.metric(&metrics, "parshall_relay_throttled_sends_total").await < u64::from(SOURCES) {}
        relay.signal();
        relay.until_stopping().await;
        relay.signal();
        assert_eq!(relay.exit().await.code(), Some(130));
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

/// Longer than any of these takes on a machine that does much else besides.
const PATIENCE: Duration = Duration::from_secs(120);
