//! The producer against the embedded service: what is acknowledged is there, over every protocol and in every way of
//! buffering, and what is not is known.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use connect::event_hubs::{EventHubsOptions, EventHubsSource};
use connect::kafka::{KafkaOptions, Properties};
use connect::producer::{
    Batching, Buffering, Connections, Fate, NewEvent, Producer, ProducerOptions, ProducerTarget,
    PropertyValue,
};
use connect::retry::RetryPolicy;
use connect::source::{Source, SourceEvent, SourceOptions, StartPosition};
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Protocol, Service, ServiceConfig};

async fn serve() -> Service {
    let namespace = NamespaceConfig::with_hubs(vec![HubConfig::new(HUB, 3)]);
    Service::start(ServiceConfig::loopback(namespace).and(Protocol::Kafka)).await.unwrap()
}

fn hub(service: &Service) -> EventHubsOptions {
    let mut options = EventHubsOptions::new(service.connection_string(None), Some(HUB)).unwrap();
    options.reconnect = RetryPolicy { delay: Duration::from_millis(1), ..options.reconnect };
    options
}

fn topic(service: &Service) -> KafkaOptions {
    let address = service.address(Protocol::Kafka).unwrap().to_string();
    let password = service.connection_string(None).reveal();
    let properties = [
        ("bootstrap.servers", address.as_str()),
        ("security.protocol", "sasl_plaintext"),
        ("sasl.username", "$ConnectionString"),
        ("sasl.password", password.as_str()),
    ];
    KafkaOptions::new(HUB, properties.into_iter().collect::<Properties>())
}

fn targets(service: &Service) -> [ProducerTarget; 2] {
    [ProducerTarget::EventHubs(hub(service)), ProducerTarget::Kafka(topic(service))]
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it comes in time")
}

/// So many events of the hub: body, and where it is.
async fn received(service: &Service, count: usize) -> Vec<(String, u32)> {
    let mut source =
        EventHubsSource::connect(hub(service), "$Default", SourceOptions::default()).await.unwrap();
    for partition in source.partitions() {
        source.open(partition, StartPosition::Earliest);
    }
    let mut received = Vec::new();
    while received.len() < count {
        let SourceEvent::Batch(batch) = within(poll_fn(|context| source.poll_batch(context))).await.unwrap()
        else {
            panic!("a batch");
        };
        for event in batch.events() {
            let view = amqp::message::MessageView::parse(batch.message(event)).unwrap();
            let body = view.data().unwrap().unwrap();
            received.push((String::from_utf8(body.to_vec()).unwrap(), batch.partition().0));
        }
        source.release(batch);
    }
    received
}

