//! From the text of a pipeline to a relay that runs, between entities of the embedded service.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

use std::future::poll_fn;
use std::path::Path;
use std::time::Duration;

use access::{ConnectionString, TransportSecurity};
use bytes::Bytes;
use connect::event::{EventBatch, PartitionId};
use connect::event_hubs::{Destination, EventHubsOptions, Publisher};
use connect::service::ClientOptions;
use connect::service_bus::ServiceBusSink;
use connect::sink::{OutgoingBatch, SendToken, SendUnit, Sink as _};
use hub::namespace::{HubConfig, NamespaceConfig, QueueConfig, SubscriptionConfig, TopicConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use pipeline::{ConnectError, PipelineConfig};
use queue_store::{QueueOptions, TopicOptions};
use relay::metrics::Metrics;
use relay::{Ended, Relay};
use settings::Document;

/// A service with hubs, queues and a topic.
async fn serve() -> Service {
    let subscription =
        SubscriptionConfig { name: "all".to_owned(), options: QueueOptions::default(), rules: None };
    let topic = TopicConfig {
        name: "orders".to_owned(),
        options: TopicOptions::default(),
        subscriptions: vec![subscription],
    };
    let namespace = NamespaceConfig {
        queues: vec![QueueConfig::new("incoming"), QueueConfig::new("copies")],
        topics: vec![topic],
        ..NamespaceConfig::with_hubs(vec![
            HubConfig::new("events", 2),
            HubConfig::new("archive", 3),
            HubConfig::new("carried", 2),
            HubConfig::new("mirrored", 2),
        ])
    };
    Service::start(ServiceConfig::loopback(namespace).and(Protocol::Kafka)).await.unwrap()
}

/// The pipeline of a text, in which `@` stands for the key and value of the connection string, and `#` for those of the one for
/// Kafka.
fn pipeline(service: &Service, text: &str) -> PipelineConfig {
    let written = |string: &ConnectionString| format!("connection_string: '{}'", string.reveal());
    let over_kafka = service.connection_string_over(Protocol::Kafka, TransportSecurity::Plain, None).unwrap();
    let text = text.replace('@', &written(&service.connection_string(None)));
    let text = text.replace('#', &written(&over_kafka));
    PipelineConfig::from_document(&Document::parse("pipeline.yaml", &text).unwrap()).unwrap()
}

async fn connect(config: &PipelineConfig) -> Result<Relay, ConnectError> {
    config.open().await?.connect("me").await
}

/// Runs a relay until its metrics say that it is enough.
async fn run(relay: Relay, enough: impl Fn(&Metrics) -> bool) -> Metrics {
    let handle = relay.metrics_handle();
    let shutdown = async {
        while !enough(&handle.metrics().await.unwrap()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let summary = tokio::time::timeout(PATIENCE, relay.run(shutdown)).await.expect("it comes to its end");
    let summary = summary.unwrap();
    assert_eq!(summary.ended, Ended::Finished);
    summary.metrics
}

async fn put(service: &Service, queue: &str, messages: u32) {
    let options = ClientOptions::new(service.connection_string(None), queue);
    let mut sink = ServiceBusSink::connect(options, SendUnit::Batch).await.unwrap();
    let mut batch = EventBatch::with_capacity(PartitionId(0), messages as usize);
    for number in 0..messages {
        batch.push_message(&Bytes::from_static(MESSAGE), i64::from(number));
    }
    let events: Vec<u32> = (0..messages).collect();
    sink.send(SendToken(0), OutgoingBatch::new(0, &batch, &events)).unwrap();
    let mut outcomes = Vec::new();
    poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await.unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
}

/// Publishes to both partitions of `events`.
async fn publish(service: &Service, events: usize) {
    for partition in 0..2 {
        publish_to(service, partition, vec![MESSAGE; events / 2]).await;
    }
}

/// Publishes to one partition of `events`.
async fn publish_to(service: &Service, partition: u32, messages: Vec<&[u8]>) {
    let options = EventHubsOptions::new(service.connection_string(None), Some("events")).unwrap();
    let mut publisher = Publisher::connect(options).await.unwrap();
    let mut outcomes = Vec::new();
    publisher.publish(SendToken(0), Destination::Partition(partition), messages).unwrap();
    while outcomes.is_empty() {
        poll_fn(|context| publisher.poll_outcomes(context, &mut outcomes)).await.unwrap();
    }
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
}

fn archived(service: &Service) -> u64 {
    arrived(service, "archive")
}

fn arrived(service: &Service, hub: &str) -> u64 {
    service.namespace().hub(hub).unwrap().counters().events_in
}

/// How many messages a relay finds in a queue or subscription, which it empties into the archive.
async fn count(service: &Service, source: &str, messages: u64) -> u64 {
    let text = format!("source:\n  service_bus: {{@, {source}}}\nsink:\n  event_hubs: {{@, hub: archive}}\n");
    let relay = connect(&pipeline(service, &text)).await.unwrap();
    run(relay, |metrics| metrics.confirmed_events >= messages).await.received_events
}

fn hub_to_topic_and_hub(checkpoints: &Path, more: &str) -> String {
    format!(
        "source:\n  event_hubs: {{@, hub: events}}\n\
         sinks:\n- service_bus: {{@, topic: orders}}\n- event_hubs: {{@, hub: archive}}\n\
         checkpoint: {{store: {{files: '{}'}}}}\n{more}",
        checkpoints.display()
    )
}

#[tokio::test]
async fn events_of_a_hub_go_to_a_topic_and_another_hub_and_are_checkpointed_once_both_have_them() {
    let service = serve().await;
    let folder = tempfile::tempdir().unwrap();
    publish(&service, 200).await;
    let config = pipeline(&service, &hub_to_topic_and_hub(folder.path(), ""));
    let metrics = run(connect(&config).await.unwrap(), |metrics| metrics.completed_events == 200).await;
    assert_eq!((metrics.received_events, metrics.forwarded_events), (200, 400));
    assert_eq!((archived(&service), metrics.failed_sends), (200, 0));
    assert_eq!(count(&service, "topic: orders, subscription: all", 200).await, 200);

    // The checkpoints cover all of it: what comes next is only what is new.
    publish(&service, 20).await;
    let bounded =
        pipeline(&service, &hub_to_topic_and_hub(folder.path(), "dispatch: {events: 3, sinks: 1}\n"));
    let metrics = run(connect(&bounded).await.unwrap(), |metrics| metrics.completed_events == 20).await;
    assert_eq!((metrics.received_events, metrics.forwarded_events), (20, 40));
    assert!(metrics.batch_events.max() <= 3, "a batch is in work as a whole");

    for dispatch in ["serial", "parallel-sinks", "{strategy: parallel-events, events: 7}", "parallel"] {
        let before = archived(&service);
        publish(&service, 20).await;
        let more = format!("dispatch: {dispatch}\nbatch: {{events: 5}}\n");
        let by_event = pipeline(&service, &hub_to_topic_and_hub(folder.path(), &more));
        let metrics = run(connect(&by_event).await.unwrap(), |metrics| metrics.completed_events == 20).await;
        assert_eq!((metrics.received_events, metrics.sends, metrics.failed_sends), (20, 40, 0), "{dispatch}");
        assert_eq!(archived(&service) - before, 20);
    }
}

#[tokio::test]
async fn what_a_queue_refuses_goes_to_a_hub_of_dead_letters() {
    let service = serve().await;
    let folder = tempfile::tempdir().unwrap();
    publish(&service, 4).await;
    // Larger than a queue takes, and not than a hub does.
    let body = vec![b'x'; 400 << 10];
    let mut large = vec![0x00, 0x53, 0x75, 0xb0];
    large.extend_from_slice(&(body.len() as u32).to_be_bytes());
    large.extend_from_slice(&body);
    publish_to(&service, 0, vec![&large]).await;
    let text = format!(
        "source:\n  event_hubs: {{@, hub: events}}\nsink:\n  service_bus: {{@, queue: copies}}\n\
         poison_events: {{dead_letter: {{event_hubs: {{@, hub: archive}}}}}}\n\
         checkpoint: {{store: {{files: '{}'}}}}\n",
        folder.path().display()
    );
    let relay = connect(&pipeline(&service, &text)).await.unwrap();
    let metrics = run(relay, |metrics| metrics.completed_events == 5).await;
    assert_eq!((metrics.forwarded_events, metrics.poison_events, metrics.dead_lettered_events), (4, 1, 1));
    assert_eq!(archived(&service), 1);
}

#[tokio::test]
async fn messages_of_a_queue_go_to_a_hub_and_another_queue_and_are_completed_once_both_have_them() {
    let service = serve().await;
    for dispatch in ["", "dispatch: {sinks: 1}\n"] {
        let before = archived(&service);
        put(&service, "incoming", 150).await;
        let text = format!(
            "source:\n  service_bus: {{@, queue: incoming, concurrency: 16}}\n\
             sinks:\n- event_hubs: {{@, hub: archive}}\n- service_bus: {{@, queue: copies}}\n{dispatch}"
        );
        let relay = connect(&pipeline(&service, &text)).await.unwrap();
        let metrics = run(relay, |metrics| metrics.confirmed_events == 150).await;
        assert_eq!((metrics.forwarded_events, metrics.abandoned_events), (300, 0));
        assert_eq!(archived(&service) - before, 150);
        assert_eq!(count(&service, "queue: copies", 150).await, 150);
    }
}

#[tokio::test]
async fn topics_of_kafka_are_at_either_end_of_a_pipeline() {
    let service = serve().await;
    let folder = tempfile::tempdir().unwrap();
    publish(&service, 200).await;
    let files = format!("checkpoint: {{store: {{files: '{}'}}}}\n", folder.path().display());
    let carry = async |source: &str, sink: &str, more: &str, events: u64| {
        let text = format!("source:\n  {source}\nsink:\n  {sink}\n{more}");
        let relay = connect(&pipeline(&service, &text)).await.unwrap();
        let done = |metrics: &Metrics| metrics.completed_events.max(metrics.confirmed_events) >= events;
        let metrics = run(relay, done).await;
        assert_eq!(
            (metrics.received_events, metrics.forwarded_events),
            (events, events),
            "{source} to {sink}"
        );
        assert_eq!((metrics.missed_events, metrics.failed_sends), (0, 0), "{source} to {sink}");
    };
    let same = |store: &str| format!("{store}route: same-partition\n");
    let group = "checkpoint: {store: group}\n";
    let carried = "kafka: {#, topic: carried}";
    carry("event_hubs: {@, hub: events}", carried, &same(&files), 200).await;
    carry(carried, "kafka: {#, topic: mirrored, properties: {compression.type: lz4}}", &same(group), 200)
        .await;
    assert_eq!((arrived(&service, "carried"), arrived(&service, "mirrored")), (200, 200));
    carry("kafka: {#, topic: mirrored}", "service_bus: {@, queue: incoming, send: batch}", group, 200).await;
    carry("service_bus: {@, queue: incoming}", "kafka: {#, topic: archive}", "", 200).await;
    assert_eq!(archived(&service), 200);

    // What was committed is done: what comes next is only what is new.
    publish(&service, 20).await;
    carry("event_hubs: {@, hub: events}", carried, &same(&files), 20).await;
    let all = "sinks:\n- kafka: {#, topic: mirrored}\n- event_hubs: {@, hub: archive}\n";
    let text = format!("source:\n  {carried}\n{all}{group}");
    let relay = connect(&pipeline(&service, &text)).await.unwrap();
    let metrics = run(relay, |metrics| metrics.completed_events == 20).await;
    assert_eq!((metrics.received_events, metrics.forwarded_events), (20, 40));
    assert_eq!((archived(&service), arrived(&service, "mirrored")), (220, 220));

    let nowhere = format!("source:\n  kafka: {{#, topic: nowhere}}\nsink:\n  {carried}\n{group}");
    let error = connect(&pipeline(&service, &nowhere)).await.unwrap_err();
    assert!(matches!(&error, ConnectError::Source(_)), "{error}");
}

#[tokio::test]
async fn what_does_not_fit_is_named() {
    let service = serve().await;
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().display();
    let text = format!(
        "source:\n  event_hubs: {{@, hub: events, partitions: [1, 2]}}\n\
         sink:\n  event_hubs: {{@, hub: archive}}\ncheckpoint: {{store: {{files: '{files}'}}}}\n"
    );
    let error = connect(&pipeline(&service, &text)).await.unwrap_err();
    assert!(matches!(&error, ConnectError::NoSuchPartition { partition: PartitionId(2), .. }), "{error}");

    let missing = hub_to_topic_and_hub(folder.path(), "").replace("hub: archive", "hub: nowhere");
    let error = connect(&pipeline(&service, &missing)).await.unwrap_err();
    assert!(matches!(&error, ConnectError::Sink { index: 1, .. }), "{error}");

    let back = format!(
        "source:\n  event_hubs: {{@, hub: archive}}\nsink:\n  event_hubs: {{@, hub: events}}\n\
         route: same-partition\ncheckpoint: {{store: {{files: '{files}'}}}}\n"
    );
    let error = connect(&pipeline(&service, &back)).await.unwrap_err();
    let too_few = ConnectError::TooFewDestinations { partitions: 3, destinations: 2 };
    assert_eq!(error.to_string(), too_few.to_string());
}

/// A Data section.
const MESSAGE: &[u8] = b"\x00\x53\x75\xa0\x05hello";

const PATIENCE: Duration = Duration::from_secs(60);
