//! The places: hubs and queues of an embedded service, and hubs as topics of Kafka. Each entity is written and read by the clients of its
//! protocol.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use connect::archive::{
    ArchiveFiles, ArchiveOptions, ArchiveSource, FileFormat, Place as ArchivePlace, Rolling,
};
use connect::checkpoint::MemoryCheckpointStore;
use connect::event::{Encoding, EnqueuedTime, EventBatch, EventParts, PartitionId};
use connect::event_hubs::{EventHubsOptions, EventHubsSink, EventHubsSource};
use connect::kafka::{KafkaOptions, Properties, connect_sink, connect_source};
use connect::producer::{NewEvent, Producer, ProducerOptions, ProducerTarget};
use connect::service::ClientOptions;
use connect::service_bus::{Browser, ReceiveOptions, ServiceBusSink, ServiceBusSource};
use connect::sink::{OutgoingBatch, SendToken, SendUnit, Sink};
use connect::source::{Source, SourceEvent, SourceOptions, StartPosition};
use convert::text::{self, BodyForm, Extra, Layout, MessageText};
use hub::namespace::{HubConfig, NamespaceConfig, QueueConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use relay::route::Route;
use relay::{Relay, RelayOptions, SettlingOptions};

use super::aspects::{self, Aspects, Kind};
use super::events::Event;

/// Where events are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Hub,
    Queue,
    Topic,
}

impl Place {
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Hub | Self::Queue => Kind::Amqp,
            Self::Topic => Kind::Kafka,
        }
    }
}

/// A service with more entities than are needed.
pub(super) struct Places {
    service: Service,
    next: usize,
}

impl Places {
    pub(super) async fn start() -> Self {
        let names = |of: &'static str| (0..ENTITIES).map(move |number| format!("{of}{number}"));
        let hubs = names("hub").map(|name| HubConfig::new(name, 1)).collect();
        let namespace = NamespaceConfig {
            queues: names("queue").map(QueueConfig::new).collect(),
            ..NamespaceConfig::with_hubs(hubs)
        };
        let config = ServiceConfig::loopback(namespace).and(Protocol::Kafka);
        Self { service: Service::start(config).await.unwrap(), next: 0 }
    }

    pub(super) async fn stop(self) {
        self.service.stop().await;
    }

    /// An entity that is empty.
    pub(super) async fn new_entity(&mut self, place: Place) -> String {
        let number = self.next;
        self.next += 1;
        assert!(number < ENTITIES, "there are enough entities");
        match place {
            Place::Hub | Place::Topic => format!("hub{number}"),
            Place::Queue => format!("queue{number}"),
        }
    }

    fn hub(&self, name: &str) -> EventHubsOptions {
        EventHubsOptions::new(self.service.connection_string(None), Some(name)).unwrap()
    }

    fn queue(&self, name: &str) -> ClientOptions {
        ClientOptions::new(self.service.connection_string(None), name)
    }

    fn topic(&self, name: &str) -> KafkaOptions {
        let address = self.service.address(Protocol::Kafka).unwrap().to_string();
        let password = self.service.connection_string(None).reveal();
        let properties = [
            ("bootstrap.servers", address.as_str()),
            ("security.protocol", "sasl_plaintext"),
            ("sasl.username", "$ConnectionString"),
            ("sasl.password", password.as_str()),
        ];
        KafkaOptions::new(name, properties.into_iter().collect::<Properties>())
    }

    fn target(&self, place: Place, name: &str) -> ProducerTarget {
        match place {
            Place::Hub => ProducerTarget::EventHubs(self.hub(name)),
            Place::Queue => ProducerTarget::ServiceBus(self.queue(name)),
            Place::Topic => ProducerTarget::Kafka(self.topic(name)),
        }
    }

    /// Writes events as those do who know their protocol and nothing else.
    pub(super) async fn write(&self, place: Place, name: &str, events: &[Event]) {
        let mut records = EventBatch::default();
        records.set_encoding(Encoding::Kafka);
        let producer = match place {
            Place::Topic => None,
            _ => Some(Producer::connect(self.target(place, name), ProducerOptions::default()).await.unwrap()),
        };
        for event in events {
            match (event, &producer) {
                (Event::Message(event), Some(producer)) => {
                    let event =
                        NewEvent { key: event.key.as_deref(), encoded: Some(event), ..NewEvent::default() };
                    within(producer.send(&event)).await.unwrap();
                }
                (Event::Record(timestamp_ms, tail), None) => push_record(&mut records, *timestamp_ms, tail),
                _ => panic!("{event:?} is no event of {place:?}"),
            }
        }
        match producer {
            Some(producer) => assert_eq!(within(producer.close()).await.lost_events(), 0),
            None => {
                let mut sink = connect_sink(&self.topic(name)).await.unwrap();
                send_all(&mut *sink, &records).await;
            }
        }
    }

