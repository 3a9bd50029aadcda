//! What is told of entities.

use crate::rest::client::{Client, service};

#[tokio::test]
async fn hubs_partitions_and_queues_are_told_with_what_is_in_them() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    for _ in 0..3 {
        assert_eq!(client.ask("POST", "/events/partitions/1/messages", "", b"event").await.status, 201);
        assert_eq!(client.ask("POST", "/orders/messages", "", b"message").await.status, 201);
        assert_eq!(client.ask("POST", "/news/messages", "", b"message").await.status, 201);
    }
    for (path, expected) in [
        ("/events", "<PartitionCount>2</PartitionCount>"),
        ("/EVENTS", "<d2p1:string>1</d2p1:string></PartitionIds>"),
        ("/events/consumergroups", "<title type=\"text\">$Default</title>"),
        ("/events/consumergroups/$default", "<ConsumerGroupDescription "),
        (
            "/events/consumergroups/$Default/partitions",
            "<id>http://localhost/events/consumergroups/$Default/partitions/0</id>",
        ),
        ("/events/consumergroups/$Default/partitions/1", "<EndSequenceNumber>2</EndSequenceNumber>"),
        (
            "/events/consumergroups/$Default/partitions/0",
            "<BeginSequenceNumber>-1</BeginSequenceNumber><EndSequenceNumber>-1</EndSequenceNumber>",
        ),
        ("/orders", "<MessageCount>3</MessageCount>"),
        ("/orders", "<d2p1:ActiveMessageCount>3</d2p1:ActiveMessageCount>"),
        ("/news", "<SubscriptionCount>1</SubscriptionCount>"),
        ("/news/subscriptions", "<title type=\"text\">all</title>"),
        ("/news/Subscriptions/all?api-version=2017-04", "<MessageCount>3</MessageCount>"),
        ("/$Resources/EventHubs", "<title type=\"text\">events</title>"),
        ("/events/consumergroups/$Default/partitions?$top=1", "partitions?$skip=1&amp;$top=1"),
        ("/$Resources/EventHubs?$top=1", "<title type=\"text\">events</title>"),
        ("/$Resources/Queues", "<title type=\"text\">orders</title>"),
        ("/$Resources/Topics", "<title type=\"text\">news</title>"),
    ] {
        let reply = client.ask("GET", path, "", b"").await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(reply.text().contains(expected), "{path}: {}", reply.text());
        assert!(reply.field("Content-Type").unwrap().starts_with("application/atom+xml"), "{path}");
    }
    for path in [
        "/nothing",
        "/events/consumergroups/other",
        "/events/consumergroups/$Default/partitions/2",
        "/news/subscriptions/none",
        "/$Resources/Relays",
    ] {
        assert_eq!(client.ask("GET", path, "", b"").await.status, 404, "{path}");
    }
    client.send("HEAD", "/orders", "", b"").await;
    client.send("GET", "/orders", "", b"").await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\nHTTP/1.1 200") {
        head.push(tokio::io::AsyncReadExt::read_u8(&mut client.socket).await.unwrap());
    }
    service.stop().await;
}
