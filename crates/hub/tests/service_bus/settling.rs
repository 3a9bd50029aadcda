//! The outcomes of receivers, their answers, and locks that end by themselves.

use std::time::{Duration, Instant};

use amqp::Value;
use amqp::codec::Symbol;
use amqp::message::MessageView;
use amqp::performative::{DeliveryState, Error, ErrorCondition};
use hub::namespace::QueueConfig;
use hub::service::{Service, ServiceConfig};

use crate::service_bus::client::{Client, condition, map, namespace, service};

const LOCK_LOST: &str = "com.microsoft:message-lock-lost";

fn modified(undeliverable_here: bool, annotations: Vec<(Symbol, Value)>) -> DeliveryState {
    DeliveryState::Modified { delivery_failed: false, undeliverable_here, annotations }
}

fn dead_letter(reason: &str) -> DeliveryState {
    let info = vec![
        (Symbol::from_static("DeadLetterReason"), Value::from(reason)),
        (Symbol::from_static("DeadLetterErrorDescription"), Value::from("why")),
        (Symbol::from_static("more"), Value::Int(7)),
    ];
    DeliveryState::Rejected(Some(Error { info, ..Error::new(ErrorCondition::DEAD_LETTER, "") }))
}

#[tokio::test]
async fn an_outcome_is_answered_after_the_time_that_the_profile_gives_its_queue() {
    let mut namespace = namespace(vec![QueueConfig::new("orders")], vec![]);
    let profile = r#"{"service_time": {"entities": {"orders": {"send": "5 ms", "settle": "9 ms"}}}}"#;
    namespace.profile = serde_json::from_str(profile).unwrap();
    let service = Service::start(ServiceConfig::loopback(namespace)).await.unwrap();
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let sent = Instant::now();
    assert_eq!(client.send(sender, b"late").await, DeliveryState::Accepted);
    assert!(sent.elapsed() >= Duration::from_millis(5));
    let receiver = client.receiver("orders", 1).await;
    let received = client.receive(receiver, 1).await;
    let settled = Instant::now();
    assert_eq!(client.settle(&received[0], DeliveryState::Accepted).await, DeliveryState::Accepted);
    assert!(settled.elapsed() >= Duration::from_millis(9));
}

#[tokio::test]
async fn each_outcome_is_answered_in_kind_and_does_what_it_means() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    for payload in [b"complete", b"abandon.", b"release.", b"dead....", b"defer..."] {
        client.send(sender, payload).await;
    }
    let receiver = client.receiver("orders", 100).await;
    let received = client.receive(receiver, 5).await;

    let answer = client.settle(&received[0], DeliveryState::Accepted).await;
    assert_eq!(answer, DeliveryState::Accepted);

    let note = vec![(Symbol::from_static("note"), Value::from("again"))];
    let answer = client.settle(&received[1], modified(false, note)).await;
    assert_eq!(answer, modified(false, Vec::new()));
    let again = client.receive(receiver, 1).await.remove(0);
    assert_eq!(again.payload(), b"abandon.");
    assert_eq!(again.delivery_count(), 1);
    assert_eq!(again.application_property("note"), Some("again".into()));
    assert_ne!(again.tag, received[1].tag);
    assert_eq!(again.sequence_number(), received[1].sequence_number());

    let answer = client.settle(&received[2], DeliveryState::Released).await;
    assert_eq!(answer, DeliveryState::Released);
    let again = client.receive(receiver, 1).await.remove(0);
    assert_eq!(again.payload(), b"release.");
    assert_eq!(again.delivery_count(), 0);

    let answer = client.settle(&received[3], dead_letter("bad")).await;
    assert_eq!(answer, DeliveryState::Rejected(None));
    let dead_letters = client.receiver("orders/$DeadLetterQueue", 10).await;
    let dead = client.receive(dead_letters, 1).await.remove(0);
    assert_eq!(dead.payload(), b"dead....");
    assert_eq!(dead.application_property("DeadLetterReason"), Some("bad".into()));
    assert_eq!(dead.application_property("DeadLetterErrorDescription"), Some("why".into()));
    assert_eq!(dead.application_property("more"), Some(Value::Int(7)));
    assert_eq!(dead.annotation("x-opt-deadletter-source"), Some("orders".into()));
    let answer = client.settle(&dead, DeliveryState::Accepted).await;
    assert_eq!(answer, DeliveryState::Accepted);

    let answer = client.settle(&received[4], modified(true, Vec::new())).await;
    assert_eq!(answer, modified(true, Vec::new()));
    client.drain(receiver).await;
    assert_eq!(client.waiting(receiver), 0);
}

