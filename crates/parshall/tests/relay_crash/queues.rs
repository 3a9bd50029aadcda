//! Relays between queues under `kill -9`, and under services that are killed: messages that were in work come again, and
//! nothing else comes twice or is lost.

use std::collections::HashMap;
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use access::{ConnectionString, Endpoint};
use bytes::Bytes;
use connect::event::{EventBatch, PartitionId};
use connect::service::ClientOptions;
use connect::service_bus::{ReceiveOptions, ServiceBusSink, ServiceBusSource};
use connect::sink::{OutgoingBatch, SendToken, SendUnit, Sink as _};
use connect::source::{Settlement, SettlingSource as _, Source as _, SourceEvent, StartPosition};
use hub::namespace::{NamespaceConfig, QueueConfig};
use hub::service::{Service, ServiceConfig};
use queue_store::QueueOptions;
use rustix::process::Signal;
use tokio::sync::watch;
use units::Random;

use super::PATIENCE;
use super::rig::{PIPELINE, Relaying};
use crate::serving::Serving;
use crate::switch::Switch;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_queues_it_loses_nothing_and_repeats_no_more_than_was_in_work() {
    const KILLS: u64 = 6;
    const CONCURRENCY: u64 = 64;
    const MESSAGES: u32 = 20_000;
    const SEED: u64 = 20_261_121;
    let test = async {
        let service = serve().await;
        let folder = tempfile::tempdir().unwrap();
        let string = service.connection_string(None);
        write_pipeline(folder.path(), &string, CONCURRENCY);
        put(client(&string, "queue1"), 0..MESSAGES).await;
        let (show, mut seen) = watch::channel(HashMap::new());
        let reading = tokio::spawn(read(client(&string, "queue2"), show, count));
        let mut random = Random::from_seed(SEED);
        for _ in 0..KILLS {
            let mut relay = Relaying::start(folder.path());
            let goal = seen.borrow().len() as u64 + 1 + random.below(2_000);
            let enough = async {
                let _seen = seen.wait_for(|seen| seen.len() as u64 >= goal).await.unwrap();
            };
            relay.until(enough).await;
            relay.kill().await;
        }
        // One more that may finish its work. What the last one had locked comes when the locks expire.
        let mut relay = Relaying::start(folder.path());
        let enough = async {
            let all = |seen: &HashMap<u32, u64>| seen.len() == MESSAGES as usize;
            let _seen = seen.wait_for(all).await.unwrap();
        };
        relay.until(enough).await;
        let redelivered = relay.count("parshall_relay_redelivered_events_total").await;
        let (status, said) = relay.terminate().await;
        assert_eq!(status.code(), Some(0), "{said}");
        reading.abort();
        let repeated: u64 = seen.borrow().values().map(|times| times - 1).sum();
        assert!(
            repeated <= KILLS * CONCURRENCY,
            "seed {SEED}: {repeated} came twice, more than were in work"
        );
        assert!(redelivered <= KILLS * CONCURRENCY, "{redelivered} had been delivered before");
        service.stop().await;
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_service_that_is_killed_under_a_relay_loses_nothing_on_the_way() {
    const KILLS: u32 = 4;
    const CONCURRENCY: u64 = 64;
    const PART: u32 = 1_000;
    const MESSAGES: u32 = KILLS * 2 * PART;
    let test = async {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let arguments = ["--queue", "queue1", "--queue", "queue2", "--data-dir"];
        let arguments = [&arguments[..], &[data.to_str().unwrap()]].concat();
        let mut serving = Serving::start(&arguments);
        let mut way = Switch::to(address(&serving));
        let mut string: ConnectionString = serving.announced("namespace").parse().unwrap();
        string.endpoint = Endpoint::new("127.0.0.1", Some(way.address().port())).unwrap();
        write_pipeline(folder.path(), &string, CONCURRENCY);
        let mut relay = Relaying::start(folder.path());
        for kill in 0..KILLS {
            let first = kill * 2 * PART;
            let completed = relay.count(COMPLETED).await;
            put(client(&string, "queue1"), first..first + PART).await;
            // It has found the service again, and is behind with what comes now.
            while relay.count(COMPLETED).await == completed {}
            put(client(&string, "queue1"), first + PART..first + 2 * PART).await;
            assert_eq!(serving.end(Signal::KILL), None);
            serving = Serving::start(&arguments);
            way.lead_to(address(&serving)).await;
        }
        let (show, mut seen) = watch::channel(HashMap::new());
        let reading = tokio::spawn(read(client(&string, "queue2"), show, count));
        let enough = async {
            let all = |seen: &HashMap<u32, u64>| seen.len() == MESSAGES as usize;
            let _seen = seen.wait_for(all).await.unwrap();
        };
        relay.until(enough).await;
        let (status, said) = relay.terminate().await;
        assert_eq!(status.code(), Some(0), "{said}");
        reading.abort();
        // What was sent and not answered is sent again, and what was not completed comes again.
        let repeated: u64 = seen.borrow().values().map(|times| times - 1).sum();
        assert!(
            repeated <= 2 * u64::from(KILLS) * CONCURRENCY,
            "{repeated} came twice, more than were in work"
        );
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

pub(super) fn address(serving: &Serving) -> SocketAddr {
    let string: ConnectionString = serving.announced("namespace").parse().unwrap();
    (Ipv4Addr::LOCALHOST, string.endpoint.port().unwrap()).into()
}

fn write_pipeline(folder: &Path, string: &ConnectionString, concurrency: u64) {
    let pipeline = format!(
        "source:\n  service_bus: {{connection_string: '{0}', queue: queue1, concurrency: {concurrency}}}\n\
         sink:\n  service_bus: {{connection_string: '{0}', queue: queue2}}\n\
         metrics: 127.0.0.1:0\n",
        string.reveal()
    );
    std::fs::write(folder.join(PIPELINE), pipeline).unwrap();
}

pub(super) async fn serve() -> Service {
    let options = QueueOptions { lock_duration: Duration::from_secs(1), ..QueueOptions::default() };
    let source = QueueConfig { options, ..QueueConfig::new("queue1") };
    let namespace = NamespaceConfig {
        queues: vec![source, QueueConfig::new("queue2")],
        ..NamespaceConfig::with_hubs(Vec::new())
    };
    Service::start(ServiceConfig::loopback(namespace)).await.unwrap()
}

pub(super) fn client(string: &ConnectionString, entity: &str) -> ClientOptions {
    ClientOptions::new(string.clone(), entity)
}

/// Puts messages of 12 bytes into a queue: their numbers.
pub(super) async fn put(options: ClientOptions, numbers: Range<u32>) {
    const AT_ONCE: u32 = 1_000;
    let mut sink = ServiceBusSink::connect(options, SendUnit::Batch).await.unwrap();
    let mut outcomes = Vec::new();
    for first in numbers.step_by(AT_ONCE as usize) {
        let mut batch = EventBatch::with_capacity(PartitionId(0), AT_ONCE as usize);
        for number in first..first + AT_ONCE {
            let payload = format!("{number:012}");
            let message = [DATA_SECTION, payload.as_bytes()].concat();
            batch.push_message(&Bytes::from(message), i64::from(number));
        }
        let events: Vec<u32> = (0..AT_ONCE).collect();
        let outgoing = OutgoingBatch::new(0, &batch, &events);
        sink.send(SendToken(u64::from(first)), outgoing).unwrap();
        poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await.unwrap();
    }
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
}

/// Receives and completes, and notes each payload in what it shows.
pub(super) async fn read<T>(options: ClientOptions, show: watch::Sender<T>, note: fn(&mut T, &str)) {
    let receive = ReceiveOptions { concurrency: 1_000, ..ReceiveOptions::default() };
    let mut source = ServiceBusSource::connect(options, receive).await.unwrap();
    source.open(PartitionId(0), StartPosition::Earliest);
    loop {
        let SourceEvent::Batch(batch) = poll_fn(|context| source.poll_batch(context)).await.unwrap() else {
            continue;
        };
        show.send_modify(|shown| {
            for event in batch.events() {
                // The service may have given it a name, which comes before.
                let (_, payload) = batch.message(event).split_last_chunk::<PAYLOAD>().unwrap();
                note(shown, std::str::from_utf8(payload).unwrap());
            }
        });
        let all: Vec<u32> = (0..batch.len() as u32).collect();
        source.settle(&batch, &all, Settlement::Complete);
        source.release(batch);
    }
}

/// How often each number came.
pub(super) fn count(seen: &mut HashMap<u32, u64>, payload: &str) {
    *seen.entry(payload.parse().unwrap()).or_default() += 1;
}

/// Every payload has so many digits or letters.
pub(super) const PAYLOAD: usize = 12;

/// What precedes a payload of 12 bytes.
const DATA_SECTION: &[u8] = b"\x00\x53\x75\xa0\x0c";

/// Messages that a relay has brought from one queue to the other.
pub(super) const COMPLETED: &str = "parshall_relay_settled_messages_total{result=\"completed\"}";
