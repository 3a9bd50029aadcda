//! Credit, and receivers that want it used up.

use amqp::performative::DeliveryState;
use hub::namespace::QueueConfig;

use crate::service_bus::client::{Client, service};

#[tokio::test]
async fn no_more_comes_than_there_is_credit_for_and_the_next_at_once_with_more() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    for number in 0..5u8 {
        client.send(sender, &[number]).await;
    }
    let receiver = client.receiver("orders", 2).await;
    let received = client.receive(receiver, 2).await;
    for (number, message) in received.iter().enumerate() {
        assert_eq!(message.payload(), [number as u8]);
        client.settle(message, DeliveryState::Accepted).await;
    }
    assert_eq!(client.waiting(receiver), 0);
    client.connection().set_credit(receiver, 1);
    let received = client.receive(receiver, 1).await;
    assert_eq!(received[0].payload(), [2]);
}

#[tokio::test]
async fn a_drain_is_answered_with_what_there_is_however_little() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let receiver = client.receiver("orders", 10).await;
    client.drain(receiver).await;
    for number in 0..3u8 {
        client.send(sender, &[number]).await;
    }
    client.connection().set_credit(receiver, 10);
    client.drain(receiver).await;
    assert_eq!(client.waiting(receiver), 3);
    // Nothing was received that the receiver could not have.
    client.connection().set_credit(receiver, 10);
    client.send(sender, &[3]).await;
    let received = client.receive(receiver, 4).await;
    assert_eq!(received[3].payload(), [3]);
}

#[tokio::test]
async fn receivers_share_a_queue_and_each_message_goes_to_one_of_them() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let mut other = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let first = client.receiver("orders", 3).await;
    let second = other.receiver("orders", 3).await;
    for number in 0..6u8 {
        client.send(sender, &[number]).await;
    }
    let mut payloads: Vec<_> = client
        .receive(first, 3)
        .await
        .into_iter()
        .chain(other.receive(second, 3).await)
        .map(|message| message.payload()[0])
        .collect();
    payloads.sort_unstable();
    assert_eq!(payloads, [0, 1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn messages_larger_than_a_frame_and_than_the_window_come_whole() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let long = vec![7; 200 * 1024];
    for _ in 0..3 {
        assert_eq!(client.send(sender, &long).await, DeliveryState::Accepted);
    }
    let receiver = client.receiver("orders", 10).await;
    for message in client.receive(receiver, 3).await {
        assert_eq!(message.payload(), long);
        let answer = client.settle(&message, DeliveryState::Accepted).await;
        assert_eq!(answer, DeliveryState::Accepted);
    }
}
