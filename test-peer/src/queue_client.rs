//! A client of queues, which receives with peek-lock.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};

use amqp::codec::Symbol;
use amqp::connection::{LinkId, LinkOptions, SaslClient};
use amqp::message::{FORMAT_AMQP, FORMAT_BATCH, MessageView, Properties, encode};
use amqp::performative::{Attach, DeliveryState, Error, ReceiverSettleMode, SenderSettleMode, Target};
use amqp::{CoordinatorRequest, TransactionId, Value};

use crate::{Client, Received};

/// A client of queues.
#[derive(Debug)]
pub struct QueueClient(Client);

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// As in HTTP.
    pub status: i64,
    /// The condition of a refusal.
    pub condition: Option<String>,
    /// What was asked for.
    pub body: Value,
}

impl QueueClient {
    /// Connects without a key.
    pub async fn connect(address: SocketAddr) -> Self {
        Self::connect_as(address, SaslClient::Anonymous).await
    }

    /// Connects with the name and value of a key.
    pub async fn connect_with_key(address: SocketAddr, name: &str, value: &str) -> Self {
        let sasl = SaslClient::Plain { username: name.into(), password: value.into() };
        Self::connect_as(address, sasl).await
    }

    async fn connect_as(address: SocketAddr, sasl: SaslClient) -> Self {
        let stream = Client::stream(address).await;
        Self(Client::open(stream, sasl, None).await.unwrap())
    }

    /// A link to send through, and what the service answered.
    ///
    /// # Errors
    /// The service's reason for a refusal.
    pub async fn sender(&mut self, address: &str) -> Result<(LinkId, Attach), Error> {
        self.ask_to_send(address, |_| {}).await
    }

    /// A link that locks what it receives.
    pub async fn receiver(&mut self, address: &str, credit: u32) -> LinkId {
        let (link, _) = self.ask_to_receive(address, |_| {}).await.unwrap();
        self.connection().set_credit(link, credit);
        link
    }

    /// The same with what `ask` adds to it, and what the service answered.
    ///
    /// # Errors
    /// The service's reason for a refusal.
    pub async fn ask_to_receive(
        &mut self,
        address: &str,
        ask: impl FnOnce(&mut LinkOptions),
    ) -> Result<(LinkId, Attach), Error> {
        let link = self.begin_to_receive(address, ask);
        self.answer_to(link).await
    }

    /// Asks for a link that locks what it receives, without waiting for the answer.
    pub fn begin_to_receive(&mut self, address: &str, ask: impl FnOnce(&mut LinkOptions)) -> LinkId {
        self.0.begin_to_receive(address, |options| {
            options.sender_settle_mode = SenderSettleMode::Unsettled;
            options.receiver_settle_mode = ReceiverSettleMode::Second;
            ask(options);
        })
    }

    /// Sends a message with this payload and nothing else.
    pub async fn send(&mut self, link: LinkId, payload: &[u8]) -> DeliveryState {
        self.send_message(link, FORMAT_AMQP, &message(payload)).await
    }

    /// Sends messages, which are encoded, as one batch.
    pub async fn send_batch(&mut self, link: LinkId, messages: &[Vec<u8>]) -> DeliveryState {
        let mut batch = Vec::new();
        for message in messages {
            encode::data(&mut batch, message);
        }
        self.send_message(link, FORMAT_BATCH, &batch).await
    }

    /// Sends an encoded message and waits for its outcome.
    pub async fn send_message(&mut self, link: LinkId, format: u32, message: &[u8]) -> DeliveryState {
        let id = self.begin_message(link, format, message).await;
        self.outcome(id).await
    }

    /// The next `count` messages of a link, which must have the credit for them.
    pub async fn receive(&mut self, link: LinkId, count: usize) -> Vec<Received> {
        self.received(link, count).await
    }

    /// Gives the outcome of a message, and waits for what the service says to it.
    pub async fn settle(&mut self, message: &Received, outcome: DeliveryState) -> DeliveryState {
        let session = self.session();
        let id = message.id;
        self.connection().propose_outcome(session, id, id, outcome);
        self.answer_about(id).await
    }

    /// A link to the coordinator of transactions.
    pub async fn coordinator(&mut self) -> LinkId {
        let (link, _) =
            self.ask_to_send("", |options| options.target = Target::coordinator(Vec::new())).await.unwrap();
        link
    }

    /// Asks the coordinator for something, and waits for the outcome.
    pub async fn coordinate(&mut self, coordinator: LinkId, request: CoordinatorRequest) -> DeliveryState {
        let mut message = Vec::new();
        request.encode(&mut message);
        self.send_message(coordinator, FORMAT_AMQP, &message).await
    }

    /// Opens a transaction.
    pub async fn declare(&mut self, coordinator: LinkId) -> TransactionId {
        match self.coordinate(coordinator, CoordinatorRequest::Declare { is_global: false }).await {
            DeliveryState::Declared(id) => id,
            other => panic!("{other:?} in place of a transaction"),
        }
    }

    /// Commits a transaction.
    pub async fn commit(&mut self, coordinator: LinkId, transaction: TransactionId) -> DeliveryState {
        self.coordinate(coordinator, CoordinatorRequest::Discharge { transaction, fail: false }).await
    }

