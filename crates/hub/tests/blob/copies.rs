//! Blobs that are made of others of the account, as tools copy them.

use std::time::{Duration, SystemTime};

use access::storage::AccountSignature;

use crate::blob::client::{key, raw, signed};
use crate::blob::{BLOCK, service};

/// The URL of a blob, as a client writes it.
fn url(path: &str) -> String {
    format!("http://localhost/devstoreaccount1{path}")
}

#[tokio::test]
async fn a_blob_is_copied_with_what_belongs_to_it_and_the_copy_says_where_it_is_from() {
    let service = service().await;
    let own = [BLOCK, ("x-ms-meta-a", "1"), ("x-ms-blob-content-type", "text/plain")];
    signed(&service, "PUT", "/box/a%20b", &own, b"content").await;
    for (is_at_once, name) in [(false, "started"), (true, "waited")] {
        let source = url("/box/a%20b");
        let mut headers = vec![("x-ms-copy-source", source.as_str())];
        if is_at_once {
            headers.push(("x-ms-requires-sync", "true"));
        }
        let target = format!("/box/{name}");
        let copied = signed(&service, "PUT", &target, &headers, b"").await;
        assert_eq!(copied.status, 202, "{}", copied.body);
        assert_eq!(copied.header("x-ms-copy-status"), Some("success"));
        let id = copied.header("x-ms-copy-id").unwrap();
        let read = signed(&service, "GET", &target, &[], b"").await;
        assert_eq!((read.status, read.body.as_str()), (200, "content"));
        for (header, value) in [
            ("etag", copied.header("etag").unwrap()),
            ("x-ms-meta-a", "1"),
            ("content-type", "text/plain"),
            ("x-ms-copy-id", id),
            ("x-ms-copy-source", &source),
            ("x-ms-copy-status", "success"),
            ("x-ms-copy-progress", "7/7"),
        ] {
            assert_eq!(read.header(header), Some(value), "{header}");
        }
        assert!(read.header("x-ms-copy-completion-time").is_some());
        let list = format!("/box?restype=container&comp=list&include=copy&prefix={name}");
        let listed = signed(&service, "GET", &list, &[], b"").await;
        assert!(listed.body.contains(&format!("<CopyId>{id}</CopyId>")), "{}", listed.body);
        let abort = [("x-ms-copy-action", "abort")];
        let aborted = signed(&service, "PUT", &format!("{target}?comp=copy&copyid={id}"), &abort, b"").await;
        assert_eq!(aborted.outcome(), (409, "NoPendingCopyOperation"));
    }
    // Metadata of its own takes the place of all.
    let source = url("/box/a%20b");
    let headers = [("x-ms-copy-source", source.as_str()), ("x-ms-meta-b", "2"), ("x-ms-access-tier", "Cool")];
    signed(&service, "PUT", "/box/other", &headers, b"").await;
    let head = signed(&service, "HEAD", "/box/other", &[], b"").await;
    assert_eq!((head.header("x-ms-meta-a"), head.header("x-ms-meta-b")), (None, Some("2")));
    assert_eq!(head.header("x-ms-access-tier"), Some("Cool"));
    // What is written anew is no copy.
    signed(&service, "PUT", "/box/other", &[BLOCK], b"new").await;
    let head = signed(&service, "HEAD", "/box/other", &[], b"").await;
    assert_eq!(head.header("x-ms-copy-id"), None);
    service.stop().await;
}

#[tokio::test]
async fn sources_are_blobs_of_the_account_upon_their_conditions() {
    let service = service().await;
    let written = signed(&service, "PUT", "/box/a", &[BLOCK], b"content").await;
    let etag = written.header("etag").unwrap();
    let source = &*url("/box/a");
    let from = |source| ("x-ms-copy-source", source);
    for (headers, expected) in [
        (vec![from(source), ("x-ms-source-if-match", etag)], (202, "")),
        (vec![from(source), ("x-ms-source-if-none-match", etag)], (412, "SourceConditionNotMet")),
        (vec![from(source), ("x-ms-source-if-match", "\"0x1\"")], (412, "SourceConditionNotMet")),
        (vec![from(source), ("If-None-Match", "*")], (409, "BlobAlreadyExists")),
        (vec![from("http://localhost/devstoreaccount1/box/missing")], (404, "BlobNotFound")),
        (vec![from("http://localhost/devstoreaccount1/none/a")], (404, "ContainerNotFound")),
        (vec![from("https://elsewhere.blob.core.windows.net/box/a")], (403, "CannotVerifyCopySource")),
        (vec![from("no url")], (400, "InvalidHeaderValue")),
    ] {
        let copied = signed(&service, "PUT", "/box/copy", &headers, b"").await;
        assert_eq!(copied.outcome(), expected, "{headers:?}: {}", copied.body);
    }
    signed(&service, "PUT", "/box/log", &[("x-ms-blob-type", "AppendBlob")], b"").await;
    let copied = signed(&service, "PUT", "/box/log", &[from(source)], b"").await;
    assert_eq!(copied.outcome(), (409, "InvalidBlobType"));
    service.stop().await;
}

