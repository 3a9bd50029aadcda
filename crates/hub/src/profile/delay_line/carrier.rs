//! The task that moves bytes between a socket and the two lanes of a line.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Duration, Instant, Sleep};

use super::lane::{Burst, Lane};
use crate::profile::precise_timer::PreciseTimer;

/// Bytes under way in both directions, shared by the service's end of a line and its carrier.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) inbound: Lane,
    outbound: Lane,
    /// How the socket's input ended, and when the service learns of it.
    input_ended: Option<(Instant, io::Result<()>)>,
    /// Why the socket takes nothing any more.
    output_failed: Option<io::ErrorKind>,
    closing: Closing,
    /// Whether the socket's output is shut down.
    is_shut: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    carrier: Option<Waker>,
}

/// How far the service has closed its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Closing {
    Open,
    /// It writes nothing more.
    ShutDown,
    /// It neither reads nor writes; written bytes still leave.
    Dropped,
    /// The line has broken: nothing passes any more.
    Broken,
}

/// See the module.
pub(super) struct Carrier<S> {
    socket: S,
    path: Arc<Mutex<Path>>,
    departure: PreciseTimer,
    /// Fires when a socket that takes nothing is given up, once the service has dropped its end.
    linger: Option<Pin<Box<Sleep>>>,
    scratch: Box<[u8]>,
}

