//! AMQP over WebSocket: a byte stream in binary messages.
//!
//! It is for clients that may only use the port of HTTPS. The bytes of the connection travel in binary messages whose
//! borders mean nothing: a frame of AMQP may straddle them. Below is any [`Stream`], so TLS is a layer of its own.
//!
//! What a peer can make us hold is bounded: one message that comes in, and one burst that goes out.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Sink, Stream as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::http::header::{HeaderMap, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::stream::{ConnectError, Stream};

/// Does the server's part of the WebSocket handshake on `stream`, within `timeout`. Everything that is sent and received
/// through the stream that comes back travels in binary messages.
///
/// # Errors
/// The client asked for another path than [`WEB_SOCKET_PATH`], for none of the protocols of AMQP, or for no WebSocket at
/// all, and has been told so; or it took too long.
pub async fn accept_web_socket(stream: Stream, timeout: Duration) -> io::Result<Stream> {
    let handshake = tokio_tungstenite::accept_hdr_async_with_config(stream, answer, Some(configuration()));
    let inner = tokio::time::timeout(timeout, handshake)
        .await
        .map_err(|_| io::ErrorKind::TimedOut)?
        .map_err(into_io)?;
    Ok(WebSocket::over(inner))
}

/// Does the client's part of the WebSocket handshake with `host:port`, to which `stream` is connected, within
/// `timeout`.
pub async fn connect_web_socket(
    stream: Stream,
    host: &str,
    port: u16,
    timeout: Duration,
) -> Result<Stream, ConnectError> {
    let failed = |source| ConnectError::WebSocket { host: host.to_owned(), port, source };
    let is_secure = matches!(stream, Stream::Tls(_));
    let attempt = async {
        // The scheme decides about nothing but the port that the host's header leaves out.
        let scheme = if is_secure { "wss" } else { "ws" };
        let mut request =
            format!("{scheme}://{host}:{port}{WEB_SOCKET_PATH}").into_client_request().map_err(into_io)?;
        let protocol = HeaderValue::from_static(PROTOCOLS[0]);
        request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, protocol);
        tokio_tungstenite::client_async_with_config(request, stream, Some(configuration()))
            .await
            .map_err(into_io)
    };
    match tokio::time::timeout(timeout, attempt).await {
        Ok(Ok((inner, _response))) => Ok(WebSocket::over(inner)),
        Ok(Err(source)) => Err(failed(source)),
        Err(_elapsed) => Err(ConnectError::Timeout { host: host.to_owned(), port, timeout }),
    }
}

/// A byte stream in the binary messages of a WebSocket.
#[derive(Debug)]
struct WebSocket {
    inner: WebSocketStream<Stream>,
    /// What is left of the message that is being read.
    message: Bytes,
}

impl WebSocket {
    fn over(inner: WebSocketStream<Stream>) -> Stream {
        Stream::Other(Box::new(Self { inner, message: Bytes::new() }))
    }
}

impl AsyncRead for WebSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.message.is_empty() {
            match ready!(Pin::new(&mut self.inner).poll_next(cx)) {
                Some(Ok(Message::Binary(message))) => self.message = message,
                // A ping is answered by the library when it reads or writes next.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Text(_))) => {
                    let text = "a text message arrived, but AMQP needs binary messages";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)));
                }
                Some(Ok(Message::Close(_))) => {
                    // The answer is ready; whether the peer still takes it does not matter.
                    let _ = Pin::new(&mut self.inner).poll_flush(cx);
                    return Poll::Ready(Ok(()));
                }
                Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) | None => {
                    return Poll::Ready(Ok(()));
                }
                Some(Err(error)) => return Poll::Ready(Err(into_io(error))),
            }
        }
        let length = self.message.len().min(buffer.remaining());
        buffer.put_slice(&self.message.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WebSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // What could not be written before goes first, so there is never more than one message to hold.
        ready!(Pin::new(&mut self.inner).poll_ready(cx)).map_err(into_io)?;
        let length = bytes.len().min(LONGEST_SENT_MESSAGE);
        let message = Message::Binary(Bytes::copy_from_slice(&bytes[..length]));
        Pin::new(&mut self.inner).start_send(message).map_err(into_io)?;
        Poll::Ready(Ok(length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx).map_err(into_io)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.inner).poll_close(cx)) {
            Ok(()) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(into_io(error))),
        }
    }
}

/// The answer to a client's request for a WebSocket, given the response that the library proposes.
#[allow(clippy::result_large_err, reason = "the library's callback has this type")]
fn answer(request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    let path = request.uri().path().trim_end_matches('/');
    if !path.eq_ignore_ascii_case(WEB_SOCKET_PATH) {
        let text = format!("AMQP is at {WEB_SOCKET_PATH}.\n");
        return Err(refusal(StatusCode::NOT_FOUND, text));
    }
    let Some(protocol) = wanted_protocol(request.headers()) else {
        let text = format!("The protocol must be one of {}.\n", PROTOCOLS.join(", "));
        return Err(refusal(StatusCode::BAD_REQUEST, text));
    };
    response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    Ok(response)
}

/// The first protocol in the client's list that is one of ours.
fn wanted_protocol(headers: &HeaderMap) -> Option<&'static str> {
    let listed = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
    listed
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .find_map(|name| PROTOCOLS.into_iter().find(|known| known.eq_ignore_ascii_case(name.trim())))
}

fn refusal(status: StatusCode, text: String) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some(text));
    *response.status_mut() = status;
    response
}

fn configuration() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_SIZE)
        .write_buffer_size(LONGEST_SENT_MESSAGE)
        .max_write_buffer_size(4 * LONGEST_SENT_MESSAGE)
        .max_message_size(Some(LONGEST_MESSAGE))
        .max_frame_size(Some(LONGEST_MESSAGE))
}

fn into_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::ConnectionClosed | Error::AlreadyClosed => io::ErrorKind::NotConnected.into(),
        Error::Capacity(_) | Error::Protocol(_) | Error::Utf8(_) | Error::AttackAttempt => {
            io::Error::new(io::ErrorKind::InvalidData, error)
        }
        error => io::Error::other(error),
    }
}

/// Where AMQP is, for all official clients.
pub const WEB_SOCKET_PATH: &str = "/$servicebus/websocket";

/// Names of the same protocol: what most official clients ask for, and what the standard and the client for Go say.
const PROTOCOLS: [&str; 2] = ["AMQPWSB10", "amqp"];

/// Longest message that is taken, in bytes. Some clients send all that waits in one; this is what a connection may hold
/// of unfinished AMQP messages as well.
const LONGEST_MESSAGE: usize = 16 * 1024 * 1024;

/// Longest message that is sent, in bytes: large enough that headers and calls do not show.
const LONGEST_SENT_MESSAGE: usize = 64 * 1024;

/// Allocated for every connection, so small; longer messages get what they need.
const READ_BUFFER_SIZE: usize = 8 * 1024;
