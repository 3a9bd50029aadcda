//! Archives of events: in containers of the embedded service, of which each can fail as a test says, in folders, and in buckets (`buckets`).

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

mod bucket_server;
mod buckets;

use std::future::poll_fn;
use std::path::Path;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use access::storage::{StorageConnectionString, StorageCredential, StorageRequest};
use amqp::message::encode;
use bytes::Bytes;
use connect::archive::{
    self, ArchiveFiles, ArchiveOptions, ArchiveSource, BlobPlace, DIFFERENT_CONTENT, EventFormat, FileFormat,
    NAME, Place, Rolling,
};
use connect::checkpoint::blobs::MissingContainer;
use connect::event::{EnqueuedTime, EventBatch, EventParts, PartitionId};
use connect::service::ServiceError;
use connect::sink::{ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, Sink, SinkError};
use hub::front::http::blob::BlobFault;
use hub::namespace::NamespaceConfig;
use hub::service::{Protocol, Service, ServiceConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use units::ByteSize;

const CONTAINER: &str = "archive";

/// Events of a partition: their bodies, numbered from `first` on.
fn batch(first: i64, bodies: &[&[u8]]) -> EventBatch {
    let mut batch = EventBatch::with_capacity(PartitionId(3), bodies.len());
    for (number, body) in (first..).zip(bodies) {
        let mut message = Vec::new();
        encode::data(&mut message, body);
        batch.push_message(&Bytes::from(message), number);
    }
    batch
}

/// Archives all events of a batch, and gives the outcomes in their order.
async fn write(sink: &mut dyn Sink, batch: &EventBatch) -> Result<Vec<Result<(), SendError>>, SinkError> {
    let mut outcomes: Vec<SendOutcome> = Vec::new();
    for event in 0..batch.len() as u32 {
        let mut waits = Some(());
        while waits.take().is_some() {
            let token = SendToken(u64::from(event));
            if sink.send(token, OutgoingBatch::new(0, batch, &[event])).is_err() {
                waits = Some(());
                poll_fn(|context| sink.poll_ready(context)).await?;
            }
        }
    }
    while outcomes.len() < batch.len() {
        poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await?;
    }
    outcomes.sort_by_key(|outcome| outcome.token.0);
    Ok(outcomes.into_iter().map(|outcome| outcome.result.map_err(|error| *error)).collect())
}

fn source() -> ArchiveSource {
    ArchiveSource { namespace: "localhost".to_owned(), hub: "orders".to_owned() }
}

struct Storage {
    service: Service,
    connection_string: StorageConnectionString,
}

impl Storage {
    async fn start() -> Self {
        let listeners = ServiceConfig::loopback(NamespaceConfig::with_hubs(Vec::new())).and(Protocol::Blob);
        let service = Service::start(listeners).await.unwrap();
        let connection_string = service.storage_connection_string().unwrap();
        Self { service, connection_string }
    }

    fn options(&self) -> ArchiveOptions {
        ArchiveOptions::new(Place::Blob(Box::new(BlobPlace {
            missing_container: MissingContainer::Create,
            request_timeout: Duration::from_secs(10),
            ..BlobPlace::new(self.connection_string.clone(), CONTAINER)
        })))
    }

    async fn archive(&self) -> Box<dyn Sink> {
        archive::connect(&self.options(), &source()).await.unwrap()
    }

    /// Makes a request of one's own, and gives status and content of the answer.
    async fn request(&self, method: &str, place: &str, query: &[(&str, &str)]) -> (u16, Vec<u8>) {
        let url = &self.connection_string.blob_endpoint;
        let (address, account) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let path = format!("/{account}/{place}");
        let date = units::date::http_date(SystemTime::now());
        let headers = [("x-ms-date", date.as_str()), ("x-ms-version", "2021-12-02")];
        let parameters: Vec<_> = query.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        let StorageCredential::Key(key) = &self.connection_string.credential else { panic!("a key") };
        let signed = StorageRequest { method, path: &path, query: &parameters, headers: &headers };
        let authorization = key.authorization(&signed);
        let query: Vec<_> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "{method} {path}?{} HTTP/1.1\r\nHost: {address}\r\nAuthorization: {authorization}\r\nx-ms-date: {date}\r\n\
             x-ms-version: 2021-12-02\r\nConnection: close\r\n\r\n",
            query.join("&")
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
        (status, answer.split_off(end))
    }

    async fn blob(&self, name: &str) -> Option<Vec<u8>> {
        let (status, content) = self.request("GET", &format!("{CONTAINER}/{name}"), &[]).await;
        (status == 200).then_some(content)
    }
}

#[tokio::test]
async fn each_event_is_a_blob_and_writing_it_again_changes_nothing() {
    let storage = Storage::start().await;
    let mut sink = storage.archive().await;
    let large = vec![b'x'; 300_000];
    let bodies: Vec<Vec<u8>> =
        (0..500).map(|number| format!("body {number}").into_bytes()).chain([Vec::new(), large]).collect();
    let bodies: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
    let events = batch(100, &bodies);
    let outcomes = write(&mut *sink, &events).await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    for (number, body) in (100..).zip(&bodies).step_by(100).chain((600..).zip(&bodies[500..])) {
        assert_eq!(storage.blob(&format!("orders/3/{number}")).await.as_deref(), Some(*body), "{number}");
    }
    // As a relay does that starts again at its checkpoint.
    let mut again = storage.archive().await;
    let outcomes = write(&mut *again, &events).await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    storage.service.stop().await;
}

#[tokio::test]
async fn what_is_there_is_not_replaced_by_something_else() {
    let storage = Storage::start().await;
    let mut sink = storage.archive().await;
    write(&mut *sink, &batch(7, &[b"the first"])).await.unwrap()[0].clone().unwrap();
    let error = write(&mut *sink, &batch(7, &[b"another"])).await.unwrap().remove(0).unwrap_err();
    assert_eq!((error.class, error.condition.as_str()), (ErrorClass::Fatal, DIFFERENT_CONTENT), "{error}");
    assert!(error.description.contains("orders/3/7"), "{error}");
    assert_eq!(storage.blob("orders/3/7").await.unwrap(), b"the first");
    storage.service.stop().await;
}

#[tokio::test]
async fn a_busy_service_is_to_be_tried_again_and_a_container_that_is_gone_ends_the_sink() {
    let storage = Storage::start().await;
    let mut sink = storage.archive().await;
    let events = batch(0, &[b"one", b"two"]);
    storage.service.blob_faults().unwrap().set(BlobFault::Unavailable);
    for outcome in write(&mut *sink, &events).await.unwrap() {
        let error = outcome.unwrap_err();
        assert!(matches!(error.class, ErrorClass::Throttled { .. }), "{error}");
        assert_eq!(error.condition, "ServerBusy");
    }
    storage.service.blob_faults().unwrap().set(BlobFault::None);
    assert!(write(&mut *sink, &events).await.unwrap().iter().all(Result::is_ok));
    let (status, _) = storage.request("DELETE", CONTAINER, &[("restype", "container")]).await;
    assert_eq!(status, 202);
    let error = write(&mut *sink, &batch(2, &[b"three"])).await.unwrap_err();
    assert_eq!(error.condition, "ContainerNotFound", "{error}");
    storage.service.stop().await;
}

#[tokio::test]
async fn a_service_that_has_gone_is_retryable_and_an_outage() {
    let storage = Storage::start().await;
    let mut sink = storage.archive().await;
    write(&mut *sink, &batch(0, &[b"one"])).await.unwrap()[0].clone().unwrap();
    storage.service.stop().await;
    let error = write(&mut *sink, &batch(1, &[b"two"])).await.unwrap().remove(0).unwrap_err();
    assert_eq!(error.class, ErrorClass::Retryable, "{error}");
    assert!(sink.outage().is_some());
}

#[tokio::test]
async fn a_missing_container_and_a_wrong_key_are_told_at_once() {
    let storage = Storage::start().await;
    let mut missing = storage.options();
    let Place::Blob(place) = &mut missing.place else { panic!("blobs") };
    place.missing_container = MissingContainer::Refuse;
    let error = archive::connect(&missing, &source()).await.unwrap_err();
    assert_eq!(error.condition, "ContainerNotFound", "{error}");
    let text = storage.connection_string.reveal().replace("AccountKey=", "AccountKey=AAAA");
    let Place::Blob(place) = &mut missing.place else { panic!("blobs") };
    place.connection_string = text.parse().unwrap();
    let error: ServiceError = archive::connect(&missing, &source()).await.unwrap_err();
    assert!(error.description.contains("AuthenticationFailed"), "{error}");
    storage.service.stop().await;
}

async fn files(folder: &Path) -> Box<dyn Sink> {
    let options = ArchiveOptions {
        files: ArchiveFiles::PerEvent(EventFormat::Json),
        name: Some("{hub}/{partition}/{partition_key}/{sequence_number}.json".parse().unwrap()),
        ..ArchiveOptions::new(Place::Folder(folder.to_owned()))
    };
    archive::connect(&options, &source()).await.unwrap()
}

#[tokio::test]
async fn each_event_is_a_file_that_is_complete_and_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("archive");
    let mut sink = files(&place).await;
    let bodies: Vec<Vec<u8>> = (0..300).map(|number| format!("body {number}").into_bytes()).collect();
    let bodies: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
    for _ in 0..2 {
        let outcomes = write(&mut *sink, &batch(0, &bodies)).await.unwrap();
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    }
    let written: Vec<_> = std::fs::read_dir(place.join("orders/3/%")).unwrap().collect();
    assert_eq!(written.len(), 300, "and nothing beside them");
    let event = std::fs::read_to_string(place.join("orders/3/%/7.json")).unwrap();
    let event: serde_json::Value = serde_json::from_str(&event).unwrap();
    assert_eq!((event["sequence_number"].as_i64(), event["body"].as_str()), (Some(7), Some("body 7")));
    let error = write(&mut *sink, &batch(7, &[b"another"])).await.unwrap().remove(0).unwrap_err();
    assert_eq!((error.class, error.condition.as_str()), (ErrorClass::Fatal, DIFFERENT_CONTENT), "{error}");
}

