//! A store that is not to be had for a while, under relays that share partitions.

use super::sharing::{EXPIRE, Group, RENEW};
use super::*;
use crate::health::Place;

#[tokio::test(start_paused = true)]
async fn without_its_store_a_relay_goes_on_as_long_as_its_claims_and_resumes_when_it_is_back() {
    let group = Group::new();
    group.append(80);
    let relay = group.relay("a");
    group.until_done().await;
    fail_everything(&group, u32::MAX);
    // A little at a time, for as long as nobody else may take the partitions.
    for _ in 0..4 {
        group.append(8);
        tokio::time::sleep(RENEW).await;
    }
    let metrics = relay.metrics().await;
    assert_eq!((metrics.owned_partitions, metrics.open_partitions), (8, 8));
    assert_eq!(relay.script.accepted(0).len(), 80 + 32, "it goes on");
    assert_eq!(group.covered(), 80);
    tokio::time::sleep(EXPIRE).await;
    let metrics = relay.metrics().await;
    assert_eq!((metrics.owned_partitions, metrics.lost_partitions), (0, 8));
    group.append(80);
    tokio::time::sleep(EXPIRE).await;
    assert_eq!(relay.script.accepted(0).len(), 80 + 32, "it has stopped");
    fail_everything(&group, 0);
    group.until_done().await;
    relay.stop().await;
    assert_eq!(group.duplicates(), 32, "what was done without a checkpoint");
}

#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_the_claims_costs_nothing() {
    let group = Group::new();
    group.append(80);
    let relay = group.relay("a");
    group.until_done().await;
    fail_everything(&group, u32::MAX);
    group.append(80);
    tokio::time::sleep(2 * RENEW).await;
    assert_eq!(group.covered(), 80);
    fail_everything(&group, 0);
    group.until_done().await;
    let summary = relay.stop().await;
    assert_eq!(summary.metrics.lost_partitions, 0);
    assert_eq!(group.duplicates(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_takes_claims_and_no_checkpoints_stops_the_partitions_in_the_end() {
    let group = Group::new();
    let relay = group.relay("a");
    group.until_shares_are(&[("a", 8)]).await;
    tokio::time::sleep(ms(100)).await;
    group.store.fail_updates(u32::MAX);
    group.append(8);
    tokio::time::sleep(EXPIRE / 2).await;
    assert_eq!(relay.metrics().await.failed_batches, 0);
    assert_eq!(relay.metrics().await.open_partitions, 8);
    tokio::time::sleep(2 * EXPIRE).await;
    // Opened again and again, each time up to the fence.
    assert_eq!(relay.metrics().await.open_partitions, 0);
    group.store.fail_updates(0);
    group.until_done().await;
    relay.stop().await;
    assert_eq!(group.duplicates(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_relay_is_not_ready_from_half_of_its_claims_on_until_its_store_has_answered_again() {
    for is_silent in [false, true] {
        let group = Group::new();
        let relay = group.relay("a");
        group.until_shares_are(&[("a", 8)]).await;
        tokio::time::sleep(RENEW / 2).await;
        let reasons = async || relay.metrics().await.health.reasons;
        assert_eq!(reasons().await, []);
        let change = |is_out| match is_silent {
            true => drop(group.is_silent.send_replace(is_out)),
            false => fail_everything(&group, if is_out { u32::MAX } else { 0 }),
        };
        change(true);
        tokio::time::sleep(EXPIRE / 2).await;
        // The claims are still there, and then they are not: neither makes it ready.
        for owned in [8, 8, 0, 0, 0] {
            let metrics = relay.metrics().await;
            assert_eq!(metrics.owned_partitions, owned);
            let places: Vec<_> = metrics.health.reasons.iter().map(|reason| reason.place).collect();
            assert_eq!(places, [Place::Ownership], "silent: {is_silent}, {:?}", metrics.health.reasons);
            tokio::time::sleep(EXPIRE / 4).await;
        }
        change(false);
        group.until_shares_are(&[("a", 8)]).await;
        tokio::time::sleep(RENEW).await;
        assert_eq!(reasons().await, []);
        relay.stop().await;
    }
}

fn fail_everything(group: &Group, count: u32) {
    group.store.fail_updates(count);
    group.store.fail_lists(count);
    group.store.fail_claims(count);
}
