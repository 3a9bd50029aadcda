//! Events that are sent to hubs.

use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME};
use amqp::Value;
use hub::namespace::StorageConfig;
use hub::service::{Service, ServiceConfig};
use partition_log::disk::{StorageOptions, SyncPolicy};
use test_peer::Received;
use test_peer::queue_client::QueueClient;

use crate::rest::client::{Client, namespace, service};

/// The first `count` events of a partition.
async fn received(service: &Service, partition: u16, count: usize) -> Vec<Received> {
    let address = service.amqp_address();
    let mut reader = QueueClient::connect_with_key(address, ROOT_KEY_NAME, DEVELOPMENT_KEY_VALUE).await;
    let from = format!("events/ConsumerGroups/$Default/Partitions/{partition}");
    let link = reader.receiver(&from, 100).await;
    reader.receive(link, count).await
}

const BATCH: &str = "Content-Type: application/vnd.microsoft.servicebus.json\r\n";

#[tokio::test]
async fn an_event_comes_with_its_body_its_type_and_its_properties() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let fields = "Content-Type: application/json\r\nPriority: High\r\nAttempt: 2\r\nDone: true\r\nRatio: 0.5\r\nText: \"7\"\r\n";
    let target = "/events/partitions/1/messages?timeout=60&api-version=2014-01";
    let reply = client.ask("POST", target, fields, b"{\"a\":1}").await;
    assert_eq!((reply.status, reply.body.len()), (201, 0));
    assert_eq!(reply.field("Content-Type"), Some("application/xml; charset=utf-8"));
    let event = received(&service, 1, 1).await.remove(0);
    assert_eq!(event.payload(), b"{\"a\":1}");
    assert_eq!(event.properties().content_type.unwrap().as_str(), "application/json");
    for (name, expected) in [
        ("Priority", Value::from("High")),
        ("Attempt", Value::Int(2)),
        ("Done", Value::Boolean(true)),
        ("Ratio", Value::Double(0.5)),
        ("Text", Value::from("7")),
    ] {
        assert_eq!(event.application_property(name), Some(expected), "{name}");
    }
    assert_eq!(event.application_property("Authorization"), None);
    service.stop().await;
}

#[tokio::test]
async fn keys_and_publishers_have_their_partitions_and_events_bear_their_names() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let hub = service.namespace().hub("events").unwrap();
    let of_key = hub.partition_for_key("k").id();
    let key = "BrokerProperties: {\"PartitionKey\": \"k\"}\r\n";
    for _ in 0..3 {
        assert_eq!(client.ask("POST", "/EVENTS/messages", key, b"keyed").await.status, 201);
    }
    for event in received(&service, of_key, 3).await {
        assert_eq!(event.annotation("x-opt-partition-key"), Some(Value::from("k")));
    }
    let of_publisher = hub.partition_for_key("device-7").id();
    let before = hub.partition(&of_publisher.to_string()).unwrap().counters().values().events_in as usize;
    for target in ["/events/publishers/device-7/messages", "/events/publisher/device-7/messages"] {
        assert_eq!(client.ask("POST", target, "", b"published").await.status, 201);
    }
    let other = "BrokerProperties: {\"PartitionKey\": \"other\"}\r\n";
    let target = "/events/publishers/device-7/messages";
    assert_eq!(client.ask("POST", target, other, b"").await.status, 400);
    let events = received(&service, of_publisher, before + 2).await;
    assert_eq!(events[before].annotation("x-opt-publisher"), Some(Value::from("device-7")));
    assert_eq!(client.ask("POST", "/events/partitions/0/messages", key, b"").await.status, 400);
    assert_eq!(client.ask("POST", "/events/partitions/2/messages", "", b"").await.status, 400);
    service.stop().await;
}

