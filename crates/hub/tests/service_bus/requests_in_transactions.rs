//! Requests to `$management` within a transaction, carried out with it or not at all.

use amqp::connection::LinkId;
use amqp::message::FORMAT_AMQP;
use amqp::performative::DeliveryState;
use amqp::{TransactionId, Value};
use hub::namespace::{QueueConfig, TopicConfig};
use hub::service::Service;

use crate::service_bus::client::{
    Answer, Client, condition, map, message_of_session, service, session_filter,
};
use crate::service_bus::durable::durable;
use crate::service_bus::management::{in_an_hour, messages, payload, scheduled};

async fn orders() -> (Service, Client, LinkId) {
    let mut sessions = QueueConfig::new("sessions");
    sessions.options.requires_session = true;
    let queues = vec![QueueConfig::new("orders"), sessions, QueueConfig::new("other")];
    let service = service(queues, vec![TopicConfig::new("news", ["all"])]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let coordinator = client.coordinator().await;
    (service, client, coordinator)
}

/// Schedules messages of these payloads within a transaction, and returns their sequence numbers.
async fn schedule(
    client: &mut Client,
    entity: &str,
    transaction: TransactionId,
    payloads: &[&[u8]],
) -> Vec<Value> {
    let entry = |payload: &&[u8]| map(&[("message", Value::Binary(scheduled(payload, in_an_hour())))]);
    let body = [("messages", Value::List(payloads.iter().map(entry).collect()))];
    let answer = client.request_in(transaction, entity, "schedule-message", &body).await;
    let Some(Value::Array(numbers)) = answer.body.get("sequence-numbers") else { panic!("{answer:?}") };
    numbers.clone()
}

async fn cancel(
    client: &mut Client,
    entity: &str,
    transaction: Option<TransactionId>,
    numbers: &[Value],
) -> Answer {
    let body = [("sequence-numbers", Value::Array(numbers.to_vec()))];
    match transaction {
        None => client.request(entity, "cancel-scheduled-message", &body).await,
        Some(transaction) => client.request_in(transaction, entity, "cancel-scheduled-message", &body).await,
    }
}

/// Returns the payloads of all messages of an entity, whatever their state.
async fn peeked(client: &mut Client, entity: &str) -> Vec<Vec<u8>> {
    let body = [("from-sequence-number", Value::Long(0)), ("message-count", Value::Int(100))];
    let answer = client.request(entity, "peek-message", &body).await;
    match answer.status {
        204 => Vec::new(),
        _ => messages(&answer).iter().map(|message| payload(message)).collect(),
    }
}

#[tokio::test]
async fn messages_are_scheduled_and_cancelled() {
    let (_service, mut client, coordinator) = orders().await;
    for entity in ["orders", "news"] {
        let lost = client.declare(coordinator).await;
        schedule(&mut client, entity, lost, &[b"lost"]).await;
        assert_eq!(client.roll_back(coordinator, lost).await, DeliveryState::Accepted);
        let kept = client.declare(coordinator).await;
        let numbers = schedule(&mut client, entity, kept, &[b"kept", b"cancelled in it"]).await;
        assert!(peeked(&mut client, entity).await.is_empty(), "nobody sees them");
        assert_eq!(cancel(&mut client, entity, None, &numbers).await.status, 404);
        assert_eq!(cancel(&mut client, entity, Some(kept), &numbers[1..]).await.status, 200);
        assert_eq!(client.commit(coordinator, kept).await, DeliveryState::Accepted);
        assert_eq!(peeked(&mut client, entity).await, [b"kept"]);
        for commits in [false, true] {
            let transaction = client.declare(coordinator).await;
            assert_eq!(cancel(&mut client, entity, Some(transaction), &numbers[..1]).await.status, 200);
            assert_eq!(peeked(&mut client, entity).await, [b"kept"], "it is not over");
            match commits {
                false => client.roll_back(coordinator, transaction).await,
                true => client.commit(coordinator, transaction).await,
            };
        }
        assert!(peeked(&mut client, entity).await.is_empty());
        // What is refused is told at once, and with the commit.
        let transaction = client.declare(coordinator).await;
        let refused = cancel(&mut client, entity, Some(transaction), &numbers[..1]).await;
        assert_eq!((refused.status, refused.condition.as_deref()), (404, Some(NOT_FOUND)));
        assert_eq!(condition(&client.commit(coordinator, transaction).await), NOT_FOUND);
    }
}

#[tokio::test]
async fn peek_at_topic_returns_scheduled_messages() {
    let (_service, mut client, _) = orders().await;
    let entry = map(&[("message", Value::Binary(scheduled(b"news", in_an_hour())))]);
    let body = [("messages", Value::List(vec![entry]))];
    assert_eq!(client.request("news", "schedule-message", &body).await.status, 200);
    assert_eq!(peeked(&mut client, "news").await, [b"news"]);
}

#[tokio::test]
async fn messages_of_requests_count_towards_what_a_transaction_may_send() {
    let (_service, mut client, coordinator) = orders().await;
    let transaction = client.declare(coordinator).await;
    schedule(&mut client, "orders", transaction, &[&b"x"[..]; 100]).await;
    let entry = map(&[("message", Value::Binary(scheduled(b"x", in_an_hour())))]);
    let body = [("messages", Value::List(vec![entry]))];
    let refused = client.request_in(transaction, "orders", "schedule-message", &body).await;
    assert_eq!((refused.status, refused.condition.as_deref()), (403, Some("amqp:resource-limit-exceeded")));
}

#[tokio::test]
async fn rollback_keeps_renewed_locks() {
    let (_service, mut client, coordinator) = orders().await;
    let (sender, _) = client.sender("orders").await.unwrap();
    client.send(sender, b"order").await;
    let receiver = client.receiver("orders", 1).await;
    let received = client.receive(receiver, 1).await.remove(0);
    let transaction = client.declare(coordinator).await;
    let body = [("lock-tokens", Value::Array(vec![received.lock_token()]))];
    let answer = client.request_in(transaction, "orders", "renew-lock", &body).await;
    assert!(matches!(answer.body.get("expirations"), Some(Value::Array(_))), "{answer:?}");
    assert_eq!(client.roll_back(coordinator, transaction).await, DeliveryState::Accepted);
    assert_eq!(client.settle(&received, DeliveryState::Accepted).await, DeliveryState::Accepted);
}

#[tokio::test]
async fn session_state_is_visible_within_transaction() {
    let (_service, mut client, coordinator) = orders().await;
    client.ask_to_receive("sessions", session_filter("one".into())).await.unwrap();
    let name = ("session-id", Value::from("one"));
    let id = name.clone();
    let set = |state: &[u8]| [id.clone(), ("session-state", Value::Binary(state.to_vec()))];
    let state = |answer: &Answer| answer.body.get("session-state").unwrap().clone();
    let name = std::slice::from_ref(&name);
    for (commits, after) in [(false, Value::Null), (true, Value::Binary(b"b".to_vec()))] {
        let transaction = client.declare(coordinator).await;
        for text in [b"a", b"b"] {
            let answer = client.request_in(transaction, "sessions", "set-session-state", &set(text)).await;
            assert_eq!(answer.status, 200);
        }
        let answer = client.request_in(transaction, "sessions", "get-session-state", name).await;
        assert_eq!(state(&answer), Value::Binary(b"b".to_vec()));
        let answer = client.request("sessions", "get-session-state", name).await;
        assert_eq!(state(&answer), Value::Null, "it is not over");
        match commits {
            false => client.roll_back(coordinator, transaction).await,
            true => client.commit(coordinator, transaction).await,
        };
        let answer = client.request("sessions", "get-session-state", name).await;
        assert_eq!(state(&answer), after);
    }
}

#[tokio::test]
async fn deferred_messages_are_received_locked_or_deleted_with_it() {
    let (_service, mut client, coordinator) = orders().await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let receiver = client.receiver("orders", 1).await;
    client.send(sender, b"order").await;
    let received = client.receive(receiver, 1).await.remove(0);
    let defer =
        DeliveryState::Modified { delivery_failed: false, undeliverable_here: true, annotations: Vec::new() };
    client.settle(&received, defer).await;
    let ask = |mode: u32| {
        let numbers = vec![Value::Long(received.sequence_number())];
        [("sequence-numbers", Value::Array(numbers)), ("receiver-settle-mode", Value::Uint(mode))]
    };
    let operation = "receive-by-sequence-number";
    for round in 0..2 {
        let transaction = client.declare(coordinator).await;
        let answer = client.request_in(transaction, "orders", operation, &ask(0)).await;
        assert_eq!(payload(&messages(&answer)[0]), b"order");
        let Some(Value::List(entries)) = answer.body.get("messages") else { panic!("{answer:?}") };
        assert_eq!(entries[0].get("lock-token"), None);
        // Nobody else gets it.
        assert_eq!(client.request("orders", operation, &ask(1)).await.status, 404);
        match round {
            0 => client.roll_back(coordinator, transaction).await,
            // As the end of its link does.
            _ => {
                client.detach(coordinator).await;
                DeliveryState::Released
            }
        };
        let answer = client.request("orders", operation, &ask(1)).await;
        let Some(Value::List(entries)) = answer.body.get("messages") else { panic!("{answer:?}") };
        let token = entries[0].get("lock-token").unwrap().clone();
        let body = [("lock-tokens", Value::Array(vec![token])), ("disposition-status", "defered".into())];
        assert_eq!(client.request("orders", "update-disposition", &body).await.status, 200);
    }
    let coordinator = client.coordinator().await;
    // Locked, and completed in the same transaction.
    let transaction = client.declare(coordinator).await;
    let answer = client.request_in(transaction, "orders", operation, &ask(1)).await;
    let Some(Value::List(entries)) = answer.body.get("messages") else { panic!("{answer:?}") };
    let token = entries[0].get("lock-token").unwrap().clone();
    let body = [("lock-tokens", Value::Array(vec![token])), ("disposition-status", "completed".into())];
    assert_eq!(client.request_in(transaction, "orders", "update-disposition", &body).await.status, 200);
    assert_eq!(client.commit(coordinator, transaction).await, DeliveryState::Accepted);
    assert!(peeked(&mut client, "orders").await.is_empty());
}

#[tokio::test]
async fn messages_are_deleted_with_it() {
    let (_service, mut client, coordinator) = orders().await;
    let (sender, _) = client.sender("orders").await.unwrap();
    for payload in [b"1", b"2", b"3"] {
        client.send(sender, payload).await;
    }
    let body = [("message-count", Value::Int(2)), ("enqueued-time-utc", Value::Timestamp(in_an_hour()))];
    let operation = "batch-delete-messages";
    for commits in [false, true] {
        let transaction = client.declare(coordinator).await;
        for expected in [2, 1] {
            let answer = client.request_in(transaction, "orders", operation, &body).await;
            assert_eq!(answer.body.get("message-count"), Some(&Value::Int(expected)));
        }
        assert_eq!(client.request_in(transaction, "orders", operation, &body).await.status, 204);
        assert_eq!(peeked(&mut client, "orders").await.len(), 3);
        match commits {
            false => client.roll_back(coordinator, transaction).await,
            true => client.commit(coordinator, transaction).await,
        };
    }
    assert!(peeked(&mut client, "orders").await.is_empty());
}

#[tokio::test]
async fn read_only_requests_are_answered_and_rules_are_refused() {
    let (_service, mut client, coordinator) = orders().await;
    let (sender, _) = client.sender("orders").await.unwrap();
    client.send(sender, b"order").await;
    let transaction = client.declare(coordinator).await;
    let body = [("from-sequence-number", Value::Long(0)), ("message-count", Value::Int(1))];
    for entity in ["orders", "other"] {
        let answer = client.request_in(transaction, entity, "peek-message", &body).await;
        assert!(answer.status < 300, "{answer:?}");
    }
    let answer = client.request_in(transaction, "orders", "add-rule", &[]).await;
    assert_eq!(answer.status, 501);
    assert_eq!(client.commit(coordinator, transaction).await, DeliveryState::Accepted);
}

#[tokio::test]
async fn restart_keeps_committed_requests() {
    let directory = tempfile::tempdir().unwrap();
    let service = durable(directory.path()).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let coordinator = client.coordinator().await;
    let (kept, lost) = (client.declare(coordinator).await, client.declare(coordinator).await);
    schedule(&mut client, "orders", kept, &[b"kept"]).await;
    schedule(&mut client, "orders", lost, &[b"lost"]).await;
    assert_eq!(client.commit(coordinator, kept).await, DeliveryState::Accepted);
    service.stop().await;
    let service = durable(directory.path()).await;
    let mut client = Client::connect(service.amqp_address()).await;
    assert_eq!(peeked(&mut client, "orders").await, [b"kept"]);
}

#[tokio::test]
async fn missing_message_of_locked_session_loses_message_lock() {
    let (_service, mut client, coordinator) = orders().await;
    let (sender, _) = client.sender("sessions").await.unwrap();
    client.send_message(sender, FORMAT_AMQP, &message_of_session("one", b"order")).await;
    let (receiver, _) = client.ask_to_receive("sessions", session_filter("one".into())).await.unwrap();
    client.connection().set_credit(receiver, 1);
    let received = client.receive(receiver, 1).await.remove(0);
    client.settle(&received, DeliveryState::Accepted).await;
    let transaction = client.declare(coordinator).await;
    let body = [
        ("disposition-status", Value::from("completed")),
        ("lock-tokens", Value::Array(vec![received.lock_token()])),
        ("session-id", Value::from("one")),
    ];
    let lost = client.request_in(transaction, "sessions", "update-disposition", &body).await;
    assert_eq!((lost.status, lost.condition.as_deref()), (410, Some(LOCK_LOST)));
    assert_eq!(condition(&client.commit(coordinator, transaction).await), LOCK_LOST);
}

const LOCK_LOST: &str = "com.microsoft:message-lock-lost";
const NOT_FOUND: &str = "com.microsoft:message-not-found";
