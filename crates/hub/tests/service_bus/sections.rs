//! Messages whose sections are unusual: without a body, with delivery annotations behind everything else, with fields in
//! their header. Whatever way they take, they come out whole and in the order of the specification.

use amqp::Value;
use amqp::codec::{Symbol, write};
use amqp::connection::LinkOptions;
use amqp::message::{FORMAT_AMQP, Header, MessageView, Properties, SectionKind, Sections, encode};
use amqp::performative::{DeliveryState, Error, ErrorCondition, SenderSettleMode};
use hub::namespace::{QueueConfig, TopicConfig};

use crate::service_bus::client::{Client, Received, map, service};
use crate::service_bus::durable::durable;

/// A message with all sections but those of `message_annotations`, which come in front where they belong, and without a
/// body if there is no `payload`. As of the Python client, the delivery annotations come last.
fn unusual(message_annotations: &[(Symbol, Value)], payload: Option<&[u8]>) -> Vec<u8> {
    let mut message = sent_header().encode().as_slice().to_vec();
    encode::message_annotations(&mut message, message_annotations);
    Properties { subject: Some("label".to_owned()), ..Properties::default() }.encode(&mut message);
    encode::application_properties(&mut message, &[("color", "red".into())]);
    if let Some(payload) = payload {
        encode::data(&mut message, payload);
    }
    write::descriptor(&mut message, 0x78);
    write::map(&mut message, 1, |out| {
        write::symbol(out, "checksum");
        write::uint(out, 7);
    });
    let annotation = (Symbol::from_static("mine"), Value::from("kept"));
    encode::delivery_annotations(&mut message, &[annotation]);
    message
}

fn sent_header() -> Header {
    Header { durable: Some(true), priority: Some(9), first_acquirer: Some(true), ..Header::default() }
}

/// Whether this is what was sent, as it is to be delivered after so many failures.
fn assert_whole(message: &[u8], delivery_count: u32, payload: Option<&[u8]>) {
    let kinds: Vec<SectionKind> = Sections::new(message).map(|section| section.unwrap().kind).collect();
    let mut expected = vec![
        SectionKind::Header,
        SectionKind::DeliveryAnnotations,
        SectionKind::MessageAnnotations,
        SectionKind::Properties,
        SectionKind::ApplicationProperties,
    ];
    expected.extend(payload.map(|_| SectionKind::Data));
    expected.push(SectionKind::Footer);
    assert_eq!(kinds, expected);
    let view = MessageView::parse(message).unwrap();
    let expected = Header { delivery_count: Some(delivery_count), ..sent_header() };
    assert_eq!(view.header().unwrap(), Some(expected));
    let mine = view.delivery_annotations().unwrap().find("mine").unwrap();
    assert_eq!(mine, Some("kept".into()));
    assert_eq!(view.data().unwrap(), payload);
    let properties = view.properties().unwrap().unwrap();
    assert!(properties.message_id.is_some());
    assert_eq!(properties.subject.as_deref(), Some("label"));
}

/// The same of a locked message, which says what locks it.
fn assert_received(message: &Received, delivery_count: u32, payload: Option<&[u8]>) {
    assert_whole(&message.bytes, delivery_count, payload);
    assert_eq!(lock_token(message), Some(message.lock_token()));
}

fn lock_token(message: &Received) -> Option<Value> {
    let view = MessageView::parse(&message.bytes).unwrap();
    let annotations = view.delivery_annotations().unwrap();
    annotations.find("x-opt-lock-token").unwrap()
}

async fn send(client: &mut Client, entity: &str, message: &[u8]) {
    let (sender, _) = client.sender(entity).await.unwrap();
    let outcome = client.send_message(sender, FORMAT_AMQP, message).await;
    assert_eq!(outcome, DeliveryState::Accepted);
}

