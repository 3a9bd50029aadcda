//! Exactly once: what is sent, and the offsets of where it comes from, commit together or not at all.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use connect::checkpoint::{CheckpointStore as _, ConsumerGroup};
use connect::event::{Encoding, EnqueuedTime, EventBatch, EventParts, PartitionId};
use connect::kafka::{TransactionOffsetStore, TransactionOptions, connect_transactional_sink};
use connect::service::ServiceError;
use connect::sink::{ErrorClass, OutgoingBatch, SendError, SendToken, Sink, SinkError};
use connect::source::StartPosition;
use hub::namespace::{HubConfig, NamespaceConfig, StorageConfig};
use hub::service::{Listener, Protocol, Service, ServiceConfig};

use crate::kafka::service::{
    PARTITIONS, TOPIC, breaking_connections, options, outcomes, publish, receive, records, sink, source,
    start, tail, within,
};

/// The topic that the offsets are of.
const FROM: &str = "incoming";

fn namespace() -> NamespaceConfig {
    NamespaceConfig::with_hubs(vec![
        HubConfig::new(TOPIC, PARTITIONS as u16),
        HubConfig::new(FROM, PARTITIONS as u16),
    ])
}

async fn serve() -> Service {
    start(namespace()).await
}

fn transactions(id: &str) -> TransactionOptions {
    TransactionOptions {
        id: id.to_owned(),
        group: "mover".to_owned(),
        topic: FROM.to_owned(),
        partitions: PARTITIONS,
        interval: TransactionOptions::INTERVAL,
    }
}

async fn try_connect(
    service: &Service,
    properties: &[(&str, &str)],
    transactions: TransactionOptions,
) -> Result<Box<dyn Sink>, ServiceError> {
    within(connect_transactional_sink(&options(service, properties), transactions)).await
}

async fn connect(service: &Service, id: &str) -> Box<dyn Sink> {
    try_connect(service, &[], transactions(id)).await.unwrap()
}

/// The value of an event of the source, by which it is known again.
fn value(partition: u32, offset: i64) -> Vec<u8> {
    format!("{partition}/{offset}").into_bytes()
}

/// Events of a partition of the source.
fn events(partition: u32, offsets: std::ops::Range<i64>) -> EventBatch {
    let mut batch = EventBatch::with_capacity(PartitionId(partition), 1);
    for offset in offsets {
        push(&mut batch, offset, &value(partition, offset));
    }
    batch
}

fn push(batch: &mut EventBatch, offset: i64, value: &[u8]) {
    let message = Bytes::from(tail("key", value));
    let parts = EventParts {
        message: 0..message.len() as u32,
        partition_key: 1..4,
        offset: 0..0,
        sequence_number: offset,
        enqueued_time: EnqueuedTime::from_unix_ms(1_700_000_000_000),
    };
    batch.push(&message, &parts);
    batch.set_encoding(Encoding::Kafka);
}

/// Sends events of a partition to that of the same number. The token is the partition's number.
async fn send(sink: &mut dyn Sink, batch: &EventBatch) -> Result<(), SinkError> {
    let all: Vec<u32> = (0..batch.len() as u32).collect();
    let partition = batch.partition().0;
    let token = SendToken(u64::from(partition));
    while sink.send(token, OutgoingBatch::new(partition, batch, &all)).is_err() {
        within(poll_fn(|context| sink.poll_ready(context))).await?;
    }
    Ok(())
}

/// Sends, and waits for what becomes of it.
async fn carry(
    sink: &mut dyn Sink,
    partition: u32,
    offsets: std::ops::Range<i64>,
) -> Result<(), Box<SendError>> {
    send(sink, &events(partition, offsets)).await.unwrap();
    let mut outcomes = outcomes(sink, 1).await;
    assert_eq!((outcomes.len(), outcomes[0].token), (1, SendToken(u64::from(partition))));
    outcomes.remove(0).result
}

/// The offset that is next in each partition, as it has committed.
async fn committed(service: &Service) -> Vec<(u32, i64)> {
    let store = within(TransactionOffsetStore::open(&options(service, &[]), "mover")).await.unwrap();
    let group = ConsumerGroup::new("", FROM, "mover");
    let checkpoints = within(store.list_checkpoints(&group)).await.unwrap();
    let next = checkpoints.into_iter().map(|it| (it.partition.0, it.sequence_number.unwrap() + 1));
    next.collect()
}

