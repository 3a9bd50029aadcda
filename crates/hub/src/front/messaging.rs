//! One address for whatever clients of hubs, queues and topics speak, told apart by what they say first.
//!
//! ```text
//! AMQP…                                AMQP
//! GET /$servicebus/websocket           AMQP over WebSocket
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
        let path = WEB_SOCKET_PATH.as_bytes();
        if begins(GET)
            && first.get(GET.len()..).is_none_or(|rest| {
                let length = path.len().min(rest.len());
                path[..length].eq_ignore_ascii_case(&rest[..length])
            })
        {
            return (first.len() >= GET.len() + path.len()).then_some(Self::WebSocket);
        }
        match Spoken::of(first) {
            Some(Spoken::Http) => Some(Self::Http(Version::Http1)),
            _ => Some(Self::Amqp),
        }
    }
}

const GET: &[u8] = b"GET ";

/// The beginning of HTTP/2, as far as it takes to tell it from other methods.
const HTTP_2: &[u8] = b"PRI ";

/// As many bytes as it takes to tell.
const LONGEST: usize = 64;

const _: () = assert!(GET.len() + WEB_SOCKET_PATH.len() < LONGEST);

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
            (b"GET /$Resources/Queues", Some(http)),
            (b"GET /hub HTTP/1.1", Some(http)),
            (b"DELETE /q/messages/head", Some(http)),
            (b"\x00\x00\x00\x10", Some(Opening::Amqp)),
        ] {
            assert_eq!(Opening::of(first), expected, "{first:?}");
        }
    }
}
