//! Clients that lose an answer that comes at once.

use std::time::{Duration, Instant};

use access::DEVELOPMENT_KEY_VALUE;
use amqp::connection::SaslClient;
use amqp::performative::DeliveryState;

use crate::front::client::{Client, connected, service, token};

/// What the official Rust client needs at least, between its transfer and the outcome.
const NEEDED: Duration = Duration::from_millis(1);

#[tokio::test]
async fn the_official_rust_client_is_given_the_time_to_expect_an_outcome() {
    let service = service().await;
    let stream = connected(service.amqp_address()).await;
    let product = Some("azure_messaging_eventhubs");
    let mut client = Client::open_as_product(product, stream, SaslClient::Anonymous).await.unwrap();
    // Requests have outcomes too, and their replies come after those.
    let began = Instant::now();
    let token = token(DEVELOPMENT_KEY_VALUE, "sb://localhost/", 3600);
    assert_eq!(client.put_token(&token).await, 202);
    assert!(began.elapsed() >= NEEDED);
    let sender = client.attach_sender("events/Partitions/0").await.unwrap();
    for _ in 0..20 {
        let began = Instant::now();
        let outcome = client.send(sender, b"event").await;
        assert_eq!(outcome, DeliveryState::Accepted);
        assert!(began.elapsed() >= NEEDED);
    }
}
