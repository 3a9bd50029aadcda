//! Hubs over the Kafka protocol, as a client sees them that does what no library would do.
//!
//! Real clients are in `compat/`.

use std::time::{Instant, SystemTime};

use hub::namespace::{HubConfig, NamespaceConfig, RightConfig, RuleConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use kafka::ApiKey;
use kafka::record;
use kafka::record_batch::RecordBatch;
use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, InitProducerIdRequest, InitProducerIdResponse, MetadataRequest,
    MetadataResponse, ProduceResponse, SaslAuthenticateRequest, SaslAuthenticateResponse,
    SaslHandshakeRequest, SaslHandshakeResponse, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;
use partition_log::NewRecord;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::kafka_peer::{Peer, batch, fetch, produce, service, start, within};

#[tokio::test]
async fn a_version_that_is_too_new_is_answered_with_those_that_there_are() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let answer: ApiVersionsResponse = peer.ask(ApiKey::ApiVersions, 4, &ApiVersionsRequest::default()).await;
    assert_eq!(answer.error_code, 0);
    let telemetry = 71..=72;
    assert!(answer.api_keys.iter().all(|it| !telemetry.contains(&it.api_key)));
    let newest = answer.api_keys.iter().find(|it| it.api_key == 18).unwrap().max_version;
    // As a client of the future would ask: the header can be read in any version.
    peer.sent += 1;
    let header =
        [&[0, 18][..], &(newest + 1).to_be_bytes(), &peer.sent.to_be_bytes(), &[0, 0, 0, 1, 1, 1, 0]];
    peer.send_frame(&header.concat()).await;
    let answer: ApiVersionsResponse = peer.hear(ApiKey::ApiVersions, 0).await;
    assert_eq!((answer.error_code, answer.api_keys.iter().any(|it| it.api_key == 18)), (35, true));
    service.stop().await;
}

#[tokio::test]
async fn what_is_no_request_closes_its_connection_and_no_other() {
    let service = service().await;
    let mut other = Peer::new(&service).await;
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 8],
        &[0x7f, 0xff, 0xff, 0xff, 0, 0],
        // A size, an unknown key; a known key in an unknown version; a request that breaks off.
        &[0, 0, 0, 10, 3, 0xe7, 0, 0, 0, 0, 0, 1, 0xff, 0xff],
        &[0, 0, 0, 10, 0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff],
        &[0, 0, 0, 12, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0],
        // Produce of the message format that there was before batches.
        &[0, 0, 0, 12, 0, 0, 0, 2, 0, 0, 0, 1, 0xff, 0xff, 0, 1],
    ] {
        let mut peer = Peer::new(&service).await;
        peer.stream.write_all(bytes).await.unwrap();
        assert!(peer.is_closed().await, "{bytes:?}");
    }
    let answer: MetadataResponse =
        other.ask(ApiKey::Metadata, 12, &MetadataRequest::default().with_topics(None)).await;
    let [events] = &answer.topics[..] else { panic!("one topic") };
    assert_eq!((events.name.as_deref().map(|it| it.as_str()), events.partitions.len()), (Some("Events"), 2));
    let address = service.address(Protocol::Kafka).unwrap();
    let [broker] = &answer.brokers[..] else { panic!("one broker") };
    assert_eq!((broker.host.as_str(), broker.port), ("127.0.0.1", i32::from(address.port())));
    service.stop().await;
}

