//! What clients send, and what becomes of it.

use amqp::Value;
use amqp::codec::Symbol;
use amqp::connection::NewDelivery;
use amqp::message::{FORMAT_AMQP, FORMAT_BATCH, Properties, encode};
use amqp::performative::{DeliveryState, SenderSettleMode};
use hub::namespace::QueueConfig;
use units::ByteSize;

use crate::service_bus::client::{Client, condition, message, message_of_session, message_with, service};

#[tokio::test]
async fn a_message_comes_out_as_it_went_in_with_what_the_service_says_about_it() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, answer) = client.sender("orders").await.unwrap();
    assert_eq!(answer.max_message_size, Some(256 * 1024));
    let properties = Properties {
        message_id: Some("mine".into()),
        subject: Some("label".to_owned()),
        ..Properties::default()
    };
    let mut sent = Vec::new();
    let own = [(Symbol::from_static("x-opt-partition-key"), Value::from("key"))];
    encode::message_annotations(&mut sent, &own);
    sent.extend(message_with(&properties, b"payload"));
    let outcome = client.send_message(sender, FORMAT_AMQP, &sent).await;
    assert_eq!(outcome, DeliveryState::Accepted);

    let receiver = client.receiver("amqps://localhost:5671/ORDERS", 10).await;
    let received = client.receive(receiver, 1).await.remove(0);
    assert_eq!(received.payload(), b"payload");
    assert_eq!(received.properties(), properties);
    assert_eq!(received.delivery_count(), 0);
    assert_eq!(received.tag.len(), 16);
    assert!(!received.settled);
    let key = received.annotation("x-opt-partition-key");
    assert_eq!(key, Some("key".into()));
    // The service says this only where there is something to tell.
    assert_eq!(received.annotation("x-opt-message-state"), None);
    for name in ["x-opt-enqueued-time", "x-opt-locked-until"] {
        let time = received.annotation(name);
        assert!(matches!(time, Some(Value::Timestamp(_))), "{name} {time:?}");
    }
    let number = received.annotation("x-opt-sequence-number");
    assert!(matches!(number, Some(Value::Long(_))), "{number:?}");
    assert_eq!(received.annotation("x-opt-enqueue-sequence-number"), number);
}

#[tokio::test]
async fn a_batch_is_its_messages_in_their_order_each_with_an_identifier() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let messages: Vec<_> = (0..100u8).map(|number| message(&[number])).collect();
    let outcome = client.send_batch(sender, &messages).await;
    assert_eq!(outcome, DeliveryState::Accepted);
    let receiver = client.receiver("orders", 100).await;
    let received = client.receive(receiver, 100).await;
    let payloads: Vec<_> = received.iter().map(|message| message.payload()[0]).collect();
    assert_eq!(payloads, (0..100).collect::<Vec<u8>>());
    let mut ids: Vec<_> =
        received.iter().map(|message| format!("{:?}", message.properties().message_id.unwrap())).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 100);
}

#[tokio::test]
async fn only_bytes_limit_messages_of_batch() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let messages = vec![message(b""); 12_000];
    assert_eq!(client.send_batch(sender, &messages).await, DeliveryState::Accepted);
    let body = [("message-count", Value::Int(4_000))];
    for _ in 0..3 {
        let answer = client.request("orders", "batch-delete-messages", &body).await;
        assert_eq!(answer.body.get("message-count"), Some(&Value::Int(4_000)));
    }
}

#[tokio::test]
async fn what_is_no_message_is_rejected_and_the_link_stays() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let mut batch = Vec::new();
    encode::data(&mut batch, &message(b"good"));
    encode::data(&mut batch, b"no message");
    for (format, bytes, expected) in [
        (FORMAT_AMQP, &b"\x00\x53\x75\xa0\xffshort"[..], "amqp:decode-error"),
        // Properties twice, and a header of which the priority is a text.
        (FORMAT_AMQP, &b"\x00\x53\x73\x45\x00\x53\x73\x45"[..], "amqp:decode-error"),
        (FORMAT_AMQP, &b"\x00\x53\x70\xc0\x05\x02\x41\xa1\x01a"[..], "amqp:decode-error"),
        (FORMAT_BATCH, &b""[..], "com.microsoft:argument-error"),
        (FORMAT_BATCH, &batch[..], "amqp:decode-error"),
    ] {
        let outcome = client.send_message(sender, format, bytes).await;
        assert_eq!(condition(&outcome), expected, "{bytes:?}");
    }
    // Nothing of the batch was stored.
    assert_eq!(client.send(sender, b"last").await, DeliveryState::Accepted);
    let receiver = client.receiver("orders", 10).await;
    assert_eq!(client.receive(receiver, 1).await[0].payload(), b"last");
}

