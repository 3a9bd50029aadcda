//! Who may not, does not; what is not there, is not found; what does not fit, is refused.

use std::time::Duration;

use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME};
use amqp::Value;
use amqp::connection::{ConnectionError, Event, LinkId, SaslClient};
use amqp::performative::{DeliveryState, SaslCode};
use hub::namespace::{HubConfig, NamespaceConfig, QueueConfig};
use hub::service::{Service, ServiceConfig};
use partition_log::{LogLimits, WhenFull};
use units::ByteSize;

use super::client::{Client, payload, service, service_of, token};

const NAMESPACE: &str = "sb://localhost/";
const READ: &str = "events/ConsumerGroups/$Default/Partitions/0";
const SEND: [&str; 2] = ["events", "events/Partitions/0"];

#[tokio::test]
async fn without_good_proof_nothing_is_sent_read_or_learnt() {
    let service = service().await;
    let mut owner = Client::connect(service.amqp_address()).await;
    let sender = owner.attach_sender("events/Partitions/0").await.unwrap();
    assert_eq!(owner.send(sender, b"secret").await, DeliveryState::Accepted);
    for (what, proof) in [
        ("no token", None),
        ("a forged token", Some(token("guess", NAMESPACE, 3600))),
        ("an expired token", Some(token(DEVELOPMENT_KEY_VALUE, NAMESPACE, 0))),
        ("a token for another hub", Some(token(DEVELOPMENT_KEY_VALUE, "sb://localhost/other", 3600))),
        ("no token at all", Some("let me in".to_owned())),
    ] {
        let mut stranger = Client::connect_unauthorized(service.amqp_address()).await;
        if let Some(proof) = proof {
            assert_eq!(stranger.put_token(&proof).await, 401, "{what}");
        }
        let mut refusals = vec![stranger.attach_receiver(READ, 10).await];
        for address in SEND {
            refusals.push(stranger.attach_sender(address).await);
        }
        // What there is and what there is not is told to nobody either.
        refusals.push(stranger.attach_sender("nowhere").await);
        for refusal in refusals {
            assert_eq!(condition(refusal), "amqp:unauthorized-access", "{what}");
        }
        let question = [("operation", "READ"), ("name", "events"), ("type", "com.microsoft:eventhub")];
        let question = question.map(|(key, text)| (key, Value::from(text)));
        assert_eq!(stranger.request("$management", &question, &Value::Null).await.0, 401, "{what}");
    }
    let counters = service.namespace().counters();
    assert_eq!((counters.events_in, counters.events_out), (1, 0));
}

#[tokio::test]
async fn a_token_for_requests_about_something_is_for_those_alone() {
    let namespace = NamespaceConfig {
        queues: vec![QueueConfig::new("orders")],
        ..NamespaceConfig::with_hubs(vec![HubConfig::new("events", 2)])
    };
    let service = Service::start(ServiceConfig::loopback(namespace)).await.unwrap();
    let mut client = Client::connect_unauthorized(service.amqp_address()).await;
    let read = [("operation", "READ"), ("name", "events"), ("type", "com.microsoft:eventhub")]
        .map(|(key, text)| (key, Value::from(text)));
    let peek = [("operation", Value::from("com.microsoft:peek-message"))];
    let about = Value::Map(vec![
        (Value::from("from-sequence-number"), Value::Long(0)),
        (Value::from("message-count"), Value::Int(1)),
    ]);
    let (read, peek) = (("$management", &read[..], &Value::Null), ("orders/$management", &peek[..], &about));
    for (entity, (node, properties, body), status, other) in
        [("events", read, 200, peek), ("orders", peek, 204, read)]
    {
        let resource = format!("sb://localhost/{entity}/$management");
        let mut client = Client::connect_unauthorized(service.amqp_address()).await;
        let signed = token(DEVELOPMENT_KEY_VALUE, &resource, 3600);
        assert_eq!(client.put_token_for(&resource, &signed).await, 202);
        let answer = client.request(node, properties, body).await;
        assert_eq!(answer.0, status, "{entity}: {}", answer.1);
        assert_eq!(client.request(other.0, other.1, other.2).await.0, 401);
        let refused = client.attach_sender(entity).await.unwrap_err();
        assert_eq!(refused.condition.as_str(), "amqp:unauthorized-access");
    }
    assert_eq!(client.request(read.0, read.1, read.2).await.0, 401);
}

