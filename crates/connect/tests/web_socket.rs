//! The clients over WebSocket against the embedded service.

use connect::event_hubs::{EventHubsOptions, ManagementClient};
use connect::service::Transport;
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Protocol, Service, ServiceConfig};

#[tokio::test]
async fn a_client_uses_web_sockets_if_configured() {
    let namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("orders", 3)]);
    let config = ServiceConfig::loopback(namespace).and(Protocol::AmqpWebSocket);
    let service = Service::start(config).await.unwrap();
    let mut connection_string = service.connection_string(None);
    connection_string.endpoint = access::Endpoint::new(
        "localhost".to_owned(),
        service.address(Protocol::AmqpWebSocket).map(|address| address.port()),
    )
    .unwrap();
    let mut options = EventHubsOptions::new(connection_string, Some("orders")).unwrap();
    options.transport = Transport::WebSocket;
    let mut client = ManagementClient::connect(options.clone()).await.unwrap();
    assert_eq!(client.hub_properties().await.unwrap().partition_ids.len(), 3);
    client.close().await;

    // Where AMQP is spoken as it is, there is no WebSocket.
    options.connection_string.endpoint = service.connection_string(None).endpoint;
    let error = ManagementClient::connect(options).await.unwrap_err();
    assert_eq!(error.condition, "connection:not-web-socket");
    service.stop().await;
}
