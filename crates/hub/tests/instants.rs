//! Every instant that clients are told, and whose clock it goes by: the table of `docs/time-control.md`, which this is.
//!
//! After an advance of a day the clock of the service and that of clients are a day apart, so each instant says by itself whose it is.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use amqp::Value;
use amqp::codec::Symbol;
use amqp::connection::LinkId;
use amqp::message::{FORMAT_AMQP, MessageView, encode};
use amqp::performative::DeliveryState;
use hub::identity::DevelopmentIdentityConfig;
use hub::namespace::{HubConfig, NamespaceConfig, QueueConfig};
use hub::service::{Protocol, Service, ServiceConfig, TimeControl};
use kafka::ApiKey;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{
    CreateTopicsRequest, CreateTopicsResponse, ListOffsetsRequest, ListOffsetsResponse,
};
use test_peer::Received;
use test_peer::queue_client::{QueueClient, message, message_of_session, session_filter};
use units::date::{parse_http_date, parse_iso_instant};

use crate::blob::client::signed;
use crate::identity::request::ask;
use crate::kafka_peer::{Peer, topic};
use crate::rest::client::Client as RestClient;

/// Whose clock an instant goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// That of the service: the instant is part of what happened.
    Service,
    /// That of clients, which is the machine's: they subtract their own present from it.
    Client,
}

/// Defines the instants, and lists them.
macro_rules! instants {
    ($($instant:ident: $protocol:literal, $name:literal, $clock:ident;)*) => {
        /// An instant that clients are told.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Instant { $($instant),* }

        const INSTANTS: &[(Instant, &str, &str, Clock)] =
            &[$((Instant::$instant, $protocol, $name, Clock::$clock)),*];
    };
}

instants! {
    MessageEnqueued: "AMQP", "`x-opt-enqueued-time` of messages", Service;
    MessageScheduled: "AMQP", "`x-opt-scheduled-enqueue-time` of messages, as their sender gave it", Service;
    MessageLocked: "AMQP", "`x-opt-locked-until` of messages", Client;
    LockRenewed: "AMQP", "`expirations`, the answer to `renew-lock`", Client;
    SessionLocked: "AMQP", "`com.microsoft:locked-until-utc` of links to sessions", Client;
    SessionRenewed: "AMQP", "`expiration`, the answer to `renew-session-lock`", Client;
    EventEnqueued: "AMQP", "`x-opt-enqueued-time` of events", Service;
    HubCreated: "AMQP", "`created_at` of hubs", Service;
    LastEnqueued: "AMQP", "`last_enqueued_time_utc` of partitions, and with events", Service;
    Retrieved: "AMQP", "`runtime_info_retrieval_time_utc` beside it", Service;
    RecordTimestamp: "Kafka", "timestamps of records, where the service gives them, and the search by them", Service;
    RestEnqueued: "HTTP", "`EnqueuedTimeUtc` in `BrokerProperties`", Service;
    RestLocked: "HTTP", "`LockedUntilUtc` in `BrokerProperties`", Client;
    EntityCreated: "HTTP", "`CreatedAt`, `UpdatedAt` and `AccessedAt` of entities", Service;
    BlobModified: "blobs", "`Last-Modified` and creation times of blobs and containers", Client;
    Answered: "HTTP, blobs", "the header `Date`", Client;
    TokenEnds: "identity", "`expires_on` of tokens", Client;
    ExplorerTime: "explorer", "all times on its page", Service;
    Now: "`/time`", "`now` and `now_ms`", Service;
}

/// A service that is a day ahead, and its clients.
struct World {
    service: Service,
    control: TimeControl,
    amqp: QueueClient,
    rest: RestClient,
}

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Longer than any lock, and than this test takes.
const NEAR: Duration = Duration::from_secs(3_600);

