//! A client of queues that keeps to the protocol, waiting for each answer under a deadline.

use std::collections::VecDeque;
use std::future::Future;
use std::time::{Duration, Instant};

use amqp::codec::Symbol;
use amqp::connection::{Config, Event, LinkId, LinkOptions, NewDelivery, SaslClient, SessionId};
use amqp::message::{FORMAT_AMQP, FORMAT_BATCH, MessageView, Properties, encode};
use amqp::performative::{
    Attach, DeliveryState, Error, ReceiverSettleMode, SenderSettleMode, Source, Target,
};
use amqp::{Connection, Value};
use amqp_tokio::{DriveError, Driver};
use hub::namespace::{NamespaceConfig, QueueConfig, SignaturePolicy, TopicConfig};
use hub::service::{Service, ServiceConfig};

/// A service with these queues and topics, where everyone may do everything.
pub(crate) async fn service(queues: Vec<QueueConfig>, topics: Vec<TopicConfig>) -> Service {
    let namespace = NamespaceConfig {
        signatures: SignaturePolicy::AcceptAny,
        queues,
        topics,
        ..NamespaceConfig::with_hubs(Vec::new())
    };
    Service::start(ServiceConfig::loopback(namespace)).await.unwrap()
}

/// What must come comes within this, on however slow a machine.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .unwrap_or_else(|_elapsed| panic!("{what} did not come"))
}

/// A client with one session.
pub(crate) struct Client {
    driver: Driver,
    session: SessionId,
    links: u32,
    /// Messages that have come and that nobody has asked for yet.
    arrived: VecDeque<Received>,
    /// Answers to outcomes that nobody has asked for yet: from one delivery to another.
    answers: Vec<(u32, u32, DeliveryState)>,
}

/// A message that came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) link: LinkId,
    pub(crate) id: u32,
    pub(crate) tag: Vec<u8>,
    pub(crate) settled: bool,
    pub(crate) bytes: Vec<u8>,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: i64,
    pub(crate) condition: Option<String>,
    pub(crate) body: Value,
}

impl Received {
    pub(crate) fn payload(&self) -> Vec<u8> {
        let view = MessageView::parse(&self.bytes).unwrap();
        view.data().unwrap().unwrap().to_vec()
    }

    pub(crate) fn annotation(&self, name: &str) -> Option<Value> {
        let view = MessageView::parse(&self.bytes).unwrap();
        view.message_annotations().unwrap().find(name).unwrap()
    }

    pub(crate) fn application_property(&self, name: &str) -> Option<Value> {
        let view = MessageView::parse(&self.bytes).unwrap();
        view.application_properties().unwrap().find(name).unwrap()
    }

    pub(crate) fn properties(&self) -> Properties {
        let view = MessageView::parse(&self.bytes).unwrap();
        view.properties().unwrap().unwrap()
    }

    pub(crate) fn sequence_number(&self) -> i64 {
        let number = self.annotation("x-opt-sequence-number");
        number.and_then(|number| number.as_integer()).unwrap()
    }

