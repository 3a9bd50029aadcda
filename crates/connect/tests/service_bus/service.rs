//! One queue in memory behind the engine's own server side. What the test is told is what was on the wire.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use amqp::Value;
use amqp::connection::{
    Deliveries, Delivery, Event, LinkAcceptance, LinkId, NewDelivery, OutcomeAnswers, SessionId,
};
use amqp::message::{MessageView, encode};
use amqp::performative::{Attach, DeliveryState, Error, Role};
use amqp_tokio::{Driver, Stream};
use connect::retry::RetryPolicy;
use connect::service::ClientOptions;
use tokio::net::TcpListener;
use tokio::sync::{broadcast, mpsc};

use crate::service_bus::queue::{LOCK_LOST, Message, Shared, annotations, header, lock_lost, token, unix_ms};
use test_peer::service::{Link, Links, address_of, next_report, server};

/// The test's end of the service.
pub(crate) struct Service {
    port: u16,
    shared: Arc<Mutex<Shared>>,
    commands: broadcast::Sender<Command>,
    reports: mpsc::UnboundedReceiver<Report>,
}

/// What the service is to do now, on all connections.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Deliver what there is credit for.
    Deliver,
    Detach(String, Option<Error>),
    Disconnect,
    /// Answer the settlements that were held back.
    Answer,
}

/// What happened at the service.
#[derive(Debug)]
pub(crate) enum Report {
    Attached(Box<Attach>),
    Credit(u32),
    DrainRequested,
    /// An outcome that the client gave, and whether it has settled.
    Outcome(u32, u32, DeliveryState),
    /// A request to the management node: the operation, the status if there is one, and the tokens.
    Managed(String, Option<String>, Vec<[u8; 16]>),
    /// A message that was sent: its format and its bytes.
    Sent(u32, Vec<u8>),
    Disconnected,
}

impl Service {
    /// Starts a service of the queue `queue` and the management node of it.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Mutex::new(Shared::new()));
        let (commands, _) = broadcast::channel(64);
        let (reporter, reports) = mpsc::unbounded_channel();
        let (of_all, told) = (Arc::clone(&shared), commands.clone());
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let stream = amqp_tokio::accept(socket).unwrap();
                let conversation = Conversation::new(stream, Arc::clone(&of_all), reporter.clone());
                tokio::spawn(conversation.run(told.subscribe()));
            }
        });
        Self { port, shared, commands, reports }
    }

    /// Options of a client of `entity`, which makes broken connections again after a millisecond.
    pub(crate) fn options(&self, entity: &str) -> ClientOptions {
        let text = format!(
            "Endpoint=sb://localhost:{};SharedAccessKeyName=name;SharedAccessKey=key;UseDevelopmentEmulator=true",
            self.port
        );
        let mut options = ClientOptions::new(text.parse().unwrap(), entity);
        options.reconnect = RetryPolicy { delay: Duration::from_millis(1), ..options.reconnect };
        options
    }

    /// Puts messages into the queue: encoded sections without what the service adds.
    pub(crate) fn put(&self, messages: impl IntoIterator<Item = Vec<u8>>) {
        let mut shared = self.shared();
        shared.messages.extend(messages.into_iter().map(|sections| Message {
            sections,
            lock: None,
            is_settled: false,
            delivery_count: 0,
        }));
        drop(shared);
        let _nobody_listens = self.commands.send(Command::Deliver);
    }

    /// Lets every lock expire.
    pub(crate) fn expire_locks(&self) {
        for message in &mut self.shared().messages {
            if message.lock.take().is_some() {
                message.delivery_count += 1;
            }
        }
    }

    /// How many messages are completed, or dead letters.
    pub(crate) fn settled(&self) -> usize {
        let shared = self.shared();
        shared.messages.iter().filter(|message| message.is_settled).count()
    }

    /// How many messages are under a lock.
    pub(crate) fn locked(&self) -> usize {
        let shared = self.shared();
        shared.messages.iter().filter(|message| message.lock.is_some()).count()
    }

    pub(crate) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }

    pub(crate) fn command(&self, command: Command) {
        self.commands.send(command).unwrap();
    }

    /// The next report that `pick` takes; those before it are dropped.
    pub(crate) async fn report<T>(&mut self, pick: impl FnMut(Report) -> Option<T>) -> T {
        next_report(&mut self.reports, pick).await
    }

    /// The next grant of credit on a link to receive from.
    pub(crate) async fn credit(&mut self) -> u32 {
        self.report(|report| match report {
            Report::Credit(credit) => Some(credit),
            _ => None,
        })
        .await
    }

    /// The next outcome.
    pub(crate) async fn outcome(&mut self) -> (u32, u32, DeliveryState) {
        self.report(|report| match report {
            Report::Outcome(first, last, state) => Some((first, last, state)),
            _ => None,
        })
        .await
    }

    /// The next attach to an address.
    pub(crate) async fn attached(&mut self, address: &str) -> Attach {
        self.report(|report| match report {
            Report::Attached(attach) if address_of(&attach) == address => Some(*attach),
            _ => None,
        })
        .await
    }
}