impl World {
    async fn new() -> Self {
        let mut talks = QueueConfig::new("talks");
        talks.options.requires_session = true;
        let namespace = NamespaceConfig {
            queues: vec![QueueConfig::new("orders"), QueueConfig::new("later"), talks],
            ..NamespaceConfig::with_hubs(vec![HubConfig::new("events", 1)])
        };
        let protocols =
            [Protocol::Kafka, Protocol::Blob, Protocol::Identity, Protocol::Operations, Protocol::Explorer];
        let config = protocols.into_iter().fold(ServiceConfig::loopback(namespace), ServiceConfig::and);
        let service = Service::start(ServiceConfig {
            development_identity: Some(DevelopmentIdentityConfig { token_lifetime: Duration::from_secs(60) }),
            ..config.with_time_control()
        });
        let service = service.await.unwrap();
        let control = service.time_control().unwrap().clone();
        control.advance(DAY).await.unwrap();
        let (name, key) = (access::ROOT_KEY_NAME, access::DEVELOPMENT_KEY_VALUE);
        let amqp = QueueClient::connect_with_key(service.amqp_address(), name, key).await;
        let rest = RestClient::connect(service.amqp_address()).await;
        Self { service, control, amqp, rest }
    }

    async fn told(&mut self, instant: Instant) -> SystemTime {
        match instant {
            Instant::MessageEnqueued => time(self.message().await.annotation("x-opt-enqueued-time")),
            Instant::MessageScheduled => self.scheduled().await,
            Instant::MessageLocked => time(self.message().await.annotation("x-opt-locked-until")),
            Instant::LockRenewed => {
                let token = self.message().await.lock_token();
                let renew = [("lock-tokens", Value::Array(vec![token]))];
                let answer = self.amqp.request("orders", "renew-lock", &renew).await.body;
                let Some(Value::Array(ends)) = entry(&answer, "expirations") else { panic!("{answer:?}") };
                time(ends.first().cloned())
            }
            Instant::SessionLocked => self.session("first").await,
            Instant::SessionRenewed => {
                self.session("second").await;
                let session = [("session-id", Value::from("second"))];
                let answer = self.amqp.request("talks", "renew-session-lock", &session).await.body;
                time(entry(&answer, "expiration"))
            }
            Instant::EventEnqueued => time(self.event().await.annotation("x-opt-enqueued-time")),
            Instant::HubCreated => {
                let wanted = CreatableTopic::default().with_name(topic("new-hub")).with_num_partitions(1);
                let wanted = vec![wanted.with_replication_factor(1)];
                let request = CreateTopicsRequest::default().with_topics(wanted).with_timeout_ms(30_000);
                let mut peer = Peer::new(&self.service).await;
                let _: CreateTopicsResponse = peer.ask(ApiKey::CreateTopics, 7, &request).await;
                self.read("new-hub", "com.microsoft:eventhub", "created_at").await
            }
            Instant::LastEnqueued => {
                let with_event = self.beside_event("last_enqueued_time_utc").await;
                let read = self.read("events", "com.microsoft:partition", "last_enqueued_time_utc").await;
                assert_eq!(with_event, read);
                read
            }
            Instant::Retrieved => {
                let with_event = self.beside_event("runtime_info_retrieval_time_utc").await;
                assert!(is_near(with_event, self.control.now()));
                self.read("events", "com.microsoft:partition", "runtime_info_retrieval_time_utc").await
            }
            Instant::RecordTimestamp => self.timestamp().await,
            Instant::RestEnqueued => parse_http_date(&self.broker_property("EnqueuedTimeUtc").await).unwrap(),
            Instant::RestLocked => parse_http_date(&self.broker_property("LockedUntilUtc").await).unwrap(),
            Instant::EntityCreated => {
                let reply = self.rest.ask("PUT", "/new-queue", ATOM, QUEUE_ENTRY.as_bytes()).await;
                let text = |name: &str| {
                    let (_, rest) = reply.text().split_once(&format!("<{name}>")).unwrap();
                    parse_iso_instant(rest.split_once('<').unwrap().0).unwrap()
                };
                assert!(is_near(text("UpdatedAt"), self.control.now()), "{}", reply.text());
                text("CreatedAt")
            }
            Instant::BlobModified => self.blob().await,
            Instant::Answered => {
                let reply = self.rest.ask("GET", "/$Resources/Queues", "", b"").await;
                parse_http_date(reply.field("date").unwrap()).unwrap()
            }
            Instant::TokenEnds => {
                let secret = self.service.development_identity().unwrap().secret.reveal().to_owned();
                let target = "/msi/token?api-version=2019-08-01&resource=https%3A%2F%2Fservicebus.azure.net";
                let header = format!("X-IDENTITY-HEADER: {secret}");
                let identity = self.service.address(Protocol::Identity).unwrap();
                let answer = ask(identity, "GET", target, &[&header], "").await.json();
                UNIX_EPOCH + Duration::from_secs(answer["expires_on"].as_str().unwrap().parse().unwrap())
            }
            Instant::ExplorerTime => self.page(Protocol::Explorer, "/api/overview", "clock_ms").await,
            Instant::Now => self.page(Protocol::Operations, "/time", "now_ms").await,
        }
    }

