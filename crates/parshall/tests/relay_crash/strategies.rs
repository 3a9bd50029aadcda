//! A relay that takes each event to a topic, a container and a folder, under `kill -9`: with every strategy each event is in
//! all three, and comes to the topic again only if no checkpoint covered it when the relay was killed.
//!
//! After each kill a message is put into the topic that says which one it was: what comes before it the killed relay has sent,
//! and what comes behind it another one, but for the few sends that were on their way.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::poll_fn;
use std::path::Path;

use access::storage::{StorageConnectionString, StorageCredential, StorageRequest};
use bytes::Bytes;
use connect::checkpoint::{CheckpointStore as _, ConsumerGroup, FileCheckpointStore};
use connect::event::{EventBatch, PartitionId};
use connect::event_hubs::{EventHubsOptions, Publisher};
use connect::service::ClientOptions;
use connect::service_bus::ServiceBusSink;
use connect::sink::{OutgoingBatch, SendToken, SendUnit, Sink as _};
use hub::namespace::{HubConfig, NamespaceConfig, TopicConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use units::Random;

use super::PATIENCE;
use super::queues::{PAYLOAD, read};
use super::rig::{PIPELINE, Relaying};

/// How often the relay is killed.
const KILLS: u32 = 24;

const PARTITIONS: u32 = 2;

/// Events of each partition.
const EVENTS: u32 = 800;

/// Events that are in work at once, at most.
const IN_WORK: u32 = 32;

/// What a message of the topic is, in its 12 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Arrival {
    Event(Place),
    Kill(u32),
}

/// Where an event is in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    partition: u32,
    number: u32,
}

