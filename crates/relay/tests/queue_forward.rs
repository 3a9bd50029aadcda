//! From queue to queue of the embedded service, with the real clients: what arrives, what is settled, and what becomes of
//! messages whose forward or lock fails.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

use std::collections::HashMap;
use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use connect::event::{EventBatch, PartitionId};
use connect::service::ClientOptions;
use connect::service_bus::{Entity, ReceiveOptions, ServiceBusSink, ServiceBusSource};
use connect::sink::{OutgoingBatch, SendToken, SendUnit, Sink};
use connect::source::{Settlement, SettlingSource as _, Source, SourceEvent, StartPosition};
use hub::namespace::{NamespaceConfig, QueueConfig, SubscriptionConfig, TopicConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use queue_store::{QueueOptions, TopicOptions};
use relay::metrics::Metrics;
use relay::{Ended, Relay, SettlingOptions, Summary};

/// A service with the queues `queue1` and `queue2`.
async fn serve(options: QueueOptions) -> Service {
    let queue = |name: &str| QueueConfig { options: options.clone(), ..QueueConfig::new(name) };
    let namespace = NamespaceConfig {
        queues: vec![queue("queue1"), queue("queue2")],
        ..NamespaceConfig::with_hubs(Vec::new())
    };
    Service::start(ServiceConfig::loopback(namespace)).await.unwrap()
}

fn client(service: &Service, entity: &str) -> ClientOptions {
    ClientOptions::new(service.connection_string(None), entity)
}

async fn source(service: &Service, entity: &str, concurrency: u32) -> ServiceBusSource {
    let receive = ReceiveOptions { concurrency, ..ReceiveOptions::default() };
    ServiceBusSource::connect(client(service, entity), receive).await.unwrap()
}

/// Puts messages into `queue1` whose payloads are their numbers.
async fn put(service: &Service, numbers: std::ops::Range<u32>) {
    put_into(service, "queue1", numbers).await;
}

/// The same with another entity.
async fn put_into(service: &Service, entity: &str, numbers: std::ops::Range<u32>) {
    let options = client(service, entity);
    let mut sink = ServiceBusSink::connect(options, SendUnit::Batch).await.unwrap();
    let mut batch = EventBatch::with_capacity(PartitionId(0), numbers.len());
    for number in numbers {
        let payload = format!("{number:012}");
        let message = [DATA_SECTION, payload.as_bytes()].concat();
        batch.push_message(&Bytes::from(message), i64::from(number));
    }
    let events: Vec<u32> = (0..batch.len() as u32).collect();
    let outgoing = OutgoingBatch::new(0, &batch, &events);
    sink.send(SendToken(0), outgoing).unwrap();
    let mut outcomes = Vec::new();
    poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await.unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
}

/// Takes `count` messages out of `queue2`, and says how often each number was there.
async fn take(service: &Service, count: usize) -> HashMap<u32, u32> {
    take_from(service, "queue2", count).await
}

/// The same with another entity.
async fn take_from(service: &Service, entity: &str, count: usize) -> HashMap<u32, u32> {
    let mut source = source(service, entity, 500).await;
    source.open(PartitionId(0), StartPosition::Earliest);
    let mut seen = HashMap::new();
    let mut taken = 0;
    while taken < count {
        let event = poll_fn(|context| source.poll_batch(context));
        let event = tokio::time::timeout(PATIENCE, event).await.expect("there are messages");
        let SourceEvent::Batch(batch) = event.unwrap() else {
            continue;
        };
        for event in batch.events() {
            // The service may have given it a name, which comes before.
            let (_, payload) = batch.message(event).split_last_chunk::<12>().unwrap();
            let number: u32 = std::str::from_utf8(payload).unwrap().parse().unwrap();
            *seen.entry(number).or_default() += 1;
            taken += 1;
        }
        let all: Vec<u32> = (0..batch.len() as u32).collect();
        source.settle(&batch, &all, Settlement::Complete);
        source.release(batch);
    }
    seen
}

/// Relays until the metrics say that it is enough.
async fn relay(
    service: &Service,
    concurrency: u32,
    options: SettlingOptions,
    enough: impl Fn(&Metrics) -> bool,
) -> Summary {
    let receive = ReceiveOptions { concurrency, ..ReceiveOptions::default() };
    let [from, to] = ["queue1", "queue2"].map(|entity| client(service, entity));
    relay_between(from, receive, to, options, enough).await
}

/// The same between any two entities.
async fn relay_between(
    from: ClientOptions,
    receive: ReceiveOptions,
    to: ClientOptions,
    options: SettlingOptions,
    enough: impl Fn(&Metrics) -> bool,
) -> Summary {
    let source = ServiceBusSource::connect(from, receive).await.unwrap();
    let sink = ServiceBusSink::connect(to, SendUnit::Event).await.unwrap();
    let relay = Relay::settling(options, Box::new(source), vec![Box::new(sink)]).unwrap();
    let handle = relay.metrics_handle();
    let shutdown = async {
        while !enough(&handle.metrics().await.unwrap()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, relay.run(shutdown)).await.expect("the relay comes to its end").unwrap()
}

#[tokio::test]
async fn every_message_is_forwarded_once_and_completed() {
    let service = serve(QueueOptions::default()).await;
    put(&service, 0..2_000).await;
    let options = SettlingOptions::default();
    let summary = relay(&service, 256, options, |metrics| metrics.confirmed_events == 2_000).await;
    assert_eq!(summary.ended, Ended::Finished);
    let metrics = summary.metrics;
    assert_eq!((metrics.forwarded_events, metrics.redelivered_events), (2_000, 0));
    assert_eq!((metrics.lock_lost_events, metrics.unsettled_events), (0, 0));
    let seen = take(&service, 2_000).await;
    assert_eq!(seen.len(), 2_000);
    assert!(seen.values().all(|&times| times == 1));
}

#[tokio::test]
async fn a_message_that_fails_its_check_comes_again_until_it_is_forwarded() {
    let service = serve(QueueOptions { maximum_delivery_count: 1_000, ..QueueOptions::default() }).await;
    put(&service, 0..500).await;
    let options = SettlingOptions { failure_ratio: 0.2, ..SettlingOptions::default() };
    let summary = relay(&service, 32, options, |metrics| metrics.confirmed_events == 500).await;
    let metrics = summary.metrics;
    assert!(metrics.abandoned_events > 50);
    assert_eq!(metrics.redelivered_events, metrics.abandoned_events);
    assert_eq!(take(&service, 500).await.len(), 500);
}

#[tokio::test]
async fn a_relay_that_stops_leaves_every_message_forwarded_or_available() {
    let service = serve(QueueOptions::default()).await;
    put(&service, 0..1_000).await;
    let options = SettlingOptions::default();
    let first = relay(&service, 64, options.clone(), |metrics| metrics.confirmed_events > 0).await;
    assert_eq!(first.ended, Ended::Finished);
    let forwarded = first.metrics.confirmed_events;
    let rest = 1_000 - forwarded;
    let second = relay(&service, 64, options, |metrics| metrics.confirmed_events == rest).await;
    assert_eq!(second.metrics.redelivered_events, 0, "what was given back does not count");
    let seen = take(&service, 1_000).await;
    assert_eq!(seen.len(), 1_000);
}

#[tokio::test]
async fn a_lock_that_expires_with_its_receiver_is_a_redelivery() {
    let service =
        serve(QueueOptions { lock_duration: Duration::from_millis(300), ..QueueOptions::default() }).await;
    put(&service, 0..10).await;
    let mut lost = source(&service, "queue1", 10).await;
    lost.open(PartitionId(0), StartPosition::Earliest);
    let event = poll_fn(|context| lost.poll_batch(context)).await.unwrap();
    let SourceEvent::Batch(batch) = event else { panic!("a batch, not {event:?}") };
    let locked = batch.len() as u64;
    // As if it had been killed: nothing is said to the service.
    drop(lost);
    let options = SettlingOptions::default();
    let summary = relay(&service, 10, options, |metrics| metrics.confirmed_events == 10).await;
    assert!(summary.metrics.redelivered_events >= locked.min(1));
    assert_eq!(take(&service, 10).await.len(), 10);
}

#[tokio::test]
async fn what_is_prefetched_is_forwarded_once_and_completed() {
    let service = serve(QueueOptions::default()).await;
    put(&service, 0..2_000).await;
    let receive = ReceiveOptions { concurrency: 8, prefetch: 300, ..ReceiveOptions::default() };
    let [from, to] = ["queue1", "queue2"].map(|entity| client(&service, entity));
    let options = SettlingOptions::default();
    let summary =
        relay_between(from, receive, to, options, |metrics| metrics.confirmed_events == 2_000).await;
    assert_eq!(summary.ended, Ended::Finished);
    let metrics = summary.metrics;
    assert_eq!((metrics.forwarded_events, metrics.redelivered_events), (2_000, 0));
    assert_eq!(take(&service, 2_000).await.len(), 2_000);
}

#[tokio::test]
async fn a_subscription_is_forwarded_and_another_keeps_its_copies() {
    let subscription = |name: &str| SubscriptionConfig {
        name: name.to_owned(),
        options: QueueOptions::default(),
        rules: None,
    };
    let namespace = NamespaceConfig {
        topics: vec![TopicConfig {
            name: "topic".to_owned(),
            options: TopicOptions::default(),
            subscriptions: vec![subscription("forwarded"), subscription("kept")],
        }],
        queues: vec![QueueConfig::new("queue2")],
        ..NamespaceConfig::with_hubs(Vec::new())
    };
    let service = Service::start(ServiceConfig::loopback(namespace)).await.unwrap();
    put_into(&service, "topic", 0..1_000).await;
    let entity = Entity::Subscription { topic: "topic".to_owned(), name: "forwarded".to_owned() };
    let from = client(&service, &entity.address());
    let receive = ReceiveOptions::default();
    let to = client(&service, "queue2");
    let options = SettlingOptions::default();
    let summary =
        relay_between(from, receive, to, options, |metrics| metrics.confirmed_events == 1_000).await;
    assert_eq!(summary.ended, Ended::Finished);
    let seen = take(&service, 1_000).await;
    assert!(seen.len() == 1_000 && seen.values().all(|&times| times == 1));
    let kept = take_from(&service, "topic/Subscriptions/kept", 1_000).await;
    assert_eq!(kept.len(), 1_000);
}

#[tokio::test]
async fn queues_are_forwarded_over_tls() {
    let directory = tempfile::tempdir().unwrap();
    let tls = hub::tls::development(directory.path(), "127.0.0.1").unwrap();
    let namespace = NamespaceConfig {
        queues: vec![QueueConfig::new("queue1"), QueueConfig::new("queue2")],
        ..NamespaceConfig::with_hubs(Vec::new())
    };
    let config = ServiceConfig::loopback(namespace).and_tls(Protocol::Amqp, tls.server);
    let service = Service::start(config).await.unwrap();
    put(&service, 0..2_000).await;
    let [from, to] = ["queue1", "queue2"].map(|entity| ClientOptions {
        certificate_authority: Some(tls.authority.clone()),
        ..ClientOptions::new(service.tls_connection_string(None).unwrap(), entity)
    });
    let receive = ReceiveOptions::default();
    let options = SettlingOptions::default();
    let summary =
        relay_between(from, receive, to, options, |metrics| metrics.confirmed_events == 2_000).await;
    assert_eq!(summary.ended, Ended::Finished);
    let seen = take(&service, 2_000).await;
    assert!(seen.len() == 2_000 && seen.values().all(|&times| times == 1));
}

const PATIENCE: Duration = Duration::from_secs(60);

/// What precedes a payload of 12 bytes.
const DATA_SECTION: &[u8] = b"\x00\x53\x75\xa0\x0c";