#[tokio::test]
async fn they_come_whole_alone_and_in_a_batch_settled_or_not() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let payloads = [Some(&b"payload"[..]), None];
    for payload in payloads {
        let message = unusual(&[], payload);
        let outcome = client.send_message(sender, FORMAT_AMQP, &message).await;
        assert_eq!(outcome, DeliveryState::Accepted);
    }
    let batch = payloads.map(|payload| unusual(&[], payload));
    let outcome = client.send_batch(sender, &batch).await;
    assert_eq!(outcome, DeliveryState::Accepted);

    let peek = [("from-sequence-number", Value::Long(0)), ("message-count", Value::Int(10))];
    let answer = client.request("orders", "peek-message", &peek).await;
    let Some(Value::List(peeked)) = answer.body.get("messages") else { panic!("{answer:?}") };
    assert_eq!(peeked.len(), 4);
    for (entry, payload) in peeked.iter().zip(payloads.iter().cycle()) {
        let Some(Value::Binary(message)) = entry.get("message") else { panic!("{entry:?}") };
        assert_whole(message, 0, *payload);
    }

    let locking = client.receiver("orders", 2).await;
    let received = client.receive(locking, 2).await;
    for (message, payload) in received.iter().zip(payloads) {
        assert_received(message, 0, payload);
    }
    let deleting = |options: &mut LinkOptions| {
        options.sender_settle_mode = SenderSettleMode::Settled;
    };
    let (deleting, _) = client.ask_to_receive("orders", deleting).await.unwrap();
    client.connection().set_credit(deleting, 2);
    let received = client.receive(deleting, 2).await;
    for (message, payload) in received.iter().zip(payloads) {
        assert_whole(&message.bytes, 0, payload);
        assert_eq!(lock_token(message), None);
    }
}

#[tokio::test]
async fn a_message_without_any_section_is_a_message() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    send(&mut client, "orders", b"").await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let outcome = client.send_batch(sender, &[Vec::new(), Vec::new()]).await;
    assert_eq!(outcome, DeliveryState::Accepted);
    let receiver = client.receiver("orders", 3).await;
    for message in client.receive(receiver, 3).await {
        let view = MessageView::parse(&message.bytes).unwrap();
        let expected = Header { delivery_count: Some(0), ..Header::default() };
        assert_eq!(view.header().unwrap(), Some(expected));
        assert_eq!(view.data().unwrap(), None);
        assert_eq!(view.value().unwrap(), None);
        assert!(message.properties().message_id.is_some());
    }
}

#[tokio::test]
async fn they_come_whole_after_they_were_scheduled() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let now = partition_log::UnixTime::from(std::time::SystemTime::now());
    let time = Value::Timestamp(now.milliseconds() + 100);
    let scheduled = [(Symbol::from_static("x-opt-scheduled-enqueue-time"), time)];
    let message = unusual(&scheduled, None);
    send(&mut client, "orders", &message).await;
    let entry = map(&[("message", Value::Binary(message))]);
    let body = [("messages", Value::List(vec![entry]))];
    let answer = client.request("orders", "schedule-message", &body).await;
    assert_eq!(answer.status, 200);
    let receiver = client.receiver("orders", 2).await;
    for message in client.receive(receiver, 2).await {
        assert_received(&message, 0, None);
    }
}