#[tokio::test]
async fn a_namespace_with_keys_of_its_own_is_closed_to_those_without_one() {
    let mut namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 2)]);
    namespace.authorization_rules = vec![
        RuleConfig { name: "all".into(), key: "secret".into(), rights: vec![RightConfig::Manage] },
        RuleConfig { name: "reader".into(), key: "reading".into(), rights: vec![RightConfig::Listen] },
    ];
    let service = start(namespace).await;
    let mut peer = Peer::new(&service).await;
    peer.send(ApiKey::Metadata, 9, &MetadataRequest::default()).await;
    assert!(peer.is_closed().await);

    let log_in = async |mechanism: &'static str, message: &'static str| {
        let mut peer = Peer::new(&service).await;
        let mechanism = StrBytes::from_static_str(mechanism);
        let request = SaslHandshakeRequest::default().with_mechanism(mechanism);
        let answer: SaslHandshakeResponse = peer.ask(ApiKey::SaslHandshake, 1, &request).await;
        let request = SaslAuthenticateRequest::default().with_auth_bytes(message.into());
        let result: SaslAuthenticateResponse = peer.ask(ApiKey::SaslAuthenticate, 2, &request).await;
        (peer, answer.error_code, result.error_code)
    };
    assert_eq!(log_in("SCRAM-SHA-256", "n,,n=all").await.1, 33);
    for message in ["", "\0all", "\0all\0wrong", "\0$ConnectionString\0nonsense", "\0someone\0secret"] {
        assert_eq!(log_in("PLAIN", message).await.2, 58, "{message:?}");
    }
    let (mut all, _, error) = log_in("PLAIN", "\0all\0secret").await;
    assert_eq!(error, 0);
    assert_eq!(all.produce(&produce("Events", 0, batch(&[b"x"]))).await, (0, 0));
    let (mut reader, _, error) = log_in("PLAIN", "\0reader\0reading").await;
    assert_eq!(error, 0);
    assert_eq!(reader.produce(&produce("Events", 0, batch(&[b"x"]))).await, (29, -1));
    assert_eq!(reader.fetch(&fetch(0, 0, 0)).await.0, 0);
    // The login of the first clients: a token in a frame, without a header.
    let mut old = Peer::new(&service).await;
    let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("PLAIN"));
    let _: SaslHandshakeResponse = old.ask(ApiKey::SaslHandshake, 0, &request).await;
    old.send_frame(b"\0all\0secret").await;
    assert_eq!(old.frame().await, b"");
    assert_eq!(old.produce(&produce("Events", 0, batch(&[b"x"]))).await, (0, 1));
    service.stop().await;
}

#[tokio::test]
async fn a_batch_that_is_none_is_refused_by_what_is_wrong_with_it() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let good = || batch(&[b"one", b"two"]);
    let with = |at: usize, value: u8| {
        let mut batch = good();
        batch[at] = value;
        batch
    };
    for (request, error) in [
        (produce("Events", 0, with(70, 0xff)), 2),
        (produce("Events", 0, good()[..80].to_vec()), 2),
        (produce("Events", 0, with(16, 1)), 43),
        (produce("Events", 0, with(7, 1)), 87),
        (produce("Events", 0, [good(), good()].concat()), 87),
        (produce("Events", 0, vec![0; 2 << 20]), 10),
        (produce("Events", 2, good()), 3),
        (produce("Events", -1, good()), 3),
        (produce("events", 0, good()), 3),
        (produce("missing", 0, good()), 3),
        (produce("Events", 0, good()).with_acks(2), 21),
        (produce("Events", 0, good()).with_transactional_id(Some(TransactionalId("t".into()))), 48),
    ] {
        assert_eq!(peer.produce(&request).await, (error, -1));
    }
    assert_eq!(peer.produce(&produce("Events", 0, good())).await, (0, 0));
    service.stop().await;
}

#[tokio::test]
async fn requests_may_follow_one_another_and_are_answered_in_their_order_unless_they_want_no_answer() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    for _ in 0..100 {
        peer.send(ApiKey::Produce, 9, &produce("Events", 0, batch(&[b"acknowledged"]))).await;
    }
    for offset in 0..100 {
        let answer: ProduceResponse = peer.hear(ApiKey::Produce, 9).await;
        assert_eq!(answer.responses[0].partition_responses[0].base_offset, offset);
    }
    peer.send(ApiKey::Produce, 9, &produce("Events", 0, batch(&[b"not"])).with_acks(0)).await;
    peer.heard += 1;
    assert_eq!(peer.produce(&produce("Events", 0, batch(&[b"after"]))).await, (0, 101));
    service.stop().await;
}

