//! A topic with a batch that can't be read, carried by a relay with the real clients: what becomes of the batch under each policy,
//! and of the records before and after it.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

use std::future::{Future, poll_fn};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use access::ConnectionString;
use bytes::Bytes;
use connect::checkpoint::MemoryCheckpointStore;
use connect::event::{Encoding, EventBatch, EventParts, PartitionId};
use connect::event_hubs::{EventHubsOptions, EventHubsSink};
use connect::kafka::{KafkaOptions, Properties, connect_sink, connect_source};
use connect::sink::{OutgoingBatch, SendToken, Sink};
use connect::source::{BatchOptions, SourceEvent, SourceOptions, StartPosition};
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use relay::metrics::Metrics;
use relay::{DispatchUnit, PoisonEvents, Relay, RelayError, RelayOptions, Summary};

/// A service with one topic of each of the pipeline's ends, and a batch of three records between two of one that takes more bytes
/// when unpacked than the relay lets it.
struct Setting {
    service: Service,
    store: Arc<MemoryCheckpointStore>,
}

impl Setting {
    async fn new() -> Self {
        let hubs = ["orders", "copies", "letters"].map(|name| HubConfig::new(name, 1));
        let config = ServiceConfig::loopback(NamespaceConfig::with_hubs(hubs.into())).and(Protocol::Kafka);
        let setting = Self {
            service: Service::start(config).await.unwrap(),
            store: Arc::new(MemoryCheckpointStore::new()),
        };
        let long = vec![b'x'; 10_000];
        for values in [&[&b"before"[..]][..], &[&long, &long, &long], &[b"after"]] {
            setting.publish(values).await;
        }
        setting
    }

    fn options(&self, topic: &str, properties: &[(&str, &str)]) -> KafkaOptions {
        let address = self.service.address(Protocol::Kafka).unwrap().to_string();
        let password = self.service.connection_string(None).reveal();
        let login = [
            ("bootstrap.servers", address.as_str()),
            ("security.protocol", "sasl_plaintext"),
            ("sasl.username", "$ConnectionString"),
            ("sasl.password", password.as_str()),
        ];
        let properties: Properties = login.into_iter().chain(properties.iter().copied()).collect();
        KafkaOptions::new(topic, properties)
    }

    /// Sends these values as one compressed batch.
    async fn publish(&self, values: &[&[u8]]) {
        let mut batch = EventBatch::default();
        for (number, value) in (0..).zip(values) {
            let tail = tail(value);
            let parts = EventParts {
                message: 0..tail.len() as u32,
                partition_key: 0..0,
                offset: 0..0,
                sequence_number: number,
                enqueued_time: Default::default(),
            };
            batch.push(&tail, &parts);
        }
        batch.set_encoding(Encoding::Kafka);
        let options = self.options("orders", &[("compression.type", "zstd")]);
        let mut sink = connect_sink(&options).await.unwrap();
        let events: Vec<u32> = (0..batch.len() as u32).collect();
        while sink.send(SendToken(0), OutgoingBatch::new(0, &batch, &events)).is_err() {
            within(poll_fn(|context| sink.poll_ready(context))).await.unwrap();
        }
        let mut outcomes = Vec::new();
        within(poll_fn(|context| sink.poll_outcomes(context, &mut outcomes))).await.unwrap();
        assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()), "{outcomes:?}");
    }

    /// A relay from topic to topic that unpacks no batch to more than this.
    async fn relay(&self, max_unpacked: &str, encoding: Encoding, options: RelayOptions) -> Relay {
        let batch = BatchOptions { max_events: 50, max_wait: Duration::from_millis(1) };
        let source_options = SourceOptions { batch, prefetch: 200 };
        let from = self.options("orders", &[("max.unpacked.batch.bytes", max_unpacked)]);
        let source = connect_source(&from, source_options, encoding).await.unwrap();
        let sink: Box<dyn Sink> = match encoding {
            Encoding::Amqp => self.hub("copies").await,
            _ => connect_sink(&self.options("copies", &[])).await.unwrap(),
        };
        Relay::new(options, source, vec![sink], Arc::clone(&self.store) as _).unwrap()
    }

    async fn hub(&self, name: &str) -> Box<dyn Sink> {
        let connection_string: ConnectionString = self.service.connection_string(None);
        let options = EventHubsOptions::new(connection_string, Some(name)).unwrap();
        Box::new(EventHubsSink::connect(options).await.unwrap())
    }

    /// The sequence number of the checkpoint.
    fn checkpoint(&self) -> Option<i64> {
        let group = RelayOptions::default().group;
        self.store.checkpoint(&group, PartitionId(0)).and_then(|checkpoint| checkpoint.sequence_number)
    }

    /// The lengths of the values in a topic of so many records.
    async fn records(&self, topic: &str, count: usize) -> Vec<Vec<u8>> {
        let options = self.options(topic, &[]);
        let mut source = connect_source(&options, SourceOptions::default(), Encoding::Amqp).await.unwrap();
        source.open(PartitionId(0), StartPosition::Earliest);
        let mut found = Vec::new();
        while found.len() < count {
            let event = within(poll_fn(|context| source.poll_batch(context))).await.unwrap();
            if let SourceEvent::Batch(batch) = event {
                found.extend(batch.events().iter().map(|event| batch.message(event).to_vec()));
                source.release(batch);
            }
        }
        found
    }

    /// Checks that these are what is in the topic of copies, by their ends, and that all of it is covered.
    async fn check_copies(&self, expected: &[&str]) {
        let copies = self.records("copies", expected.len()).await;
        for (copy, expected) in copies.iter().zip(expected) {
            assert!(copy.ends_with(expected.as_bytes()), "{} bytes, not {expected}", copy.len());
        }
        assert_eq!(copies.len(), expected.len());
    }
}

