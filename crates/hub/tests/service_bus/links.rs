//! Which links there are, and what is said to a client that asks for another.

use amqp::Value;
use amqp::codec::Symbol;
use amqp::connection::LinkOptions;
use amqp::performative::{DeliveryState, SenderSettleMode, Target};
use hub::namespace::{QueueConfig, TopicConfig};
use queue_store::EntityStatus;

use crate::service_bus::client::{Client, message_of_session, service, session_filter};

#[tokio::test]
async fn what_does_not_exist_is_reported_in_the_words_that_clients_look_for() {
    let service = service(vec![QueueConfig::new("orders")], vec![TopicConfig::new("news", ["all"])]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    for address in [
        "nothing",
        "nothing/Subscriptions/all",
        "news/Subscriptions/nobody",
        "orders/Subscriptions/all",
        "nothing/$DeadLetterQueue",
        "news/$DeadLetterQueue",
        "nothing/$management",
        "news/Subscriptions/nobody/$management",
        "orders/Subscriptions/all/$management",
    ] {
        let refusal = client.ask_to_receive(address, |_| {}).await.unwrap_err();
        assert_eq!(refusal.condition.as_str(), "amqp:not-found", "{address}");
        let text = &refusal.description;
        assert!(text.starts_with("The messaging entity '") && text.contains("could not be found"));
    }
    let refusal = client.sender("nothing").await.unwrap_err();
    assert_eq!(refusal.condition.as_str(), "amqp:not-found");
}

#[tokio::test]
async fn parts_are_received_from_and_not_sent_to_and_topics_the_other_way_round() {
    let service = service(vec![QueueConfig::new("orders")], vec![TopicConfig::new("news", ["all"])]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    for address in
        ["orders/$DeadLetterQueue", "news/Subscriptions/all", "news/Subscriptions/all/$DeadLetterQueue"]
    {
        let refusal = client.sender(address).await.unwrap_err();
        assert_eq!(refusal.condition.as_str(), "amqp:not-allowed", "{address}");
        client.receiver(address, 1).await;
    }
    client.receiver("orders/$Transfer/$DeadLetterQueue", 1).await;
    let refusal = client.ask_to_receive("news", |_| {}).await.unwrap_err();
    assert_eq!(refusal.condition.as_str(), "amqp:not-allowed");
    client.sender("news").await.unwrap();
}

#[tokio::test]
async fn a_client_that_may_not_receive_is_refused_at_once() {
    let mut forwarding = QueueConfig::new("forwarding");
    forwarding.options.forward_to = Some("orders".to_owned());
    let mut disabled = QueueConfig::new("disabled");
    disabled.options.status = EntityStatus::Disabled;
    let queues = vec![forwarding, disabled, QueueConfig::new("orders")];
    let service = service(queues, vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    for (address, condition) in
        [("forwarding", "amqp:not-allowed"), ("disabled", "com.microsoft:entity-disabled")]
    {
        let refusal = client.ask_to_receive(address, |_| {}).await.unwrap_err();
        assert_eq!(refusal.condition.as_str(), condition);
    }
}

#[tokio::test]
async fn a_client_that_may_not_send_is_refused_at_once() {
    let mut disabled = QueueConfig::new("disabled");
    disabled.options.status = EntityStatus::SendDisabled;
    let mut topic = TopicConfig::new("news", ["all"]);
    topic.options.status = EntityStatus::Disabled;
    let service = service(vec![disabled], vec![topic]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    for address in ["disabled", "news"] {
        let refusal = client.sender(address).await.unwrap_err();
        assert_eq!(refusal.condition.as_str(), "com.microsoft:entity-disabled");
    }
    client.receiver("disabled", 1).await;
}

#[tokio::test]
async fn an_answer_repeats_addresses_and_settle_modes() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let address = "amqps://localhost:5671/Orders";
    let (_, answer) = client.ask_to_receive(address, |_| {}).await.unwrap();
    assert_eq!(answer.source.unwrap().address.as_deref(), Some(address));
    assert_eq!(answer.target.unwrap().address.as_deref(), Some("here"));
    assert_eq!(answer.sender_settle_mode, SenderSettleMode::Unsettled);
    assert_eq!(answer.initial_delivery_count, Some(0));
    let nameless = |options: &mut amqp::connection::LinkOptions| options.target.address = None;
    let (_, answer) = client.ask_to_receive(address, nameless).await.unwrap();
    assert_eq!(answer.target.unwrap().address, None);
}

#[tokio::test]
async fn a_session_is_asked_for_exactly_where_there_are_sessions() {
    let mut config = QueueConfig::new("sessions");
    config.options.requires_session = true;
    let service = service(vec![config, QueueConfig::new("plain")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let refusal = client.ask_to_receive("sessions", |_| {}).await.unwrap_err();
    assert_eq!(refusal.condition.as_str(), "amqp:not-allowed");
    // People and clients look for this sentence.
    let sentence = "It is not possible for an entity that requires sessions to create a non-sessionful message receiver.";
    assert!(refusal.description.contains(sentence), "{refusal:?}");
    for session in [amqp::Value::Null, "one".into()] {
        let asked = session_filter(session);
        let refusal = client.ask_to_receive("plain", asked).await.unwrap_err();
        assert_eq!(refusal.condition.as_str(), "amqp:not-allowed");
    }
    let asked = session_filter(amqp::Value::Int(1));
    let refusal = client.ask_to_receive("sessions", asked).await.unwrap_err();
    assert_eq!(refusal.condition.as_str(), "amqp:invalid-field");
}

#[tokio::test]
async fn a_connection_has_one_pair_of_links_to_cbs_at_a_time() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let mut other = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("$cbs").await.unwrap();
    let receiver = client.receiver("$cbs", 1).await;
    let refusal = client.sender("$cbs").await.unwrap_err();
    assert_eq!(refusal.condition.as_str(), "amqp:not-allowed");
    let refusal = client.ask_to_receive("$cbs", |_| {}).await.unwrap_err();
    assert_eq!(refusal.condition.as_str(), "amqp:not-allowed");
    // Another connection has its own, and a later pair takes the place of the first.
    other.put_token("sb://localhost/", "any token").await;
    client.detach(sender).await;
    client.detach(receiver).await;
    for _pair in 0..2 {
        client.put_token("sb://localhost/", "any token").await;
    }
}

/// A filter with a descriptor.
fn filter(key: &'static str, descriptor: Value, value: &str) -> (Symbol, Value) {
    (Symbol::from_static(key), Value::Described(Box::new((descriptor, Value::from(value)))))
}

#[tokio::test]
async fn what_is_not_applied_is_not_in_the_answer() {
    let mut sessions = QueueConfig::new("sessions");
    sessions.options.requires_session = true;
    let service = service(vec![QueueConfig::new("orders"), sessions], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let selector = filter("jms-selector", Value::Ulong(0x0000_468c_0000_0004), "color = 'blue'");
    let unknown = filter("x:y", Value::Symbol("x:y".into()), "z");
    let session = filter("mine", Value::Ulong(0x0013_7000_000c), "one");
    let (_, answer) = client
        .ask_to_receive("orders", |options| {
            options.source.filter = vec![selector.clone(), unknown.clone()];
            options.source.distribution_mode = Some("move".into());
            options.source.durable = 2;
            options.source.default_outcome = Some(Value::Null);
        })
        .await
        .unwrap();
    let source = answer.source.unwrap();
    assert_eq!((source.filter, source.durable, source.default_outcome), (Vec::new(), 0, None));
    assert_eq!(source.distribution_mode, Some("move".into()), "each message is for one");
    // Filters are known by their descriptors, whatever their keys.
    let (_, answer) = client
        .ask_to_receive("sessions", |options| {
            options.source.filter = vec![selector, session.clone(), unknown]
        })
        .await
        .unwrap();
    assert_eq!(answer.source.unwrap().filter, [session]);
}

#[tokio::test]
async fn a_session_to_be_shared_is_refused_in_the_words_that_its_client_looks_for() {
    let mut sessions = QueueConfig::new("sessions");
    sessions.options.requires_session = true;
    let service = service(vec![sessions], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let descriptor = Value::Symbol("com.microsoft:non-exclusive-session-filter:list".into());
    let shared = Value::Described(Box::new((descriptor, Value::List(vec!["one".into(), Value::Null]))));
    let key = Symbol::from_static("com.microsoft:non-exclusive-session-filter");
    let asked = |options: &mut LinkOptions| options.source.filter = vec![(key, shared)];
    let refusal = client.ask_to_receive("sessions", asked).await.unwrap_err();
    assert_eq!(refusal.condition.as_str(), "amqp:not-allowed");
    let text = refusal.description;
    assert!(text.starts_with("'com.microsoft:non-exclusive-session-filter' "), "{text}");
    assert!(text.contains("invalid filter type"), "{text}");
}

#[tokio::test]
async fn ends_without_an_address_are_refused_with_what_is_not_supported() {
    let service = service(vec![QueueConfig::new("orders")], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    for (dynamic, words) in [(true, "dynamic source"), (false, "source without an address")] {
        let asked = |options: &mut LinkOptions| {
            options.source.address = None;
            options.source.dynamic = dynamic;
        };
        let refusal = client.ask_to_receive("", asked).await.unwrap_err();
        assert_eq!(refusal.condition.as_str(), "amqp:not-implemented");
        assert!(refusal.description.contains(words), "{refusal}");
    }
    for (dynamic, words) in [(true, "dynamic target"), (false, "anonymous relay")] {
        let asked = |options: &mut LinkOptions| {
            options.target = Target { address: None, dynamic, ..Target::default() };
        };
        let refusal = client.ask_to_send("", asked).await.unwrap_err();
        assert_eq!(refusal.condition.as_str(), "amqp:not-implemented");
        assert!(refusal.description.contains(words), "{refusal}");
    }
}

fn browsing(options: &mut LinkOptions) {
    options.source.distribution_mode = Some("copy".into());
}

#[tokio::test]
async fn a_browser_sees_each_message_once_and_takes_none() {
    let mut sessions = QueueConfig::new("sessions");
    sessions.options.requires_session = true;
    let service = service(vec![QueueConfig::new("orders"), sessions], vec![]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (sender, _) = client.sender("orders").await.unwrap();
    for payload in [b"a", b"b", b"c"] {
        client.send(sender, payload).await;
    }
    let (browser, answer) = client.ask_to_receive("orders", browsing).await.unwrap();
    assert_eq!(answer.source.unwrap().distribution_mode, Some("copy".into()));
    client.connection().set_credit(browser, 2);
    let mut seen = client.receive(browser, 2).await;
    client.connection().set_credit(browser, 10);
    seen.extend(client.receive(browser, 1).await);
    assert!(seen.iter().all(|message| message.settled), "there is nothing to settle");
    let payloads: Vec<_> = seen.iter().map(|message| message.payload().to_vec()).collect();
    assert_eq!(payloads, [b"a", b"b", b"c"]);
    // Clients give outcomes all the same.
    client.propose(seen[0].id, seen[2].id, DeliveryState::Accepted);
    client.drain(browser).await;
    assert_eq!(client.waiting(browser), 0, "each once");
    let receiver = client.receiver("orders", 3).await;
    let received = client.receive(receiver, 3).await;
    assert_eq!(received[0].payload(), b"a");
    assert_eq!(received[0].delivery_count(), 0, "to look is no delivery");
    // What comes later is seen, too, and others do not matter.
    client.connection().set_credit(browser, 10);
    client.send(sender, b"d").await;
    assert_eq!(client.receive(browser, 1).await[0].payload(), b"d");
    // There is no session to lock for it.
    let (sender, _) = client.sender("sessions").await.unwrap();
    client.send_message(sender, amqp::message::FORMAT_AMQP, &message_of_session("one", b"e")).await;
    let (browser, _) = client.ask_to_receive("sessions", browsing).await.unwrap();
    client.connection().set_credit(browser, 10);
    assert_eq!(client.receive(browser, 1).await[0].payload(), b"e");
    let one = |options: &mut LinkOptions| {
        browsing(options);
        session_filter("one".into())(options);
    };
    let refusal = client.ask_to_receive("sessions", one).await.unwrap_err();
    assert_eq!(refusal.condition.as_str(), "amqp:not-implemented");
}