#[tokio::test]
async fn a_fetch_waits_for_events_whatever_they_come_over() {
    let service = service().await;
    let (mut reader, mut writer) = (Peer::new(&service).await, Peer::new(&service).await);
    reader.send(ApiKey::Fetch, 12, &fetch(0, 0, 600_000)).await;
    // What is sent behind it is answered behind it.
    reader.send(ApiKey::Metadata, 9, &MetadataRequest::default()).await;
    assert_eq!(writer.produce(&produce("Events", 1, batch(&[b"elsewhere"]))).await, (0, 0));
    assert_eq!(writer.produce(&produce("Events", 0, batch(&[b"here"]))).await, (0, 0));
    let (error, records) = reader.fetched().await;
    let read = RecordBatch::read(&records).unwrap();
    assert_eq!((error, read.bytes().len(), read.base_offset()), (0, records.len(), 0));
    let _: MetadataResponse = reader.hear(ApiKey::Metadata, 9).await;

    reader.send(ApiKey::Fetch, 12, &fetch(0, 1, 600_000)).await;
    let hub = service.namespace().hub("Events").unwrap();
    let append = hub.partitions()[0].append(SystemTime::now().into(), |encoder| {
        encoder.push(&NewRecord { annotation_count: 0, annotations: &[], sections: &[b"\0Su\xa0\x04amqp"] });
        Ok::<_, ()>(())
    });
    append.unwrap();
    let (error, records) = reader.fetched().await;
    let read = RecordBatch::read(&records).unwrap();
    assert_eq!((error, read.base_offset(), read.record_count()), (0, 1, 1));
    let record = record::Records::of(read.records()).next().unwrap().unwrap();
    assert_eq!(record.value, Some(&b"amqp"[..]));

    // One that waits hears of the end of its hub.
    reader.send(ApiKey::Fetch, 12, &fetch(0, 2, 600_000)).await;
    service.namespace().delete_hub("Events").unwrap();
    assert_eq!(reader.fetched().await, (3, vec![]));
    // And one that waits does not keep the service from stopping.
    service.namespace().create_hub(&HubConfig::new("Events", 1), SystemTime::now().into()).unwrap();
    reader.send(ApiKey::Fetch, 12, &fetch(0, 0, 600_000)).await;
    within(service.stop()).await;
}

#[tokio::test]
async fn an_answer_has_whole_batches_the_first_of_them_whatever_its_size() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let large = vec![7; 500_000];
    for _ in 0..3 {
        peer.produce(&produce("Events", 0, batch(&[&large]))).await;
    }
    let length = batch(&[&large]).len();
    let mut narrow = fetch(0, 0, 0).with_max_bytes(10);
    narrow.topics[0].partitions[0].partition_max_bytes = 10;
    assert_eq!(peer.fetch(&narrow).await.1.len(), length);
    assert_eq!(
        peer.fetch(&fetch(0, 0, 0)).await.1.len(),
        2 * length,
        "a third one would be beyond the bound"
    );
    assert_eq!(peer.fetch(&fetch(0, 3, 0)).await, (0, vec![]), "the end is no error");
    assert_eq!(peer.fetch(&fetch(0, 4, 0)).await.0, 1);
    assert_eq!(peer.fetch(&fetch(0, -1, 0)).await.0, 1);
    let with_epoch = |epoch| {
        let mut request = fetch(0, 0, 0);
        request.topics[0].partitions[0].current_leader_epoch = epoch;
        request
    };
    assert_eq!(peer.fetch(&with_epoch(7)).await.0, 75);
    assert_eq!(peer.fetch(&with_epoch(0)).await.0, 0);
    service.stop().await;
}

#[tokio::test]
async fn whoever_asks_and_asks_and_does_not_listen_is_answered_no_faster_than_it_listens() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let large = vec![7; 500_000];
    for _ in 0..2 {
        peer.produce(&produce("Events", 0, batch(&[&large]))).await;
    }
    let asked = 200;
    for _ in 0..asked {
        peer.send(ApiKey::Fetch, 12, &fetch(0, 0, 0)).await;
    }
    // The service holds no more than it can write: it has not even looked at most of the requests.
    let delivered = service.namespace().counters().events_out;
    assert!(delivered < asked, "{delivered} of {}", 2 * asked);
    for _ in 0..asked {
        assert_eq!(peer.fetched().await.0, 0);
    }
    assert_eq!(service.namespace().counters().events_out, 2 * asked);
    service.stop().await;
}