#[tokio::test]
async fn settling_twice_or_what_was_never_sent_is_reported_and_ends_nothing() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    client.send(sender, b"one").await;
    client.send(sender, b"two").await;
    let receiver = client.receiver("orders", 10).await;
    let received = client.receive(receiver, 2).await;
    let answer = client.settle(&received[0], DeliveryState::Accepted).await;
    assert_eq!(answer, DeliveryState::Accepted);
    let answer = client.settle(&received[0], DeliveryState::Accepted).await;
    assert_eq!(condition(&answer), LOCK_LOST);

    // A range with what is settled, what waits, and what does not exist.
    let (first, second) = (received[0].id, received[1].id);
    client.propose(first, second + 5, DeliveryState::Accepted);
    assert_eq!(condition(&client.answer_about(first).await), LOCK_LOST);
    assert_eq!(client.answer_about(second).await, DeliveryState::Accepted);
    assert_eq!(condition(&client.answer_about(second + 5).await), LOCK_LOST);

    client.send(sender, b"three").await;
    assert_eq!(client.receive(receiver, 1).await[0].payload(), b"three");
}

#[tokio::test]
async fn many_outcomes_in_any_order_are_all_answered() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let messages: Vec<_> = (0..200u8).map(|number| crate::service_bus::client::message(&[number])).collect();
    client.send_batch(sender, &messages).await;
    let receiver = client.receiver("orders", 200).await;
    let received = client.receive(receiver, 200).await;
    let first = received[0].id;
    for offset in (0..200).step_by(2).rev() {
        client.propose(first + offset, first + offset, DeliveryState::Accepted);
    }
    client.propose(first + 1, first + 1, DeliveryState::Released);
    assert_eq!(client.answer_about(first + 1).await, DeliveryState::Released);
    // The one that was released comes again; the others are gone or still locked.
    client.connection().set_credit(receiver, 200);
    let again = client.receive(receiver, 1).await.remove(0);
    assert_eq!(again.payload(), [1]);
    client.drain(receiver).await;
    assert_eq!(client.waiting(receiver), 0);
    for offset in (3..200).step_by(2) {
        client.propose(first + offset, first + offset, DeliveryState::Accepted);
    }
    assert_eq!(client.answer_about(first + 199).await, DeliveryState::Accepted);
}

