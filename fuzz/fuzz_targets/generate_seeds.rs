//! Writes a seed per byte vector for the targets that read bytes, and some for the others, into `corpus/`.

#[path = "../../crates/amqp/tests/list/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest of it")]
mod list;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use blob_store::structured::Encoder;
use kafka::record_batch::{self, RecordBatch};
use kafka::{ApiKey, record};
use list::{Meaning, vectors};
use partition_log::disk::{Committer, PartitionDirectory, Presence, StorageOptions, SystemFiles};
use partition_log::{BlockPool, LogLimits, PartitionLog, UnixTime};
use units::ByteSize;

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (index, vector) in vectors().into_iter().enumerate() {
        let seed = |target: &str, bytes: &[u8]| -> io::Result<()> {
            let folder = corpus.join(target);
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(format!("vector-{index:03}")), bytes)
        };
        seed("decoder", &vector.bytes)?;
        match &vector.meaning {
            Meaning::Message(_) => seed("sections", &vector.bytes)?,
            Meaning::Value(_) => {}
            Meaning::SaslMechanisms(_) | Meaning::SaslInit(_) | Meaning::SaslOutcome(_) => {
                seed(
                    "connection",
                    &[&[255][..], b"AMQP\x03\x01\x00\x00", &frame(1, &vector.bytes)].concat(),
                )?;
            }
            _ => seed("connection", &[&[255][..], &opened(), &frame(0, &vector.bytes)].concat())?,
        }
        // Each vector's bytes are a script too, if not a sensible one.
        seed("conversation", &vector.bytes)?;
    }
    seed_sql(&corpus.join("sql_filter"))?;
    seed_sidecar(&corpus.join("sidecar"), &corpus.join("log-of-seeds"))?;
    seed_kafka_requests(&corpus.join("kafka_request"))?;
    seed_kafka_responses(&corpus.join("kafka_response"))?;
    seed_kafka_record_batch(&corpus.join("kafka_record_batch"))?;
    seed_rest_request(&corpus.join("rest_request"))?;
    seed_rest_response(&corpus.join("rest_response"))?;
    seed_structured_message(&corpus.join("structured_message"))
}

/// A bit of everything that rules can say.
fn seed_sql(folder: &Path) -> io::Result<()> {
    let texts = [
        "color = 'it''s red' AND (quantity >= 10 OR NOT [odd ]] name] <> 1.5E-3)",
        "user.tag NOT IN ('queue', -1, NULL) OR sys.Label LIKE 'a\\%_%' ESCAPE '\\'",
        "EXISTS(sys.To) AND \"quoted\" IS NOT NULL AND property('a' + 'b') = TRUE",
        "SET quantity = -quantity / 2 % +3; REMOVE priority SET sys.CorrelationId = p('x')",
    ];
    fs::create_dir_all(folder)?;
    for (number, text) in texts.into_iter().enumerate() {
        fs::write(folder.join(format!("text-{number}")), text)?;
    }
    Ok(())
}

/// The sidecar of a log that holds a record batch. No fuzzer guesses a checksum.
fn seed_sidecar(folder: &Path, log: &Path) -> io::Result<()> {
    let committer = Committer::start(StorageOptions::default(), Arc::new(SystemFiles))?;
    let directory =
        PartitionDirectory { path: log.to_owned(), presence: Presence::Absent, committer: Arc::clone(&committer) };
    let opened = PartitionLog::open(LogLimits::default(), BlockPool::new(ByteSize::ZERO), directory);
    let (log_of_seeds, _report) = opened.map_err(io::Error::other)?;
    let batch = record_batch();
    let batch = RecordBatch::check(&batch).map_err(io::Error::other)?;
    log_of_seeds.append_record_batch(UnixTime::from_milliseconds(1_000), &batch).map_err(io::Error::other)?;
    committer.close().map_err(io::Error::other)?;
    fs::create_dir_all(folder)?;
    for (number, file) in fs::read_dir(log)?.enumerate() {
        fs::copy(file?.path(), folder.join(format!("file-{number}")))?;
    }
    fs::remove_dir_all(log)
}

/// Every request in its first versions, with nothing but zeros behind its header.
fn seed_kafka_requests(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for key in ApiKey::all() {
        for version in 0..6_i16 {
            let mut frame = [key.number().to_be_bytes(), version.to_be_bytes()].concat();
            frame.extend([0, 0, 0, 1, 255, 255]);
            frame.extend([0; 64]);
            fs::write(folder.join(format!("{key:?}-{version}")), frame)?;
        }
    }
    Ok(())
}

