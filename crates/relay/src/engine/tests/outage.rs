//! A store that is not to be had for a while, under relays that share partitions.

use super::sharing::{EXPIRE, Group, RENEW};
use super::*;

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

fn fail_everything(group: &Group, count: u32) {
    group.store.fail_updates(count);
    group.store.fail_lists(count);
    group.store.fail_claims(count);
}