/// How far the checkpoint of each partition is.
type Covered = BTreeMap<u32, i64>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_moments_no_strategy_loses_anything_and_none_repeats_what_was_covered() {
    const SEED: u64 = 20_261_124;
    let test = async {
        let service = serve().await;
        let folder = tempfile::tempdir().unwrap();
        publish(&service).await;
        let (show, mut arrivals) = watch::channel(Vec::new());
        let reading = tokio::spawn(read(client(&service, "verified/Subscriptions/all"), show, note));
        let mut marker =
            ServiceBusSink::connect(client(&service, "verified"), SendUnit::Batch).await.unwrap();
        let mut random = Random::from_seed(SEED);
        let mut covered = Vec::new();
        for kill in 0..KILLS {
            write_pipeline(folder.path(), &service, &strategy(&mut random));
            let mut relay = Relaying::start(folder.path());
            let goal = distinct(&arrivals.borrow()) + 1 + random.below(50) as usize;
            relay.until(until_distinct(&mut arrivals, goal.min(all().count()))).await;
            relay.kill().await;
            covered.push(checkpoints(&service, folder.path()).await);
            mark(&mut marker, kill).await;
        }
        // One more that may finish its work.
        write_pipeline(folder.path(), &service, "{strategy: parallel, events: 32}");
        let mut relay = Relaying::start(folder.path());
        relay.until(until_distinct(&mut arrivals, all().count())).await;
        let (status, said) = relay.terminate().await;
        assert_eq!(status.code(), Some(0), "{said}");

        // All that was sent to the topic has come when this has.
        mark(&mut marker, KILLS).await;
        let last = |arrivals: &Vec<Arrival>| arrivals.contains(&Arrival::Kill(KILLS));
        let arrivals = arrivals.wait_for(last).await.unwrap().clone();
        reading.abort();
        check_repetitions(&arrivals, &covered);
        check_folder(&folder.path().join("archive/orders"));
        check_container(&service.storage_connection_string().unwrap()).await;
        service.stop().await;
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

/// What came again was covered by no checkpoint when a relay was killed that had sent it, and is no more than that.
fn check_repetitions(arrivals: &[Arrival], covered: &[Covered]) {
    let (mut seen, mut killed) = (BTreeSet::new(), None);
    let (mut repeated, mut bound) = (0, 0);
    for arrival in arrivals {
        match *arrival {
            Arrival::Kill(kill) => {
                killed = covered.get(kill as usize);
                let is_uncovered = |place: &&Place| killed.is_some_and(|covered| !covers(covered, **place));
                // What was on its way may have come behind the mark.
                bound += seen.iter().filter(is_uncovered).count() + IN_WORK as usize;
            }
            Arrival::Event(place) => {
                repeated += usize::from(!seen.insert(place));
                if let Some(covered) = killed {
                    assert!(!covers(covered, place), "{place} came again though it was covered");
                }
            }
        }
    }
    assert_eq!(seen.len(), all().count(), "what is in the topic");
    assert!(repeated <= bound, "{repeated} came again, more than the {bound} that no checkpoint covered");
}

fn covers(covered: &Covered, place: Place) -> bool {
    covered.get(&place.partition).is_some_and(|&number| i64::from(place.number) <= number)
}

/// Each event is a file, and nothing else is. What begins with a dot is no file yet.
fn check_folder(folder: &Path) {
    let mut found = BTreeSet::new();
    for partition in 0..PARTITIONS {
        for entry in std::fs::read_dir(folder.join(partition.to_string())).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if !name.starts_with('.') {
                let place = Place { partition, number: name.parse().unwrap() };
                assert_eq!(std::fs::read(&path).unwrap(), place.to_string().as_bytes(), "{name}");
                found.insert(place);
            }
        }
    }
    assert!(found.into_iter().eq(all()), "what is in the folder");
}

/// Each event is a blob.
async fn check_container(storage: &StorageConnectionString) {
    let (authority, account) =
        storage.blob_endpoint.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let StorageCredential::Key(key) = &storage.credential else { panic!("a key") };
    let mut stream = TcpStream::connect(authority).await.unwrap();
    let date = units::date::http_date(std::time::SystemTime::now());
    let headers = [("x-ms-date", date.as_str()), ("x-ms-version", "2021-12-02")];
    for place in all() {
        let path = format!("/{account}/archive/orders/{}/{}", place.partition, place.number);
        let signed = StorageRequest { method: "GET", path: &path, query: &[], headers: &headers };
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nAuthorization: {}\r\nx-ms-date: {date}\r\n\
             x-ms-version: 2021-12-02\r\n\r\n",
            key.authorization(&signed)
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let body = loop {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "the service closes the connection");
            let end = answer.windows(4).position(|window| window == b"\r\n\r\n").map(|end| end + 4);
            assert!(answer.len() < 12 || &answer[9..12] == b"200", "{place}: {}", answer.escape_ascii());
            if let Some(end) = end.filter(|end| answer.len() >= end + PAYLOAD) {
                break &answer[end..];
            }
        };
        assert_eq!(body, place.to_string().as_bytes());
    }
}

/// All events, in order.
fn all() -> impl Iterator<Item = Place> {
    (0..PARTITIONS).flat_map(|partition| (0..EVENTS).map(move |number| Place { partition, number }))
}

fn distinct(arrivals: &[Arrival]) -> usize {
    let events = arrivals.iter().filter(|arrival| matches!(arrival, Arrival::Event(_)));
    events.collect::<BTreeSet<_>>().len()
}

async fn until_distinct(arrivals: &mut watch::Receiver<Vec<Arrival>>, count: usize) {
    let _arrivals = arrivals.wait_for(|arrivals| distinct(arrivals) >= count).await.unwrap();
}

/// What a pipeline says of its dispatch.
fn strategy(random: &mut Random) -> String {
    let several = ["parallel-events", "parallel"];
    match random.below(4) {
        0 => "serial".to_owned(),
        1 => "parallel-sinks".to_owned(),
        which => {
            let events = match random.below(4) {
                0 => "adaptive".to_owned(),
                _ => (1 + random.below(u64::from(IN_WORK))).to_string(),
            };
            let order = ["none", "partition", "key"][random.below(3) as usize];
            format!("{{strategy: {}, events: {events}, order: {order}}}", several[which as usize - 2])
        }
    }
}

