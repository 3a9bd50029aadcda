//! Contents with checksums: structured messages, CRC-64, and bytes that changed on the service's disk.

use blob_store::structured::STRUCTURED_BODY;
use hub::service::Service;

use crate::blob::client::signed;
use crate::blob::{BLOCK, config_with, metrics, service};

/// "Hello World!" in segments of 5 bytes, as an official client sends it.
const MESSAGE: &[u8] = b"\x01\x57\0\0\0\0\0\0\0\x01\0\x03\0\
    \x01\0\x05\0\0\0\0\0\0\0Hello\xed\x8a\x28\x47\x6b\xee\x03\x6e\
    \x02\0\x05\0\0\0\0\0\0\0 Worl\xef\x59\xfc\x9b\x3e\x2e\xa0\x22\
    \x03\0\x02\0\0\0\0\0\0\0d!\xcd\x66\xe3\xee\xd9\x39\xb8\x4e\
    \xa5\xe1\xfc\x5e\xc8\x1c\xe5\x02";

const STRUCTURED: (&str, &str) = ("x-ms-structured-body", STRUCTURED_BODY);
const LENGTH: (&str, &str) = ("x-ms-structured-content-length", "12");

/// The CRC-64 of "Hello World!".
const CRC64: &str = "peH8Xsgc5QI=";

#[tokio::test]
async fn the_content_of_a_structured_message_is_stored_and_not_the_message() {
    let service = service().await;
    let append = ("x-ms-blob-type", "AppendBlob");
    signed(&service, "PUT", "/box/log", &[append], b"").await;
    let list = b"<BlockList><Latest>QUE=</Latest></BlockList>";
    for (target, name) in [
        ("/box/whole", "/box/whole"),
        ("/box/blocks?comp=block&blockid=QUE=", "/box/blocks"),
        ("/box/log?comp=appendblock", "/box/log"),
    ] {
        let headers = [BLOCK, STRUCTURED, LENGTH];
        let written = signed(&service, "PUT", target, &headers, MESSAGE).await;
        assert_eq!(written.status, 201, "{target}: {}", written.body);
        assert_eq!(written.header(STRUCTURED.0), Some(STRUCTURED_BODY));
        assert_eq!(written.header("x-ms-content-crc64"), Some(CRC64));
        if name == "/box/blocks" {
            signed(&service, "PUT", "/box/blocks?comp=blocklist", &[], list).await;
        }
        let read = signed(&service, "GET", name, &[], b"").await;
        assert_eq!((read.status, read.body.as_str()), (200, "Hello World!"));
    }
    service.stop().await;
}

