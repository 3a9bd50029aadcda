//! Whoever may not, or asks for what is not there.

use std::time::{Duration, SystemTime};

use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME, SharedAccessKey};
use hub::namespace::{RightConfig, RuleConfig, SignaturePolicy};
use hub::service::{Protocol, Service, ServiceConfig};
use tokio::io::AsyncReadExt as _;

use crate::rest::client::{Client, namespace, service, token, within};

fn signed(key: (&str, &str), resource: &str, seconds: i64) -> String {
    let now = SystemTime::now();
    let expiry = match u64::try_from(seconds) {
        Ok(seconds) => now + Duration::from_secs(seconds),
        Err(_) => now - Duration::from_secs(seconds.unsigned_abs()),
    };
    SharedAccessKey::new(key.0, key.1).sign(resource, expiry)
}

const ROOT: (&str, &str) = (ROOT_KEY_NAME, DEVELOPMENT_KEY_VALUE);

#[tokio::test]
async fn tokens_are_verified_and_the_refusal_says_what_is_wrong() {
    let mut config = namespace();
    config.authorization_rules.push(RuleConfig {
        name: "reader".into(),
        key: "reading".into(),
        rights: vec![RightConfig::Listen],
    });
    let service = Service::start(ServiceConfig::loopback(config)).await.unwrap();
    for (token, detail) in [
        (String::new(), "MissingToken"),
        ("Bearer eyJ0eXAi".into(), "MalformedToken"),
        ("SharedAccessSignature sr=x".into(), "MalformedToken"),
        (signed((ROOT_KEY_NAME, "guess"), "http://localhost/events", 60), "InvalidSignature"),
        (signed(ROOT, "http://localhost/events", -60), "ExpiredToken"),
        (signed(ROOT, "http://localhost/other", 60), "does not cover"),
        (signed(("reader", "reading"), "http://localhost/events", 60), "'Send' claim(s) are required"),
    ] {
        let mut client = Client::connect_with(service.amqp_address(), &token).await;
        let reply = client.ask("POST", "/events/messages", "", b"event").await;
        assert_eq!(reply.status, 401, "{token}");
        let text = reply.text();
        assert!(text.starts_with("<Error><Code>401</Code><Detail>") && text.contains(detail), "{text}");
        assert!(
            text.contains("TrackingId:") && text.contains("SystemTracker:localhost:events/messages"),
            "{text}"
        );
    }
    for resource in [
        "http://localhost/events",
        "https://127.0.0.1:8080/EVENTS/messages?api-version=2014-01",
        "sb://elsewhere/",
    ] {
        let mut client = Client::connect_with(service.amqp_address(), &signed(ROOT, resource, 60)).await;
        assert_eq!(client.ask("POST", "/events/messages", "", b"event").await.status, 201, "{resource}");
    }
    assert_eq!(service.namespace().counters().events_in, 3);
    service.stop().await;
}

#[tokio::test]
async fn a_token_that_expires_on_an_open_connection_is_refused_from_then_on() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    assert_eq!(client.ask("POST", "/events/messages", "", b"event").await.status, 201);
    service.namespace().clock().jump(Duration::from_secs(7200));
    let reply = client.ask("POST", "/events/messages", "", b"event").await;
    assert_eq!(reply.status, 401);
    assert!(reply.text().contains("ExpiredToken"), "{}", reply.text());
    service.stop().await;
}

#[tokio::test]
async fn what_is_not_there_is_told_only_to_those_who_may_know() {
    let service = service().await;
    let mut stranger = Client::connect_with(service.amqp_address(), "SharedAccessSignature").await;
    assert_eq!(stranger.ask("POST", "/nothing/messages", "", b"").await.status, 401);
    let mut client = Client::connect(service.amqp_address()).await;
    for (method, target, status) in [
        ("POST", "/nothing/messages", 404),
        ("POST", "/nothing/messages/head", 404),
        ("DELETE", "/nothing/messages/1/00000000-0000-0000-0000-000000000001", 404),
        ("DELETE", "/orders/messages/1/no-uuid", 404),
        ("POST", "/news/messages/head", 400),
        ("POST", "/events/messages/head", 400),
        ("POST", "/news/subscriptions/all/messages", 404),
        ("POST", "/orders/messages/head?timeout=soon", 400),
        ("GET", "/events/messages", 405),
        ("PUT", "/orders/messages/head", 405),
        ("GET", "/orders/messages/1/00000000-0000-0000-0000-000000000001", 405),
        ("DELETE", "/events", 405),
        ("BREW", "/events", 405),
        ("GET", "/%ff", 400),
    ] {
        let reply = client.ask(method, target, "", b"").await;
        assert_eq!(reply.status, status, "{method} {target}");
        assert_eq!(reply.field("Allow").is_some(), status == 405, "{method} {target}");
    }
    service.namespace().delete_hub("events").unwrap();
    assert_eq!(client.ask("POST", "/events/messages", "", b"").await.status, 404);
    service.stop().await;
}

