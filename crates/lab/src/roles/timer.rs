//! A timer that is exact to microseconds, for schedules that count them.
//!
//! The runtime's own timers round to whole milliseconds, which would be most of the latency that a good service
//! has. The kernel's timer descriptors are exact and wake the same event loop, so no thread spins or hands over.

use std::{
    io,
    os::fd::OwnedFd,
    task::{Context, Poll, ready},
    time::Duration,
};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// A timer that can be set anew at any time.
#[derive(Debug)]
pub(super) struct Timer {
    descriptor: AsyncFd<OwnedFd>,
    armed: bool,
}

impl Timer {
    /// A timer that is not set. Must be made within a runtime.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(
            deprecated,
            reason = "the only constructor without `unsafe`; what it can't check holds, as an `OwnedFd` keeps its descriptor"
        )]
        let descriptor = AsyncFd::new(descriptor)?;
        Ok(Self { descriptor, armed: false })
    }

    /// Sets the timer, in place of what it was set to before. No time at all is the least that there is.
    pub(super) fn set(&mut self, after: Duration) -> io::Result<()> {
        let after = after.max(Duration::from_nanos(1));
        let value = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: after.subsec_nanos().into(),
            },
        };
        timerfd_settime(self.descriptor.get_ref(), TimerfdTimerFlags::empty(), &value)?;
        self.armed = true;
        Ok(())
    }

    /// Ready once when the time has passed; `Pending` for a timer that is not set.
    pub(super) fn poll_elapsed(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.armed {
            return Poll::Pending;
        }
        loop {
            let mut guard = ready!(self.descriptor.poll_read_ready(context))?;
            let mut expirations = [0; 8];
            match rustix::io::read(guard.get_inner(), &mut expirations) {
                Ok(_) => {
                    self.armed = false;
                    return Poll::Ready(Ok(()));
                }
                Err(rustix::io::Errno::AGAIN) => guard.clear_ready(),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Instant};

    use super::*;

    #[tokio::test]
    async fn it_elapses_no_earlier_than_set_and_can_be_set_again() {
        let mut timer = Timer::new().expect("a timer");
        for microseconds in [0, 300, 2_000] {
            let start = Instant::now();
            let after = Duration::from_micros(microseconds);
            timer.set(Duration::from_secs(3_600)).expect("it can be set");
            timer.set(after).expect("and set anew");
            poll_fn(|context| timer.poll_elapsed(context)).await.expect("it elapses");
            assert!(start.elapsed() >= after);
        }
    }

    #[tokio::test]
    async fn a_timer_that_is_not_set_never_elapses() {
        let mut timer = Timer::new().expect("a timer");
        let polled = poll_fn(|context| Poll::Ready(timer.poll_elapsed(context).is_pending())).await;
        assert!(polled);
    }
}
