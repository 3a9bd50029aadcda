//! Messages that are sent, received and settled.

use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME};
use amqp::Value;
use amqp::performative::DeliveryState;
use hub::namespace::QueueConfig;
use hub::service::{Service, ServiceConfig};
use serde_json::Value as Json;
use test_peer::queue_client::{QueueClient, message_with};

use crate::rest::client::{Client, Reply, namespace, service};

async fn amqp_client(service: &Service) -> QueueClient {
    QueueClient::connect_with_key(service.amqp_address(), ROOT_KEY_NAME, DEVELOPMENT_KEY_VALUE).await
}

fn broker_properties(reply: &Reply) -> Json {
    serde_json::from_str(reply.field("BrokerProperties").unwrap()).unwrap()
}

/// The path of a message, from the URL that came with it.
fn location(reply: &Reply) -> String {
    reply.field("Location").unwrap().strip_prefix("http://localhost").unwrap().to_owned()
}

const BATCH: &str = "Content-Type: application/vnd.microsoft.servicebus.json\r\n";

#[tokio::test]
async fn a_message_is_sent_locked_renewed_given_back_and_completed() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let fields = "Content-Type: text/plain\r\nPriority: High\r\nAttempt: 2\r\n\
                  BrokerProperties: {\"MessageId\": \"m 1\", \"Label\": \"l\", \"TimeToLive\": 600, \"CorrelationId\": 7}\r\n";
    assert_eq!(client.ask("POST", "/orders/messages", fields, b"body").await.status, 201);
    let locked = client.ask("POST", "/orders/messages/head?timeout=60", "", b"").await;
    assert_eq!((locked.status, &locked.body[..]), (201, &b"body"[..]));
    assert_eq!(locked.field("Content-Type"), Some("text/plain"));
    assert_eq!((locked.field("Priority"), locked.field("Attempt")), (Some("\"High\""), Some("2")));
    let told = broker_properties(&locked);
    assert_eq!(
        (&told["MessageId"], &told["Label"], &told["CorrelationId"]),
        (&"m 1".into(), &"l".into(), &"7".into())
    );
    assert_eq!((&told["DeliveryCount"], &told["State"]), (&1.into(), &"Active".into()));
    assert_eq!(told["TimeToLive"], 600.0);
    assert!(told["LockedUntilUtc"].as_str().unwrap().ends_with(" GMT"));
    let path = location(&locked);
    assert!(path.ends_with(told["LockToken"].as_str().unwrap()), "{path}");
    assert_eq!(client.ask("POST", "/orders/messages/head?timeout=0", "", b"").await.status, 204);
    assert_eq!(client.ask("POST", &path, "", b"").await.status, 200);
    assert_eq!(client.ask("PUT", &path, "", b"").await.status, 200);
    assert_eq!(client.ask("DELETE", &path, "", b"").await.status, 404, "the lock is over");
    let again = client.ask("POST", "/orders/messages/head", "", b"").await;
    assert_eq!(broker_properties(&again)["DeliveryCount"], 2);
    assert_eq!(client.ask("DELETE", &location(&again), "", b"").await.status, 200);
    let lost = client.ask("DELETE", &location(&again), "", b"").await;
    assert_eq!(lost.status, 404);
    assert!(lost.text().contains("The lock supplied is invalid"), "{}", lost.text());
    service.stop().await;
}

#[tokio::test]
async fn what_is_received_and_deleted_is_gone_and_nothing_is_an_answer_too() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    for body in [&b"first"[..], b"second"] {
        assert_eq!(client.ask("POST", "/news/messages", "", body).await.status, 201);
    }
    let head = "/news/subscriptions/all/messages/head?timeout=0";
    for body in [&b"first"[..], b"second"] {
        let reply = client.ask("DELETE", head, "", b"").await;
        assert_eq!((reply.status, &reply.body[..]), (200, body));
        assert_eq!(reply.field("Location"), None);
        assert!(broker_properties(&reply).get("LockToken").is_none());
    }
    assert_eq!(client.ask("DELETE", head, "", b"").await.status, 204);
    service.stop().await;
}

