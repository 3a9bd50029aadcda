//! The client of these tests: one of event hubs, with the development key.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, SystemTime};

use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME, SharedAccessKey};
use amqp::Value;
use amqp::connection::{ConnectionError, Event, LinkId, NewDelivery, SaslClient};
use amqp::message::{FORMAT_AMQP, encode};
use amqp::performative::{DeliveryState, Error};
use amqp_tokio::Stream;
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Service, ServiceConfig};
use test_peer::Received;
pub(crate) use test_peer::{RawClient, frame, payload, within};

/// A service with the hub `events` of two partitions.
pub(crate) async fn service() -> Service {
    service_of(HubConfig::new("events", 2)).await
}

pub(crate) async fn service_of(hub: HubConfig) -> Service {
    service_with(vec![hub]).await
}

pub(crate) async fn service_with(hubs: Vec<HubConfig>) -> Service {
    Service::start(ServiceConfig::loopback(NamespaceConfig::with_hubs(hubs))).await.unwrap()
}

/// A client of hubs.
pub(crate) struct Client(test_peer::Client);

impl Client {
    /// Connects and presents the emulator's key for the whole namespace.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let mut client = Self::connect_unauthorized(address).await;
        assert_eq!(client.put_token(&token(DEVELOPMENT_KEY_VALUE, "sb://localhost/", 3600)).await, 202);
        client
    }

    /// Connects and presents nothing.
    pub(crate) async fn connect_unauthorized(address: SocketAddr) -> Self {
        Self::connect_as(address, SaslClient::Anonymous).await.unwrap()
    }

    pub(crate) async fn connect_as(address: SocketAddr, sasl: SaslClient) -> Result<Self, ConnectionError> {
        Self::open(connected(address).await, sasl).await
    }

    /// Opens a connection over a stream that leads to the service.
    pub(crate) async fn open(stream: Stream, sasl: SaslClient) -> Result<Self, ConnectionError> {
        Self::open_as_product(None, stream, sasl).await
    }

    /// The same, as a client of this product.
    pub(crate) async fn open_as_product(
        product: Option<&str>,
        stream: Stream,
        sasl: SaslClient,
    ) -> Result<Self, ConnectionError> {
        test_peer::Client::open(stream, sasl, product).await.map(Self)
    }

    /// Presents a token for the namespace, and gives the status of the answer.
    pub(crate) async fn put_token(&mut self, token: &str) -> i64 {
        self.put_token_for("sb://localhost/", token).await
    }

    /// Presents a token for `audience`, and gives the status of the answer.
    pub(crate) async fn put_token_for(&mut self, audience: &str, token: &str) -> i64 {
        self.present_token(audience, token).await.0
    }

    /// Status and description of the answer to a request.
    pub(crate) async fn request(
        &mut self,
        node: &str,
        properties: &[(&str, Value)],
        body: &Value,
    ) -> (i64, String) {
        let reply = self.exchange(node, properties, body).await;
        test_peer::status_and_description(&reply)
    }

    pub(crate) async fn attach_sender(&mut self, address: &str) -> Result<LinkId, Error> {
        Ok(self.ask_to_send(address, |_| {}).await?.0)
    }

    /// A link from `address`, which begins at the oldest event, with that much credit.
    pub(crate) async fn attach_receiver(&mut self, address: &str, credit: u32) -> Result<LinkId, Error> {
        let (link, _) = self.ask_to_receive(address, |_| {}).await?;
        if credit > 0 {
            self.connection().set_credit(link, credit);
        }
        Ok(link)
    }

    /// Sends one event and waits for its outcome.
    pub(crate) async fn send(&mut self, link: LinkId, body: &[u8]) -> DeliveryState {
        let mut message = Vec::with_capacity(body.len() + 8);
        encode::data(&mut message, body);
        self.send_message(link, &message).await
    }

    pub(crate) async fn send_message(&mut self, link: LinkId, message: &[u8]) -> DeliveryState {
        let id = self.begin_message(link, FORMAT_AMQP, message).await;
        self.outcome(id).await
    }

    /// Sends one event and waits for its outcome, or for the end of the link.
    pub(crate) async fn try_send(&mut self, link: LinkId, body: &[u8]) -> Option<DeliveryState> {
        let mut message = Vec::new();
        encode::data(&mut message, body);
        let delivery = NewDelivery { tag: b"tag", format: FORMAT_AMQP, settled: false };
        let sent = self.connection().sender(link)?.send(&delivery, &[&message]);
        let id = sent.ok()?;
        self.until("the outcome", |event| match event {
            Event::Outcome { first, last, state, .. } if first <= id && id <= last => Some(state),
            Event::LinkDetached { link: gone, .. } if gone == link => Some(None),
            _ => None,
        })
        .await
    }

    /// The next `count` messages of a link, which must have the credit for them.
    pub(crate) async fn receive(&mut self, link: LinkId, count: usize) -> Vec<Vec<u8>> {
        let messages = self.received(link, count).await;
        messages.into_iter().map(|Received { bytes, .. }| bytes).collect()
    }

    /// Sends an event through links of its own and reads it back, as proof that others are served.
    pub(crate) async fn prove_service(&mut self, body: &[u8]) {
        let sender = self.attach_sender("events/Partitions/1").await.unwrap();
        assert_eq!(self.send(sender, body).await, DeliveryState::Accepted);
        let receiver =
            self.attach_receiver("events/ConsumerGroups/$Default/Partitions/1", 100_000).await.unwrap();
        within("the event", async {
            loop {
                let event = self.receive(receiver, 1).await.remove(0);
                if payload(&event) == body {
                    return;
                }
            }
        })
        .await;
        self.detach(sender).await;
        self.detach(receiver).await;
    }
}

impl Deref for Client {
    type Target = test_peer::Client;

    fn deref(&self) -> &test_peer::Client {
        &self.0
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut test_peer::Client {
        &mut self.0
    }
}

/// A socket to the service.
pub(crate) async fn connected(address: SocketAddr) -> Stream {
    test_peer::Client::stream(address).await
}

/// A token for `resource`, signed with this value of the root key.
pub(crate) fn token(value: &str, resource: &str, lifetime_s: u64) -> String {
    let expiry = SystemTime::now() + Duration::from_secs(lifetime_s);
    SharedAccessKey::new(ROOT_KEY_NAME, value).sign(resource, expiry)
}