#[tokio::test]
async fn a_user_name_with_a_wrong_password_does_not_get_in() {
    let service = service().await;
    let plain = |username: &str, password: &str| SaslClient::Plain {
        username: username.into(),
        password: password.into(),
    };
    for (username, password) in [(ROOT_KEY_NAME, "guess"), ("nobody", DEVELOPMENT_KEY_VALUE), ("", "")] {
        let refused = Client::connect_as(service.amqp_address(), plain(username, password)).await.err();
        assert!(matches!(refused, Some(ConnectionError::SaslRefused(SaslCode::Auth))), "{refused:?}");
    }
    let right = plain(ROOT_KEY_NAME, DEVELOPMENT_KEY_VALUE);
    let mut client = Client::connect_as(service.amqp_address(), right).await.unwrap();
    client.prove_service(b"in").await;
}

#[tokio::test]
async fn links_go_when_the_token_that_opened_them_lapses() {
    let service = service().await;
    let mut client = Client::connect_unauthorized(service.amqp_address()).await;
    // Tokens expire at whole seconds, so this one lives for one to two.
    assert_eq!(client.put_token(&token(DEVELOPMENT_KEY_VALUE, NAMESPACE, 2)).await, 202);
    let sender = client.attach_sender("events").await.unwrap();
    let reader = client.attach_receiver(READ, 10).await.unwrap();
    let mut gone = Vec::new();
    client
        .until("the detach of both", |event| {
            if let Event::LinkDetached { link, error } = event {
                gone.push((link, error.unwrap().condition.as_str().to_owned()));
            }
            (gone.len() == 2).then_some(())
        })
        .await;
    for link in [sender, reader] {
        assert!(gone.contains(&(link, "amqp:unauthorized-access".to_owned())), "{gone:?}");
    }
}

#[tokio::test]
async fn links_go_when_their_tokens_lapse_one_after_the_other() {
    let service = service().await;
    let mut client = Client::connect_unauthorized(service.amqp_address()).await;
    let mut links = Vec::new();
    for (address, lifetime_s) in [("events/Partitions/0", 2), ("events/Partitions/1", 3)] {
        let resource = format!("{NAMESPACE}{address}");
        let signed = token(DEVELOPMENT_KEY_VALUE, &resource, lifetime_s);
        assert_eq!(client.put_token_for(&resource, &signed).await, 202);
        links.push(client.attach_sender(address).await.unwrap());
    }
    for link in links {
        let error = client.detached(link).await;
        assert_eq!(error.condition.as_str(), "amqp:unauthorized-access");
    }
}

#[tokio::test]
async fn links_go_when_the_clock_jumps_beyond_the_end_of_their_token() {
    let service = service().await;
    let mut client = Client::connect_unauthorized(service.amqp_address()).await;
    let signed = token(DEVELOPMENT_KEY_VALUE, NAMESPACE, 3_600);
    assert_eq!(client.put_token(&signed).await, 202);
    let sender = client.attach_sender("events").await.unwrap();
    let reader = client.attach_receiver(READ, 10).await.unwrap();
    // Both are quiet, so that nothing but the clock can tell.
    service.namespace().clock().jump(Duration::from_secs(7_200));
    let mut gone = Vec::new();
    client
        .until("the detach of both", |event| {
            if let Event::LinkDetached { link, error } = event {
                gone.push((link, error.unwrap().condition.as_str().to_owned()));
            }
            (gone.len() == 2).then_some(())
        })
        .await;
    for link in [sender, reader] {
        let lapsed = (link, "amqp:unauthorized-access".to_owned());
        assert!(gone.contains(&lapsed), "{gone:?}");
    }
}

