//! Requests about a queue.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use amqp::Value;
use amqp::codec::Symbol;
use amqp::connection::LinkOptions;
use amqp::message::{FORMAT_AMQP, MessageView, encode};
use amqp::performative::DeliveryState;
use hub::namespace::QueueConfig;

use crate::service_bus::client::{
    Answer, Client, condition, map, message, message_of_session, service, session_filter,
};

pub(crate) fn in_an_hour() -> i64 {
    let at = SystemTime::now() + Duration::from_secs(3600);
    at.duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

pub(crate) fn scheduled(payload: &[u8], at: i64) -> Vec<u8> {
    let mut encoded = Vec::new();
    let time = Symbol::from_static("x-opt-scheduled-enqueue-time");
    encode::message_annotations(&mut encoded, &[(time, Value::Timestamp(at))]);
    encoded.extend(message(payload));
    encoded
}

pub(crate) fn messages(answer: &Answer) -> Vec<Vec<u8>> {
    let Some(Value::List(messages)) = answer.body.get("messages") else { panic!("{answer:?}") };
    let bytes = |message: &Value| match message.get("message") {
        Some(Value::Binary(bytes)) => bytes.clone(),
        other => panic!("{other:?}"),
    };
    messages.iter().map(bytes).collect()
}

pub(crate) fn payload(message: &[u8]) -> Vec<u8> {
    let view = MessageView::parse(message).unwrap();
    view.data().unwrap().unwrap().to_vec()
}

#[tokio::test]
async fn a_lock_is_renewed_and_one_that_is_lost_is_not() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    client.send(sender, b"one").await;
    let receiver = client.receiver("orders", 1).await;
    let received = client.receive(receiver, 1).await.remove(0);
    let tokens = [("lock-tokens", Value::Array(vec![received.lock_token()]))];
    let answer = client.request("orders", "renew-lock", &tokens).await;
    let Some(Value::Array(expirations)) = answer.body.get("expirations") else { panic!("{answer:?}") };
    assert!(matches!(expirations[..], [Value::Timestamp(_)]));
    client.settle(&received, DeliveryState::Accepted).await;
    for tokens in [tokens, [("lock-tokens", Value::Array(vec![Value::Uuid([7; 16])]))]] {
        let answer = client.request("orders", "renew-lock", &tokens).await;
        assert_eq!(answer.status, 410);
        let condition = answer.condition.unwrap();
        assert_eq!(condition, "com.microsoft:message-lock-lost");
    }
}

#[tokio::test]
async fn peeking_shows_what_there_is_and_changes_nothing() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let peek = |from: i64, count: i32| {
        [("from-sequence-number", Value::Long(from)), ("message-count", Value::Int(count))]
    };
    let answer = client.request("orders", "peek-message", &peek(0, 10)).await;
    assert_eq!(answer.status, 204);
    let (sender, _) = client.sender("orders").await.unwrap();
    for payload in [b"one..", b"two..", b"three"] {
        client.send(sender, payload).await;
    }
    let receiver = client.receiver("orders", 1).await;
    let locked = client.receive(receiver, 1).await.remove(0);
    let answer = client.request("orders", "peek-message", &peek(0, 10)).await;
    let peeked = messages(&answer);
    let payloads: Vec<_> = peeked.iter().map(|message| payload(message)).collect();
    assert_eq!(payloads, [b"one..", b"two..", b"three"]);
    let next = locked.sequence_number() + 1;
    let answer = client.request("orders", "peek-message", &peek(next, 1)).await;
    assert_eq!(payload(&messages(&answer)[0]), b"two..");
    let answer = client.settle(&locked, DeliveryState::Accepted).await;
    assert_eq!(answer, DeliveryState::Accepted);
}