#[tokio::test]
async fn refusal_reaches_a_client_that_sends_all_of_its_body_before_it_reads() {
    let service = service().await;
    let pages = service.address(Protocol::Operations).unwrap();
    let body = vec![7; 20 << 20];
    for (address, target, status) in [
        (service.amqp_address(), "/events/messages", 401),
        (service.amqp_address(), "/nothing/messages", 401),
        (pages, "/metrics", 405),
    ] {
        let mut client = Client::connect_with(address, "SharedAccessSignature").await;
        client.send("POST", target, "", &body).await;
        assert_eq!(client.reply().await.status, status, "{target}");
        let end = client.socket.read(&mut [0]).await;
        assert_eq!(end.expect("the connection is not reset"), 0);
    }
    let mut client = Client::connect_with(service.amqp_address(), &token("events")).await;
    client.send("POST", "/events/messages", "", &body).await;
    assert_eq!(client.reply().await.status, 413);
    // The service does not wait for a client that stays.
    let mut staying = Client::connect_with(service.amqp_address(), "SharedAccessSignature").await;
    let head = b"POST /events/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\n";
    staying.write(head).await;
    assert_eq!(staying.reply().await.status, 401);
    within("the end of the service", service.stop()).await;
}

#[tokio::test]
async fn a_hub_that_is_deleted_and_made_again_is_found_on_the_same_connection() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    assert_eq!(client.ask("POST", "/events/messages", "", b"event").await.status, 201);
    let namespace = service.namespace();
    namespace.delete_hub("events").unwrap();
    namespace.create_hub(&hub::namespace::HubConfig::new("events", 1), SystemTime::now().into()).unwrap();
    assert_eq!(client.ask("POST", "/events/messages", "", b"event").await.status, 201);
    assert_eq!(namespace.counters().events_in, 1);
    service.stop().await;
}

#[tokio::test]
async fn where_nothing_is_verified_no_token_is_needed() {
    let mut config = namespace();
    config.signatures = SignaturePolicy::AcceptAny;
    let service = Service::start(ServiceConfig::loopback(config)).await.unwrap();
    let mut client = Client::connect_with(service.amqp_address(), "").await;
    assert_eq!(client.ask("POST", "/events/messages", "", b"event").await.status, 201);
    assert_eq!(client.ask("POST", "/orders/messages", "", b"message").await.status, 201);
    service.stop().await;
}

#[tokio::test]
async fn what_is_too_large_is_refused_at_the_bound_and_not_before() {
    let service = service().await;
    let mut client = Client::connect_with(service.amqp_address(), &token("events")).await;
    // A Data section has a head of eight bytes.
    let largest = vec![7; (1 << 20) - 8];
    assert_eq!(client.ask("POST", "/events/messages", "", &largest).await.status, 201);
    let reply = client.ask("POST", "/events/messages", "", &[&largest[..], b"x"].concat()).await;
    assert_eq!(reply.status, 413);
    let batch = "Content-Type: application/vnd.microsoft.servicebus.json\r\n";
    let body = format!("[{{\"Body\":\"{}\"}}]", "x".repeat(1 << 20));
    assert_eq!(client.ask("POST", "/events/messages", batch, body.as_bytes()).await.status, 413);
    let gzip = format!("{batch}Content-Encoding: gzip\r\n");
    assert_eq!(client.ask("POST", "/events/messages", &gzip, b"[]").await.status, 415);
    // Longer than any body: it is not even read.
    client.write(format!(
        "POST /events/messages HTTP/1.1\r\nHost: h\r\nAuthorization: {}\r\nContent-Length: 99999999\r\n\r\n",
        token("events")
    ).as_bytes()).await;
    let reply = client.reply().await;
    assert_eq!((reply.status, reply.field("Connection")), (413, Some("close")));
    assert!(client.is_over().await);
    service.stop().await;
}
