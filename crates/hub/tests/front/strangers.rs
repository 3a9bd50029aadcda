//! Clients that show nothing: what they can hold in unfinished messages and in sockets, and that others are served all the
//! while.

use std::num::NonZeroU32;

use access::DEVELOPMENT_KEY_VALUE;
use amqp::Value;
use amqp::connection::{Event, LinkId, LinkOptions, SaslClient};
use amqp::performative::{DeliveryState, Target};
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::client::{Client, RawClient, frame, token, within};

/// A service with so many places for connections, and with metrics.
async fn service(connections: u32) -> Service {
    let namespace = NamespaceConfig {
        maximum_connections: NonZeroU32::new(connections).unwrap(),
        ..NamespaceConfig::with_hubs(vec![HubConfig::new("events", 2)])
    };
    Service::start(ServiceConfig::loopback(namespace).and(Protocol::Operations)).await.unwrap()
}

/// What the metric of this name shows.
pub(super) async fn metric(service: &Service, name: &str) -> u64 {
    let mut socket = TcpStream::connect(service.address(Protocol::Operations).unwrap()).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let mut answer = String::new();
    within("the metrics", socket.read_to_string(&mut answer)).await.unwrap();
    let figure = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    figure.unwrap_or_else(|| panic!("no {name} in {answer}")).parse().unwrap()
}

/// Connects with what `sasl` proves, and attaches links to `addresses` for transfers that are made by hand: their handles
/// are 0 and so on.
async fn attached(service: &Service, addresses: &[&str], sasl: SaslClient) -> (RawClient, Vec<LinkId>) {
    let mut client = RawClient::connect_as(service.amqp_address(), sasl).await;
    let opened = |event| matches!(event, Event::Opened(_)).then_some(());
    client.until("the open", opened).await;
    let session = client.engine.begin_session().unwrap();
    let mut links = Vec::new();
    for address in addresses {
        let options = LinkOptions {
            name: format!("to {address}"),
            target: Target::new(*address),
            ..LinkOptions::default()
        };
        let link = client.engine.attach_sender(session, options).unwrap();
        let credit = |event| match event {
            Event::Credit(granted) if granted == link => Some(()),
            Event::LinkDetached { error, .. } => panic!("{error:?}"),
            _ => None,
        };
        client.until("credit", credit).await;
        links.push(link);
    }
    (client, links)
}

/// Part of a message on the link with this handle, not the last.
fn part(handle: u8, is_first: bool, payload: &[u8]) -> Vec<u8> {
    transfer(handle, is_first.then_some(handle), 0x41, payload)
}

/// The last part of a message on the link with this handle, or all of one that has this delivery id.
fn last(handle: u8, id: Option<u8>) -> Vec<u8> {
    transfer(handle, id, 0x42, b"\x00\x53\x75\xa0\x01a")
}

fn transfer(handle: u8, id: Option<u8>, more: u8, payload: &[u8]) -> Vec<u8> {
    let delivery = match id {
        // Delivery id, tag and format.
        Some(id) => [0x52, id, 0xa0, 1, b't', 0x43].to_vec(),
        None => vec![0x40; 3],
    };
    let fields = [&[0x52, handle][..], &delivery, &[0x40, more]].concat();
    let size = u8::try_from(fields.len() + 1).unwrap();
    let performative = [&[0x00, 0x53, 0x14, 0xc0, size, 6][..], &fields, payload];
    frame(0, &performative.concat())
}

#[tokio::test]
async fn unfinished_messages_of_strangers_share_a_bound_and_take_nothing_from_those_who_belong_here() {
    let service = service(5_000).await;
    let mut owner = Client::connect(service.amqp_address()).await;
    let held = "parshall_amqp_partial_message_bytes";
    let refused = "parshall_amqp_partial_messages_refused_total";
    let chunk = vec![0; 60_000];
    let mut strangers = Vec::new();
    // Far more than all of them together may hold, and nearly what each may.
    for _ in 0..200 {
        let (mut client, _) = attached(&service, &["$cbs", "$management"], SaslClient::None).await;
        for handle in [0, 1] {
            let first = part(handle, true, &chunk);
            client.socket.write_all(&first).await.unwrap();
        }
        strangers.push(client);
    }
    within("the refusals", async { while metric(&service, refused).await < 100 {} }).await;
    assert!(metric(&service, held).await <= 16 << 20);
    // Several frames, for which those who belong here have room of their own.
    let sender = owner.attach_sender("events/Partitions/0").await.unwrap();
    let large = vec![7; 500_000];
    assert_eq!(owner.send(sender, &large).await, DeliveryState::Accepted);
    drop(strangers);
    within("the end of the strangers", async { while metric(&service, held).await > 0 {} }).await;
}

