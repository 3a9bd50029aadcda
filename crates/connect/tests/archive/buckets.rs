//! Archives in buckets, of S3 and of Google Cloud Storage.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use amqp::message::encode;
use bytes::Bytes;
use connect::archive::{
    self, ArchiveFiles, ArchiveOptions, BucketCredentials, BucketPlace, DIFFERENT_CONTENT, FileFormat, NAME,
    Place, Rolling,
};
use connect::event::{EnqueuedTime, EventBatch, EventParts, PartitionId};
use connect::service::ServiceError;
use connect::sink::{ErrorClass, OutgoingBatch, SendError, SendToken, Sink};
use units::ByteSize;

use crate::archive::bucket_server::{BUCKET, BucketServer, Fault};
use crate::archive::{add, batch, numbers, rolled, source, stored, write};

const SCHEMES: [&str; 2] = ["s3", "gs"];

fn place(server: &BucketServer, scheme: &str) -> BucketPlace {
    let credentials = match scheme {
        "s3" => BucketCredentials::AccessKey {
            id: "id".to_owned(),
            secret: "secret".into(),
            session_token: Some("token".into()),
        },
        _ => BucketCredentials::ServiceAccount(
            "{\"gcs_base_url\":\"\",\"disable_oauth\":true,\"client_email\":\"\",\"private_key\":\"\",\"private_key_id\":\"\"}"
                .into(),
        ),
    };
    BucketPlace {
        endpoint: Some(server.endpoint.clone()),
        credentials,
        request_timeout: Duration::from_secs(10),
        ..BucketPlace::new(format!("{scheme}://{BUCKET}/kept/here").parse().unwrap())
    }
}

fn options(server: &BucketServer, scheme: &str) -> ArchiveOptions {
    ArchiveOptions::new(Place::Bucket(Box::new(place(server, scheme))))
}

async fn open(server: &BucketServer, scheme: &str) -> Box<dyn Sink> {
    archive::connect(&options(server, scheme), &source()).await.unwrap()
}

async fn refused(options: &ArchiveOptions) -> ServiceError {
    archive::connect(options, &source()).await.unwrap_err()
}

/// The outcome of the only event.
async fn outcome(sink: &mut dyn Sink, batch: &EventBatch) -> Result<(), SendError> {
    write(sink, batch).await.unwrap().remove(0)
}

#[tokio::test]
async fn each_event_is_an_object_and_writing_it_again_changes_nothing() {
    for scheme in SCHEMES {
        let server = BucketServer::start().await;
        let bodies: Vec<Vec<u8>> = (0..300)
            .map(|number| format!("body {number}").into_bytes())
            .chain([Vec::new(), vec![b'x'; 300_000]])
            .collect();
        let bodies: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
        let events = batch(100, &bodies);
        // The second time as a relay does that starts again at its checkpoint.
        for _ in 0..2 {
            let mut sink = open(&server, scheme).await;
            let outcomes = write(&mut *sink, &events).await.unwrap();
            assert!(outcomes.iter().all(Result::is_ok), "{scheme} {outcomes:?}");
        }
        assert_eq!(server.names().len(), bodies.len());
        for (number, body) in (100..).zip(&bodies) {
            assert_eq!(
                server.content(&format!("kept/here/orders/3/{number}")).as_deref(),
                Some(*body),
                "{number}"
            );
        }
        let content_type = server.header("kept/here/orders/3/100", "content-type");
        assert_eq!(content_type.as_deref(), Some("application/octet-stream"));
    }
}

#[tokio::test]
async fn what_is_there_is_not_replaced_by_something_else() {
    for scheme in SCHEMES {
        let server = BucketServer::start().await;
        let mut sink = open(&server, scheme).await;
        outcome(&mut *sink, &batch(7, &[b"first"])).await.unwrap();
        let error = outcome(&mut *sink, &batch(7, &[b"other"])).await.unwrap_err();
        assert_eq!(
            (error.class, error.condition.as_str()),
            (ErrorClass::Fatal, DIFFERENT_CONTENT),
            "{error}"
        );
        assert!(error.description.contains("://archive/kept/here/orders/3/7"), "{error}");
        assert_eq!(server.content("kept/here/orders/3/7").unwrap(), b"first");
        // Copied by something that lost the metadata.
        server.remove_metadata("kept/here/orders/3/7");
        outcome(&mut *sink, &batch(7, &[b"first"])).await.unwrap();
        // Where it can't be told what is there, nothing is taken for granted.
        server.set(Fault::NoLook);
        let error = write(&mut *sink, &batch(7, &[b"first"])).await.unwrap_err();
        assert!(error.description.contains("the right to read is needed"), "{error}");
    }
}

