//! Relays between queues that settle in transactions, under `kill -9`, and under services that are killed: each message arrives once.

use std::collections::HashMap;
use std::path::Path;

use access::{ConnectionString, Endpoint};
use connect::service_bus::Browser;
use rustix::process::Signal;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use units::Random;

use super::PATIENCE;
use super::queues::{COMPLETED, address, client, count, put, read, serve};
use super::rig::{PIPELINE, Relaying};
use crate::serving::Serving;
use crate::switch::Switch;

const KILLS: u32 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_queues_it_neither_loses_nor_repeats_what_it_carries_in_transactions() {
    const MESSAGES: u32 = 40_000;
    const SEED: u64 = 20_261_126;
    let test = async {
        let service = serve().await;
        let folder = tempfile::tempdir().unwrap();
        let string = service.connection_string(None);
        write_pipeline(folder.path(), &string);
        put(client(&string, "queue1"), 0..MESSAGES).await;
        let (reading, mut seen) = begin_reading(&string);
        let mut random = Random::from_seed(SEED);
        for _ in 0..KILLS {
            let mut relay = Relaying::start(folder.path());
            // From the very first transaction to many later.
            let goal = seen.borrow().len() as u64 + 1 + random.below(3_000);
            let enough = async {
                let _seen = seen.wait_for(|seen| seen.len() as u64 >= goal).await.unwrap();
            };
            relay.until(enough).await;
            relay.kill().await;
        }
        // One more that may finish its work. What others had locked comes when the locks expire.
        finish(Relaying::start(folder.path()), &string, MESSAGES, &mut seen, SEED).await;
        reading.abort();
        let transactions = service.namespace().transaction_counters().values();
        assert!(transactions.committed > u64::from(KILLS), "{transactions:?}");
        assert!(transactions.rolled_back > 0, "no kill came within a transaction: {transactions:?}");
        service.stop().await;
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_service_and_its_relay_that_are_killed_in_turn_neither_lose_nor_repeat() {
    const PART: u32 = 1_000;
    const MESSAGES: u32 = KILLS * 2 * PART;
    const SEED: u64 = 20_261_127;
    let test = async {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("namespace.yaml");
        let queues =
            "queues:\n- {name: queue1, lock_duration: 1 s, maximum_delivery_count: 100}\n- {name: queue2}\n";
        std::fs::write(&config, queues).unwrap();
        let data = folder.path().join("data");
        let arguments =
            ["--config", config.to_str().unwrap(), "--data-dir", data.to_str().unwrap(), "--sync", "always"];
        let mut serving = Serving::start(&arguments);
        let mut way = Switch::to(address(&serving));
        let mut string: ConnectionString = serving.announced("namespace").parse().unwrap();
        string.endpoint = Endpoint::new("127.0.0.1", Some(way.address().port())).unwrap();
        write_pipeline(folder.path(), &string);
        let mut random = Random::from_seed(SEED);
        let mut relay = Relaying::start(folder.path());
        for kill in 0..KILLS {
            let first = kill * 2 * PART;
            let completed = relay.count(COMPLETED).await;
            put(client(&string, "queue1"), first..first + PART).await;
            // It has found the service again. It may be as fast as the messages that come now.
            while relay.count(COMPLETED).await == completed {}
            let goal = relay.count(COMPLETED).await + random.below(u64::from(PART) / 2);
            put(client(&string, "queue1"), first + PART..first + 2 * PART).await;
            while relay.count(COMPLETED).await < goal {}
            if kill % 2 == 0 {
                assert_eq!(serving.end(Signal::KILL), None);
                serving = Serving::start(&arguments);
                way.lead_to(address(&serving)).await;
            } else {
                relay.kill().await;
                relay = Relaying::start(folder.path());
            }
        }
        let (reading, mut seen) = begin_reading(&string);
        finish(relay, &string, MESSAGES, &mut seen, SEED).await;
        reading.abort();
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

/// Counts what arrives, apart from the relay.
fn begin_reading(string: &ConnectionString) -> (JoinHandle<()>, watch::Receiver<HashMap<u32, u64>>) {
    let (show, seen) = watch::channel(HashMap::new());
    (tokio::spawn(read(client(string, "queue2"), show, count)), seen)
}

/// Lets the last relay finish its work, and looks at what has arrived: each message once.
async fn finish(
    mut relay: Relaying,
    string: &ConnectionString,
    messages: u32,
    seen: &mut watch::Receiver<HashMap<u32, u64>>,
    seed: u64,
) {
    let done = async {
        let all = |seen: &HashMap<u32, u64>| seen.len() == messages as usize;
        let _seen = seen.wait_for(all).await.unwrap();
        // What is still there would come again.
        empty(string, "queue1").await;
    };
    relay.until(done).await;
    let (status, said) = relay.terminate().await;
    assert_eq!(status.code(), Some(0), "{said}");
    empty(string, "queue2").await;
    let repeated: Vec<u32> =
        seen.borrow().iter().filter(|(_, times)| **times > 1).map(|(number, _)| *number).collect();
    assert!(
        repeated.is_empty(),
        "seed {seed}: {} came twice, such as {:?}",
        repeated.len(),
        repeated.first()
    );
    for queue in ["queue1/$DeadLetterQueue", "queue2/$DeadLetterQueue"] {
        assert_eq!(there(string, queue).await, 0, "{queue}");
    }
}

/// Waits until a queue has no message, locked or not.
async fn empty(string: &ConnectionString, queue: &str) {
    while there(string, queue).await > 0 {}
}

/// How many messages a queue has; one stands for all.
async fn there(string: &ConnectionString, queue: &str) -> usize {
    let mut browser = Browser::connect(client(string, queue)).await.unwrap();
    let messages = browser.peek(0, 1).await.unwrap().len();
    browser.close().await;
    messages
}

fn write_pipeline(folder: &Path, string: &ConnectionString) {
    let pipeline = format!(
        "source:\n  service_bus: {{connection_string: '{0}', queue: queue1, concurrency: 256}}\n\
         sink:\n  service_bus: {{connection_string: '{0}', queue: queue2}}\n\
         settlement: transactional\nmetrics: 127.0.0.1:0\n",
        string.reveal()
    );
    std::fs::write(folder.join(PIPELINE), pipeline).unwrap();
}