/// Everything that a reader of what is committed finds, by partition.
async fn found(service: &Service) -> Vec<Vec<String>> {
    let mut to = sink(service, &[]).await;
    for partition in 0..PARTITIONS {
        publish(&mut *to, partition, &records(&[b"end".to_vec()])).await;
    }
    let mut from = source(service, &[], &StartPosition::Earliest).await;
    let mut found = vec![Vec::new(); PARTITIONS as usize];
    let mut ends = 0;
    while ends < PARTITIONS {
        for (partition, _, value) in receive(&mut *from, 1).await {
            match &value[..] {
                b"end" => ends += 1,
                _ => found[partition as usize].push(String::from_utf8(value).unwrap()),
            }
        }
    }
    found
}

/// The values of these offsets.
fn values(partition: u32, offsets: std::ops::Range<i64>) -> Vec<String> {
    offsets.map(|offset| format!("{partition}/{offset}")).collect()
}

#[tokio::test]
async fn events_and_offsets_commit_together() {
    let service = serve().await;
    let mut to = connect(&service, "mover").await;
    assert_eq!(committed(&service).await, []);
    assert_eq!(carry(&mut *to, 1, 5..25).await, Ok(()));
    assert_eq!(committed(&service).await, [(1, 25)]);
    // Of several partitions at once, and behind a gap.
    for batch in [events(0, 0..3), events(1, 30..40), events(2, 7..8)] {
        send(&mut *to, &batch).await.unwrap();
    }
    assert!(outcomes(&mut *to, 3).await.iter().all(|outcome| outcome.result.is_ok()));
    assert_eq!(committed(&service).await, [(0, 3), (1, 40), (2, 8)]);
    let expected = [values(0, 0..3), [values(1, 5..25), values(1, 30..40)].concat(), values(2, 7..8)];
    assert_eq!(found(&service).await, expected);
    service.stop().await;
}

#[tokio::test]
async fn what_is_not_in_turn_is_refused_and_commits_nothing() {
    let service = serve().await;
    let mut to = connect(&service, "mover").await;
    assert_eq!(carry(&mut *to, 0, 0..10).await, Ok(()));
    for offsets in [0..10, 9..20] {
        let refused = carry(&mut *to, 0, offsets).await.unwrap_err();
        assert_eq!((refused.class, refused.condition.as_str()), (ErrorClass::Fatal, "OUT_OF_TURN"));
    }
    // One that comes while another is under way could overtake it.
    let (one, two) = (events(0, 10..20), events(0, 20..30));
    send(&mut *to, &one).await.unwrap();
    let all: Vec<u32> = (0..10).collect();
    to.send(SendToken(77), OutgoingBatch::new(0, &two, &all)).unwrap();
    for outcome in outcomes(&mut *to, 2).await {
        assert_eq!(outcome.result.is_err(), outcome.token == SendToken(77), "{outcome:?}");
    }
    assert_eq!(committed(&service).await, [(0, 20)]);
    assert_eq!(found(&service).await[0], values(0, 0..20));
    service.stop().await;
}

#[tokio::test]
async fn a_younger_one_with_the_same_id_fences_the_older() {
    let service = serve().await;
    let mut older = connect(&service, "mover").await;
    let mut other = connect(&service, "another").await;
    assert_eq!(carry(&mut *older, 0, 0..10).await, Ok(()));
    let mut younger = connect(&service, "mover").await;
    assert_eq!(carry(&mut *younger, 0, 10..20).await, Ok(()));
    send(&mut *older, &events(0, 10..20)).await.unwrap();
    let mut none = Vec::new();
    let fenced = within(poll_fn(|context| older.poll_outcomes(context, &mut none))).await.unwrap_err();
    assert!(["PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"].contains(&&*fenced.condition), "{fenced}");
    assert!(fenced.description.contains("transactional id mover"), "{fenced}");
    assert!(none.is_empty());
    // Others are no concern of theirs.
    assert_eq!(carry(&mut *other, 1, 0..10).await, Ok(()));
    assert_eq!(carry(&mut *younger, 0, 20..30).await, Ok(()));
    assert_eq!(found(&service).await[0], values(0, 0..30));
    service.stop().await;
}