#[tokio::test]
async fn nothing_is_taken_by_a_token_that_a_jump_of_the_clock_has_ended() {
    let service = service().await;
    let mut client = Client::connect_unauthorized(service.amqp_address()).await;
    let signed = token(DEVELOPMENT_KEY_VALUE, NAMESPACE, 3_600);
    assert_eq!(client.put_token(&signed).await, 202);
    let sender = client.attach_sender("events").await.unwrap();
    service.namespace().clock().jump(Duration::from_secs(7_200));
    // At once, before anyone has compared the clocks.
    assert_eq!(client.try_send(sender, b"too late").await, None);
    assert_eq!(service.namespace().counters().events_in, 0);
}

#[tokio::test]
async fn what_does_not_exist_is_refused_with_the_condition_that_clients_know() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    for (address, expected) in [
        ("nowhere", "amqp:not-found"),
        ("nowhere/Partitions/0", "amqp:not-found"),
        ("events/Partitions/2", "com.microsoft:argument-out-of-range"),
        ("events/Partitions/-1", "com.microsoft:argument-out-of-range"),
        ("events/Partitions/00", "com.microsoft:argument-out-of-range"),
        ("events/Partitions/one", "com.microsoft:argument-out-of-range"),
        ("events/ConsumerGroups/$Default/Partitions/0", "amqp:not-allowed"),
        ("", "amqp:invalid-field"),
    ] {
        assert_eq!(condition(client.attach_sender(address).await), expected, "sending to {address:?}");
    }
    for (address, expected) in [
        ("nowhere/ConsumerGroups/$Default/Partitions/0", "amqp:not-found"),
        ("events/ConsumerGroups/nobody/Partitions/0", "amqp:not-found"),
        ("events/ConsumerGroups/$Default/Partitions/2", "com.microsoft:argument-out-of-range"),
        ("events", "amqp:not-allowed"),
    ] {
        assert_eq!(
            condition(client.attach_receiver(address, 1).await),
            expected,
            "receiving from {address:?}"
        );
    }
    client.prove_service(b"still there").await;
}

#[tokio::test]
async fn an_event_that_is_too_large_is_refused_alone() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let sender = client.attach_sender("events/Partitions/0").await.unwrap();
    let largest = vec![1; (1 << 20) - 8];
    assert_eq!(client.send(sender, &largest).await, DeliveryState::Accepted);
    let one_more = vec![1; largest.len() + 1];
    assert_eq!(rejection(client.send(sender, &one_more).await), "amqp:link:message-size-exceeded");
    assert_eq!(client.send(sender, b"small").await, DeliveryState::Accepted);
    for (what, message) in [
        ("nothing", &b""[..]),
        ("no section", b"hello"),
        ("a section that ends early", b"\x00\x53\x75\xa0\xff"),
        ("application properties that are no map", b"\x00\x53\x74\xa1\x01a\x00\x53\x75\xa0\x01a"),
        (
            "application properties under a number",
            b"\x00\x53\x74\xc1\x05\x02\x54\x01\x54\x01\x00\x53\x75\xa0\x01a",
        ),
        (
            "application properties with a list for a value",
            b"\x00\x53\x74\xc1\x05\x02\xa1\x01a\x45\x00\x53\x75\xa0\x01a",
        ),
        (
            "application properties that end early",
            b"\x00\x53\x74\xc1\x05\x02\xa1\x01a\xa1\x00\x53\x75\xa0\x01a",
        ),
        (
            "a header with a text for a priority",
            b"\x00\x53\x70\xc0\x05\x02\x41\xa1\x01a\x00\x53\x75\xa0\x01a",
        ),
        (
            "properties with a number for a subject",
            b"\x00\x53\x73\xc0\x06\x04\x40\x40\x40\x54\x01\x00\x53\x75\xa0\x01a",
        ),
        ("data that is a text", b"\x00\x53\x75\xa1\x01a"),
        ("a value with a wrong text in a list", b"\x00\x53\x77\xc0\x04\x01\xa1\x01\xff"),
        ("annotations that are no map", b"\x00\x53\x72\xa1\x01a\x00\x53\x75\xa0\x01a"),
    ] {
        assert_eq!(rejection(client.send_message(sender, message).await), "amqp:decode-error", "{what}");
    }
    let reader = client.attach_receiver(READ, 10).await.unwrap();
    let events = client.receive(reader, 2).await;
    assert_eq!((payload(&events[0]).len(), payload(&events[1])), (largest.len(), &b"small"[..]));
}

