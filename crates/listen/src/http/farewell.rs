//! The end of a connection whose client may still be sending (RFC 9112, 9.6).
//!
//! A system that closes a socket with unread input resets the connection, and the reset takes back an answer that the client has
//! not read. So the connection is closed in stages: nothing more is written, what still comes is read and dropped, and the socket
//! is closed when the client has closed it, or when a bound is reached.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// The last stage of a connection: reading and dropping what still comes, within bounds of bytes and time.
#[derive(Debug)]
pub struct Farewell {
    /// Bytes that may still be dropped.
    rest: u64,
    end: Pin<Box<Sleep>>,
    silence: Pin<Box<Sleep>>,
}

impl Farewell {
    /// Starts the stage. The answer has been written, and the sending side of the socket is closed.
    #[must_use]
    pub fn start() -> Self {
        Self { rest: DROPPED_MAX, end: Box::pin(sleep(DURATION_MAX)), silence: Box::pin(sleep(SILENCE_MAX)) }
    }

    /// Reads and drops input of `socket`. Ready when the client has closed the connection, or a bound is reached.
    pub fn poll_dropped<S: AsyncRead + Unpin>(&mut self, cx: &mut Context<'_>, socket: &mut S) -> Poll<()> {
        let mut scratch = [std::mem::MaybeUninit::uninit(); READ_BYTES];
        for _ in 0..READS_AT_ONCE {
            if self.rest == 0 || self.end.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::uninit(&mut scratch);
            match Pin::new(&mut *socket).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.rest = self.rest.saturating_sub(buffer.filled().len() as u64);
                    self.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return self.silence.as_mut().poll(cx),
            }
        }
        // Others have their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Input that is dropped, in bytes: as much as the clients of blobs send in one request.
const DROPPED_MAX: u64 = 256 * 1024 * 1024;

/// Longest duration of the stage.
const DURATION_MAX: Duration = Duration::from_secs(30);

/// Longest time without input.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// Bytes of each read.
const READ_BYTES: usize = 16 * 1024;

/// Reads before other tasks have their turn.
const READS_AT_ONCE: usize = 32;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn input_is_dropped_until_the_client_closes_or_falls_silent() {
        let (mut near, mut far) = duplex(1024);
        let client = tokio::spawn(async move {
            for _ in 0..100 {
                far.write_all(&[0; 1024]).await.unwrap();
                tokio::time::sleep(SILENCE_MAX / 20).await;
            }
        });
        let mut farewell = Farewell::start();
        let started = Instant::now();
        poll_fn(|cx| farewell.poll_dropped(cx, &mut near)).await;
        client.await.unwrap();
        assert!(started.elapsed() >= SILENCE_MAX * 4, "all of it was read, slow as it came");

        let (mut near, far) = duplex(1024);
        let (mut farewell, started) = (Farewell::start(), Instant::now());
        poll_fn(|cx| farewell.poll_dropped(cx, &mut near)).await;
        assert_eq!(started.elapsed(), SILENCE_MAX);
        drop(far);
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_goes_on_sending_is_read_for_a_bounded_time() {
        let (mut near, mut far) = duplex(1024);
        let client = tokio::spawn(async move {
            while far.write_all(&[0; 16]).await.is_ok() {
                tokio::time::sleep(SILENCE_MAX / 2).await;
            }
        });
        let (mut farewell, started) = (Farewell::start(), Instant::now());
        poll_fn(|cx| farewell.poll_dropped(cx, &mut near)).await;
        assert_eq!(started.elapsed(), DURATION_MAX);
        drop(near);
        client.await.unwrap();
    }
}
