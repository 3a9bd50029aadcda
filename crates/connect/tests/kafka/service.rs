//! A service with a topic, and what sends to it and receives from it.

use std::future::{Future, poll_fn};
use std::time::Duration;

use bytes::Bytes;
use connect::event::{Encoding, EnqueuedTime, EventBatch, EventParts, PartitionId};
use connect::kafka::{KafkaOptions, Properties, connect_sink, connect_source};
use connect::sink::{OutgoingBatch, SendOutcome, SendToken, Sink};
use connect::source::{BatchOptions, Source, SourceError, SourceEvent, SourceOptions, StartPosition};
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::profile::{FailureConfig, ProfileConfig, Ratio};
use hub::service::{Protocol, Service, ServiceConfig};
use units::Rate;

pub(crate) async fn serve() -> Service {
    start(NamespaceConfig::with_hubs(vec![HubConfig::new(TOPIC, PARTITIONS as u16)])).await
}

pub(crate) async fn start(namespace: NamespaceConfig) -> Service {
    Service::start(ServiceConfig::loopback(namespace).and(Protocol::Kafka)).await.unwrap()
}

/// How to reach the topic of a service, with these properties besides.
pub(crate) fn options(service: &Service, properties: &[(&str, &str)]) -> KafkaOptions {
    let address = service.address(Protocol::Kafka).unwrap().to_string();
    let password = service.connection_string(None).reveal();
    let login = [
        ("bootstrap.servers", address.as_str()),
        ("security.protocol", "sasl_plaintext"),
        ("sasl.username", "$ConnectionString"),
        ("sasl.password", password.as_str()),
    ];
    KafkaOptions::new(TOPIC, login.into_iter().chain(properties.iter().copied()).collect::<Properties>())
}

pub(crate) async fn sink(service: &Service, properties: &[(&str, &str)]) -> Box<dyn Sink> {
    within(connect_sink(&options(service, properties))).await.unwrap()
}

pub(crate) async fn source(
    service: &Service,
    properties: &[(&str, &str)],
    start: &StartPosition,
) -> Box<dyn Source> {
    let batch = BatchOptions { max_events: 50, max_wait: Duration::from_millis(1) };
    let source_options = SourceOptions { batch, prefetch: 200 };
    let options = options(service, properties);
    let connecting = connect_source(&options, source_options, Encoding::Kafka);
    let mut source = within(connecting).await.unwrap();
    for partition in source.partitions() {
        source.open(partition, start.clone());
    }
    source
}

/// The tail of a record with a key and a header, shorter than 64 bytes each.
pub(crate) fn tail(key: &str, value: &[u8]) -> Vec<u8> {
    let mut tail = Vec::new();
    let headers = [(&b"name"[..], Some(&b"header"[..]))];
    kafka::record::encode_tail(&mut tail, Some(key.as_bytes()), Some(value), headers.into_iter());
    tail
}

/// Records with these values, as they come from a source. The key is `key`, and the time that of their number.
pub(crate) fn records(values: &[Vec<u8>]) -> EventBatch {
    let mut batch = EventBatch::default();
    for (number, value) in (0..).zip(values) {
        let message = Bytes::from(tail("key", value));
        let parts = EventParts {
            message: 0..message.len() as u32,
            partition_key: 1..4,
            offset: 0..0,
            sequence_number: number,
            enqueued_time: EnqueuedTime::from_unix_ms(1_700_000_000_000 + number),
        };
        batch.push(&message, &parts);
    }
    batch.set_encoding(Encoding::Kafka);
    batch
}

/// Sends a batch to a partition, and waits until it is taken.
pub(crate) async fn send(sink: &mut dyn Sink, token: u64, partition: u32, batch: &EventBatch) {
    let events: Vec<u32> = (0..batch.len() as u32).collect();
    while sink.send(SendToken(token), OutgoingBatch::new(partition, batch, &events)).is_err() {
        within(poll_fn(|context| sink.poll_ready(context))).await.unwrap();
    }
}

/// Waits for so many outcomes.
pub(crate) async fn outcomes(sink: &mut dyn Sink, count: usize) -> Vec<SendOutcome> {
    let mut outcomes = Vec::new();
    while outcomes.len() < count {
        within(poll_fn(|context| sink.poll_outcomes(context, &mut outcomes))).await.unwrap();
    }
    outcomes
}

/// Sends, and sees to it that it is accepted.
pub(crate) async fn publish(sink: &mut dyn Sink, partition: u32, batch: &EventBatch) {
    send(sink, 7, partition, batch).await;
    for outcome in outcomes(sink, 1).await {
        assert_eq!((outcome.token, outcome.result), (SendToken(7), Ok(())));
    }
}

/// Receives so many records: partition, number and value of each. Those of one partition have to come in order.
pub(crate) async fn receive(source: &mut dyn Source, count: usize) -> Vec<(u32, i64, Vec<u8>)> {
    let mut received = Vec::new();
    while received.len() < count {
        let batch = match within(poll_fn(|context| source.poll_batch(context))).await.unwrap() {
            SourceEvent::Batch(batch) => batch,
            other => panic!("a batch, not {other:?}"),
        };
        assert_eq!(batch.encoding(), source.encoding());
        for event in batch.events() {
            assert_eq!(batch.partition_key(event), Some(&b"key"[..]));
            let message = batch.message(event);
            let value = match batch.encoding() {
                Encoding::Kafka => value(message),
                _ => message.to_vec(),
            };
            received.push((batch.partition().0, event.sequence_number, value));
        }
        source.release(batch);
    }
    received
}

/// The value in the tail of a record.
pub(crate) fn value(tail: &[u8]) -> Vec<u8> {
    // A record is a tail behind a length, no attributes, and two deltas.
    let mut record = Vec::new();
    kafka::write::varint(&mut record, tail.len() as i32 + 3);
    record.extend_from_slice(&[0, 0, 0]);
    record.extend_from_slice(tail);
    let record = kafka::record::Records::of(&record).next().unwrap().unwrap();
    assert_eq!(record.headers.iter().collect::<Vec<_>>(), [("name", Some(&b"header"[..]))]);
    record.value.unwrap_or_default().to_vec()
}

/// Waits until a partition closes.
pub(crate) async fn closed(source: &mut dyn Source) -> (PartitionId, SourceError) {
    match within(poll_fn(|context| source.poll_batch(context))).await.unwrap() {
        SourceEvent::PartitionClosed { partition, error } => (partition, error),
        other => panic!("a closed partition, not {other:?}"),
    }
}

/// What must come, under a deadline that only a failure reaches.
pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it comes in time")
}

/// Values that can be told apart, of so many bytes each.
pub(crate) fn values(count: u32, length: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| number.to_be_bytes().into_iter().cycle().take(length).collect()).collect()
}

pub(crate) const TOPIC: &str = "orders";
pub(crate) const PARTITIONS: u32 = 3;

/// Answers that are lost, and connections that break, now and then.
pub(crate) fn breaking_connections() -> ProfileConfig {
    ProfileConfig {
        failures: FailureConfig {
            acknowledgement_ratio: Ratio::new(0.1).unwrap(),
            detach_ratio: Ratio::new(0.1).unwrap(),
            disconnect_ratio: Ratio::new(0.1).unwrap(),
            disconnect_per_s: Rate::per_second(4.0).ok(),
            ..FailureConfig::default()
        },
        ..ProfileConfig::default()
    }
}