#[tokio::test]
async fn a_batch_is_stored_as_one_and_a_bad_one_not_at_all() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let body = br#"[{"Body": "plain"}, {"Body": "\"quoted\"", "UserProperties": {"n": 5, "t": "x"}},
        {"Body": "AAH/", "IsBodyBase64": true}]"#;
    assert_eq!(client.ask("POST", "/events/partitions/0/messages", BATCH, body).await.status, 201);
    let events = received(&service, 0, 3).await;
    let payloads: Vec<Vec<u8>> = events.iter().map(Received::payload).collect();
    assert_eq!(payloads, [&b"plain"[..], b"\"quoted\"", b"\x00\x01\xff"]);
    assert_eq!(events[1].application_property("n"), Some(Value::Long(5)));
    let counters = service.namespace().hub("events").unwrap().counters();
    assert_eq!((counters.events_in, counters.batches_in), (3, 1));
    for bad in ["[]", "{}", "[{\"Body\": \"a\"}, {\"Body\": 5}]", "[{\"Body\": \"a\"}"] {
        let reply = client.ask("POST", "/events/messages", BATCH, bad.as_bytes()).await;
        assert_eq!(reply.status, 400, "{bad}");
        assert!(reply.text().contains("<Code>400</Code>"), "{reply:?}");
    }
    assert_eq!(service.namespace().counters().events_in, 3);
    // With a parameter it is the type of one event, as in the service.
    let with_charset = BATCH.replace("json", "json; charset=utf-8");
    assert_eq!(client.ask("POST", "/events/partitions/0/messages", &with_charset, body).await.status, 201);
    assert_eq!(received(&service, 0, 4).await[3].payload(), body);
    service.stop().await;
}

#[tokio::test]
async fn elements_of_a_batch_go_to_the_partitions_of_their_keys() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let hub = service.namespace().hub("events").unwrap();
    let keys: Vec<String> = (0..8).map(|number| format!("key {number}")).collect();
    let element =
        |key: &String| format!(r#"{{"Body": "{key}", "BrokerProperties": {{"PartitionKey": "{key}"}}}}"#);
    let elements: Vec<String> = keys.iter().map(element).collect();
    let body = format!("[{}]", elements.join(","));
    assert_eq!(client.ask("POST", "/events/messages", BATCH, body.as_bytes()).await.status, 201);
    for partition in 0..2 {
        let its = keys.iter().filter(|key| hub.partition_for_key(key).id() == partition);
        let its: Vec<Vec<u8>> = its.map(|key| key.clone().into_bytes()).collect();
        let events = received(&service, partition, its.len()).await;
        assert_eq!(events.iter().map(Received::payload).collect::<Vec<_>>(), its);
    }
    service.stop().await;
}

#[tokio::test]
async fn a_durable_service_answers_once_events_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let options = StorageOptions { sync: SyncPolicy::Always, ..StorageOptions::default() };
    let mut config = namespace();
    config.storage = Some(StorageConfig { directory: directory.path().to_owned(), options });
    let service = Service::start(ServiceConfig::loopback(config)).await.unwrap();
    let mut client = Client::connect(service.amqp_address()).await;
    for number in 0..5 {
        let body = format!("event {number}");
        assert_eq!(
            client.ask("POST", "/events/partitions/0/messages", "", body.as_bytes()).await.status,
            201
        );
        assert!(service.namespace().storage_counters().unwrap().syncs > number);
    }
    assert_eq!(client.ask("POST", "/orders/messages", "", b"message").await.status, 201);
    assert_eq!(received(&service, 0, 5).await[4].payload(), b"event 4");
    service.stop().await;
}

#[tokio::test]
async fn requests_that_come_together_are_answered_in_their_order() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    for number in 0..50 {
        let target = if number % 10 == 9 { "/nothing/messages" } else { "/events/partitions/0/messages" };
        client.send("POST", target, "", format!("{number}").as_bytes()).await;
    }
    for number in 0..50 {
        assert_eq!(client.reply().await.status, if number % 10 == 9 { 404 } else { 201 }, "{number}");
    }
    assert_eq!(received(&service, 0, 45).await[44].payload(), b"48");
    service.stop().await;
}
