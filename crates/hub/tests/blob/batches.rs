//! Batches, as clients delete many blobs at once.

use hub::service::Service;
use units::ByteSize;

use crate::blob::client::{Reply, raw, signed, signed_at, signed_text};
use crate::blob::{BLOCK, config};

/// A service that takes batches of more than a few requests.
async fn service() -> Service {
    let mut config = config();
    config.namespace.blob.body = ByteSize::from_kibibytes(64);
    Service::start(config).await.expect("the configuration is good")
}

/// A request: method, target and headers.
type Asked<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

/// A batch of requests, each signed by itself.
fn batch(service: &Service, requests: &[Asked<'_>]) -> Vec<u8> {
    let mut body = String::new();
    for (number, (method, target, headers)) in requests.iter().enumerate() {
        let head = signed_text(service, method, target, headers, b"");
        body.push_str(&format!(
            "--batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: {number}\r\n\r\n{head}\r\n"
        ));
    }
    body.push_str("--batch_1--\r\n");
    body.into_bytes()
}

async fn send(service: &Service, target: &str, body: &[u8]) -> Reply {
    let headers = [("Content-Type", "multipart/mixed; boundary=batch_1")];
    signed(service, "POST", target, &headers, body).await
}

/// The status and the code of each part of a reply, in their order, with the id of the request.
fn outcomes(reply: &Reply) -> Vec<(String, u16, String)> {
    let content_type = reply.header("content-type").expect("it has a body");
    let (_, boundary) = content_type.split_once("boundary=").expect("it is in parts");
    let delimiter = format!("--{boundary}");
    let parts = reply.body.split(&delimiter).skip(1).filter(|part| part.starts_with("\r\n"));
    let field = |part: &str, name: &str| {
        let line = part.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    parts
        .map(|part| {
            let status = field(part, "HTTP/1.1 ");
            let status = status.split(' ').next().and_then(|status| status.parse().ok()).unwrap_or_default();
            (field(part, "Content-ID:"), status, field(part, "x-ms-error-code:"))
        })
        .collect()
}

#[tokio::test]
async fn each_request_of_a_batch_has_its_own_outcome() {
    let service = service().await;
    for name in ["a", "b", "c"] {
        signed(&service, "PUT", &format!("/box/{name}"), &[BLOCK], b"content").await;
    }
    let requests: [Asked<'_>; 6] = [
        ("DELETE", "/box/a", &[]),
        ("DELETE", "/box/missing", &[]),
        ("PUT", "/box/b?comp=tier", &[("x-ms-access-tier", "Cool")]),
        ("DELETE", "/box/c", &[("If-Match", "\"0x1\"")]),
        ("GET", "/box/c", &[]),
        ("DELETE", "/other/c", &[]),
    ];
    let body = batch(&service, &requests);
    let reply = send(&service, "/?comp=batch", &body).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    let told = |id: usize, status, code: &str| (id.to_string(), status, code.to_owned());
    let mut expected = vec![
        told(0, 202, ""),
        told(1, 404, "BlobNotFound"),
        told(2, 200, ""),
        told(3, 412, "ConditionNotMet"),
        told(4, 400, "InvalidInput"),
        told(5, 404, "ContainerNotFound"),
    ];
    assert_eq!(outcomes(&reply), expected);
    assert_eq!(signed(&service, "HEAD", "/box/a", &[], b"").await.status, 404);
    let head = signed(&service, "HEAD", "/box/b", &[], b"").await;
    assert_eq!(head.header("x-ms-access-tier"), Some("Cool"));
    assert_eq!(signed(&service, "HEAD", "/box/c", &[], b"").await.status, 200);
    // Of one container.
    let reply = send(&service, "/box?restype=container&comp=batch", &body).await;
    expected[0] = told(0, 404, "BlobNotFound");
    expected[5] = told(5, 400, "InvalidInput");
    assert_eq!(outcomes(&reply), expected);
    service.stop().await;
}

#[tokio::test]
async fn the_host_of_a_batch_is_that_of_its_requests() {
    let service = service().await;
    signed(&service, "PUT", "/box/a", &[BLOCK], b"content").await;
    let host = "devstoreaccount1.blob.localhost:10000";
    let part = signed_at(&service, host, "DELETE", "/box/a", &[], b"");
    let part: Vec<_> = part.lines().filter(|line| !line.to_ascii_lowercase().starts_with("host:")).collect();
    let part = part.join("\r\n");
    let body = format!("--b\r\nContent-Type: application/http\r\n\r\n{part}\r\n\r\n--b--\r\n");
    let headers = [("Content-Type", "multipart/mixed; boundary=b")];
    let head = signed_at(&service, host, "POST", "/?comp=batch", &headers, body.as_bytes());
    let reply = raw(&service, [head, body].concat().as_bytes()).await;
    assert_eq!(outcomes(&reply), [(String::new(), 202, String::new())], "{}", reply.body);
    service.stop().await;
}

#[tokio::test]
async fn a_request_in_a_batch_needs_its_own_proof() {
    let service = service().await;
    signed(&service, "PUT", "/box/a", &[BLOCK], b"content").await;
    let honest = String::from_utf8(batch(&service, &[("DELETE", "/box/a", &[])])).unwrap();
    let unsigned: Vec<_> = honest.lines().filter(|line| !line.starts_with("Authorization")).collect();
    for (body, expected) in [
        (unsigned.join("\r\n"), (401, "NoAuthenticationInformation")),
        (honest.replace("/box/a", "/box/b"), (403, "AuthenticationFailed")),
    ] {
        let reply = send(&service, "/?comp=batch", body.as_bytes()).await;
        assert_eq!(outcomes(&reply), [("0".to_owned(), expected.0, expected.1.to_owned())]);
    }
    assert_eq!(signed(&service, "HEAD", "/box/a", &[], b"").await.status, 200);
    for (body, code) in [("no batch", "InvalidInput"), ("--batch_1--\r\n", "InvalidInput")] {
        let reply = send(&service, "/?comp=batch", body.as_bytes()).await;
        assert_eq!(reply.outcome(), (400, code), "{body}");
    }
    service.stop().await;
}
