//! Sessions: one receiver each, messages in their order, states, and links that wait for the next one.

use std::time::Duration;

use amqp::Value;
use amqp::codec::Symbol;
use amqp::connection::{LinkId, LinkOptions};
use amqp::message::FORMAT_AMQP;
use amqp::performative::{Attach, DeliveryState, Source};
use hub::namespace::QueueConfig;
use hub::service::Service;

use crate::service_bus::client::{Client, condition, message_of_session, service, session_filter};

async fn session_service() -> Service {
    let mut config = QueueConfig::new("orders");
    config.options.requires_session = true;
    service(vec![config], vec![]).await
}

async fn send(client: &mut Client, sender: LinkId, session: &str, payload: &[u8]) {
    let message = message_of_session(session, payload);
    let outcome = client.send_message(sender, FORMAT_AMQP, &message).await;
    assert_eq!(outcome, DeliveryState::Accepted);
}

/// As the Java client asks: the name of the session is that of the link.
fn named_like_its_session(session: &'static str) -> impl FnOnce(&mut LinkOptions) {
    move |options| {
        session_filter(session.into())(options);
        options.name = session.to_owned();
    }
}

fn session_of(answer: &Attach) -> Value {
    answer.source.as_ref().unwrap().filter[0].1.clone()
}

#[tokio::test]
async fn a_named_session_is_answered_with_its_name_and_time_and_gives_its_messages_alone() {
    let service = session_service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    for (session, payload) in [("one", b"1"), ("two", b"2"), ("one", b"3")] {
        send(&mut client, sender, session, payload).await;
    }
    let asked = session_filter("one".into());
    let (receiver, answer) = client.ask_to_receive("orders", asked).await.unwrap();
    assert_eq!(session_of(&answer), "one".into());
    let until = answer.property("com.microsoft:locked-until-utc");
    // Later than the year 2020, in ticks.
    assert!(matches!(until, Some(Value::Long(ticks)) if *ticks > 637_134_336_000_000_000));
    client.connection().set_credit(receiver, 10);
    let received = client.receive(receiver, 2).await;
    let payloads: Vec<_> = received.iter().map(|message| message.payload()).collect();
    assert_eq!(payloads, [b"1", b"3"]);
    client.drain(receiver).await;
    assert_eq!(client.waiting(receiver), 0);

    let asked = session_filter("one".into());
    let refusal = client.ask_to_receive("orders", asked).await.unwrap_err();
    let condition = refusal.condition.as_str();
    assert_eq!(condition, "com.microsoft:session-cannot-be-locked");
    client.detach(receiver).await;
    let asked = session_filter("one".into());
    client.ask_to_receive("orders", asked).await.unwrap();
}

#[tokio::test]
async fn a_described_filter_is_answered_described() {
    let service = session_service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let described = |value| Value::Described(Box::new((Value::Ulong(0x0137_0000_000c), value)));
    let asked = session_filter(described("one".into()));
    let (_, answer) = client.ask_to_receive("orders", asked).await.unwrap();
    assert_eq!(session_of(&answer), described("one".into()));
}

#[tokio::test]
async fn a_link_for_the_next_session_is_answered_when_there_is_one() {
    let service = session_service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let mut other = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    let link = other.begin_to_receive("orders", session_filter(Value::Null));
    send(&mut client, sender, "late", b"message").await;
    let (link, answer) = other.answer_to(link).await.unwrap();
    assert_eq!(session_of(&answer), "late".into());
    other.connection().set_credit(link, 1);
    assert_eq!(other.receive(link, 1).await[0].payload(), b"message");
}

#[tokio::test]
async fn a_link_for_the_next_session_is_refused_when_its_time_is_over() {
    let service = session_service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let impatient = |options: &mut LinkOptions| {
        session_filter(Value::Null)(options);
        let name = Symbol::from_static("com.microsoft:timeout");
        options.properties.push((name, Value::Uint(50)));
    };
    let refusal = client.ask_to_receive("orders", impatient).await.unwrap_err();
    assert_eq!(refusal.condition.as_str(), "com.microsoft:timeout");
}