/// Runs a relay until its metrics say that it is enough.
async fn run(relay: Relay, enough: impl Fn(&Metrics) -> bool) -> Result<Summary, RelayError> {
    let handle = relay.metrics_handle();
    let shutdown = async {
        while let Some(metrics) = handle.metrics().await
            && !enough(&metrics)
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    within(relay.run(shutdown)).await
}

fn policy(poison_events: PoisonEvents) -> RelayOptions {
    RelayOptions { poison_events, restart_after: Duration::from_millis(20), ..RelayOptions::default() }
}

/// The tail of a record without a key.
fn tail(value: &[u8]) -> Bytes {
    let mut tail = vec![1];
    let mut length = value.len() << 1;
    while length >= 0x80 {
        tail.push(length as u8 | 0x80);
        length >>= 7;
    }
    tail.push(length as u8);
    tail.extend_from_slice(value);
    tail.push(0);
    tail.into()
}

/// What must come, under a deadline that only a failure reaches.
async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it comes in time")
}

fn check_counters(metrics: &Metrics, dead_lettered: u64) {
    let found = (metrics.poison_events, metrics.unreadable_batches, metrics.unreadable_records);
    assert_eq!((found, metrics.dead_lettered_events), ((1, 1, 3), dead_lettered));
    assert_eq!(metrics.missed_events, 0);
}

/// Reads the one line of a file of dead letters.
fn letter(path: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).expect("one line of JSON")
}

#[tokio::test]
async fn unreadable_batch_goes_to_dead_letter_file_and_relay_continues_behind_it() {
    for (encoding, dispatch_unit) in [
        (Encoding::Kafka, DispatchUnit::Batch),
        (Encoding::Amqp, DispatchUnit::Batch),
        (Encoding::Amqp, DispatchUnit::Event),
    ] {
        let setting = Setting::new().await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letters.ndjson");
        let options = RelayOptions { dispatch_unit, ..policy(PoisonEvents::DeadLetter(path.clone())) };
        let relay = setting.relay("9000", encoding, options).await;
        let summary = run(relay, |_| setting.checkpoint() == Some(4)).await.unwrap();
        check_counters(&summary.metrics, 1);
        setting.check_copies(&["before", "after"]).await;
        let letter = letter(&path);
        assert_eq!((&letter["sequence_number"], &letter["last_sequence_number"]), (&1.into(), &3.into()));
        assert_eq!(
            (&letter["records"], &letter["condition"]),
            (&3.into(), &"parshall:unreadable-records".into())
        );
        let description = letter["description"].as_str().unwrap();
        assert!(description.contains("more than 9000 bytes when unpacked"), "{description}");
        let packed = letter["message"].as_str().unwrap().len();
        assert!((80..2_000).contains(&packed), "the batch as it is, not unpacked: {packed}");
        setting.service.stop().await;
    }
}

#[tokio::test]
async fn checkpoint_passes_unreadable_batch_only_once_sink_of_dead_letters_has_it() {
    let setting = Setting::new().await;
    let mut relay = setting.relay("9000", Encoding::Amqp, policy(PoisonEvents::Hold)).await;
    relay.send_dead_letters_to(setting.hub("letters").await).unwrap();
    let summary = run(relay, |_| setting.checkpoint() == Some(4)).await.unwrap();
    check_counters(&summary.metrics, 1);
    setting.check_copies(&["before", "after"]).await;
    let letters = setting.records("letters", 1).await;
    let text = String::from_utf8_lossy(&letters[0]).into_owned();
    assert!(text.contains("parshall-last-sequence-number") && text.contains("when unpacked"), "{text}");
    setting.service.stop().await;
}

#[tokio::test]
async fn relay_that_is_to_stop_names_unreadable_batch_and_passes_it_with_no_checkpoint() {
    let setting = Setting::new().await;
    let relay = setting.relay("9000", Encoding::Kafka, policy(PoisonEvents::Stop)).await;
    let error = run(relay, |_| false).await.unwrap_err();
    let RelayError::Unreadable { first: 1, last: 3, records: 3, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(error.to_string().contains("with the numbers 1 to 3, can't be read"), "{error}");
    setting.check_copies(&["before"]).await;
    assert_eq!(setting.checkpoint(), Some(0));
    setting.service.stop().await;
}

#[tokio::test]
async fn partition_holds_before_unreadable_batch_until_it_can_be_read() {
    let setting = Setting::new().await;
    let relay = setting.relay("9000", Encoding::Kafka, policy(PoisonEvents::Hold)).await;
    let handle = relay.metrics_handle();
    let twice = |metrics: &Metrics| metrics.failed_batches >= 3 && setting.checkpoint() == Some(0);
    let held = async {
        loop {
            let health = handle.metrics().await.unwrap().health;
            if let [reason] = &health.reasons[..]
                && reason.condition == "parshall:unreadable-records"
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let (summary, ()) = tokio::join!(run(relay, twice), within(held));
    check_counters(&summary.unwrap().metrics, 0);
    let relay = setting.relay("100000", Encoding::Kafka, policy(PoisonEvents::Hold)).await;
    run(relay, |_| setting.checkpoint() == Some(4)).await.unwrap();
    setting.check_copies(&["before", "xxx", "xxx", "xxx", "after"]).await;
    setting.service.stop().await;
}
