//! A service that does what a test tells it to and tells the test what it was sent. It is made of the engine's own server
//! side, so whatever the engine enforces (credit, windows, framing) is enforced here.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use amqp::connection::{Deliveries, Delivery, Event, LinkAcceptance, LinkId, NewDelivery, OutcomeAnswers};
use amqp::message::{MessageView, encode};
use amqp::performative::{Attach, DeliveryState, Error, Role};
use amqp::{Symbol, Value};
use amqp_tokio::{Driver, Stream};
use connect::event_hubs::EventHubsOptions;
use connect::retry::RetryPolicy;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use test_peer::PATIENCE;
use test_peer::service::{Links, address_of, next_report, server};

/// The test's end of the service.
pub(crate) struct Service {
    port: u16,
    script: Arc<Mutex<Script>>,
    commands: mpsc::UnboundedSender<Command>,
    reports: mpsc::UnboundedReceiver<Report>,
}

/// How the service behaves.
pub(crate) struct Script {
    pub(crate) partitions: u32,
    pub(crate) token_status: i32,
    pub(crate) management_status: i32,
    /// Refuses links to these addresses.
    pub(crate) refused: HashMap<String, Error>,
    /// Credit that links to send to the service get at once.
    pub(crate) credit: u32,
    pub(crate) max_message_size: u64,
    /// Outcomes for transfers to come, one each; without one they are accepted.
    pub(crate) outcomes: VecDeque<Option<DeliveryState>>,
    /// Whether delivered events await their outcome.
    pub(crate) unsettled: bool,
}

/// What the service is to do now.
pub(crate) enum Command {
    /// Deliver messages on the link to this address, as far as there is credit.
    Deliver(String, Vec<Vec<u8>>),
    Detach(String, Option<Error>),
    Grant(String, u32),
    /// Give the outcome of transfers that were held back.
    Settle {
        first: u32,
        last: u32,
        outcome: DeliveryState,
    },
    /// Neither read nor write until told to resume.
    Pause,
    Resume,
    /// Drop the socket.
    Disconnect,
}

/// What happened at the service.
#[derive(Debug)]
pub(crate) enum Report {
    Opened {
        product: Option<String>,
    },
    TokenPut {
        audience: String,
        token: String,
    },
    Attached(Box<Attach>),
    /// A client granted credit.
    Credit {
        address: String,
        credit: u32,
    },
    Transfer {
        address: String,
        id: u32,
        format: u32,
        message: Vec<u8>,
    },
    Outcome {
        first: u32,
        last: u32,
    },
    Detached {
        address: String,
    },
    Disconnected,
}

impl Service {
    /// Starts a service of a hub called `hub`.
    pub(crate) async fn start(partitions: u32) -> Self {
        Self::start_with_tls(partitions, None).await
    }

    pub(crate) async fn start_with_tls(partitions: u32, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = Arc::new(Mutex::new(Script {
            partitions,
            token_status: 202,
            management_status: 200,
            refused: HashMap::new(),
            credit: 100,
            max_message_size: 1_048_576,
            outcomes: VecDeque::new(),
            unsettled: false,
        }));
        let (commands, command_receiver) = mpsc::unbounded_channel();
        let (report_sender, reports) = mpsc::unbounded_channel();
        tokio::spawn(serve(listener, tls, Arc::clone(&script), command_receiver, report_sender));
        Self { port, script, commands, reports }
    }

    /// Options of a client of this service, which makes broken connections again after a millisecond.
    pub(crate) fn options(&self) -> EventHubsOptions {
        options(self.port, true)
    }

    pub(crate) fn tls_options(&self) -> EventHubsOptions {
        options(self.port, false)
    }

    pub(crate) fn script(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().unwrap());
    }

    pub(crate) fn command(&self, command: Command) {
        self.commands.send(command).unwrap();
    }

    /// The next report that `pick` takes; those before it are dropped.
    pub(crate) async fn report<T>(&mut self, pick: impl FnMut(Report) -> Option<T>) -> T {
        next_report(&mut self.reports, pick).await
    }

    /// The next attach to an address.
    pub(crate) async fn attached(&mut self, address: &str) -> Attach {
        self.report(|report| match report {
            Report::Attached(attach) if address_of(&attach) == address => Some(*attach),
            _ => None,
        })
        .await
    }

    /// The next transfer: its id and its message.
    pub(crate) async fn batch(&mut self) -> (u32, Vec<u8>) {
        self.report(|report| match report {
            Report::Transfer { id, message, .. } => Some((id, message)),
            _ => None,
        })
        .await
    }

    /// The next transfer: its address, its format and its message.
    pub(crate) async fn transfer(&mut self) -> (String, u32, Vec<u8>) {
        self.report(|report| match report {
            Report::Transfer { address, format, message, .. } => Some((address, format, message)),
            _ => None,
        })
        .await
    }

    /// The next grant of credit for an address.
    pub(crate) async fn credit(&mut self, address: &str) -> u32 {
        self.report(|report| match report {
            Report::Credit { address: of, credit } if of == address => Some(credit),
            _ => None,
        })
        .await
    }
}