    /// A message that was sent and received just now.
    async fn message(&mut self) -> Received {
        let (sender, _) = self.amqp.sender("orders").await.unwrap();
        assert_eq!(self.amqp.send(sender, b"order").await, DeliveryState::Accepted);
        let receiver = self.amqp.receiver("orders", 1).await;
        self.amqp.receive(receiver, 1).await.remove(0)
    }

    async fn scheduled(&mut self) -> SystemTime {
        let due = self.control.now() + Duration::from_secs(60);
        let at = i64::try_from(due.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
        let mut encoded = Vec::new();
        let annotation = Symbol::from_static("x-opt-scheduled-enqueue-time");
        encode::message_annotations(&mut encoded, &[(annotation, Value::Timestamp(at))]);
        encoded.extend(message(b"later"));
        let (sender, _) = self.amqp.sender("later").await.unwrap();
        assert_eq!(self.amqp.send_message(sender, FORMAT_AMQP, &encoded).await, DeliveryState::Accepted);
        let happened = self.control.advance(Duration::from_secs(61)).await.unwrap().happened;
        assert_eq!(happened.scheduled_messages_enqueued, 1);
        let receiver = self.amqp.receiver("later", 1).await;
        let received = self.amqp.receive(receiver, 1).await.remove(0);
        assert_eq!(received.annotation("x-opt-enqueued-time"), Some(Value::Timestamp(at)));
        time(received.annotation("x-opt-scheduled-enqueue-time"))
    }

    /// Locks a session, which is known until when.
    async fn session(&mut self, name: &'static str) -> SystemTime {
        let (sender, _) = self.amqp.sender("talks").await.unwrap();
        self.amqp.send_message(sender, FORMAT_AMQP, &message_of_session(name, b"hello")).await;
        let (_, attach) = self.amqp.ask_to_receive("talks", session_filter(name.into())).await.unwrap();
        let Some(Value::Long(ticks)) = attach.property("com.microsoft:locked-until-utc") else {
            panic!("{attach:?}")
        };
        UNIX_EPOCH + Duration::from_millis(u64::try_from((ticks - TICKS_BEFORE_1970) / 10_000).unwrap())
    }

    /// An event that was sent just now, and what is told beside it.
    async fn event(&mut self) -> Received {
        let (reader, _) = self
            .amqp
            .ask_to_receive("events/ConsumerGroups/$Default/Partitions/0", |options| {
                options.desired_capabilities =
                    vec![Symbol::from("com.microsoft:enable-receiver-runtime-metric")];
            })
            .await
            .unwrap();
        self.send_event().await;
        self.amqp.connection().set_credit(reader, 1);
        self.amqp.receive(reader, 1).await.remove(0)
    }

    async fn send_event(&mut self) -> LinkId {
        let (sender, _) = self.amqp.sender("events").await.unwrap();
        assert_eq!(self.amqp.send(sender, b"event").await, DeliveryState::Accepted);
        sender
    }

    async fn beside_event(&mut self, name: &str) -> SystemTime {
        let event = self.event().await;
        let view = MessageView::parse(&event).unwrap();
        time(view.delivery_annotations().unwrap().find(name).unwrap())
    }

    /// Reads an attribute of a hub or of its first partition.
    async fn read(&mut self, hub: &str, kind: &str, attribute: &str) -> SystemTime {
        let fields = [
            ("operation", Value::from("READ")),
            ("name", Value::from(hub)),
            ("type", Value::from(kind)),
            ("partition", Value::from("0")),
        ];
        let reply = self.amqp.exchange("$management", &fields, &Value::Null).await;
        let view = MessageView::parse(&reply.bytes).unwrap();
        time(entry(&view.value().unwrap().unwrap(), attribute))
    }

    /// The timestamp of the latest record.
    async fn timestamp(&mut self) -> SystemTime {
        const LATEST_TIMESTAMP: i64 = -3;
        self.send_event().await;
        let partition =
            ListOffsetsPartition::default().with_partition_index(0).with_timestamp(LATEST_TIMESTAMP);
        let asked = ListOffsetsTopic::default().with_name(topic("events")).with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(vec![asked]);
        let mut peer = Peer::new(&self.service).await;
        let answer: ListOffsetsResponse = peer.ask(ApiKey::ListOffsets, 8, &request).await;
        at(answer.topics[0].partitions[0].timestamp)
    }

    async fn broker_property(&mut self, name: &str) -> String {
        assert_eq!(self.rest.ask("POST", "/orders/messages", "", b"order").await.status, 201);
        let reply = self.rest.ask("POST", "/orders/messages/head", "", b"").await;
        assert_eq!(reply.status, 201, "{}", reply.head);
        let properties: serde_json::Value =
            serde_json::from_str(reply.field("BrokerProperties").unwrap()).unwrap();
        properties[name].as_str().unwrap().to_owned()
    }

    async fn blob(&mut self) -> SystemTime {
        let made = signed(&self.service, "PUT", "/box?restype=container", &[], b"").await;
        assert_eq!(made.status, 201, "{}", made.body);
        let date = |text: &str| parse_http_date(text).unwrap();
        let block = [("x-ms-blob-type", "BlockBlob")];
        assert_eq!(signed(&self.service, "PUT", "/box/claim", &block, b"").await.status, 201);
        let read = signed(&self.service, "GET", "/box/claim", &[], b"").await;
        let listed = signed(&self.service, "GET", "/box?restype=container&comp=list", &[], b"").await.body;
        let (_, listed) = listed.split_once("<Last-Modified>").unwrap();
        let modified = read.header("last-modified").unwrap();
        assert_eq!(listed.split_once('<').unwrap().0, modified);
        assert!(is_near(date(read.header("x-ms-creation-time").unwrap()), date(modified)));
        assert!(is_near(date(made.header("last-modified").unwrap()), date(modified)));
        assert!(is_near(date(read.header("date").unwrap()), date(modified)));
        date(modified)
    }

    async fn page(&mut self, protocol: Protocol, path: &str, name: &str) -> SystemTime {
        let address = self.service.address(protocol).unwrap();
        at(ask(address, "GET", path, &[], "").await.json()[name].as_i64().unwrap())
    }
}

fn time(value: Option<Value>) -> SystemTime {
    let Some(Value::Timestamp(milliseconds)) = value else { panic!("{value:?} is no time") };
    at(milliseconds)
}

fn at(milliseconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(milliseconds).unwrap())
}

