//! Two clients for these tests: one that keeps to the protocol, waiting for each answer under a deadline, and one that
//! writes whatever bytes it is told to.

use std::future::Future;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME, SharedAccessKey};
use amqp::codec::{Reader, Symbol};
use amqp::connection::{
    Config, ConnectionError, Deliveries, Event, LinkId, LinkOptions, NewDelivery, SaslClient, SessionId,
};
use amqp::message::{FORMAT_AMQP, MessageView, Properties, encode};
use amqp::performative::{Attach, DeliveryState, Error, Source, Target};
use amqp::{Connection, Value};
use amqp_tokio::{Driver, Stream};
use bytes::BytesMut;
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Service, ServiceConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

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

/// What must come comes within this, on however slow a machine.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .unwrap_or_else(|_elapsed| panic!("{what} did not come"))
}

/// A client that keeps to the protocol, with one session.
pub(crate) struct Client {
    driver: Driver,
    pub(crate) session: SessionId,
    links: u32,
    /// Messages that have come and that nobody has asked for yet.
    arrived: Vec<(LinkId, Vec<u8>)>,
}

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
        let property = |product| (Symbol::from_static("product"), Value::from(product));
        let config = Config {
            links_max: 100_000,
            properties: product.map(property).into_iter().collect(),
            ..client_config()
        };
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
        let mut client = Self { driver, session, links: 0, arrived: Vec::new() };
        client.session_began().await.unwrap();
        Ok(client)
    }

    /// Waits for the answer to a begin, which tells how many links the session may have; or gives the error with
    /// which the server closes the connection instead.
    pub(crate) async fn session_began(&mut self) -> Result<(), Error> {
        self.until("the session", |event| match event {
            Event::SessionBegan(_) => Some(Ok(())),
            Event::Closed(Some(ConnectionError::ClosedByPeer(error))) => Some(Err(error)),
            _ => None,
        })
        .await
    }

    pub(crate) fn connection(&mut self) -> &mut Connection {
        self.driver.connection()
    }

    /// The next event that `wanted` makes something of. Messages that come before it are kept, other events dropped.
    pub(crate) async fn until<T>(&mut self, what: &str, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
        within(what, async {
            loop {
                let event = self.driver.next_event().await.unwrap_or_else(|error| panic!("{what}: {error}"));
                if let Event::Deliveries(deliveries) = event {
                    self.keep(deliveries);
                } else if let Some(found) = wanted(event) {
                    return found;
                }
            }
        })
        .await
    }

    /// Presents a token for the namespace, and gives the status of the answer.
    pub(crate) async fn put_token(&mut self, token: &str) -> i64 {
        self.put_token_for("sb://localhost/", token).await
    }

    /// Presents a token for `audience`, and gives the status of the answer.
    pub(crate) async fn put_token_for(&mut self, audience: &str, token: &str) -> i64 {
        let properties = [
            ("operation", Value::from("put-token")),
            ("type", Value::from("servicebus.windows.net:sastoken")),
            ("name", Value::from(audience)),
        ];
        self.request("$cbs", &properties, &Value::from(token)).await.0
    }

    /// Status and description of the answer to a request.
    pub(crate) async fn request(
        &mut self,
        node: &str,
        properties: &[(&str, Value)],
        body: &Value,
    ) -> (i64, String) {
        let sender = self.attach_sender(node).await.unwrap();
        let receiver = self.attach_receiver(node, 1).await.unwrap();
        let mut message = Vec::new();
        Properties { message_id: Some(Value::from("request")), ..Properties::default() }.encode(&mut message);
        encode::application_properties(&mut message, properties);
        encode::value(&mut message, body);
        assert_eq!(self.send_message(sender, &message).await, DeliveryState::Accepted);
        let answer = self.receive(receiver, 1).await.remove(0);
        let view = MessageView::parse(&answer).unwrap();
        let answered = view.application_properties().unwrap();
        let status = answered.find("status-code").unwrap().and_then(|status| status.as_integer()).unwrap();
        let description = answered.find("status-description").unwrap().unwrap();
        for link in [sender, receiver] {
            self.connection().detach_link(link, None);
            self.until("the detach", |event| matches!(event, Event::LinkDetached { .. }).then_some(())).await;
        }
        (status, description.as_text().unwrap().to_owned())
    }

    pub(crate) async fn attach_sender(&mut self, address: &str) -> Result<LinkId, Error> {
        let options = LinkOptions { target: Target::new(address), ..self.options() };
        let link = self.driver.connection().attach_sender(self.session, options).unwrap();
        self.attached(link).await
    }

    /// A link from `address`, which begins at the oldest event, with that much credit.
    pub(crate) async fn attach_receiver(&mut self, address: &str, credit: u32) -> Result<LinkId, Error> {
        let options =
            LinkOptions { source: Source::new(address), target: Target::new("here"), ..self.options() };
        let link = self.driver.connection().attach_receiver(self.session, options).unwrap();
        let link = self.attached(link).await?;
        if credit > 0 {
            self.connection().set_credit(link, credit);
        }
        Ok(link)
    }

    /// A link from `address` with what `ask` adds to it, and what the service answered.
    pub(crate) async fn ask_to_receive(
        &mut self,
        address: &str,
        ask: impl FnOnce(&mut LinkOptions),
    ) -> Result<(LinkId, Attach), Error> {
        let mut options =
            LinkOptions { source: Source::new(address), target: Target::new("here"), ..self.options() };
        ask(&mut options);
        let session = self.session;
        let link = self.connection().attach_receiver(session, options).unwrap();
        self.answer_to(link).await
    }

    /// A link to `address` with what `ask` adds to it, and what the service answered.
    pub(crate) async fn ask_to_send(
        &mut self,
        address: &str,
        ask: impl FnOnce(&mut LinkOptions),
    ) -> Result<(LinkId, Attach), Error> {
        let mut options = LinkOptions { target: Target::new(address), ..self.options() };
        ask(&mut options);
        let session = self.session;
        let link = self.connection().attach_sender(session, options).unwrap();
        self.answer_to(link).await
    }

    /// Waits for the service to end a link, and gives its reason.
    pub(crate) async fn detached(&mut self, link: LinkId) -> Error {
        self.until("the detach", |event| match event {
            Event::LinkDetached { link: gone, error } if gone == link => error,
            _ => None,
        })
        .await
    }

    /// Sends one event and waits for its outcome.
    pub(crate) async fn send(&mut self, link: LinkId, body: &[u8]) -> DeliveryState {
        let mut message = Vec::with_capacity(body.len() + 8);
        encode::data(&mut message, body);
        self.send_message(link, &message).await
    }

    pub(crate) async fn send_message(&mut self, link: LinkId, message: &[u8]) -> DeliveryState {
        while self.connection().credit(link) == 0 {
            self.until("credit", |event| matches!(event, Event::Credit(_)).then_some(())).await;
        }
        let delivery = NewDelivery { tag: b"tag", format: FORMAT_AMQP, settled: false };
        let id = self.connection().sender(link).unwrap().send(&delivery, &[message]).unwrap();
        self.until("the outcome", |event| match event {
            Event::Outcome { first, last, state, .. } if first <= id && id <= last => Some(state.unwrap()),
            _ => None,
        })
        .await
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
        within("the messages", async {
            while self.arrived(link) < count {
                match self.driver.next_event().await.unwrap() {
                    Event::Deliveries(deliveries) => self.keep(deliveries),
                    Event::LinkDetached { link: gone, error } if gone == link => {
                        panic!("it was detached: {error:?}")
                    }
                    _ => {}
                }
            }
        })
        .await;
        let mut taken = 0;
        let is_wanted = |(of, _): &mut (LinkId, Vec<u8>)| {
            taken += usize::from(*of == link);
            *of == link && taken <= count
        };
        self.arrived.extract_if(.., is_wanted).map(|(_, message)| message).collect()
    }

    /// How many messages of a link have come that nobody has asked for yet.
    pub(crate) fn arrived(&self, link: LinkId) -> usize {
        self.arrived.iter().filter(|(of, _)| *of == link).count()
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
        for link in [sender, receiver] {
            self.connection().detach_link(link, None);
            self.until("the detach", |event| matches!(event, Event::LinkDetached { .. }).then_some(())).await;
        }
    }

    fn keep(&mut self, deliveries: Deliveries) {
        let messages =
            deliveries.items().iter().map(|delivery| (delivery.link, deliveries.message(delivery).to_vec()));
        self.arrived.extend(messages);
        self.driver.connection().recycle(deliveries);
    }

    fn options(&mut self) -> LinkOptions {
        self.links += 1;
        LinkOptions { name: format!("link-{}", self.links), ..LinkOptions::default() }
    }

    async fn attached(&mut self, asked: LinkId) -> Result<LinkId, Error> {
        self.answer_to(asked).await.map(|(link, _)| link)
    }

    async fn answer_to(&mut self, asked: LinkId) -> Result<(LinkId, Attach), Error> {
        self.until("the attach", |event| match event {
            Event::LinkAttached { link, attach } if link == asked => Some(Ok((link, *attach))),
            Event::LinkDetached { link, error } if link == asked => Some(Err(error.unwrap())),
            _ => None,
        })
        .await
    }
}