#[tokio::test]
async fn scheduled_messages_are_numbered_and_can_be_cancelled() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let at = in_an_hour();
    let entry = |payload: &[u8]| {
        map(&[("message", Value::Binary(scheduled(payload, at))), ("message-id", Value::Null)])
    };
    let body = [("messages", Value::List(vec![entry(b"one"), entry(b"two")]))];
    let answer = client.request("orders", "schedule-message", &body).await;
    let Some(Value::Array(numbers)) = answer.body.get("sequence-numbers") else { panic!("{answer:?}") };
    assert!(matches!(numbers[..], [Value::Long(_), Value::Long(_)]));
    let receiver = client.receiver("orders", 10).await;
    client.drain(receiver).await;
    assert_eq!(client.waiting(receiver), 0);
    let cancel = [("sequence-numbers", Value::Array(numbers.clone()))];
    let answer = client.request("orders", "cancel-scheduled-message", &cancel).await;
    assert_eq!(answer.status, 200);
    let answer = client.request("orders", "cancel-scheduled-message", &cancel).await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn what_was_put_aside_is_received_by_its_number_and_settled_by_request() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    client.send(sender, b"later").await;
    let receiver = client.receiver("orders", 1).await;
    let received = client.receive(receiver, 1).await.remove(0);
    let defer =
        DeliveryState::Modified { delivery_failed: true, undeliverable_here: true, annotations: Vec::new() };
    client.settle(&received, defer).await;
    let ask = |mode: u32| {
        let numbers = vec![Value::Long(received.sequence_number())];
        [("sequence-numbers", Value::Array(numbers)), ("receiver-settle-mode", Value::Uint(mode))]
    };
    let operation = "receive-by-sequence-number";
    let answer = client.request("orders", operation, &ask(1)).await;
    let Some(Value::List(entries)) = answer.body.get("messages") else { panic!("{answer:?}") };
    let token = entries[0].get("lock-token").unwrap().clone();
    let encoded = messages(&answer).remove(0);
    assert_eq!(payload(&encoded), b"later");
    let view = MessageView::parse(&encoded).unwrap();
    let inside = view.delivery_annotations().unwrap().find("x-opt-lock-token");
    assert_eq!(inside.unwrap(), Some(token.clone()));
    let state = view.message_annotations().unwrap().find("x-opt-message-state");
    assert_eq!(state.unwrap(), Some(Value::Int(1)));
    let body = [("lock-tokens", Value::Array(vec![token])), ("disposition-status", "completed".into())];
    let answer = client.request("orders", "update-disposition", &body).await;
    assert_eq!(answer.status, 200);
    let answer = client.request("orders", operation, &ask(0)).await;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.condition.unwrap(), "com.microsoft:message-not-found");
}

/// An operation, its arguments, and the status that it gets.
type Case = (&'static str, Vec<(&'static str, Value)>, i64);

#[tokio::test]
async fn requests_that_make_no_sense_are_refused_with_a_reason() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let uuids = Value::Array(vec![Value::Uuid([0; 16])]);
    let cases: [Case; 10] = [
        ("no-such-thing", vec![], 501),
        ("renew-lock", vec![], 400),
        ("renew-lock", vec![("lock-tokens", Value::Int(1))], 400),
        ("renew-lock", vec![("lock-tokens", Value::Array(vec!["a".into()]))], 400),
        ("update-disposition", vec![("lock-tokens", uuids.clone())], 400),
        ("update-disposition", vec![("lock-tokens", uuids), ("disposition-status", "eaten".into())], 400),
        ("peek-message", vec![("from-sequence-number", "first".into())], 400),
        (
            "schedule-message",
            vec![("messages", Value::List(vec![map(&[("message", Value::Binary(vec![1]))])]))],
            400,
        ),
        ("cancel-scheduled-message", vec![("sequence-numbers", Value::Array(vec![Value::Long(-1)]))], 400),
        ("enumerate-rules", vec![("top", Value::Int(1)), ("skip", Value::Int(0))], 400),
    ];
    for (operation, body, status) in cases {
        let answer = client.request("orders", operation, &body).await;
        assert_eq!(answer.status, status, "{operation} {body:?} {answer:?}");
        assert!(answer.condition.is_some());
    }
    let (sender, _) = client.sender("orders").await.unwrap();
    let outcome = client.send_message(sender, 0, b"no message").await;
    assert_eq!(condition(&outcome), "amqp:decode-error");
}

