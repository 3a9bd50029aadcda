//! Wakes a task when something is due, where what is due changes all the time.
//!
//! Under load a batch is full long before its time, and the next one is due a little later. Setting a timer costs more than letting
//! it fire early now and then: it is set anew only for what is due before that.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// See the module. Made within a tokio runtime with time.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: Pin<Box<Sleep>>,
    /// What the timer is set to, until it has fired.
    armed: Option<Instant>,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        Self { timer: Box::pin(tokio::time::sleep(Duration::ZERO)), armed: None }
    }

    /// Ready when `deadline` may have passed, which is for the caller to look at; never if nothing is due.
    #[inline]
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, deadline: Option<Instant>) -> Poll<()> {
        let Some(deadline) = deadline else {
            return Poll::Pending;
        };
        if self.armed.is_none_or(|armed| deadline < armed) {
            self.armed = Some(deadline);
            self.timer.as_mut().reset(deadline);
        }
        ready!(self.timer.as_mut().poll(context));
        self.armed = None;
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_wakes_for_what_is_due_first_and_early_for_what_was_put_off() {
        let start = Instant::now();
        let at = |seconds| Some(start + Duration::from_secs(seconds));
        let mut alarm = Alarm::new();
        // Due later, then sooner, then later again, before the timer has fired.
        poll_fn(|context| {
            assert!(alarm.poll(context, at(9)).is_pending());
            assert!(alarm.poll(context, at(2)).is_pending());
            assert!(alarm.poll(context, at(5)).is_pending());
            Poll::Ready(())
        })
        .await;
        poll_fn(|context| alarm.poll(context, at(5))).await;
        assert_eq!(start.elapsed(), Duration::from_secs(2));
        poll_fn(|context| alarm.poll(context, at(5))).await;
        assert_eq!(start.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn it_never_wakes_for_nothing() {
        let mut alarm = Alarm::new();
        let waited =
            tokio::time::timeout(Duration::from_secs(3_600), poll_fn(|context| alarm.poll(context, None)));
        assert!(waited.await.is_err());
    }
}
