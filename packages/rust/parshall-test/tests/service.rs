//! Services in the process of the test, with an AMQP client that we did not write.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::net::{SocketAddr, TcpStream};

use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::types::messaging::{Body, Data, Message};
use fe2o3_amqp::types::primitives::{Binary, Value};
use fe2o3_amqp::{Connection, Receiver, Sender, Session};
use parshall_test::Service;

/// The value of a part of a connection string.
fn part<'a>(string: &'a str, name: &str) -> &'a str {
    let parts = string.split(';').filter_map(|part| part.split_once('='));
    parts.into_iter().find(|(key, _)| *key == name).unwrap().1
}

fn address(string: &str) -> SocketAddr {
    let authority = part(string, "Endpoint").trim_start_matches("sb://").trim_end_matches('/');
    authority.replace("localhost", "127.0.0.1").parse().unwrap()
}

fn is_listening(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

/// Sends a message to `target` and receives it from `source`.
async fn pass(string: &str, target: &str, source: &str) -> Vec<u8> {
    let login = SaslProfile::Plain {
        username: part(string, "SharedAccessKeyName").to_owned(),
        password: part(string, "SharedAccessKey").to_owned(),
    };
    let url = format!("amqp://{}", address(string));
    let mut connection =
        Connection::builder().container_id("test").sasl_profile(login).open(url.as_str()).await.unwrap();
    let mut session = Session::begin(&mut connection).await.unwrap();
    // First, since without a position a reader of a hub gets what comes from now on.
    let mut receiver = Receiver::attach(&mut session, "receiver", source).await.unwrap();
    let mut sender = Sender::attach(&mut session, "sender", target).await.unwrap();
    let message = Message::builder().data(Binary::from("hello".as_bytes().to_vec())).build();
    sender.send(message).await.unwrap().accepted_or("refused").unwrap();
    let delivery = receiver.recv::<Body<Value>>().await.unwrap();
    receiver.accept(&delivery).await.unwrap();
    let Body::Data(batch) = delivery.into_body() else { panic!("the body is data") };
    let body = batch.into_iter().flat_map(|Data(data)| data.into_vec()).collect();
    connection.close().await.unwrap();
    body
}

#[tokio::test]
async fn an_event_and_messages_pass_through() {
    let service =
        Service::builder().hub("orders", 1).queue("jobs").topic("news", ["all"]).start().await.unwrap();
    let string = service.event_hubs_connection_string();
    let partition = "orders/ConsumerGroups/$Default/Partitions/0";
    for (target, source) in [("orders", partition), ("jobs", "jobs"), ("news", "news/Subscriptions/all")] {
        assert_eq!(pass(string, target, source).await, b"hello", "{target}");
    }
    service.stop().await;
}

#[tokio::test]
async fn everything_is_served_where_it_is_asked_for() {
    let service = Service::builder().container("kept").kafka().tls().start().await.unwrap();
    assert!(service.storage_connection_string().unwrap().contains("BlobEndpoint=http://"));
    assert!(service.storage_tls_connection_string().unwrap().contains("BlobEndpoint=https://"));
    let authority = service.certificate_authority().unwrap().to_owned();
    assert!(authority.exists());
    let kafka = [service.kafka_bootstrap_servers(), service.kafka_tls_bootstrap_servers()];
    let kafka = kafka.map(|address| address.unwrap().parse().unwrap());
    let addresses = [kafka[0], kafka[1], address(service.tls_connection_string().unwrap())];
    assert!(addresses.into_iter().all(is_listening));
    drop(service);
    assert!(!authority.exists());
    let usual = Service::builder().start().await.unwrap();
    assert_eq!((usual.kafka_bootstrap_servers(), usual.storage_connection_string()), (None, None));
}

#[test]
fn it_serves_while_the_test_blocks_and_ends_when_it_is_dropped() {
    let service = Service::builder().start_blocking().unwrap();
    let address = address(service.connection_string());
    assert!(is_listening(address));
    drop(service);
    assert!(!is_listening(address));
}

#[tokio::test]
async fn data_survives_and_everything_can_be_configured() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let service = Service::builder().queue("jobs").data_directory(&data).start().await.unwrap();
    service.stop().await;
    let service = Service::builder()
        .hub("orders", 1)
        .data_directory(&data)
        .configure(|namespace| namespace.authorization_rules[0].key = "another".into())
        .start()
        .await
        .unwrap();
    assert_eq!(part(service.connection_string(), "SharedAccessKey"), "another");
    assert!(!format!("{service:?}").contains("another"));
    assert_eq!(pass(service.connection_string(), "jobs", "jobs").await, b"hello");
}

#[tokio::test]
async fn what_cannot_be_served_is_said_with_the_reason() {
    let error = Service::builder().hub("orders", 0).start().await.unwrap_err();
    assert!(error.to_string().contains("partition"), "{error}");
}

/// Where a test fails is seen from outside of it.
#[test]
fn the_log_is_in_the_output_of_tests_that_fail_alone() {
    const CHILD: &str = "PARSHALL_TEST_CHILD";
    if let Ok(outcome) = std::env::var(CHILD) {
        let _service = Service::builder()
            .configure(|namespace| {
                // The service warns of it.
                namespace.profile.service_time.entities.insert("nowhere".to_owned(), Default::default());
            })
            .start_blocking()
            .unwrap();
        assert_eq!(outcome, "passes");
        return;
    }
    for (outcome, shows) in [("passes", false), ("fails", true)] {
        let name = "the_log_is_in_the_output_of_tests_that_fail_alone";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact"])
            .env(CHILD, outcome)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            (output.status.success(), text.contains("log of the service:")),
            (!shows, shows),
            "{text}"
        );
        assert_eq!(text.contains("does not exist"), shows, "{text}");
    }
}