/// A Data section.
pub(crate) fn data(payload: &[u8]) -> Vec<u8> {
    let mut sections = Vec::new();
    encode::data(&mut sections, payload);
    sections
}

/// So many messages of 12 bytes.
pub(crate) fn messages(count: usize) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(|number| data(format!("{number:012}").as_bytes()))
}

/// One connection, from the service's side.
struct Conversation {
    driver: Driver,
    shared: Arc<Mutex<Shared>>,
    reports: mpsc::UnboundedSender<Report>,
    links: Links,
    /// What was delivered, by delivery id.
    delivered: Vec<(u32, usize, [u8; 16])>,
    unanswered: Vec<(SessionId, u32, u32, DeliveryState)>,
}

impl Conversation {
    fn new(stream: Stream, shared: Arc<Mutex<Shared>>, reports: mpsc::UnboundedSender<Report>) -> Self {
        Self {
            driver: server(stream, OutcomeAnswers::Application),
            shared,
            reports,
            links: Links::default(),
            delivered: Vec::new(),
            unanswered: Vec::new(),
        }
    }

    async fn run(mut self, mut commands: broadcast::Receiver<Command>) {
        loop {
            tokio::select! {
                event = self.driver.next_event() => match event {
                    Ok(Event::Closed(_)) | Err(_) => break,
                    Ok(event) => self.take_event(event),
                },
                command = commands.recv() => match command {
                    Ok(Command::Disconnect) | Err(_) => break,
                    Ok(command) => self.obey(command),
                },
            }
        }
        self.report(Report::Disconnected);
    }

