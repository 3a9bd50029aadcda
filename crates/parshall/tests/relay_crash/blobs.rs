//! Relays that share partitions by blobs, while the blob service is busy, slow, silent or gone. Nothing is lost, whatever
//! it does; they carry as long as their claims allow, stop, and begin again by themselves when it is back.

use std::collections::BTreeMap;
use std::time::Duration;

use hub::front::http::blob::BlobFault;

use super::PATIENCE;
use super::rig::{Arrival, Outage, Relaying, Rig, SOURCES};
use super::sharing::{LOST, carry, finish, is_shared, until, until_owned};

/// Claims that last longer than carrying a little does, and that a test can wait for.
const SETTINGS: &str = "route: random\nseed: 5\nbatch: {events: 40, wait: 2 ms}\nprefetch: 400\nin_flight: 3\n\
                        ownership: {mode: greedy, renew: 200 ms, expire: 5 s}\nmetrics: 127.0.0.1:0\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_blob_service_stops_nothing_before_the_claims_end_and_nothing_is_lost() {
    outlast_and_resume(Outage::Fault(BlobFault::Unavailable)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_service_that_is_gone_stops_nothing_before_the_claims_end_and_nothing_is_lost() {
    outlast_and_resume(Outage::Down).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_blob_service_stops_nothing_before_the_claims_end_and_nothing_is_lost() {
    outlast_and_resume(Outage::Fault(BlobFault::Hanging)).await;
}

/// Two relays share while the service is out for less than the claims last, and then for more.
async fn outlast_and_resume(outage: Outage) {
    let test = async {
        let mut rig = Rig::start_with_blobs(SETTINGS).await;
        let mut relays = vec![rig.relay(), rig.relay()];
        until_owned(&mut relays, is_shared).await;
        carry(&rig, 5_000).await;
        rig.set_outage(outage).await;
        carry(&rig, 5_000).await;
        rig.end_outage(outage);
        carry(&rig, 5_000).await;
        // A checkpoint whose answer the outage took can't be told from one that another owner has written: its partition is
        // given up and taken again. No claim has ended.
        assert_eq!(counts(&mut relays, EXPIRED).await, [0, 0], "they went on with what they had");

        until_owned(&mut relays, is_shared).await;
        let before = counts(&mut relays, LOST).await;
        rig.set_outage(outage).await;
        until_owned(&mut relays, |owned| owned == [0, 0]).await;
        for (relay, before) in relays.iter_mut().zip(before) {
            until(async || relay.count(LOST).await > before).await;
            assert_eq!(relay.count(OPEN).await, 0, "without a claim nothing is carried");
        }
        rig.end_outage(outage);
        until_owned(&mut relays, is_shared).await;
        carry(&rig, 5_000).await;
        stop_intact(rig, relays).await;
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_blob_service_costs_no_claim() {
    let test = async {
        let slow = Outage::Fault(BlobFault::Slow(Duration::from_secs(2)));
        // From one renewal to the end of the next are three requests: its own, a listing, the next one's.
        let settings = SETTINGS.replace("expire: 5 s", "expire: 9 s");
        let mut rig = Rig::start_with_blobs(&settings).await;
        let mut relays = vec![rig.relay(), rig.relay()];
        until_owned(&mut relays, is_shared).await;
        carry(&rig, 5_000).await;
        let before = counts(&mut relays, LOST).await;
        rig.set_outage(slow).await;
        // Both have renewed what they had in a cycle that was slow from its beginning to its end.
        for relay in &mut relays {
            let cycles = relay.count(CYCLES).await;
            until(async || relay.count(CYCLES).await >= cycles + 2).await;
        }
        carry(&rig, 5_000).await;
        assert_eq!(counts(&mut relays, LOST).await, before);
        rig.end_outage(slow);
        carry(&rig, 5_000).await;
        stop_intact(rig, relays).await;
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_shares_no_partitions_stops_without_blobs_and_begins_again() {
    let test = async {
        let settings = "batch: {events: 40, wait: 2 ms}\nretry: {attempts: 2, delay: 10 ms}\n\
                        restart_after: 100 ms\nmetrics: 127.0.0.1:0\n";
        let mut rig = Rig::start_with_blobs(settings).await;
        let mut relay = rig.relay();
        carry(&rig, 5_000).await;
        for outage in [Outage::Down, Outage::Fault(BlobFault::Unavailable)] {
            rig.set_outage(outage).await;
            until(async || relay.count(OPEN).await == 0).await;
            rig.end_outage(outage);
            carry(&rig, 5_000).await;
        }
        stop_intact(rig, vec![relay]).await;
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_asked_for_a_partition_finishes_what_is_under_way_so_that_nothing_comes_twice() {
    let test = async {
        // One destination, whose order shows which relay was when.
        let settings = "fan_out: 1\nbatch: {events: 40, wait: 2 ms}\nprefetch: 400\n\
                        ownership: {mode: greedy, renew: 200 ms, expire: 20 s}\nmetrics: 127.0.0.1:0\n";
        let rig = Rig::start_with_blobs(settings).await;
        let mut relays = vec![rig.relay()];
        until_owned(&mut relays, |owned| owned == [u64::from(SOURCES)]).await;
        carry(&rig, 5_000).await;
        relays.push(rig.relay());
        until_owned(&mut relays, is_shared).await;
        carry(&rig, 20_000).await;
        assert_eq!(counts(&mut relays, ASKED).await, [0, u64::from(SOURCES) / 2]);
        assert_eq!(counts(&mut relays, LOST).await, [0, 0]);
        let arrivals = stop_intact(rig, relays).await;
        assert_eq!(overlaps(&arrivals), BTreeMap::new());
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

/// Of each stream that was begun again from an earlier place: how many events came from where it was before, after the
/// first of those that came again.
fn overlaps(arrivals: &[Arrival]) -> BTreeMap<u16, u32> {
    struct Stream {
        /// What comes next from the first owner.
        first: u32,
        /// What comes next from the second one, once there is one.
        second: Option<u32>,
    }
    let mut streams = BTreeMap::<u16, Stream>::new();
    let mut overlaps = BTreeMap::new();
    for &Arrival { stream, sequence } in arrivals {
        let own = streams.entry(stream).or_insert(Stream { first: 0, second: None });
        match &mut own.second {
            Some(second) if *second == sequence => *second += 1,
            _ if own.first == sequence => {
                own.first += 1;
                if own.second.is_some() {
                    *overlaps.entry(stream).or_default() += 1;
                }
            }
            None if sequence < own.first => {
                own.second = Some(sequence + 1);
                overlaps.insert(stream, 0);
            }
            _ => panic!("event {sequence} of stream {stream} came from neither owner"),
        }
    }
    overlaps
}

/// The value of a metric of each.
async fn counts(relays: &mut [Relaying], metric: &str) -> Vec<u64> {
    let mut counts = Vec::new();
    for relay in relays {
        counts.push(relay.count(metric).await);
    }
    counts
}

/// Stops everything in good order; every event has come by then, and what came twice is counted.
async fn stop_intact(mut rig: Rig, relays: Vec<Relaying>) -> Vec<Arrival> {
    let sends = rig.stop_publishing().await;
    let sent: u64 = sends.iter().map(|stream| u64::from(stream.sent)).sum();
    rig.until_seen(|seen| seen.distinct >= sent).await;
    finish(relays).await;
    let (verdict, arrivals) = rig.verdict_and_arrivals(&sends).await;
    assert!(verdict.is_intact(), "{verdict:?}");
    assert_eq!((verdict.sent, verdict.distinct), (sent, sent));
    assert_eq!(verdict.counts.received, sent + verdict.counts.duplicated);
    arrivals
}

/// Partitions whose claims were not renewed in time.
const EXPIRED: &str = "parshall_relay_ownership_losses_total{reason=\"expired\"}";

const OPEN: &str = "parshall_relay_open_partitions";
const ASKED: &str = "parshall_relay_asked_partitions_total";
const CYCLES: &str = "parshall_relay_ownership_cycles_total";