#[tokio::test]
async fn a_crash_at_any_moment_leaves_all_of_a_transaction_or_nothing() {
    const STEPS: usize = 60;
    let service = serve().await;
    let mut next = 0;
    let mut resumed = 0;
    for crash in 0..STEPS {
        let mut to = connect(&service, "mover").await;
        let begins_at = committed(&service).await.first().map_or(0, |(_, next)| *next);
        resumed += u32::from(begins_at > next);
        next = begins_at;
        send(&mut *to, &events(0, next..next + 10)).await.unwrap();
        for _ in 0..crash * 8 {
            poll_fn(|context| {
                assert!(!matches!(to.poll_outcomes(context, &mut Vec::new()), Poll::Ready(Err(_))));
                Poll::Ready(())
            })
            .await;
            tokio::task::yield_now().await;
        }
    }
    let mut to = connect(&service, "mover").await;
    let next = committed(&service).await.first().map_or(0, |(_, next)| *next);
    assert_eq!(carry(&mut *to, 0, next..next + 10).await, Ok(()));
    assert_eq!(found(&service).await[0], values(0, 0..next + 10));
    assert!(resumed > 0, "no transaction was so lucky as to commit");
    service.stop().await;
}

#[tokio::test]
async fn what_can_not_be_sent_aborts_the_transaction_and_only_it_is_to_blame() {
    let service = serve().await;
    let properties = [("message.max.bytes", "8000000")];
    let mut to = try_connect(&service, &properties, transactions("mover")).await.unwrap();
    assert_eq!(carry(&mut *to, 0, 0..5).await, Ok(()));
    let mut large = EventBatch::with_capacity(PartitionId(1), 1);
    push(&mut large, 0, &vec![b'x'; 6_000_000]);
    for batch in [&events(0, 5..10), &large, &events(2, 0..10)] {
        send(&mut *to, batch).await.unwrap();
    }
    let mut aborted = Vec::new();
    for outcome in outcomes(&mut *to, 3).await {
        match (outcome.token.0, outcome.result) {
            (1, Err(error)) => assert_eq!(error.class, ErrorClass::TooLarge, "{error}"),
            (token, Err(error)) => {
                assert_eq!((error.class, &*error.condition), (ErrorClass::Fatal, "TRANSACTION_ABORTED"));
                aborted.push(token);
            }
            // Where the large one left in a transaction of its own.
            (_, Ok(())) => {}
        }
    }
    for (partition, offsets) in [(0, 5..10), (2, 0..10)] {
        if aborted.contains(&u64::from(partition)) {
            assert_eq!(carry(&mut *to, partition, offsets).await, Ok(()));
        }
    }
    assert_eq!(carry(&mut *to, 1, 1..3).await, Ok(()));
    assert_eq!(committed(&service).await, [(0, 10), (1, 3), (2, 10)]);
    assert_eq!(found(&service).await, [values(0, 0..10), values(1, 1..3), values(2, 0..10)]);
    service.stop().await;
}

#[tokio::test]
async fn connections_that_break_lose_and_double_nothing() {
    let service = start(NamespaceConfig { profile: breaking_connections(), ..namespace() }).await;
    let mut to = connect(&service, "mover").await;
    let mut next = [0_i64; PARTITIONS as usize];
    let started = tokio::time::Instant::now();
    // Long enough for a few connections to break.
    while started.elapsed() < Duration::from_secs(3) {
        for partition in 0..PARTITIONS {
            let first = next[partition as usize];
            send(&mut *to, &events(partition, first..first + 20)).await.unwrap();
        }
        for outcome in outcomes(&mut *to, PARTITIONS as usize).await {
            match outcome.result {
                Ok(()) => next[outcome.token.0 as usize] += 20,
                Err(error) => assert_eq!(error.class, ErrorClass::Fatal, "nobody sends it again: {error}"),
            }
        }
    }
    let expected: Vec<_> = (0..PARTITIONS).map(|it| values(it, 0..next[it as usize])).collect();
    assert_eq!(found(&service).await, expected);
    assert!(next.iter().all(|next| *next > 0));
    service.stop().await;
}

/// A service that is to be found where it was before.
fn listening(namespace: NamespaceConfig, address: SocketAddr) -> ServiceConfig {
    let mut config = ServiceConfig::loopback(namespace);
    config.listeners.push(Listener::plain(Protocol::Kafka, address));
    config
}