#[tokio::test]
async fn a_batch_is_sent_as_a_whole_or_not_at_all() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let body =
        br#"[{"Body": "one", "BrokerProperties": {"MessageId": "a", "TimeToLiveTimeSpan": "0.00:10:00"}},
        {"Body": "two", "UserProperties": {"n": 5}}]"#;
    assert_eq!(client.ask("POST", "/orders/messages", BATCH, body).await.status, 201);
    let bad = br#"[{"Body": "three"}, {"Body": "four", "BrokerProperties": {"TimeToLive": "never"}}]"#;
    assert_eq!(client.ask("POST", "/orders/messages", BATCH, bad).await.status, 400);
    let mut receiver = amqp_client(&service).await;
    let link = receiver.receiver("orders", 10).await;
    let messages = receiver.receive(link, 2).await;
    assert_eq!(messages[0].payload(), b"one");
    assert_eq!(messages[0].properties().message_id, Some(Value::from("a")));
    assert_eq!(messages[1].payload(), b"two");
    assert_eq!(messages[1].application_property("n"), Some(Value::Long(5)));
    assert_eq!(receiver.waiting(link), 0);
    receiver.close().await;
    service.stop().await;
}

#[tokio::test]
async fn a_message_of_amqp_comes_with_what_header_fields_can_have() {
    let service = service().await;
    let mut sender = amqp_client(&service).await;
    let (link, _) = sender.sender("orders").await.unwrap();
    let properties = amqp::message::Properties {
        message_id: Some(Value::from("é")),
        subject: Some("two\r\nlines".into()),
        group_id: Some("s".into()),
        ..Default::default()
    };
    assert_eq!(
        sender.send_message(link, 0, &message_with(&properties, b"\x00\xff")).await,
        DeliveryState::Accepted
    );
    let mut client = Client::connect(service.amqp_address()).await;
    let reply = client.ask("DELETE", "/orders/messages/head", "", b"").await;
    assert_eq!((reply.status, &reply.body[..]), (200, &b"\x00\xff"[..]));
    let told = broker_properties(&reply);
    assert_eq!((&told["MessageId"], &told["Label"]), (&"é".into(), &"two\r\nlines".into()));
    sender.close().await;
    service.stop().await;
}

#[tokio::test]
async fn a_receiver_waits_for_a_message_and_one_that_goes_away_takes_none() {
    let service = service().await;
    let mut gone = Client::connect(service.amqp_address()).await;
    gone.send("POST", "/orders/messages/head", "", b"").await;
    let mut waiting = Client::connect(service.amqp_address()).await;
    // It is answered at once, so the one before has been waiting for as long.
    assert_eq!(waiting.ask("POST", "/orders/messages/head?timeout=0", "", b"").await.status, 204);
    drop(gone);
    waiting.send("POST", "/orders/messages/head", "", b"").await;
    let mut sender = Client::connect(service.amqp_address()).await;
    assert_eq!(sender.ask("POST", "/orders/messages", "", b"message").await.status, 201);
    let reply = waiting.reply().await;
    assert_eq!((reply.status, &reply.body[..]), (201, &b"message"[..]));
    service.stop().await;
}

#[tokio::test]
async fn dead_letters_are_received_where_they_are() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    assert_eq!(client.ask("POST", "/orders/messages", "", b"dead").await.status, 201);
    let mut receiver = amqp_client(&service).await;
    let link = receiver.receiver("orders", 1).await;
    let message = receiver.receive(link, 1).await.remove(0);
    receiver.settle(&message, DeliveryState::Rejected(None)).await;
    let head = "/orders/$DeadLetterQueue/messages/head?timeout=30";
    let reply = client.ask("POST", head, "", b"").await;
    assert_eq!((reply.status, &reply.body[..]), (201, &b"dead"[..]));
    assert_eq!(client.ask("DELETE", &location(&reply), "", b"").await.status, 200);
    receiver.close().await;
    service.stop().await;
}

#[tokio::test]
async fn sessions_are_sent_to_but_not_received_from() {
    let mut config = namespace();
    let mut sessions = QueueConfig::new("sessions");
    sessions.options.requires_session = true;
    config.queues.push(sessions);
    let service = Service::start(ServiceConfig::loopback(config)).await.unwrap();
    let mut client = Client::connect(service.amqp_address()).await;
    let of_session = "BrokerProperties: {\"SessionId\": \"s\"}\r\n";
    assert_eq!(client.ask("POST", "/sessions/messages", of_session, b"").await.status, 201);
    assert_eq!(client.ask("POST", "/sessions/messages", "", b"").await.status, 400);
    assert_eq!(client.ask("POST", "/sessions/messages/head", "", b"").await.status, 400);
    service.stop().await;
}
