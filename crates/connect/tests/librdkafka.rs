//! librdkafka as a source and a sink, against the embedded service.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use connect::event::{Encoding, EnqueuedTime, EventBatch, EventParts, PartitionId};
use connect::kafka::{self, Client, KafkaOptions, Properties};
use connect::sink::{ErrorClass, OutgoingBatch, SendOutcome, SendToken, Sink};
use connect::source::{BatchOptions, Source, SourceEvent, SourceOptions, StartPosition};
use hub::namespace::{HubConfig, NamespaceConfig, RightConfig, RuleConfig};
use hub::service::{Protocol, Service, ServiceConfig};

/// The tail of a record with key, value and headers.
fn tail(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[(&[u8], Option<&[u8]>)]) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, key);
    put(&mut out, value);
    varint(&mut out, headers.len() as i32);
    for (name, value) in headers {
        put(&mut out, Some(name));
        put(&mut out, *value);
    }
    out
}

fn put(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    varint(out, bytes.map_or(-1, |bytes| bytes.len() as i32));
    out.extend_from_slice(bytes.unwrap_or_default());
}

fn varint(out: &mut Vec<u8>, value: i32) {
    let mut rest = ((value << 1) ^ (value >> 31)).cast_unsigned();
    while rest > 0x7f {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A value without key and headers.
fn plain(value: &[u8]) -> Vec<u8> {
    tail(None, Some(value), &[])
}

fn batch(tails: &[Vec<u8>], unix_ms: i64) -> EventBatch {
    let mut batch = EventBatch::with_capacity(PartitionId(0), tails.len());
    for tail in tails {
        let parts = EventParts {
            message: 0..tail.len() as u32,
            partition_key: 0..0,
            offset: 0..0,
            sequence_number: 0,
            enqueued_time: EnqueuedTime::from_unix_ms(unix_ms),
        };
        batch.push(&Bytes::copy_from_slice(tail), &parts);
    }
    batch.set_encoding(Encoding::Kafka);
    batch
}

async fn serve(partitions: u16) -> (Service, KafkaOptions) {
    serve_in(NamespaceConfig::with_hubs(vec![HubConfig::new("events", partitions)])).await
}

async fn serve_in(namespace: NamespaceConfig) -> (Service, KafkaOptions) {
    let service = Service::start(ServiceConfig::loopback(namespace).and(Protocol::Kafka)).await.unwrap();
    let options = options(&service, &[]);
    (service, options)
}

fn options(service: &Service, properties: &[(&str, &str)]) -> KafkaOptions {
    let bootstrap = service.address(Protocol::Kafka).unwrap().to_string();
    let all: Properties =
        properties.iter().copied().chain([("bootstrap.servers", bootstrap.as_str())]).collect();
    KafkaOptions { topic: "events".to_owned(), client: Client::Librdkafka, properties: all }
}

fn at_once(prefetch: usize) -> SourceOptions {
    SourceOptions { batch: BatchOptions { max_events: 100, max_wait: Duration::ZERO }, prefetch }
}

async fn outcomes(sink: &mut dyn Sink, count: usize) -> Vec<SendOutcome> {
    let mut outcomes = Vec::new();
    while outcomes.len() < count {
        let waited = poll_fn(|context| sink.poll_outcomes(context, &mut outcomes));
        tokio::time::timeout(PATIENCE, waited).await.expect("an outcome").unwrap();
    }
    outcomes
}

async fn send(sink: &mut dyn Sink, partition: u32, tails: &[Vec<u8>]) {
    let batch = batch(tails, NOW);
    let indices: Vec<u32> = (0..tails.len() as u32).collect();
    while sink.send(SendToken(7), OutgoingBatch::new(partition, &batch, &indices)).is_err() {
        tokio::time::timeout(PATIENCE, poll_fn(|context| sink.poll_ready(context))).await.unwrap().unwrap();
    }
    let outcomes = outcomes(sink, 1).await;
    assert_eq!(outcomes[0].token, SendToken(7));
    outcomes[0].result.as_ref().unwrap();
}

async fn next(source: &mut dyn Source) -> SourceEvent {
    let waited = poll_fn(|context| source.poll_batch(context));
    tokio::time::timeout(PATIENCE, waited).await.expect("something to happen").unwrap()
}

/// The next `count` events as partition, number and message.
async fn receive(source: &mut dyn Source, count: usize) -> Vec<(u32, i64, Vec<u8>)> {
    let mut events = Vec::new();
    while events.len() < count {
        match next(source).await {
            SourceEvent::Batch(batch) => {
                let of_batch = batch
                    .events()
                    .iter()
                    .map(|event| (batch.partition().0, event.sequence_number, batch.message(event).to_vec()));
                events.extend(of_batch);
                source.release(batch);
            }
            other => panic!("a batch, not {other:?}"),
        }
    }
    events
}

#[tokio::test]
async fn what_is_sent_comes_back_as_it_was() {
    let (service, options) = serve(2).await;
    let mut sink = kafka::connect_sink(&options).await.unwrap();
    assert_eq!(
        (sink.destinations(), sink.takes(Encoding::Kafka), sink.takes(Encoding::Opaque)),
        (2, true, false)
    );
    let long = vec![b'x'; 10_000];
    let tails = [
        plain(b""),
        tail(Some(b"key"), Some(b"value"), &[(b"one", Some(b"1")), (b"none", None), (b"one", Some(b"2"))]),
        tail(Some(b""), None, &[]),
        plain(&long),
    ];
    send(sink.as_mut(), 1, &tails).await;

    let mut source = kafka::connect_source(&options, at_once(100), Encoding::Kafka).await.unwrap();
    assert_eq!(source.partitions(), [PartitionId(0), PartitionId(1)]);
    for partition in source.partitions() {
        source.open(partition, StartPosition::Earliest);
    }
    let SourceEvent::Batch(first) = next(source.as_mut()).await else { panic!("a batch") };
    assert!(first.events().iter().all(|event| event.enqueued_time.unix_ms() == NOW));
    assert_eq!(first.partition(), PartitionId(1));
    let mut received: Vec<_> = first.events().iter().map(|event| first.message(event).to_vec()).collect();
    let keys: Vec<_> =
        first.events().iter().map(|event| first.partition_key(event).map(<[u8]>::to_vec)).collect();
    assert_eq!(keys[..2], [None, Some(b"key".to_vec())]);
    let rest = tails.len() - first.len();
    source.release(first);
    received.extend(receive(source.as_mut(), rest).await.into_iter().map(|(_, _, message)| message));
    assert_eq!(received, tails);
    assert_eq!(kafka::ends(&options).await.unwrap(), [(PartitionId(1), 3)]);
    source.shut_down().await;
    service.stop().await;
}

#[tokio::test]
async fn a_header_whose_name_is_no_text_harms_nobody() {
    let (service, options) = serve(1).await;
    let odd = tail(None, Some(b"x"), &[(&[0xff, 0xfe], Some(b"y")), (b"name", None)]);
    let mut sink = kafka::connect_sink(&options).await.unwrap();
    let events = batch(std::slice::from_ref(&odd), NOW);
    sink.send(SendToken(1), OutgoingBatch::new(0, &events, &[0])).unwrap();
    let refused = outcomes(sink.as_mut(), 1).await.remove(0).result.unwrap_err();
    assert_eq!((refused.class, refused.condition.as_str()), (ErrorClass::Fatal, "INVALID_RECORD"));

    // Who does not look into records sends it.
    let native = KafkaOptions { client: Client::Native, ..options.clone() };
    let mut other = kafka::connect_sink(&native).await.unwrap();
    send(other.as_mut(), 0, &[odd.clone(), plain(b"next")]).await;
    for encoding in [Encoding::Kafka, Encoding::Amqp] {
        let mut source = kafka::connect_source(&options, at_once(10), encoding).await.unwrap();
        source.open(PartitionId(0), StartPosition::Earliest);
        let received: Vec<_> =
            receive(source.as_mut(), 2).await.into_iter().map(|(_, _, message)| message).collect();
        match encoding {
            Encoding::Kafka => assert_eq!(received, [odd.clone(), plain(b"next")]),
            _ => {
                let annotations = convert::annotations::of_message(&received[0]).unwrap();
                let [odd, named] = annotations.headers[..] else { panic!("{annotations:?}") };
                assert_eq!((odd, named), ((&[0xff, 0xfe][..], Some(&b"y"[..])), (&b"name"[..], None)));
                assert!(received[0].ends_with(b"\x00\x53\x75\xa0\x01x"));
            }
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn records_become_messages_where_those_are_wanted() {
    let (service, options) = serve(1).await;
    let mut sink = kafka::connect_sink(&options).await.unwrap();
    send(sink.as_mut(), 0, &[plain(b"abc"), tail(Some(b"key"), Some(b"d"), &[(b"name", Some(b"v"))])]).await;
    let mut source = kafka::connect_source(&options, at_once(10), Encoding::Amqp).await.unwrap();
    assert_eq!(source.encoding(), Encoding::Amqp);
    source.open(PartitionId(0), StartPosition::Earliest);
    let messages = receive(source.as_mut(), 2).await;
    assert_eq!(messages[0].2, b"\x00\x53\x75\xa0\x03abc");
    let (head, body) = messages[1].2.split_at(messages[1].2.len() - 6);
    let key = convert::annotations::of_message(head).unwrap().key;
    assert_eq!(key, Some(&b"key"[..]));
    assert!(head.windows(3).any(|bytes| bytes == b"\x00\x53\x74"), "application properties");
    assert_eq!(body, b"\x00\x53\x75\xa0\x01d");

    // And messages records.
    let mut back = batch(&[messages[0].2.clone(), messages[1].2.clone()], NOW);
    back.set_encoding(Encoding::Amqp);
    sink.send(SendToken(1), OutgoingBatch::new(0, &back, &[0, 1])).unwrap();
    outcomes(sink.as_mut(), 1).await.remove(0).result.unwrap();
    let mut records = kafka::connect_source(&options, at_once(10), Encoding::Kafka).await.unwrap();
    records.open(PartitionId(0), StartPosition::AtSequenceNumber(2));
    let records = receive(records.as_mut(), 2).await;
    assert_eq!(records[0].2, plain(b"abc"));
    assert!(records[1].2.windows(4).any(|bytes| bytes == b"name"), "the header is there");
    service.stop().await;
}

#[tokio::test]
async fn a_source_begins_where_it_is_told_to() {
    let (service, options) = serve(1).await;
    let mut sink = kafka::connect_sink(&options).await.unwrap();
    let tails: Vec<_> = (0..10_u8).map(|number| plain(&[number])).collect();
    send(sink.as_mut(), 0, &tails).await;
    let mut source = kafka::connect_source(&options, at_once(100), Encoding::Kafka).await.unwrap();
    for (start, first) in [
        (StartPosition::Earliest, 0),
        (StartPosition::AtSequenceNumber(4), 4),
        (StartPosition::AfterSequenceNumber(4), 5),
        (StartPosition::AfterOffset("7".to_owned()), 8),
        (StartPosition::AtEnqueuedTime(EnqueuedTime::from_unix_ms(NOW)), 0),
        (StartPosition::AfterSequenceNumber(8), 9),
    ] {
        source.open(PartitionId(0), start.clone());
        let events = receive(source.as_mut(), 10 - first).await;
        let numbers: Vec<_> = events.iter().map(|(_, number, _)| *number).collect();
        assert_eq!(numbers, (first as i64..10).collect::<Vec<_>>(), "{start:?}");
        assert_eq!(events[0].2, tails[first]);
    }
    source.open(PartitionId(0), StartPosition::AfterSequenceNumber(9));
    send(sink.as_mut(), 0, &[plain(b"new")]).await;
    assert_eq!(receive(source.as_mut(), 1).await, [(0, 10, plain(b"new"))]);

    source.open(PartitionId(0), StartPosition::AtSequenceNumber(1_000));
    let SourceEvent::PartitionClosed { partition, error } = next(source.as_mut()).await else {
        panic!("it is closed")
    };
    assert_eq!((partition, error.is_position_refused()), (PartitionId(0), true), "{error}");
    source.open(PartitionId(3), StartPosition::Earliest);
    let SourceEvent::PartitionClosed { partition, .. } = next(source.as_mut()).await else {
        panic!("it is closed")
    };
    assert_eq!(partition, PartitionId(3));
    service.stop().await;
}

#[tokio::test]
async fn no_more_is_handed_over_than_may_be_unreleased() {
    let (service, options) = serve(1).await;
    let mut sink = kafka::connect_sink(&options).await.unwrap();
    let tails: Vec<_> = (0..250_u32).map(|number| plain(&number.to_be_bytes())).collect();
    send(sink.as_mut(), 0, &tails).await;
    let mut source = kafka::connect_source(&options, at_once(100), Encoding::Kafka).await.unwrap();
    source.open(PartitionId(0), StartPosition::Earliest);
    let (mut held, mut count) = (Vec::new(), 0);
    while count < 100 {
        let SourceEvent::Batch(batch) = next(source.as_mut()).await else { panic!("a batch") };
        count += batch.len();
        held.push(batch);
    }
    assert_eq!((count, source.is_exhausted()), (100, true));
    held.into_iter().for_each(|batch| source.release(batch));
    let rest = receive(source.as_mut(), 150).await;
    assert_eq!(rest.last().unwrap().1, 249);
    source.close(PartitionId(0));
    service.stop().await;
}

#[tokio::test]
async fn every_send_has_one_outcome_whatever_the_acknowledgements() {
    let (service, _) = serve(4).await;
    for acks in ["0", "1", "all"] {
        let options = options(&service, &[("acks", acks), ("compression.type", "lz4"), ("linger.ms", "1")]);
        let mut sink = kafka::connect_sink(&options).await.unwrap();
        let events = batch(&(0..50_u8).map(|number| plain(&[number])).collect::<Vec<_>>(), NOW);
        let indices: Vec<u32> = (0..50).collect();
        for token in 0..100 {
            sink.send(SendToken(token), OutgoingBatch::new(token as u32 % 4, &events, &indices)).unwrap();
        }
        let mut tokens: Vec<_> =
            outcomes(sink.as_mut(), 100).await.into_iter().map(|outcome| outcome.token.0).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..100).collect::<Vec<_>>(), "acks={acks}");
    }
    let ends = kafka::ends(&options(&service, &[])).await.unwrap();
    assert_eq!(ends.iter().map(|(_, last)| last + 1).sum::<i64>(), 3 * 100 * 50);
    service.stop().await;
}

#[tokio::test]
async fn a_full_queue_is_busy_until_there_is_room() {
    let (service, _) = serve(1).await;
    let options = options(&service, &[("queue.buffering.max.messages", "10"), ("linger.ms", "1")]);
    let mut sink = kafka::connect_sink(&options).await.unwrap();
    let events = batch(&[plain(b"a"), plain(b"b"), plain(b"c"), plain(b"d")], NOW);
    let (mut sent, mut answered) = (0, 0);
    while sent < 20 {
        match sink.send(SendToken(sent), OutgoingBatch::new(0, &events, &[0, 1, 2, 3])) {
            Ok(()) => sent += 1,
            Err(_busy) => {
                answered += outcomes(sink.as_mut(), 1).await.len();
                tokio::time::timeout(PATIENCE, poll_fn(|context| sink.poll_ready(context)))
                    .await
                    .unwrap()
                    .unwrap();
            }
        }
    }
    outcomes(sink.as_mut(), 20 - answered).await;
    assert_eq!(kafka::ends(&options).await.unwrap(), [(PartitionId(0), 79)], "none is lost or twice");
    service.stop().await;
}

#[tokio::test]
async fn a_record_that_is_too_large_says_so() {
    let (service, _) = serve(1).await;
    let options = options(&service, &[("message.max.bytes", "2000")]);
    let mut sink = kafka::connect_sink(&options).await.unwrap();
    let events = batch(&[plain(&[0; 3_000])], NOW);
    sink.send(SendToken(1), OutgoingBatch::new(0, &events, &[0])).unwrap();
    let error = outcomes(sink.as_mut(), 1).await.remove(0).result.unwrap_err();
    assert_eq!((error.class, error.condition.as_str()), (ErrorClass::TooLarge, "MESSAGE_TOO_LARGE"));
    service.stop().await;
}

#[tokio::test]
async fn what_can_not_work_is_an_error_of_connecting() {
    let mut namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("events", 1)]);
    namespace.authorization_rules =
        vec![RuleConfig { name: "all".into(), key: "secret".into(), rights: vec![RightConfig::Manage] }];
    let (service, _) = serve_in(namespace).await;
    let login = |password| {
        [
            ("security.protocol", "sasl_plaintext"),
            ("sasl.mechanisms", "PLAIN"),
            ("sasl.username", "all"),
            ("sasl.password", password),
        ]
    };
    let known = options(&service, &login("secret"));
    assert_eq!(kafka::connect_sink(&known).await.unwrap().destinations(), 1);
    let refused = kafka::connect_sink(&options(&service, &login("wrong"))).await.unwrap_err();
    assert_eq!(
        (refused.class, refused.condition.as_str()),
        (ErrorClass::Fatal, "SASL_AUTHENTICATION_FAILED"),
        "{refused}"
    );
    let refused =
        kafka::connect_source(&options(&service, &login("wrong")), at_once(1), Encoding::Kafka).await;
    assert_eq!(refused.unwrap_err().class, ErrorClass::Fatal);

    let elsewhere = KafkaOptions { topic: "nowhere".to_owned(), ..known.clone() };
    let refused = kafka::connect_source(&elsewhere, at_once(1), Encoding::Kafka).await.unwrap_err();
    assert_eq!(refused.condition, "UNKNOWN_TOPIC_OR_PARTITION", "{refused}");
    service.stop().await;

    let refused = kafka::connect_sink(&known).await.unwrap_err();
    assert_eq!(
        (refused.class, refused.condition.as_str()),
        (ErrorClass::Retryable, "connection:unreachable"),
        "{refused}"
    );
    assert!(refused.description.contains("refused"), "why: {refused}");
}

#[test]
fn properties_are_checked_by_the_library_before_anything_is_connected() {
    let with = |name: &str, value: &str| {
        let properties = Properties::default().with("bootstrap.servers", "localhost:1").with(name, value);
        KafkaOptions { topic: "t".to_owned(), client: Client::Librdkafka, properties }
    };
    with("socket.nagle.disable", "true").check_sink().unwrap();
    with("fetch.wait.max.ms", "10").check_source().unwrap();
    for (name, value, reason) in [
        ("linger.mss", "1", "No such configuration property"),
        ("acks", "5000", "outside allowed range"),
        ("compression.type", "lzma", "Invalid value"),
        ("auto.offset.reset", "earliest", "has no effect"),
        ("security.protocol", "sasl_ssl", "without OpenSSL"),
    ] {
        for error in
            [with(name, value).check_sink().unwrap_err(), with(name, value).check_source().unwrap_err()]
        {
            assert_eq!(error.name, name);
            assert!(error.reason.contains(reason), "{error}");
        }
    }
    let nowhere = KafkaOptions { properties: Properties::default(), ..with("acks", "1") };
    assert_eq!(nowhere.check_sink().unwrap_err().name, "bootstrap.servers");
}

#[tokio::test]
async fn the_library_says_what_it_has_measured() {
    let (service, _) = serve(1).await;
    let options = options(&service, &[("statistics.interval.ms", "1000"), ("linger.ms", "0")]);
    let mut sink = kafka::connect_sink(&options).await.unwrap();
    let mut statistics = sink.client_statistics().unwrap();
    while statistics.queued.count == 0 {
        send(sink.as_mut(), 0, &[plain(b"x")]).await;
        statistics = sink.client_statistics().unwrap();
    }
    assert!(statistics.reports > 0 && statistics.round_trip.count > 0 && statistics.buffered.count > 0);
    assert!(statistics.queued.max_us >= statistics.queued.min_us && statistics.queued.mean_us().is_some());
    service.stop().await;
}

#[tokio::test]
async fn a_service_that_comes_back_is_sent_to_again() {
    let (service, options) = serve(1).await;
    let mut sink = kafka::connect_sink(&options).await.unwrap();
    send(sink.as_mut(), 0, &[plain(b"before")]).await;
    let address = service.address(Protocol::Kafka).unwrap();
    service.stop().await;
    let events = batch(&[plain(b"meanwhile")], NOW);
    sink.send(SendToken(3), OutgoingBatch::new(0, &events, &[0])).unwrap();
    let namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("events", 1)]);
    let mut config = ServiceConfig::loopback(namespace).and(Protocol::Kafka);
    config.listeners.last_mut().unwrap().address = address;
    let service = Service::start(config).await.unwrap();
    outcomes(sink.as_mut(), 1).await.remove(0).result.unwrap();
    assert!(sink.outage().is_none());
    assert_eq!(kafka::ends(&options).await.unwrap(), [(PartitionId(0), 0)]);
    service.stop().await;
}

const NOW: i64 = 1_700_000_000_123;

const PATIENCE: Duration = Duration::from_secs(30);
