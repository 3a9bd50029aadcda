//! Clients that have stopped: they neither speak nor read, as if their process were halted or the network cut. The
//! service's idle time-out is short here; the engine's own tests say exactly when it ends them.

use std::time::Duration;

use amqp::connection::{Event, LinkOptions};
use amqp::performative::{DeliveryState, Source, Target};
use amqp::{Value, codec::Symbol};
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Service, ServiceConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::{Client, RawClient, frame, within};

const ADDRESS: &str = "events/ConsumerGroups/$Default/Partitions/0";

async fn impatient_service() -> Service {
    let mut hub = HubConfig::new("events", 2);
    hub.log.bytes = units::ByteSize::from_mebibytes(128);
    let namespace = NamespaceConfig {
        idle_timeout: Duration::from_millis(100),
        ..NamespaceConfig::with_hubs(vec![hub])
    };
    Service::start(ServiceConfig::loopback(namespace))
        .await
        .unwrap()
}

/// Opens a connection and attaches a receiver with this epoch and credit.
async fn receiver(service: &Service, epoch: Option<i64>, credit: u32) -> RawClient {
    let mut client = RawClient::open(service.amqp_address()).await;
    let session = client.engine.begin_session().unwrap();
    let epoch = epoch.map(|epoch| {
        let name = Symbol::from("com.microsoft:epoch");
        (name, Value::Long(epoch))
    });
    let options = LinkOptions {
        source: Source::new(ADDRESS),
        target: Target::new("here"),
        properties: epoch.into_iter().collect(),
        ..LinkOptions::default()
    };
    let link = client.engine.attach_receiver(session, options).unwrap();
    client
        .until("the attach", |event| {
            matches!(event, Event::LinkAttached { .. }).then_some(())
        })
        .await;
    client.engine.set_credit(link, credit);
    client.flush().await;
    client
}

#[tokio::test]
async fn a_silent_client_is_told_and_hung_up_on() {
    let service = impatient_service().await;
    let mut silent = receiver(&service, None, 0).await;
    let mut last_words = Vec::new();
    within("the end", silent.socket.read_to_end(&mut last_words))
        .await
        .unwrap();
    let condition = b"amqp:resource-limit-exceeded";
    assert!(
        last_words
            .windows(condition.len())
            .any(|window| window == condition)
    );
}

#[tokio::test]
async fn what_a_silent_client_held_is_free_again() {
    let service = impatient_service().await;
    let mut witness = Client::connect(service.amqp_address()).await;
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(receiver(&service, None, 10).await);
    }
    within("a place among the five", async {
        while witness.attach_receiver(ADDRESS, 0).await.is_err() {}
    })
    .await;
    drop(silent);

    let address = "events/ConsumerGroups/$Default/Partitions/1";
    let with_epoch = |options: &mut LinkOptions| {
        let name = Symbol::from("com.microsoft:epoch");
        options.properties = vec![(name, Value::Long(10))];
    };
    let mut halted = Client::connect(service.amqp_address()).await;
    halted.ask_to_receive(address, with_epoch).await.unwrap();
    within("the place of the higher epoch", async {
        while witness.attach_receiver(address, 0).await.is_err() {}
    })
    .await;
}

#[tokio::test]
async fn a_client_that_sends_but_does_not_read_is_ended_and_what_waited_for_it_is_freed() {
    let service = impatient_service().await;
    let mut witness = Client::connect(service.amqp_address()).await;
    let sender = witness.attach_sender("events/Partitions/0").await.unwrap();
    for _ in 0..800 {
        let outcome = witness.send(sender, &[7; 64 * 1024]).await;
        assert_eq!(outcome, DeliveryState::Accepted);
    }
    // Much more than sockets hold is on its way to it.
    let mut deaf = receiver(&service, Some(10), u32::MAX / 2).await;
    let heartbeat = frame(0, &[]);
    within("the end", async {
        while deaf.socket.write_all(&heartbeat).await.is_ok() {
            // It is served until its sockets are full, and alive for all that can be told.
            if witness.attach_receiver(ADDRESS, 0).await.is_ok() {
                return;
            }
        }
    })
    .await;
    within("the place of the higher epoch", async {
        while witness.attach_receiver(ADDRESS, 0).await.is_err() {}
    })
    .await;
    witness.prove_service(b"others are served").await;
}

#[tokio::test]
async fn clients_that_answer_stay_however_little_there_is_to_say() {
    let service = impatient_service().await;
    let mut quiet = Client::connect(service.amqp_address()).await;
    let link = quiet.attach_receiver(ADDRESS, 10).await.unwrap();
    let silent = receiver(&service, None, 0).await;
    // As long as it takes to end another, several times over, the driver sends heartbeats.
    for _ in 0..5 {
        let mut ended = receiver(&service, None, 0).await;
        let mut last_words = Vec::new();
        let ending = ended.socket.read_to_end(&mut last_words);
        let driving = quiet.until("nothing", |_event| None::<()>);
        tokio::select! {
            read = ending => drop(read),
            () = driving => {}
        }
    }
    drop(silent);
    let mut witness = Client::connect(service.amqp_address()).await;
    let sender = witness.attach_sender("events/Partitions/0").await.unwrap();
    assert_eq!(
        witness.send(sender, b"event").await,
        DeliveryState::Accepted
    );
    quiet.receive(link, 1).await;
}