#[tokio::test]
async fn batch_delete_removes_oldest_messages() {
    let mut sessions = QueueConfig::new("sessions");
    sessions.options.requires_session = true;
    let service = service(vec![QueueConfig::new("orders"), sessions], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    for payload in [b"locked", b"second", b"third.", b"fourth"] {
        client.send(sender, payload).await;
    }
    let receiver = client.receiver("orders", 1).await;
    client.receive(receiver, 1).await;
    let delete = |count: i32, before: i64| {
        [("message-count", Value::Int(count)), ("enqueued-time-utc", Value::Timestamp(before))]
    };
    let operation = "batch-delete-messages";
    let answer = client.request("orders", operation, &delete(9, 0)).await;
    assert_eq!(answer.status, 204, "nothing is so old");
    for (asked, deleted) in [(2, 2), (4_000, 1)] {
        let answer = client.request("orders", operation, &delete(asked, in_an_hour())).await;
        assert_eq!((answer.status, answer.body.get("message-count")), (200, Some(&Value::Int(deleted))));
    }
    let answer = client.request("orders", operation, &[("message-count", Value::Int(9))]).await;
    assert_eq!(answer.status, 204, "one is locked");
    for count in [0, 4_001] {
        let answer = client.request("orders", operation, &delete(count, in_an_hour())).await;
        let condition = answer.condition.as_deref();
        assert_eq!((answer.status, condition), (400, Some("com.microsoft:argument-out-of-range")));
    }
    // Those of a session, by whoever has it.
    let (sender, _) = client.sender("sessions").await.unwrap();
    for session in ["one", "two"] {
        client.send_message(sender, FORMAT_AMQP, &message_of_session(session, b"x")).await;
    }
    let body = [("message-count", Value::Int(9)), ("session-id", "one".into())];
    let lost = client.request("sessions", operation, &body).await;
    assert_eq!(lost.condition.as_deref(), Some("com.microsoft:session-lock-lost"));
    client.ask_to_receive("sessions", session_filter("one".into())).await.unwrap();
    let answer = client.request("sessions", operation, &body).await;
    assert_eq!(answer.body.get("message-count"), Some(&Value::Int(1)));
    let answer = client.request("sessions", operation, &body[..1]).await;
    assert_eq!(answer.body.get("message-count"), Some(&Value::Int(1)), "nobody has the other");
}

#[tokio::test]
async fn peek_hides_lock_of_receiver() {
    let mut sessions = QueueConfig::new("sessions");
    sessions.options.requires_session = true;
    let service = service(vec![QueueConfig::new("orders"), sessions], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    for (entity, until) in [("orders", -62_135_596_800_000), ("sessions", 253_402_300_799_999)] {
        let (sender, _) = client.sender(entity).await.unwrap();
        for _ in 0..2 {
            client.send_message(sender, FORMAT_AMQP, &message_of_session("one", b"x")).await;
        }
        let ask = |options: &mut LinkOptions| {
            if entity == "sessions" {
                session_filter("one".into())(options);
            }
        };
        let (receiver, _) = client.ask_to_receive(entity, ask).await.unwrap();
        client.connection().set_credit(receiver, 1);
        client.receive(receiver, 1).await;
        let body = [("from-sequence-number", Value::Long(0)), ("message-count", Value::Int(9))];
        let answer = client.request(entity, "peek-message", &body).await;
        let messages = messages(&answer);
        assert_eq!(messages.len(), 2);
        for message in messages {
            let view = MessageView::parse(&message).unwrap();
            let told = view.message_annotations().unwrap().find("x-opt-locked-until").unwrap();
            assert_eq!(told, Some(Value::Timestamp(until)), "{entity}");
        }
    }
}
