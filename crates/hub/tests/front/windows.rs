//! Clients with a session window of one transfer, or a credit of one: all that the service sends arrives, whatever it is.

use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME};
use amqp::Value;
use amqp::connection::{Config, LinkId, SaslClient};
use amqp::message::{FORMAT_AMQP, Properties, encode};
use amqp::performative::DeliveryState;
use hub::service::Service;
use test_peer::Client;

use super::client::token;
use crate::rest::client::service;

const COUNT: usize = 20;

/// A bound that the service waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bottleneck {
    Window,
    Credit,
}

const BOTTLENECKS: [Bottleneck; 2] = [Bottleneck::Window, Bottleneck::Credit];

async fn connect(service: &Service, bottleneck: Bottleneck) -> Client {
    let sasl = SaslClient::Plain { username: ROOT_KEY_NAME.into(), password: DEVELOPMENT_KEY_VALUE.into() };
    let stream = Client::stream(service.amqp_address()).await;
    let incoming_window = if bottleneck == Bottleneck::Window { 1 } else { 1_000 };
    Client::open_with(stream, sasl, Config { incoming_window, ..Config::default() }).await.unwrap()
}

/// Receives [`COUNT`] messages of a link.
async fn receive_all(client: &mut Client, link: LinkId, bottleneck: Bottleneck) {
    match bottleneck {
        Bottleneck::Window => {
            client.connection().set_credit(link, 100);
            client.received(link, COUNT).await;
        }
        Bottleneck::Credit => {
            for _ in 0..COUNT {
                client.connection().set_credit(link, 1);
                client.received(link, 1).await;
            }
        }
    }
}

/// Asks a node so often at once, and requires all answers.
async fn ask(node: &str, properties: &[(&str, &str)], body: Value) {
    let service = service().await;
    for bottleneck in BOTTLENECKS {
        let mut client = connect(&service, bottleneck).await;
        let (requests, _) = client.ask_to_send(node, |_| {}).await.unwrap();
        let (answers, _) = client.ask_to_receive(node, |_| {}).await.unwrap();
        let mut message = Vec::new();
        Properties { message_id: Some(Value::from("request")), ..Properties::default() }.encode(&mut message);
        let properties: Vec<_> = properties.iter().map(|(name, text)| (*name, Value::from(*text))).collect();
        encode::application_properties(&mut message, &properties);
        encode::value(&mut message, &body);
        for _ in 0..COUNT {
            client.begin_message(requests, FORMAT_AMQP, &message).await;
        }
        receive_all(&mut client, answers, bottleneck).await;
        client.close().await;
    }
    service.stop().await;
}

#[tokio::test]
async fn answers_about_hubs_arrive_through_windows_and_credit_of_one() {
    let properties = [("operation", "READ"), ("name", "events"), ("type", "com.microsoft:eventhub")];
    ask("$management", &properties, Value::Null).await;
}

#[tokio::test]
async fn answers_about_queues_arrive_through_windows_and_credit_of_one() {
    let body = Value::Map(vec![
        (Value::from("from-sequence-number"), Value::Long(1)),
        (Value::from("message-count"), Value::Int(1)),
    ]);
    ask("orders/$management", &[("operation", "com.microsoft:peek-message")], body).await;
}

#[tokio::test]
async fn answers_to_tokens_arrive_through_windows_and_credit_of_one() {
    let audience = "sb://localhost/";
    let text = token(DEVELOPMENT_KEY_VALUE, audience, 3600);
    let properties =
        [("operation", "put-token"), ("type", "servicebus.windows.net:sastoken"), ("name", audience)];
    ask("$cbs", &properties, Value::from(text.as_str())).await;
}

#[tokio::test]
async fn events_and_messages_arrive_through_windows_and_credit_of_one() {
    for (to, from) in
        [("events/Partitions/0", "events/ConsumerGroups/$Default/Partitions/0"), ("orders", "orders")]
    {
        let service = service().await;
        for bottleneck in BOTTLENECKS {
            let mut client = connect(&service, bottleneck).await;
            let (sender, _) = client.ask_to_send(to, |_| {}).await.unwrap();
            let mut message = Vec::new();
            encode::data(&mut message, &[7; 100]);
            for _ in 0..COUNT {
                let id = client.begin_message(sender, FORMAT_AMQP, &message).await;
                assert_eq!(client.outcome(id).await, DeliveryState::Accepted);
            }
            let (receiver, _) = client.ask_to_receive(from, |_| {}).await.unwrap();
            receive_all(&mut client, receiver, bottleneck).await;
            client.close().await;
        }
        service.stop().await;
    }
}
