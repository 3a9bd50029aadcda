//! A relay between topics of Kafka, under `kill -9` and stopped in good order: progress is committed offsets.

use super::{PATIENCE, Rig, kill_at_random_moments};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_topics_it_loses_nothing_and_repeats_what_was_not_committed() {
    let start = async |settings: &str| Rig::start_with_topics(settings).await;
    let (sent, duplicated) = kill_at_random_moments(20_261_123, start).await;
    // A commit takes a round trip, in which any number of batches may be done. Without commits each relay would begin anew.
    assert!(duplicated < sent, "{duplicated} duplicates of {sent} events");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_between_topics_and_started_again_it_neither_loses_nor_repeats() {
    let test = async {
        let settings = "route: random\nbatch: {events: 40, wait: 2 ms}\nprefetch: 400\nin_flight: 4\n";
        let mut rig = Rig::start_with_topics(settings).await;
        for _ in 0..4 {
            let mut relay = rig.relay();
            let goal = rig.seen().distinct + 5_000;
            rig.until(&mut relay, |seen| seen.distinct >= goal).await;
            let (status, said) = relay.terminate().await;
            assert_eq!(status.code(), Some(0), "{said}");
        }
        let mut relay = rig.relay();
        let sends = rig.stop_publishing().await;
        let sent: u64 = sends.iter().map(|stream| u64::from(stream.sent)).sum();
        rig.until(&mut relay, |seen| seen.distinct >= sent).await;
        let (status, said) = relay.terminate().await;
        assert_eq!(status.code(), Some(0), "{said}");

        let verdict = rig.verdict(&sends).await;
        assert!(verdict.is_intact(), "{verdict:?}");
        assert_eq!((verdict.distinct, verdict.counts.duplicated), (sent, 0));
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}
