//! Messages that are sent and settled as a whole or not at all, through the coordinator of transactions.

use amqp::Value;
use amqp::codec::Symbol;
use amqp::connection::LinkId;
use amqp::message::FORMAT_AMQP;
use amqp::performative::{DeliveryState, Error, ErrorCondition};
use amqp::{CoordinatorRequest, TransactionId};
use hub::namespace::QueueConfig;
use hub::service::Service;

use crate::service_bus::client::{Client, condition, in_transaction, message, service};
use crate::service_bus::durable::durable;

const NOT_ALLOWED: &str = "amqp:not-allowed";
const UNKNOWN_ID: &str = "amqp:transaction:unknown-id";
const LIMIT_EXCEEDED: &str = "amqp:resource-limit-exceeded";
const LOCK_LOST: &str = "com.microsoft:message-lock-lost";

pub(crate) async fn queues() -> Service {
    service(vec![QueueConfig::new("orders"), QueueConfig::new("invoices")], vec![]).await
}

/// A client with a sender to each queue, and the coordinator on the same session.
async fn client(service: &Service) -> (Client, LinkId, LinkId, LinkId) {
    let mut client = Client::connect(service.amqp_address()).await;
    let coordinator = client.coordinator().await;
    let (orders, _) = client.sender("orders").await.unwrap();
    let (invoices, _) = client.sender("invoices").await.unwrap();
    (client, coordinator, orders, invoices)
}

/// The payloads that wait in an entity, taken by another client, with locks.
async fn waiting(service: &Service, entity: &str, count: usize) -> Vec<Vec<u8>> {
    let mut client = Client::connect(service.amqp_address()).await;
    let receiver = client.receiver(entity, 100).await;
    let received = client.receive(receiver, count).await;
    client.drain(receiver).await;
    assert_eq!(client.waiting(receiver), 0, "there are more");
    for message in &received {
        client.settle(message, DeliveryState::Released).await;
    }
    let mut payloads: Vec<Vec<u8>> = received.iter().map(|message| message.payload().to_vec()).collect();
    payloads.sort();
    client.close().await;
    payloads
}

fn modified(undeliverable_here: bool) -> DeliveryState {
    DeliveryState::Modified { delivery_failed: false, undeliverable_here, annotations: Vec::new() }
}

#[tokio::test]
async fn what_is_committed_is_done_and_nothing_of_it_is_seen_before() {
    let service = queues().await;
    let (mut client, coordinator, orders, invoices) = client(&service).await;
    for payload in [&b"complete"[..], b"defer", b"dead letter", b"abandon"] {
        client.send(orders, payload).await;
    }
    let receiver = client.receiver("orders", 4).await;
    let received = client.receive(receiver, 4).await;
    let transaction = client.declare(coordinator).await;
    let sent = client.send_in(transaction, invoices, FORMAT_AMQP, &message(b"invoice")).await;
    assert_eq!(sent, in_transaction(transaction, DeliveryState::Accepted));
    let info = vec![(Symbol::from_static("DeadLetterReason"), Value::from("bad"))];
    let dead = DeliveryState::Rejected(Some(Error { info, ..Error::new(ErrorCondition::DEAD_LETTER, "") }));
    for (message, outcome, answer) in [
        (&received[0], DeliveryState::Accepted, DeliveryState::Accepted),
        (&received[1], modified(true), modified(true)),
        (&received[2], dead, DeliveryState::Rejected(None)),
        (&received[3], modified(false), modified(false)),
    ] {
        let answered = client.settle_in(transaction, message, outcome).await;
        assert_eq!(answered, in_transaction(transaction, answer));
        assert!(!client.is_settled(message.id));
    }
    assert_eq!(waiting(&service, "invoices", 0).await, [b""; 0]);
    assert_eq!(waiting(&service, "orders", 0).await, [b""; 0]);
    assert_eq!(client.commit(coordinator, transaction).await, DeliveryState::Accepted);
    for message in &received {
        let settled = client.answer_about(message.id).await;
        assert!(matches!(settled, DeliveryState::Transactional { .. }), "{settled:?}");
    }
    assert_eq!(waiting(&service, "invoices", 1).await, [b"invoice"]);
    assert_eq!(waiting(&service, "orders", 1).await, [b"abandon"]);
    assert_eq!(waiting(&service, "orders/$DeadLetterQueue", 1).await, [b"dead letter"]);
    let body = [
        ("sequence-numbers", Value::Array(vec![Value::Long(received[1].sequence_number())])),
        ("receiver-settle-mode", Value::Uint(1)),
    ];
    assert_eq!(client.request("orders", "receive-by-sequence-number", &body).await.status, 200);
}