#[tokio::test]
async fn a_message_that_is_too_large_holds_nothing_until_its_end_and_is_rejected_then() {
    let service = service(5_000).await;
    for (address, largest, sasl) in [
        ("$cbs", 64 << 10, SaslClient::None),
        ("$management", 64 << 10, SaslClient::None),
        ("events", 1 << 20, RawClient::key()),
        ("events/Partitions/0", 1 << 20, RawClient::key()),
    ] {
        let (mut client, _) = attached(&service, &[address], sasl).await;
        let mut sent = 0;
        while sent <= 2 * largest {
            let more = part(0, sent == 0, &[0; 60_000]);
            client.socket.write_all(&more).await.unwrap();
            sent += 60_000;
        }
        let held = "parshall_amqp_partial_message_bytes";
        within(address, async { while metric(&service, held).await > 0 {} }).await;
        // The end of the message, and another one. They were made by hand, so the engine does not wait for their outcomes.
        let mut answer = Vec::new();
        client.socket.write_all(&last(0, None)).await.unwrap();
        client.socket.write_all(&last(0, Some(1))).await.unwrap();
        let accepted = [0x00, 0x53, 0x24, 0x45];
        let is_there =
            |answer: &[u8], bytes: &[u8]| answer.windows(bytes.len()).any(|window| window == bytes);
        within(address, async {
            while !is_there(&answer, &accepted) {
                assert_ne!(client.socket.read_buf(&mut answer).await.unwrap(), 0);
            }
        })
        .await;
        assert!(is_there(&answer, b"amqp:link:message-size-exceeded"), "{address}: {answer:02x?}");
        let detach = [0x00, 0x53, 0x16];
        assert!(!is_there(&answer, &detach), "{address}: {answer:02x?}");
    }
}

#[tokio::test]
async fn idle_sockets_make_room_for_clients_and_for_health_checks() {
    let service = service(8).await;
    let mut first = Client::connect(service.amqp_address()).await;
    let mut idle = Vec::new();
    for address in [service.amqp_address(), service.address(Protocol::Operations).unwrap()] {
        for _ in 0..100 {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
    }
    let mut second = Client::connect(service.amqp_address()).await;
    second.prove_service(b"from one that came after them").await;
    first.prove_service(b"from one that was there before").await;
    assert!(metric(&service, "parshall_amqp_connections_evicted_total").await >= 90);
    assert_eq!(metric(&service, "parshall_amqp_connections").await, 8);
    assert_eq!(metric(&service, "parshall_accept_failures_total").await, 0);
    drop(idle);
}

#[tokio::test]
async fn a_token_that_is_shown_with_a_request_counts_under_whatever_name_of_the_service_it_was_signed() {
    let service = service(8).await;
    let mut client = Client::connect_unauthorized(service.amqp_address()).await;
    let read = |resource: &str| {
        let token = token(DEVELOPMENT_KEY_VALUE, resource, 3600);
        let properties = [
            ("operation", "READ"),
            ("type", "com.microsoft:eventhub"),
            ("name", "events"),
            ("security_token", &token),
        ];
        properties.map(|(name, text)| (name, Value::from(text)))
    };
    for (resource, status) in [
        ("sb://localhost/other", 401),
        ("sb://localhost/events", 200),
        ("amqp://127.0.0.1/events", 200),
        ("amqps://ns1.servicebus.windows.net:5671/events", 200),
        ("https://container/", 200),
    ] {
        let (told, _) = client.request("$management", &read(resource), &Value::Null).await;
        assert_eq!(told, status, "{resource}");
    }
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(TcpStream::connect(service.amqp_address()).await.unwrap());
    }
    // The newest of these is there when another client is served.
    Client::connect(service.amqp_address()).await.prove_service(b"from one that came after them").await;
    let (told, _) = client.request("$management", &read("sb://localhost/events"), &Value::Null).await;
    assert_eq!(told, 200, "it belongs here, and makes no room");
    drop(idle);
}