fn write_pipeline(folder: &Path, service: &Service, dispatch: &str) {
    let pipeline = format!(
        "source:\n  event_hubs: {{connection_string: '{0}', hub: orders}}\n\
         sinks:\n\
         - service_bus: {{connection_string: '{0}', topic: verified}}\n\
         - archive:\n    \
             to: {{blob: {{connection_string: '{1}', container: archive, create: true}}}}\n    \
             files: per-event\n\
         - archive: {{to: {{folder: ./archive}}, files: per-event}}\n\
         dispatch: {dispatch}\n\
         batch: {{events: 10, wait: 2 ms}}\n\
         checkpoint: {{store: {{files: ./checkpoints}}}}\n",
        service.connection_string(None).reveal(),
        service.storage_connection_string().unwrap().reveal(),
    );
    std::fs::write(folder.join(PIPELINE), pipeline).unwrap();
}

async fn serve() -> Service {
    let namespace = NamespaceConfig {
        topics: vec![TopicConfig::new("verified", ["all"])],
        ..NamespaceConfig::with_hubs(vec![HubConfig::new("orders", PARTITIONS as u16)])
    };
    Service::start(ServiceConfig::loopback(namespace).and(Protocol::Blob)).await.unwrap()
}

fn client(service: &Service, entity: &str) -> ClientOptions {
    ClientOptions::new(service.connection_string(None), entity)
}

/// Publishes all events, numbered as the hub does.
async fn publish(service: &Service) {
    let options = EventHubsOptions::new(service.connection_string(None), Some("orders")).unwrap();
    let mut publisher = Publisher::connect(options).await.unwrap();
    for partition in 0..PARTITIONS {
        let fill = |number: usize, payload: &mut [u8]| {
            let place = Place { partition, number: number as u32 };
            payload.copy_from_slice(place.to_string().as_bytes());
        };
        let token = SendToken(u64::from(partition));
        publisher.publish_payloads(token, partition, EVENTS as usize, PAYLOAD, fill).unwrap();
    }
    let mut outcomes = Vec::new();
    while outcomes.len() < PARTITIONS as usize {
        poll_fn(|context| publisher.poll_outcomes(context, &mut outcomes)).await.unwrap();
    }
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()), "{outcomes:?}");
}

/// What the relays have written so far. None runs.
async fn checkpoints(service: &Service, folder: &Path) -> Covered {
    let connection_string = service.connection_string(None);
    let group = ConsumerGroup::new(connection_string.endpoint.host(), "orders", "$Default");
    let store = FileCheckpointStore::open(folder.join("checkpoints")).unwrap();
    let checkpoints = store.list_checkpoints(&group).await.unwrap();
    let covered = checkpoints.into_iter();
    covered.filter_map(|checkpoint| Some((checkpoint.partition.0, checkpoint.sequence_number?))).collect()
}

/// Puts a message into the topic that says that a relay was killed.
async fn mark(sink: &mut ServiceBusSink, kill: u32) {
    let message = [DATA_SECTION, format!("kill{kill:08}").as_bytes()].concat();
    let mut batch = EventBatch::with_capacity(PartitionId(0), 1);
    batch.push_message(&Bytes::from(message), i64::from(kill));
    sink.send(SendToken(u64::from(kill)), OutgoingBatch::new(0, &batch, &[0])).unwrap();
    let mut outcomes = Vec::new();
    poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await.unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()), "{outcomes:?}");
}

/// What came, in order.
fn note(arrivals: &mut Vec<Arrival>, payload: &str) {
    arrivals.push(arrival(payload));
}

fn arrival(payload: &str) -> Arrival {
    match payload.strip_prefix("kill") {
        Some(kill) => Arrival::Kill(kill.parse().unwrap()),
        None => {
            let (partition, number) = payload.split_at(4);
            Arrival::Event(Place { partition: partition.parse().unwrap(), number: number.parse().unwrap() })
        }
    }
}

/// As an event says it of itself.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}{:08}", self.partition, self.number)
    }
}

/// What precedes them.
const DATA_SECTION: &[u8] = b"\x00\x53\x75\xa0\x0c";