#[tokio::test]
async fn what_is_rolled_back_never_was_and_messages_stay_locked() {
    let service = queues().await;
    let (mut client, coordinator, orders, invoices) = client(&service).await;
    client.send(orders, b"order").await;
    let receiver = client.receiver("orders", 1).await;
    let received = client.receive(receiver, 1).await;
    let transaction = client.declare(coordinator).await;
    client.send_in(transaction, invoices, FORMAT_AMQP, &message(b"invoice")).await;
    client.settle_in(transaction, &received[0], DeliveryState::Accepted).await;
    assert_eq!(client.roll_back(coordinator, transaction).await, DeliveryState::Accepted);
    assert_eq!(waiting(&service, "invoices", 0).await, [b""; 0]);
    assert_eq!(waiting(&service, "orders", 0).await, [b""; 0], "it is still locked");
    // The delivery is as live as before.
    assert!(!client.is_settled(received[0].id));
    assert_eq!(client.settle(&received[0], DeliveryState::Released).await, DeliveryState::Released);
    assert_eq!(waiting(&service, "orders", 1).await, [b"order"]);
}

#[tokio::test]
async fn rolled_back_delivery_can_be_settled_again() {
    let service = queues().await;
    let (mut client, coordinator, orders, _) = client(&service).await;
    for payload in [&b"again"[..], b"by itself", b"by request", b"settled at once"] {
        client.send(orders, payload).await;
    }
    let receiver = client.receiver("orders", 4).await;
    let received = client.receive(receiver, 4).await;
    let first = client.declare(coordinator).await;
    for message in &received[..3] {
        client.settle_in(first, message, DeliveryState::Accepted).await;
        // A client may change its mind within it.
        client.settle_in(first, message, modified(true)).await;
    }
    let id = received[3].id;
    let session = client.session();
    let accepted = in_transaction(first, DeliveryState::Accepted);
    client.connection().settle(session, id, id, accepted);
    assert_eq!(client.roll_back(coordinator, first).await, DeliveryState::Accepted);
    let second = client.declare(coordinator).await;
    client.settle_in(second, &received[0], DeliveryState::Accepted).await;
    assert_eq!(client.settle(&received[1], DeliveryState::Accepted).await, DeliveryState::Accepted);
    // What the client has settled itself is known by its lock alone.
    for message in &received[2..] {
        let body = [
            ("disposition-status", Value::from("completed")),
            ("lock-tokens", Value::Array(vec![message.lock_token()])),
        ];
        assert_eq!(client.request("orders", "update-disposition", &body).await.status, 200);
    }
    assert_eq!(client.commit(coordinator, second).await, DeliveryState::Accepted);
    let body = [("from-sequence-number", Value::Long(0)), ("message-count", Value::Int(9))];
    assert_eq!(client.request("orders", "peek-message", &body).await.status, 204, "all are gone");
    let lost = client.settle(&received[2], DeliveryState::Accepted).await;
    assert_eq!(condition(&lost), LOCK_LOST);
}

