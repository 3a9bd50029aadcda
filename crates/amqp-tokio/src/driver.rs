//! One connection, its socket and its clock.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use amqp::Connection;
use amqp::connection::{ConnectionError, Event};
use tokio::io::{AsyncReadExt as _, AsyncWrite};
use tokio::time::{Instant, Sleep};

use crate::read_buffer::ReadBuffer;
use crate::stream::Stream;

/// An engine with the socket that carries it.
#[derive(Debug)]
pub struct Driver {
    connection: Connection,
    stream: Stream,
    input: ReadBuffer,
    timer: Pin<Box<Sleep>>,
    /// What the timer is set to.
    deadline: Option<std::time::Instant>,
    /// TLS holds back written bytes until it is flushed.
    flush_due: bool,
    /// Output that may wait for the peer before input from it is left alone, in bytes.
    output_high_water: usize,
    /// Whether the timer is set for the last words of a closed connection.
    is_parting: bool,
    ended: bool,
}

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The socket failed.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The peer closed the socket without closing the connection.
    #[error("the peer closed the socket")]
    Disconnected,
    /// The protocol ended it; [`Event::Closed`] says the same.
    #[error(transparent)]
    Protocol(#[from] ConnectionError),
    /// It was closed in good order.
    #[error("the connection is closed")]
    Closed,
}

impl Driver {
    /// Drives `connection` over `stream`. Must be made inside a tokio runtime.
    pub fn new(connection: Connection, stream: Stream) -> Self {
        Self {
            connection,
            stream,
            input: ReadBuffer::default(),
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            deadline: None,
            flush_due: false,
            output_high_water: OUTPUT_HIGH_WATER,
            is_parting: false,
            ended: false,
        }
    }

    /// The engine: take events from it and give it commands. Whatever these write is sent by the next
    /// [`poll_drive`](Self::poll_drive), so call that before you wait for anything.
    pub const fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// From now on the peer's system is told at once of what was read: for a peer that is answered late
    /// ([`Socket::acknowledge_at_once`](crate::Socket::acknowledge_at_once)).
    pub fn acknowledge_at_once(&mut self) {
        self.stream.acknowledge_at_once();
    }

    /// Input is left alone from now on while `bytes` of output or more wait for the peer; `None` for the default.
    pub fn set_output_high_water(&mut self, bytes: Option<usize>) {
        self.output_high_water = bytes.unwrap_or(OUTPUT_HIGH_WATER);
    }

