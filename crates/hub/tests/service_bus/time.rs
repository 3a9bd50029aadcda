//! Time under control, as connected clients see it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME, SharedAccessKey};
use amqp::Value;
use amqp::codec::Symbol;
use amqp::message::{FORMAT_AMQP, Header, encode};
use amqp::performative::DeliveryState;
use hub::clock::ClockKind;
use hub::namespace::{HubConfig, NamespaceConfig, QueueConfig, SignaturePolicy, StorageConfig};
use hub::service::{Happened, Listener, Protocol, Service, ServiceConfig, StartError, TimeControl};
use partition_log::NewRecord;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::service_bus::client::{
    Client, condition, in_transaction, message, message_of_session, namespace, session_filter,
};

/// A service with the queue `orders`, whose time is under control.
async fn controlled(queue: QueueConfig) -> (Service, TimeControl) {
    let config = ServiceConfig::loopback(namespace(vec![queue], vec![])).and(Protocol::Operations);
    let service = Service::start(config.with_time_control()).await.unwrap();
    let control = service.time_control().unwrap().clone();
    (service, control)
}

/// The same, where tokens are verified.
async fn guarded() -> (Service, TimeControl) {
    let namespace = NamespaceConfig {
        signatures: SignaturePolicy::Verify,
        queues: vec![QueueConfig::new("orders")],
        ..NamespaceConfig::with_hubs(Vec::new())
    };
    let service = Service::start(ServiceConfig::loopback(namespace).with_time_control()).await.unwrap();
    let control = service.time_control().unwrap().clone();
    (service, control)
}

/// A token for the queue that ends in an hour.
fn token() -> String {
    token_for(60 * MINUTE)
}

fn token_for(life: Duration) -> String {
    let key = SharedAccessKey::new(ROOT_KEY_NAME, DEVELOPMENT_KEY_VALUE);
    key.sign(AUDIENCE, SystemTime::now() + life)
}

/// The service has what was sent once it has answered something that came after it.
async fn settle_down(client: &mut Client) {
    let peek = [("from-sequence-number", Value::Long(0)), ("message-count", Value::Int(1))];
    client.request("orders", "peek-message", &peek).await;
}