#[tokio::test]
async fn deferred_messages_of_a_session_are_found_by_its_name_or_that_of_its_link() {
    let service = session_service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    send(&mut client, sender, "one", b"later").await;
    let asked = |options: &mut LinkOptions| {
        session_filter("one".into())(options);
        options.name = "the link".to_owned();
    };
    let (link, _) = client.ask_to_receive("orders", asked).await.unwrap();
    client.connection().set_credit(link, 1);
    let message = client.receive(link, 1).await.remove(0);
    let defer =
        DeliveryState::Modified { delivery_failed: false, undeliverable_here: true, annotations: Vec::new() };
    client.settle(&message, defer).await;
    let numbers = vec![Value::Long(message.sequence_number())];
    let body = [("sequence-numbers", Value::Array(numbers)), ("receiver-settle-mode", Value::Uint(1))];
    let operation = "receive-by-sequence-number";
    let name = |name: &str| [("associated-link-name", Value::from(name))];
    for (more, status) in [(&name("another link")[..], 400), (&[], 400), (&name("the link"), 200)] {
        let answer = client.request_with("orders", operation, more, &body).await;
        assert_eq!(answer.status, status, "{more:?}: {answer:?}");
        if let Some(Value::List(entries)) = answer.body.get("messages") {
            let tokens = Value::Array(vec![entries[0].get("lock-token").unwrap().clone()]);
            let abandon = [("lock-tokens", tokens), ("disposition-status", "abandoned".into())];
            let answer = client.request("orders", "update-disposition", &abandon).await;
            assert_eq!(answer.status, 200);
        }
    }
    for (session, status) in [("another", 410), ("one", 200)] {
        let body = [&body[..], &[("session-id", session.into())]].concat();
        let answer = client.request("orders", operation, &body).await;
        assert_eq!(answer.status, status, "{session}: {answer:?}");
    }
}

#[tokio::test]
async fn a_session_that_is_let_go_and_asked_for_again_at_once_is_the_new_links() {
    let service = session_service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    send(&mut client, sender, "one", b"message").await;
    let asked = named_like_its_session("one");
    let (mut link, _) = client.ask_to_receive("orders", asked).await.unwrap();
    for _ in 0..10 {
        client.connection().set_credit(link, 1);
        let message = client.receive(link, 1).await.remove(0);
        // In one burst: the end of the link, the next one of its name, and an outcome that comes too late.
        client.connection().detach_link(link, None);
        let asked = named_like_its_session("one");
        let next = client.begin_to_receive("orders", asked);
        client.propose(message.id, message.id, DeliveryState::Released);
        (link, _) = client.answer_to(next).await.unwrap();
        let session = [("session-id", "one".into())];
        for operation in ["get-session-state", "renew-session-lock"] {
            let answer = client.request("orders", operation, &session).await;
            assert_eq!(answer.status, 200, "{operation}: {answer:?}");
        }
    }
    client.connection().set_credit(link, 1);
    let message = client.receive(link, 1).await.remove(0);
    assert_eq!(message.delivery_count(), 0);
    let answer = client.settle(&message, DeliveryState::Accepted).await;
    assert_eq!(answer, DeliveryState::Accepted);
}

#[tokio::test]
async fn a_link_that_takes_over_the_name_of_another_takes_over_its_session() {
    let service = session_service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    send(&mut client, sender, "one", b"message").await;
    let asked = named_like_its_session("one");
    let (stolen, _) = client.ask_to_receive("orders", asked).await.unwrap();
    client.connection().set_credit(stolen, 1);
    client.receive(stolen, 1).await;
    let asked = named_like_its_session("one");
    let (link, answer) = client.ask_to_receive("orders", asked).await.unwrap();
    assert_eq!(session_of(&answer), "one".into());
    client.connection().set_credit(link, 1);
    let message = client.receive(link, 1).await.remove(0);
    let answer = client.settle(&message, DeliveryState::Accepted).await;
    assert_eq!(answer, DeliveryState::Accepted);
}

