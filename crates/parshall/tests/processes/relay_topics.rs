//! `parshall relay` with all topics that match a pattern: those that there are, those that come later, and what can't be.

use std::future::poll_fn;

use connect::event_hubs::{Destination, EventHubsOptions, Publisher};
use connect::sink::SendToken;
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use partition_log::UnixTime;

use crate::processes::relay_health::{Relaying, command};

/// A service with these hubs, which are topics, too.
async fn service(hubs: &[&str]) -> Service {
    let hubs = hubs.iter().map(|name| HubConfig::new(*name, 2)).collect();
    let config = ServiceConfig::loopback(NamespaceConfig::with_hubs(hubs));
    Service::start(config.and(Protocol::Kafka)).await.unwrap()
}

/// From the topics that match over Kafka to hubs over AMQP.
fn pipeline(service: &Service, topics: &str, hub: &str) -> String {
    format!(
        "source:\n  kafka: {{bootstrap: '{}', topics: {{{topics}}}, group: mirror}}\n\
         sink:\n  event_hubs: {{connection_string: '{}', hub: '{hub}'}}\n\
         checkpoint: {{store: group}}\nroute: same-partition\nmetrics: 127.0.0.1:0\n",
        service.address(Protocol::Kafka).unwrap(),
        service.connection_string(None).reveal(),
    )
}

async fn publish(service: &Service, hub: &str, events: usize) {
    let options = EventHubsOptions::new(service.connection_string(None), Some(hub)).unwrap();
    let mut publisher = Publisher::connect(options).await.unwrap();
    let mut message = Vec::new();
    amqp::message::encode::data(&mut message, hub.as_bytes());
    let mut outcomes = Vec::new();
    for number in 0..events {
        while publisher.publish(SendToken(0), Destination::Partition(1), [&message[..]]).is_err() {
            poll_fn(|context| publisher.poll_ready(context)).await.unwrap();
        }
        while outcomes.len() <= number {
            poll_fn(|context| publisher.poll_outcomes(context, &mut outcomes)).await.unwrap();
        }
    }
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
}

fn create(service: &Service, hub: &str) {
    service.namespace().create_hub(&HubConfig::new(hub, 2), UnixTime::from_milliseconds(0)).unwrap();
}

fn events(service: &Service, hub: &str) -> u64 {
    service.namespace().hub(hub).unwrap().counters().events_in
}

fn completed(topic: &str, events: u64) -> impl Fn(&str) -> bool {
    let line = format!("parshall_relay_completed_events_total{{topic=\"{topic}\"}} {events}");
    move |answer| answer.lines().any(|have| have == line)
}

#[tokio::test]
async fn each_topic_that_matches_is_copied_to_the_hub_of_its_name_also_one_that_comes_later() {
    let service =
        service(&["orders-a", "orders-b", "orders-x", "other", "copy-orders-a", "copy-orders-b"]).await;
    publish(&service, "orders-a", 3).await;
    publish(&service, "orders-x", 2).await;
    publish(&service, "other", 2).await;
    let folder = tempfile::tempdir().unwrap();
    let topics = "match: 'orders-.*', except: '.*-x', refresh: 100 ms";
    let mut relay = Relaying::start(folder.path(), &pipeline(&service, topics, "copy-{topic}")).await;
    relay.until("metrics", completed("orders-a", 3)).await;
    publish(&service, "orders-b", 4).await;
    relay.until("metrics", completed("orders-b", 4)).await;
    assert!(relay.get("ready").await.starts_with("HTTP/1.1 200"));

    // There is nowhere to copy this one to yet.
    create(&service, "orders-c");
    publish(&service, "orders-c", 5).await;
    let not_ready = relay.until("ready", |answer| answer.starts_with("HTTP/1.1 503")).await;
    assert!(not_ready.contains("topic orders-c: "), "{not_ready}");
    relay.until_said("a new topic can't be carried yet").await;
    create(&service, "copy-orders-c");
    relay.until("metrics", completed("orders-c", 5)).await;
    relay.until("ready", |answer| answer.starts_with("HTTP/1.1 200")).await;

    // Nobody waits for one that is deleted before there is.
    create(&service, "orders-d");
    relay.until("ready", |answer| answer.contains("topic orders-d: ")).await;
    service.namespace().delete_hub("orders-d").unwrap();
    relay.until("ready", |answer| answer.starts_with("HTTP/1.1 200")).await;

    let said = relay.stop().await.join("\n");
    for topic in ["orders-a", "orders-b", "orders-c"] {
        assert!(said.contains(&format!("Topic {topic}\nStopped gracefully.")), "{said}");
    }
    let copied = ["copy-orders-a", "copy-orders-b", "copy-orders-c"].map(|hub| events(&service, hub));
    assert_eq!(copied, [3, 4, 5]);
    service.stop().await;
}