#[tokio::test]
async fn producers_are_told_apart_and_numbered_batches_are_stored_once() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let request =
        || InitProducerIdRequest::default().with_transactional_id(None).with_transaction_timeout_ms(60_000);
    let first: InitProducerIdResponse = peer.ask(ApiKey::InitProducerId, 4, &request()).await;
    let second: InitProducerIdResponse = peer.ask(ApiKey::InitProducerId, 4, &request()).await;
    assert_ne!(first.producer_id, second.producer_id);
    let next = request().with_producer_id(first.producer_id).with_producer_epoch(0);
    let next: InitProducerIdResponse = peer.ask(ApiKey::InitProducerId, 4, &next).await;
    assert_eq!((next.producer_id, next.producer_epoch), (first.producer_id, 1));
    let numbered = |sequence: i32| {
        let mut batch = batch(&[b"x"]);
        batch[43..51].copy_from_slice(&first.producer_id.0.to_be_bytes());
        batch[51..53].copy_from_slice(&0_i16.to_be_bytes());
        batch[53..57].copy_from_slice(&sequence.to_be_bytes());
        let checksum = crc32c::crc32c(&batch[21..]);
        batch[17..21].copy_from_slice(&checksum.to_be_bytes());
        produce("Events", 0, batch)
    };
    assert_eq!(peer.produce(&numbered(0)).await, (0, 0));
    assert_eq!(peer.produce(&numbered(0)).await, (0, 0), "a retry is answered as before");
    assert_eq!(peer.produce(&numbered(2)).await, (45, -1));
    assert_eq!(peer.produce(&numbered(1)).await, (0, 1));
    assert_eq!(service.namespace().counters().events_duplicate, 1);
    service.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_counted_as_such_and_not_as_malformed() {
    let config = ServiceConfig::loopback(NamespaceConfig::with_hubs(Vec::new()));
    let service = Service::start(config.and(Protocol::Kafka).and(Protocol::Operations)).await.unwrap();
    let mut silent = TcpStream::connect(service.address(Protocol::Kafka).unwrap()).await.unwrap();
    assert_eq!(silent.read(&mut [0; 1]).await.unwrap(), 0, "it is closed");
    // Nothing else is to be in a hurry.
    tokio::time::resume();
    let mut page = TcpStream::connect(service.address(Protocol::Operations).unwrap()).await.unwrap();
    page.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut metrics = String::new();
    within(page.read_to_string(&mut metrics)).await.unwrap();
    for expected in
        ["parshall_kafka_connections_unproven_total 1", "parshall_kafka_requests_malformed_total 0"]
    {
        assert!(metrics.lines().any(|line| line == expected), "{expected} is not in:\n{metrics}");
    }
    service.stop().await;
}

#[tokio::test]
async fn events_sent_over_http_come_with_their_properties_as_headers() {
    let service = service().await;
    let token = service.connection_string(None);
    let access::Credential::Key(key) = token.credential else { panic!("services have keys") };
    let token = key.sign("http://localhost/", SystemTime::now() + std::time::Duration::from_secs(600));
    let mut http = TcpStream::connect(service.amqp_address()).await.unwrap();
    let request = format!(
        "POST /events/partitions/0/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\nConnection: close\r\n\
         Content-Type: text/plain\r\nPriority: High\r\nContent-Length: 4\r\n\r\nbody"
    );
    http.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    within(http.read_to_string(&mut reply)).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 201"), "{reply}");
    let mut peer = Peer::new(&service).await;
    let (error, batch) = peer.fetch(&fetch(0, 0, 0)).await;
    assert_eq!(error, 0);
    let batch = RecordBatch::read(&batch).unwrap();
    let record = record::Records::of(batch.records()).next().unwrap().unwrap();
    assert_eq!((record.key, record.value), (None, Some(&b"body"[..])));
    let headers: Vec<_> = record.headers.iter().map(|(name, value)| (name, value.unwrap())).collect();
    assert_eq!(headers, [("content-type", &b"text/plain"[..]), ("Priority", b"\xa1\x04High")]);
    service.stop().await;
}

#[tokio::test]
async fn requests_do_not_wait_for_the_answers_before_them_that_a_profile_holds_back() {
    let mut namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 1)]);
    namespace.profile = serde_json::from_str(
        r#"{"round_trip": "4 ms", "service_time": {"send": "30 ms", "request": "10 ms"}}"#,
    )
    .unwrap();
    let service = start(namespace).await;
    let mut peer = Peer::new(&service).await;
    let start = Instant::now();
    let _: MetadataResponse = peer.ask(ApiKey::Metadata, 12, &MetadataRequest::default()).await;
    // TCP's handshake as well.
    assert!(start.elapsed().as_millis() >= 18);
    let mut together = Vec::new();
    for number in 0..5_u8 {
        let frame = peer.frame_of(ApiKey::Produce, 9, &produce("Events", 0, batch(&[&[number]])));
        together.extend_from_slice(&u32::try_from(frame.len()).unwrap().to_be_bytes());
        together.extend_from_slice(&frame);
    }
    let start = Instant::now();
    peer.stream.write_all(&together).await.unwrap();
    let _: ProduceResponse = peer.hear(ApiKey::Produce, 9).await;
    assert!(start.elapsed().as_millis() >= 34);
    assert_eq!(service.namespace().counters().events_in, 5, "all came with the first");
    for _ in 1..5 {
        let answer: ProduceResponse = peer.hear(ApiKey::Produce, 9).await;
        assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    }
    service.stop().await;
}