/// Sends so many events at the same time.
async fn send_all(producer: &Arc<Producer>, count: usize) {
    let sends: Vec<_> = (0..count)
        .map(|number| {
            let producer = Arc::clone(producer);
            tokio::spawn(async move {
                let body = format!("event {number}");
                let properties = [("number", PropertyValue::Integer(number as i64))];
                let event = NewEvent { properties: &properties, ..NewEvent::new(body.as_bytes()) };
                producer.send(&event).await
            })
        })
        .collect();
    for send in sends {
        within(send).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn what_is_acknowledged_is_there_in_whatever_way_it_was_sent() {
    let pool = Connections::Pooled(NonZeroU32::new(3).unwrap());
    for connections in [Connections::Single, pool, Connections::PerEvent] {
        for buffering in
            [Buffering::None, Buffering::Safe(Batching::default()), Buffering::Unsafe(Batching::default())]
        {
            let service = serve().await;
            for target in targets(&service) {
                let name = format!("{connections:?} {buffering:?} {target:?}");
                let options = ProducerOptions { connections, buffering, ..ProducerOptions::default() };
                let producer = Arc::new(within(Producer::connect(target, options)).await.unwrap());
                send_all(&producer, EVENTS).await;
                within(producer.flush()).await;
                let statistics = within(Arc::into_inner(producer).unwrap().close()).await;
                assert_eq!((statistics.acknowledged, statistics.lost_events()), (EVENTS as u64, 0), "{name}");
                let kept = u64::from(connections == Connections::PerEvent) * EVENTS as u64;
                assert_eq!(statistics.isolated_connections, kept, "{name}");
            }
            let received = received(&service, 2 * EVENTS).await;
            let different: BTreeSet<_> = received.iter().map(|(body, _)| body.clone()).collect();
            assert_eq!((received.len(), different.len()), (2 * EVENTS, EVENTS));
            service.stop().await;
        }
    }
}

#[tokio::test]
async fn calls_that_are_made_together_share_a_batch() {
    let service = serve().await;
    let options =
        ProducerOptions { buffering: Buffering::Safe(Batching::default()), ..ProducerOptions::default() };
    let producer = Producer::connect(ProducerTarget::EventHubs(hub(&service)), options).await.unwrap();
    let producer = Arc::new(producer);
    for _ in 0..5 {
        send_all(&producer, 100).await;
    }
    let statistics = producer.statistics();
    assert_eq!((statistics.acknowledged, statistics.sends), (500, 5), "a batch for each hundred");
    service.stop().await;
}

#[tokio::test]
async fn a_batch_of_the_callers_own_is_one_send_to_one_partition() {
    let service = serve().await;
    for target in targets(&service) {
        let producer = within(Producer::connect(target, ProducerOptions::default())).await.unwrap();
        let mut batch = producer.batch(Some(2), None).unwrap();
        let mut count = 0;
        let body = "x".repeat(4_000);
        while batch.push(&NewEvent::new(body.as_bytes())).unwrap() {
            count += 1;
        }
        assert_eq!(batch.len(), count);
        assert!((200..300).contains(&count), "as many as fit into 1 MiB: {count}");
        within(producer.send_batch(batch)).await.unwrap();
        let statistics = within(producer.close()).await;
        assert_eq!((statistics.acknowledged, statistics.sends), (count as u64, 1));
        let received = received(&service, count).await;
        assert!(received.iter().all(|(_, partition)| *partition == 2));
    }
    service.stop().await;
}

/// Programs have thousands of calls under way.
#[tokio::test]
async fn a_call_needs_little_memory() {
    let service = serve().await;
    let target = ProducerTarget::EventHubs(hub(&service));
    let producer = within(Producer::connect(target, ProducerOptions::default())).await.unwrap();
    let event = NewEvent::new(b"body");
    let size = size_of_val(&producer.send(&event));
    assert!(size <= 1024, "{size} bytes");
    producer.close().await;
}

#[tokio::test]
async fn events_that_cannot_be_sent_are_refused_before_they_leave() {
    let service = serve().await;
    for target in targets(&service) {
        let producer = within(Producer::connect(target, ProducerOptions::default())).await.unwrap();
        let large = vec![0; 1024 * 1024];
        let failure = within(producer.send(&NewEvent::new(&large))).await.unwrap_err();
        assert_eq!((failure.fate, failure.condition.as_str()), (Fate::NotSent, "producer:too-large"));
        let nowhere = NewEvent { partition: Some(3), ..NewEvent::default() };
        assert!(within(producer.send(&nowhere)).await.is_err());
        within(producer.send(&NewEvent::new(b"but this"))).await.unwrap();
        assert_eq!(within(producer.close()).await.acknowledged, 1);
    }
    service.stop().await;
}

#[tokio::test]
async fn a_service_that_stops_leaves_nobody_waiting_and_nothing_uncounted() {
    for buffering in [Buffering::None, Buffering::Unsafe(Batching::default())] {
        let service = serve().await;
        let producer = Producer::connect(
            ProducerTarget::EventHubs(hub(&service)),
            ProducerOptions {
                buffering,
                timeout: Duration::from_millis(300),
                retry: RetryPolicy { attempts: 1, ..RetryPolicy::default() },
                ..ProducerOptions::default()
            },
        );
        let producer = within(producer).await.unwrap();
        service.stop().await;
        let after = within(producer.send(&NewEvent::new(b"after"))).await;
        let statistics = within(producer.close()).await;
        let is_waited_for = buffering == Buffering::None;
        assert_eq!(after.is_err(), is_waited_for);
        assert_eq!((statistics.acknowledged, statistics.lost_events()), (0, u64::from(!is_waited_for)));
    }
}

const HUB: &str = "events";
const EVENTS: usize = 40;