/// The responses to them, likewise.
fn seed_kafka_responses(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for key in ApiKey::all() {
        for version in 0..10_u8 {
            let response = [&key.number().to_be_bytes()[..], &[version], &[0; 64]].concat();
            fs::write(folder.join(format!("{key:?}-{version}")), response)?;
        }
    }
    Ok(())
}

fn seed_kafka_record_batch(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("plain"), record_batch())
}

/// Two records with headers.
fn record_batch() -> Vec<u8> {
    let mut batch = vec![0; RecordBatch::HEADER_LENGTH];
    for delta in 0..2 {
        let headers = [(&b"name"[..], Some(&b"value"[..])), (b"empty", Some(b""))];
        record::encode(&mut batch, delta, Some(b"key"), Some(b"value"), headers.into_iter());
    }
    record_batch::complete(&mut batch, 0, 0, 2, 1_000);
    batch
}

/// Requests with one event, with a batch, and with chunks, each behind the byte that says how it is cut.
fn seed_rest_request(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let start = "POST /hub/messages?timeout=60 HTTP/1.1\r\nHost: h\r\nPriority: High\r\nN: 5\r\n";
    let broker = "BrokerProperties: {\"PartitionKey\": \"k\", \"TimeToLive\": 5}\r\n";
    let batch = r#"[{"Body": "a\n"}, {"Body": "AAH/", "IsBodyBase64": true, "UserProperties": {"n": 1.5}}]"#;
    for (name, rest) in [
        ("one", format!("{broker}Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nevent")),
        ("batch", format!("Content-Length: {}\r\n\r\n{batch}", batch.len())),
        ("chunks", "Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nfirst\r\n0\r\nT: x\r\n\r\n".to_owned()),
    ] {
        fs::write(folder.join(name), format!("\u{3}{start}{rest}"))?;
    }
    Ok(())
}

/// Responses with each kind of end.
fn seed_rest_response(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, response) in [
        ("created", "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"),
        ("busy", "HTTP/1.1 503 Busy\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 3\r\n\r\nwhy"),
        ("chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        ("until-the-end", "HTTP/1.0 200 OK\r\n\r\nall of it"),
    ] {
        fs::write(folder.join(name), response)?;
    }
    Ok(())
}

/// Messages of one segment and of three, after the length of their content and that of the parts in which they come.
fn seed_structured_message(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let encoded = |content_length: u16| {
        let content: Vec<u8> = (0..content_length).map(|byte| byte as u8).collect();
        let mut encoder = Encoder::new(content_length.into());
        let mut message = VecDeque::new();
        encoder.start(&mut message);
        encoder.encode(content.into(), &mut message);
        let message: Vec<u8> = message.into_iter().flatten().collect();
        (content_length, message)
    };
    let messages = [encoded(0), encoded(1), encoded(300), (12, THREE_SEGMENTS.to_vec())];
    for (content_length, message) in messages {
        for part_bytes in [1_u8, 7, 255] {
            let seed = [&content_length.to_le_bytes()[..], &[part_bytes], &message].concat();
            fs::write(folder.join(format!("message-{content_length}-{part_bytes}")), seed)?;
        }
    }
    Ok(())
}

/// "Hello World!" in segments of 5 bytes, as an official client sends it.
const THREE_SEGMENTS: &[u8] = b"\x01\x57\0\0\0\0\0\0\0\x01\0\x03\0\
    \x01\0\x05\0\0\0\0\0\0\0Hello\xed\x8a\x28\x47\x6b\xee\x03\x6e\
    \x02\0\x05\0\0\0\0\0\0\0 Worl\xef\x59\xfc\x9b\x3e\x2e\xa0\x22\
    \x03\0\x02\0\0\0\0\0\0\0d!\xcd\x66\xe3\xee\xd9\x39\xb8\x4e\
    \xa5\xe1\xfc\x5e\xc8\x1c\xe5\x02";

/// What it takes until links can be attached.
fn opened() -> Vec<u8> {
    let open = list::assemble("00 53 10 c0 < 01 a1 < 'seed' > >");
    let begin = list::assemble("00 53 11 c0 < 04 40 43 52 64 52 64 >");
    let attach =
        list::assemble("00 53 12 c0 < 0a a1 < 'in' > 43 42 40 40 00 53 28 45 00 53 29 45 40 40 43 >");
    [&b"AMQP\x00\x01\x00\x00"[..], &frame(0, &open), &frame(0, &begin), &frame(0, &attach)].concat()
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len() + 8).expect("a short frame");
    [&size.to_be_bytes()[..], &[2, kind, 0, 0], body].concat()
}
