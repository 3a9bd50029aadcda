//! A client of blob storage that says exactly what it is told to, right or wrong.

use std::time::SystemTime;

use access::storage::{StorageAccountKey, StorageCredential, StorageRequest, decode_parameter};
use hub::service::{Protocol, Service};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use units::date::http_date;

/// A reply, taken apart.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// The same, whether it is text or not.
    pub(crate) bytes: Vec<u8>,
}

impl Reply {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (other, value) = line.split_once(':')?;
            other.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// The status, and the code that clients go by.
    pub(crate) fn outcome(&self) -> (u16, &str) {
        (self.status, self.header("x-ms-error-code").unwrap_or_default())
    }
}

/// Sends a request that is signed with the account's key, on a connection of its own.
pub(crate) async fn signed(
    service: &Service,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    let text = signed_text(service, method, target, headers, body);
    raw(service, &[text.as_bytes(), body].concat()).await
}

/// The head of such a request.
pub(crate) fn signed_text(
    service: &Service,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> String {
    signed_at(service, "localhost", method, &format!("/{}{target}", key(service).account()), headers, body)
}

/// The head of a request for what a path names at a host.
pub(crate) fn signed_at(
    service: &Service,
    host: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let date = http_date(SystemTime::now());
    let length = body.len().to_string();
    let mut headers = headers.to_vec();
    headers.extend([
        ("x-ms-date", date.as_str()),
        ("x-ms-version", "2024-11-04"),
        ("Content-Length", length.as_str()),
    ]);
    let parameters: Vec<_> = query
        .split('&')
        .filter_map(|parameter| parameter.split_once('='))
        .map(|(name, value)| (decode_parameter(name).into(), decode_parameter(value).into()))
        .collect();
    let authorization =
        key(service).authorization(&StorageRequest { method, path, query: &parameters, headers: &headers });
    let mut text = format!("{method} {path}");
    if !query.is_empty() {
        text.push('?');
        text.push_str(query);
    }
    text.push_str(&format!(" HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"));
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("Authorization: {authorization}\r\n\r\n"));
    text
}

/// Sends bytes as they are, and reads until the service closes the connection.
pub(crate) async fn raw(service: &Service, bytes: &[u8]) -> Reply {
    let mut socket = connect(service).await;
    socket.write_all(bytes).await.expect("the service takes it");
    read(&mut socket).await
}

/// A connection to the service.
pub(crate) async fn connect(service: &Service) -> TcpStream {
    let address = service.address(Protocol::Blob).expect("blobs are served");
    TcpStream::connect(address).await.expect("the service listens")
}

/// Reads a reply up to the end of the connection.
pub(crate) async fn read(socket: &mut (impl AsyncRead + Unpin)) -> Reply {
    let mut bytes = Vec::new();
    // Who refuses a body closes the connection while it is still coming.
    let _ = socket.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Reply {
        status: status.unwrap_or_default(),
        head: head.to_owned(),
        body: body.to_owned(),
        bytes: bytes
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .map_or_else(Vec::new, |at| bytes[at + 4..].to_vec()),
    }
}

/// The account and its key.
pub(crate) fn key(service: &Service) -> StorageAccountKey {
    let string = service.storage_connection_string();
    match string.expect("blobs are served").credential {
        StorageCredential::Key(key) => key,
        StorageCredential::Signature(_) | StorageCredential::Identity => unreachable!("services have keys"),
    }
}
