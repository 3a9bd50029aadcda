//! What each key may do with an entity and its parts.

use std::time::{Duration, SystemTime};

use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME, SharedAccessKey};
use amqp::Value;
use amqp::connection::Event;
use amqp::performative::DeliveryState;
use hub::namespace::{
    HubConfig, NamespaceConfig, QueueConfig, RightConfig, RuleConfig, SignaturePolicy, TopicConfig,
};
use hub::service::{Service, ServiceConfig};

use crate::service_bus::client::{Client, service, session_filter};

/// A service with the hub `events`, the queue `orders`, the queue of sessions `talks` and the topic `news`, and a key for each right.
pub(crate) async fn guarded() -> Service {
    let key = |name: &str, right| RuleConfig {
        name: name.to_owned(),
        key: format!("{name} value").into(),
        rights: vec![right],
    };
    let mut talks = QueueConfig::new("talks");
    talks.options.requires_session = true;
    let mut namespace = NamespaceConfig {
        signatures: SignaturePolicy::Verify,
        queues: vec![QueueConfig::new("orders"), talks],
        topics: vec![TopicConfig::new("news", ["all"])],
        ..NamespaceConfig::with_hubs(vec![HubConfig::new("events", 1)])
    };
    namespace.authorization_rules.extend([
        key("sender", RightConfig::Send),
        key("listener", RightConfig::Listen),
        key("manager", RightConfig::Manage),
    ]);
    Service::start(ServiceConfig::loopback(namespace)).await.unwrap()
}

/// A client with the token of the key `name` of [`guarded`].
pub(crate) async fn with_key(service: &Service, name: &str) -> Client {
    Client::connect_with_key(service.amqp_address(), name, &format!("{name} value")).await
}

#[tokio::test]
async fn links_take_the_right_to_send_or_to_listen() {
    let service = guarded().await;
    let mut sender = with_key(&service, "sender").await;
    let mut listener = with_key(&service, "listener").await;
    let mut nobody = Client::connect(service.amqp_address()).await;
    for address in ["orders", "news"] {
        sender.sender(address).await.unwrap();
        for client in [&mut listener, &mut nobody] {
            let refusal = client.sender(address).await.unwrap_err();
            assert_eq!(refusal.condition.as_str(), "amqp:unauthorized-access");
        }
    }
    for address in [
        "orders",
        "orders/$DeadLetterQueue",
        "orders/$Transfer/$DeadLetterQueue",
        "news/Subscriptions/all",
        "news/subscriptions/ALL/$deadletterqueue",
        "//orders",
    ] {
        let received = listener.ask_to_receive(address, |_| {}).await;
        assert!(received.is_ok() || address == "//orders", "{address}");
        for client in [&mut sender, &mut nobody] {
            let refusal = client.ask_to_receive(address, |_| {}).await.unwrap_err();
            assert_eq!(refusal.condition.as_str(), "amqp:unauthorized-access");
        }
    }
    // Neither a session nor the wait for one is had without.
    for session in [Value::Null, "one".into()] {
        let asked = session_filter(session);
        let refusal = sender.ask_to_receive("talks", asked).await.unwrap_err();
        assert_eq!(refusal.condition.as_str(), "amqp:unauthorized-access");
    }
}

#[tokio::test]
async fn a_token_for_the_node_of_requests_is_enough_for_requests_and_for_nothing_else() {
    let service = guarded().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let audience = "sb://localhost/orders/$management";
    let token = SharedAccessKey::new("listener", "listener value")
        .sign(audience, SystemTime::now() + Duration::from_secs(60));
    client.put_token(audience, &token).await;
    let body = [("from-sequence-number", Value::Long(0)), ("message-count", Value::Int(1))];
    for (entity, status) in [("orders", 204), ("orders/$DeadLetterQueue", 401)] {
        let answer = client.request(entity, "peek-message", &body).await;
        assert_eq!(answer.status, status, "{entity}");
    }
    let refusal = client.ask_to_receive("orders", |_| {}).await.unwrap_err();
    assert_eq!(refusal.condition.as_str(), "amqp:unauthorized-access");
}

