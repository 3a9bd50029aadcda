//! The network between a client and the service: a byte stream on which everything takes its time.
//!
//! ```text
//!  socket ── bytes arrive ──▶ due half a round trip later ──▶ read by the service
//!  socket ◀── bytes leave ── due half a round trip later ◀── written by the service
//! ```
//!
//! What is read or written at once is one burst with one instant at which it is due. A burst never overtakes another:
//! the round trip may be drawn anew for each, but the stream is TCP. As on a real path, what is under way is bounded,
//! and a full path stops whoever fills it.
//!
//! Beneath TLS, so that each of its handshake's round trips takes its time as well. TCP's own handshake is over before
//! the service sees the connection; so the first bytes of the client are taken to have been sent one round trip late.
//!
//! The line can also break: at an instant drawn in advance reads and writes fail as they do when a peer resets the
//! connection.

mod lane;

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Duration, Instant};

use self::lane::{Burst, Lane};
use super::distribution::Distribution;
use super::shaper::{Concern, ServiceProfile, Shaper, arrival};

/// A byte stream with a network's delay.
pub struct DelayLine<S> {
    socket: S,
    inbound: Lane,
    outbound: Lane,
    /// How the socket's input ended, and when the service learns of it.
    input_ended: Option<(Instant, io::Result<()>)>,
    /// How long the service thinks before its first byte; `None` once it has begun.
    setup: Option<Duration>,
    breaks_at: Option<Instant>,
    broken: bool,
    profile: Arc<ServiceProfile>,
    scratch: Box<[u8]>,
}

impl Shaper {
    /// Whether this connection needs a [`DelayLine`].
    #[must_use]
    pub fn shapes_bytes(&self) -> bool {
        let config = self.profile().config();
        config.round_trip.is_some()
            || config.connection_setup.is_some()
            || config.failures.disconnect_per_s.is_some()
    }

    /// The line between a socket that was accepted just now and the service. Must be called inside a tokio runtime.
    pub fn delay_line<S: AsyncRead + AsyncWrite + Unpin>(&self, socket: S) -> DelayLine<S> {
        DelayLine::new(socket, self)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> DelayLine<S> {
    fn new(socket: S, shaper: &Shaper) -> Self {
        let config = shaper.profile().config();
        let now = Instant::now();
        let lane = |concern| Lane::new(now, config.round_trip, shaper.random(concern), shaper.timer());
        let mut inbound = lane(Concern::Arriving);
        // TCP's handshake.
        let handshake = inbound.one_way() + inbound.one_way();
        inbound.not_before = Some(now + handshake);
        let setup = |setup: Distribution| setup.sample(&mut shaper.random(Concern::Setup));
        let breakage = |rate| arrival(now, rate, &mut shaper.random(Concern::Breakage));
        let breaks_at = config.failures.disconnect_per_s.map(breakage);
        Self {
            socket,
            inbound,
            outbound: lane(Concern::Leaving),
            input_ended: None,
            setup: config.connection_setup.map(setup),
            breaks_at,
            broken: false,
            profile: Arc::clone(shaper.profile()),
            scratch: vec![0; BURST_MAX].into_boxed_slice(),
        }
    }

    /// Takes what the socket has, as far as there is room for it.
    fn receive(&mut self, cx: &mut Context<'_>) {
        while self.input_ended.is_none() && self.inbound.room() > 0 {
            let length = self.scratch.len().min(self.inbound.room());
            let mut buffer = ReadBuf::new(&mut self.scratch[..length]);
            let end = match Pin::new(&mut self.socket).poll_read(cx, &mut buffer) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => Ok(()),
                Poll::Ready(Ok(())) => {
                    self.inbound.push(Instant::now(), buffer.filled());
                    continue;
                }
                Poll::Ready(Err(error)) => Err(error),
            };
            self.input_ended = Some((self.inbound.next_due(Instant::now()), end));
        }
    }

    /// Gives the socket what is due; ready when nothing is on its way any more.
    fn poll_leave(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            self.outbound.advance(Instant::now());
            let bytes = self.outbound.due_bytes();
            if !bytes.is_empty() {
                let length = ready!(Pin::new(&mut self.socket).poll_write(cx, bytes))?;
                if length == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.outbound.consume(length);
                continue;
            }
            match self.outbound.bursts.front() {
                None => return Poll::Ready(Ok(())),
                Some(&Burst { due, .. }) => ready!(self.outbound.timer.poll(cx, due)),
            }
        }
    }

    fn check_intact(&mut self) -> io::Result<()> {
        if !self.broken && self.breaks_at.is_some_and(|at| at <= Instant::now()) {
            self.broken = true;
            self.profile.count_disconnect();
        }
        if self.broken {
            let text = "the connection broke (injected by the service profile)";
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, text));
        }
        Ok(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for DelayLine<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        loop {
            line.check_intact()?;
            line.receive(cx);
            let now = Instant::now();
            line.inbound.advance(now);
            let bytes = line.inbound.due_bytes();
            if !bytes.is_empty() {
                let length = bytes.len().min(buffer.remaining());
                buffer.put_slice(&bytes[..length]);
                line.inbound.consume(length);
                return Poll::Ready(Ok(()));
            }
            let burst = line.inbound.bursts.front().map(|burst| burst.due);
            let next = match (burst, &mut line.input_ended) {
                (None, Some((due, end))) if *due <= now => {
                    // The error is for the first who asks; whoever asks again gets the end.
                    return Poll::Ready(std::mem::replace(end, Ok(())));
                }
                (None, Some((due, _))) => Some(*due),
                (burst, _) => burst,
            };
            let wakes = [next, line.breaks_at];
            let Some(at) = wakes.into_iter().flatten().min() else {
                return Poll::Pending;
            };
            ready!(line.inbound.timer.poll(cx, at));
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for DelayLine<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let line = self.get_mut();
        line.check_intact()?;
        let now = Instant::now();
        if let Some(setup) = line.setup.take() {
            line.outbound.not_before = Some(now + setup);
        }
        while line.outbound.room() == 0 {
            let left = line.poll_leave(cx)?;
            // Then the task is woken when some of it leaves.
            if left.is_pending() && line.outbound.room() == 0 {
                return Poll::Pending;
            }
        }
        let length = bytes.len().min(line.outbound.room());
        line.outbound.push(now, &bytes[..length]);
        Poll::Ready(Ok(length))
    }

    /// Ready when everything has left.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        line.check_intact()?;
        ready!(line.poll_leave(cx))?;
        Pin::new(&mut line.socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        line.check_intact()?;
        ready!(line.poll_leave(cx))?;
        Pin::new(&mut line.socket).poll_shutdown(cx)
    }
}

impl<S: fmt::Debug> fmt::Debug for DelayLine<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayLine")
            .field("socket", &self.socket)
            .field("inbound_bytes", &self.inbound.bytes.len())
            .field("outbound_bytes", &self.outbound.bytes.len())
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

/// Bytes taken from the socket at once.
const BURST_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests;
