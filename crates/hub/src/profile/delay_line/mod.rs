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
//! A task of each line, its [`carrier`], takes bytes from the socket when they arrive and gives them to it when they are due, whatever the
//! service waits for meanwhile. To the service the line is a socket of the kernel: written bytes are flushed, and leave also if it closes the
//! line. So any number of requests and answers pass in the time of one.
//!
//! Beneath TLS, so that each of its handshake's round trips takes its time as well. TCP's own handshake is over before
//! the service sees the connection; so the first bytes of the client are taken to have been sent one round trip late.
//!
//! The line can also break: at an instant drawn in advance reads and writes fail as they do when a peer resets the
//! connection.

mod carrier;
mod lane;

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Duration, Instant};

use self::carrier::{Carrier, Closing, Path};
use self::lane::Lane;
use super::distribution::Distribution;
use super::precise_timer::PreciseTimer;
use super::shaper::{Concern, ServiceProfile, Shaper, arrival};

/// The service's end of a byte stream with a network's delay.
pub struct DelayLine {
    path: Arc<Mutex<Path>>,
    /// Fires when the next bytes have arrived.
    arrival: PreciseTimer,
    /// How long the service thinks before its first byte; `None` once it has begun.
    setup: Option<Duration>,
    breaks_at: Option<Instant>,
    broken: bool,
    profile: Arc<ServiceProfile>,
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
    pub fn delay_line<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(&self, socket: S) -> DelayLine {
        let config = self.profile().config();
        let now = Instant::now();
        let lane = |concern| Lane::new(now, config.round_trip, self.random(concern));
        let mut inbound = lane(Concern::Arriving);
        // TCP's handshake.
        let handshake = inbound.one_way() + inbound.one_way();
        inbound.not_before = Some(now + handshake);
        let setup = |setup: Distribution| setup.sample(&mut self.random(Concern::Setup));
        let breakage = |rate| arrival(now, rate, &mut self.random(Concern::Breakage));
        let path = Arc::new(Mutex::new(Path::new(inbound, lane(Concern::Leaving))));
        let carrier = Carrier::new(socket, Arc::clone(&path), self.timer());
        // A task: bytes arrive and leave whatever the service does.
        tokio::spawn(carrier);
        DelayLine {
            path,
            arrival: self.timer(),
            setup: config.connection_setup.map(setup),
            breaks_at: config.failures.disconnect_per_s.map(breakage),
            broken: false,
            profile: Arc::clone(self.profile()),
        }
    }
}

impl DelayLine {
    /// Fails if the line is broken, which closes it at once.
    fn check_intact(&mut self) -> io::Result<()> {
        if !self.broken && self.breaks_at.is_some_and(|at| at <= Instant::now()) {
            self.broken = true;
            self.profile.count_disconnect();
            carrier::lock(&self.path).close(Closing::Broken);
        }
        if self.broken {
            let text = "the connection broke (injected by the service profile)";
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, text));
        }
        Ok(())
    }
}

impl AsyncRead for DelayLine {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        loop {
            line.check_intact()?;
            let arrives_at = match carrier::lock(&line.path).poll_read(cx, buffer) {
                Ok(outcome) => return Poll::Ready(outcome),
                Err(arrives_at) => arrives_at,
            };
            let wakes = [arrives_at, line.breaks_at];
            let Some(at) = wakes.into_iter().flatten().min() else {
                return Poll::Pending;
            };
            ready!(line.arrival.poll(cx, at));
        }
    }
}

impl AsyncWrite for DelayLine {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let line = self.get_mut();
        line.check_intact()?;
        carrier::lock(&line.path).poll_write(cx, bytes, line.setup.take())
    }

    /// Ready at once, as with a socket: bytes that are under way need nothing more of the service.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        line.check_intact()?;
        Poll::Ready(carrier::lock(&line.path).check())
    }

    /// Ready when everything has left.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        line.check_intact()?;
        carrier::lock(&line.path).poll_shutdown(cx)
    }
}

impl Drop for DelayLine {
    fn drop(&mut self) {
        carrier::lock(&self.path).close(Closing::Dropped);
    }
}

impl fmt::Debug for DelayLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayLine").field("broken", &self.broken).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