#[tokio::test]
async fn a_service_that_comes_back_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let durable = || {
        let directory = folder.path().to_owned();
        let storage = Some(StorageConfig { directory, options: Default::default() });
        NamespaceConfig { storage, ..namespace() }
    };
    let config = |address| listening(durable(), address);
    let service = Service::start(config(([127, 0, 0, 1], 0).into())).await.unwrap();
    let address = service.address(Protocol::Kafka).unwrap();
    let mut to = connect(&service, "mover").await;
    assert_eq!(carry(&mut *to, 1, 0..10).await, Ok(()));
    service.stop().await;
    let resumed = carry(&mut *to, 1, 10..20);
    let restarted = async { Service::start(config(address)).await.unwrap() };
    let (outcome, service) = tokio::join!(resumed, restarted);
    if outcome.is_err() {
        assert_eq!(carry(&mut *to, 1, 10..20).await, Ok(()));
    }
    assert_eq!(committed(&service).await, [(1, 20)]);
    assert_eq!(found(&service).await[1], values(1, 0..20));
    service.stop().await;
}

#[tokio::test]
async fn a_transaction_that_was_open_for_too_long_is_aborted_and_comes_again() {
    let service = serve().await;
    let properties = [("transaction.timeout.ms", "1000"), ("request.timeout.ms", "500")];
    let mut to = try_connect(&service, &properties, transactions("mover")).await.unwrap();
    let mut from = source(&service, &[], &StartPosition::Earliest).await;
    let mut plain = sink(&service, &[]).await;
    let held = || service.namespace().hub(TOPIC).unwrap().counters().events_in;
    for first in [0, 10, 20] {
        send(&mut *to, &events(0, first..first + 10)).await.unwrap();
        // Left alone when its events are there, which no one has told it.
        let before = held();
        while held() == before {
            poll_fn(|context| {
                assert!(to.poll_outcomes(context, &mut Vec::new()).is_pending());
                Poll::Ready(())
            })
            .await;
            tokio::task::yield_now().await;
        }
        // What comes behind an open transaction is not read before that is aborted.
        publish(&mut *plain, 0, &records(&[b"behind".to_vec()])).await;
        while receive(&mut *from, 1).await.iter().all(|(.., value)| value != b"behind") {}
        let aborted = outcomes(&mut *to, 1).await.remove(0).result.unwrap_err();
        assert_eq!((aborted.class, &*aborted.condition), (ErrorClass::Fatal, "TRANSACTION_ABORTED"));
        assert_eq!(carry(&mut *to, 0, first..first + 10).await, Ok(()));
        assert_eq!(committed(&service).await, [(0, first + 10)]);
    }
    let mut found = found(&service).await.remove(0);
    found.retain(|value| value != "behind");
    assert_eq!(found, values(0, 0..30));
    service.stop().await;
}

#[tokio::test]
async fn a_producer_whose_id_is_forgotten_begins_anew() {
    let config = |address| listening(namespace(), address);
    let service = Service::start(config(([127, 0, 0, 1], 0).into())).await.unwrap();
    let address = service.address(Protocol::Kafka).unwrap();
    let mut to = connect(&service, "mover").await;
    assert_eq!(carry(&mut *to, 1, 0..10).await, Ok(()));
    service.stop().await;
    // One that knows of nothing.
    let service = Service::start(config(address)).await.unwrap();
    let aborted = carry(&mut *to, 1, 10..20).await.unwrap_err();
    assert_eq!((aborted.class, &*aborted.condition), (ErrorClass::Fatal, "TRANSACTION_ABORTED"));
    assert_eq!(carry(&mut *to, 1, 10..20).await, Ok(()));
    assert_eq!(committed(&service).await, [(1, 20)]);
    assert_eq!(found(&service).await[1], values(1, 10..20));
    service.stop().await;
}

#[tokio::test]
async fn a_cluster_that_can_not_keep_the_offsets_is_told_at_once() {
    let service = serve().await;
    let elsewhere = TransactionOptions { topic: "elsewhere".to_owned(), ..transactions("mover") };
    let wide = TransactionOptions { partitions: PARTITIONS + 1, ..transactions("mover") };
    for (options, told) in [(elsewhere, "has no topic elsewhere"), (wide, "of only 3 partitions")] {
        let refused = try_connect(&service, &[], options).await.unwrap_err();
        assert_eq!((refused.class, &*refused.condition), (ErrorClass::Fatal, "NO_PLACE_FOR_OFFSETS"));
        assert!(refused.description.contains(told), "{refused}");
    }
    let refused = try_connect(&service, &[("acks", "1")], transactions("mover")).await.unwrap_err();
    assert_eq!(refused.condition, "property");
    service.stop().await;
}