#[tokio::test]
async fn nothing_is_stored_of_a_message_that_is_wrong_or_not_understood() {
    let service = service().await;
    let mut spoiled = MESSAGE.to_vec();
    spoiled[24] ^= 1;
    let crc64 = ("x-ms-content-crc64", CRC64);
    let named = |value| ("x-ms-structured-body", value);
    let length = |value| ("x-ms-structured-content-length", value);
    let block = "/box/a?comp=block&blockid=QUE=";
    for (target, headers, body, outcome) in [
        ("/box/a", vec![STRUCTURED, LENGTH], &spoiled[..], (400, "Crc64Mismatch")),
        (block, vec![STRUCTURED, LENGTH], &spoiled, (400, "Crc64Mismatch")),
        ("/box/a", vec![STRUCTURED, LENGTH], &MESSAGE[..86], (400, "InvalidInput")),
        ("/box/a", vec![STRUCTURED, LENGTH], b"Hello World!", (400, "InvalidInput")),
        ("/box/a", vec![STRUCTURED, LENGTH], b"", (400, "InvalidInput")),
        ("/box/a", vec![STRUCTURED, length("11")], MESSAGE, (400, "InvalidInput")),
        ("/box/a", vec![STRUCTURED, length("13")], MESSAGE, (400, "InvalidInput")),
        ("/box/a", vec![STRUCTURED, length("-1")], MESSAGE, (400, "InvalidHeaderValue")),
        ("/box/a", vec![STRUCTURED, length("1025")], MESSAGE, (413, "RequestBodyTooLarge")),
        ("/box/a", vec![STRUCTURED], MESSAGE, (400, "MissingRequiredHeader")),
        ("/box/a", vec![LENGTH], MESSAGE, (400, "InvalidHeaderValue")),
        ("/box/a", vec![named("XSM/2.0; properties=crc64"), LENGTH], MESSAGE, (400, "InvalidHeaderValue")),
        ("/box/a", vec![named("XSM/1.0; properties=sha256"), LENGTH], MESSAGE, (400, "InvalidHeaderValue")),
        ("/box/a", vec![STRUCTURED, LENGTH, crc64], MESSAGE, (400, "InvalidHeaderValue")),
        (
            "/box/a",
            vec![STRUCTURED, LENGTH, ("Content-MD5", "7Qdih1MuhjZehB6Sv8UNjA==")],
            MESSAGE,
            (400, "InvalidHeaderValue"),
        ),
        ("/box/a?comp=blocklist", vec![STRUCTURED, LENGTH], MESSAGE, (400, "InvalidHeaderValue")),
        ("/box/a?comp=metadata", vec![STRUCTURED, LENGTH], MESSAGE, (400, "InvalidHeaderValue")),
    ] {
        let headers = [&[BLOCK], &headers[..]].concat();
        let reply = signed(&service, "PUT", target, &headers, body).await;
        assert_eq!(reply.outcome(), outcome, "{target} {headers:?}");
        let read = signed(&service, "GET", "/box/a", &[], b"").await;
        assert_eq!(read.outcome(), (404, "BlobNotFound"), "{headers:?}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_message_may_be_longer_than_the_largest_body_by_its_framing() {
    let service = service().await;
    let content = vec![b'x'; 1024];
    let message = message(&content);
    assert!(message.len() > 1024);
    let headers = [BLOCK, STRUCTURED, ("x-ms-structured-content-length", "1024")];
    let written = signed(&service, "PUT", "/box/a", &headers, &message).await;
    assert_eq!(written.status, 201, "{}", written.body);
    service.stop().await;
}

/// A message with `content` in one segment.
fn message(content: &[u8]) -> Vec<u8> {
    let mut message = vec![1];
    message.extend((content.len() as u64 + 39).to_le_bytes());
    message.extend([1, 0, 1, 0, 1, 0]);
    message.extend((content.len() as u64).to_le_bytes());
    message.extend(content);
    let crc64 = blob_store::crc64(content).to_le_bytes();
    message.extend(crc64);
    message.extend(crc64);
    message
}

#[tokio::test]
async fn contents_are_sent_as_structured_messages_to_who_asks_for_it() {
    let service = service().await;
    signed(&service, "PUT", "/box/a", &[BLOCK], b"Hello World!").await;
    let whole = signed(&service, "GET", "/box/a", &[STRUCTURED], b"").await;
    assert_eq!(whole.status, 200);
    assert_eq!(whole.bytes, message(b"Hello World!"));
    assert_eq!(whole.header("content-length"), Some("51"));
    assert_eq!(whole.header(STRUCTURED.0), Some(STRUCTURED_BODY));
    assert_eq!(whole.header(LENGTH.0), Some("12"));
    let range = ("x-ms-range", "bytes=6-99");
    let part = signed(&service, "GET", "/box/a", &[STRUCTURED, range], b"").await;
    assert_eq!(part.status, 206);
    assert_eq!(part.bytes, message(b"World!"));
    assert_eq!(part.header("content-range"), Some("bytes 6-11/12"));
    assert_eq!(part.header(LENGTH.0), Some("6"));
    signed(&service, "PUT", "/box/empty", &[BLOCK], b"").await;
    let empty = signed(&service, "GET", "/box/empty", &[STRUCTURED], b"").await;
    assert_eq!((empty.status, empty.bytes), (200, message(b"")));
    for headers in [
        vec![("x-ms-structured-body", "XSM/2.0; properties=crc64")],
        vec![STRUCTURED, range, ("x-ms-range-get-content-md5", "true")],
        vec![range, ("x-ms-range-get-content-crc64", "true"), ("x-ms-range-get-content-md5", "true")],
        vec![("x-ms-range-get-content-md5", "true")],
    ] {
        let refused = signed(&service, "GET", "/box/a", &headers, b"").await;
        assert_eq!(refused.outcome(), (400, "InvalidHeaderValue"), "{headers:?}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_crc64_is_verified_and_answered_wherever_contents_come() {
    let service = service().await;
    let append = ("x-ms-blob-type", "AppendBlob");
    signed(&service, "PUT", "/box/log", &[append], b"").await;
    let crc64 = |value| ("x-ms-content-crc64", value);
    for target in ["/box/a", "/box/b?comp=block&blockid=QUE=", "/box/log?comp=appendblock"] {
        let headers = [BLOCK, crc64(CRC64)];
        let written = signed(&service, "PUT", target, &headers, b"Hello World!").await;
        assert_eq!(written.status, 201, "{target}");
        assert_eq!(written.header("x-ms-content-crc64"), Some(CRC64));
        let wrong = signed(&service, "PUT", target, &headers, b"Hello World?").await;
        assert_eq!(wrong.outcome(), (400, "Crc64Mismatch"), "{target}");
        let both = [BLOCK, crc64(CRC64), ("Content-MD5", "7Qdih1MuhjZehB6Sv8UNjA==")];
        let refused = signed(&service, "PUT", target, &both, b"Hello World!").await;
        assert_eq!(refused.outcome(), (400, "InvalidHeaderValue"), "{target}");
        let garbled = [BLOCK, crc64("peH8")];
        let refused = signed(&service, "PUT", target, &garbled, b"Hello World!").await;
        assert_eq!(refused.outcome(), (400, "InvalidHeaderValue"), "{target}");
    }
    let list = b"<BlockList><Latest>QUE=</Latest></BlockList>";
    let wrong = signed(&service, "PUT", "/box/b?comp=blocklist", &[crc64(CRC64)], list).await;
    assert_eq!(wrong.outcome(), (400, "Crc64Mismatch"));
    let asked = [("x-ms-range", "bytes=0-"), ("x-ms-range-get-content-crc64", "true")];
    let part = signed(&service, "GET", "/box/a", &asked, b"").await;
    assert_eq!((part.status, part.body.as_str()), (206, "Hello World!"));
    assert_eq!(part.header("x-ms-content-crc64"), Some(CRC64));
    service.stop().await;
}

#[tokio::test]
async fn contents_are_answered_with_their_checksums() {
    let service = service().await;
    let append = ("x-ms-blob-type", "AppendBlob");
    let md5 = ("Content-MD5", "7Qdih1MuhjZehB6Sv8UNjA==");
    signed(&service, "PUT", "/box/log", &[append], b"").await;
    for (target, always_with_md5) in
        [("/box/a", true), ("/box/b?comp=block&blockid=QUE=", false), ("/box/log?comp=appendblock", false)]
    {
        for (headers, with_md5) in [(vec![BLOCK, md5], true), (vec![BLOCK], always_with_md5)] {
            let written = signed(&service, "PUT", target, &headers, b"Hello World!").await;
            assert_eq!(written.status, 201, "{target}: {}", written.body);
            assert_eq!(written.header("x-ms-content-crc64"), Some(CRC64), "{target}");
            let expected = with_md5.then_some(md5.1);
            assert_eq!(written.header("content-md5"), expected, "{target}");
        }
        let wrong = [BLOCK, ("Content-MD5", "eB5eJF1ptWaXm4bijSPyxw==")];
        let refused = signed(&service, "PUT", target, &wrong, b"Hello World!").await;
        assert_eq!(refused.outcome(), (400, "Md5Mismatch"), "{target}");
    }
    // Of a block list they are those of the list.
    let list = b"<BlockList><Latest>QUE=</Latest></BlockList>";
    let committed = signed(&service, "PUT", "/box/b?comp=blocklist", &[], list).await;
    assert!(committed.header("x-ms-content-crc64").is_some());
    assert_ne!(committed.header("x-ms-content-crc64"), Some(CRC64));
    assert_eq!(committed.header("content-md5"), None);
    service.stop().await;
}

#[tokio::test]
async fn a_byte_that_changed_on_the_disk_is_a_server_error_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let config = config_with(&directory);
    let service = Service::start(config.clone()).await.unwrap();
    signed(&service, "PUT", "/box/a", &[BLOCK], b"Hello World!").await;
    signed(&service, "PUT", "/box/b", &[BLOCK], b"another").await;
    service.stop().await;
    let folder = directory.path().join("data/blob/box");
    let mut changed = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if bytes.ends_with(b"Hello World!") {
            *bytes.last_mut().unwrap() = b'?';
            std::fs::write(&path, bytes).unwrap();
            changed += 1;
        }
    }
    assert_eq!(changed, 1);
    let service = Service::start(config).await.unwrap();
    let range = ("x-ms-range", "bytes=0-4");
    for headers in
        [vec![], vec![range], vec![range, ("x-ms-range-get-content-md5", "true")], vec![STRUCTURED]]
    {
        let reply = signed(&service, "GET", "/box/a", &headers, b"").await;
        assert_eq!(reply.outcome(), (500, "InternalError"), "{headers:?}");
        assert!(!reply.body.contains("Hello"), "{}", reply.body);
        assert!(reply.body.contains("damaged"), "{}", reply.body);
    }
    let head = signed(&service, "HEAD", "/box/a", &[], b"").await;
    assert_eq!(head.status, 200);
    let other = signed(&service, "GET", "/box/b", &[], b"").await;
    assert_eq!(other.body, "another");
    let told = metrics(&service).await;
    let line = "parshall_blob_damaged_files_total 1";
    assert!(told.contains(line), "{told}");
    signed(&service, "PUT", "/box/a", &[BLOCK], b"Hello again!").await;
    let read = signed(&service, "GET", "/box/a", &[], b"").await;
    assert_eq!(read.body, "Hello again!");
    service.stop().await;
}
