//! A socket on which nothing stands still for ever: who neither sends nor takes anything for a while is gone.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A socket with a time within which something must come, and one within which something must be taken.
#[derive(Debug)]
pub(super) struct Deadlines<S> {
    socket: S,
    reading: Deadline,
    writing: Deadline,
}

/// When waiting has lasted long enough.
#[derive(Debug)]
struct Deadline {
    patience: Duration,
    timer: Pin<Box<Sleep>>,
    is_running: bool,
}

impl<S> Deadlines<S> {
    pub(super) fn new(socket: S, reading: Duration, writing: Duration) -> Self {
        Self { socket, reading: Deadline::new(reading), writing: Deadline::new(writing) }
    }
}

impl Deadline {
    fn new(patience: Duration) -> Self {
        Self { patience, timer: Box::pin(sleep(patience)), is_running: false }
    }

    /// What an operation came to, or that it has waited for too long.
    fn judge<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.is_running = false;
            return outcome;
        }
        if !self.is_running {
            self.is_running = true;
            self.timer.as_mut().reset(Instant::now() + self.patience);
        }
        match self.timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Deadlines<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.socket).poll_read(cx, buffer);
        this.reading.judge(cx, outcome)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Deadlines<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.socket).poll_write(cx, bytes);
        this.writing.judge(cx, outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.socket).poll_write_vectored(cx, parts);
        this.writing.judge(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.socket).poll_flush(cx);
        this.writing.judge(cx, outcome)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.socket).poll_shutdown(cx);
        this.writing.judge(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test(start_paused = true)]
    async fn silence_and_refusing_to_read_both_end_a_connection() {
        let (near, mut far) = tokio::io::duplex(16);
        let patience = Duration::from_secs(60);
        let mut socket = Deadlines::new(near, patience, patience);
        let mut buffer = [0; 8];
        far.write_all(b"x").await.unwrap();
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 1);
        let started = Instant::now();
        let error = socket.read(&mut buffer).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() >= patience);
        let started = Instant::now();
        let error = socket.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() >= patience);
    }
}
