//! Clients that take without end, or take nothing.

use std::io::ErrorKind;

use access::DEVELOPMENT_KEY_VALUE;
use amqp::Value;
use amqp::connection::{ConnectionError, Event, LinkId, LinkOptions, NewDelivery, SaslClient};
use amqp::message::{FORMAT_AMQP, Properties, encode};
use amqp::performative::{DeliveryState, ErrorCondition, Source, Target};
use hub::namespace::HubConfig;
use hub::service::Service;
use tokio::net::TcpSocket;

use super::client::{Client, RawClient, payload, service, service_of, token, within};
use crate::kafka_memory::{falls_to, usage};

#[tokio::test]
async fn a_client_that_opens_ten_thousand_links_is_closed_and_the_others_are_not() {
    let service = service().await;
    let mut witness = Client::connect(service.amqp_address()).await;
    let mut greedy = Client::connect(service.amqp_address()).await;
    let mut session = greedy.session();
    let mut links = 0..10_000;
    let error = loop {
        // As many as the session takes, then another session.
        for number in links.by_ref() {
            let options = LinkOptions {
                name: format!("greedy-{number}"),
                source: Source::new("here"),
                target: Target::new("events"),
                ..LinkOptions::default()
            };
            if greedy.connection().attach_sender(session, options).is_none() {
                break;
            }
        }
        assert!(links.start < links.end, "all links were taken");
        session = greedy.connection().begin_session().unwrap();
        if let Err(error) = greedy.session_began().await {
            break error;
        }
    };
    assert_eq!(error.condition.as_str(), "amqp:resource-limit-exceeded", "{error}");
    witness.prove_service(b"still there").await;
}

#[tokio::test]
async fn a_client_that_grants_no_credit_gets_nothing_until_it_does() {
    let service = service().await;
    let mut idle = Client::connect(service.amqp_address()).await;
    let without_credit =
        idle.attach_receiver("events/ConsumerGroups/$Default/Partitions/0", 0).await.unwrap();
    let mut witness = Client::connect(service.amqp_address()).await;
    let sender = witness.attach_sender("events/Partitions/0").await.unwrap();
    for number in 0..100_u8 {
        assert_eq!(witness.send(sender, &[number]).await, DeliveryState::Accepted);
    }
    let receiver = witness.attach_receiver("events/ConsumerGroups/$Default/Partitions/0", 100).await.unwrap();
    assert_eq!(witness.receive(receiver, 100).await.len(), 100);
    let delivered = || service.namespace().hub("events").unwrap().counters().events_out;
    assert_eq!(delivered(), 100, "only to the one with credit");

    idle.connection().set_credit(without_credit, 3);
    let got = idle.receive(without_credit, 3).await;
    assert_eq!(got.iter().map(|event| payload(event)[0]).collect::<Vec<_>>(), [0, 1, 2]);
    // A drain shows that nothing else is on its way.
    idle.connection().set_credit(without_credit, 5);
    idle.receive(without_credit, 5).await;
    idle.connection().drain(without_credit);
    idle.connection().set_credit(without_credit, 0);
    assert_eq!(delivered(), 108);
}

#[tokio::test]
async fn a_drain_is_answered_at_the_end_of_the_log() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let receiver = client.attach_receiver("events/ConsumerGroups/$Default/Partitions/0", 1000).await.unwrap();
    client.connection().drain(receiver);
    client.until("the drain", |event| matches!(event, Event::Drained(_)).then_some(())).await;
    assert_eq!(client.connection().credit(receiver), 0);
}