pub(crate) fn options(port: u16, plain: bool) -> EventHubsOptions {
    let security = if plain { ";UseDevelopmentEmulator=true" } else { "" };
    let text =
        format!("Endpoint=sb://localhost:{port};SharedAccessKeyName=name;SharedAccessKey=key{security}");
    let mut options = EventHubsOptions::new(text.parse().unwrap(), Some("hub")).unwrap();
    options.reconnect = RetryPolicy { delay: Duration::from_millis(1), ..options.reconnect };
    options
}

pub(crate) fn receive_address(partition: u32) -> String {
    format!("hub/ConsumerGroups/$Default/Partitions/{partition}")
}

pub(crate) fn send_address(partition: u32) -> String {
    format!("hub/Partitions/{partition}")
}

/// A message as the service delivers it: its annotations, then a Data section.
pub(crate) fn delivered(sequence_number: i64, partition_key: Option<&str>, payload: &[u8]) -> Vec<u8> {
    let mut entries = vec![
        (Symbol::from("x-opt-sequence-number"), Value::Long(sequence_number)),
        (Symbol::from("x-opt-offset"), Value::String(format!("o{sequence_number}"))),
        (Symbol::from("x-opt-enqueued-time"), Value::Timestamp(1_700_000_000_000 + sequence_number)),
    ];
    if let Some(key) = partition_key {
        entries.push((Symbol::from("x-opt-partition-key"), Value::from(key)));
    }
    let mut message = Vec::new();
    encode::message_annotations(&mut message, &entries);
    encode::data(&mut message, payload);
    message
}

async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    script: Arc<Mutex<Script>>,
    mut commands: mpsc::UnboundedReceiver<Command>,
    reports: mpsc::UnboundedSender<Report>,
) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let stream = match &tls {
            None => amqp_tokio::accept(socket).unwrap(),
            Some(config) => match amqp_tokio::accept_tls(socket, Arc::clone(config), PATIENCE).await {
                Ok(stream) => stream,
                Err(_client_that_does_not_trust_us) => continue,
            },
        };
        let mut conversation = Conversation::new(stream, Arc::clone(&script), reports.clone());
        conversation.run(&mut commands).await;
        drop(conversation);
        if reports.send(Report::Disconnected).is_err() {
            return;
        }
    }
}

/// One connection, from the service's side.
struct Conversation {
    driver: Driver,
    script: Arc<Mutex<Script>>,
    reports: mpsc::UnboundedSender<Report>,
    links: Links,
    is_paused: bool,
}

impl Conversation {
    fn new(stream: Stream, script: Arc<Mutex<Script>>, reports: mpsc::UnboundedSender<Report>) -> Self {
        Self {
            driver: server(stream, OutcomeAnswers::Echo),
            script,
            reports,
            links: Links::default(),
            is_paused: false,
        }
    }

    async fn run(&mut self, commands: &mut mpsc::UnboundedReceiver<Command>) {
        loop {
            tokio::select! {
                event = self.driver.next_event(), if !self.is_paused => match event {
                    Ok(Event::Closed(_)) | Err(_) => return,
                    Ok(event) => self.take_event(event),
                },
                command = commands.recv() => match command {
                    Some(Command::Disconnect) | None => return,
                    Some(command) => self.obey(command),
                },
            }
        }
    }