#[tokio::test]
async fn a_lock_that_is_over_rolls_all_of_it_back() {
    let service = queues().await;
    let (mut client, coordinator, orders, invoices) = client(&service).await;
    client.send(orders, b"order").await;
    let receiver = client.receiver("orders", 1).await;
    let received = client.receive(receiver, 1).await;
    let transaction = client.declare(coordinator).await;
    client.send_in(transaction, invoices, FORMAT_AMQP, &message(b"invoice")).await;
    client.settle_in(transaction, &received[0], DeliveryState::Accepted).await;
    // Somebody settles it meanwhile.
    let body = [
        ("disposition-status", Value::from("abandoned")),
        ("lock-tokens", Value::Array(vec![received[0].lock_token()])),
    ];
    assert_eq!(client.request("orders", "update-disposition", &body).await.status, 200);
    let refused = client.commit(coordinator, transaction).await;
    assert_eq!(condition(&refused), LOCK_LOST);
    assert_eq!(waiting(&service, "invoices", 0).await, [b""; 0]);
    assert_eq!(waiting(&service, "orders", 1).await, [b"order"]);
    // It is over with that.
    assert_eq!(condition(&client.commit(coordinator, transaction).await), UNKNOWN_ID);
}

#[tokio::test]
async fn an_id_that_is_none_or_over_is_refused_and_changes_nothing() {
    let service = queues().await;
    let (mut client, coordinator, orders, _) = client(&service).await;
    client.send(orders, b"order").await;
    let receiver = client.receiver("orders", 1).await;
    let received = client.receive(receiver, 1).await;
    let over = client.declare(coordinator).await;
    assert_eq!(client.commit(coordinator, over).await, DeliveryState::Accepted);
    let strange = TransactionId::new(b"no id of ours").unwrap();
    for id in [over, strange] {
        let refused = client.send_in(id, orders, FORMAT_AMQP, &message(b"lost")).await;
        assert_eq!(condition(&refused), UNKNOWN_ID);
        assert_eq!(condition(&client.commit(coordinator, id).await), UNKNOWN_ID);
        assert_eq!(condition(&client.roll_back(coordinator, id).await), UNKNOWN_ID);
    }
    assert_eq!(condition(&client.settle_in(over, &received[0], DeliveryState::Accepted).await), UNKNOWN_ID);
    assert_eq!(waiting(&service, "orders", 0).await, [b""; 0], "it is locked, and nothing was sent");
}

#[tokio::test]
async fn transactions_end_with_the_link_and_the_connection_that_they_belong_to() {
    let service = queues().await;
    let (mut client, coordinator, orders, _) = client(&service).await;
    let other = client.coordinator().await;
    let (first, second) = (client.declare(coordinator).await, client.declare(other).await);
    assert_ne!(first, second);
    for transaction in [first, second] {
        client.send_in(transaction, orders, FORMAT_AMQP, &message(b"order")).await;
    }
    client.detach(coordinator).await;
    assert_eq!(condition(&client.commit(other, first).await), UNKNOWN_ID);
    assert_eq!(client.commit(other, second).await, DeliveryState::Accepted);
    assert_eq!(waiting(&service, "orders", 1).await, [b"order"]);
    let third = client.declare(other).await;
    client.send_in(third, orders, FORMAT_AMQP, &message(b"lost")).await;
    client.close().await;
    assert_eq!(waiting(&service, "orders", 1).await, [b"order"]);
}

#[tokio::test]
async fn a_transaction_sends_no_more_messages_than_the_service_takes() {
    let service = queues().await;
    let (mut client, coordinator, orders, _) = client(&service).await;
    for (messages, is_committed) in [(101, false), (100, true)] {
        let transaction = client.declare(coordinator).await;
        for number in 0..messages {
            let sent = client.send_in(transaction, orders, FORMAT_AMQP, &message(b"order")).await;
            match number < 100 {
                true => assert_eq!(sent, in_transaction(transaction, DeliveryState::Accepted)),
                false => assert_eq!(condition(&sent), LIMIT_EXCEEDED),
            }
        }
        // A client that has not looked at a refusal is told again.
        let committed = client.commit(coordinator, transaction).await;
        match is_committed {
            true => assert_eq!(committed, DeliveryState::Accepted),
            false => assert_eq!(condition(&committed), LIMIT_EXCEEDED),
        }
    }
    assert_eq!(waiting(&service, "orders", 100).await.len(), 100);
}