#[tokio::test]
async fn a_client_that_never_reads_costs_a_bounded_amount_of_memory() {
    let mut hub = HubConfig::new("events", 2);
    hub.log.get_or_insert_default().bytes = units::ByteSize::from_mebibytes(128);
    let service = service_of(hub).await;
    let mut witness = Client::connect(service.amqp_address()).await;
    let sender = witness.attach_sender("events/Partitions/0").await.unwrap();
    let event = vec![7; 64 * 1024];
    for _ in 0..EVENTS {
        assert_eq!(witness.send(sender, &event).await, DeliveryState::Accepted);
    }
    let address = "events/ConsumerGroups/$Default/Partitions/0";
    let mut stalled = RawClient::open(service.amqp_address()).await;
    let session = stalled.engine.begin_session().unwrap();
    let options =
        LinkOptions { source: Source::new(address), target: Target::new("here"), ..LinkOptions::default() };
    let unread = stalled.engine.attach_receiver(session, options).unwrap();
    stalled.until("the attach", |event| matches!(event, Event::LinkAttached { .. }).then_some(())).await;
    stalled.engine.set_credit(unread, u32::MAX / 2);
    // From here on it reads nothing.
    stalled.flush().await;

    // Whoever reads gets all of it meanwhile, several times over.
    for _ in 0..3 {
        let receiver = witness.attach_receiver(address, EVENTS as u32).await.unwrap();
        assert_eq!(witness.receive(receiver, EVENTS).await.len(), EVENTS);
    }
    let delivered = service.namespace().hub("events").unwrap().counters().events_out;
    let to_the_stalled = (delivered - 3 * EVENTS as u64) * event.len() as u64;
    assert!(to_the_stalled > 0, "it was served until its sockets were full");
    assert!(
        to_the_stalled < OUTPUT_AND_SOCKETS,
        "{to_the_stalled} bytes were produced for a client that never reads"
    );
}

