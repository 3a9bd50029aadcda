//! The socket under a connection: plain TCP, TLS on top of it, or any other byte stream.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::socket::Socket;

/// A connected byte stream.
#[derive(Debug)]
pub enum Stream {
    /// TCP as it is.
    Plain(Socket),
    /// TLS over TCP, either side.
    Tls(Box<TlsStream<Socket>>),
    /// Whatever else carries bytes both ways: WebSocket, or a stream that shapes what goes through another.
    Other(Box<dyn Transport>),
}

/// A byte stream in both directions. Whatever has these traits is one.
///
/// What was written must reach the peer without further writes once a flush is ready: the driver flushes after each
/// burst.
pub trait Transport: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin> Transport for T {}

/// How a client checks the server it reached.
#[derive(Debug, Clone)]
pub struct ClientTls {
    /// Roots, versions and ciphers.
    pub config: Arc<ClientConfig>,
    /// The name that the certificate must have.
    pub server_name: ServerName<'static>,
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address could not be reached.
    #[error("{host}:{port} cannot be reached: {source}")]
    Unreachable {
        /// Host as given.
        host: String,
        /// Port.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
    /// The TLS handshake failed.
    #[error("the TLS handshake with {host}:{port} failed: {source}")]
    Tls {
        /// Host as given.
        host: String,
        /// Port.
        port: u16,
        /// What the TLS library said.
        source: io::Error,
    },
    /// The server speaks no AMQP over WebSocket there.
    #[error("the WebSocket handshake with {host}:{port} failed: {source}")]
    WebSocket {
        /// Host as given.
        host: String,
        /// Port.
        port: u16,
        /// What went wrong.
        source: io::Error,
    },
    /// Neither succeeded nor failed in time.
    #[error("{host}:{port} did not answer within {timeout:?}")]
    Timeout {
        /// Host as given.
        host: String,
        /// Port.
        port: u16,
        /// How long was waited.
        timeout: Duration,
    },
}

/// Connects to `host:port`, with TLS if `tls` is given, within `timeout`.
pub async fn connect(
    host: &str,
    port: u16,
    tls: Option<ClientTls>,
    timeout: Duration,
) -> Result<Stream, ConnectError> {
    let attempt = async {
        let socket = connect_plain(host, port).await?;
        match tls {
            None => Ok(socket),
            Some(tls) => connect_tls(socket, host, port, tls).await,
        }
    };
    tokio::time::timeout(timeout, attempt)
        .await
        .unwrap_or_else(|_| Err(ConnectError::Timeout { host: host.to_owned(), port, timeout }))
}

/// Connects to `host:port` without TLS, and without limit of time.
pub async fn connect_plain(host: &str, port: u16) -> Result<Stream, ConnectError> {
    let unreachable = |source| ConnectError::Unreachable { host: host.to_owned(), port, source };
    let socket = TcpStream::connect((host, port)).await.map_err(unreachable)?;
    socket.set_nodelay(true).map_err(unreachable)?;
    Ok(Stream::Plain(Socket::opened(socket)))
}

/// Does the client's part of the TLS handshake with `host:port` on a stream to it, without limit of time.
pub async fn connect_tls(
    stream: Stream,
    host: &str,
    port: u16,
    tls: ClientTls,
) -> Result<Stream, ConnectError> {
    let ClientTls { config, server_name } = tls;
    let connector = TlsConnector::from(config);
    let failed = |source| ConnectError::Tls { host: host.to_owned(), port, source };
    Ok(match stream {
        Stream::Plain(socket) => {
            let stream = connector.connect(server_name, socket).await.map_err(failed)?;
            Stream::Tls(Box::new(TlsStream::Client(stream)))
        }
        other => Stream::Other(Box::new(connector.connect(server_name, other).await.map_err(failed)?)),
    })
}

/// Takes an accepted socket as it is.
pub fn accept(socket: TcpStream) -> io::Result<Stream> {
    socket.set_nodelay(true)?;
    Ok(Stream::Plain(Socket::accepted(socket)))
}

/// Does the server's part of the TLS handshake on an accepted socket, within `timeout`.
pub async fn accept_tls(
    socket: TcpStream,
    config: Arc<ServerConfig>,
    timeout: Duration,
) -> io::Result<Stream> {
    socket.set_nodelay(true)?;
    let stream = tls_handshake(Socket::accepted(socket), config, timeout).await?;
    Ok(Stream::Tls(Box::new(stream)))
}

/// The same on any byte stream.
pub async fn accept_tls_over(
    stream: Stream,
    config: Arc<ServerConfig>,
    timeout: Duration,
) -> io::Result<Stream> {
    let stream = tls_handshake(stream, config, timeout).await?;
    Ok(Stream::Other(Box::new(stream)))
}

impl Stream {
    /// Waits until something has come, and copies its beginning without taking it away: how many bytes, 0 at the end. `None` where the
    /// stream can't be looked into.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn peek(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Plain(socket) => socket.peek(buffer).await.map(Some),
            Self::Tls(stream) => {
                let first = stream.as_mut().fill_buf().await?;
                let length = first.len().min(buffer.len());
                buffer[..length].copy_from_slice(&first[..length]);
                Ok(Some(length))
            }
            Self::Other(_) => Ok(None),
        }
    }

    /// The same stream with what was taken from its beginning.
    #[must_use]
    pub fn rewound(self, taken: Bytes) -> Self {
        Self::Other(Box::new(Rewound { taken, stream: self }))
    }

    /// See [`Socket::acknowledge_at_once`]; without effect on what is neither TCP nor TLS over it.
    pub fn acknowledge_at_once(&mut self) {
        match self {
            Self::Plain(socket) => socket.acknowledge_at_once(),
            Self::Tls(stream) => stream.get_mut().0.acknowledge_at_once(),
            Self::Other(_) => {}
        }
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buffer),
            Self::Other(stream) => Pin::new(stream.as_mut()).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
            Self::Other(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
        }
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, slices),
            Self::Other(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            Self::Other(stream) => stream.is_write_vectored(),
        }
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
            Self::Other(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
            Self::Other(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}

/// A stream from whose beginning something was taken.
#[derive(Debug)]
struct Rewound {
    taken: Bytes,
    stream: Stream,
}

impl AsyncRead for Rewound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.taken.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let length = self.taken.len().min(buffer.remaining());
        buffer.put_slice(&self.taken.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewound {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The server's part.
async fn tls_handshake<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    config: Arc<ServerConfig>,
    timeout: Duration,
) -> io::Result<TlsStream<S>> {
    let handshake = TlsAcceptor::from(config).accept(stream);
    let stream = tokio::time::timeout(timeout, handshake).await.map_err(|_| io::ErrorKind::TimedOut)??;
    Ok(TlsStream::Server(stream))
}