#[tokio::test]
async fn a_refusal_is_an_outcome_an_outage_or_the_end() {
    let server = BucketServer::start().await;
    let mut sink = open(&server, "s3").await;
    let events = batch(0, &[b"one"]);
    let throttled = ErrorClass::Throttled { retry_after: Duration::from_secs(3) };
    for (status, code, retry_after, class) in [
        (503, "SlowDown", Some(3), throttled),
        (429, "TooManyRequests", Some(3), throttled),
        (409, "ConditionalRequestConflict", None, ErrorClass::Retryable),
        (500, "InternalError", None, ErrorClass::Retryable),
    ] {
        server.set(Fault::Refusal(status, code, retry_after));
        let error = outcome(&mut *sink, &events).await.unwrap_err();
        assert_eq!((error.class, error.condition.as_str()), (class, code));
        assert!(sink.outage().is_none());
    }
    server.set(Fault::Refusal(400, "KeyTooLongError", None));
    let error = outcome(&mut *sink, &events).await.unwrap_err();
    assert_eq!((error.class, error.condition.as_str()), (ErrorClass::Fatal, NAME), "of this event alone");
    server.set(Fault::None);
    outcome(&mut *sink, &events).await.unwrap();
    for code in ["NoSuchBucket", "AccessDenied"] {
        server.set(Fault::Refusal(if code == "AccessDenied" { 403 } else { 404 }, code, None));
        let error = write(&mut *sink, &batch(1, &[b"two"])).await.unwrap_err();
        assert_eq!(error.condition, code, "{error}");
        server.set(Fault::None);
        sink = open(&server, "s3").await;
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_bucket_is_told_at_once() {
    let server = BucketServer::start().await;
    for (fault, condition) in [
        (Fault::Refusal(403, "InvalidAccessKeyId", None), "InvalidAccessKeyId"),
        (Fault::NoConditions, "archive:conditions"),
    ] {
        server.set(fault);
        let error = refused(&options(&server, "s3")).await;
        assert_eq!((error.class, error.condition.as_str()), (ErrorClass::Fatal, condition), "{error}");
        assert!(error.description.starts_with("s3://archive/kept/here: "), "{error}");
    }
    // What is never replaced needs no condition for that.
    server.set(Fault::NoIfMatch);
    let single = options(&server, "s3");
    archive::connect(&single, &source()).await.unwrap();
    let many = ArchiveOptions { files: ArchiveFiles::Rolled(Rolling::default()), ..single.clone() };
    assert_eq!(refused(&many).await.condition, "archive:conditions");
    server.set(Fault::None);
    let missing = BucketPlace { url: "s3://another".parse().unwrap(), ..place(&server, "s3") };
    let missing = ArchiveOptions::new(Place::Bucket(Box::new(missing)));
    assert_eq!(refused(&missing).await.condition, "NoSuchBucket");
    let unreachable = BucketPlace { endpoint: Some("http://127.0.0.1:1".to_owned()), ..place(&server, "s3") };
    let unreachable = ArchiveOptions::new(Place::Bucket(Box::new(unreachable)));
    assert_eq!(refused(&unreachable).await.condition, "connection:unreachable");
}

#[tokio::test]
async fn a_service_without_answers_is_an_outage() {
    let server = BucketServer::start().await;
    let short = BucketPlace { request_timeout: Duration::from_millis(100), ..place(&server, "s3") };
    let short = ArchiveOptions::new(Place::Bucket(Box::new(short)));
    let mut sink = archive::connect(&short, &source()).await.unwrap();
    server.hold();
    let error = outcome(&mut *sink, &batch(0, &[b"one"])).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Retryable, "{error}");
    assert!(error.description.contains("no reply within"), "{error}");
    assert!(sink.outage().is_some());
    server.release(1_000);
    outcome(&mut *sink, &batch(0, &[b"one"])).await.unwrap();
    assert!(sink.outage().is_none());
}

#[tokio::test]
async fn no_key_leads_out_of_the_prefix() {
    let server = BucketServer::start().await;
    let named = ArchiveOptions {
        name: Some("{hub}/{partition_key}/{partition}/{sequence_number}".parse().unwrap()),
        ..options(&server, "s3")
    };
    let mut sink = archive::connect(&named, &source()).await.unwrap();
    let keys: [&[u8]; 8] =
        [b"../../../etc", b"..", b"/", b"?versionId=1", b"#", b"a\0b", "ä +&".as_bytes(), b"%2e%2e/x"];
    for (number, key) in (0..).zip(keys) {
        outcome(&mut *sink, &with_key(number, key)).await.unwrap();
    }
    let expected =
        ["%2e.%2f..%2f..%2fetc", "%2e%2e", "%2f", "?versionId=1", "#", "a%00b", "ä +&", "%252e%252e%2fx"];
    let mut expected: Vec<_> =
        (0..).zip(expected).map(|(number, key)| format!("kept/here/orders/{key}/3/{number}")).collect();
    expected.sort();
    assert_eq!(server.names(), expected);
}

fn with_key(number: i64, key: &[u8]) -> EventBatch {
    let mut chunk = key.to_vec();
    encode::data(&mut chunk, b"body");
    let parts = EventParts {
        message: key.len() as u32..chunk.len() as u32,
        partition_key: 0..key.len() as u32,
        offset: 0..0,
        sequence_number: number,
        enqueued_time: EnqueuedTime::from_unix_ms(1_700_000_000_000),
    };
    let mut batch = EventBatch::with_capacity(PartitionId(3), 1);
    batch.push(&Bytes::from(chunk), &parts);
    batch
}

#[tokio::test]
async fn files_of_many_events_are_put_when_they_are_complete_and_again_only_with_more() {
    for scheme in SCHEMES {
        let server = BucketServer::start().await;
        let place = || Place::Bucket(Box::new(place(&server, scheme)));
        let mut sink = rolled(place(), ByteSize::from_kibibytes(1), FileFormat::Ndjson).await;
        add(&mut *sink, &batch(0, &[b"one", b"two"])).await;
        assert_eq!(server.names(), [""; 0], "nothing is there before it is complete");
        add(&mut *sink, &batch(2, &[&[b'x'; 1_000]])).await;
        assert_eq!(stored(&mut *sink).await, Ok(2));
        let name = "kept/here/orders/3/00000";
        assert_eq!(numbers(&server.content(name).unwrap()), [0, 1, 2]);
        let prefix = if scheme == "s3" { "x-amz-meta" } else { "x-goog-meta" };
        for (metadata, value) in [("first", "0"), ("last", "2"), ("count", "3")] {
            assert_eq!(server.header(name, &format!("{prefix}-{metadata}")).as_deref(), Some(value));
        }
        // A relay that starts again before the file, and ends it later; then one that ends it earlier, and is of no account.
        for (bodies, expected) in [(5_usize, 0..5), (2, 0..5)] {
            let mut again = rolled(place(), ByteSize::from_mebibytes(1), FileFormat::Ndjson).await;
            add(&mut *again, &batch(0, &[&b"body"[..]].repeat(bodies))).await;
            again.flush(PartitionId(3));
            assert_eq!(stored(&mut *again).await, Ok(bodies as i64 - 1));
            assert_eq!(numbers(&server.content(name).unwrap()), expected.collect::<Vec<_>>());
        }
        // Another event of the same number: the hub was made again.
        let mut other = rolled(place(), ByteSize::from_mebibytes(1), FileFormat::Ndjson).await;
        add(&mut *other, &with_key(0, b"k")).await;
        other.flush(PartitionId(3));
        assert_eq!(stored(&mut *other).await.unwrap_err().condition, DIFFERENT_CONTENT);
        assert_eq!(numbers(&server.content(name).unwrap()).len(), 5);
    }
}

#[tokio::test]
async fn a_file_waits_for_as_long_as_a_throttled_service_asks() {
    let server = BucketServer::start().await;
    let mut sink = rolled(options(&server, "s3").place, ByteSize::from_mebibytes(1), FileFormat::Avro).await;
    add(&mut *sink, &batch(0, &[b"one"])).await;
    server.set(Fault::Refusal(503, "SlowDown", Some(1)));
    server.hold();
    sink.flush(PartitionId(3));
    let begin = tokio::time::Instant::now();
    server.release(1);
    let waiting = async {
        let stored = stored(&mut *sink).await;
        (stored, begin.elapsed())
    };
    let fixing = async {
        // It is refused once.
        while server.writings_free() > 0 {
            tokio::task::yield_now().await;
        }
        server.set(Fault::None);
        server.release(10);
    };
    let ((stored, waited), ()) = tokio::join!(waiting, fixing);
    assert_eq!(stored, Ok(0));
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
    assert_eq!(server.names(), ["kept/here/orders/3/00000"]);
}

#[tokio::test]
async fn a_bucket_that_is_gone_ends_the_sink_of_files_and_a_refused_key_its_partition() {
    let server = BucketServer::start().await;
    let mut sink =
        rolled(options(&server, "s3").place, ByteSize::from_mebibytes(1), FileFormat::Parquet).await;
    server.set(Fault::Refusal(403, "AccessDenied", None));
    add(&mut *sink, &batch(0, &[b"one"])).await;
    sink.flush(PartitionId(3));
    assert_eq!(stored(&mut *sink).await.unwrap_err().condition, "AccessDenied");
    server.set(Fault::Refusal(404, "NoSuchBucket", None));
    add(&mut *sink, &batch(0, &[b"one"])).await;
    sink.flush(PartitionId(3));
    let error = poll_fn(|context| match sink.poll_outcomes(context, &mut Vec::new()) {
        Poll::Ready(Err(error)) => Poll::Ready(error),
        _ => Poll::Pending,
    });
    assert_eq!(error.await.condition, "NoSuchBucket");
}

#[tokio::test]
async fn files_wait_in_memory_that_is_bounded() {
    const MEMORY: usize = 16 << 20;
    let server = BucketServer::start().await;
    let bounded = BucketPlace { memory: ByteSize::from_bytes(MEMORY as u64), ..place(&server, "s3") };
    // Far longer than there is memory for: the memory alone decides when they are complete.
    let size = ByteSize::from_mebibytes(1_000);
    let mut sink = rolled(Place::Bucket(Box::new(bounded)), size, FileFormat::Ndjson).await;
    server.hold();
    let body = vec![b'x'; 500_000];
    let mut sent = 0;
    let mut last = [-1_i64; 3];
    'full: loop {
        for (partition, last) in last.iter_mut().enumerate() {
            let mut events = EventBatch::with_capacity(PartitionId(partition as u32), 1);
            let mut message = Vec::new();
            encode::data(&mut message, &body);
            events.push_message(&Bytes::from(message), *last + 1);
            if sink.send(SendToken(0), OutgoingBatch::new(0, &events, &[0])).is_err() {
                break 'full;
            }
            *last += 1;
            sent += body.len();
            poll_fn(|context| sink.poll_outcomes(context, &mut Vec::new())).await.unwrap();
        }
        // What the blocks at hand may have is beside it.
        assert!(sent < MEMORY + 3 * (5 << 20), "{sent} bytes were accepted");
    }
    assert!(sent > MEMORY / 2, "{sent}");
    assert!(poll_fn(|context| Poll::Ready(sink.poll_ready(context).is_pending())).await);
    server.release(1_000);
    poll_fn(|context| sink.poll_ready(context)).await.unwrap();
    let mut told = Vec::new();
    (0..3).for_each(|partition| sink.flush(PartitionId(partition)));
    let mut through = [-1_i64; 3];
    while through != last {
        poll_fn(|context| {
            let _ = sink.poll_outcomes(context, &mut Vec::new());
            sink.take_stored(&mut told);
            if told.is_empty() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        for stored in told.drain(..) {
            through[stored.partition.0 as usize] = stored.result.unwrap().sequence_number;
        }
    }
    for (partition, last) in last.iter().enumerate() {
        let prefix = format!("kept/here/orders/{partition}/");
        let names = server.names().into_iter().filter(|name| name.starts_with(&prefix));
        let all: Vec<i64> = names.flat_map(|name| numbers(&server.content(&name).unwrap())).collect();
        assert_eq!(all, (0..=*last).collect::<Vec<_>>(), "each once, in order, in some files");
    }
}
