//! Relays that share partitions by blobs, while the blob service is busy, slow, or silent. Nothing is lost, whatever it does,
//! and they carry as long as their claims allow.

use std::time::Duration;

use hub::front::blob::BlobFault;

use super::PATIENCE;
use super::rig::Rig;
use super::sharing::{LOST, carry, finish, is_shared, until, until_owned};

/// Claims that outlast two requests of 2 s, and that a test can wait for.
const SETTINGS: &str = "route: random\nseed: 5\nbatch: {events: 40, wait: 2 ms}\nprefetch: 400\nin_flight: 3\n\
                        ownership: {mode: greedy, renew: 200 ms, expire: 6 s}\nmetrics: 127.0.0.1:0\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_blob_service_does_in_the_middle_of_a_run_nothing_is_lost() {
    let test = async {
        let mut rig = Rig::start_with_blobs(SETTINGS).await;
        let mut relays = vec![rig.relay(), rig.relay()];
        until_owned(&mut relays, is_shared).await;
        carry(&rig, 5_000).await;
        for fault in [
            BlobFault::Unavailable,
            BlobFault::Slow(Duration::from_secs(2)),
        ] {
            rig.set_blob_fault(fault);
            // They go on while it lasts.
            carry(&rig, 5_000).await;
            rig.set_blob_fault(BlobFault::None);
            carry(&rig, 5_000).await;
        }
        // Longer than the claims last: both stop, and begin again when the service is back.
        let mut lost = Vec::new();
        for relay in &mut relays {
            lost.push(relay.count(LOST).await);
        }
        rig.set_blob_fault(BlobFault::Hanging);
        until_owned(&mut relays, |owned| owned == [0, 0]).await;
        for (relay, before) in relays.iter_mut().zip(lost) {
            until(async || relay.count(LOST).await > before).await;
        }
        rig.set_blob_fault(BlobFault::None);
        until_owned(&mut relays, is_shared).await;
        carry(&rig, 5_000).await;
        let sends = rig.stop_publishing().await;
        let sent: u64 = sends.iter().map(|stream| u64::from(stream.sent)).sum();
        rig.until_seen(|seen| seen.distinct >= sent).await;
        finish(relays).await;
        let verdict = rig.verdict(&sends).await;
        assert!(verdict.is_intact(), "{verdict:?}");
        assert_eq!((verdict.sent, verdict.distinct), (sent, sent));
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}