#[tokio::test]
async fn messages_of_two_entities_can_not_be_settled_in_one_transaction() {
    let service = queues().await;
    let (mut client, coordinator, orders, invoices) = client(&service).await;
    client.send(orders, b"order").await;
    client.send(invoices, b"invoice").await;
    let transaction = client.declare(coordinator).await;
    let receiver = client.receiver("orders", 1).await;
    let order = client.receive(receiver, 1).await.remove(0);
    let mut other = Client::connect(service.amqp_address()).await;
    let receiver = other.receiver("invoices", 1).await;
    let invoice = other.receive(receiver, 1).await.remove(0);
    let accepted = in_transaction(transaction, DeliveryState::Accepted);
    assert_eq!(client.settle_in(transaction, &order, DeliveryState::Accepted).await, accepted);
    let body = [
        ("disposition-status", Value::from("completed")),
        ("lock-tokens", Value::Array(vec![invoice.lock_token()])),
    ];
    let refused = client.request_in(transaction, "invoices", "update-disposition", &body).await;
    assert_eq!(refused.condition.as_deref(), Some(NOT_ALLOWED));
    // Nor a part of it.
    assert_eq!(condition(&client.commit(coordinator, transaction).await), NOT_ALLOWED);
    assert_eq!(waiting(&service, "orders", 0).await, [b""; 0], "it is locked");
}

#[tokio::test]
async fn session_with_coordinator_receives_from_its_first_entity_only() {
    let service = queues().await;
    let dead_letters = "orders/$DeadLetterQueue";
    // It has sent before it had a coordinator, which does not count.
    let mut sending = Client::connect(service.amqp_address()).await;
    let (invoices, _) = sending.sender("invoices").await.unwrap();
    sending.send(invoices, b"invoice").await;
    let coordinator = sending.coordinator().await;
    let (orders, _) = sending.sender("orders").await.unwrap();
    let transaction = sending.declare(coordinator).await;
    sending.send_in(transaction, orders, FORMAT_AMQP, &message(b"order")).await;
    sending.send(invoices, b"invoice").await;
    // This one receives from it before.
    let mut receiving = Client::connect(service.amqp_address()).await;
    receiving.receiver("orders", 0).await;
    receiving.coordinator().await;
    let (invoices, _) = receiving.sender("invoices").await.unwrap();
    receiving.send(invoices, b"invoice").await;
    for client in [&mut sending, &mut receiving] {
        for address in ["orders", dead_letters] {
            client.ask_to_receive(address, |_| {}).await.unwrap();
        }
        let refusal = client.ask_to_receive("invoices", |_| {}).await.unwrap_err();
        assert_eq!(refusal.condition.as_str(), NOT_ALLOWED);
        // Requests concern any.
        let body = [("from-sequence-number", Value::Long(0)), ("message-count", Value::Int(1))];
        assert_eq!(client.request("invoices", "peek-message", &body).await.status, 200);
    }
    // Without a coordinator there is nothing to bind.
    let mut plain = Client::connect(service.amqp_address()).await;
    let (orders, _) = plain.sender("orders").await.unwrap();
    plain.send(orders, b"order").await;
    plain.receiver("invoices", 0).await;
}

#[tokio::test]
async fn messages_are_sent_to_another_entity_through_the_one_that_takes_part() {
    let service = queues().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (via, _) = client
        .ask_to_send("orders", |options| {
            let name = Symbol::from_static("com.microsoft:transfer-destination-address");
            options.properties.push((name, Value::from("invoices")));
        })
        .await
        .unwrap();
    let coordinator = client.coordinator().await;
    let transaction = client.declare(coordinator).await;
    client.send_in(transaction, via, FORMAT_AMQP, &message(b"in a transaction")).await;
    assert_eq!(client.commit(coordinator, transaction).await, DeliveryState::Accepted);
    client.send(via, b"in none").await;
    assert_eq!(waiting(&service, "invoices", 2).await, [&b"in a transaction"[..], b"in none"]);
    assert_eq!(waiting(&service, "orders", 0).await, [b""; 0]);
}

