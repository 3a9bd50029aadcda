//! Blobs over HTTP, byte by byte: what the official clients rely on, what hostile ones get, and faults on purpose.

mod access;
mod batches;
pub(crate) mod client;
mod copies;
mod leases;
mod protection;
mod refused;
mod requests;
mod shaped;
mod snapshots;
mod tags;
mod tls;
pub(crate) mod unserved;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use client::{connect, raw, read, signed, signed_text};
use hub::front::http::blob::BlobFault;
use hub::namespace::{HubConfig, NamespaceConfig, StorageConfig};
use hub::service::{Listener, Openness, Protocol, Service, ServiceConfig, StartError};
use tokio::io::AsyncWriteExt as _;
use units::ByteSize;

fn config() -> ServiceConfig {
    let mut namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("events", 1)]);
    namespace.blob.containers = vec!["box".to_owned()];
    namespace.blob.body = ByteSize::from_bytes(1024);
    ServiceConfig::loopback(namespace).and(Protocol::Blob).and(Protocol::Operations)
}

/// The same, with a data directory.
fn config_with(directory: &tempfile::TempDir) -> ServiceConfig {
    let mut config = config();
    config.namespace.storage = Some(StorageConfig {
        directory: directory.path().join("data"),
        options: partition_log::disk::StorageOptions::default(),
    });
    config
}

async fn service() -> Service {
    Service::start(config()).await.expect("the configuration is good")
}

/// What the service tells of itself.
async fn metrics(service: &Service) -> String {
    let address = service.address(Protocol::Operations).expect("it is served");
    let mut socket = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    socket.write_all(request).await.expect("it reads");
    read(&mut socket).await.body
}

const BLOCK: (&str, &str) = ("x-ms-blob-type", "BlockBlob");

#[tokio::test]
async fn a_checkpoint_store_gets_the_codes_that_it_goes_by() {
    let service = service().await;
    let target = "/box/localhost%2Fhub%2F$Default%2Fownership%2F0";
    let metadata = format!("{target}?comp=metadata");
    let own = ("x-ms-meta-ownerid", "");
    let missing = signed(&service, "PUT", &metadata, &[own, ("If-None-Match", "*")], b"").await;
    assert_eq!(missing.outcome(), (404, "BlobNotFound"));
    let claim = [BLOCK, own, ("If-None-Match", "*")];
    let claimed = signed(&service, "PUT", target, &claim, b"").await;
    assert_eq!(claimed.status, 201);
    let etag = claimed.header("etag").unwrap().to_owned();
    assert!(etag.starts_with("\"0x") && etag.ends_with('"'), "{etag}");
    let again = signed(&service, "PUT", target, &claim, b"").await;
    assert_eq!(again.outcome(), (409, "BlobAlreadyExists"));
    // Of two owners that both found the blob, one must not get through.
    let star = signed(&service, "PUT", &metadata, &[own, ("If-None-Match", "*")], b"").await;
    assert_eq!(star.outcome(), (412, "ConditionNotMet"));
    let bare = etag.trim_matches('"');
    let taken = signed(&service, "PUT", &metadata, &[own, ("If-Match", bare)], b"").await;
    assert_eq!(taken.status, 200);
    let stale = signed(&service, "PUT", &metadata, &[own, ("If-Match", bare)], b"").await;
    assert_eq!(stale.outcome(), (412, "ConditionNotMet"));
    let list = "/box?restype=container&comp=list&include=metadata&prefix=localhost";
    let listed = signed(&service, "GET", list, &[], b"").await;
    assert_eq!(listed.header("content-type"), Some("application/xml"));
    for part in [
        "<Name>localhost/hub/$Default/ownership/0</Name>",
        "<Metadata><ownerid/></Metadata>",
        "<NextMarker/>",
    ] {
        assert!(listed.body.contains(part), "{}", listed.body);
    }
    // The same blob, as other clients spell it.
    let other = "/box/localhost/hub/%24Default/ownership/0";
    let head = signed(&service, "HEAD", other, &[("x-ms-client-request-id", "7")], b"").await;
    assert_eq!((head.status, head.header("content-length")), (200, Some("0")));
    assert_eq!(head.header("x-ms-meta-ownerid"), Some(""));
    assert_eq!(head.header("x-ms-client-request-id"), Some("7"));
    assert_eq!(head.header("x-ms-version"), Some("2024-11-04"));
    assert!(head.header("x-ms-request-id").is_some() && head.header("date").is_some());
    let nothing = signed(&service, "HEAD", "/box/other", &[], b"").await;
    assert_eq!(nothing.outcome(), (404, "BlobNotFound"));
    assert_eq!(nothing.body, "");
    service.stop().await;
}

