//! A socket on which nothing stands still for ever, and no head of a request takes for ever; and which is closed in stages where a
//! client may still be sending.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::connection::Limits;
use super::farewell::Farewell;

/// A socket with a time within which something must come, one within which something must be taken, and one within which
/// the head of a request must be complete.
#[derive(Debug)]
pub(super) struct Deadlines<S> {
    socket: S,
    reading: Deadline,
    writing: Deadline,
    head: HeadDeadline,
    close: Close,
}

/// How far the close of a socket is.
#[derive(Debug)]
enum Close {
    /// The sending side is not closed.
    NotYet,
    /// What still comes is dropped.
    Farewell(Farewell),
    Done,
}

/// When waiting has lasted long enough.
#[derive(Debug)]
struct Deadline {
    patience: Duration,
    timer: Pin<Box<Sleep>>,
    is_running: bool,
}

/// When the head of a request has taken long enough. The socket sees its first byte; that it is complete shows in that the
/// request begins.
#[derive(Debug)]
struct HeadDeadline {
    patience: Duration,
    timer: Pin<Box<Sleep>>,
    progress: Arc<Progress>,
    /// The request whose head the timer is for, by how many there were before it.
    of: Option<u64>,
}

/// How far a connection has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Requests whose heads were complete.
    begun: AtomicU64,
    /// Those that were answered.
    ended: AtomicU64,
    /// Whether the connection ends with the response to the latest one, of whose body something is left.
    has_body_left: AtomicBool,
    /// Whether the service stops.
    is_stopping: AtomicBool,
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Answering(Arc<Progress>);

impl Progress {
    /// The head of a request is complete.
    pub(super) fn begin(self: &Arc<Self>) -> Answering {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(self))
    }

    /// The connection ends with the next response, since something of the body is left.
    pub(super) fn leave_body(&self) {
        self.has_body_left.store(true, Ordering::Relaxed);
    }

    /// Clients are not waited for any longer.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    fn is_answering(&self) -> bool {
        self.ended.load(Ordering::Relaxed) != self.begun()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl<S> Deadlines<S> {
    pub(super) fn new(socket: S, limits: &Limits, progress: Arc<Progress>) -> Self {
        let (patience, timer) = (limits.head, Box::pin(sleep(limits.head)));
        Self {
            socket,
            reading: Deadline::new(limits.silence),
            writing: Deadline::new(limits.stall),
            head: HeadDeadline { patience, timer, progress, of: None },
            close: Close::NotYet,
        }
    }
}

impl HeadDeadline {
    /// Bytes came. Those that come while a request is answered are of its body.
    fn on_bytes(&mut self) {
        let next = Some(self.progress.begun());
        if self.of != next && !self.progress.is_answering() {
            self.of = next;
            self.timer.as_mut().reset(Instant::now() + self.patience);
        }
    }

    /// Whether the client may be sending what is not read: the body of an answered request, or what is no request.
    fn is_input_left(&self) -> bool {
        let has_begun = self.of == Some(self.progress.begun());
        has_begun || self.progress.has_body_left.load(Ordering::Relaxed)
    }

    /// Whether the head whose bytes are awaited has taken too long.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        self.of == Some(self.progress.begun()) && self.timer.as_mut().poll(cx).is_ready()
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
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut this.socket).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            this.head.on_bytes();
        } else if outcome.is_pending() && this.head.is_over(cx) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        this.reading.judge(cx, outcome)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Deadlines<S> {
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
        loop {
            match &mut this.close {
                Close::NotYet => {
                    let outcome = Pin::new(&mut this.socket).poll_shutdown(cx);
                    ready!(this.writing.judge(cx, outcome))?;
                    this.close = match this.head.is_input_left() {
                        true => Close::Farewell(Farewell::start()),
                        false => Close::Done,
                    };
                }
                Close::Farewell(_) if this.head.progress.is_stopping.load(Ordering::Relaxed) => {
                    this.close = Close::Done;
                }
                Close::Farewell(farewell) => {
                    ready!(farewell.poll_dropped(cx, &mut this.socket));
                    this.close = Close::Done;
                }
                Close::Done => return Poll::Ready(Ok(())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::PAGE_LIMITS;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test(start_paused = true)]
    async fn silence_and_refusing_to_read_both_end_a_connection() {
        let (near, mut far) = tokio::io::duplex(16);
        let patience = Duration::from_secs(60);
        let limits = Limits { head: patience * 2, silence: patience, stall: patience, ..PAGE_LIMITS };
        let mut socket = Deadlines::new(near, &limits, Arc::default());
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