#[tokio::test]
async fn a_full_log_that_throttles_says_server_busy_and_keeps_what_it_has() {
    let service = service_of(small_hub(WhenFull::Throttle)).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let sender = client.attach_sender("events/Partitions/0").await.unwrap();
    let taken = fill(&mut client, sender).await;
    assert!((1..EVENTS_BEYOND).contains(&taken), "{taken} events were taken");
    client.prove_service(b"another partition has room").await;
    let reader = client.attach_receiver(READ, EVENTS_BEYOND as u32).await.unwrap();
    let events = client.receive(reader, taken).await;
    assert_eq!(numbers(&events), (0..taken as u32).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_full_log_with_retention_drops_the_oldest_and_readers_go_on() {
    let service = service_of(small_hub(WhenFull::Retention)).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let sender = client.attach_sender("events/Partitions/0").await.unwrap();
    // This reader is given its first event only, so it falls behind.
    let reader = client.attach_receiver(READ, 1).await.unwrap();
    assert_eq!(client.send(sender, &event(0)).await, DeliveryState::Accepted);
    for number in 1..EVENTS_BEYOND as u32 {
        assert_eq!(client.send(sender, &event(number)).await, DeliveryState::Accepted);
    }
    let log = service.namespace().hub("events").unwrap().partitions()[0].log().stats();
    let oldest = log.begin_sequence_number as u32;
    assert!(oldest > 1, "nothing was dropped");
    client.connection().set_credit(reader, EVENTS_BEYOND as u32);
    let last = EVENTS_BEYOND as u32 - 1;
    let mut got = Vec::new();
    while got.last() != Some(&last) {
        got.extend(numbers(&client.receive(reader, 1).await));
    }
    got.retain(|number| *number != 0);
    assert_eq!(got, (oldest..=last).collect::<Vec<_>>());
}

fn condition(refusal: Result<LinkId, amqp::performative::Error>) -> String {
    refusal.unwrap_err().condition.as_str().to_owned()
}

fn rejection(outcome: DeliveryState) -> String {
    match outcome {
        DeliveryState::Rejected(Some(error)) => error.condition.as_str().to_owned(),
        other => panic!("{other:?}"),
    }
}

/// Sends events until one is refused, which must be for want of room, and gives the number that were taken.
async fn fill(client: &mut Client, sender: LinkId) -> usize {
    for number in 0..EVENTS_BEYOND as u32 {
        match client.send(sender, &event(number)).await {
            DeliveryState::Accepted => {}
            refused => {
                assert_eq!(rejection(refused), "com.microsoft:server-busy");
                return number as usize;
            }
        }
    }
    EVENTS_BEYOND
}

/// A hub whose partitions hold 2 MiB.
fn small_hub(when_full: WhenFull) -> HubConfig {
    let mut hub = HubConfig::new("events", 2);
    hub.log = Some(LogLimits { bytes: ByteSize::from_mebibytes(2), when_full, retention: None });
    hub
}

/// An event of 64 KiB that begins with its number.
fn event(number: u32) -> Vec<u8> {
    let mut body = vec![0; 64 * 1024];
    body[..4].copy_from_slice(&number.to_be_bytes());
    body
}

fn numbers(events: &[Vec<u8>]) -> Vec<u32> {
    events.iter().map(|event| u32::from_be_bytes(payload(event)[..4].try_into().unwrap())).collect()
}

/// More events of 64 KiB than 2 MiB hold.
const EVENTS_BEYOND: usize = 64;
