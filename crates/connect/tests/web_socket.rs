//! The clients over WebSocket against the embedded service.

use connect::event_hubs::{EventHubsOptions, ManagementClient};
use connect::service::Transport;
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Protocol, Service, ServiceConfig};

#[tokio::test]
async fn a_client_uses_web_sockets_if_configured() {
    let namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("orders", 3)]);
    let config = ServiceConfig::loopback(namespace).and(Protocol::AmqpWebSocket).and(Protocol::Operations);
    let service = Service::start(config).await.unwrap();
    let at = |protocol| {
        let mut connection_string = service.connection_string(None);
        let port = service.address(protocol).map(|address| address.port());
        connection_string.endpoint = access::Endpoint::new("localhost".to_owned(), port).unwrap();
        let mut options = EventHubsOptions::new(connection_string, Some("orders")).unwrap();
        options.transport = Transport::WebSocket;
        options
    };
    // The address for AMQP answers them, too.
    for protocol in [Protocol::AmqpWebSocket, Protocol::Amqp] {
        let mut client = ManagementClient::connect(at(protocol)).await.unwrap();
        assert_eq!(client.hub_properties().await.unwrap().partition_ids.len(), 3);
        client.close().await;
    }
    let error = ManagementClient::connect(at(Protocol::Operations)).await.unwrap_err();
    assert_eq!(error.condition, "connection:web-socket");
    service.stop().await;
}
