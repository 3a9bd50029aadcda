//! Memory that all Kafka clients share: what happens at the bounds, and that everyone else is served meanwhile.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::io::ErrorKind;
use std::time::SystemTime;

use hub::namespace::{HubConfig, NamespaceConfig, RightConfig, RuleConfig};
use hub::service::{Protocol, Service};
use kafka::ApiKey;
use kafka::record_batch::RecordBatch;
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use partition_log::{LogLimits, NewRecord, PartitionLog};
use test_peer::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use units::ByteSize;

use crate::kafka_peer::{Peer, batch, fetch, start};

/// A frame that announces `length` bytes and has all but one of them.
fn unfinished(length: u32) -> Vec<u8> {
    let mut frame = length.to_be_bytes().to_vec();
    frame.resize(frame.len() + length as usize - 1, 0);
    frame
}

/// A service that requires a login, as with keys of its own.
pub(crate) async fn guarded() -> Service {
    let mut namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("events", 1)]);
    namespace.authorization_rules =
        vec![RuleConfig { name: "all".into(), key: "secret".into(), rights: vec![RightConfig::Manage] }];
    start(namespace).await
}

/// `count` clients without a login, each with a request of `length` bytes that is not complete.
pub(crate) async fn unfinished_requests(service: &Service, count: usize, length: u32) -> Vec<TcpStream> {
    let address = service.address(Protocol::Kafka).unwrap();
    let frame = unfinished(length);
    let mut strangers = Vec::new();
    for _ in 0..count {
        let mut stranger = TcpStream::connect(address).await.unwrap();
        // One that is refused may be closed before it has sent everything.
        let _ = within("the request", stranger.write_all(&frame)).await;
        strangers.push(stranger);
    }
    strangers
}

#[tokio::test]
async fn unfinished_requests_without_login_are_bounded_together() {
    let service = guarded().await;
    // All of them would hold 36 MiB.
    let mut strangers = unfinished_requests(&service, 300, 120 * 1024).await;
    for refused in &mut strangers[200..] {
        // A reset is an end as well.
        assert!(!matches!(within("the end", refused.read(&mut [0])).await, Ok(1..)));
    }
    let mut witness = Peer::new(&service).await;
    let versions: ApiVersionsResponse =
        witness.ask(ApiKey::ApiVersions, 3, &ApiVersionsRequest::default()).await;
    assert_eq!(versions.error_code, 0);
    for waiting in &strangers[..100] {
        let read = waiting.try_read(&mut [0]);
        assert!(read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "it is still served");
    }
    service.stop().await;
}

/// Length of each event below.
const EVENT: usize = 900_000;

/// Size of the log below, and of the largest answer to a fetch.
const LOG: ByteSize = ByteSize::from_mebibytes(16);

/// A service with a hub of one partition.
pub(crate) async fn small_log() -> Service {
    let log = Some(LogLimits { bytes: LOG, ..LogLimits::default() });
    let hub = HubConfig { log, ..HubConfig::new("Events", 1) };
    start(NamespaceConfig::with_hubs(vec![hub])).await
}

/// A client that has asked for all events of the log, and reads nothing.
async fn reader(service: &Service, log: &PartitionLog) -> Peer {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let stream = socket.connect(service.address(Protocol::Kafka).unwrap()).await.unwrap();
    let mut peer = Peer { stream, sent: 0, heard: 0 };
    let mut request = fetch(0, log.stats().begin_sequence_number.cast_signed(), 0);
    request.topics[0].partitions[0].partition_max_bytes = i32::MAX;
    peer.send(ApiKey::Fetch, 12, &request).await;
    // The answer has been made when it begins to arrive.
    within("the answer or the end", peer.stream.readable()).await.unwrap();
    peer
}

/// Returns the bytes in use for a purpose, and the number of refusals.
pub(crate) async fn usage(service: &Service, purpose: &str) -> (u64, u64) {
    let metrics = service.metrics().open_metrics().await;
    let figure = |name| figure(&metrics, name, purpose);
    (figure("parshall_memory_shared_bytes"), figure("parshall_memory_shared_refused_total"))
}

/// Returns the value of a metric for a purpose.
pub(crate) fn figure(metrics: &str, name: &str, purpose: &str) -> u64 {
    let series = format!("{name}{{purpose=\"{purpose}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&series)).unwrap().parse().unwrap()
}

/// Waits until the bytes in use for a purpose are at most `bytes`.
pub(crate) async fn falls_to(service: &Service, purpose: &str, bytes: u64) {
    within("memory is given back", async {
        while usage(service, purpose).await.0 > bytes {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Reads until the connection ends or an answer is complete. Returns whether it is.
async fn hears_all(mut peer: Peer) -> bool {
    let size = peer.stream.read_u32().await;
    let Ok(size) = size else { return false };
    let mut frame = vec![0; size as usize];
    within("the answer or its end", peer.stream.read_exact(&mut frame)).await.is_ok()
}

/// Has clients ask for all events of a log and read nothing, while retention removes the events, until one is refused.
pub(crate) async fn readers_of_removed_events(service: &Service) -> Vec<Peer> {
    let hub = service.namespace().hub("Events").unwrap();
    let log = hub.partitions()[0].log();
    let bytes = batch(&[&[7; EVENT]]);
    let batch = RecordBatch::check(&bytes).unwrap();
    let mut readers = Vec::new();
    while usage(service, "reader-events").await.1 == 0 {
        assert!(readers.len() < 60, "they would keep 900 MiB");
        // The whole log is another one afterwards.
        for _ in 0..=LOG.as_usize() / EVENT {
            log.append_record_batch(SystemTime::now().into(), &batch).unwrap();
        }
        readers.push(reader(service, log).await);
        falls_to(service, "reader-events", 256 << 20).await;
    }
    readers
}

/// Has clients ask for all events of a log, which came over AMQP, and read nothing, until one is refused.
pub(crate) async fn readers_of_converted_events(service: &Service) -> Vec<Peer> {
    let hub = service.namespace().hub("Events").unwrap();
    let log = hub.partitions()[0].log();
    let body = [&b"\0Su\xb0"[..], &(EVENT as u32).to_be_bytes(), &[7; EVENT]].concat();
    for _ in 0..=LOG.as_usize() / EVENT {
        let record = NewRecord { annotation_count: 0, annotations: &[], sections: &[&body] };
        log.append_records(SystemTime::now().into(), &[record]).unwrap();
    }
    let mut readers = Vec::new();
    while usage(service, "kafka-answers").await.1 == 0 {
        assert!(readers.len() < 40, "they would keep 600 MiB");
        readers.push(reader(service, log).await);
        assert!(usage(service, "kafka-answers").await.0 <= 256 << 20);
    }
    readers
}

/// Asserts that as many clients were closed as refused, and that their memory is given back.
async fn assert_bounded(service: &Service, readers: Vec<Peer>, purpose: &str) {
    assert!(readers.len() > 4, "only {} readers were served", readers.len());
    let mut closed = 0;
    for reader in readers {
        closed += u64::from(!hears_all(reader).await);
    }
    assert_eq!(closed, usage(service, purpose).await.1);
    falls_to(service, purpose, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_keep_a_bounded_part_of_what_retention_has_removed() {
    let service = small_log().await;
    let readers = readers_of_removed_events(&service).await;
    assert_bounded(&service, readers, "reader-events").await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_converted_for_answers_are_bounded_together() {
    let service = small_log().await;
    let readers = readers_of_converted_events(&service).await;
    assert_bounded(&service, readers, "kafka-answers").await;
    service.stop().await;
}
