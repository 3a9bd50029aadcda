//! Refusals of uploads, which reach their clients although the body was not read, and are counted.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{BLOCK, metrics, service};
use crate::blob::client::{connect, read, signed, signed_text};

#[tokio::test]
async fn refusal_reaches_a_client_that_sends_all_of_its_body_before_it_reads() {
    let service = service().await;
    let body = vec![7; 20 << 20];
    let small = b"small";
    let head = |target, headers: &[(&str, &str)]| signed_text(&service, "PUT", target, headers, &body);
    let unknown_key =
        head("/box/x", &[BLOCK]).replace("Authorization: SharedKey ", "Authorization: SharedKey x");
    for (head, expected) in [
        (head("/nowhere/x", &[BLOCK]), "ContainerNotFound"),
        (head("/box/x", &[BLOCK]), "RequestBodyTooLarge"),
        (head("/box/x", &[BLOCK, ("x-ms-seal-blob", "true")]), "UnsupportedHeader"),
        (head("/box/x?comp=seal", &[]), "UnsupportedQueryParameter"),
        (unknown_key, "AuthenticationFailed"),
    ] {
        // A client that would use the connection again gets no reset either.
        for head in [head.clone(), head.replace("Connection: close\r\n", "")] {
            let mut socket = connect(&service).await;
            socket.write_all(head.as_bytes()).await.expect("the head is read");
            socket.write_all(&body).await.expect("the body is read to its end");
            let mut reply = String::new();
            socket.read_to_string(&mut reply).await.expect("the connection is not reset");
            let code = format!("x-ms-error-code: {expected}\r\n");
            assert!(reply.contains(&code), "{expected} is not in: {reply}");
        }
    }
    // A body that was read leaves the connection as it was.
    let mut socket = connect(&service).await;
    for _ in 0..2 {
        let text = signed_text(&service, "PUT", "/box/kept", &[BLOCK], small);
        let text = text.replace("Connection: close\r\n", "");
        socket.write_all(&[text.as_bytes(), small].concat()).await.expect("it is open");
        let mut reply = Vec::new();
        while !reply.ends_with(b"\r\n\r\n") {
            reply.push(socket.read_u8().await.expect("it goes on"));
        }
        assert!(reply.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&reply));
    }
    service.stop().await;
}

#[tokio::test]
async fn service_stops_while_a_refused_client_goes_on_sending() {
    let service = service().await;
    let head = signed_text(&service, "PUT", "/nowhere/x", &[BLOCK], &vec![0; 1 << 20]);
    let mut socket = connect(&service).await;
    socket.write_all(head.as_bytes()).await.expect("the head is read");
    let mut start = [0; 12];
    socket.read_exact(&mut start).await.expect("the refusal comes");
    assert_eq!(&start, b"HTTP/1.1 404");
    tokio::time::timeout(std::time::Duration::from_secs(20), service.stop()).await.expect("it stops at once");
    drop(read(&mut socket).await);
}

#[tokio::test]
async fn refusals_are_counted_by_operation_and_code() {
    let service = service().await;
    for _ in 0..3 {
        signed(&service, "PUT", "/nowhere/x", &[BLOCK], b"x").await;
    }
    signed(&service, "GET", "/box/none", &[], b"").await;
    signed(&service, "PUT", "/box/x?comp=seal", &[], b"").await;
    let written = signed(&service, "PUT", "/box/x", &[BLOCK], b"x").await;
    let etag = written.header("etag").expect("it was written").to_owned();
    let unchanged = signed(&service, "GET", "/box/x", &[("If-None-Match", etag.as_str())], b"").await;
    assert_eq!(unchanged.status, 304);
    let metrics = metrics(&service).await;
    for (operation, code, count) in [
        ("PutBlob", "ContainerNotFound", 3),
        ("GetBlob", "BlobNotFound", 1),
        ("Unknown", "UnsupportedQueryParameter", 1),
    ] {
        let line =
            format!("parshall_blob_refusals_total{{operation=\"{operation}\",code=\"{code}\"}} {count}");
        assert!(metrics.lines().any(|it| it == line), "{line} is not in:\n{metrics}");
    }
    assert!(!metrics.contains("ConditionNotMet"), "{metrics}");
    service.stop().await;
}