#[tokio::test]
async fn a_full_queue_refuses_and_keeps_what_it_has() {
    let mut config = QueueConfig::new("orders");
    config.options.size_limit = ByteSize::from_kibibytes(4);
    let service = service(vec![config], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let mut accepted = 0;
    let refusal = loop {
        match client.send(sender, &[7; 512]).await {
            DeliveryState::Accepted => accepted += 1,
            refusal => break refusal,
        }
    };
    assert_eq!(condition(&refusal), "amqp:resource-limit-exceeded");
    assert!(accepted > 1);
    let receiver = client.receiver("orders", 100).await;
    assert_eq!(client.receive(receiver, accepted).await.len(), accepted);
}

#[tokio::test]
async fn a_queue_of_sessions_takes_no_message_without_one() {
    let mut config = QueueConfig::new("orders");
    config.options.requires_session = true;
    let service = service(vec![config], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let outcome = client.send(sender, b"of none").await;
    assert_eq!(condition(&outcome), "amqp:not-allowed");
    let of_one = message_of_session("one", b"of one");
    let outcome = client.send_message(sender, FORMAT_AMQP, &of_one).await;
    assert_eq!(outcome, DeliveryState::Accepted);
}

#[tokio::test]
async fn what_is_received_and_deleted_is_settled_and_gone() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    for payload in [b"one", b"two"] {
        client.send(sender, payload).await;
    }
    let deleting = |options: &mut amqp::connection::LinkOptions| {
        options.sender_settle_mode = SenderSettleMode::Settled;
    };
    let (receiver, answer) = client.ask_to_receive("orders", deleting).await.unwrap();
    assert_eq!(answer.sender_settle_mode, SenderSettleMode::Settled);
    client.connection().set_credit(receiver, 1);
    let received = client.receive(receiver, 1).await.remove(0);
    assert!(received.settled);
    assert_eq!(received.annotation("x-opt-locked-until"), None);
    client.detach(receiver).await;
    let other = client.receiver("orders", 10).await;
    assert_eq!(client.receive(other, 1).await[0].payload(), b"two");
}

#[tokio::test]
async fn what_is_sent_and_settled_in_one_breath_with_the_farewell_counts() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    client.send(sender, b"done").await;
    let receiver = client.receiver("orders", 1).await;
    let received = client.receive(receiver, 1).await.remove(0);
    let settled = NewDelivery { tag: b"tag", format: FORMAT_AMQP, settled: true };
    let mut link = client.connection().sender(sender).unwrap();
    link.send(&settled, &[&message(b"last words")]).unwrap();
    client.propose(received.id, received.id, DeliveryState::Accepted);
    client.close().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let receiver = client.receiver("orders", 2).await;
    assert_eq!(client.receive(receiver, 1).await[0].payload(), b"last words");
    client.drain(receiver).await;
    assert_eq!(client.waiting(receiver), 0);
    let answer = client
        .request(
            "orders",
            "peek-message",
            &[("from-sequence-number", Value::Long(0)), ("message-count", Value::Int(10))],
        )
        .await;
    let Some(Value::List(left)) = answer.body.get("messages") else { panic!("{answer:?}") };
    assert_eq!(left.len(), 1);
}

#[tokio::test]
async fn what_receivers_could_not_read_is_refused_as_by_hubs() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let data = &b"\x00\x53\x75\xa0\x01a"[..];
    for (what, malformed) in [
        ("application properties that are no map", &b"\x00\x53\x74\xa1\x01a"[..]),
        ("application properties under a number", b"\x00\x53\x74\xc1\x05\x02\x54\x01\x54\x01"),
        ("application properties with a list for a value", b"\x00\x53\x74\xc1\x05\x02\xa1\x01a\x45"),
        ("application properties that end early", b"\x00\x53\x74\xc1\x05\x02\xa1\x01a\xa1"),
        ("a header with a text for a priority", b"\x00\x53\x70\xc0\x05\x02\x41\xa1\x01a"),
        ("annotations with a list that ends early", b"\x00\x53\x72\xc1\x07\x02\xa3\x01a\xc0\x01\x01"),
        ("properties with a number for a subject", b"\x00\x53\x73\xc0\x06\x04\x40\x40\x40\x54\x01"),
    ] {
        let message = [malformed, data].concat();
        let outcome = client.send_message(sender, FORMAT_AMQP, &message).await;
        assert_eq!(condition(&outcome), "amqp:decode-error", "{what}");
        // In a batch it takes the others with it.
        let outcome = client.send_batch(sender, &[data.to_vec(), message]).await;
        assert_eq!(condition(&outcome), "amqp:decode-error", "{what}");
    }
    for (what, body) in [
        ("data that is a text", &b"\x00\x53\x75\xa1\x01a"[..]),
        ("a sequence that is a map", b"\x00\x53\x76\xc1\x01\x00"),
        ("a value with a wrong text in a list", b"\x00\x53\x77\xc0\x04\x01\xa1\x01\xff"),
    ] {
        let outcome = client.send_message(sender, FORMAT_AMQP, body).await;
        assert_eq!(condition(&outcome), "amqp:decode-error", "{what}");
    }
    let outcome = client.send_message(sender, FORMAT_AMQP, data).await;
    assert_eq!(outcome, DeliveryState::Accepted);
    let receiver = client.receiver("orders", 10).await;
    assert_eq!(client.receive(receiver, 1).await[0].payload(), b"a");
    client.drain(receiver).await;
    assert_eq!(client.waiting(receiver), 0, "nothing else was taken");
}

#[tokio::test]
async fn a_message_that_is_too_large_is_rejected_and_its_link_is_as_good_as_before() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    for (address, bytes) in [("orders", 400 << 10), ("orders/$management", 600 << 10)] {
        let (sender, _) = client.sender(address).await.unwrap();
        let mut message = Vec::new();
        encode::data(&mut message, &vec![7; bytes]);
        let outcome = client.send_message(sender, FORMAT_AMQP, &message).await;
        assert_eq!(condition(&outcome), "amqp:link:message-size-exceeded", "{address}");
        let outcome = client.send(sender, b"short").await;
        assert_eq!(outcome, DeliveryState::Accepted, "{address}");
    }
}
