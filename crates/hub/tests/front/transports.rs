//! AMQP over WebSocket, as the service serves it; what travels in which messages is tested where that is done.

use std::time::Duration;

use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME};
use amqp::connection::SaslClient;
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::front::client::{Client, connected, within};

async fn service() -> Service {
    let namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("events", 2)]);
    Service::start(ServiceConfig::loopback(namespace).and(Protocol::AmqpWebSocket)).await.unwrap()
}

#[tokio::test]
async fn events_travel_over_web_socket() {
    let service = service().await;
    let address = service.address(Protocol::AmqpWebSocket).unwrap();
    let stream = amqp_tokio::connect_web_socket(
        connected(address).await,
        "localhost",
        address.port(),
        Duration::from_secs(10),
    )
    .await
    .unwrap();
    let sasl = SaslClient::Plain { username: ROOT_KEY_NAME.into(), password: DEVELOPMENT_KEY_VALUE.into() };
    let mut client = Client::open(stream, sasl).await.unwrap();
    for length in [1, 1000, 100_000, 1_000_000] {
        client.prove_service(&vec![7; length]).await;
    }
    let mut other = Client::connect(service.amqp_address()).await;
    other.prove_service(b"and beside it").await;
    service.stop().await;
}

#[tokio::test]
async fn a_client_that_speaks_plain_amqp_to_the_web_socket_is_disconnected() {
    let service = service().await;
    let mut socket = TcpStream::connect(service.address(Protocol::AmqpWebSocket).unwrap()).await.unwrap();
    socket.write_all(b"AMQP\x00\x01\x00\x00").await.unwrap();
    let mut answer = Vec::new();
    let _ = within("the end", socket.read_to_end(&mut answer)).await;
    assert!(!answer.starts_with(b"AMQP"), "{answer:?}");
}