    /// The last field of the header.
    pub(crate) fn delivery_count(&self) -> u32 {
        let header = amqp::message::Sections::new(&self.bytes).next().unwrap().unwrap();
        assert_eq!(header.kind, amqp::message::SectionKind::Header);
        let value = amqp::codec::Reader::new(header.value).value().unwrap();
        match value {
            Value::List(fields) => match fields[4] {
                Value::Uint(count) => count,
                ref other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// The lock token in the order of a UUID.
    pub(crate) fn lock_token(&self) -> Value {
        let mut bytes: [u8; 16] = self.tag[..].try_into().unwrap();
        bytes[..4].reverse();
        bytes[4..6].reverse();
        bytes[6..8].reverse();
        Value::Uuid(bytes)
    }
}

impl Client {
    pub(crate) async fn connect(service: &Service) -> Self {
        Self::connect_to(service.amqp_address().port()).await
    }

    /// Connects to a port of this machine, whoever listens there.
    pub(crate) async fn connect_to(port: u16) -> Self {
        Self::connect_as(port, SaslClient::Anonymous).await
    }

    /// Connects with the name and value of a key.
    pub(crate) async fn connect_with_key(service: &Service, name: &str, value: &str) -> Self {
        let sasl = SaslClient::Plain { username: name.into(), password: value.into() };
        Self::connect_as(service.amqp_address().port(), sasl).await
    }

    async fn connect_as(port: u16, sasl: SaslClient) -> Self {
        let stream = amqp_tokio::connect("127.0.0.1", port, None, Duration::from_secs(10)).await.unwrap();
        let config = Config { container_id: "client".to_owned(), ..Config::default() };
        let connection = Connection::client(config, sasl, Instant::now());
        let mut driver = Driver::new(connection, stream);
        within("the open", async {
            while !matches!(driver.next_event().await.unwrap(), Event::Opened(_)) {}
        })
        .await;
        let session = driver.connection().begin_session().unwrap();
        Self { driver, session, links: 0, arrived: VecDeque::new(), answers: Vec::new() }
    }

    pub(crate) fn connection(&mut self) -> &mut Connection {
        self.driver.connection()
    }

    /// For who looks at everything: the session with all links.
    pub(crate) const fn session(&self) -> SessionId {
        self.session
    }

    /// For who looks at everything: what happens next, or why nothing does any more.
    pub(crate) async fn next_event(&mut self) -> Result<Event, DriveError> {
        self.driver.next_event().await
    }

    /// The next event that `wanted` makes something of. Messages that come before it are kept, other events dropped.
    pub(crate) async fn until<T>(&mut self, what: &str, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
        within(what, async {
            loop {
                match self.next_event().await.unwrap() {
                    Event::Deliveries(deliveries) => self.keep(&deliveries),
                    Event::SettledBySender { first, last, state, .. } => self.keep_answer(first, last, state),
                    event => {
                        if let Some(found) = wanted(event) {
                            return found;
                        }
                    }
                }
            }
        })
        .await
    }

    pub(crate) async fn sender(&mut self, address: &str) -> Result<(LinkId, Attach), Error> {
        let options =
            LinkOptions { target: Target::new(address), source: Source::new("here"), ..self.options() };
        let session = self.session();
        let link = self.connection().attach_sender(session, options).unwrap();
        self.answer_to(link).await
    }

    /// A link that locks what it receives.
    pub(crate) async fn receiver(&mut self, address: &str, credit: u32) -> LinkId {
        let (link, _) = self.ask_to_receive(address, |_| {}).await.unwrap();
        self.connection().set_credit(link, credit);
        link
    }

    /// The same with what `ask` adds to it, and what the service answered.
    pub(crate) async fn ask_to_receive(
        &mut self,
        address: &str,
        ask: impl FnOnce(&mut LinkOptions),
    ) -> Result<(LinkId, Attach), Error> {
        let link = self.begin_to_receive(address, ask);
        self.answer_to(link).await
    }

    /// Asks for a link without waiting for the answer.
    pub(crate) fn begin_to_receive(&mut self, address: &str, ask: impl FnOnce(&mut LinkOptions)) -> LinkId {
        let mut options = LinkOptions {
            source: Source::new(address),
            target: Target::new("here"),
            sender_settle_mode: SenderSettleMode::Unsettled,
            receiver_settle_mode: ReceiverSettleMode::Second,
            ..self.options()
        };
        ask(&mut options);
        let session = self.session();
        self.connection().attach_receiver(session, options).unwrap()
    }

    /// What the service says to a link that was asked for.
    pub(crate) async fn answer_to(&mut self, asked: LinkId) -> Result<(LinkId, Attach), Error> {
        self.until("the answer", |event| match event {
            Event::LinkAttached { link, attach } if link == asked => Some(Ok((link, *attach))),
            Event::LinkDetached { link, error } if link == asked => {
                Some(Err(error.expect("a refusal has its reason")))
            }
            _ => None,
        })
        .await
    }

    pub(crate) async fn detach(&mut self, link: LinkId) {
        self.connection().detach_link(link, None);
        self.until("the detach", |event| match event {
            Event::LinkDetached { link: gone, .. } if gone == link => Some(()),
            _ => None,
        })
        .await;
    }

    /// Sends a message with this payload and nothing else.
    pub(crate) async fn send(&mut self, link: LinkId, payload: &[u8]) -> DeliveryState {
        self.send_message(link, FORMAT_AMQP, &message(payload)).await
    }

    pub(crate) async fn send_batch(&mut self, link: LinkId, messages: &[Vec<u8>]) -> DeliveryState {
        let mut batch = Vec::new();
        for message in messages {
            encode::data(&mut batch, message);
        }
        self.send_message(link, FORMAT_BATCH, &batch).await
    }

    pub(crate) async fn send_message(&mut self, link: LinkId, format: u32, message: &[u8]) -> DeliveryState {
        let id = self.begin_message(link, format, message).await;
        self.until("the outcome", |event| match event {
            Event::Outcome { first, last, state, .. } if first <= id && id <= last => Some(state.unwrap()),
            _ => None,
        })
        .await
    }

    /// Sends a message, and gives the reason for which the service ends the link.
    pub(crate) async fn send_in_vain(&mut self, link: LinkId, message: &[u8]) -> Error {
        self.begin_message(link, FORMAT_AMQP, message).await;
        self.until("the detach", |event| match event {
            Event::LinkDetached { link: gone, error } if gone == link => error,
            _ => None,
        })
        .await
    }

    async fn begin_message(&mut self, link: LinkId, format: u32, message: &[u8]) -> u32 {
        while self.connection().credit(link) == 0 {
            self.until("credit", |event| matches!(event, Event::Credit(_)).then_some(())).await;
        }
        let delivery = NewDelivery { tag: b"tag", format, settled: false };
        let mut sender = self.driver.connection().sender(link).unwrap();
        sender.send(&delivery, &[message]).unwrap()
    }

    /// The next `count` messages of a link, which must have the credit for them.
    pub(crate) async fn receive(&mut self, link: LinkId, count: usize) -> Vec<Received> {
        within("the messages", async {
            while self.waiting(link) < count {
                match self.next_event().await.unwrap() {
                    Event::Deliveries(deliveries) => self.keep(&deliveries),
                    Event::SettledBySender { first, last, state, .. } => self.keep_answer(first, last, state),
                    Event::LinkDetached { link: gone, error } if gone == link => {
                        panic!("it was detached: {error:?}")
                    }
                    _ => {}
                }
            }
        })
        .await;
        let mut taken = Vec::new();
        let arrived = std::mem::take(&mut self.arrived);
        for message in arrived {
            if message.link == link && taken.len() < count {
                taken.push(message);
            } else {
                self.arrived.push_back(message);
            }
        }
        taken
    }

    /// How many messages of a link have come that nobody has asked for yet.
    pub(crate) fn waiting(&self, link: LinkId) -> usize {
        let of_link = |message: &&Received| message.link == link;
        self.arrived.iter().filter(of_link).count()
    }

    /// Gives the outcome of a message, and waits for what the service says to it.
    pub(crate) async fn settle(&mut self, message: &Received, outcome: DeliveryState) -> DeliveryState {
        let session = self.session();
        let id = message.id;
        self.connection().propose_outcome(session, id, id, outcome);
        self.answer_about(id).await
    }

    /// Gives an outcome for a range, without waiting.
    pub(crate) fn propose(&mut self, first: u32, last: u32, outcome: DeliveryState) {
        let session = self.session();
        self.connection().propose_outcome(session, first, last, outcome);
    }

    /// What the service says to the outcome of a delivery.
    pub(crate) async fn answer_about(&mut self, id: u32) -> DeliveryState {
        within("the answer to the outcome", async {
            loop {
                let is_about = |(first, last, _): &(u32, u32, DeliveryState)| (*first..=*last).contains(&id);
                if let Some(at) = self.answers.iter().position(is_about) {
                    let (first, last, state) = self.answers.remove(at);
                    // The answer about the others of a range stays.
                    if first < id {
                        self.answers.push((first, id - 1, state.clone()));
                    }
                    if id < last {
                        self.answers.push((id + 1, last, state.clone()));
                    }
                    return state;
                }
                match self.next_event().await.unwrap() {
                    Event::Deliveries(deliveries) => self.keep(&deliveries),
                    Event::SettledBySender { first, last, state, .. } => self.keep_answer(first, last, state),
                    _ => {}
                }
            }
        })
        .await
    }

    /// Says good-bye and hears it.
    pub(crate) async fn close(mut self) {
        self.connection().close(None);
        self.until("the close", |event| matches!(event, Event::Closed(_)).then_some(())).await;
    }

    pub(crate) async fn drain(&mut self, link: LinkId) {
        self.connection().drain(link);
        self.until("the answer to the drain", |event| matches!(event, Event::Drained(_)).then_some(())).await;
    }

    /// Asks the node of an entity for something, through links of its own.
    pub(crate) async fn request(&mut self, entity: &str, operation: &str, body: &[(&str, Value)]) -> Answer {
        self.request_with(entity, operation, &[], body).await
    }

    /// The same with more application properties.
    pub(crate) async fn request_with(
        &mut self,
        entity: &str,
        operation: &str,
        more: &[(&str, Value)],
        body: &[(&str, Value)],
    ) -> Answer {
        let node = format!("{entity}/$management");
        let operation = format!("com.microsoft:{operation}");
        let mut application_properties = vec![("operation", operation.as_str().into())];
        application_properties.extend_from_slice(more);
        let reply = self.exchange(&node, &application_properties, &map(body)).await;
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
    pub(crate) async fn put_token(&mut self, audience: &str, token: &str) {
        assert_eq!(self.try_token(audience, token).await.0, 202);
    }

    /// Presents a token; gives status and description of the answer.
    pub(crate) async fn try_token(&mut self, audience: &str, token: &str) -> (i64, String) {
        let properties = [
            ("operation", Value::from("put-token")),
            ("type", Value::from("servicebus.windows.net:sastoken")),
            ("name", Value::from(audience)),
        ];
        let reply = self.exchange("$cbs", &properties, &token.into()).await;
        let status = reply.application_property("status-code").unwrap();
        let description = reply.application_property("status-description").unwrap();
        (status.as_integer().unwrap(), description.as_text().unwrap().to_owned())
    }

    /// Sends a request to a node and waits for its reply, through links of its own.
    async fn exchange(
        &mut self,
        node: &str,
        application_properties: &[(&str, Value)],
        body: &Value,
    ) -> Received {
        let (sender, _) = self.sender(node).await.unwrap();
        let (receiver, _) = self.ask_to_receive(node, |_| {}).await.unwrap();
        self.connection().set_credit(receiver, 1);
        let mut message = Vec::new();
        let properties = Properties { message_id: Some(Value::from("request")), ..Properties::default() };
        properties.encode(&mut message);
        encode::application_properties(&mut message, application_properties);
        encode::value(&mut message, body);
        let outcome = self.send_message(sender, FORMAT_AMQP, &message).await;
        assert_eq!(outcome, DeliveryState::Accepted);
        let reply = self.receive(receiver, 1).await.remove(0);
        assert!(reply.settled, "replies need no outcome");
        assert_eq!(reply.properties().correlation_id, Some("request".into()));
        self.detach(sender).await;
        self.detach(receiver).await;
        reply
    }

    fn keep(&mut self, deliveries: &amqp::connection::Deliveries) {
        let messages = deliveries.items().iter().map(|delivery| Received {
            link: delivery.link,
            id: delivery.id,
            tag: deliveries.tag(delivery).to_vec(),
            settled: delivery.settled,
            bytes: deliveries.message(delivery).to_vec(),
        });
        self.arrived.extend(messages);
    }

    fn keep_answer(&mut self, first: u32, last: u32, state: Option<DeliveryState>) {
        let state = state.expect("an answer has a state");
        self.answers.push((first, last, state));
    }

    fn options(&mut self) -> LinkOptions {
        self.links += 1;
        LinkOptions { name: format!("link-{}", self.links), ..LinkOptions::default() }
    }
}

/// A message with this payload and nothing else.
pub(crate) fn message(payload: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    encode::data(&mut message, payload);
    message
}

/// The same with properties.
pub(crate) fn message_with(properties: &Properties, payload: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    properties.encode(&mut message);
    encode::data(&mut message, payload);
    message
}

/// The same of a session.
pub(crate) fn message_of_session(session: &str, payload: &[u8]) -> Vec<u8> {
    let properties = Properties { group_id: Some(session.to_owned()), ..Properties::default() };
    message_with(&properties, payload)
}

pub(crate) fn map(entries: &[(&str, Value)]) -> Value {
    let entries = entries.iter();
    Value::Map(entries.map(|(key, value)| (Value::from(*key), value.clone())).collect())
}

/// A filter that asks for a session.
pub(crate) fn session_filter(value: Value) -> impl FnOnce(&mut LinkOptions) {
    move |options| {
        let name = Symbol::from_static("com.microsoft:session-filter");
        options.source.filter.push((name, value));
    }
}

/// The condition of a refusal.
pub(crate) fn condition(state: &DeliveryState) -> &str {
    match state {
        DeliveryState::Rejected(Some(error)) => error.condition.as_str(),
        other => panic!("{other:?} is no refusal with an error"),
    }
}