fn entry(map: &Value, name: &str) -> Option<Value> {
    let Value::Map(entries) = map else { panic!("{map:?}") };
    entries.iter().find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| value.clone())
}

fn is_near(one: SystemTime, other: SystemTime) -> bool {
    one.duration_since(other).or_else(|_| other.duration_since(one)).unwrap() < NEAR
}

#[tokio::test]
async fn each_instant_goes_by_the_clock_of_the_table() {
    let mut world = World::new().await;
    for (instant, _, _, clock) in INSTANTS {
        let told = world.told(*instant).await;
        let expected = match clock {
            Clock::Service => world.control.now(),
            Clock::Client => SystemTime::now(),
        };
        assert!(is_near(told, expected), "{instant:?}: {told:?} is not near {expected:?}, by {clock:?}");
    }
    world.service.stop().await;
}

#[test]
fn the_table_of_the_documents_is_this_one() {
    let mut table = String::from("| told over | | goes by the clock of |\n|---|---|---|\n");
    for (_, protocol, name, clock) in INSTANTS {
        let clock = match clock {
            Clock::Service => "the service",
            Clock::Client => "**clients**",
        };
        table.push_str(&format!("| {protocol} | {name} | {clock} |\n"));
    }
    let document = include_str!("../../../docs/time-control.md");
    assert!(document.contains(&table), "docs/time-control.md should have this table:\n{table}");
}

/// An instant as .NET counts it: in steps of 100 ns since the year 1.
const TICKS_BEFORE_1970: i64 = 621_355_968_000_000_000;

const ATOM: &str = "Content-Type: application/atom+xml\r\n";

const QUEUE_ENTRY: &str = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">
<QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"/></content></entry>"#;