    fn report(&self, report: Report) {
        // A test that has seen enough no longer listens.
        let _ = self.reports.send(report);
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Opened(_) => {
                let product = self.driver.connection().remote_product().map(str::to_owned);
                self.report(Report::Opened { product });
            }
            Event::LinkRequested { link, attach, .. } => self.take_request(link, *attach),
            Event::Credit(link) => {
                let credit = self.driver.connection().credit(link);
                let address = self.links.address(link);
                self.report(Report::Credit { address, credit });
            }
            Event::Deliveries(deliveries) => {
                for delivery in deliveries.items() {
                    self.take_delivery(&deliveries, delivery);
                }
            }
            Event::Outcome { first, last, state, .. } => {
                assert_eq!(state, Some(DeliveryState::Accepted));
                self.report(Report::Outcome { first, last });
            }
            Event::LinkDetached { link, .. } => {
                let address = self.links.address(link);
                self.links.remove(link);
                self.report(Report::Detached { address });
            }
            _ => {}
        }
    }

    fn take_request(&mut self, link: LinkId, attach: Attach) {
        let address = address_of(&attach).to_owned();
        let script = self.script.lock().unwrap();
        let engine = self.driver.connection();
        if let Some(error) = script.refused.get(&address) {
            engine.refuse_link(link, error.clone());
        } else {
            let acceptance = LinkAcceptance {
                max_message_size: Some(script.max_message_size),
                ..LinkAcceptance::default()
            };
            engine.accept_link(link, acceptance);
            // The roles are the client's.
            if attach.role == Role::Sender {
                engine.set_credit(link, if address.starts_with('$') { 10 } else { script.credit });
            }
            self.links.add(link, &attach);
        }
        drop(script);
        self.report(Report::Attached(Box::new(attach)));
    }

    fn take_delivery(&mut self, deliveries: &Deliveries, delivery: &Delivery) {
        let address = self.links.address(delivery.link);
        let message = deliveries.message(delivery);
        if address.starts_with('$') {
            return self.answer(&address, message);
        }
        self.report(Report::Transfer {
            address,
            id: delivery.id,
            format: delivery.format,
            message: message.to_vec(),
        });
        let outcome = self.script.lock().unwrap().outcomes.pop_front();
        if let Some(outcome) = outcome.unwrap_or(Some(DeliveryState::Accepted)) {
            self.settle(delivery.id, delivery.id, outcome);
        }
    }

    fn settle(&mut self, first: u32, last: u32, outcome: DeliveryState) {
        let to_partition =
            self.links.find(|link| link.role == Role::Sender && !link.address.starts_with('$'));
        let link = to_partition.expect("a link that was sent through");
        let engine = self.driver.connection();
        let session = engine.session_of(link).expect("an attached link");
        engine.settle(session, first, last, outcome);
    }

    fn answer(&mut self, node: &str, request: &[u8]) {
        let view = MessageView::parse(request).unwrap();
        let asked = view.application_properties().unwrap();
        let text =
            |name: &str| asked.find(name).unwrap().and_then(|value| value.as_text().map(str::to_owned));
        let script = self.script.lock().unwrap();
        let (status, body) = if node == "$cbs" {
            self.report(Report::TokenPut {
                audience: text("name").unwrap(),
                token: view.value().unwrap().unwrap().as_text().unwrap().to_owned(),
            });
            (script.token_status, Value::Null)
        } else if text("type").as_deref() == Some("com.microsoft:eventhub") {
            (script.management_status, hub_properties(script.partitions))
        } else {
            (script.management_status, partition_properties())
        };
        drop(script);
        let told =
            [("status-code", Value::Int(status)), ("status-description", Value::from("as the script says"))];
        self.links.reply(&mut self.driver, &view, &told, &body);
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Deliver(address, messages) => {
                let settled = !self.script.lock().unwrap().unsettled;
                let link = self.link(&address);
                for message in messages {
                    let delivery = NewDelivery { tag: &[1], format: 0, settled };
                    self.driver
                        .connection()
                        .sender(link)
                        .unwrap()
                        .send(&delivery, &[&message])
                        .expect("credit for every event");
                }
            }
            Command::Detach(address, error) => {
                let link = self.link(&address);
                self.driver.connection().detach_link(link, error);
            }
            Command::Grant(address, credit) => {
                let link = self.link(&address);
                self.driver.connection().set_credit(link, credit);
            }
            Command::Settle { first, last, outcome } => self.settle(first, last, outcome),
            Command::Pause => self.is_paused = true,
            Command::Resume => self.is_paused = false,
            Command::Disconnect => unreachable!("ends the conversation"),
        }
    }

    fn link(&self, address: &str) -> LinkId {
        let found = self.links.find(|link| link.address == address);
        found.expect("an attached link")
    }
}

fn hub_properties(partitions: u32) -> Value {
    let ids = (0..partitions).map(|id| Value::String(id.to_string())).collect();
    map([
        ("name", Value::from("hub")),
        ("created_at", Value::Timestamp(1_600_000_000_000)),
        ("partition_count", Value::Int(partitions.cast_signed())),
        ("partition_ids", Value::Array(ids)),
    ])
}

fn partition_properties() -> Value {
    map([
        ("begin_sequence_number", Value::Long(10)),
        ("last_enqueued_sequence_number", Value::Long(41)),
        ("last_enqueued_offset", Value::from("o41")),
        ("last_enqueued_time_utc", Value::Timestamp(1_700_000_000_041)),
        ("is_partition_empty", Value::Boolean(false)),
    ])
}

fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(entries.into_iter().map(|(key, value)| (Value::from(key), value)).collect())
}