#[tokio::test]
async fn a_lock_that_ends_gives_the_message_to_the_next_and_cannot_be_settled_with() {
    let mut config = QueueConfig::new("orders");
    config.options.lock_duration = Duration::from_millis(200);
    config.options.maximum_delivery_count = 2;
    let service = service(vec![config], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    client.send(sender, b"slow").await;
    let receiver = client.receiver("orders", 10).await;
    let received = client.receive(receiver, 2).await;
    assert_eq!(received[1].payload(), b"slow");
    assert_eq!(received[1].delivery_count(), 1);
    let answer = client.settle(&received[0], DeliveryState::Accepted).await;
    assert_eq!(condition(&answer), LOCK_LOST);
    // The second time was the last.
    let dead_letters = client.receiver("orders/$deadletterqueue", 10).await;
    let dead = client.receive(dead_letters, 1).await.remove(0);
    assert_eq!(dead.application_property("DeadLetterReason"), Some("MaxDeliveryCountExceeded".into()));
}

#[tokio::test]
async fn what_a_link_had_locked_stays_locked_when_it_goes() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    client.send(sender, b"one").await;
    let receiver = client.receiver("orders", 10).await;
    let received = client.receive(receiver, 1).await.remove(0);
    client.detach(receiver).await;
    let other = client.receiver("orders", 10).await;
    client.drain(other).await;
    assert_eq!(client.waiting(other), 0);
    // Its outcome comes too late by the link, and in time by request.
    let answer = client.settle(&received, DeliveryState::Accepted).await;
    assert_eq!(condition(&answer), LOCK_LOST);
    let tokens = Value::Array(vec![received.lock_token()]);
    let body = [("disposition-status", "completed".into()), ("lock-tokens", tokens)];
    let answer = client.request("orders", "update-disposition", &body).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn dead_letter_reason_keeps_its_type() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let receiver = client.receiver("orders", 2).await;
    let dead_letters = client.receiver("orders/$DeadLetterQueue", 2).await;
    let (reason, description) = (Value::Int(7), Value::Boolean(true));
    let info = vec![
        (Symbol::from_static("DeadLetterReason"), reason.clone()),
        (Symbol::from_static("DeadLetterErrorDescription"), description.clone()),
    ];
    client.send(sender, b"by its link").await;
    let received = client.receive(receiver, 1).await.remove(0);
    let rejected =
        DeliveryState::Rejected(Some(Error { info, ..Error::new(ErrorCondition::DEAD_LETTER, "") }));
    client.settle(&received, rejected).await;
    client.send(sender, b"by request").await;
    let received = client.receive(receiver, 1).await.remove(0);
    let properties =
        map(&[("DeadLetterReason", reason.clone()), ("DeadLetterErrorDescription", description.clone())]);
    let body = [
        ("disposition-status", Value::from("suspended")),
        ("lock-tokens", Value::Array(vec![received.lock_token()])),
        ("properties-to-modify", properties),
    ];
    assert_eq!(client.request("orders", "update-disposition", &body).await.status, 200);
    for dead in client.receive(dead_letters, 2).await {
        assert_eq!(dead.application_property("DeadLetterReason"), Some(reason.clone()));
        assert_eq!(dead.application_property("DeadLetterErrorDescription"), Some(description.clone()));
    }
}

#[tokio::test]
async fn deferring_keeps_delivery_count() {
    let mut config = QueueConfig::new("orders");
    config.options.maximum_delivery_count = 1;
    let service = service(vec![config], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    client.send(sender, b"order").await;
    let receiver = client.receiver("orders", 1).await;
    let received = client.receive(receiver, 1).await.remove(0);
    let outcome =
        DeliveryState::Modified { delivery_failed: true, undeliverable_here: true, annotations: vec![] };
    client.settle(&received, outcome).await;
    for status in ["defered", "defered", "completed"] {
        let body = [
            ("sequence-numbers", Value::Array(vec![Value::Long(received.sequence_number())])),
            ("receiver-settle-mode", Value::Uint(1)),
        ];
        let answer = client.request("orders", "receive-by-sequence-number", &body).await;
        let Some(Value::List(entries)) = answer.body.get("messages") else { panic!("{answer:?}") };
        let Some(Value::Binary(message)) = entries[0].get("message") else { panic!("{answer:?}") };
        let header = MessageView::parse(message).unwrap().header().unwrap().unwrap();
        assert_eq!(header.delivery_count, Some(0));
        let body = [
            ("disposition-status", Value::from(status)),
            ("lock-tokens", Value::Array(vec![entries[0].get("lock-token").unwrap().clone()])),
        ];
        assert_eq!(client.request("orders", "update-disposition", &body).await.status, 200);
    }
}