#[tokio::test]
async fn requests_of_a_client_that_never_reads_are_not_taken_without_end() {
    let service = service().await;
    let mut witness = Client::connect(service.amqp_address()).await;
    let mut asking = RawClient::open(service.amqp_address()).await;
    let session = asking.engine.begin_session().unwrap();
    let asks =
        LinkOptions { name: "asks".into(), target: Target::new("$management"), ..LinkOptions::default() };
    let requests = asking.engine.attach_sender(session, asks).unwrap();
    let hears = LinkOptions {
        name: "hears".into(),
        source: Source::new("$management"),
        target: Target::new("here"),
        ..LinkOptions::default()
    };
    let answers = asking.engine.attach_receiver(session, hears).unwrap();
    asking.engine.set_credit(answers, u32::MAX / 2);
    asking.until("credit", |event| matches!(event, Event::Credit(_)).then_some(())).await;

    let mut message = Vec::new();
    Properties { message_id: Some(Value::from("request")), ..Properties::default() }.encode(&mut message);
    let fields = [("operation", "READ"), ("name", "events"), ("type", "com.microsoft:eventhub")];
    encode::application_properties(&mut message, &fields.map(|(key, text)| (key, Value::from(text))));
    let delivery = NewDelivery { tag: b"t", format: FORMAT_AMQP, settled: true };
    for _ in 0..50 {
        asking.engine.sender(requests).unwrap().send(&delivery, &[&message]).unwrap();
    }
    // Written over and over again: the service does not mind delivery ids that repeat, nor overdrawn credit.
    let mut burst = asking.take_output();
    let (mut written, mut refused) = (0, 0);
    while refused < 20 {
        assert!(written < OUTPUT_AND_SOCKETS, "the service takes requests without end");
        match asking.socket.try_write(&burst) {
            Ok(length) => {
                written += length as u64;
                burst.rotate_left(length);
                refused = 0;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // Time enough for the service to take more, if it ever will.
                witness.prove_service(&written.to_be_bytes()).await;
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_stranger_that_does_not_receive_its_answers_is_closed() {
    let service = service().await;
    let mut witness = Client::connect(service.amqp_address()).await;
    let (mut client, _) = strangers_requests(&service, 50).await;
    let error = client.until("the close", |event| match event {
        Event::Closed(Some(ConnectionError::ClosedByPeer(error))) => Some(error),
        _ => None,
    });
    assert_eq!(error.await.condition, ErrorCondition::RESOURCE_LIMIT_EXCEEDED);
    witness.prove_service(b"it is served").await;
    falls_to(&service, "amqp-logins", 0).await;
}

/// A client without a token that sends `count` requests with answers of 10 KB, and does not receive these. Gives the number of the last
/// request.
pub(crate) async fn strangers_requests(service: &Service, count: usize) -> (Client, u32) {
    let mut client = Client::connect_unauthorized(service.amqp_address()).await;
    let requests = client.attach_sender("$management").await.unwrap();
    client.attach_receiver("$management", 0).await.unwrap();
    let mut message = Vec::new();
    let long = "x".repeat(10_000);
    let fields = [("operation", "READ"), ("name", &long), ("type", "com.microsoft:eventhub")];
    encode::application_properties(&mut message, &fields.map(|(key, text)| (key, Value::from(text))));
    let mut last = 0;
    for _ in 0..count {
        last = client.begin_message(requests, FORMAT_AMQP, &message).await;
    }
    (client, last)
}

#[tokio::test]
async fn an_unauthenticated_client_gets_little() {
    let service = service().await;
    let mut client = Client::connect_unauthorized(service.amqp_address()).await;
    let requests = client.attach_sender("$cbs").await.unwrap();
    for (size, is_taken) in [(64 * 1024 - 8, true), (64 * 1024 - 7, false)] {
        let outcome = client.send(requests, &vec![0; size]).await;
        assert_eq!(outcome == DeliveryState::Accepted, is_taken, "{outcome:?}");
    }
    let mut links = 1;
    let error = loop {
        match client.attach_receiver("$management", 0).await {
            Ok(_) => links += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((error.condition, links), (ErrorCondition::RESOURCE_LIMIT_EXCEEDED, 256));
    let endless = "x".repeat(3_000);
    let error = client.attach_sender(&endless).await.unwrap_err();
    assert_eq!(error.condition, ErrorCondition::INVALID_FIELD);
}

#[tokio::test]
async fn a_client_that_does_not_answer_the_farewell_does_not_keep_the_service() {
    let service = service().await;
    let mut silent = RawClient::open(service.amqp_address()).await;
    within("the end of the service", service.stop()).await;
    let forced = |event| match event {
        Event::Closed(Some(ConnectionError::ClosedByPeer(error))) => Some(error.condition),
        _ => None,
    };
    assert_eq!(silent.until("the close", forced).await, ErrorCondition::CONNECTION_FORCED);
}

/// How many events of 64 KiB the log has.
const EVENTS: usize = 1_000;

/// What may be on its way to a client that does not read: the connection's output and both sockets' buffers, which
/// the system lets grow to a few megabytes each.
const OUTPUT_AND_SOCKETS: u64 = 24 << 20;

/// Groups of readers, each of which may have five.
const GROUPS: usize = 120;

/// Events that each of the readers below is to be sent, and bytes of each: more than the system takes for a client.
const BACKLOG: usize = 5_000;
const EVENT: usize = 1_000;

/// A service with a backlog of events for all groups.
pub(crate) async fn service_with_backlog() -> Service {
    let consumer_groups = (0..GROUPS).map(|number| format!("group{number}")).collect();
    let service = service_of(HubConfig { consumer_groups, ..HubConfig::new("events", 2) }).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let sender = client.attach_sender("events/Partitions/0").await.unwrap();
    let mut message = Vec::new();
    encode::data(&mut message, &[7; EVENT]);
    let mut last = 0;
    for _ in 0..BACKLOG {
        last = client.begin_message(sender, FORMAT_AMQP, &message).await;
    }
    assert_eq!(client.outcome(last).await, DeliveryState::Accepted);
    service
}

/// Clients that ask for the backlog and read no more than its first event, until no memory is left for the output of one. Each with its link.
pub(crate) async fn readers_of_nothing(service: &Service) -> Vec<(Client, LinkId)> {
    let mut clients: Vec<(Client, LinkId)> = Vec::new();
    loop {
        let before = usage(service, "amqp-output").await;
        if before.1 > 0 {
            return clients;
        }
        let group = clients.len() / 5;
        assert!(group < GROUPS, "they would hold 110 MiB");
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let socket = socket.connect(service.amqp_address()).await.unwrap();
        let mut client =
            Client::open(amqp_tokio::accept(socket).unwrap(), SaslClient::Anonymous).await.unwrap();
        client.put_token(&token(DEVELOPMENT_KEY_VALUE, "sb://localhost/", 3600)).await;
        let address = format!("events/ConsumerGroups/group{group}/Partitions/0");
        let link = client.attach_receiver(&address, BACKLOG as u32).await.unwrap();
        client.receive(link, 1).await;
        clients.push((client, link));
        let asks_for_more = async {
            while usage(service, "amqp-output").await == before {
                tokio::task::yield_now().await;
            }
        };
        within("its output waits", asks_for_more).await;
    }
}

#[tokio::test]
async fn a_client_for_whose_output_no_memory_is_left_is_sent_everything_once_it_reads() {
    let service = service_with_backlog().await;
    let mut clients = readers_of_nothing(&service).await;
    let (refused, link) = clients.last_mut().unwrap();
    assert_eq!(refused.receive(*link, BACKLOG - 1).await.len(), BACKLOG - 1);
    refused.prove_service(b"others are served").await;
    drop(clients);
    service.stop().await;
}