#[tokio::test]
async fn a_pattern_that_no_topic_matches_and_a_hub_that_is_missing_are_refused_at_the_start() {
    let service = service(&["orders", "other"]).await;
    let folder = tempfile::tempdir().unwrap();
    let refusal = async |topics: &str, hub: &str| {
        let output = command(folder.path(), &pipeline(&service, topics, hub)).output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, said) = refusal("match: 'order'", "other").await;
    assert!(status == Some(3) && said.contains("no topic matches order"), "{said}");
    let (status, said) = refusal("match: 'orders'", "missing-{topic}").await;
    assert!(status == Some(3) && said.contains("topic orders: the sink can't be used"), "{said}");
    assert!(said.contains("missing-orders"), "{said}");
    service.stop().await;
}

#[tokio::test]
async fn a_copy_that_would_be_copied_again_is_refused() {
    let service = service(&["orders", "copy-of-orders"]).await;
    let folder = tempfile::tempdir().unwrap();
    let bootstrap = service.address(Protocol::Kafka).unwrap();
    let pipeline = format!(
        "source:\n  kafka: {{bootstrap: '{bootstrap}', topics: {{match: '.*orders'}}}}\n\
         sink:\n  kafka: {{bootstrap: '{bootstrap}', topic: 'copy-of-{{topic}}'}}\ncheckpoint: {{store: group}}\n"
    );
    let output = command(folder.path(), &pipeline).output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("matches `topics`, too"), "{said}");
    assert!(said.contains("mine.yaml:2"), "{said}");
    service.stop().await;
}

#[tokio::test]
async fn each_topic_is_copied_exactly_once_by_transactions_of_its_own() {
    let service = service(&["orders-a", "orders-b", "copy-orders-a", "copy-orders-b"]).await;
    publish(&service, "orders-a", 3).await;
    publish(&service, "orders-b", 4).await;
    let folder = tempfile::tempdir().unwrap();
    let bootstrap = service.address(Protocol::Kafka).unwrap();
    let pipeline = format!(
        "source:\n  kafka: {{bootstrap: '{bootstrap}', topics: {{match: 'orders-.*'}}, group: mirror}}\n\
         sink:\n  kafka: {{bootstrap: '{bootstrap}', topic: 'copy-{{topic}}'}}\n\
         delivery: exactly-once\nroute: same-partition\nmetrics: 127.0.0.1:0\n"
    );
    // The second one begins behind what the first has committed.
    for (of_a, of_b) in [(4, 5), (1, 1)] {
        let relay = Relaying::start(folder.path(), &pipeline).await;
        relay.until("ready", |answer| answer.starts_with("HTTP/1.1 200")).await;
        publish(&service, "orders-a", 1).await;
        publish(&service, "orders-b", 1).await;
        relay.until("metrics", completed("orders-a", of_a)).await;
        relay.until("metrics", completed("orders-b", of_b)).await;
        relay.stop().await;
    }
    assert!(service.namespace().hub("copy-orders-a").unwrap().counters().events_in >= 5);
    service.stop().await;
}

#[tokio::test]
async fn partitions_that_are_added_to_a_topic_are_told_of_until_the_relay_is_started_again() {
    let service = service(&["orders", "copy"]).await;
    let bootstrap = service.address(Protocol::Kafka).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for client in ["native", "librdkafka"] {
        let pipeline = format!(
            "source:\n  kafka: {{bootstrap: '{bootstrap}', topic: orders, client: {client}, \
             properties: {{topic.metadata.refresh.interval.ms: 100}}}}\n\
             sink:\n  kafka: {{bootstrap: '{bootstrap}', topic: copy}}\n\
             checkpoint: {{store: {{files: {client}}}}}\nmetrics: 127.0.0.1:0\n"
        );
        let partitions = service.namespace().hub("orders").unwrap().partitions().len();
        let mut relay = Relaying::start(folder.path(), &pipeline).await;
        let has = |count: usize| {
            let line = format!("parshall_relay_uncarried_partitions {count}");
            move |answer: &str| answer.lines().any(|have| have == line)
        };
        relay.until("metrics", has(0)).await;
        relay.until("ready", |answer| answer.starts_with("HTTP/1.1 200")).await;
        service.namespace().grow_hub("orders", u16::try_from(partitions + 2).unwrap()).unwrap();
        relay.until("metrics", has(2)).await;
        let not_ready = relay.until("ready", |answer| answer.starts_with("HTTP/1.1 503")).await;
        let (first, last) = (partitions, partitions + 1);
        assert!(
            not_ready.contains("source: partitions were added to it: they are carried when"),
            "{not_ready}"
        );
        assert!(not_ready.contains(&format!("partitions {first}-{last}")), "{not_ready}");
        relay.until_said("partitions were added to the source").await;
        // Started again, it has all of them.
        relay.stop().await;
        let relay = Relaying::start(folder.path(), &pipeline).await;
        let open = format!("parshall_relay_open_partitions {}", partitions + 2);
        relay.until("metrics", |answer| answer.lines().any(|have| have == open)).await;
        relay.until("ready", |answer| answer.starts_with("HTTP/1.1 200")).await;
        relay.stop().await;
    }
    service.stop().await;
}
