//! Tokens that end while they are in use.

use std::time::Duration;

use connect::event_hubs::EventHubsOptions;
use connect::identity::{EVENT_HUBS_SCOPE, Identity};
use connect::producer::{NewEvent, Producer, ProducerOptions, ProducerTarget};
use connect::retry::RetryPolicy;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::identity::setting::{HUB, Setting, within};

#[tokio::test]
async fn tokens_are_renewed_on_connections_that_stay() {
    let setting = Setting::start(SHORT_S).await;
    for target in [ProducerTarget::EventHubs(setting.hub()), ProducerTarget::Http(setting.entity(HUB))] {
        let before = setting.issued().await;
        let producer = within(Producer::connect(target, ProducerOptions::default())).await.unwrap();
        let mut sent = 0;
        within(async {
            while setting.issued().await < before + 4 {
                producer.send(&NewEvent::new(b"event")).await.unwrap();
                sent += 1;
            }
        })
        .await;
        let statistics = within(producer.close()).await;
        assert_eq!((statistics.acknowledged, statistics.lost_events()), (sent, 0));
    }
    // Three renewals, and not a connection for each.
    assert!(setting.counter("parshall_amqp_connections_accepted_total").await < 3);
    setting.service.stop().await;
}

#[tokio::test]
async fn while_the_issuer_is_away_the_old_token_serves_and_the_trouble_is_told() {
    let setting = Setting::start(AWAY_S).await;
    let way = Way::to(setting.issuer_port()).await;
    let identity = setting.identity_at(way.port);
    let options = EventHubsOptions { identity: identity.clone(), ..setting.hub() };
    let target = ProducerTarget::EventHubs(options);
    let producer = within(Producer::connect(target, ProducerOptions::default())).await.unwrap();
    assert_eq!(identity.troubles(), []);
    way.is_open.send_replace(false);
    within(send_until(&producer, || !identity.troubles().is_empty())).await;
    let troubles = identity.troubles();
    assert_eq!(troubles[0].scope, EVENT_HUBS_SCOPE);
    let told = troubles[0].to_string();
    assert!(told.starts_with("the token for https://eventhubs.azure.net/.default ends in "), "{told}");
    assert!(told.contains(" s and is not renewed: no identity has a token"), "{told}");
    way.is_open.send_replace(true);
    within(send_until(&producer, || identity.troubles().is_empty())).await;
    assert_eq!(within(producer.close()).await.lost_events(), 0);
    setting.service.stop().await;
}

#[tokio::test]
async fn a_client_survives_that_its_token_ends() {
    let setting = Setting::start(SHORT_S).await;
    let way = Way::to(setting.issuer_port()).await;
    let identity: Identity = setting.identity_at(way.port);
    let mut options = EventHubsOptions { identity: identity.clone(), ..setting.hub() };
    options.reconnect = RetryPolicy { max_delay: Duration::from_millis(100), ..options.reconnect };
    let target = ProducerTarget::EventHubs(options);
    let producer = within(Producer::connect(target, ProducerOptions::default())).await.unwrap();
    way.is_open.send_replace(false);
    let is_over =
        || identity.troubles().iter().any(|trouble| trouble.to_string().starts_with("there is no token"));
    // A send that waits for the connection is done once there is a token.
    within(async {
        let mut acknowledged = 0_u64;
        while !is_over() {
            let event = NewEvent::new(b"event");
            tokio::select! {
                sent = producer.send(&event) => sent.unwrap(),
                () = until(&is_over) => {}
            }
            acknowledged += 1;
        }
        way.is_open.send_replace(true);
        producer.send(&NewEvent::new(b"the last event")).await.unwrap();
        assert!(acknowledged > 0);
    })
    .await;
    assert_eq!(within(producer.close()).await.lost_events(), 0);
    setting.service.stop().await;
}

/// Sends events until something is so.
async fn send_until(producer: &Producer, is_so: impl Fn() -> bool) {
    while !is_so() {
        producer.send(&NewEvent::new(b"event")).await.unwrap();
    }
}

/// Looks again and again whether something is so, while everything else goes on.
async fn until(is_so: impl Fn() -> bool) {
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    while !is_so() {
        looks.tick().await;
    }
}

/// The way to a port, which can be closed: then connections end at once.
struct Way {
    port: u16,
    is_open: watch::Sender<bool>,
}

impl Way {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (is_open, mut opened) = watch::channel(true);
        let way = Self { port: listener.local_addr().unwrap().port(), is_open };
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                if *opened.borrow_and_update() {
                    let mut closed = opened.clone();
                    tokio::spawn(async move {
                        let mut far = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                        tokio::select! {
                            _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                            _ = closed.wait_for(|is_open| !is_open) => {}
                        }
                    });
                }
            }
        });
        way
    }
}

/// As short as a token can be and still be renewed on a machine with other things to do.
const SHORT_S: u64 = 2;

/// Long enough for several attempts to renew it.
const AWAY_S: u64 = 12;