#[tokio::test]
async fn who_has_no_key_shows_a_signature_for_the_source() {
    let service = service().await;
    signed(&service, "PUT", "/box/a", &[BLOCK], b"content").await;
    let expires_at = SystemTime::now() + Duration::from_secs(600);
    let signature = |rights| {
        let wanted = AccountSignature { rights, expires_at };
        key(&service).sign_account(wanted)
    };
    let ask = async |own: &str, source: &str| {
        let request = format!(
            "PUT /devstoreaccount1/box/copy?{own} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             x-ms-version: 2024-11-04\r\nContent-Length: 0\r\nx-ms-copy-source: {source}\r\n\r\n"
        );
        let reply = raw(&service, request.as_bytes()).await;
        (reply.status, reply.header("x-ms-error-code").unwrap_or_default().to_owned())
    };
    let (writer, reader) = (signature("wc"), signature("r"));
    let refused = (403, "CannotVerifyCopySource".to_owned());
    assert_eq!(ask(&writer, &url("/box/a")).await, refused, "the source has no proof");
    assert_eq!(ask(&writer, &url(&format!("/box/a?{writer}"))).await, refused, "it may not read");
    assert_eq!(ask(&writer, &url(&format!("/box/a?{reader}"))).await, (202, String::new()));
    let head = signed(&service, "HEAD", "/box/copy", &[], b"").await;
    assert_eq!(
        head.header("x-ms-copy-source"),
        Some(url("/box/a").as_str()),
        "the signature is kept by nobody"
    );
    service.stop().await;
}

#[tokio::test]
async fn contents_of_blobs_blocks_and_appends_come_from_other_blobs() {
    let service = service().await;
    let own = [BLOCK, ("x-ms-meta-a", "1"), ("x-ms-blob-content-type", "text/plain")];
    signed(&service, "PUT", "/box/a", &own, b"0123456789").await;
    // The key of the account signs copies alone.
    let unproven = url("/box/a");
    let from = ("x-ms-copy-source", unproven.as_str());
    let refused = signed(&service, "PUT", "/box/b", &[BLOCK, from], b"").await;
    assert_eq!(refused.outcome(), (403, "CannotVerifyCopySource"));
    let expires_at = SystemTime::now() + Duration::from_secs(600);
    let signature = key(&service).sign_account(AccountSignature { rights: "r", expires_at });
    let source = format!("{unproven}?{signature}");
    let from = ("x-ms-copy-source", source.as_str());
    let put = signed(&service, "PUT", "/box/b", &[BLOCK, from, ("x-ms-meta-b", "2")], b"").await;
    assert_eq!(put.status, 201, "{}", put.body);
    let read = signed(&service, "GET", "/box/b", &[], b"").await;
    assert_eq!((read.body.as_str(), read.header("content-type")), ("0123456789", Some("text/plain")));
    assert_eq!((read.header("x-ms-meta-a"), read.header("x-ms-meta-b")), (None, Some("2")));
    assert_eq!(read.header("x-ms-copy-id"), None, "it is no copy");
    let wrong = ("x-ms-source-content-md5", "AAAAAAAAAAAAAAAAAAAAAA==");
    let mismatch = signed(&service, "PUT", "/box/b", &[BLOCK, from, wrong], b"").await;
    assert_eq!(mismatch.outcome(), (400, "Md5Mismatch"));

    for (id, range) in [("QUE=", "bytes=8-"), ("QUI=", "bytes=0-1")] {
        let target = format!("/box/c?comp=block&blockid={id}");
        let block = signed(&service, "PUT", &target, &[from, ("x-ms-source-range", range)], b"").await;
        assert_eq!(block.status, 201, "{}", block.body);
        assert!(block.header("x-ms-content-crc64").is_some());
    }
    let list = b"<BlockList><Latest>QUE=</Latest><Latest>QUI=</Latest></BlockList>";
    signed(&service, "PUT", "/box/c?comp=blocklist", &[], list).await;
    assert_eq!(signed(&service, "GET", "/box/c", &[], b"").await.body, "8901");

    signed(&service, "PUT", "/box/log", &[("x-ms-blob-type", "AppendBlob")], b"").await;
    let ranged = [from, ("x-ms-source-range", "bytes=3-5"), ("x-ms-blob-condition-appendpos", "0")];
    let appended = signed(&service, "PUT", "/box/log?comp=appendblock", &ranged, b"").await;
    assert_eq!((appended.status, appended.header("x-ms-blob-append-offset")), (201, Some("0")));
    let again = signed(&service, "PUT", "/box/log?comp=appendblock", &ranged, b"").await;
    assert_eq!(again.outcome(), (412, "AppendPositionConditionNotMet"));
    assert_eq!(signed(&service, "GET", "/box/log", &[], b"").await.body, "345");
    let beyond = [from, ("x-ms-source-range", "bytes=10-")];
    let refused = signed(&service, "PUT", "/box/log?comp=appendblock", &beyond, b"").await;
    assert_eq!(refused.outcome(), (416, "InvalidRange"));
    service.stop().await;
}