    /// What is in an entity: for queues, without taking it out.
    pub(super) async fn read(&self, place: Place, name: &str, count: usize) -> Vec<Aspects> {
        match place {
            Place::Queue => {
                let mut browser = Browser::connect(self.queue(name)).await.unwrap();
                let mut found = Vec::new();
                let mut next = 0;
                while found.len() < count {
                    for message in within(browser.peek(next, 250)).await.unwrap() {
                        next = message.sequence_number + 1;
                        let text = MessageText::read(&message.sections).unwrap();
                        let key = text.partition_key().map(str::as_bytes);
                        found.push(aspects::of_message(key, &message.sections));
                    }
                }
                browser.close().await;
                found
            }
            Place::Hub => {
                let found = |batch: &EventBatch, event: &_| {
                    aspects::of_message(batch.partition_key(event), batch.message(event))
                };
                self.take(place, name, Encoding::Amqp, count, found).await
            }
            Place::Topic => {
                let found = |batch: &EventBatch, event: &connect::event::Event| {
                    aspects::of_record(event.enqueued_time.unix_ms(), batch.message(event))
                };
                self.take(place, name, Encoding::Kafka, count, found).await
            }
        }
    }

    async fn take<T>(
        &self,
        place: Place,
        name: &str,
        encoding: Encoding,
        count: usize,
        found: impl Fn(&EventBatch, &connect::event::Event) -> T,
    ) -> Vec<T> {
        let mut source = self.source(place, name, encoding).await;
        source.open(PartitionId(0), StartPosition::Earliest);
        let mut taken = Vec::new();
        while taken.len() < count {
            if let SourceEvent::Batch(batch) =
                within(poll_fn(|context| source.poll_batch(context))).await.unwrap()
            {
                taken.extend(batch.events().iter().map(|event| found(&batch, event)));
                source.release(batch);
            }
        }
        taken
    }

    async fn source(&self, place: Place, name: &str, encoding: Encoding) -> Box<dyn Source> {
        let options = SourceOptions::default();
        match place {
            Place::Hub => {
                Box::new(EventHubsSource::connect(self.hub(name), "$Default", options).await.unwrap())
            }
            Place::Topic => connect_source(&self.topic(name), options, encoding).await.unwrap(),
            Place::Queue => panic!("a queue is received from in another way"),
        }
    }

    /// Carries so many events from an entity to another.
    pub(super) async fn relay(&self, from: (Place, &str), to: (Place, &str), count: usize) {
        let sink: Box<dyn Sink> = match to {
            (Place::Hub, name) => {
                let mut sink = EventHubsSink::connect(self.hub(name)).await.unwrap();
                sink.keep_keys();
                Box::new(sink)
            }
            (Place::Queue, name) => {
                Box::new(ServiceBusSink::connect(self.queue(name), SendUnit::Event).await.unwrap())
            }
            (Place::Topic, name) => connect_sink(&self.topic(name)).await.unwrap(),
        };
        let relay = match from {
            (Place::Queue, name) => {
                let source =
                    ServiceBusSource::connect(self.queue(name), ReceiveOptions::default()).await.unwrap();
                Relay::settling(SettlingOptions::default(), Box::new(source), vec![sink]).unwrap()
            }
            (place, name) => {
                let encoding = match to.0 {
                    Place::Topic if place == Place::Topic => Encoding::Kafka,
                    _ => Encoding::Amqp,
                };
                let source = self.source(place, name, encoding).await;
                let options = RelayOptions { route: Route::Key, ..RelayOptions::default() };
                let store = Arc::new(MemoryCheckpointStore::new());
                Relay::new(options, source, vec![sink], store).unwrap()
            }
        };
        run(relay, count as u64, from.0 == Place::Queue).await;
    }

