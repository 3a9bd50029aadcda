//! A TCP socket that counts its use, for all connections of the process together.
//!
//! The kernel counts the reads and writes of a process on files, but not those on sockets. Whoever wants to know what
//! an event costs in system calls finds the missing part here: two additions per call, none per event.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

#[cfg(target_os = "linux")]
use crate::pieces::{GoesOn, Pieces};

/// A TCP connection whose calls and bytes are counted.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    acknowledges_at_once: bool,
    /// While it is written in pieces, which few peers need.
    #[cfg(target_os = "linux")]
    pieces: Option<Pieces>,
}

/// What all sockets of this process have done so far. Every figure only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketUse {
    /// Calls that read something, or the end.
    pub reads: u64,
    /// Calls that wrote something.
    pub writes: u64,
    /// Bytes that came.
    pub bytes_read: u64,
    /// Bytes that went.
    pub bytes_written: u64,
    /// Connections that it has opened to others.
    pub connections: u64,
}

impl SocketUse {
    /// What the sockets of this process have done up to now.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self {
            reads: READS.load(Ordering::Relaxed),
            writes: WRITES.load(Ordering::Relaxed),
            bytes_read: BYTES_READ.load(Ordering::Relaxed),
            bytes_written: BYTES_WRITTEN.load(Ordering::Relaxed),
            connections: CONNECTIONS.load(Ordering::Relaxed),
        }
    }
}

impl Socket {
    /// The socket of a connection that this process has opened.
    pub(crate) fn opened(stream: TcpStream) -> Self {
        CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        stream.into()
    }

    /// The socket of a connection that this process has accepted.
    pub(crate) fn accepted(stream: TcpStream) -> Self {
        Self {
            #[cfg(target_os = "linux")]
            pieces: Pieces::for_peer_of(&stream),
            ..Self::from(stream)
        }
    }

    /// Whether what is written goes in pieces.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) const fn writes_in_pieces(&self) -> bool {
        self.pieces.is_some()
    }

    /// Writes the next piece of `bytes`; `None` if all can be written at once.
    #[cfg(target_os = "linux")]
    #[cold]
    fn poll_write_piece(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Option<Poll<io::Result<usize>>> {
        let pieces = self.pieces.as_mut()?;
        Some(match pieces.poll_write(&self.stream, cx, bytes) {
            Poll::Ready(Ok((length, goes_on))) => {
                if goes_on == GoesOn::Freely {
                    self.pieces = None;
                }
                count_write(length);
                Poll::Ready(Ok(length))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        })
    }

    /// From now on the peer's system is told at once of what was read, instead of together with the next write or after
    /// the system's delay (40 ms). For a peer that collects what it writes until then (Nagle's algorithm) and is
    /// answered late: it would have one write per answer. Costs a call and a segment for each read; without effect where
    /// the system can't do it.
    pub const fn acknowledge_at_once(&mut self) {
        self.acknowledges_at_once = true;
    }

    /// Waits until something has come, and copies its beginning without taking it away: how many bytes, 0 at the end.
    pub(crate) async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.peek(buffer).await
    }

    /// What lets the peer write on. The system falls back into its habit with the next answer, so this is per read.
    fn acknowledge(&self) {
        #[cfg(target_os = "linux")]
        let _ = self.stream.set_quickack(true);
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self {
            stream,
            acknowledges_at_once: false,
            #[cfg(target_os = "linux")]
            pieces: None,
        }
    }
}

impl AsyncRead for Socket {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        READS.fetch_add(1, Ordering::Relaxed);
        if self.acknowledges_at_once {
            self.acknowledge();
        }
        let length = buffer.filled().len() - filled;
        BYTES_READ.fetch_add(length as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    #[inline]
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        #[cfg(target_os = "linux")]
        if self.pieces.is_some()
            && let Some(written) = self.poll_write_piece(cx, bytes)
        {
            return written;
        }
        let length = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        count_write(length);
        Poll::Ready(Ok(length))
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        #[cfg(target_os = "linux")]
        if self.pieces.is_some()
            && let Some(first) = slices.iter().find(|slice| !slice.is_empty())
            && let Some(written) = self.poll_write_piece(cx, first)
        {
            return written;
        }
        let length = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices))?;
        count_write(length);
        Poll::Ready(Ok(length))
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

fn count_write(length: usize) {
    WRITES.fetch_add(1, Ordering::Relaxed);
    BYTES_WRITTEN.fetch_add(length as u64, Ordering::Relaxed);
}

static READS: AtomicU64 = AtomicU64::new(0);
static WRITES: AtomicU64 = AtomicU64::new(0);
static BYTES_READ: AtomicU64 = AtomicU64::new(0);
static BYTES_WRITTEN: AtomicU64 = AtomicU64::new(0);
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn calls_and_bytes_of_both_ends_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let before = SocketUse::of_this_process();
        let mut client = Socket::opened(client.unwrap());
        let mut server = Socket::from(accepted.unwrap().0);
        client.write_all(b"twelve bytes").await.unwrap();
        let mut received = [0; 12];
        server.read_exact(&mut received).await.unwrap();
        let after = SocketUse::of_this_process();
        // Other tests of this process may use sockets at the same time.
        assert!(after.writes > before.writes && after.reads > before.reads);
        assert!(after.connections > before.connections);
        assert!(after.bytes_written >= before.bytes_written + 12);
        assert!(after.bytes_read >= before.bytes_read + 12);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_socket_that_acknowledges_at_once_does_so_after_each_read_whatever_it_has_written() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let mut client = client.unwrap();
        let mut server = Socket::from(accepted.unwrap().0);
        let mut byte = [0];
        // Questions and answers by turns teach the system to wait with its acknowledgement for the answer.
        let mut exchanges = 0;
        while server.stream.quickack().unwrap() {
            exchanges += 1;
            assert!(exchanges < 1000, "this system never waits");
            client.write_all(b"?").await.unwrap();
            server.read_exact(&mut byte).await.unwrap();
            server.write_all(b"!").await.unwrap();
            client.read_exact(&mut byte).await.unwrap();
        }
        server.acknowledge_at_once();
        for _ in 0..3 {
            client.write_all(b"?").await.unwrap();
            server.read_exact(&mut byte).await.unwrap();
            assert!(server.stream.quickack().unwrap());
            server.write_all(b"!").await.unwrap();
            client.read_exact(&mut byte).await.unwrap();
        }
    }
}