    /// Rolls a transaction back.
    pub async fn roll_back(&mut self, coordinator: LinkId, transaction: TransactionId) -> DeliveryState {
        self.coordinate(coordinator, CoordinatorRequest::Discharge { transaction, fail: true }).await
    }

    /// Sends an encoded message within a transaction, and waits for its outcome.
    pub async fn send_in(
        &mut self,
        transaction: TransactionId,
        link: LinkId,
        format: u32,
        message: &[u8],
    ) -> DeliveryState {
        let id = self.begin_message_in(transaction, link, format, message).await;
        self.outcome(id).await
    }

    /// Gives the outcome of a message within a transaction, and waits for what the service says to it.
    pub async fn settle_in(
        &mut self,
        transaction: TransactionId,
        message: &Received,
        outcome: DeliveryState,
    ) -> DeliveryState {
        let (session, id) = (self.session(), message.id);
        self.connection().propose_outcome(session, id, id, in_transaction(transaction, outcome));
        self.answer_in_transaction(id).await
    }

    /// Gives an outcome for a range, without waiting.
    pub fn propose(&mut self, first: u32, last: u32, outcome: DeliveryState) {
        let session = self.session();
        self.connection().propose_outcome(session, first, last, outcome);
    }

    /// Asks the node of an entity for something, through links of its own.
    pub async fn request(&mut self, entity: &str, operation: &str, body: &[(&str, Value)]) -> Answer {
        self.request_with(entity, operation, &[], body).await
    }

    /// The same within a transaction.
    pub async fn request_in(
        &mut self,
        transaction: TransactionId,
        entity: &str,
        operation: &str,
        body: &[(&str, Value)],
    ) -> Answer {
        self.ask(Some(transaction), entity, operation, &[], body).await
    }

    /// The same with more application properties.
    pub async fn request_with(
        &mut self,
        entity: &str,
        operation: &str,
        more: &[(&str, Value)],
        body: &[(&str, Value)],
    ) -> Answer {
        self.ask(None, entity, operation, more, body).await
    }

    async fn ask(
        &mut self,
        transaction: Option<TransactionId>,
        entity: &str,
        operation: &str,
        more: &[(&str, Value)],
        body: &[(&str, Value)],
    ) -> Answer {
        let node = format!("{entity}/$management");
        let operation = format!("com.microsoft:{operation}");
        let mut application_properties = vec![("operation", operation.as_str().into())];
        application_properties.extend_from_slice(more);
        let reply = self.exchange_in(transaction, &node, &application_properties, &map(body)).await;
        let text = |name| reply.application_property(name);
        let status = text("statusCode").unwrap();
        assert_eq!(text("status-code"), Some(status.clone()));
        let view = MessageView::parse(&reply.bytes).unwrap();
        Answer {
            status: status.as_integer().unwrap(),
            condition: text("errorCondition").and_then(|condition| condition.as_text().map(str::to_owned)),
            body: view.value().unwrap().unwrap(),
        }
    }

    /// Presents a token for what it was signed for.
    pub async fn put_token(&mut self, audience: &str, token: &str) {
        assert_eq!(self.try_token(audience, token).await.0, 202);
    }

    /// Presents a token; gives status and description of the answer.
    pub async fn try_token(&mut self, audience: &str, token: &str) -> (i64, String) {
        self.present_token(audience, token).await
    }

    /// Closes the connection and waits for the answer.
    pub async fn close(self) {
        self.0.close().await;
    }
}

impl Deref for QueueClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

impl DerefMut for QueueClient {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.0
    }
}

/// An outcome that counts if the transaction is committed.
#[must_use]
pub fn in_transaction(transaction: TransactionId, outcome: DeliveryState) -> DeliveryState {
    DeliveryState::Transactional { transaction, outcome: Some(Box::new(outcome)) }
}

/// A message with this payload and nothing else.
#[must_use]
pub fn message(payload: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    encode::data(&mut message, payload);
    message
}

/// The same with properties.
#[must_use]
pub fn message_with(properties: &Properties, payload: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    properties.encode(&mut message);
    encode::data(&mut message, payload);
    message
}

/// The same of a session.
#[must_use]
pub fn message_of_session(session: &str, payload: &[u8]) -> Vec<u8> {
    let properties = Properties { group_id: Some(session.to_owned()), ..Properties::default() };
    message_with(&properties, payload)
}

/// A map with these entries.
#[must_use]
pub fn map(entries: &[(&str, Value)]) -> Value {
    let entries = entries.iter();
    Value::Map(entries.map(|(key, value)| (Value::from(*key), value.clone())).collect())
}

/// A filter that asks for a session.
pub fn session_filter(value: Value) -> impl FnOnce(&mut LinkOptions) {
    move |options| {
        let name = Symbol::from_static("com.microsoft:session-filter");
        options.source.filter.push((name, value));
    }
}

/// The condition of a refusal.
#[must_use]
pub fn condition(state: &DeliveryState) -> &str {
    match state {
        DeliveryState::Rejected(Some(error)) => error.condition.as_str(),
        other => panic!("{other:?} is no refusal with an error"),
    }
}
