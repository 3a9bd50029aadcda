//! Queues that are kept in a data directory.

use amqp::performative::DeliveryState;
use hub::namespace::{NamespaceConfig, QueueConfig, SignaturePolicy, StorageConfig};
use hub::service::{Service, ServiceConfig};

use crate::service_bus::client::Client;

/// A service with the queue `orders`, which keeps it there.
pub(crate) async fn durable(directory: &std::path::Path) -> Service {
    let namespace = NamespaceConfig {
        signatures: SignaturePolicy::AcceptAny,
        queues: vec![QueueConfig::new("orders")],
        storage: Some(StorageConfig {
            directory: directory.to_owned(),
            options: partition_log::disk::StorageOptions::default(),
        }),
        ..NamespaceConfig::with_hubs(Vec::new())
    };
    Service::start(ServiceConfig::loopback(namespace)).await.unwrap()
}

#[tokio::test]
async fn what_was_accepted_is_there_after_a_restart_and_what_was_completed_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let service = durable(directory.path()).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    for payload in [b"done", b"left", b"held"] {
        assert_eq!(client.send(sender, payload).await, DeliveryState::Accepted);
    }
    let receiver = client.receiver("orders", 3).await;
    let received = client.receive(receiver, 3).await;
    let answer = client.settle(&received[0], DeliveryState::Accepted).await;
    assert_eq!(answer, DeliveryState::Accepted);
    let answer = client.settle(&received[1], DeliveryState::Released).await;
    assert_eq!(answer, DeliveryState::Released);
    service.stop().await;

    let service = durable(directory.path()).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let receiver = client.receiver("orders", 10).await;
    let received = client.receive(receiver, 2).await;
    let payloads: Vec<_> = received.iter().map(|message| message.payload()).collect();
    assert_eq!(payloads, [b"left", b"held"]);
    client.drain(receiver).await;
    assert_eq!(client.waiting(receiver), 0);
    service.stop().await;
}