/// Locks a path. Its state is right between any two statements, so that one whose holder panicked still is.
pub(super) fn lock(path: &Mutex<Path>) -> MutexGuard<'_, Path> {
    path.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Path {
    pub(super) const fn new(inbound: Lane, outbound: Lane) -> Self {
        Self {
            inbound,
            outbound,
            input_ended: None,
            output_failed: None,
            closing: Closing::Open,
            is_shut: false,
            reader: None,
            writer: None,
            carrier: None,
        }
    }

    /// Reads what has arrived. The error is the instant at which more arrives, if any is under way; otherwise the task is woken when the
    /// socket has something.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Result<io::Result<()>, Option<Instant>> {
        let now = Instant::now();
        self.inbound.advance(now);
        let bytes = self.inbound.due_bytes();
        if !bytes.is_empty() {
            let was_full = self.inbound.room() == 0;
            let length = bytes.len().min(buffer.remaining());
            buffer.put_slice(&bytes[..length]);
            self.inbound.consume(length);
            if was_full {
                wake(&mut self.carrier);
            }
            return Ok(Ok(()));
        }
        let burst = self.inbound.bursts.front().map(|burst| burst.due);
        match (burst, &mut self.input_ended) {
            // The error is for the first who asks; whoever asks again gets the end.
            (None, Some((due, end))) if *due <= now => Ok(std::mem::replace(end, Ok(()))),
            (None, Some((due, _))) => Err(Some(*due)),
            (Some(due), _) => Err(Some(due)),
            (None, None) => {
                register(&mut self.reader, cx);
                Err(None)
            }
        }
    }

    /// Sends bytes on their way, after `setup` if that is given.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        setup: Option<Duration>,
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let now = Instant::now();
        if let Some(setup) = setup {
            self.outbound.not_before = Some(now + setup);
        }
        let room = self.outbound.room();
        if room == 0 {
            register(&mut self.writer, cx);
            return Poll::Pending;
        }
        // Otherwise it waits for what is before them.
        if self.outbound.bytes.is_empty() {
            wake(&mut self.carrier);
        }
        let length = bytes.len().min(room);
        self.outbound.push(now, &bytes[..length]);
        Poll::Ready(Ok(length))
    }

    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        if self.is_shut {
            return Poll::Ready(Ok(()));
        }
        self.close(Closing::ShutDown);
        register(&mut self.writer, cx);
        Poll::Pending
    }

    pub(super) fn close(&mut self, closing: Closing) {
        self.closing = self.closing.max(closing);
        wake(&mut self.carrier);
    }

    /// Fails if the socket takes nothing any more.
    pub(super) fn check(&self) -> io::Result<()> {
        self.output_failed.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Carrier<S> {
    pub(super) fn new(socket: S, path: Arc<Mutex<Path>>, departure: PreciseTimer) -> Self {
        Self { socket, path, departure, linger: None, scratch: vec![0; BURST_MAX].into_boxed_slice() }
    }

    /// Takes what the socket has, as far as there is room for it.
    fn receive(&mut self, cx: &mut Context<'_>, path: &mut Path) {
        while path.input_ended.is_none() && path.inbound.room() > 0 {
            let length = self.scratch.len().min(path.inbound.room());
            let mut buffer = ReadBuf::new(&mut self.scratch[..length]);
            let end = match Pin::new(&mut self.socket).poll_read(cx, &mut buffer) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => Ok(()),
                Poll::Ready(Ok(())) => {
                    path.inbound.push(Instant::now(), buffer.filled());
                    wake(&mut path.reader);
                    continue;
                }
                Poll::Ready(Err(error)) => Err(error),
            };
            path.input_ended = Some((path.inbound.next_due(Instant::now()), end));
            wake(&mut path.reader);
        }
    }

    /// Gives the socket what is due; ready when nothing is under way any more.
    fn poll_leave(&mut self, cx: &mut Context<'_>, path: &mut Path) -> Poll<io::Result<()>> {
        loop {
            path.outbound.advance(Instant::now());
            let bytes = path.outbound.due_bytes();
            if !bytes.is_empty() {
                let length = ready!(Pin::new(&mut self.socket).poll_write(cx, bytes))?;
                if length == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                path.outbound.consume(length);
                wake(&mut path.writer);
                continue;
            }
            match path.outbound.bursts.front() {
                None => return Poll::Ready(Ok(())),
                Some(&Burst { due, .. }) => ready!(self.departure.poll(cx, due)),
            }
        }
    }

    /// Moves everything that can be moved; ready when the socket is of no more use.
    fn poll_carry(&mut self, cx: &mut Context<'_>, path: &mut Path) -> Poll<()> {
        if path.closing < Closing::Dropped {
            self.receive(cx, path);
        }
        if path.closing == Closing::Broken || path.output_failed.is_some() {
            // Its input may have an end that the service has yet to read.
            return if path.closing < Closing::Dropped { Poll::Pending } else { Poll::Ready(()) };
        }
        let mut left = self.poll_leave(cx, path);
        if let Poll::Ready(Ok(())) = left
            && path.closing >= Closing::ShutDown
            && !path.is_shut
        {
            left = Pin::new(&mut self.socket).poll_shutdown(cx);
            path.is_shut = matches!(left, Poll::Ready(Ok(())));
            wake(&mut path.writer);
        }
        if let Poll::Ready(Err(error)) = &left {
            path.output_failed = Some(error.kind());
            wake(&mut path.writer);
        }
        if path.closing < Closing::Dropped {
            return Poll::Pending;
        }
        if left.is_pending() {
            let give_up_at = || Box::pin(tokio::time::sleep_until(path.outbound.last_due() + LINGER));
            ready!(self.linger.get_or_insert_with(give_up_at).as_mut().poll(cx));
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Future for Carrier<S> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let carrier = self.get_mut();
        let shared = Arc::clone(&carrier.path);
        let path = &mut *lock(&shared);
        register(&mut path.carrier, cx);
        carrier.poll_carry(cx, path)
    }
}

fn register(waker: &mut Option<Waker>, cx: &Context<'_>) {
    match waker {
        Some(registered) => registered.clone_from(cx.waker()),
        None => *waker = Some(cx.waker().clone()),
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// Bytes taken from the socket at once.
const BURST_MAX: usize = 64 * 1024;

/// Time for the last bytes of a line that the service has dropped, beyond their delay.
const LINGER: Duration = Duration::from_secs(5);
