//! What goes wrong: credentials, names, connections, the service, and records that are gone.

use std::time::Duration;

use connect::event::PartitionId;
use connect::kafka::{connect_sink, connect_source};
use connect::sink::ErrorClass;
use connect::source::{SourceOptions, StartPosition};
use hub::namespace::{HubConfig, NamespaceConfig, StorageConfig};
use hub::service::{Listener, Protocol, Service, ServiceConfig};

use crate::kafka::service::{
    TOPIC, breaking_connections, closed, options, outcomes, publish, receive, records, send, serve, sink,
    source, start, values, within,
};

#[tokio::test]
async fn wrong_credentials_topics_and_addresses_are_said_at_once() {
    let service = serve().await;
    let class = |options: connect::kafka::KafkaOptions| async move {
        let sink = within(connect_sink(&options)).await.unwrap_err();
        let connecting = connect_source(&options, SourceOptions::default(), connect::event::Encoding::Kafka);
        assert_eq!(within(connecting).await.unwrap_err(), sink);
        (sink.class, sink.condition)
    };
    let mut wrong_key = options(&service, &[]);
    let password = wrong_key.properties.get("sasl.password").unwrap().replace("SAS_KEY_VALUE", "another");
    wrong_key.properties.set("sasl.password", password);
    assert_eq!(class(wrong_key).await, (ErrorClass::Fatal, "SASL_AUTHENTICATION_FAILED".to_owned()));

    let mut unknown = options(&service, &[]);
    unknown.topic = "missing".to_owned();
    assert_eq!(class(unknown).await, (ErrorClass::Fatal, "UNKNOWN_TOPIC_OR_PARTITION".to_owned()));

    let mut misspelt = options(&service, &[]);
    misspelt.properties.set("socket.nagle.disable", "true");
    assert_eq!(class(misspelt).await, (ErrorClass::Fatal, "property".to_owned()));

    // The port of another protocol.
    let mut misdirected = options(&service, &[("socket.connection.setup.timeout.ms", "5000")]);
    misdirected.properties.set("bootstrap.servers", service.address(Protocol::Amqp).unwrap().to_string());
    let refused = within(connect_sink(&misdirected)).await.unwrap_err();
    assert!(refused.condition.starts_with("connection:"), "{refused}");

    let address = service.address(Protocol::Kafka).unwrap().to_string();
    let nobody = options(&service, &[]);
    service.stop().await;
    let refused = within(connect_sink(&nobody)).await.unwrap_err();
    assert_eq!(refused.condition, "connection:unreachable");
    assert!(refused.description.contains(&address), "{refused}");
}

#[tokio::test]
async fn a_partition_that_is_not_there_and_a_position_beyond_the_end_are_refused() {
    let service = serve().await;
    let mut to = sink(&service, &[]).await;
    publish(&mut *to, 0, &records(&values(3, 16))).await;
    let mut source = source(&service, &[], &StartPosition::Latest).await;
    source.open(PartitionId(99), StartPosition::Earliest);
    let (partition, error) = closed(&mut *source).await;
    assert_eq!((partition, error.class), (PartitionId(99), ErrorClass::Fatal));
    source.open(PartitionId(0), StartPosition::AfterSequenceNumber(3));
    let (partition, error) = closed(&mut *source).await;
    assert!(partition == PartitionId(0) && error.is_position_refused(), "{error}");
    // One after the last is where the next one will be.
    source.open(PartitionId(0), StartPosition::AfterSequenceNumber(2));
    publish(&mut *to, 0, &records(&values(1, 16))).await;
    assert_eq!(receive(&mut *source, 1).await[0].1, 3);
    service.stop().await;
}

#[tokio::test]
async fn connections_that_break_lose_and_double_nothing() {
    let mut namespace = NamespaceConfig::with_hubs(vec![HubConfig::new(TOPIC, 2)]);
    namespace.profile = breaking_connections();
    let service = start(namespace).await;
    let mut to = sink(&service, &[]).await;
    let mut from = source(&service, &[], &StartPosition::Earliest).await;
    let started = tokio::time::Instant::now();
    let mut next = 0;
    // Long enough for a few connections to break.
    while started.elapsed() < Duration::from_secs(3) {
        let batch = values(20, 16);
        for partition in 0..2 {
            send(&mut *to, u64::from(partition), partition, &records(&batch)).await;
        }
        let outcomes = outcomes(&mut *to, 2).await;
        assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()), "{outcomes:?}");
        let received = receive(&mut *from, 40).await;
        for partition in 0..2 {
            let numbers = received.iter().filter(|(of, ..)| *of == partition).map(|(_, number, _)| *number);
            assert!(numbers.eq(next..next + 20), "partition {partition} after {next}: {received:?}");
        }
        next += 20;
    }
    service.stop().await;
}

#[tokio::test]
async fn a_service_that_comes_back_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let config = |address| {
        let mut namespace = NamespaceConfig::with_hubs(vec![HubConfig::new(TOPIC, 3)]);
        let directory = folder.path().to_owned();
        namespace.storage = Some(StorageConfig { directory, options: Default::default() });
        let mut config = ServiceConfig::loopback(namespace);
        config.listeners.push(Listener::plain(Protocol::Kafka, address));
        config
    };
    let service = Service::start(config(([127, 0, 0, 1], 0).into())).await.unwrap();
    let address = service.address(Protocol::Kafka).unwrap();
    let mut to = sink(&service, &[]).await;
    let mut from = source(&service, &[], &StartPosition::Earliest).await;
    publish(&mut *to, 1, &records(&values(30, 16))).await;
    assert_eq!(receive(&mut *from, 30).await.len(), 30);
    service.stop().await;
    // What is sent while nobody is there either waits or is refused as busy; both go on by themselves.
    let batch = records(&values(5, 16));
    let resumed = async {
        send(&mut *to, 3, 1, &batch).await;
        outcomes(&mut *to, 1).await
    };
    let restarted = async { Service::start(config(address)).await.unwrap() };
    let (outcomes, service) = tokio::join!(resumed, restarted);
    assert_eq!(outcomes[0].result, Ok(()));
    let received = receive(&mut *from, 5).await;
    assert!(received.iter().map(|(_, number, _)| *number).eq(30..35));
    service.stop().await;
}

#[tokio::test]
async fn what_retention_took_is_passed_over_and_not_skipped() {
    let mut hub = HubConfig::new(TOPIC, 1);
    hub.log.get_or_insert_default().bytes = units::ByteSize::from_mebibytes(2);
    let service = start(NamespaceConfig::with_hubs(vec![hub])).await;
    let mut to = sink(&service, &[]).await;
    for _ in 0..40 {
        publish(&mut *to, 0, &records(&values(100, 1_000))).await;
    }
    let mut from = source(&service, &[], &StartPosition::AtSequenceNumber(10)).await;
    let received = receive(&mut *from, 100).await;
    let first = received[0].1;
    assert!(first > 10, "the log does not hold all of them");
    assert!(received.iter().map(|(_, number, _)| *number).eq(first..first + received.len() as i64));
    service.stop().await;
}