#[tokio::test]
async fn links_of_one_name_on_two_amqp_sessions_have_nothing_to_do_with_each_other() {
    let queues = ["orders", "returns"].map(|name| {
        let mut config = QueueConfig::new(name);
        config.options.requires_session = true;
        config
    });
    let service = service(queues.into(), vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let other = client.connection().begin_session().unwrap();
    for round in 0..3 {
        let asked = named_like_its_session("one");
        let (first, _) = client.ask_to_receive("orders", asked).await.unwrap();
        let mut options = LinkOptions { source: Source::new("returns"), ..LinkOptions::default() };
        named_like_its_session("one")(&mut options);
        let second = client.connection().attach_receiver(other, options).unwrap();
        client.answer_to(second).await.unwrap();
        let (gone, kept, queue) = match round {
            0 => (first, second, "returns"),
            _ => (second, first, "orders"),
        };
        client.detach(gone).await;
        let session = [("session-id", "one".into())];
        let answer = client.request(queue, "renew-session-lock", &session).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        client.detach(kept).await;
        let answer = client.request(queue, "renew-session-lock", &session).await;
        assert_eq!(answer.status, 410, "{answer:?}");
    }
}

#[tokio::test]
async fn a_session_whose_time_is_over_ends_its_link() {
    let mut config = QueueConfig::new("orders");
    config.options.requires_session = true;
    config.options.lock_duration = Duration::from_millis(200);
    let service = service(vec![config], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let asked = session_filter("one".into());
    let (link, _) = client.ask_to_receive("orders", asked).await.unwrap();
    client.connection().set_credit(link, 1);
    let error = client
        .until("the detach", |event| match event {
            amqp::connection::Event::LinkDetached { link: gone, error } if gone == link => error,
            _ => None,
        })
        .await;
    assert_eq!(error.condition.as_str(), "com.microsoft:session-lock-lost");
}

#[tokio::test]
async fn a_session_whose_time_is_over_ends_its_link_though_messages_wait_for_credit() {
    let mut config = QueueConfig::new("orders");
    config.options.requires_session = true;
    config.options.lock_duration = Duration::from_millis(300);
    let service = service(vec![config], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    for payload in [b"1", b"2", b"3"] {
        send(&mut client, sender, "one", payload).await;
    }
    let asked = session_filter("one".into());
    let (link, _) = client.ask_to_receive("orders", asked).await.unwrap();
    client.connection().set_credit(link, 1);
    client.receive(link, 1).await;
    let error = client
        .until("the detach", |event| match event {
            amqp::connection::Event::LinkDetached { link: gone, error } if gone == link => error,
            _ => None,
        })
        .await;
    assert_eq!(error.condition.as_str(), "com.microsoft:session-lock-lost");
}

#[tokio::test]
async fn a_session_has_a_state_and_a_lock_that_is_renewed() {
    let service = session_service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    send(&mut client, sender, "one", b"message").await;
    let asked = session_filter("one".into());
    client.ask_to_receive("orders", asked).await.unwrap();
    let session = ("session-id", Value::from("one"));
    let answer = client.request("orders", "get-session-state", std::slice::from_ref(&session)).await;
    assert_eq!(answer.body.get("session-state"), Some(&Value::Null));
    let state = ("session-state", Value::Binary(b"half way".to_vec()));
    let body = [session.clone(), state.clone()];
    let answer = client.request("orders", "set-session-state", &body).await;
    assert_eq!(answer.status, 200);
    let answer = client.request("orders", "get-session-state", std::slice::from_ref(&session)).await;
    assert_eq!(answer.body.get("session-state"), Some(&state.1));
    // The Go client has no other way to clear a state than an empty one.
    for none in [Value::Binary(Vec::new()), Value::Null] {
        for set in [state.1.clone(), none] {
            let body = [session.clone(), ("session-state", set)];
            let answer = client.request("orders", "set-session-state", &body).await;
            assert_eq!(answer.status, 200);
        }
        let body = std::slice::from_ref(&session);
        let answer = client.request("orders", "get-session-state", body).await;
        assert_eq!(answer.body.get("session-state"), Some(&Value::Null));
    }
    let answer = client.request("orders", "renew-session-lock", &[session]).await;
    assert!(matches!(answer.body.get("expiration"), Some(Value::Timestamp(_))));
    let lost = [("session-id", Value::from("two"))];
    let answer = client.request("orders", "renew-session-lock", &lost).await;
    assert_eq!(answer.status, 410);
    assert_eq!(answer.condition.as_deref(), Some("com.microsoft:session-lock-lost"));
}

#[tokio::test]
async fn sessions_are_listed_by_the_time_of_their_state() {
    let service = session_service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    send(&mut client, sender, "message", b"message").await;
    for session in ["first", "second", "cleared"] {
        let asked = session_filter(session.into());
        client.ask_to_receive("orders", asked).await.unwrap();
        let session = ("session-id", Value::from(session));
        let state = ("session-state", Value::Binary(b"half way".to_vec()));
        let body = [session.clone(), state];
        let answer = client.request("orders", "set-session-state", &body).await;
        assert_eq!(answer.status, 200);
    }
    let body = [("session-id", Value::from("cleared")), ("session-state", Value::Null)];
    client.request("orders", "set-session-state", &body).await;
    // As the clients of Go and Python, and that of .NET, say that they want all.
    let every = ["first", "message", "second"];
    let hour = 3_600_000;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    for (after, skip, expected) in [
        (253_402_300_800_000, 0, &every[..]),
        (253_402_300_799_999, 1, &every[1..]),
        (now - hour, 0, &["first", "second"]),
        (now - hour, 1, &["second"]),
        (now + hour, 0, &[]),
    ] {
        let body = [
            ("last-updated-time", Value::Timestamp(after)),
            ("skip", Value::Int(skip)),
            ("top", Value::Int(10)),
        ];
        let answer = client.request("orders", "get-message-sessions", &body).await;
        let listed = answer.body.get("sessions-ids");
        let expected = expected.iter().map(|name| Value::from(*name)).collect();
        match answer.status {
            204 => assert_eq!(Value::Array(expected), Value::Array(vec![]), "{after}"),
            _ => assert_eq!(listed, Some(&Value::Array(expected)), "{after}"),
        }
    }
}

#[tokio::test]
async fn a_client_that_waits_for_a_session_and_gives_up_or_vanishes_does_not_block_it() {
    let service = session_service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let mut patient = Client::connect(service.amqp_address()).await;
    let link = patient.begin_to_receive("orders", session_filter(Value::Null));
    // Requests come after it, so it has come to wait when they are answered.
    let answered = patient.request("orders", "peek-message", &[]).await;
    assert_eq!(answered.status, 400);
    patient.detach(link).await;
    let mut vanishing = Client::connect(service.amqp_address()).await;
    for _ in 0..3 {
        vanishing.begin_to_receive("orders", session_filter(Value::Null));
    }
    vanishing.request("orders", "peek-message", &[]).await;
    drop(vanishing);
    let (sender, _) = client.sender("orders").await.unwrap();
    send(&mut client, sender, "one", b"message").await;
    // Whoever vanished may have had it for a moment: this one waits, then.
    let link = client.begin_to_receive("orders", session_filter(Value::Null));
    let (link, answer) = client.answer_to(link).await.unwrap();
    assert_eq!(session_of(&answer), "one".into());
    client.connection().set_credit(link, 1);
    assert_eq!(client.receive(link, 1).await[0].payload(), b"message");
}

#[tokio::test]
async fn missing_message_keeps_session_lock() {
    let service = session_service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    for payload in [b"1", b"2"] {
        send(&mut client, sender, "one", payload).await;
    }
    let asked = session_filter("one".into());
    let (receiver, _) = client.ask_to_receive("orders", asked).await.unwrap();
    client.connection().set_credit(receiver, 2);
    let received = client.receive(receiver, 2).await;
    for message in &received {
        let until = message.annotation("x-opt-locked-until");
        assert_eq!(until, Some(Value::Timestamp(253_402_300_799_999)), "as long as its session");
    }
    let body = |token: &Value, session: &[Value]| {
        let mut body = vec![
            ("disposition-status", Value::from("completed")),
            ("lock-tokens", Value::Array(vec![token.clone()])),
        ];
        body.extend(session.iter().map(|session| ("session-id", session.clone())));
        body
    };
    let token = received[0].lock_token();
    let answer = client.request("orders", "update-disposition", &body(&token, &["one".into()])).await;
    assert_eq!(answer.status, 200);
    // By request and by its link.
    for session in [&[][..], &["one".into()]] {
        let lost = client.request("orders", "update-disposition", &body(&token, session)).await;
        assert_eq!((lost.status, lost.condition.as_deref()), (410, Some(MESSAGE_LOCK_LOST)));
    }
    let lost = client.settle(&received[0], DeliveryState::Accepted).await;
    assert_eq!(condition(&lost), MESSAGE_LOCK_LOST);
    let renewed = client.request("orders", "renew-session-lock", &[("session-id", "one".into())]).await;
    assert_eq!(renewed.status, 200);
    assert_eq!(client.settle(&received[1], DeliveryState::Accepted).await, DeliveryState::Accepted);
    // Of a session that this connection does not have, everything is lost.
    let lost = client.request("orders", "update-disposition", &body(&token, &["two".into()])).await;
    assert_eq!(lost.condition.as_deref(), Some("com.microsoft:session-lock-lost"));
}

const MESSAGE_LOCK_LOST: &str = "com.microsoft:message-lock-lost";