    /// The lines that `tail` or `peek` prints of an entity.
    pub(super) async fn lines(&self, place: Place, name: &str, count: usize) -> Vec<Vec<u8>> {
        if place == Place::Queue {
            let mut browser = Browser::connect(self.queue(name)).await.unwrap();
            let messages = within(browser.peek(0, count as u32)).await.unwrap();
            browser.close().await;
            return messages.iter().map(|message| line(None, &message.sections)).collect();
        }
        let found = |batch: &EventBatch, event: &_| {
            let key = batch.partition_key(event).and_then(|key| str::from_utf8(key).ok());
            line(key, batch.message(event))
        };
        self.take(place, name, Encoding::Amqp, count, found).await
    }

    /// The lines of an archive of an entity.
    pub(super) async fn archive(&self, place: Place, name: &str, count: usize) -> Vec<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let rolling =
            Rolling { format: FileFormat::Ndjson, every: Duration::from_millis(50), ..Rolling::default() };
        let mut options = ArchiveOptions::new(ArchivePlace::Folder(folder.path().to_owned()));
        options.files = ArchiveFiles::Rolled(rolling);
        let of = ArchiveSource { namespace: "namespace".to_owned(), hub: name.to_owned() };
        let sink = connect::archive::connect(&options, &of).await.unwrap();
        let source = self.source(place, name, Encoding::Amqp).await;
        let store = Arc::new(MemoryCheckpointStore::new());
        run(Relay::new(RelayOptions::default(), source, vec![sink], store).unwrap(), count as u64, false)
            .await;
        let mut lines = Vec::new();
        let mut folders = vec![folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false if entry.path().extension().is_some_and(|end| end == "ndjson") => {
                        let content = std::fs::read(entry.path()).unwrap();
                        lines.extend(content.split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
                    }
                    false => {}
                }
            }
        }
        lines.retain(|line| !line.is_empty());
        assert_eq!(lines.len(), count);
        lines
    }

    /// Sends what lines say, as `send` does.
    pub(super) async fn send_lines(&self, place: Place, name: &str, lines: &[Vec<u8>]) {
        let producer = Producer::connect(self.target(place, name), ProducerOptions::default()).await.unwrap();
        for line in lines {
            let read = text::read(line, Extra::default());
            let read = read.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(line)));
            let event = NewEvent { key: read.key.as_deref(), encoded: Some(&read), ..NewEvent::default() };
            within(producer.send(&event)).await.unwrap();
        }
        assert_eq!(within(producer.close()).await.lost_events(), 0);
    }
}

/// A line as `tail` prints it.
fn line(key: Option<&str>, sections: &[u8]) -> Vec<u8> {
    let message = MessageText::read(sections).unwrap();
    let mut out = b"{\"sequence_number\":1".to_vec();
    if let Some(key) = key.or_else(|| message.partition_key()) {
        out.extend_from_slice(b",\"key\":");
        text::put_text(&mut out, key);
    }
    message.put(Layout::Flat, &mut out);
    message.put_body(BodyForm::Auto, &mut out);
    message.put_exact(&mut out);
    out.push(b'}');
    out
}

fn push_record(records: &mut EventBatch, timestamp_ms: i64, tail: &[u8]) {
    let parts = EventParts {
        message: 0..tail.len() as u32,
        partition_key: 0..0,
        offset: 0..0,
        sequence_number: records.len() as i64,
        enqueued_time: EnqueuedTime::from_unix_ms(timestamp_ms),
    };
    records.push(&Bytes::copy_from_slice(tail), &parts);
}

async fn send_all(sink: &mut dyn Sink, batch: &EventBatch) {
    for event in 0..batch.len() as u32 {
        while sink.send(SendToken(event.into()), OutgoingBatch::new(0, batch, &[event])).is_err() {
            within(poll_fn(|context| sink.poll_ready(context))).await.unwrap();
        }
    }
    let mut outcomes = Vec::new();
    while outcomes.len() < batch.len() {
        within(poll_fn(|context| sink.poll_outcomes(context, &mut outcomes))).await.unwrap();
    }
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()), "{outcomes:?}");
}

/// Runs a relay until so many events are where they go, and gone from where they come if it settles them.
async fn run(relay: Relay, count: u64, settles: bool) {
    let handle = relay.metrics_handle();
    let shutdown = async {
        while let Some(metrics) = handle.metrics().await
            && metrics.completed_events.min(if settles { metrics.confirmed_events } else { u64::MAX }) < count
        {
            assert_eq!(metrics.poison_events, 0, "each event is taken");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let summary = within(relay.run(shutdown)).await.unwrap();
    assert_eq!(summary.metrics.poison_events, 0);
}

/// What must come, under a deadline that only a failure reaches.
async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it comes in time")
}

/// Two or three for each way.
const ENTITIES: usize = 48;
