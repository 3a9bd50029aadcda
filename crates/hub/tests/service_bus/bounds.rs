//! What nobody can make the service hold or do, whatever rights they have.

use amqp::Value;
use amqp::codec::Symbol;
use amqp::connection::LinkOptions;
use amqp::message::{FORMAT_AMQP, encode};
use amqp::performative::{DeliveryState, Error, ErrorCondition};
use hub::namespace::{QueueConfig, TopicConfig};
use hub::service::Service;
use units::ByteSize;

use crate::service_bus::client::{
    Client, Received, condition, map, message, message_of_session, service, session_filter,
};

fn abandoned_with(name: &str, text: &str) -> DeliveryState {
    DeliveryState::Modified {
        delivery_failed: true,
        undeliverable_here: false,
        annotations: vec![(Symbol::from(name.to_owned()), Value::from(text))],
    }
}

fn dead_letter(reason: &str) -> DeliveryState {
    let reason = (Symbol::from_static("DeadLetterReason"), Value::from(reason));
    DeliveryState::Rejected(Some(Error { info: vec![reason], ..Error::new(ErrorCondition::DEAD_LETTER, "") }))
}

/// A queue with `count` short messages, all of them locked by the client that is returned.
async fn locked_messages(queue: QueueConfig, count: usize) -> (Service, Client, Vec<Received>) {
    let service = service(vec![queue], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let messages = vec![message(b"payload"); count];
    assert_eq!(client.send_batch(sender, &messages).await, DeliveryState::Accepted);
    let receiver = client.receiver("orders", count as u32).await;
    let received = client.receive(receiver, count).await;
    (service, client, received)
}

#[tokio::test]
async fn outcomes_with_properties_do_not_take_a_queue_beyond_its_size() {
    let mut queue = QueueConfig::new("orders");
    queue.options.size_limit = ByteSize::from_kibibytes(64);
    let (_service, mut client, received) = locked_messages(queue, 50).await;
    let (first, last) = (received[0].id, received[49].id);
    let note = "long ".repeat(4_000);
    client.propose(first, last, abandoned_with("note", &note));
    for message in &received {
        let answer = client.answer_about(message.id).await;
        assert_eq!(condition(&answer), "amqp:resource-limit-exceeded");
    }
    // Their locks hold: whoever has the token can do something else with them.
    for (reason, status) in [(&*note.repeat(4), 403), ("no", 200)] {
        let body = [
            ("disposition-status", Value::from("suspended")),
            ("lock-tokens", Value::Array(vec![received[0].lock_token()])),
            ("deadletter-reason", Value::from(reason)),
        ];
        let answer = client.request("orders", "update-disposition", &body).await;
        assert_eq!(answer.status, status);
    }
    let (sender, _) = client.sender("orders").await.unwrap();
    assert_eq!(client.send(sender, b"more").await, DeliveryState::Accepted);
}

#[tokio::test]
async fn a_message_does_not_grow_with_each_time_that_it_is_abandoned() {
    let mut queue = QueueConfig::new("orders");
    queue.options.maximum_delivery_count = 1_000;
    let (_service, mut client, received) = locked_messages(queue, 1).await;
    let receiver = client.receiver("orders", 100).await;
    let note = "long ".repeat(4_000);
    let mut message = received.into_iter().next().unwrap();
    let mut rounds = 0;
    let answer = loop {
        let outcome = abandoned_with(&format!("note-{rounds}"), &note);
        match client.settle(&message, outcome).await {
            DeliveryState::Modified { .. } => {}
            refusal => break refusal,
        }
        rounds += 1;
        assert!(rounds < 100, "it grows and grows");
        message = client.receive(receiver, 1).await.remove(0);
    };
    assert_eq!(condition(&answer), "amqp:link:message-size-exceeded");
    assert_eq!(rounds, 3, "64 KiB of properties are enough");
}

#[tokio::test]
async fn a_reason_for_a_dead_letter_is_kept_as_far_as_the_service_keeps_it() {
    let (_service, mut client, received) = locked_messages(QueueConfig::new("orders"), 1).await;
    let outcome = dead_letter(&"long ".repeat(4_000));
    client.settle(&received[0], outcome).await;
    let dead_letters = client.receiver("orders/$DeadLetterQueue", 1).await;
    let dead = client.receive(dead_letters, 1).await.remove(0);
    let reason = dead.application_property("DeadLetterReason").unwrap();
    assert_eq!(reason.as_text().unwrap().len(), 4_096);
}

#[tokio::test]
async fn deferred_messages_are_not_all_of_them_put_into_one_reply() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let receiver = client.receiver("orders", 100).await;
    let mut numbers = Vec::new();
    for _ in 0..25 {
        client.send(sender, &vec![7; 200 * 1024]).await;
        let received = client.receive(receiver, 1).await.remove(0);
        numbers.push(Value::Long(received.sequence_number()));
        let deferred = DeliveryState::Modified {
            delivery_failed: false,
            undeliverable_here: true,
            annotations: Vec::new(),
        };
        client.settle(&received, deferred).await;
    }
    let body =
        [("sequence-numbers", Value::Array(numbers.clone())), ("receiver-settle-mode", Value::Uint(0))];
    let answer = client.request("orders", "receive-by-sequence-number", &body).await;
    assert_eq!(answer.status, 413);
    // None of them is gone.
    let body =
        [("sequence-numbers", Value::Array(numbers[..5].to_vec())), ("receiver-settle-mode", Value::Uint(0))];
    let answer = client.request("orders", "receive-by-sequence-number", &body).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_session_with_too_long_a_name_is_had_neither_by_sending_nor_by_receiving() {
    let mut queue = QueueConfig::new("orders");
    queue.options.requires_session = true;
    let service = service(vec![queue], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    for (length, is_allowed) in [(128, true), (129, false)] {
        let session = "é".repeat(length);
        let message = message_of_session(&session, b"payload");
        let sent = client.send_message(sender, FORMAT_AMQP, &message).await;
        let asked = session_filter(session.as_str().into());
        let received = client.ask_to_receive("orders", asked).await;
        if is_allowed {
            assert_eq!(sent, DeliveryState::Accepted);
            received.unwrap();
        } else {
            let out_of_range = "com.microsoft:argument-out-of-range";
            assert_eq!(condition(&sent), out_of_range);
            assert_eq!(received.unwrap_err().condition.as_str(), out_of_range);
        }
    }
}

#[tokio::test]
async fn times_beyond_all_measure_are_taken_as_they_come() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let time = Symbol::from_static("x-opt-scheduled-enqueue-time");
    for at in [i64::MIN, -1, 0, i64::MAX - 1, i64::MAX] {
        for time_to_live in [None, Some(0), Some(1), Some(u32::MAX - 1), Some(u32::MAX)] {
            let mut bytes = Vec::new();
            let fields = [Value::Null, Value::Null, time_to_live.map_or(Value::Null, Value::Uint)];
            amqp::codec::write::descriptor(&mut bytes, 0x70);
            amqp::codec::write::value(&mut bytes, &Value::List(fields.to_vec()));
            let annotations = [(time.clone(), Value::Timestamp(at))];
            encode::message_annotations(&mut bytes, &annotations);
            encode::data(&mut bytes, b"payload");
            let outcome = client.send_message(sender, FORMAT_AMQP, &bytes).await;
            assert_eq!(outcome, DeliveryState::Accepted, "{at} {time_to_live:?}");
        }
    }
    // Three times five are due; one has no time at all, and one a millisecond.
    let receiver = client.receiver("orders", 100).await;
    client.receive(receiver, 3 * 3).await;
    for (from, count) in [(i64::MIN, 1), (-1, i32::MAX), (i64::MAX, 1), (0, 0)] {
        let body = [("from-sequence-number", Value::Long(from)), ("message-count", Value::Int(count))];
        let answer = client.request("orders", "peek-message", &body).await;
        assert!(matches!(answer.status, 200 | 204), "{from} {count}");
    }
    for number in [i64::MIN, -1, 0, i64::MAX] {
        for operation in ["receive-by-sequence-number", "cancel-scheduled-message"] {
            let body = [
                ("sequence-numbers", Value::Array(vec![Value::Long(number)])),
                ("receiver-settle-mode", Value::Uint(0)),
            ];
            let answer = client.request("orders", operation, &body).await;
            assert!(matches!(answer.status, 400 | 404), "{operation} {number}");
        }
    }
    assert_eq!(client.send(sender, b"more").await, DeliveryState::Accepted);
}

#[tokio::test]
async fn a_rule_asks_for_no_more_than_a_filter_may() {
    let service = service(vec![], vec![TopicConfig::new("news", ["all"])]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    for (length, status) in [(16_000, 200), (200_000, 400)] {
        let name = "x".repeat(length);
        let properties = map(&[(&*name, Value::Int(1))]);
        let filter = map(&[("properties", properties)]);
        let rule = [
            ("rule-name", Value::String(format!("rule-{length}"))),
            ("rule-description", map(&[("correlation-filter", filter)])),
        ];
        let answer = client.request("news/Subscriptions/all", "add-rule", &rule).await;
        assert_eq!(answer.status, status);
    }
}

#[tokio::test]
async fn whatever_a_request_says_it_is_answered_and_the_service_goes_on() {
    let mut talks = QueueConfig::new("talks");
    talks.options.requires_session = true;
    let queues = vec![QueueConfig::new("orders"), talks];
    let service = service(queues, vec![TopicConfig::new("news", ["all"])]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let receiver = client.receiver("orders", 1).await;
    client.send(sender, b"message").await;
    let token = client.receive(receiver, 1).await[0].lock_token();
    let bytes = |bytes: &[u8]| Value::Binary(bytes.to_vec());
    let single = || {
        [
            Value::Null,
            Value::Boolean(true),
            Value::Int(-1),
            Value::Uint(u32::MAX),
            Value::Long(i64::MIN),
            Value::Ulong(u64::MAX),
            Value::Double(f64::NAN),
            Value::Timestamp(i64::MIN),
            Value::from(""),
            Value::from("$management"),
            Value::String("é".repeat(1_000)),
            Value::Uuid([0; 16]),
            token.clone(),
            bytes(b""),
            bytes(&message(b"payload")),
            bytes(b"\x00\x53\x70\xd0\xff\xff\xff\xff\xff\xff\xff\xff"),
        ]
    };
    let mut values = single().to_vec();
    for value in single() {
        values.push(Value::Array(vec![value.clone(), value.clone()]));
        values.push(Value::List(vec![value.clone(), Value::Null]));
        let entries = ["message", "message-id", "expression", "sql-filter", "properties"];
        let entries = entries.map(|key| (key, value.clone()));
        values.push(map(&entries));
        values.push(Value::List(vec![map(&entries)]));
        let described = (Value::Ulong(0x0137_0000_0004), value);
        values.push(Value::Described(Box::new(described)));
    }
    // Each argument gets each value once, together with others in ever other places.
    for (entity, operation, arguments) in [
        ("orders", "renew-lock", &["lock-tokens"][..]),
        (
            "orders",
            "update-disposition",
            &["disposition-status", "lock-tokens", "deadletter-reason", "properties-to-modify"],
        ),
        ("orders", "peek-message", &["from-sequence-number", "message-count", "session-id"]),
        ("orders", "receive-by-sequence-number", &["sequence-numbers", "receiver-settle-mode"]),
        ("orders", "schedule-message", &["messages"]),
        ("news", "cancel-scheduled-message", &["sequence-numbers"]),
        ("talks", "set-session-state", &["session-id", "session-state"]),
        ("talks", "get-message-sessions", &["skip", "top", "last-updated-time"]),
        ("news/Subscriptions/all", "add-rule", &["rule-name", "rule-description"]),
        ("news/Subscriptions/all", "enumerate-rules", &["skip", "top"]),
        ("news/Subscriptions/all", "no-such-thing", &["rule-name"]),
    ] {
        for turn in 0..values.len() {
            let value = |place: usize| values[(turn * (place + 1)) % values.len()].clone();
            let body: Vec<_> =
                arguments.iter().enumerate().map(|(place, name)| (*name, value(place))).collect();
            let answer = client.request(entity, operation, &body).await;
            let is_known = matches!(answer.status, 200 | 204 | 400 | 404 | 409 | 410 | 413 | 501);
            assert!(is_known, "{operation} {body:?}: {answer:?}");
        }
    }
    assert_eq!(client.send(sender, b"more").await, DeliveryState::Accepted);
}

#[tokio::test]
async fn whatever_a_link_asks_for_it_is_answered_or_waits_its_time() {
    let mut talks = QueueConfig::new("talks");
    talks.options.requires_session = true;
    let service = service(vec![talks], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let nested = Value::Described(Box::new((Value::Null, Value::Null)));
    for value in [
        Value::Int(-1),
        Value::Ulong(u64::MAX),
        Value::Double(f64::INFINITY),
        Value::from(""),
        Value::from("one"),
        Value::Binary(vec![0; 300]),
        Value::List(vec![Value::Null]),
        Value::Map(Vec::new()),
        Value::Described(Box::new((Value::from("x"), nested))),
    ] {
        let filter = session_filter(value.clone());
        match client.ask_to_receive("talks", filter).await {
            Ok((link, _)) => client.detach(link).await,
            Err(refusal) => assert_eq!(refusal.condition.as_str(), "amqp:invalid-field"),
        }
        let waits_so_long = |options: &mut LinkOptions| {
            session_filter(Value::Null)(options);
            let name = Symbol::from_static("com.microsoft:timeout");
            options.properties.push((name, value));
        };
        let link = client.begin_to_receive("talks", waits_so_long);
        client.detach(link).await;
    }
    let (sender, _) = client.sender("talks").await.unwrap();
    let message = message_of_session("one", b"payload");
    let sent = client.send_message(sender, FORMAT_AMQP, &message).await;
    assert_eq!(sent, DeliveryState::Accepted);
}
