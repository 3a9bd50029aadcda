//! Clients with a session window of one transfer, or a credit of one: all that the service sends arrives, whatever it is.

use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME};
use amqp::Value;
use amqp::connection::{Config, Event, LinkId, SaslClient};
use amqp::message::{FORMAT_AMQP, Properties, encode};
use amqp::performative::DeliveryState;
use hub::service::Service;
use test_peer::Client;

use super::client::token;
use crate::kafka_memory::usage;
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

/// A request to a node.
fn request(properties: &[(&str, &str)], body: &Value) -> Vec<u8> {
    let mut message = Vec::new();
    Properties { message_id: Some(Value::from("request")), ..Properties::default() }.encode(&mut message);
    let properties: Vec<_> = properties.iter().map(|(name, text)| (*name, Value::from(*text))).collect();
    encode::application_properties(&mut message, &properties);
    encode::value(&mut message, body);
    message
}

/// A request to see the first message of a queue.
fn peek() -> Vec<u8> {
    let body = Value::Map(vec![
        (Value::from("from-sequence-number"), Value::Long(1)),
        (Value::from("message-count"), Value::Int(1)),
    ]);
    request(&[("operation", "com.microsoft:peek-message")], &body)
}

/// Asks a node so often at once, and requires all answers.
async fn ask(node: &str, message: &[u8]) {
    let service = service().await;
    for bottleneck in BOTTLENECKS {
        let mut client = connect(&service, bottleneck).await;
        let (requests, _) = client.ask_to_send(node, |_| {}).await.unwrap();
        let (answers, _) = client.ask_to_receive(node, |_| {}).await.unwrap();
        for _ in 0..COUNT {
            client.begin_message(requests, FORMAT_AMQP, message).await;
        }
        receive_all(&mut client, answers, bottleneck).await;
        client.close().await;
    }
    service.stop().await;
}

#[tokio::test]
async fn answers_about_hubs_arrive_through_windows_and_credit_of_one() {
    let properties = [("operation", "READ"), ("name", "events"), ("type", "com.microsoft:eventhub")];
    ask("$management", &request(&properties, &Value::Null)).await;
}

#[tokio::test]
async fn answers_about_queues_arrive_through_windows_and_credit_of_one() {
    ask("orders/$management", &peek()).await;
}

#[tokio::test]
async fn answers_to_tokens_arrive_through_windows_and_credit_of_one() {
    let audience = "sb://localhost/";
    let text = token(DEVELOPMENT_KEY_VALUE, audience, 3600);
    let properties =
        [("operation", "put-token"), ("type", "servicebus.windows.net:sastoken"), ("name", audience)];
    ask("$cbs", &request(&properties, &Value::from(text.as_str()))).await;
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

/// A client that has sent as many requests as it may, each with a long reply, and does not receive the replies.
pub(crate) struct Deaf {
    client: Client,
    requests: LinkId,
    replies: LinkId,
    /// Requests that it has sent.
    count: usize,
}

impl Deaf {
    pub(crate) async fn connect(service: &Service) -> Self {
        let mut client = connect(service, Bottleneck::Credit).await;
        let (requests, _) = client.ask_to_send("orders/$management", |_| {}).await.unwrap();
        let (replies, _) = client.ask_to_receive("orders/$management", |_| {}).await.unwrap();
        let mut deaf = Self { client, requests, replies, count: 0 };
        // The service has sent its credit for all requests when it answers, unless it has closed the connection.
        while deaf.send_requests().await > 0 && deaf.hears_answer().await {}
        deaf
    }

    /// Sends requests as far as there is credit for them. Returns how many.
    async fn send_requests(&mut self) -> u32 {
        let connection = self.client.connection();
        // An answer may come together with the end of the connection.
        let credit = if connection.is_open() { connection.credit(self.requests) } else { 0 };
        for _ in 0..credit {
            self.client.begin_message(self.requests, FORMAT_AMQP, &peek()).await;
            self.count += 1;
        }
        credit
    }

    /// Whether the service answers what comes behind the requests.
    async fn hears_answer(&mut self) -> bool {
        let asked = self.client.begin_to_receive("orders", |_| {});
        loop {
            match self.client.next_event().await {
                Ok(Event::LinkAttached { link, .. }) if link == asked => return true,
                Ok(Event::Closed(_)) | Err(_) => return false,
                Ok(_) => {}
            }
        }
    }
}

/// A service whose queue has a long message.
pub(crate) async fn service_with_long_message() -> Service {
    let service = service().await;
    let mut client = connect(&service, Bottleneck::Credit).await;
    let (sender, _) = client.ask_to_send("orders", |_| {}).await.unwrap();
    let mut message = Vec::new();
    encode::data(&mut message, &[7; LONG]);
    let id = client.begin_message(sender, FORMAT_AMQP, &message).await;
    assert_eq!(client.outcome(id).await, DeliveryState::Accepted);
    client.close().await;
    service
}

/// Bytes of a message of which some replies are more than may wait for a client.
const LONG: usize = 150_000;

#[tokio::test]
async fn requests_wait_while_replies_do_and_none_is_lost() {
    let service = service_with_long_message().await;
    let mut deaf = Deaf::connect(&service).await;
    let (waiting, _) = usage(&service, "amqp-replies").await;
    assert!((1..1_000).contains(&deaf.count), "{} requests", deaf.count);
    assert!(waiting >= (deaf.count * LONG) as u64, "{waiting} bytes for {} requests", deaf.count);
    deaf.client.connection().set_credit(deaf.replies, 10_000);
    deaf.client.received(deaf.replies, deaf.count).await;
    for _ in 0..deaf.count {
        deaf.client.begin_message(deaf.requests, FORMAT_AMQP, &peek()).await;
        deaf.client.received(deaf.replies, 1).await;
    }
    assert_eq!(usage(&service, "amqp-replies").await, (0, 0));
    service.stop().await;
}
