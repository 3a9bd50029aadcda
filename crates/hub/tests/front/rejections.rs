//! What clients are refused is seen on this side, too.

use amqp::connection::NewDelivery;
use amqp::message::FORMAT_AMQP;
use amqp::performative::DeliveryState;
use hub::namespace::{HubConfig, NamespaceConfig, QueueConfig};
use hub::service::{Protocol, Service, ServiceConfig};

use super::client::{Client, within};
use super::strangers::metric;

#[tokio::test]
async fn rejected_messages_are_counted_by_entity_and_condition() {
    let namespace = NamespaceConfig {
        queues: vec![QueueConfig::new("orders")],
        ..NamespaceConfig::with_hubs(vec![HubConfig::new("events", 2)])
    };
    let service = Service::start(ServiceConfig::loopback(namespace).and(Protocol::Operations)).await.unwrap();
    let mut client = Client::connect(service.amqp_address()).await;
    let malformed = b"no section";
    let to_hub = client.attach_sender("events").await.unwrap();
    let to_queue = client.attach_sender("orders").await.unwrap();
    for link in [to_hub, to_queue, to_queue] {
        assert!(matches!(client.send_message(link, malformed).await, DeliveryState::Rejected(Some(_))));
    }
    let too_large = client.send(to_queue, &vec![7; 300 << 10]).await;
    assert!(matches!(too_large, DeliveryState::Rejected(Some(_))));
    // Nobody would hear of this one otherwise.
    let delivery = NewDelivery { tag: b"tag", format: FORMAT_AMQP, settled: true };
    client.connection().sender(to_queue).unwrap().send(&delivery, &[malformed]).unwrap();
    assert_eq!(client.send(to_queue, b"behind it").await, DeliveryState::Accepted);
    for (entity, condition, count) in [
        ("events", "amqp:decode-error", 1),
        ("orders", "amqp:decode-error", 3),
        ("orders", "amqp:link:message-size-exceeded", 1),
    ] {
        let labels = format!("entity=\"{entity}\",condition=\"{condition}\"");
        let name = format!("parshall_amqp_messages_rejected_total{{{labels}}}");
        within(&name, async { while metric(&service, &name).await < count {} }).await;
    }
}
