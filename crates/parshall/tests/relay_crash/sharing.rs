//! Several relays as processes that share the partitions of the source by ownership, while events come: more of them,
//! fewer of them, killed and paused ones.
//!
//! What nobody may do is lose an event, or write a checkpoint that lies behind the one before it: a watcher reads the
//! checkpoints all the time.

use std::collections::BTreeMap;
use std::time::Duration;

use connect::event::PartitionId;
use tokio::task::JoinHandle;

use super::PATIENCE;
use super::rig::{Relaying, Rig, SOURCES};

const BATCH: u64 = 40;
const IN_FLIGHT: u64 = 3;

/// Claims that are renewed and expire so fast that a test can wait for it. Longer than the machine ever pauses by itself.
const SETTINGS: &str = "route: random\nseed: 5\nbatch: {events: 40, wait: 2 ms}\nprefetch: 400\nin_flight: 3\n\
                        ownership: {mode: greedy, renew: 200 ms, expire: 1500 ms}\nmetrics: 127.0.0.1:0\n";

const OWNED: &str = "parshall_relay_owned_partitions";
const CLAIMED: &str = "parshall_relay_claimed_partitions_total";
pub(crate) const LOST: &str = "parshall_relay_lost_partitions_total";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_relays_and_fewer_again_lose_nothing_and_repeat_no_more_than_was_under_way() {
    let test = async {
        let (moved, duplicated) = grow_and_shrink(Rig::start(SETTINGS).await).await;
        // Whoever loses a partition may have this much of it under way, and begin as much again before its first
        // checkpoint is refused.
        let bound = moved * 2 * IN_FLIGHT * BATCH;
        assert!(duplicated <= bound, "{duplicated} duplicates, more than {bound} for {moved} claims");
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

/// One relay, three, and one again; nothing is lost. Gives how many partitions were claimed, and how many events came again.
pub(crate) async fn grow_and_shrink(mut rig: Rig) -> (u64, u64) {
    let watcher = Watcher::start(&rig).await;
    let mut relays = vec![rig.relay()];
    let mut moved = 0;
    until_owned(&mut relays, |owned| owned == [u64::from(SOURCES)]).await;
    carry(&rig, 5_000).await;
    relays.extend([rig.relay(), rig.relay()]);
    until_owned(&mut relays, is_shared).await;
    carry(&rig, 10_000).await;
    // And in again, one after the other.
    while relays.len() > 1 {
        let mut leaving = relays.remove(0);
        moved += leaving.count(CLAIMED).await;
        let (status, said) = leaving.terminate().await;
        assert_eq!(status.code(), Some(0), "{said}");
        assert!(said.contains("Stopped gracefully."), "{said}");
        until_owned(&mut relays, is_shared).await;
        carry(&rig, 5_000).await;
    }
    let sends = rig.stop_publishing().await;
    let sent: u64 = sends.iter().map(|stream| u64::from(stream.sent)).sum();
    rig.until(&mut relays[0], |seen| seen.distinct >= sent).await;
    moved += relays[0].count(CLAIMED).await;
    finish(relays).await;
    watcher.stop().await;

    let verdict = rig.verdict(&sends).await;
    assert!(verdict.is_intact(), "{verdict:?}");
    assert_eq!((verdict.sent, verdict.distinct), (sent, sent));
    (moved, verdict.counts.duplicated)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_relay_owned_is_taken_over_after_its_time() {
    let test = async { kill_one(Rig::start(SETTINGS).await).await };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

/// Three relays, of which one is killed; nothing is lost. Gives how many events there were, and how many came again.
pub(crate) async fn kill_one(mut rig: Rig) -> (u64, u64) {
    let watcher = Watcher::start(&rig).await;
    let mut relays = vec![rig.relay(), rig.relay(), rig.relay()];
    until_owned(&mut relays, is_shared).await;
    carry(&rig, 5_000).await;
    relays.remove(1).kill().await;
    until_owned(&mut relays, is_shared).await;
    let sends = rig.stop_publishing().await;
    let sent: u64 = sends.iter().map(|stream| u64::from(stream.sent)).sum();
    rig.until_seen(|seen| seen.distinct >= sent).await;
    finish(relays).await;
    watcher.stop().await;
    let verdict = rig.verdict(&sends).await;
    assert!(verdict.is_intact(), "{verdict:?}");
    assert_eq!((verdict.sent, verdict.distinct), (sent, sent));
    (sent, verdict.counts.duplicated)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_was_paused_for_too_long_writes_nothing_over_and_joins_again() {
    let test = async { pause_a_relay(Rig::start(SETTINGS).await, 4).await };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_was_paused_for_too_long_does_not_keep_its_claims_in_blobs() {
    let test = async { pause_a_relay(Rig::start_with_blobs(SETTINGS).await, 2).await };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

/// Two relays share; one is stopped without its knowing until the other one has everything, so many times.
pub(crate) async fn pause_a_relay(mut rig: Rig, pauses: usize) {
    let watcher = Watcher::start(&rig).await;
    let mut sleeper = rig.relay();
    let mut relays = vec![rig.relay()];
    for pause in 0..pauses {
        // Both carry.
        until(async || sleeper.count(OWNED).await == u64::from(SOURCES) / 2).await;
        until_owned(&mut relays, |owned| owned == [u64::from(SOURCES) / 2]).await;
        // At some moment that has nothing to do with what it does.
        carry(&rig, 1_000 + 777 * pause as u64).await;
        let lost = sleeper.count(LOST).await;
        sleeper.pause();
        until_owned(&mut relays, |owned| owned == [u64::from(SOURCES)]).await;
        // The successor has got further in all partitions by now.
        carry(&rig, 4_000).await;
        sleeper.resume();
        let all = lost + u64::from(SOURCES) / 2;
        until(async || sleeper.count(LOST).await >= all).await;
    }
    until(async || sleeper.count(OWNED).await > 0).await;
    carry(&rig, 2_000).await;
    let sends = rig.stop_publishing().await;
    let sent: u64 = sends.iter().map(|stream| u64::from(stream.sent)).sum();
    rig.until_seen(|seen| seen.distinct >= sent).await;
    relays.push(sleeper);
    finish(relays).await;
    watcher.stop().await;
    let verdict = rig.verdict(&sends).await;
    assert!(verdict.is_intact(), "{verdict:?}");
    assert_eq!((verdict.sent, verdict.distinct), (sent, sent));
    // What came twice is counted, and is all that came besides.
    let counts = verdict.counts;
    assert_eq!(counts.received, sent + counts.duplicated);
}

/// Waits until so many more events have arrived.
pub(crate) async fn carry(rig: &Rig, more: u64) {
    let goal = rig.seen().distinct + more;
    rig.until_seen(|seen| seen.distinct >= goal).await;
}

/// Waits until the partitions that each relay owns are as they should be.
pub(crate) async fn until_owned(relays: &mut [Relaying], mut enough: impl FnMut(&[u64]) -> bool) {
    loop {
        let mut owned = Vec::new();
        for relay in &mut *relays {
            owned.push(relay.count(OWNED).await);
        }
        if enough(&owned) {
            return;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// Waits until something holds.
pub(crate) async fn until(mut holds: impl AsyncFnMut() -> bool) {
    while !holds().await {
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// Whether all partitions are owned, in shares that differ by one at most.
pub(crate) fn is_shared(owned: &[u64]) -> bool {
    let least = owned.iter().min().unwrap();
    let most = owned.iter().max().unwrap();
    owned.iter().sum::<u64>() == u64::from(SOURCES) && most - least <= 1
}

/// Stops all relays in good order.
pub(crate) async fn finish(relays: Vec<Relaying>) {
    for relay in relays {
        let (status, said) = relay.terminate().await;
        assert_eq!(status.code(), Some(0), "{said}");
    }
}

/// Reads the checkpoints again and again; none may ever go back.
struct Watcher {
    stop: tokio::sync::oneshot::Sender<()>,
    watching: JoinHandle<()>,
}

impl Watcher {
    async fn start(rig: &Rig) -> Self {
        let store = rig.store().await;
        let group = rig.group();
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let watching = tokio::spawn(async move {
            let mut furthest = BTreeMap::<PartitionId, i64>::new();
            let mut last_look = false;
            loop {
                let listed = store.list_checkpoints(&group).await.unwrap();
                for checkpoint in listed {
                    let Some(sequence_number) = checkpoint.sequence_number else {
                        continue;
                    };
                    let before = furthest.insert(checkpoint.partition, sequence_number);
                    assert!(
                        before <= Some(sequence_number),
                        "partition {} went from {before:?} back to {sequence_number}",
                        checkpoint.partition
                    );
                }
                if last_look {
                    assert_eq!(furthest.len(), SOURCES as usize);
                    return;
                }
                last_look = tokio::time::timeout(BETWEEN_LOOKS, &mut stopped).await.is_ok();
            }
        });
        Self { stop, watching }
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        self.watching.await.unwrap();
    }
}

/// So that looking does not keep those from working who are looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