    fn report(&self, report: Report) {
        // A test that has seen enough no longer listens.
        let _ = self.reports.send(report);
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Deliver => self.deliver(),
            Command::Detach(address, error) => {
                if let Some(link) = self.links.find(|link| link.address == address) {
                    self.driver.connection().detach_link(link, error);
                }
            }
            Command::Answer => {
                for (session, first, last, state) in std::mem::take(&mut self.unanswered) {
                    self.settle(session, first, last, &state);
                }
            }
            Command::Disconnect => unreachable!("ends the conversation"),
        }
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::LinkRequested { link, attach, .. } => self.take_request(link, *attach),
            Event::Credit(link) if self.links.address(link) == QUEUE => {
                let credit = self.driver.connection().credit(link);
                self.report(Report::Credit(credit));
                self.deliver();
            }
            Event::DrainRequested(link) => {
                self.report(Report::DrainRequested);
                self.deliver();
                if let Some(mut sender) = self.driver.connection().sender(link) {
                    sender.drained();
                }
            }
            Event::Deliveries(deliveries) => {
                for delivery in deliveries.items() {
                    self.take_delivery(&deliveries, delivery);
                }
            }
            Event::OutcomeProposed { session, first, last, state, .. } => {
                self.report(Report::Outcome(first, last, state.clone()));
                let answers = self.shared.lock().unwrap().answers;
                match answers {
                    true => self.settle(session, first, last, &state),
                    false => self.unanswered.push((session, first, last, state)),
                }
            }
            Event::LinkDetached { link, .. } => self.links.remove(link),
            _ => {}
        }
    }

    fn take_request(&mut self, link: LinkId, attach: Attach) {
        let address = address_of(&attach).to_owned();
        let shared = self.shared.lock().unwrap();
        let refusal = shared.refusals.iter().find(|(of, _)| *of == address);
        let engine = self.driver.connection();
        if let Some((_, error)) = refusal {
            engine.refuse_link(link, error.clone());
        } else {
            let acceptance = LinkAcceptance { max_message_size: Some(262_144), ..LinkAcceptance::default() };
            engine.accept_link(link, acceptance);
            // The roles are the client's.
            if attach.role == Role::Sender {
                engine.set_credit(link, shared.credit);
            }
            self.links.add(link, &attach);
        }
        drop(shared);
        self.report(Report::Attached(Box::new(attach)));
    }

    /// Delivers what is neither locked nor settled, as far as there is credit.
    fn deliver(&mut self) {
        let is_receiver = |link: &Link| link.role == Role::Receiver && link.address == QUEUE;
        let Some(link) = self.links.find(is_receiver) else {
            return;
        };
        let mut shared = self.shared.lock().unwrap();
        let Shared { messages, locks, lock_duration, .. } = &mut *shared;
        for (number, message) in messages.iter_mut().enumerate() {
            if message.lock.is_some() || message.is_settled {
                continue;
            }
            let Some(mut sender) = self.driver.connection().sender(link).filter(|sender| sender.credit() > 0)
            else {
                break;
            };
            *locks += 1;
            let token = token(*locks);
            let mut bytes = header(message.delivery_count);
            encode::message_annotations(&mut bytes, &annotations(number as i64, *lock_duration));
            bytes.extend_from_slice(&message.sections);
            let delivery = NewDelivery { tag: &token, format: 0, settled: false };
            let id = sender.send(&delivery, &[&bytes]).unwrap();
            message.lock = Some(token);
            self.delivered.push((id, number, token));
        }
    }

    /// Settles one by one, and answers what has become of each.
    fn settle(&mut self, session: SessionId, first: u32, last: u32, state: &DeliveryState) {
        for id in first..=last {
            let found = self.delivered.iter().position(|&(of, ..)| of == id);
            let (_, number, token) = self.delivered.swap_remove(found.expect("a delivery of ours"));
            let answer = match self.shared.lock().unwrap().settle(number, token, state) {
                true => match state {
                    DeliveryState::Rejected(_) => DeliveryState::Rejected(None),
                    state => state.clone(),
                },
                false => DeliveryState::Rejected(Some(lock_lost())),
            };
            self.driver.connection().answer_outcome(session, id, id, answer);
        }
    }

    fn take_delivery(&mut self, deliveries: &Deliveries, delivery: &Delivery) {
        let address = self.links.address(delivery.link);
        let message = deliveries.message(delivery);
        if address == "$cbs" || address.ends_with("$management") {
            return self.answer(&address, message);
        }
        self.report(Report::Sent(delivery.format, message.to_vec()));
        let mut shared = self.shared.lock().unwrap();
        let outcome = match shared.outcomes.is_empty() {
            true => Some(DeliveryState::Accepted),
            false => shared.outcomes.remove(0),
        };
        drop(shared);
        if let Some(outcome) = outcome {
            let engine = self.driver.connection();
            let session = engine.session_of(delivery.link).expect("an attached link");
            engine.settle(session, delivery.id, delivery.id, outcome);
        }
    }

    fn answer(&mut self, node: &str, request: &[u8]) {
        let view = MessageView::parse(request).unwrap();
        let (status, body) = if node == "$cbs" { (202, Value::Null) } else { self.manage(&view) };
        let mut told = vec![("statusCode", Value::Int(status))];
        if status == 410 {
            told.push(("errorCondition", Value::from(LOCK_LOST)));
        }
        self.links.reply(&mut self.driver, &view, &told, &body);
    }

    fn manage(&mut self, view: &MessageView<'_>) -> (i32, Value) {
        let operation = view.application_properties().unwrap().find("operation");
        let operation = operation.unwrap().unwrap().as_text().unwrap().to_owned();
        let body = view.value().unwrap().unwrap();
        let Some(Value::Array(uuids)) = body.get("lock-tokens") else {
            panic!("tokens are an array: {body:?}")
        };
        let uuids: Vec<[u8; 16]> = uuids
            .iter()
            .map(|uuid| match uuid {
                Value::Uuid(uuid) => *uuid,
                other => panic!("a token is a uuid, not {other:?}"),
            })
            .collect();
        let status = body.get("disposition-status").and_then(Value::as_text);
        let status = status.map(str::to_owned);
        self.report(Report::Managed(operation.clone(), status.clone(), uuids.clone()));
        let mut shared = self.shared.lock().unwrap();
        let locked: Vec<_> = uuids.iter().map(|uuid| shared.number_of(uuid)).collect();
        if locked.contains(&None) {
            return (410, Value::Null);
        }
        let mut body = Vec::new();
        for (number, token) in locked.into_iter().flatten() {
            match status.as_deref() {
                None => body.push(Value::Timestamp(unix_ms(shared.lock_duration))),
                Some("completed") => {
                    assert!(shared.settle(number, token, &DeliveryState::Accepted));
                }
                Some("abandoned") => {
                    assert!(shared.settle(number, token, &DeliveryState::Released));
                }
                Some(other) => panic!("nobody asked for {other}"),
            }
        }
        (200, Value::Map(vec![(Value::from("expirations"), Value::Array(body))]))
    }
}

const QUEUE: &str = "queue";
