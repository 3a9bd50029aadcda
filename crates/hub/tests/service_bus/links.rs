//! Which links there are, and what is said to a client that asks for another.

use amqp::performative::SenderSettleMode;
use hub::namespace::{QueueConfig, TopicConfig};
use queue_store::EntityStatus;

use crate::service_bus::client::{Client, service, session_filter};

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
