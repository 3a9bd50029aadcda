//! What a service profile makes of requests.

use std::time::Instant;

use hub::profile::ProfileConfig;
use hub::service::{Service, ServiceConfig};

use crate::rest::client::{Client, namespace};

async fn shaped(profile: &str) -> Service {
    let mut config = namespace();
    config.profile = serde_json::from_str::<ProfileConfig>(profile).unwrap();
    Service::start(ServiceConfig::loopback(config)).await.unwrap()
}

#[tokio::test]
async fn a_quota_that_is_used_up_is_told_and_the_connection_stays() {
    let service = shaped(r#"{"quota": {"ingress_events_per_s": 1}}"#).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let batch = "Content-Type: application/vnd.microsoft.servicebus.json\r\n";
    // More than a bucket holds is let through once it is full, and owed for a minute.
    let body = format!("[{}]", [r#"{"Body": "event"}"#; 60].join(","));
    assert_eq!(client.ask("POST", "/events/messages", batch, body.as_bytes()).await.status, 201);
    let reply = client.ask("POST", "/events/messages", "", b"event").await;
    assert_eq!((reply.status, reply.field("Retry-After")), (503, Some("4")));
    assert!(
        reply.text().contains("is being throttled") && reply.text().contains("50002"),
        "{}",
        reply.text()
    );
    assert_eq!(service.namespace().counters().batches_throttled, 1);
    service.stop().await;
}

#[tokio::test]
async fn answers_come_after_their_time_over_a_slow_network() {
    let service =
        shaped(r#"{"round_trip": "4 ms", "service_time": {"send": "3 ms", "settle": "2 ms"}}"#).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let started = Instant::now();
    assert_eq!(client.ask("POST", "/orders/messages", "", b"message").await.status, 201);
    assert!(started.elapsed().as_millis() >= 7);
    let locked = client.ask("POST", "/orders/messages/head", "", b"").await;
    let path = locked.field("Location").unwrap().strip_prefix("http://localhost").unwrap().to_owned();
    let started = Instant::now();
    assert_eq!(client.ask("DELETE", &path, "", b"").await.status, 200);
    assert!(started.elapsed().as_millis() >= 6);
    service.stop().await;
}

#[tokio::test]
async fn a_profile_with_a_name_has_its_times() {
    let service = shaped(r#"{"name": "cloud"}"#).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let started = Instant::now();
    assert_eq!(client.ask("POST", "/events/messages", "", b"event").await.status, 201);
    // TCP's handshake, the request, and what keeping an event takes.
    assert!(started.elapsed().as_millis() >= 44);
    service.stop().await;
}

#[tokio::test]
async fn failures_are_answered_and_broken_connections_are_not() {
    let service = shaped(r#"{"failures": {"send_ratio": 1}}"#).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let reply = client.ask("POST", "/events/messages", "", b"event").await;
    assert_eq!((reply.status, service.namespace().counters().events_in), (500, 0));
    assert!(reply.text().contains("Injected by the service profile"), "{}", reply.text());
    service.stop().await;
    let service = shaped(r#"{"failures": {"disconnect_ratio": 1}}"#).await;
    let mut client = Client::connect(service.amqp_address()).await;
    client.send("POST", "/events/messages", "", b"event").await;
    assert!(client.is_over().await);
    assert_eq!(service.namespace().counters().events_in, 1, "it was stored");
    service.stop().await;
}
