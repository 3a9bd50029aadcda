//! Clients that have stopped: they neither speak nor read, as if their process were halted or the network cut. The
//! service's idle time-out is short here; the engine's own tests say exactly when it ends them.

use std::time::Duration;

use amqp::connection::{Event, LinkOptions};
use amqp::performative::{DeliveryState, Source, Target};
use amqp::{Value, codec::Symbol};
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Service, ServiceConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::front::client::{Client, RawClient, frame, within};

const ADDRESS: &str = "events/ConsumerGroups/$Default/Partitions/0";

async fn impatient_service() -> Service {
    let mut hub = HubConfig::new("events", 2);
    hub.log.get_or_insert_default().bytes = units::ByteSize::from_mebibytes(128);
    let namespace = NamespaceConfig {
        // Long enough that a test that waits for the processor is not taken for a client that is gone.
        idle_timeout: Duration::from_millis(500),
        ..NamespaceConfig::with_hubs(vec![hub])
    };
    Service::start(ServiceConfig::loopback(namespace)).await.unwrap()
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
    client.until("the attach", |event| matches!(event, Event::LinkAttached { .. }).then_some(())).await;
    client.engine.set_credit(link, credit);
    client.flush().await;
    client
}

/// Waits until a receiver can be attached, by connections of its own: none of them is there long enough to be silent.
async fn becomes_free(what: &str, service: &Service, address: &str) {
    within(what, async { while !can_attach(service, address).await {} }).await;
}

async fn can_attach(service: &Service, address: &str) -> bool {
    let mut witness = Client::connect(service.amqp_address()).await;
    witness.attach_receiver(address, 0).await.is_ok()
}

#[tokio::test]
async fn a_silent_client_gets_an_error_and_is_disconnected() {
    let service = impatient_service().await;
    let mut silent = receiver(&service, None, 0).await;
    let mut last_words = Vec::new();
    within("the end", silent.socket.read_to_end(&mut last_words)).await.unwrap();
    let condition = b"amqp:resource-limit-exceeded";
    assert!(last_words.windows(condition.len()).any(|window| window == condition));
}

#[tokio::test]
async fn what_a_silent_client_held_is_free_again() {
    let service = impatient_service().await;
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(receiver(&service, None, 10).await);
    }
    assert!(!can_attach(&service, ADDRESS).await);
    becomes_free("a place among the five", &service, ADDRESS).await;
    drop(silent);

    let address = "events/ConsumerGroups/$Default/Partitions/1";
    let with_epoch = |options: &mut LinkOptions| {
        let name = Symbol::from("com.microsoft:epoch");
        options.properties = vec![(name, Value::Long(10))];
    };
    let mut halted = Client::connect(service.amqp_address()).await;
    halted.ask_to_receive(address, with_epoch).await.unwrap();
    becomes_free("the place of the higher epoch", &service, address).await;
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
        // It is served until its sockets are full, and alive for all that can be told.
        while !can_attach(&service, ADDRESS).await {
            let _ = deaf.socket.write_all(&heartbeat).await;
        }
    })
    .await;
    let mut witness = Client::connect(service.amqp_address()).await;
    witness.prove_service(b"others are served").await;
}

#[tokio::test]
async fn clients_that_answer_stay_however_little_there_is_to_say() {
    let service = impatient_service().await;
    let mut quiet = Client::connect(service.amqp_address()).await;
    let link = quiet.attach_receiver(ADDRESS, 10).await.unwrap();
    let silent = receiver(&service, None, 0).await;
    // As long as it takes to end another, several times over, the driver sends heartbeats.
    for _ in 0..2 {
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
    assert_eq!(witness.send(sender, b"event").await, DeliveryState::Accepted);
    quiet.receive(link, 1).await;
}