/// A socket to the service.
pub(crate) async fn connected(address: SocketAddr) -> Stream {
    amqp_tokio::connect("127.0.0.1", address.port(), None, Duration::from_secs(10)).await.unwrap()
}

/// A client whose socket is in the test's own hands: it reads when told to and writes whatever it is told to.
pub(crate) struct RawClient {
    pub(crate) socket: TcpStream,
    pub(crate) engine: Connection,
    input: BytesMut,
}

impl RawClient {
    /// Sends header and open, without SASL, and reads nothing yet.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::connect_as(address, SaslClient::None).await
    }

    /// What gives the right to do everything.
    pub(crate) fn key() -> SaslClient {
        SaslClient::Plain { username: ROOT_KEY_NAME.into(), password: DEVELOPMENT_KEY_VALUE.into() }
    }

    /// Opens a connection with the right to do everything.
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let mut client = Self::connect_as(address, Self::key()).await;
        client.until("the open", |event| matches!(event, Event::Opened(_)).then_some(())).await;
        client
    }

    pub(crate) async fn connect_as(address: SocketAddr, sasl: SaslClient) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        let engine = Connection::client(client_config(), sasl, Instant::now());
        let mut client = Self { socket, engine, input: BytesMut::new() };
        client.flush().await;
        client
    }

    /// Writes what the engine has to say.
    pub(crate) async fn flush(&mut self) {
        let output = self.take_output();
        // The server may have closed the socket before it has taken all of it.
        let _ = self.socket.write_all(&output).await;
    }

    /// What the engine has to say, unsent.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        let output = self.engine.poll_output(Instant::now()).to_vec();
        self.engine.consume_output(output.len());
        output
    }

    /// The next event that `wanted` makes something of; the others are dropped.
    pub(crate) async fn until<T>(&mut self, what: &str, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
        within(what, async {
            loop {
                while let Some(event) = self.engine.poll_event() {
                    if let Some(found) = wanted(event) {
                        return found;
                    }
                }
                self.flush().await;
                let read = self.socket.read_buf(&mut self.input).await.unwrap();
                assert_ne!(read, 0, "{what}: the server hung up");
                let _ = self.engine.handle_input(Instant::now(), &mut self.input);
            }
        })
        .await
    }

    /// Writes `bytes`, which are `what`, and gives the condition with which the server then closes the connection.
    pub(crate) async fn closed_with_after(mut self, what: &str, bytes: &[u8]) -> String {
        let _ = self.socket.write_all(bytes).await;
        let mut answer = Vec::new();
        within(what, self.socket.read_to_end(&mut answer)).await.unwrap();
        let close = answer.windows(3).position(|descriptor| descriptor == [0x00, 0x53, 0x18]);
        let close =
            Reader::new(&answer[close.unwrap_or_else(|| panic!("{what}: no close in {answer:02x?}"))..]);
        let fields = described_list(&close.clone().value().unwrap());
        match &described_list(&fields[0])[0] {
            Value::Symbol(condition) => condition.as_str().to_owned(),
            other => panic!("{what}: {other:?}"),
        }
    }
}

fn described_list(value: &Value) -> Vec<Value> {
    match value {
        Value::Described(described) => match &described.1 {
            Value::List(fields) => fields.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// A frame of the AMQP type on `channel`, with a correct header.
pub(crate) fn frame(channel: u16, body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len() + 8).unwrap();
    [&size.to_be_bytes()[..], &[2, 0], &channel.to_be_bytes(), body].concat()
}

/// A token for `resource`, signed with this value of the root key.
pub(crate) fn token(value: &str, resource: &str, lifetime_s: u64) -> String {
    let expiry = SystemTime::now() + Duration::from_secs(lifetime_s);
    SharedAccessKey::new(ROOT_KEY_NAME, value).sign(resource, expiry)
}

/// The payload of a message with one Data section.
pub(crate) fn payload(message: &[u8]) -> &[u8] {
    MessageView::parse(message).unwrap().data().unwrap().unwrap()
}

fn client_config() -> Config {
    Config { container_id: "test".to_owned(), ..Config::default() }
}
