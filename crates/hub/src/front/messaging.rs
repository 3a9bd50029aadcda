//! One address for whatever clients of hubs, queues and topics speak, told apart by what they say first.
//!
//! ```text
//! AMQP…                                AMQP
//! GET /$servicebus/websocket           AMQP over WebSocket, also as the path of a whole URL
//! PRI * HTTP/2.0                       HTTP/2
//! any other capital letters            HTTP/1.1
//! ```
//!
//! TLS is beneath all of these, and the listener's. Whoever says nothing, or something else, is answered by AMQP.

use std::io;
use std::sync::Arc;

use access::TransportSecurity;
use amqp_tokio::{Spoken, Stream, WEB_SOCKET_PATH};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::amqp::AmqpFront;
use super::http::rest::{HttpConnection, RestFront, Version};
use super::listener::{Connection, Front, Gate, HANDSHAKE_TIMEOUT, Protocol};

/// The front end of one namespace, whatever is spoken.
#[derive(Debug)]
pub(crate) struct MessagingFront {
    amqp: Arc<AmqpFront>,
    rest: Arc<RestFront>,
}

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    Amqp,
    WebSocket,
    Http(Version),
}

impl MessagingFront {
    /// Serves AMQP by one front end, and HTTP by the other. They share the places of the former.
    pub(crate) fn new(amqp: Arc<AmqpFront>, rest: Arc<RestFront>) -> Arc<Self> {
        Arc::new(Self { amqp, rest })
    }
}

impl Front for MessagingFront {
    fn gate(&self) -> &Gate {
        self.amqp.gate()
    }

    async fn serve_connection(&self, connection: Connection) {
        let Connection { mut stream, protocol, spoken, .. } = connection;
        let opening = match (protocol, spoken) {
            (Protocol::AmqpWebSocket, _) => Opening::WebSocket,
            (_, Some(Spoken::Amqp)) => Opening::Amqp,
            _ => {
                let looked = look(stream).await;
                stream = looked.0;
                looked.1
            }
        };
        match opening {
            Opening::Amqp if protocol == Protocol::Rest => {
                tracing::debug!(peer = %connection.peer, "a client speaks no HTTP on the address for HTTP");
            }
            Opening::Amqp => {
                let connection = Connection { stream, protocol: Protocol::Amqp, ..connection };
                self.amqp.serve_connection(connection).await;
            }
            Opening::WebSocket => {
                let connection = Connection { stream, protocol: Protocol::AmqpWebSocket, ..connection };
                self.amqp.serve_connection(connection).await;
            }
            Opening::Http(version) => {
                let Connection { security, place, shaper, stop, .. } = connection;
                let is_secure = security == TransportSecurity::Tls;
                let connection = HttpConnection { stream, version, place, shaper, is_secure, stop };
                Arc::clone(&self.rest).serve(connection).await;
            }
        }
    }

    async fn refuse(&self, stream: Stream, protocol: Protocol) {
        let (mut stream, opening) = match protocol {
            Protocol::AmqpWebSocket => (stream, Opening::WebSocket),
            _ => look(stream).await,
        };
        match opening {
            Opening::Amqp => self.amqp.refuse(stream, Protocol::Amqp).await,
            Opening::WebSocket => self.amqp.refuse(stream, Protocol::AmqpWebSocket).await,
            Opening::Http(Version::Http2) => {}
            Opening::Http(Version::Http1) => {
                // The client may be gone already, or not take it.
                let telling = async {
                    stream.write_all(NO_ROOM).await?;
                    stream.shutdown().await
                };
                let _ = tokio::time::timeout(HANDSHAKE_TIMEOUT, telling).await;
            }
        }
    }
}

/// Finds out what a client speaks, and gives back a stream that still has all that it said.
async fn look(mut stream: Stream) -> (Stream, Opening) {
    let mut taken = Vec::new();
    let looked = tokio::time::timeout(HANDSHAKE_TIMEOUT, opening(&mut stream, &mut taken)).await;
    let opening = looked.ok().and_then(Result::ok).unwrap_or(Opening::Amqp);
    let stream = if taken.is_empty() { stream } else { stream.rewound(taken.into()) };
    (stream, opening)
}

/// What a client speaks. Where its first bytes can't be looked at, or are too few, they are in `taken`.
async fn opening(stream: &mut Stream, taken: &mut Vec<u8>) -> io::Result<Opening> {
    let mut seen = [0; LONGEST];
    if let Some(length) = stream.peek(&mut seen).await? {
        match Opening::of(&seen[..length]) {
            Some(opening) => return Ok(opening),
            None if length == 0 => return Ok(Opening::Amqp),
            None => {}
        }
    }
    loop {
        let length = stream.read(&mut seen[..LONGEST - taken.len()]).await?;
        taken.extend_from_slice(&seen[..length]);
        if let Some(opening) = Opening::of(taken) {
            return Ok(opening);
        }
        if length == 0 {
            return Ok(Opening::Amqp);
        }
    }
}

