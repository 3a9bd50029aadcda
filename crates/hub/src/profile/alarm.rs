//! Alarms that are finer than the runtime's timers.
//!
//! The timers of tokio go by whole milliseconds, rounded up. Half of a round trip of 2 ms is one: it would come out
//! anywhere between one and two. So a thread of its own waits for the alarms of a service, to some ten microseconds where
//! a CPU is free.
//! Where there is no such thread, and where time is not real, the runtime's timers do.

use std::collections::BTreeMap;
use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use tokio::time::{Instant, Sleep};

/// Wakes one task at one instant after the other.
#[derive(Debug)]
pub(crate) struct Alarm {
    fine: Option<Registration>,
    /// Made when it is needed first.
    coarse: Option<Pin<Box<Sleep>>>,
}

/// The thread that wakes tasks at their instants. It ends with the last of its alarms and owners.
#[derive(Debug)]
pub(crate) struct Clock {
    shared: Arc<Shared>,
    /// Alarms so far.
    count: AtomicU64,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// By instant, and by the alarm's number where several are set to the same.
    set: BTreeMap<(Instant, u64), Waker>,
    stopping: bool,
}

/// An alarm's place with its clock.
#[derive(Debug)]
struct Registration {
    clock: Arc<Clock>,
    number: u64,
    /// What it is set to.
    at: Option<Instant>,
}

impl Alarm {
    /// An alarm that is not set yet: of `clock`, or of the runtime's timers.
    pub(crate) fn new(clock: Option<&Arc<Clock>>) -> Self {
        let fine = clock.map(|clock| Registration {
            clock: Arc::clone(clock),
            number: clock.count.fetch_add(1, Ordering::Relaxed),
            at: None,
        });
        Self { fine, coarse: None }
    }

    /// An alarm of the runtime's timers, which is not set yet.
    pub(crate) fn coarse() -> Self {
        Self::new(None)
    }

    /// Waits until `at` has come.
    pub(crate) async fn wait_until(mut self, at: Instant) {
        poll_fn(|cx| self.poll(cx, at)).await;
    }

    /// Ready when `at` has come, never earlier; otherwise the task is woken then. Must be called inside a tokio runtime.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, at: Instant) -> Poll<()> {
        if at <= Instant::now() {
            return Poll::Ready(());
        }
        if let Some(fine) = &mut self.fine {
            fine.set(cx.waker(), at);
            return Poll::Pending;
        }
        let sleep = self.coarse.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
        }
        sleep.as_mut().poll(cx)
    }
}

impl Clock {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start() -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared::default());
        let thread = Arc::clone(&shared);
        thread::Builder::new().name("profile-clock".to_owned()).spawn(move || thread.run())?;
        Ok(Arc::new(Self { shared, count: AtomicU64::new(0) }))
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn run(&self) {
        let mut state = self.lock();
        while !state.stopping {
            let Some((&(at, _), _)) = state.set.first_key_value() else {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = at.into_std().saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                let due = state.set.pop_first();
                // Waking runs code of others, which may set an alarm.
                drop(state);
                if let Some((_, waker)) = due {
                    waker.wake();
                }
                state = self.lock();
            } else {
                let waited = self.changed.wait_timeout(state, left);
                (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// The state is right between any two statements, so that one whose holder panicked still is.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registration {
    fn set(&mut self, waker: &Waker, at: Instant) {
        let shared = &self.clock.shared;
        let mut state = shared.lock();
        if let Some(before) = self.at.take_if(|before| *before != at) {
            state.set.remove(&(before, self.number));
        }
        self.at = Some(at);
        let key = (at, self.number);
        match state.set.get_mut(&key) {
            Some(set) => set.clone_from(waker),
            None => {
                state.set.insert(key, waker.clone());
                if state.set.first_key_value().map(|(first, _)| *first) == Some(key) {
                    drop(state);
                    shared.changed.notify_one();
                }
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(at) = self.at {
            self.clock.shared.lock().set.remove(&(at, self.number));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn waits_until_its_instant(alarm: &mut Alarm) {
        let start = Instant::now();
        for microseconds in [300, 900, 1_700, 100, 3_000] {
            let at = start + Duration::from_micros(microseconds);
            poll_fn(|cx| alarm.poll(cx, at)).await;
            assert!(Instant::now() >= at);
        }
    }

    #[tokio::test]
    async fn a_fine_alarm_is_never_early() {
        let clock = Clock::start().unwrap();
        waits_until_its_instant(&mut Alarm::new(Some(&clock))).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_coarse_alarm_runs_on_virtual_time() {
        let mut alarm = Alarm::new(None);
        waits_until_its_instant(&mut alarm).await;
        let at = Instant::now() + Duration::from_hours(1);
        poll_fn(|cx| alarm.poll(cx, at)).await;
        assert!(Instant::now() >= at);
    }

    #[tokio::test]
    async fn an_alarm_that_is_put_off_does_not_go_off_for_what_it_was_set_to_first() {
        let clock = Clock::start().unwrap();
        let mut alarm = Alarm::new(Some(&clock));
        let start = Instant::now();
        let later = start + Duration::from_millis(5);
        // Set for the one, then waited for as the other.
        poll_fn(|cx| {
            let _ = alarm.poll(cx, start + Duration::from_micros(500));
            Poll::Ready(())
        })
        .await;
        poll_fn(|cx| alarm.poll(cx, later)).await;
        assert!(Instant::now() >= later);
    }

    #[tokio::test]
    async fn alarms_of_one_instant_all_go_off_and_leave_nothing_behind() {
        let clock = Clock::start().unwrap();
        let at = Instant::now() + Duration::from_millis(2);
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let mut alarm = Alarm::new(Some(&clock));
                tokio::spawn(async move { poll_fn(|cx| alarm.poll(cx, at)).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        {
            let mut abandoned = Alarm::new(Some(&clock));
            let set = poll_fn(|cx| Poll::Ready(abandoned.poll(cx, at + Duration::from_hours(1))));
            assert!(set.await.is_pending());
        }
        assert!(clock.shared.lock().set.is_empty());
        let shared = Arc::downgrade(&clock.shared);
        drop(clock);
        // The thread lets go of it when it ends.
        while shared.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