#[tokio::test]
async fn ranges_beyond_the_end_are_reported_with_the_size() {
    let service = service().await;
    signed(&service, "PUT", "/box/empty", &[BLOCK], b"").await;
    let empty = signed(&service, "GET", "/box/empty", &[("x-ms-range", "bytes=0-9")], b"").await;
    assert_eq!(empty.outcome(), (416, "InvalidRange"));
    assert_eq!(empty.header("content-range"), Some("bytes */0"));
    signed(&service, "PUT", "/box/ten", &[BLOCK], b"0123456789").await;
    // Its own header wins over the standard's.
    let headers = [("Range", "bytes=0-1"), ("x-ms-range", "bytes=7-99")];
    let end = signed(&service, "GET", "/box/ten", &headers, b"").await;
    assert_eq!((end.status, end.body.as_str()), (206, "789"));
    assert_eq!(end.header("content-range"), Some("bytes 7-9/10"));
    assert_eq!(end.header("x-ms-blob-content-md5"), Some("eB5eJF1ptWaXm4bijSPyxw=="));
    let whole = signed(&service, "GET", "/box/ten", &[], b"").await;
    assert_eq!((whole.status, whole.body.as_str()), (200, "0123456789"));
    assert_eq!(whole.header("content-md5"), Some("eB5eJF1ptWaXm4bijSPyxw=="));
    let etag = whole.header("etag").unwrap();
    // What can't be read counts as none.
    for senseless in ["bytes=-1-", "bytes=9-1", "bytes=-5", "bytes=x-", "7-9", ""] {
        for name in ["x-ms-range", "Range"] {
            let reply = signed(&service, "GET", "/box/ten", &[(name, senseless)], b"").await;
            assert_eq!((reply.status, reply.body.as_str()), (200, "0123456789"), "{name}: {senseless}");
        }
    }
    let known = signed(&service, "GET", "/box/ten", &[("If-None-Match", etag)], b"").await;
    assert_eq!(known.outcome(), (304, "ConditionNotMet"));
    assert_eq!(known.body, "");
    service.stop().await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_a_code() {
    let service = service().await;
    let large = vec![b'x'; 1025];
    for (method, target, headers, body, outcome) in [
        ("PUT", "/box/a", vec![], &b""[..], (400, "MissingRequiredHeader")),
        ("PUT", "/box/a", vec![("x-ms-blob-type", "PageBlob")], b"", (400, "MissingRequiredHeader")),
        ("PUT", "/box/a", vec![BLOCK, ("x-ms-blob-content-md5", "AAAA")], b"1", (400, "InvalidMd5")),
        (
            "PUT",
            "/box/a",
            vec![BLOCK, ("x-ms-blob-content-md5", "AAAAAAAAAAAAAAAAAAAAAA==")],
            b"1",
            (400, "Md5Mismatch"),
        ),
        ("PUT", "/box/a", vec![("x-ms-blob-type", "What")], b"", (400, "InvalidHeaderValue")),
        ("PUT", "/box/a", vec![BLOCK, ("x-ms-meta-a-b", "1")], b"", (400, "InvalidMetadata")),
        ("PUT", "/box/a", vec![BLOCK], &large, (413, "RequestBodyTooLarge")),
        ("PUT", "/box/a", vec![BLOCK, ("If-Modified-Since", "now")], b"", (400, "InvalidHeaderValue")),
        ("PUT", "/box/a", vec![BLOCK, ("Content-MD5", "AAAA")], b"1", (400, "Md5Mismatch")),
        ("PUT", "/box/a", vec![BLOCK, ("x-ms-lease-id", "1")], b"", (400, "InvalidHeaderValue")),
        (
            "PUT",
            "/box/a",
            vec![BLOCK, ("x-ms-lease-id", "c820a799-76d7-4ee2-6e15-546f19325c2c")],
            b"",
            (412, "LeaseNotPresentWithBlobOperation"),
        ),
        ("PUT", "/Box/a", vec![BLOCK], b"", (400, "InvalidResourceName")),
        ("PUT", "/bo/a", vec![BLOCK], b"", (400, "OutOfRangeInput")),
        ("PUT", "/foo%20bar?restype=container", vec![], b"", (400, "InvalidResourceName")),
        (
            "PUT",
            "/?restype=container",
            vec![("x-ms-blob-public-access", "blob")],
            b"",
            (400, "InvalidQueryParameterValue"),
        ),
        ("PUT", "/other/a", vec![BLOCK], b"", (404, "ContainerNotFound")),
        ("PUT", "/box/a?comp=lease", vec![], b"", (400, "MissingRequiredHeader")),
        ("PUT", "/box/a?comp=block&blockid=-", vec![], b"", (400, "InvalidQueryParameterValue")),
        ("PUT", "/box/a?comp=blocklist", vec![], b"<What/>", (400, "InvalidXmlDocument")),
        (
            "GET",
            "/box?restype=container&comp=list&maxresults=0",
            vec![],
            b"",
            (400, "InvalidQueryParameterValue"),
        ),
        (
            "GET",
            "/box?restype=container&comp=list&marker=-!",
            vec![],
            b"",
            (400, "InvalidQueryParameterValue"),
        ),
        ("POST", "/box/a", vec![], b"", (405, "UnsupportedHttpVerb")),
        ("GET", "/box/%ff", vec![], b"", (400, "InvalidUri")),
    ] {
        let reply = signed(&service, method, target, &headers, body).await;
        assert_eq!(reply.outcome(), outcome, "{method} {target}");
        assert!(reply.body.contains(outcome.1), "{}", reply.body);
    }
    service.stop().await;
}

#[tokio::test]
async fn the_account_says_of_which_kind_it_is() {
    let service = service().await;
    for path in ["/", "/box", "/box/a"] {
        for method in ["GET", "HEAD"] {
            let target = format!("{path}?restype=account&comp=properties");
            let reply = signed(&service, method, &target, &[], b"").await;
            assert_eq!(reply.status, 200, "{method} {path}");
            assert_eq!(reply.header("x-ms-sku-name"), Some("Standard_RAGRS"));
            assert_eq!(reply.header("x-ms-account-kind"), Some("StorageV2"));
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn nothing_is_to_be_had_without_a_signature() {
    let service = service().await;
    signed(&service, "PUT", "/box/a", &[BLOCK], b"secret").await;
    let good = signed_text(&service, "GET", "/box/a", &[], b"");
    for text in [
        good.replace("Authorization", "X-Authorization"),
        good.replace("SharedKey ", "Bearer "),
        good.replace("/box/a", "/box/b"),
        good.replace("GET", "HEAD"),
        good.replace("SharedKey devstoreaccount1", "SharedKey other"),
        good.replace("/devstoreaccount1/", "/other/"),
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(),
    ] {
        let reply = raw(&service, text.as_bytes()).await;
        assert!(
            matches!(
                reply.outcome(),
                (403, "AuthenticationFailed") | (401, "NoAuthenticationInformation") | (400, "InvalidUri")
            ),
            "{reply:?}"
        );
        assert!(!reply.body.contains("secret"));
    }
    assert_eq!(raw(&service, good.as_bytes()).await.body, "secret");
    let anonymous = good.replace("Authorization", "X-Authorization");
    let reply = raw(&service, anonymous.as_bytes()).await;
    assert_eq!(reply.outcome(), (401, "NoAuthenticationInformation"));
    assert_eq!(reply.header("www-authenticate"), Some("SharedKey"));
    for garbage in [&b"\0\x01\x02\r\n\r\n"[..], b"GET", b"PUT /x HTTP/9.9\r\n\r\n"] {
        let mut socket = connect(&service).await;
        socket.write_all(garbage).await.unwrap();
        socket.shutdown().await.unwrap();
        assert_ne!(read(&mut socket).await.status, 200);
    }
    assert_eq!(raw(&service, good.as_bytes()).await.body, "secret");
    service.stop().await;
}

#[tokio::test]
async fn faults_happen_while_they_are_set() {
    let service = service().await;
    let faults = service.blob_faults().unwrap();
    faults.set(BlobFault::Unavailable);
    let busy = signed(&service, "PUT", "/box/a", &[BLOCK], b"1").await;
    assert_eq!(busy.outcome(), (503, "ServerBusy"));
    faults.set(BlobFault::Hanging);
    let text = signed_text(&service, "PUT", "/box/b", &[BLOCK], b"2");
    let mut hanging = connect(&service).await;
    hanging.write_all(text.as_bytes()).await.unwrap();
    hanging.write_all(b"2").await.unwrap();
    let mut reply = std::pin::pin!(read(&mut hanging));
    // That it is taken up is seen by the counter.
    while faults.injected() < 2 {
        tokio::task::yield_now().await;
    }
    let waited = tokio::time::timeout(Duration::from_millis(1), reply.as_mut()).await;
    assert!(waited.is_err(), "{waited:?}");
    faults.set(BlobFault::None);
    assert_eq!(reply.await.status, 201);
    faults.set(BlobFault::Slow(Duration::from_millis(1)));
    let slow = signed(&service, "GET", "/box/b", &[], b"").await;
    assert_eq!((slow.status, slow.body.as_str()), (200, "2"));
    faults.set(BlobFault::None);
    let gone = signed(&service, "GET", "/box/a", &[], b"").await;
    assert_eq!(gone.outcome(), (404, "BlobNotFound"));
    assert_eq!(faults.injected(), 3);
    service.stop().await;
}

#[tokio::test]
async fn a_directory_that_takes_no_writes_is_a_busy_service_that_recovers() {
    let directory = tempfile::tempdir().unwrap();
    let config = config_with(&directory);
    let service = Service::start(config.clone()).await.unwrap();
    signed(&service, "PUT", "/box/a", &[BLOCK], b"first").await;
    let folder = directory.path().join("data/blob/box");
    let aside = directory.path().join("aside");
    std::fs::rename(&folder, &aside).unwrap();
    let refused = signed(&service, "PUT", "/box/a", &[BLOCK], b"second").await;
    assert_eq!(refused.outcome(), (503, "ServerBusy"));
    std::fs::rename(&aside, &folder).unwrap();
    let kept = signed(&service, "GET", "/box/a", &[], b"").await;
    assert_eq!(kept.body, "first");
    let told = metrics(&service).await;
    for line in
        ["parshall_blob_requests_total 3", "parshall_blob_requests_failed_total 1", "parshall_blob_blobs 1"]
    {
        assert!(told.contains(line), "{told}");
    }
    service.stop().await;
    let service = Service::start(config).await.unwrap();
    let kept = signed(&service, "GET", "/box/a", &[], b"").await;
    assert_eq!(kept.body, "first");
    service.stop().await;
}

#[tokio::test]
async fn the_development_key_is_for_this_machine_alone() {
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let mut open = config();
    // The hubs' key is a secret; that of the blobs is not.
    open.namespace.authorization_rules[0].key = "private".into();
    open.listeners.retain(|listener| listener.protocol != Protocol::Blob);
    open.listeners.push(Listener::plain(Protocol::Blob, everywhere));
    let error = Service::start(open.clone()).await.unwrap_err();
    assert!(
        matches!(
            error,
            StartError::OpenToAnyone {
                protocol: Protocol::Blob,
                openness: Openness::DevelopmentStorageKey,
                ..
            }
        ),
        "{error}"
    );
    let mut keyed = open.clone();
    keyed.namespace.blob.account.key = "cHJpdmF0ZQ==".into();
    Service::start(keyed).await.unwrap().stop().await;
    open.open_to_anyone = true;
    let service = Service::start(open).await.unwrap();
    let text = service.storage_connection_string().unwrap().reveal();
    assert!(text.contains("BlobEndpoint=http://127.0.0.1:"), "{text}");
    service.stop().await;
}

#[tokio::test]
async fn sockets_that_ask_for_nothing_make_room_for_those_that_do() {
    let mut config = config();
    config.namespace.maximum_connections = std::num::NonZeroU32::new(4).unwrap();
    let service = Service::start(config).await.expect("the configuration is good");
    let mut idle = Vec::new();
    for _ in 0..40 {
        idle.push(connect(&service).await);
    }
    let written = signed(&service, "PUT", "/box/one", &[BLOCK], b"content").await;
    assert_eq!(written.status, 201);
    drop(idle);
}
