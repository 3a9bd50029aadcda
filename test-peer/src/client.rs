//! A client that keeps to the protocol, with one session.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use amqp::codec::Symbol;
use amqp::connection::{
    Config, ConnectionError, Deliveries, Event, LinkId, LinkOptions, NewDelivery, SaslClient, SessionId,
};
use amqp::message::{FORMAT_AMQP, Properties, encode};
use amqp::performative::{Attach, DeliveryState, Error, Source, Target};
use amqp::{Connection, TransactionId, Value};
use amqp_tokio::{DriveError, Driver, Stream};

use crate::{Received, within};

/// A client that waits for each answer under a deadline. Messages and answers to outcomes that arrive while it waits for
/// something else are kept until the test asks for them; other events are dropped.
#[derive(Debug)]
pub struct Client {
    driver: Driver,
    session: SessionId,
    links: u32,
    arrived: VecDeque<Received>,
    /// Answers to outcomes, each for the deliveries from one id to another.
    answers: Vec<(u32, u32, DeliveryState)>,
    /// Accepted outcomes of deliveries that the service has not settled yet.
    taken: Vec<(u32, u32, DeliveryState)>,
}

impl Client {
    /// A socket to `address`.
    pub async fn stream(address: SocketAddr) -> Stream {
        amqp_tokio::connect("127.0.0.1", address.port(), None, Duration::from_secs(10)).await.unwrap()
    }

    /// Opens a connection over `stream` and begins a session, as a client of this product if one is given.
    ///
    /// # Errors
    /// The server refuses the connection.
    pub async fn open(
        stream: Stream,
        sasl: SaslClient,
        product: Option<&str>,
    ) -> Result<Self, ConnectionError> {
        let property = |product| (Symbol::from_static("product"), Value::from(product));
        let properties = product.map(property).into_iter().collect();
        Self::open_with(stream, sasl, Config { properties, ..Config::default() }).await
    }

