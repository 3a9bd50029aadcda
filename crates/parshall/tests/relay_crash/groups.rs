//! Relays as processes that are members of one consumer group of Kafka: more of them, fewer of them, killed and paused ones.
//!
//! What moves between relays that run is finished first, so that nothing comes twice. What was under way of one that died does, and
//! nothing else.

use super::PATIENCE;
use super::rig::{Rig, SOURCES};
use super::sharing::{grow_and_shrink, kill_one, pause_a_relay};

/// The shortest session that Kafka allows, and heartbeats that notice a change soon.
const SESSION: &str = "session.timeout.ms: 6000, heartbeat.interval.ms: 200";

const RANGE: &str =
    "session.timeout.ms: 6000, heartbeat.interval.ms: 200, partition.assignment.strategy: range";

const SETTINGS: &str = "route: random\nseed: 5\nbatch: {events: 40, wait: 2 ms}\nprefetch: 400\nin_flight: 3\n\
                        ownership: {mode: group}\nmetrics: 127.0.0.1:0\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_members_and_fewer_again_neither_lose_nor_repeat() {
    let test = async {
        let (moved, duplicated) = grow_and_shrink(Rig::start_with_members(SETTINGS, SESSION).await).await;
        assert!(moved >= u64::from(SOURCES) + 5 + 3, "{moved} partitions moved");
        assert_eq!(duplicated, 0, "what is under way is finished before another one begins");
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_give_up_everything_when_the_group_changes_neither_lose_nor_repeat() {
    let test = async {
        let (_, duplicated) = grow_and_shrink(Rig::start_with_members(SETTINGS, RANGE).await).await;
        assert_eq!(duplicated, 0, "what is under way is finished before another one begins");
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_member_had_is_taken_over_after_its_session() {
    let test = async {
        let (sent, duplicated) = kill_one(Rig::start_with_members(SETTINGS, SESSION).await).await;
        // A commit takes a round trip, in which any number of batches may be done. Without commits a third would come again.
        assert!(duplicated < sent / 6, "{duplicated} duplicates of {sent} events");
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_was_paused_for_too_long_commits_nothing_and_joins_again() {
    let test = async { pause_a_relay(Rig::start_with_members(SETTINGS, SESSION).await, 2).await };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}