#[tokio::test]
async fn an_event_whose_name_is_too_long_or_whose_message_is_none_is_refused_alone() {
    let folder = tempfile::tempdir().unwrap();
    let options = ArchiveOptions {
        name: Some(format!("{}{{partition}}/{{sequence_number}}", "long/".repeat(250)).parse().unwrap()),
        ..ArchiveOptions::new(Place::Folder(folder.path().to_owned()))
    };
    let mut sink = archive::connect(&options, &source()).await.unwrap();
    let error = write(&mut *sink, &batch(0, &[b"one"])).await.unwrap().remove(0).unwrap_err();
    assert_eq!((error.class, error.condition.as_str()), (ErrorClass::Fatal, NAME), "{error}");
    let mut no_message = EventBatch::with_capacity(PartitionId(0), 1);
    no_message.push_message(&Bytes::from_static(b"no message"), 1);
    let mut sink = files(folder.path()).await;
    let error = write(&mut *sink, &no_message).await.unwrap().remove(0).unwrap_err();
    assert_eq!((error.class, error.condition.as_str()), (ErrorClass::Fatal, "amqp:decode-error"), "{error}");
}

/// A sink of files with so many bytes at least.
async fn rolled(place: Place, size: ByteSize, format: FileFormat) -> Box<dyn Sink> {
    let rolling = Rolling { size, format, ..Rolling::default() };
    let options = ArchiveOptions {
        files: ArchiveFiles::Rolled(rolling),
        name: Some("{hub}/{partition}/{sequence_number:5}".parse().unwrap()),
        ..ArchiveOptions::new(place)
    };
    archive::connect(&options, &source()).await.unwrap()
}