#[tokio::test]
async fn what_the_coordinator_can_not_do_is_refused() {
    let service = queues().await;
    let (mut client, coordinator, ..) = client(&service).await;
    let refused = client.send_message(coordinator, FORMAT_AMQP, &message(b"no request")).await;
    assert_eq!(condition(&refused), "amqp:decode-error");
    let global = b"\x00\x53\x77\x00\x53\x31\xc0\x04\x01\xa0\x01\x07";
    let refused = client.send_message(coordinator, FORMAT_AMQP, global).await;
    assert_eq!(condition(&refused), "amqp:not-implemented");
    for _ in 0..256 {
        client.declare(coordinator).await;
    }
    let declare = CoordinatorRequest::Declare { is_global: false };
    assert_eq!(condition(&client.coordinate(coordinator, declare).await), LIMIT_EXCEEDED);
}

/// Budget of all transactions, in bytes.
const TOTAL: usize = 256 * 1024 * 1024;

/// A transaction that is open: its client, the coordinator and the sender of it.
type Open = (Client, LinkId, LinkId, TransactionId);

/// Opens transactions with messages until one of these is refused for want of memory.
pub(crate) async fn open_transactions(service: &Service) -> Vec<Open> {
    let long = message(&vec![7; 250 * 1024]);
    let mut open = Vec::new();
    let mut accepted = 0;
    let refused = 'full: loop {
        assert!(accepted * long.len() <= TOTAL);
        let (mut client, coordinator, orders, _) = client(service).await;
        let transaction = client.declare(coordinator).await;
        for _ in 0..100 {
            let sent = client.send_in(transaction, orders, FORMAT_AMQP, &long).await;
            if sent != in_transaction(transaction, DeliveryState::Accepted) {
                open.push((client, coordinator, orders, transaction));
                break 'full sent;
            }
            accepted += 1;
        }
        open.push((client, coordinator, orders, transaction));
    };
    assert_eq!(condition(&refused), LIMIT_EXCEEDED);
    assert!((accepted + 1) * long.len() > TOTAL, "{accepted} messages");
    open
}

#[tokio::test]
async fn transactions_of_all_connections_share_a_bound_and_one_that_ends_makes_room() {
    let service = queues().await;
    let long = message(&vec![7; 250 * 1024]);
    let mut open = open_transactions(&service).await;
    let (first, coordinator, _, transaction) = &mut open[0];
    assert_eq!(first.roll_back(*coordinator, *transaction).await, DeliveryState::Accepted);
    let (last, coordinator, orders, _) = open.last_mut().unwrap();
    let transaction = last.declare(*coordinator).await;
    let sent = last.send_in(transaction, *orders, FORMAT_AMQP, &long).await;
    assert_eq!(sent, in_transaction(transaction, DeliveryState::Accepted));
    assert_eq!(last.commit(*coordinator, transaction).await, DeliveryState::Accepted);
}

#[tokio::test]
async fn what_was_committed_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let service = durable(directory.path()).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let coordinator = client.coordinator().await;
    let (orders, _) = client.sender("orders").await.unwrap();
    let (kept, lost) = (client.declare(coordinator).await, client.declare(coordinator).await);
    for (transaction, payload) in [(kept, &b"kept"[..]), (lost, b"lost"), (kept, b"as well")] {
        client.send_in(transaction, orders, FORMAT_AMQP, &message(payload)).await;
    }
    assert_eq!(client.commit(coordinator, kept).await, DeliveryState::Accepted);
    service.stop().await;
    let service = durable(directory.path()).await;
    assert_eq!(waiting(&service, "orders", 2).await, [&b"as well"[..], b"kept"]);
}