    /// Writes what there is, then reads once.
    ///
    /// `Ready(Ok)` means that input was handled or a deadline passed: take the events and call again. `Pending` means
    /// that all output has been taken by the socket, or that so much waits for it that nothing more is read until
    /// the peer reads.
    ///
    /// # Errors
    /// Once the connection is over, for whatever reason, and what is left to say has been said or has found nobody. Events that came before can still be taken.
    pub fn poll_drive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), DriveError>> {
        if self.ended {
            return Poll::Ready(Err(DriveError::Closed));
        }
        let result = self.poll_once(cx);
        if let Poll::Ready(Err(_)) = result {
            self.ended = true;
            self.connection.handle_disconnect();
        }
        result
    }

    /// Writes what there is, and reads nothing: while events wait that came before.
    ///
    /// # Errors
    /// The socket failed. The next [`poll_drive`](Self::poll_drive) says so as well.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write(cx)
    }

    /// The next event, waiting for it if need be. For the cold paths: opening, attaching, requests.
    ///
    /// # Errors
    /// Once the connection is over and its events have been taken.
    pub async fn next_event(&mut self) -> Result<Event, DriveError> {
        poll_fn(|cx| {
            loop {
                if let Some(event) = self.connection.poll_event() {
                    // What the event's predecessors made us say must not wait for the next call.
                    let _ = self.poll_write(cx)?;
                    return Poll::Ready(Ok(event));
                }
                if let Err(error) = ready!(self.poll_drive(cx)) {
                    return Poll::Ready(self.connection.poll_event().ok_or(error));
                }
            }
        })
        .await
    }

    /// Sends what is left to send, ends the socket's output, and waits for the peer to do the same. Gives up after
    /// `patience`.
    ///
    /// What the peer still sends is thrown away, but it is read: a socket that is closed with input unread resets the
    /// connection, and the peer might lose our last words, such as why we closed.
    pub async fn shut_down(mut self, patience: Duration) {
        let farewell = async {
            let written = poll_fn(|cx| {
                ready!(self.poll_write(cx))?;
                Pin::new(&mut self.stream).poll_shutdown(cx)
            });
            if written.await.is_ok() {
                let mut discarded = [0; 4096];
                while matches!(self.stream.read(&mut discarded).await, Ok(1..)) {}
            }
        };
        let _ = tokio::time::timeout(patience, farewell).await;
    }

    fn poll_once(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), DriveError>> {
        let written = self.poll_write(cx)?;
        if self.connection.is_closed() {
            if written.is_pending() {
                // Why we closed is worth some waiting, but the peer may be one that does not read.
                ready!(self.poll_parting(cx));
            }
            return Poll::Ready(Err(DriveError::Closed));
        }
        // A peer that does not read gets nothing more to react to.
        if self.connection.output_len() < self.output_high_water {
            match self.poll_read(cx) {
                Poll::Ready(result) => return Poll::Ready(result),
                Poll::Pending => self.input.rest(),
            }
        }
        ready!(self.poll_deadline(cx));
        self.connection.handle_timeout(now());
        Poll::Ready(Ok(()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.connection.output_len() == 0 && !self.connection.owes_output() {
                break;
            }
            let is_scattered = self.connection.is_output_scattered();
            let output = self.connection.poll_output(now());
            if output.is_empty() {
                break;
            }
            let written = match is_scattered {
                false => Pin::new(&mut self.stream).poll_write(cx, output),
                true => self.poll_write_scattered(cx),
            };
            let length = ready!(written)?;
            if length == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.connection.consume_output(length);
            self.flush_due = true;
        }
        if self.flush_due {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.flush_due = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes the first pieces of the output by one call. They are copied for a stream that takes only one at a time: it
    /// would make a message or a burst of each.
    fn poll_write_scattered(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        let count = self.connection.output_slices(&mut slices);
        let pieces = &slices[..count];
        let stream = Pin::new(&mut self.stream);
        if stream.is_write_vectored() {
            return stream.poll_write_vectored(cx, pieces);
        }
        let mut gathered = Vec::new();
        for piece in pieces {
            let room = GATHERED_MAX - gathered.len();
            gathered.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        stream.poll_write(cx, &gathered)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), DriveError>> {
        // `read_buf` reads into spare capacity without filling it with zeros first.
        let read = self.stream.read_buf(self.input.with_room());
        let length = ready!(std::pin::pin!(read).poll(cx))?;
        if length == 0 {
            return Poll::Ready(Err(DriveError::Disconnected));
        }
        // After an error a close frame must still go out: the next call writes it and then ends, and the event of the
        // closed connection carries the error.
        let _ = self.connection.handle_input(now(), self.input.input());
        Poll::Ready(Ok(()))
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.connection.poll_timeout() else {
            return Poll::Pending;
        };
        // Every frame moves the deadline on; the timer is only moved when it fires too early.
        if self.deadline.is_none_or(|set| deadline < set) {
            self.set_timer(deadline);
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if deadline <= now() {
                self.deadline = None;
                return Poll::Ready(());
            }
            self.set_timer(deadline);
        }
    }

    fn poll_parting(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !std::mem::replace(&mut self.is_parting, true) {
            self.set_timer(now() + LAST_WORDS);
        }
        self.timer.as_mut().poll(cx)
    }

    fn set_timer(&mut self, deadline: std::time::Instant) {
        self.timer.as_mut().reset(deadline.into());
        self.deadline = Some(deadline);
    }
}

/// The runtime's clock, which tests can hold.
fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// Pieces of one vectored write.
const PIECES_MAX: usize = 64;

/// Bytes that are copied together for a stream without vectored writes.
const GATHERED_MAX: usize = 64 * 1024;

/// How long a closed connection waits for the peer to take what is left for it.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Output that may wait for the peer, unless the application says otherwise, in bytes.
const OUTPUT_HIGH_WATER: usize = 4 * 1024 * 1024;