/// Adds all events of a batch at once.
async fn add(sink: &mut dyn Sink, batch: &EventBatch) {
    let all: Vec<u32> = (0..batch.len() as u32).collect();
    sink.send(SendToken(0), OutgoingBatch::new(0, batch, &all)).unwrap();
    let mut outcomes = Vec::new();
    poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await.unwrap();
    assert!(outcomes[0].result.is_ok(), "{outcomes:?}");
}

/// What is said next of what is stored: through which event, or why not.
async fn stored(sink: &mut dyn Sink) -> Result<i64, SendError> {
    let mut stored = Vec::new();
    poll_fn(|context| {
        assert!(sink.poll_outcomes(context, &mut Vec::new()).is_pending());
        sink.take_stored(&mut stored);
        if stored.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let last = stored.pop().unwrap();
    assert_eq!(last.partition, PartitionId(3));
    last.result.map(|through| through.sequence_number).map_err(|error| *error)
}

fn numbers(lines: &[u8]) -> Vec<i64> {
    let lines = std::str::from_utf8(lines).unwrap().lines();
    let number =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["sequence_number"].as_i64();
    lines.map(|line| number(line).unwrap()).collect()
}

#[tokio::test]
async fn files_of_many_events_are_seen_when_they_are_complete_and_written_again_under_the_same_name() {
    let storage = Storage::start().await;
    let place = storage.options().place;
    let mut sink = rolled(place.clone(), ByteSize::from_kibibytes(1), FileFormat::Ndjson).await;
    add(&mut *sink, &batch(0, &[b"one", b"two"])).await;
    assert_eq!(storage.blob("orders/3/00000").await, None, "nobody sees what is not complete");
    add(&mut *sink, &batch(2, &[&[b'x'; 1_000]])).await;
    assert_eq!(stored(&mut *sink).await, Ok(2));
    assert_eq!(numbers(&storage.blob("orders/3/00000").await.unwrap()), [0, 1, 2]);
    add(&mut *sink, &batch(3, &[b"four"])).await;
    sink.flush(PartitionId(3));
    assert_eq!(stored(&mut *sink).await, Ok(3));

    // A relay that starts again before the first file, and ends it later; then one that ends it earlier, and is of no account.
    for (bodies, expected) in [(5_usize, 0..5), (2, 0..5)] {
        let mut again = rolled(place.clone(), ByteSize::from_mebibytes(1), FileFormat::Ndjson).await;
        add(&mut *again, &batch(0, &[&b"body"[..]].repeat(bodies))).await;
        again.flush(PartitionId(3));
        assert_eq!(stored(&mut *again).await, Ok(bodies as i64 - 1));
        let lines = storage.blob("orders/3/00000").await.unwrap();
        assert_eq!(numbers(&lines), expected.collect::<Vec<_>>());
    }
    storage.service.stop().await;
}

#[tokio::test]
async fn a_file_of_large_events_has_several_blocks_and_their_order() {
    let storage = Storage::start().await;
    let mut sink = rolled(storage.options().place, ByteSize::from_mebibytes(6), FileFormat::Avro).await;
    let body = vec![b'x'; 900_000];
    for number in 0..8 {
        while sink.send(SendToken(1), OutgoingBatch::new(0, &batch(number, &[&body]), &[0])).is_err() {
            poll_fn(|context| sink.poll_ready(context)).await.unwrap();
        }
        let mut outcomes = Vec::new();
        poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await.unwrap();
    }
    sink.flush(PartitionId(3));
    assert!(stored(&mut *sink).await.unwrap() >= 6);
    let file = storage.blob("orders/3/00000").await.unwrap();
    assert!(file.len() > 6 * 1024 * 1024 && file.starts_with(b"Obj\x01"), "{}", file.len());
    let sync = &file[474..490];
    let blocks = file.windows(16).filter(|window| window == &sync).count();
    assert_eq!(blocks, 8, "one for each of seven events, and the head");
    storage.service.stop().await;
}

#[tokio::test]
async fn what_is_forgotten_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::Folder(folder.path().to_owned());
    let mut sink = rolled(place.clone(), ByteSize::from_mebibytes(1), FileFormat::Ndjson).await;
    add(&mut *sink, &batch(0, &[b"one", b"two", b"three"])).await;
    sink.forget(PartitionId(3));
    add(&mut *sink, &batch(2, &[b"three", b"four"])).await;
    add(&mut *sink, &batch(4, &[b"five"])).await;
    sink.flush(PartitionId(3));
    assert_eq!(stored(&mut *sink).await, Ok(4));
    let names: Vec<_> = std::fs::read_dir(folder.path().join("orders/3")).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(numbers(&std::fs::read(folder.path().join("orders/3/00002")).unwrap()), [2, 3, 4]);
    let another =
        ArchiveOptions { files: ArchiveFiles::Rolled(Rolling::default()), ..ArchiveOptions::new(place) };
    let error = archive::connect(&another, &source()).await.unwrap_err();
    assert!(error.description.contains("another relay writes to it"), "{error}");
}

#[tokio::test]
async fn a_file_of_another_history_is_not_replaced() {
    let storage = Storage::start().await;
    let folder = tempfile::tempdir().unwrap();
    for place in [storage.options().place, Place::Folder(folder.path().to_owned())] {
        for format in [FileFormat::Ndjson, FileFormat::Avro, FileFormat::Parquet] {
            let name = format!("{{hub}}/{format:?}/{{partition}}/{{sequence_number}}");
            let rolling = Rolling { format, ..Rolling::default() };
            let options = ArchiveOptions {
                files: ArchiveFiles::Rolled(rolling),
                name: Some(name.parse().unwrap()),
                ..ArchiveOptions::new(place.clone())
            };
            let mut sink = archive::connect(&options, &source()).await.unwrap();
            let mut write = async |enqueued_ms: i64, count: usize| {
                let mut message = Vec::new();
                encode::data(&mut message, b"body");
                let mut batch = EventBatch::with_capacity(PartitionId(3), count);
                for number in 0..count as i64 {
                    let parts = EventParts {
                        message: 0..message.len() as u32,
                        partition_key: 0..0,
                        offset: 0..0,
                        sequence_number: number,
                        enqueued_time: EnqueuedTime::from_unix_ms(enqueued_ms),
                    };
                    batch.push(&Bytes::from(message.clone()), &parts);
                }
                sink.forget(PartitionId(3));
                add(&mut *sink, &batch).await;
                sink.flush(PartitionId(3));
                stored(&mut *sink).await
            };
            assert_eq!(write(1_000_000, 2).await, Ok(1));
            assert_eq!(write(1_000_000, 3).await, Ok(2), "the same history goes on");
            assert_eq!(write(1_000_000, 1).await, Ok(0), "what is there has it, and stays");
            if let (FileFormat::Ndjson, Place::Folder(folder)) = (format, &place) {
                let lines = std::fs::read(folder.join("orders/Ndjson/3/0")).unwrap();
                assert_eq!(numbers(&lines), [0, 1, 2]);
            }
            let error = write(2_000_000, 4).await.unwrap_err();
            assert_eq!(error.condition, DIFFERENT_CONTENT, "{format:?} {error}");
        }
    }
    storage.service.stop().await;
}

#[tokio::test]
async fn a_container_that_is_gone_ends_the_sink_of_files() {
    let storage = Storage::start().await;
    let mut sink = rolled(storage.options().place, ByteSize::from_mebibytes(1), FileFormat::Ndjson).await;
    add(&mut *sink, &batch(0, &[b"one"])).await;
    let (status, _) = storage.request("DELETE", CONTAINER, &[("restype", "container")]).await;
    assert_eq!(status, 202);
    sink.flush(PartitionId(3));
    let error = poll_fn(|context| match sink.poll_outcomes(context, &mut Vec::new()) {
        Poll::Ready(Err(error)) => Poll::Ready(error),
        _ => Poll::Pending,
    });
    let error = error.await;
    assert_eq!(error.condition, "ContainerNotFound", "{error}");
    storage.service.stop().await;
}