fn milliseconds(instant: SystemTime) -> i64 {
    i64::try_from(instant.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// A message that comes at an instant and then lives for some time, with these sections.
fn scheduled(sections: &[u8], at: i64, time_to_live: Duration) -> Vec<u8> {
    let mut encoded = Vec::new();
    let time_to_live_ms = Some(time_to_live.as_millis() as u32);
    encoded.extend_from_slice(Header { time_to_live_ms, ..Header::default() }.encode().as_slice());
    let time = Symbol::from_static("x-opt-scheduled-enqueue-time");
    encode::message_annotations(&mut encoded, &[(time, Value::Timestamp(at))]);
    encoded.extend_from_slice(sections);
    encoded
}

const AUDIENCE: &str = "sb://localhost/orders";
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_receiver_is_given_what_became_available_once_and_at_the_end() {
    let mut queue = QueueConfig::new("orders");
    queue.options.lock_duration = MINUTE;
    let (service, control) = controlled(queue).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let receiver = client.receiver("orders", 100).await;
    settle_down(&mut client).await;
    let mut due = Vec::new();
    for minute in 1..=50 {
        let at = milliseconds(control.now() + minute * MINUTE);
        let sent = scheduled(&message(b"later"), at, 600 * MINUTE);
        assert_eq!(client.send_message(sender, FORMAT_AMQP, &sent).await, DeliveryState::Accepted);
        due.push(at);
    }
    let mortal = scheduled(&message(b"mortal"), due[9], 10 * MINUTE);
    assert_eq!(client.send_message(sender, FORMAT_AMQP, &mortal).await, DeliveryState::Accepted);
    let happened = control.advance(60 * MINUTE).await.unwrap().happened;
    let expected = Happened { scheduled_messages_enqueued: 51, messages_expired: 1, ..Happened::default() };
    assert_eq!(happened, expected, "nobody has lost a lock");
    let received = client.receive(receiver, 50).await;
    let now = SystemTime::now();
    for (delivery, due) in received.iter().zip(due) {
        assert_eq!(delivery.annotation("x-opt-enqueued-time"), Some(Value::Timestamp(due)));
        assert_eq!(delivery.delivery_count(), 0);
        // As long as a lock lasts, by the clock of the client.
        let Some(Value::Timestamp(until)) = delivery.annotation("x-opt-locked-until") else { panic!() };
        assert!((milliseconds(now)..=milliseconds(now + MINUTE)).contains(&until), "{until}");
        assert_eq!(client.settle(delivery, DeliveryState::Accepted).await, DeliveryState::Accepted);
    }
    client.drain(receiver).await;
    assert_eq!(client.waiting(receiver), 0, "each once");
    client.close().await;
    service.stop().await;
}

#[tokio::test]
async fn a_receiver_that_waits_for_a_session_has_it_at_the_end() {
    let mut queue = QueueConfig::new("orders");
    queue.options.requires_session = true;
    queue.options.lock_duration = MINUTE;
    let (service, control) = controlled(queue).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let mut waiting = Client::connect(service.amqp_address()).await;
    let asked = waiting.begin_to_receive("orders", session_filter(Value::Null));
    settle_down(&mut waiting).await;
    let at = milliseconds(control.now() + 10 * MINUTE);
    let sent = scheduled(&message_of_session("one", b"later"), at, 600 * MINUTE);
    assert_eq!(client.send_message(sender, FORMAT_AMQP, &sent).await, DeliveryState::Accepted);
    let happened = control.advance(60 * MINUTE).await.unwrap().happened;
    assert_eq!((happened.scheduled_messages_enqueued, happened.session_locks_ended), (1, 0));
    let (receiver, _) = waiting.answer_to(asked).await.unwrap();
    waiting.connection().set_credit(receiver, 1);
    let received = waiting.receive(receiver, 1).await;
    assert_eq!(waiting.settle(&received[0], DeliveryState::Accepted).await, DeliveryState::Accepted);
    service.stop().await;
}

#[tokio::test]
async fn a_lock_that_a_client_had_before_ends_at_its_instant() {
    let mut queue = QueueConfig::new("orders");
    queue.options.lock_duration = MINUTE;
    let (service, control) = controlled(queue).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    assert_eq!(client.send(sender, b"held").await, DeliveryState::Accepted);
    let receiver = client.receiver("orders", 10).await;
    let held = client.receive(receiver, 1).await;
    assert_eq!(control.advance(2 * MINUTE).await.unwrap().happened.message_locks_ended, 1);
    let late = client.settle(&held[0], DeliveryState::Accepted).await;
    assert_eq!(condition(&late), "com.microsoft:message-lock-lost");
    let again = client.receive(receiver, 1).await;
    assert_eq!(again[0].delivery_count(), 1);
    service.stop().await;
}

#[tokio::test]
async fn a_session_is_free_once_its_lock_has_ended() {
    let mut queue = QueueConfig::new("orders");
    queue.options.requires_session = true;
    let (service, control) = controlled(queue).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    client.send_message(sender, FORMAT_AMQP, &message_of_session("one", b"hello")).await;
    let (holder, _) = client.ask_to_receive("orders", session_filter("one".into())).await.unwrap();
    let mut other = Client::connect(service.amqp_address()).await;
    let refusal = other.ask_to_receive("orders", session_filter("one".into())).await.unwrap_err();
    assert_eq!(refusal.condition.as_str(), "com.microsoft:session-cannot-be-locked");
    assert_eq!(control.advance(2 * MINUTE).await.unwrap().happened.session_locks_ended, 1);
    let lost = client.detached(holder).await;
    assert_eq!(lost.condition.as_str(), "com.microsoft:session-lock-lost");
    other.ask_to_receive("orders", session_filter("one".into())).await.unwrap();
    service.stop().await;
}

#[tokio::test]
async fn links_end_with_their_token_which_is_over_from_then_on_and_a_new_one_is_not() {
    let (service, control) = guarded().await;
    let control = control.ending_tokens();
    let (mut client, mut other) =
        (Client::connect(service.amqp_address()).await, Client::connect(service.amqp_address()).await);
    // Too short for one that a client signs again.
    let old = token_for(4 * MINUTE);
    client.put_token(AUDIENCE, &old).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    assert_eq!(control.advance(3 * MINUTE).await.unwrap().happened.links_ended, 0);
    assert_eq!(client.send(sender, b"in time").await, DeliveryState::Accepted);
    assert_eq!(control.advance(2 * MINUTE).await.unwrap().happened.links_ended, 1);
    assert_eq!(client.detached(sender).await.condition.as_str(), "amqp:unauthorized-access");
    let (status, reason) = other.try_token(AUDIENCE, &old).await;
    assert_eq!(status, 401, "{reason}");
    // Two hours ahead, a token of an hour is good for an hour.
    control.advance(115 * MINUTE).await.unwrap();
    let new = token();
    other.put_token(AUDIENCE, &new).await;
    let (sender, _) = other.sender("orders").await.unwrap();
    assert_eq!(control.advance(59 * MINUTE).await.unwrap().happened.links_ended, 0);
    assert_eq!(other.send(sender, b"in time").await, DeliveryState::Accepted);
    assert_eq!(control.advance(2 * MINUTE).await.unwrap().happened.links_ended, 1);
    service.stop().await;
}

#[tokio::test]
async fn who_signs_a_token_after_an_advance_goes_on() {
    let (service, control) = guarded().await;
    let control = control.ending_tokens();
    // All within one second if the machine is as fast as usual: then each is the same text as the one before, which has ended.
    for _day in 0..3 {
        let mut client = Client::connect(service.amqp_address()).await;
        client.put_token(AUDIENCE, &token()).await;
        let (sender, _) = client.sender("orders").await.unwrap();
        assert_eq!(client.send(sender, b"today").await, DeliveryState::Accepted);
        control.advance(24 * 60 * MINUTE).await.unwrap();
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_comes_in_the_middle_of_an_advance_is_served() {
    let (service, control) = guarded().await;
    let mut client = Client::connect(service.amqp_address()).await;
    client.put_token(AUDIENCE, &token()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    // Each is an instant at which the clock stands.
    let at = milliseconds(control.now());
    for minute in 1..=300 {
        let sent = scheduled(&message(b"later"), at + minute * 60_000, 600 * MINUTE);
        assert_eq!(client.send_message(sender, FORMAT_AMQP, &sent).await, DeliveryState::Accepted);
    }
    let advancing = tokio::spawn(async move { control.advance(480 * MINUTE).await });
    loop {
        let mut other = Client::connect(service.amqp_address()).await;
        other.put_token(AUDIENCE, &token()).await;
        let (sender, _) = other.sender("orders").await.unwrap();
        assert_eq!(other.send(sender, b"now").await, DeliveryState::Accepted);
        if advancing.is_finished() {
            break;
        }
    }
    let advanced = advancing.await.unwrap().unwrap();
    assert_eq!((advanced.happened.scheduled_messages_enqueued, advanced.happened.links_ended), (300, 0));
    service.stop().await;
}

#[tokio::test]
async fn tokens_count_as_renewed_and_links_stay() {
    let (service, control) = guarded().await;
    let token = token();
    let mut client = Client::connect(service.amqp_address()).await;
    client.put_token(AUDIENCE, &token).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    for _day in 0..3 {
        assert_eq!(control.advance(24 * 60 * MINUTE).await.unwrap().happened.links_ended, 0);
        assert_eq!(client.send(sender, b"still there").await, DeliveryState::Accepted);
    }
    // The same token is good for as long as its claim.
    let mut other = Client::connect(service.amqp_address()).await;
    other.put_token(AUDIENCE, &token).await;
    let ending = control.ending_tokens();
    assert_eq!(ending.advance(61 * MINUTE).await.unwrap().happened.links_ended, 1);
    assert_eq!(client.detached(sender).await.condition.as_str(), "amqp:unauthorized-access");
    service.stop().await;
}

#[tokio::test]
async fn retention_has_removed_what_is_too_old() {
    let mut hub = HubConfig::new("events", 2);
    hub.log.get_or_insert_default().retention = Some(Duration::from_secs(24 * 3_600));
    let config = ServiceConfig::loopback(NamespaceConfig::with_hubs(vec![hub])).with_time_control();
    let service = Service::start(config).await.unwrap();
    let control = service.time_control().unwrap().clone();
    let hub = service.namespace().hub("events").unwrap();
    let append = |partition: usize| {
        let now = service.namespace().clock().unix_time();
        hub.partitions()[partition]
            .append(now, |encoder| {
                encoder.push(&NewRecord {
                    annotation_count: 0,
                    annotations: &[],
                    sections: &[b"\0Su\xa0\x01e"],
                });
                Ok::<_, ()>(())
            })
            .unwrap();
    };
    append(0);
    control.advance(Duration::from_secs(20 * 3_600)).await.unwrap();
    append(1);
    assert_eq!(control.advance(Duration::from_secs(5 * 3_600)).await.unwrap().happened.events_removed, 1);
    let is_empty = |partition: usize| hub.partitions()[partition].log().stats().is_empty;
    assert!(is_empty(0) && !is_empty(1));
    service.stop().await;
}

#[tokio::test]
async fn time_is_not_under_control_beyond_loopback_nor_where_data_is_kept() {
    let start = |config: ServiceConfig| Service::start(config.with_time_control());
    let config = || ServiceConfig::loopback(namespace(vec![QueueConfig::new("orders")], vec![]));
    let mut open = config();
    open.open_to_anyone = true;
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    open.listeners.push(Listener::plain(Protocol::Kafka, everywhere));
    let error = start(open).await.unwrap_err();
    let StartError::TimeBeyondLoopback { protocol, address, .. } = error else { panic!("{error}") };
    assert_eq!((protocol, address), (Protocol::Kafka, everywhere));
    let directory = tempfile::tempdir().unwrap();
    let mut kept = config();
    kept.namespace.storage =
        Some(StorageConfig { directory: directory.path().join("data"), options: Default::default() });
    let error = start(kept).await.unwrap_err();
    assert!(matches!(error, StartError::TimeOfKeptData { .. }), "{error}");
    assert!(!directory.path().join("data").exists(), "nothing was made");
    let service = Service::start(config()).await.unwrap();
    assert!(service.time_control().is_none());
    assert_eq!(service.namespace().clock().kind(), ClockKind::Machine);
    service.stop().await;
}

/// The status and the body that a request gets.
async fn asked(address: SocketAddr, request: &str) -> (u16, serde_json::Value) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

fn post(body: &str, headers: &str) -> String {
    let length = body.len();
    format!(
        "POST /time/advance HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

const SHOW: &str = "GET /time HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[tokio::test]
async fn time_is_shown_and_advanced_over_http() {
    let (service, control) = controlled(QueueConfig::new("orders")).await;
    let operations = service.address(Protocol::Operations).unwrap();
    let (status, shown) = asked(operations, SHOW).await;
    assert_eq!((status, &shown["offset"], &shown["offset_ms"]), (200, &"0 s".into(), &0.into()));
    let (status, advanced) = asked(operations, &post("90 min", "")).await;
    assert_eq!((status, &advanced["offset"]), (200, &"90 min".into()), "{advanced}");
    assert_eq!(advanced["happened"]["messages_expired"], 0);
    let next_year = "2099-01-01T00:00:00Z";
    let (status, advanced) = asked(operations, &post(&format!(r#"{{"to":"{next_year}"}}"#), "")).await;
    assert_eq!(status, 200, "{advanced}");
    assert!(advanced["now"].as_str().unwrap().starts_with("2099-01-01T00:00:0"), "{advanced}");
    let ahead = control.offset();
    for (expected, request) in [
        (400, post("2098-01-01T00:00:00Z", "")),
        (400, post("soon", "")),
        (413, post(&" ".repeat(2_000), "")),
        (403, post("1h", "Origin: http://example.com\r\n")),
        (403, post("1h", "Sec-Fetch-Site: cross-site\r\n")),
        (403, post("1h", "").replace("Host: localhost", "Host: example.com")),
        (405, SHOW.replace("/time", "/time/advance")),
    ] {
        let (status, answer) = asked(operations, &request).await;
        assert_eq!(status, expected, "{request}: {answer}");
        assert!(answer["error"].is_string(), "{answer}");
    }
    assert_eq!(control.offset(), ahead, "what was refused has not happened");
    service.stop().await;
}

#[tokio::test]
async fn a_transaction_is_rolled_back_once_it_is_two_minutes_old_by_the_clock_of_the_service() {
    let (service, control) = controlled(QueueConfig::new("orders")).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let coordinator = client.coordinator().await;
    let (orders, _) = client.sender("orders").await.unwrap();
    let (young, old, idle) = (
        client.declare(coordinator).await,
        client.declare(coordinator).await,
        client.declare(coordinator).await,
    );
    let send = async |client: &mut Client, transaction| {
        let sent = client.send_in(transaction, orders, FORMAT_AMQP, &message(b"order")).await;
        assert_eq!(sent, in_transaction(transaction, DeliveryState::Accepted));
    };
    send(&mut client, old).await;
    control.advance(MINUTE).await.unwrap();
    // Its time begins with its first operation.
    send(&mut client, young).await;
    let advanced = control.advance(MINUTE).await.unwrap();
    assert_eq!(advanced.happened.transactions_aborted, 1);
    const TIMEOUT: &str = "amqp:transaction:timeout";
    let refused = client.send_in(old, orders, FORMAT_AMQP, &message(b"late")).await;
    assert_eq!(condition(&refused), TIMEOUT);
    assert_eq!(condition(&client.commit(coordinator, old).await), TIMEOUT);
    assert_eq!(client.commit(coordinator, young).await, DeliveryState::Accepted);
    send(&mut client, idle).await;
    assert_eq!(client.roll_back(coordinator, idle).await, DeliveryState::Accepted);
    let counters = service.namespace().transaction_counters().values();
    let ended = (counters.committed, counters.rolled_back, counters.expired);
    assert_eq!((counters.declared, ended), (3, (1, 1, 1)));
    let receiver = client.receiver("orders", 10).await;
    assert_eq!(client.receive(receiver, 1).await[0].payload(), b"order"[..]);
    client.drain(receiver).await;
    assert_eq!(client.waiting(receiver), 0, "nothing was sent but what was committed");
    service.stop().await;
}

#[tokio::test]
async fn the_time_of_a_usual_service_is_neither_shown_nor_advanced() {
    let config = ServiceConfig::loopback(namespace(vec![QueueConfig::new("orders")], vec![]));
    let service = Service::start(config.and(Protocol::Operations)).await.unwrap();
    let operations = service.address(Protocol::Operations).unwrap();
    for request in [SHOW.to_owned(), post("1h", "")] {
        let (status, answer) = asked(operations, &request).await;
        assert_eq!(status, 404);
        assert!(answer["error"].as_str().unwrap().contains("--time-control"), "{answer}");
    }
    assert_eq!(service.namespace().clock().offset(), Duration::ZERO);
    service.stop().await;
}
