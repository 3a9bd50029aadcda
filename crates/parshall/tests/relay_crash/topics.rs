//! A relay between topics of Kafka, under `kill -9` and stopped in good order: progress is committed offsets. What is delivered exactly once
//! is read as it has committed.

use std::collections::HashMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;

use access::ConnectionString;
use bytes::Bytes;
use connect::event::{Encoding, EventBatch, PartitionId};
use connect::kafka::{KafkaOptions, Properties, connect_sink, connect_source};
use connect::sink::{OutgoingBatch, SendToken};
use connect::source::{SourceEvent, SourceOptions, StartPosition};
use rustix::process::Signal;
use tokio::sync::watch;
use units::Random;

use super::rig::{PIPELINE, Relaying};
use super::{KILLS, PATIENCE, Rig, kill_at_random_moments, stop_and_start_again};
use crate::serving::Serving;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_topics_it_loses_nothing_and_repeats_what_was_not_committed() {
    let start = async |settings: &str| Rig::start_with_topics(settings).await;
    let (sent, duplicated) = kill_at_random_moments(20_261_123, start).await;
    // A commit takes a round trip, in which any number of batches may be done. Without commits each relay would begin anew, and repeat half of
    // everything.
    assert!(duplicated < sent * KILLS / 4, "{duplicated} duplicates of {sent} events");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_between_topics_and_started_again_it_neither_loses_nor_repeats() {
    stop_and_start_again(async |settings| Rig::start_with_topics(settings).await).await;
}

/// What a pipeline says that delivers exactly once. Partitions of the source share some of the destination, which has fewer.
const EXACTLY_ONCE: &str = "delivery: exactly-once\nroute: same-partition\nfan_out: 6\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_it_delivers_exactly_once_it_neither_loses_nor_repeats() {
    const SEED: u64 = 20_261_124;
    let test = async {
        let settings = format!("{EXACTLY_ONCE}batch: {{events: 40, wait: 2 ms}}\nprefetch: 400\n");
        let mut rig = Rig::start_with_topics(&settings).await;
        let mut random = Random::from_seed(SEED);
        for _ in 0..KILLS {
            let mut relay = rig.relay();
            // From the very first transaction that a relay has committed, to many later.
            let goal = rig.seen().received + 1 + random.below(6_000);
            rig.until(&mut relay, |seen| seen.received >= goal).await;
            relay.kill().await;
        }
        let (sends, sent) = rig.finish(rig.relay()).await;
        assert!(rig.held() > sent, "no kill left anything behind that was aborted");
        let verdict = rig.verdict(&sends).await;
        assert!(verdict.is_intact(), "seed {SEED}: {verdict:?}");
        assert_eq!((verdict.distinct, verdict.counts.duplicated), (sent, 0), "seed {SEED}: {verdict:?}");
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_while_it_delivers_exactly_once_it_neither_loses_nor_repeats() {
    stop_and_start_again(async |settings| {
        let settings = settings.replace("route: random\n", EXACTLY_ONCE).replace("in_flight: 4\n", "");
        Rig::start_with_topics(&settings).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_relay_with_the_same_transactional_id_stops_the_first() {
    let test = async {
        let mut rig = Rig::start_with_topics(EXACTLY_ONCE).await;
        let mut first = rig.relay();
        rig.until(&mut first, |seen| seen.distinct >= 1_000).await;
        let second = rig.relay();
        let (status, said) = first.end().await;
        assert_eq!(status.code(), Some(3), "{said}");
        assert!(said.contains("transactional id parshall/source"), "{said}");
        let (sends, sent) = rig.finish(second).await;
        let verdict = rig.verdict(&sends).await;
        assert_eq!((verdict.distinct, verdict.counts.duplicated), (sent, 0), "{verdict:?}");
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_service_that_is_killed_while_it_commits_neither_loses_nor_repeats() {
    const RESTARTS: u32 = 4;
    const PART: u32 = 2_500;
    const RECORDS: u32 = RESTARTS * 2 * PART;
    let test = async {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let serve = |kafka: &str| {
            let hubs = ["--hub", "source:4", "--hub", "destination:4"];
            let more = ["--kafka", kafka, "--data-dir", data.to_str().unwrap()];
            Serving::start(&[&hubs[..], &more[..]].concat())
        };
        let mut serving = serve("127.0.0.1:0");
        let address = kafka_address(&serving);
        write_pipeline(folder.path(), &serving, address);
        let mut relay = Relaying::start(folder.path());
        for restart in 0..RESTARTS {
            let source = topic(&serving, address, "source");
            let first = restart * 2 * PART;
            let completed = relay.count(COMPLETED).await;
            put(&source, first..first + PART).await;
            // It has found the service again, and is behind with what comes now.
            while relay.count(COMPLETED).await == completed {}
            put(&source, first + PART..first + 2 * PART).await;
            assert_eq!(serving.end(Signal::KILL), None);
            serving = serve(&address.to_string());
        }
        let (show, mut seen) = watch::channel(HashMap::new());
        let reading = tokio::spawn(read(topic(&serving, address, "destination"), show));
        let enough = async {
            let all = |seen: &HashMap<u32, u64>| seen.len() == RECORDS as usize;
            let _seen = seen.wait_for(all).await.unwrap();
        };
        relay.until(enough).await;
        let (status, said) = relay.terminate().await;
        assert_eq!(status.code(), Some(0), "{said}");
        reading.abort();
        let repeated = seen.borrow().values().filter(|times| **times > 1).count();
        assert_eq!(repeated, 0, "came twice");
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

fn kafka_address(serving: &Serving) -> SocketAddr {
    serving.announced("Kafka ").parse().unwrap()
}

fn write_pipeline(folder: &Path, serving: &Serving, kafka: SocketAddr) {
    let mut string: ConnectionString = serving.announced("namespace").parse().unwrap();
    string.endpoint = access::Endpoint::new("127.0.0.1", Some(kafka.port())).unwrap();
    let pipeline = format!(
        "source:\n  kafka: {{connection_string: '{0}', topic: source}}\n\
         sink:\n  kafka: {{connection_string: '{0}', topic: destination}}\n\
         delivery: exactly-once\nroute: same-partition\nbatch: {{events: 40, wait: 2 ms}}\nprefetch: 400\n\
         restart_after: 100 ms\nmetrics: 127.0.0.1:0\n",
        string.reveal()
    );
    std::fs::write(folder.join(PIPELINE), pipeline).unwrap();
}

fn topic(serving: &Serving, kafka: SocketAddr, topic: &str) -> KafkaOptions {
    let properties = Properties::default()
        .with("bootstrap.servers", kafka.to_string())
        .with("security.protocol", "sasl_plaintext")
        .with("sasl.username", "$ConnectionString")
        .with("sasl.password", serving.announced("namespace"));
    KafkaOptions::new(topic, properties)
}

/// Puts numbered records into all partitions in turn.
async fn put(to: &KafkaOptions, numbers: Range<u32>) {
    const AT_ONCE: u32 = 500;
    let mut sink = connect_sink(to).await.unwrap();
    let mut outcomes = Vec::new();
    let sends = numbers.len() / AT_ONCE as usize;
    for first in numbers.step_by(AT_ONCE as usize) {
        let mut batch = EventBatch::with_capacity(PartitionId(0), AT_ONCE as usize);
        for number in first..first + AT_ONCE {
            let tail = [KEY_AND_LENGTH, &number.to_be_bytes(), NO_HEADERS].concat();
            batch.push_message(&Bytes::from(tail), i64::from(number));
        }
        batch.set_encoding(Encoding::Kafka);
        let events: Vec<u32> = (0..AT_ONCE).collect();
        let outgoing = OutgoingBatch::new(first / AT_ONCE % sink.destinations(), &batch, &events);
        while sink.send(SendToken(u64::from(first)), outgoing).is_err() {
            poll_fn(|context| sink.poll_ready(context)).await.unwrap();
        }
        poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await.unwrap();
    }
    assert!(outcomes.len() == sends && outcomes.iter().all(|it| it.result.is_ok()));
}

/// Reads what has committed, and shows how often each number came.
async fn read(from: KafkaOptions, show: watch::Sender<HashMap<u32, u64>>) {
    let mut source = connect_source(&from, SourceOptions::default(), Encoding::Kafka).await.unwrap();
    for partition in source.partitions() {
        source.open(partition, StartPosition::Earliest);
    }
    loop {
        let event = poll_fn(|context| source.poll_batch(context)).await.unwrap();
        let SourceEvent::Batch(batch) = event else { panic!("partitions stay open: {event:?}") };
        show.send_modify(|seen| {
            for event in batch.events() {
                let value = batch.message(event).strip_prefix(KEY_AND_LENGTH).unwrap();
                let number = value.first_chunk().unwrap();
                *seen.entry(u32::from_be_bytes(*number)).or_default() += 1;
            }
        });
        source.release(batch);
    }
}

/// What stands before a value of four bytes in the tail of a record: that there is no key, and the length.
const KEY_AND_LENGTH: &[u8] = &[1, 8];

/// What stands behind it.
const NO_HEADERS: &[u8] = &[0];

/// Events that every sink has accepted, as far as the progress is known.
const COMPLETED: &str = "parshall_relay_completed_events_total";