    /// The same with other settings of the engine; the container id and the maximum of links stay.
    ///
    /// # Errors
    /// The server refuses the connection.
    pub async fn open_with(
        stream: Stream,
        sasl: SaslClient,
        config: Config,
    ) -> Result<Self, ConnectionError> {
        let config = Config { container_id: "test".to_owned(), links_max: 100_000, ..config };
        let mut driver = Driver::new(Connection::client(config, sasl, Instant::now()), stream);
        loop {
            match within("the open", driver.next_event()).await {
                Ok(Event::Opened(_)) => break,
                Ok(Event::Closed(error)) => return Err(error.unwrap()),
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let session = driver.connection().begin_session().unwrap();
        let mut client = Self {
            driver,
            session,
            links: 0,
            arrived: VecDeque::new(),
            answers: Vec::new(),
            taken: Vec::new(),
        };
        client.session_began().await.unwrap();
        Ok(client)
    }

    /// Waits for the answer to a begin.
    ///
    /// # Errors
    /// The error with which the server closes the connection instead.
    pub async fn session_began(&mut self) -> Result<(), Error> {
        self.until("the session", |event| match event {
            Event::SessionBegan(_) => Some(Ok(())),
            Event::Closed(Some(ConnectionError::ClosedByPeer(error))) => Some(Err(error)),
            _ => None,
        })
        .await
    }

    /// The engine.
    pub const fn connection(&mut self) -> &mut Connection {
        self.driver.connection()
    }

    /// The session that all links belong to.
    #[must_use]
    pub const fn session(&self) -> SessionId {
        self.session
    }

    /// What happens next; nothing is kept.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn next_event(&mut self) -> Result<Event, DriveError> {
        self.driver.next_event().await
    }

    /// The next event that `wanted` makes something of.
    pub async fn until<T>(&mut self, what: &str, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
        within(what, async {
            loop {
                let event = self.next_event().await.unwrap_or_else(|error| panic!("{what}: {error}"));
                if let Some(found) = self.keep(event).and_then(&mut wanted) {
                    return found;
                }
            }
        })
        .await
    }

    /// Options of a link with a name of its own.
    pub fn link_options(&mut self) -> LinkOptions {
        self.links += 1;
        LinkOptions { name: format!("link-{}", self.links), ..LinkOptions::default() }
    }

    /// Asks for a link to send to `address`, with what `ask` changes, without waiting for the answer.
    pub fn begin_to_send(&mut self, address: &str, ask: impl FnOnce(&mut LinkOptions)) -> LinkId {
        let mut options =
            LinkOptions { source: Source::new("here"), target: Target::new(address), ..self.link_options() };
        ask(&mut options);
        let session = self.session;
        self.connection().attach_sender(session, options).unwrap()
    }

    /// Asks for a link to receive from `address`, with what `ask` changes, without waiting for the answer.
    pub fn begin_to_receive(&mut self, address: &str, ask: impl FnOnce(&mut LinkOptions)) -> LinkId {
        let mut options =
            LinkOptions { source: Source::new(address), target: Target::new("here"), ..self.link_options() };
        ask(&mut options);
        let session = self.session;
        self.connection().attach_receiver(session, options).unwrap()
    }

    /// A link to `address` with what `ask` changes, and what the service answered.
    ///
    /// # Errors
    /// The service's reason for a refusal.
    pub async fn ask_to_send(
        &mut self,
        address: &str,
        ask: impl FnOnce(&mut LinkOptions),
    ) -> Result<(LinkId, Attach), Error> {
        let link = self.begin_to_send(address, ask);
        self.answer_to(link).await
    }

    /// A link from `address` with what `ask` changes, and what the service answered.
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

    /// What the service says to a link that was asked for.
    ///
    /// # Errors
    /// Its reason for a refusal.
    pub async fn answer_to(&mut self, asked: LinkId) -> Result<(LinkId, Attach), Error> {
        self.until("the answer to the attach", |event| match event {
            Event::LinkAttached { link, attach } if link == asked => Some(Ok((link, *attach))),
            Event::LinkDetached { link, error } if link == asked => {
                Some(Err(error.expect("a refusal has its reason")))
            }
            _ => None,
        })
        .await
    }

    /// Detaches a link and waits for the answer.
    pub async fn detach(&mut self, link: LinkId) {
        self.connection().detach_link(link, None);
        self.until("the detach", |event| match event {
            Event::LinkDetached { link: gone, .. } if gone == link => Some(()),
            _ => None,
        })
        .await;
    }

    /// Waits for the service to end a link, and gives its reason.
    pub async fn detached(&mut self, link: LinkId) -> Error {
        self.until("the detach", |event| match event {
            Event::LinkDetached { link: gone, error } if gone == link => error,
            _ => None,
        })
        .await
    }

    /// Sends a message once there is credit, and gives its delivery id.
    pub async fn begin_message(&mut self, link: LinkId, format: u32, message: &[u8]) -> u32 {
        while self.connection().credit(link) == 0 {
            self.until("credit", |event| matches!(event, Event::Credit(_)).then_some(())).await;
        }
        let delivery = NewDelivery { tag: b"tag", format, settled: false };
        self.connection().sender(link).unwrap().send(&delivery, &[message]).unwrap()
    }

    /// The same within a transaction.
    pub async fn begin_message_in(
        &mut self,
        transaction: TransactionId,
        link: LinkId,
        format: u32,
        message: &[u8],
    ) -> u32 {
        while self.connection().credit(link) == 0 {
            self.until("credit", |event| matches!(event, Event::Credit(_)).then_some(())).await;
        }
        let delivery = NewDelivery { tag: b"tag", format, settled: false };
        let mut sender = self.connection().sender(link).unwrap();
        let mut writer = sender.begin_in(&transaction, &delivery).unwrap();
        writer.put(message);
        writer.finish()
    }

    /// The outcome of the delivery with this id.
    pub async fn outcome(&mut self, id: u32) -> DeliveryState {
        self.until("the outcome", |event| match event {
            Event::Outcome { first, last, state, .. } if first <= id && id <= last => Some(state.unwrap()),
            _ => None,
        })
        .await
    }

    /// The next `count` messages of a link, which must have the credit for them.
    pub async fn received(&mut self, link: LinkId, count: usize) -> Vec<Received> {
        within("the messages", async {
            while self.waiting(link) < count {
                let event = self.next_event().await.unwrap();
                if let Some(Event::LinkDetached { link: gone, error }) = self.keep(event)
                    && gone == link
                {
                    panic!("it was detached: {error:?}");
                }
            }
        })
        .await;
        let (mut taken, mut others) = (Vec::new(), VecDeque::new());
        for message in std::mem::take(&mut self.arrived) {
            match message.link == link && taken.len() < count {
                true => taken.push(message),
                false => others.push_back(message),
            }
        }
        self.arrived = others;
        taken
    }

    /// How many messages of a link have arrived that the test has not asked for yet.
    #[must_use]
    pub fn waiting(&self, link: LinkId) -> usize {
        self.arrived.iter().filter(|message| message.link == link).count()
    }

    /// What the service says to the outcome of a delivery.
    pub async fn answer_about(&mut self, id: u32) -> DeliveryState {
        within("the answer to the outcome", async {
            loop {
                if let Some(state) = about(&mut self.answers, id) {
                    return state;
                }
                let event = self.next_event().await.unwrap();
                self.keep(event);
            }
        })
        .await
    }

    /// Returns the answer to a transactional outcome: its acceptance, with the delivery unsettled, or its refusal.
    pub async fn answer_in_transaction(&mut self, id: u32) -> DeliveryState {
        within("the answer to the outcome of a transaction", async {
            loop {
                if let Some(state) = about(&mut self.taken, id).or_else(|| about(&mut self.answers, id)) {
                    return state;
                }
                let event = self.next_event().await.unwrap();
                self.keep(event);
            }
        })
        .await
    }

    /// Whether the settlement of a delivery was received.
    #[must_use]
    pub fn is_settled(&self, id: u32) -> bool {
        self.answers.iter().any(|(first, last, _)| (*first..=*last).contains(&id))
    }

    /// Sends a request to a node and waits for its reply, through links of its own.
    pub async fn exchange(
        &mut self,
        node: &str,
        application_properties: &[(&str, Value)],
        body: &Value,
    ) -> Received {
        self.exchange_in(None, node, application_properties, body).await
    }

    /// The same within a transaction, if one is given.
    pub async fn exchange_in(
        &mut self,
        transaction: Option<TransactionId>,
        node: &str,
        application_properties: &[(&str, Value)],
        body: &Value,
    ) -> Received {
        let (sender, _) = self.ask_to_send(node, |_| {}).await.unwrap();
        let (receiver, _) = self.ask_to_receive(node, |_| {}).await.unwrap();
        self.connection().set_credit(receiver, 1);
        let mut message = Vec::new();
        Properties { message_id: Some(Value::from("request")), ..Properties::default() }.encode(&mut message);
        encode::application_properties(&mut message, application_properties);
        encode::value(&mut message, body);
        let id = match transaction {
            None => self.begin_message(sender, FORMAT_AMQP, &message).await,
            Some(transaction) => self.begin_message_in(transaction, sender, FORMAT_AMQP, &message).await,
        };
        assert_eq!(self.outcome(id).await, DeliveryState::Accepted);
        let reply = self.received(receiver, 1).await.remove(0);
        assert!(reply.settled, "replies need no outcome");
        assert_eq!(reply.properties().correlation_id, Some("request".into()));
        self.detach(sender).await;
        self.detach(receiver).await;
        reply
    }

    /// Presents a token for `audience`; gives status and description of the answer.
    pub async fn present_token(&mut self, audience: &str, token: &str) -> (i64, String) {
        let properties = [
            ("operation", Value::from("put-token")),
            ("type", Value::from("servicebus.windows.net:sastoken")),
            ("name", Value::from(audience)),
        ];
        let reply = self.exchange("$cbs", &properties, &token.into()).await;
        status_and_description(&reply)
    }

    /// Closes the connection and waits for the answer.
    pub async fn close(mut self) {
        self.connection().close(None);
        self.until("the close", |event| matches!(event, Event::Closed(_)).then_some(())).await;
    }

    /// Drains a link and waits for the answer.
    pub async fn drain(&mut self, link: LinkId) {
        self.connection().drain(link);
        self.until("the answer to the drain", |event| matches!(event, Event::Drained(_)).then_some(())).await;
    }

    /// Keeps messages and answers; gives back any other event.
    fn keep(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Deliveries(deliveries) => self.keep_messages(deliveries),
            Event::SettledBySender { first, last, state, .. } => {
                self.answers.push((first, last, state.expect("an answer has a state")));
            }
            Event::TakenBySender { first, last, state, .. } => self.taken.push((first, last, state)),
            event => return Some(event),
        }
        None
    }

    fn keep_messages(&mut self, deliveries: Deliveries) {
        self.arrived.extend(deliveries.items().iter().map(|delivery| Received {
            link: delivery.link,
            id: delivery.id,
            tag: deliveries.tag(delivery).to_vec(),
            settled: delivery.settled,
            bytes: deliveries.message(delivery).to_vec(),
        }));
        self.connection().recycle(deliveries);
    }
}

/// Status and description of a reply, under the names that `$cbs` and Event Hubs give them.
#[must_use]
pub fn status_and_description(reply: &Received) -> (i64, String) {
    let status = reply.application_property("status-code").unwrap();
    let description = reply.application_property("status-description").unwrap();
    (status.as_integer().unwrap(), description.as_text().unwrap().to_owned())
}

/// Removes a delivery from the reported ranges and returns its state.
fn about(said: &mut Vec<(u32, u32, DeliveryState)>, id: u32) -> Option<DeliveryState> {
    let at = said.iter().position(|(first, last, _)| (*first..=*last).contains(&id))?;
    let (first, last, state) = said.remove(at);
    // What is said about the others of a range stays.
    if first < id {
        said.push((first, id - 1, state.clone()));
    }
    if id < last {
        said.push((id + 1, last, state.clone()));
    }
    Some(state)
}
