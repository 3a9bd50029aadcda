//! A relay between topics of Kafka, under `kill -9` and stopped in good order: progress is committed offsets.

use super::{Rig, kill_at_random_moments, stop_and_start_again};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_topics_it_loses_nothing_and_repeats_what_was_not_committed() {
    let start = async |settings: &str| Rig::start_with_topics(settings).await;
    let (sent, duplicated) = kill_at_random_moments(20_261_123, start).await;
    // A commit takes a round trip, in which any number of batches may be done. Without commits each relay would begin anew.
    assert!(duplicated < sent, "{duplicated} duplicates of {sent} events");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_between_topics_and_started_again_it_neither_loses_nor_repeats() {
    stop_and_start_again(async |settings| Rig::start_with_topics(settings).await).await;
}
