//! A relay that archives what it carries, under `kill -9`: every event is in a file, and every file is complete.

use std::collections::BTreeSet;
use std::path::Path;

use units::Random;

use super::PATIENCE;
use super::rig::Rig;

/// How often the relay is killed.
const KILLS: u32 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_moments_it_loses_nothing_of_its_archive_and_every_file_is_complete() {
    const SEED: u64 = 20_261_123;
    let test = async {
        let settings = "route: random\nbatch: {events: 40, wait: 2 ms}\nprefetch: 400\n";
        let archive = "archive: {to: {folder: ./archive}, files: {size: 40 KiB, every: 1 s}}";
        let mut rig = Rig::start_beside(settings, archive).await;
        let mut random = Random::from_seed(SEED);
        for _ in 0..KILLS {
            let mut relay = rig.relay();
            let goal = rig.held() + 1 + random.below(8_000);
            rig.until(&mut relay, |seen| seen.received >= goal).await;
            relay.kill().await;
        }
        let (sends, sent) = rig.finish(rig.relay()).await;
        let archived = archived(&rig.folder().join("archive"));
        let mut counts: Vec<u64> = sends.iter().map(|stream| u64::from(stream.sent)).collect();
        let mut found: Vec<u64> = Vec::new();
        for partition in 0..counts.len() as u64 {
            found.push(archived.iter().filter(|(of, _)| *of == partition).count() as u64);
        }
        // Each partition has one stream, in no particular order.
        counts.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, counts, "seed {SEED}");
        let verdict = rig.verdict(&sends).await;
        assert!(verdict.is_intact(), "seed {SEED}: {verdict:?}");
        assert_eq!(verdict.distinct, sent, "seed {SEED}");
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

/// Partition and number of every event that is in a file, each of which has whole lines. What begins with a dot is no file yet.
fn archived(folder: &Path) -> BTreeSet<(u64, u64)> {
    let mut events = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            events.extend(archived(&path));
        } else if !path.file_name().unwrap().to_string_lossy().starts_with('.') {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.ends_with("}\n"), "{} is cut", path.display());
            for line in text.lines() {
                let event: serde_json::Value = serde_json::from_str(line).unwrap();
                events.insert((
                    event["partition"].as_u64().unwrap(),
                    event["sequence_number"].as_u64().unwrap(),
                ));
            }
        }
    }
    events
}
