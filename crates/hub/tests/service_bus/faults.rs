//! Tokens that are not right, entities that are full, and what comes afterwards: whatever is refused, the connection and
//! everything that was accepted stay.

use amqp::Value;
use amqp::performative::DeliveryState;
use hub::namespace::{QueueConfig, TopicConfig};
use units::ByteSize;

use crate::service_bus::client::{Client, condition, service};

const FULL: &str = "amqp:resource-limit-exceeded";

/// As many as so much room has place for.
const PAYLOAD: [u8; 512] = [7; 512];

fn queue(name: &str, size_limit: u64) -> QueueConfig {
    let mut config = QueueConfig::new(name);
    config.options.size_limit = ByteSize::from_kibibytes(size_limit);
    config
}

/// Sends until it is told that there is no room; how many were accepted.
async fn fill(client: &mut Client, address: &str) -> usize {
    let (sender, _) = client.sender(address).await.unwrap();
    let mut accepted = 0;
    loop {
        match client.send(sender, &PAYLOAD).await {
            DeliveryState::Accepted => accepted += 1,
            refusal => {
                assert_eq!(condition(&refusal), FULL);
                client.detach(sender).await;
                return accepted;
            }
        }
    }
}

/// Receives and completes so many, and whatever else is there.
async fn empty(client: &mut Client, address: &str, at_least: usize) -> usize {
    let receiver = client.receiver(address, 1_000).await;
    let mut received = client.receive(receiver, at_least).await;
    client.drain(receiver).await;
    let more = client.waiting(receiver);
    received.extend(client.receive(receiver, more).await);
    for message in &received {
        assert_eq!(message.payload(), PAYLOAD);
        let answer = client.settle(message, DeliveryState::Accepted).await;
        assert_eq!(answer, DeliveryState::Accepted);
    }
    client.detach(receiver).await;
    received.len()
}

#[tokio::test]
async fn tokens_that_are_foreign_or_none_at_all_settle_nothing_and_end_nothing() {
    let queues = vec![QueueConfig::new("orders"), QueueConfig::new("other")];
    let service = service(queues, vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let mut locked = Vec::new();
    for name in ["orders", "other"] {
        let (sender, _) = client.sender(name).await.unwrap();
        client.send(sender, b"one").await;
        let receiver = client.receiver(name, 1).await;
        locked.extend(client.receive(receiver, 1).await);
    }
    let theirs = locked[1].lock_token();
    let of_no_lock = Value::Uuid([0; 16]);
    let mut guessed = match locked[0].lock_token() {
        Value::Uuid(bytes) => bytes,
        other => panic!("{other:?}"),
    };
    guessed[15] ^= 1;
    let cases = [
        (vec![theirs], 410),
        (vec![of_no_lock], 410),
        (vec![Value::Uuid(guessed)], 410),
        (vec![Value::Binary(vec![7; 16])], 400),
        (vec![Value::Binary(vec![7; 15])], 400),
        (vec![Value::from("00112233-4455-6677-8899-aabbccddeeff")], 400),
        (vec![Value::Null], 400),
        (vec![Value::Ulong(1)], 400),
    ];
    for (tokens, status) in cases {
        for list in [Value::Array(tokens.clone()), Value::List(tokens)] {
            for (operation, settles) in [("renew-lock", false), ("update-disposition", true)] {
                let mut body = vec![("lock-tokens", list.clone())];
                body.extend(settles.then(|| ("disposition-status", "completed".into())));
                let answer = client.request("orders", operation, &body).await;
                assert_eq!(answer.status, status, "{operation} {list:?}");
                let expected = match status {
                    410 => "com.microsoft:message-lock-lost",
                    _ => "com.microsoft:argument-error",
                };
                assert_eq!(answer.condition.as_deref(), Some(expected), "{list:?}");
            }
        }
    }
    for message in &locked {
        let answer = client.settle(message, DeliveryState::Accepted).await;
        assert_eq!(answer, DeliveryState::Accepted);
    }
}

#[tokio::test]
async fn one_wrong_token_among_right_ones_is_reported_and_costs_the_others_nothing() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    client.send(sender, b"one").await;
    client.send(sender, b"two").await;
    let receiver = client.receiver("orders", 2).await;
    let locked = client.receive(receiver, 2).await;
    let tokens =
        vec![locked[0].lock_token(), Value::Uuid([7; 16]), locked[1].lock_token(), locked[0].lock_token()];
    let body = [("disposition-status", "completed".into()), ("lock-tokens", Value::Array(tokens))];
    let answer = client.request("orders", "update-disposition", &body).await;
    assert_eq!(answer.status, 410);
    let peek = [("from-sequence-number", Value::Long(0)), ("message-count", Value::Int(10))];
    let answer = client.request("orders", "peek-message", &peek).await;
    assert_eq!(answer.status, 204, "both are completed");
}

#[tokio::test]
async fn a_full_queue_takes_messages_again_once_some_are_gone() {
    let service = service(vec![queue("orders", 4)], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    for _ in 0..3 {
        let accepted = fill(&mut client, "orders").await;
        assert!(accepted > 1);
        assert_eq!(empty(&mut client, "orders", accepted).await, accepted);
    }
}

#[tokio::test]
async fn a_topic_is_full_when_one_subscription_holds_all_that_it_may_and_the_others_get_nothing_more() {
    let mut topic = TopicConfig::new("news", ["busy", "idle"]);
    topic.options.size_limit = ByteSize::from_kibibytes(8);
    let service = service(vec![], vec![topic]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (busy, idle) = ("news/Subscriptions/busy", "news/Subscriptions/idle");
    let mut left = 0;
    let mut rounds = 0;
    loop {
        let accepted = fill(&mut client, "news").await;
        if accepted == 0 {
            break;
        }
        assert_eq!(empty(&mut client, busy, accepted).await, accepted);
        left += accepted;
        rounds += 1;
    }
    // What nobody takes from one of them fills the topic in the end.
    assert!(rounds > 1);
    assert_eq!(empty(&mut client, idle, left).await, left);
    let accepted = fill(&mut client, "news").await;
    for subscription in [busy, idle] {
        assert_eq!(empty(&mut client, subscription, accepted).await, accepted);
    }
}

#[tokio::test]
async fn where_the_next_queue_is_full_messages_wait_and_then_the_sender_does() {
    let mut first = queue("first", 4);
    first.options.forward_to = Some("second".to_owned());
    let service = service(vec![first, queue("second", 4)], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let accepted = fill(&mut client, "first").await;
    let mut received = 0;
    while received < accepted {
        received += empty(&mut client, "second", 1).await;
    }
    assert_eq!(received, accepted);
    let (sender, _) = client.sender("first").await.unwrap();
    // A message that is forwarded leaves its queue after it has come to the next one.
    while let refusal @ DeliveryState::Rejected(_) = client.send(sender, &PAYLOAD).await {
        assert_eq!(condition(&refusal), FULL);
    }
    assert_eq!(empty(&mut client, "second", 1).await, 1);
}