#[tokio::test]
async fn links_stay_no_longer_than_their_claims() {
    let service = guarded().await;
    let mut client = Client::connect(service.amqp_address()).await;
    for (key, entity) in [("listener", "orders"), ("sender", "news"), ("listener", "talks")] {
        let audience = format!("sb://localhost/{entity}");
        // Tokens expire at whole seconds, so these live for one to two.
        let token = SharedAccessKey::new(key, format!("{key} value"))
            .sign(&audience, SystemTime::now() + Duration::from_secs(2));
        client.put_token(&audience, &token).await;
    }
    let receiver = client.receiver("orders", 1).await;
    let (sender, _) = client.sender("news").await.unwrap();
    let waiting = client.begin_to_receive("talks", session_filter(Value::Null));
    let mut left = vec![receiver, sender, waiting];
    while !left.is_empty() {
        let (gone, error) = client
            .until("the end of a link", |event| match event {
                Event::LinkDetached { link, error } => Some((link, error.unwrap())),
                _ => None,
            })
            .await;
        assert_eq!(error.condition.as_str(), "amqp:unauthorized-access");
        left.retain(|link| *link != gone);
    }
}

#[tokio::test]
async fn what_one_connection_has_locked_another_settles_only_with_the_token() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let mut other = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    client.send(sender, b"message").await;
    let receiver = client.receiver("orders", 1).await;
    let received = client.receive(receiver, 1).await.remove(0);
    let mut forged = match received.lock_token() {
        Value::Uuid(bytes) => bytes,
        other => panic!("{other:?}"),
    };
    // Half of it is the number of the message, which anyone may guess; the other half must be more than that.
    for byte in &mut forged[8..] {
        *byte = byte.wrapping_add(1);
    }
    for (token, status) in [(Value::Uuid(forged), 410), (received.lock_token(), 200)] {
        let body =
            [("disposition-status", Value::from("completed")), ("lock-tokens", Value::Array(vec![token]))];
        let answer = other.request("orders", "update-disposition", &body).await;
        assert_eq!(answer.status, status);
    }
    let answer = client.settle(&received, DeliveryState::Accepted).await;
    assert!(matches!(answer, DeliveryState::Rejected(Some(_))));
}

/// A token of the key that may do everything, for `audience`, good from now on for so many seconds or expired since.
fn root_token(audience: &str, seconds: i64) -> String {
    let root = SharedAccessKey::new(ROOT_KEY_NAME, DEVELOPMENT_KEY_VALUE);
    let now = SystemTime::now();
    let span = Duration::from_secs(seconds.unsigned_abs());
    root.sign(audience, if seconds < 0 { now - span } else { now + span })
}

#[tokio::test]
async fn an_unknown_queue_or_topic_is_not_found_when_a_token_is_presented_for_it() {
    let service = guarded().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let token = root_token("sb://localhost/", 3600);
    for path in ["nowhere", "nowhere/Subscriptions/all", "nowhere/$management", "orders2"] {
        let audience = format!("sb://localhost/{path}");
        let (status, description) = client.try_token(&audience, &token).await;
        assert_eq!(status, 404, "{path}");
        let expected = format!("The messaging entity '{audience}' could not be found.");
        assert_eq!(description, expected);
    }
    // What is missing below an entity is told by the link, as in the service.
    for path in [
        "",
        "ORDERS",
        "orders/$DeadLetterQueue",
        "talks/$management",
        "news/Subscriptions/all",
        "news/Subscriptions/nobody",
    ] {
        let audience = format!("amqps://localhost:5671/{path}");
        let (status, description) = client.try_token(&audience, &token).await;
        assert_eq!((status, &*description), (202, "Accepted"), "{path}");
    }
    // Who has proven nothing learns nothing.
    let forged = SharedAccessKey::new(ROOT_KEY_NAME, "guess")
        .sign("sb://localhost/", SystemTime::now() + Duration::from_secs(60));
    let (status, _) = client.try_token("sb://localhost/nowhere", &forged).await;
    assert_eq!(status, 401);
}

#[tokio::test]
async fn a_token_is_refused_in_the_words_of_the_service() {
    let service = guarded().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let audience = "sb://localhost/orders";
    let expired = root_token(audience, -600);
    let (status, description) = client.try_token(audience, &expired).await;
    assert_eq!(status, 401);
    let time = description
        .strip_prefix("ExpiredToken: The token is expired. Expiration time: '")
        .and_then(|rest| rest.strip_suffix("'."))
        .unwrap_or_else(|| panic!("{description}"));
    assert!(time.len() == "2019-04-11 21:12:56Z".len() && time.ends_with('Z'), "{time}");
    let forged = SharedAccessKey::new(ROOT_KEY_NAME, "guess")
        .sign(audience, SystemTime::now() + Duration::from_secs(60));
    let (status, description) = client.try_token(audience, &forged).await;
    let expected = "InvalidSignature: The token has an invalid signature.";
    assert_eq!((status, &*description), (401, expected));
    let other = root_token("sb://localhost/talks", 60);
    let (status, description) = client.try_token(audience, &other).await;
    assert_eq!(status, 401);
    assert!(description.starts_with("InvalidAudience: "), "{description}");
}