#[tokio::test]
async fn they_come_whole_after_they_were_given_back_put_aside_forwarded_and_buried() {
    let mut results = QueueConfig::new("results");
    results.options.forward_to = Some("orders".to_owned());
    let service = service(vec![QueueConfig::new("orders"), results], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    send(&mut client, "results", &unusual(&[], None)).await;

    let receiver = client.receiver("orders", 10).await;
    let received = client.receive(receiver, 1).await.remove(0);
    assert_received(&received, 0, None);
    let tried = (Symbol::from_static("tried"), Value::Boolean(true));
    let abandoned = DeliveryState::Modified {
        delivery_failed: true,
        undeliverable_here: false,
        annotations: vec![tried],
    };
    client.settle(&received, abandoned).await;
    let received = client.receive(receiver, 1).await.remove(0);
    assert_received(&received, 1, None);
    assert_eq!(received.application_property("tried"), Some(Value::Boolean(true)));

    let deferred =
        DeliveryState::Modified { delivery_failed: false, undeliverable_here: true, annotations: Vec::new() };
    client.settle(&received, deferred).await;
    let number = Value::Long(received.sequence_number());
    let ask = [("sequence-numbers", Value::Array(vec![number])), ("receiver-settle-mode", Value::Uint(1))];
    let operation = "receive-by-sequence-number";
    let answer = client.request("orders", operation, &ask).await;
    let Some(Value::List(entries)) = answer.body.get("messages") else { panic!("{answer:?}") };
    let Some(Value::Binary(message)) = entries[0].get("message") else { panic!("{entries:?}") };
    assert_whole(message, 1, None);

    let token = entries[0].get("lock-token").unwrap().clone();
    let bury = [
        ("lock-tokens", Value::Array(vec![token])),
        ("disposition-status", "suspended".into()),
        ("deadletter-reason", "bad".into()),
    ];
    let answer = client.request("orders", "update-disposition", &bury).await;
    assert_eq!(answer.status, 200);
    let dead_letters = client.receiver("orders/$DeadLetterQueue", 1).await;
    let dead = client.receive(dead_letters, 1).await.remove(0);
    assert_received(&dead, 1, None);
    let reason = dead.application_property("DeadLetterReason");
    assert_eq!(reason, Some("bad".into()));
}

#[tokio::test]
async fn they_come_whole_to_subscriptions_whose_rules_see_their_properties() {
    let service = service(vec![], vec![TopicConfig::new("news", ["all", "red"])]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let red = "news/Subscriptions/red";
    let named = [("rule-name", Value::from("$Default"))];
    assert_eq!(client.request(red, "remove-rule", &named).await.status, 200);
    let expression = |text: &str| map(&[("expression", text.into())]);
    let description = map(&[
        ("sql-filter", expression("color = 'red' AND sys.Label = 'label'")),
        ("sql-rule-action", expression("SET seen = TRUE")),
    ]);
    let rule = [("rule-name", Value::from("reds")), ("rule-description", description)];
    assert_eq!(client.request(red, "add-rule", &rule).await.status, 200);
    send(&mut client, "news", &unusual(&[], None)).await;
    for (subscription, seen) in [("all", None), ("red", Some(Value::Boolean(true)))] {
        let address = format!("news/Subscriptions/{subscription}");
        let receiver = client.receiver(&address, 1).await;
        let received = client.receive(receiver, 1).await.remove(0);
        assert_received(&received, 0, None);
        assert_eq!(received.application_property("seen"), seen);
    }
}

#[tokio::test]
async fn they_come_whole_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let service = durable(directory.path()).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let payloads = [Some(&b"payload"[..]), None];
    for payload in payloads {
        send(&mut client, "orders", &unusual(&[], payload)).await;
    }
    service.stop().await;
    let service = durable(directory.path()).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let receiver = client.receiver("orders", 2).await;
    let received = client.receive(receiver, 2).await;
    for (message, payload) in received.iter().zip(payloads) {
        assert_received(message, 0, payload);
    }
    service.stop().await;
}

#[tokio::test]
async fn the_failures_of_a_dead_letter_are_not_counted() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    send(&mut client, "orders", &unusual(&[], None)).await;
    let abandoned =
        DeliveryState::Modified { delivery_failed: true, undeliverable_here: false, annotations: Vec::new() };
    let receiver = client.receiver("orders", 10).await;
    let received = client.receive(receiver, 1).await.remove(0);
    client.settle(&received, abandoned.clone()).await;
    let received = client.receive(receiver, 1).await.remove(0);
    let condition = ErrorCondition::from(Symbol::from("com.microsoft:dead-letter"));
    let buried = DeliveryState::Rejected(Some(Error::new(condition, "")));
    client.settle(&received, buried.clone()).await;
    let dead_letters = client.receiver("orders/$DeadLetterQueue", 10).await;
    for outcome in [abandoned, buried] {
        let dead = client.receive(dead_letters, 1).await.remove(0);
        assert_eq!(dead.delivery_count(), 1);
        client.settle(&dead, outcome).await;
    }
    let dead = client.receive(dead_letters, 1).await.remove(0);
    assert_eq!(dead.delivery_count(), 1);
}