impl Opening {
    /// What begins with these bytes; `None` if they are too few to tell.
    fn of(first: &[u8]) -> Option<Self> {
        let begins = |start: &[u8]| {
            let length = start.len().min(first.len());
            start[..length].eq_ignore_ascii_case(&first[..length])
        };
        if first.is_empty() {
            return None;
        }
        if begins(HTTP_2) {
            return (first.len() >= HTTP_2.len()).then_some(Self::Http(Version::Http2));
        }
        if begins(GET) {
            match is_web_socket_target(first.get(GET.len()..).unwrap_or_default()) {
                Some(true) => return Some(Self::WebSocket),
                None if first.len() < LONGEST => return None,
                Some(false) | None => {}
            }
        }
        match Spoken::of(first) {
            Some(Spoken::Http) => Some(Self::Http(Version::Http1)),
            _ => Some(Self::Amqp),
        }
    }
}

/// Whether a target that begins with these bytes is that of AMQP over WebSocket: as a path, or as a whole URL (RFC 9112,
/// section 3.2.2). `None` if they are too few to tell.
fn is_web_socket_target(target: &[u8]) -> Option<bool> {
    let path = match target.first()? {
        b'/' => target,
        _ => {
            let is_of = |scheme: &&&[u8]| {
                let length = scheme.len().min(target.len());
                scheme[..length].eq_ignore_ascii_case(&target[..length])
            };
            let Some(scheme) = SCHEMES.iter().find(is_of) else {
                return Some(false);
            };
            let authority = target.get(scheme.len()..)?;
            let end = authority.iter().position(|byte| matches!(byte, b'/' | b' ' | b'?'))?;
            &authority[end..]
        }
    };
    let expected = WEB_SOCKET_PATH.as_bytes();
    let length = expected.len().min(path.len());
    match expected[..length].eq_ignore_ascii_case(&path[..length]) {
        true => (length == expected.len()).then_some(true),
        false => Some(false),
    }
}

/// Schemes of a target that is a whole URL.
const SCHEMES: [&[u8]; 4] = [b"http://", b"https://", b"ws://", b"wss://"];

const GET: &[u8] = b"GET ";

/// The beginning of HTTP/2, as far as it takes to tell it from other methods.
const HTTP_2: &[u8] = b"PRI ";

/// As many bytes as it takes to tell.
const LONGEST: usize = 320;

/// Longest name of a host with its port.
const AUTHORITY_MAX: usize = 253 + 6;

const _: () = assert!(GET.len() + "https://".len() + AUTHORITY_MAX + WEB_SOCKET_PATH.len() <= LONGEST);

/// What a client of HTTP/1.1 gets for which there is no place.
const NO_ROOM: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 4\r\nConnection: close\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_the_protocol_once_there_are_enough() {
        let http = Opening::Http(Version::Http1);
        for (first, expected) in [
            (&b""[..], None),
            (b"A", Some(Opening::Amqp)),
            (b"AMQP\x03\x01\x00\x00", Some(Opening::Amqp)),
            (b"P", None),
            (b"PR", None),
            (b"PO", Some(http)),
            (b"PRI * HTTP/2.0\r\n", Some(Opening::Http(Version::Http2))),
            (b"G", None),
            (b"GET /$servicebus", None),
            (b"GET /$ServiceBus/WebSocket/ HTTP/1.1", Some(Opening::WebSocket)),
            (b"GET https://a.example:5671/$servicebus/websocket HTTP/1.1", Some(Opening::WebSocket)),
            (b"GET WS://localhost/$servicebus/websocket?x=y HTTP/1.1", Some(Opening::WebSocket)),
            (b"GET ht", None),
            (b"GET https://a.exam", None),
            (b"GET https://a.example/$service", None),
            (b"GET https://a.example/orders/messages/head", Some(http)),
            (b"GET https://a.example HTTP/1.1", Some(http)),
            (b"GET hub HTTP/1.1", Some(http)),
            (&[&b"GET https://"[..], &[b'a'; LONGEST]].concat(), Some(http)),
            (b"GET /$Resources/Queues", Some(http)),
            (b"GET /hub HTTP/1.1", Some(http)),
            (b"DELETE /q/messages/head", Some(http)),
            (b"\x00\x00\x00\x10", Some(Opening::Amqp)),
        ] {
            assert_eq!(Opening::of(first), expected, "{first:?}");
        }
    }
}
