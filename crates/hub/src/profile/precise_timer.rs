//! Timers that are more precise than the runtime's.
//!
//! The timers of tokio have a resolution of one millisecond and round up: half of a round trip of 2 ms would take
//! anything between one and two. So a service has a thread of its own for its timers, precise to some ten microseconds
//! where a CPU is free. Without such a thread, and where time is simulated, the runtime's timers are used.

use std::collections::BTreeMap;
use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use tokio::time::{Instant, Sleep};

/// Wakes one task, at one instant after the other.
#[derive(Debug)]
pub(crate) struct PreciseTimer {
    fine: Option<Registration>,
    /// Made when it is first needed.
    coarse: Option<Pin<Box<Sleep>>>,
}

/// The thread that wakes tasks at their instants. It ends when its last timer and owner are dropped.
#[derive(Debug)]
pub(crate) struct TimerThread {
    shared: Arc<Shared>,
    /// The number of timers so far.
    count: AtomicU64,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// By instant, and by the timer's number where several have the same one.
    set: BTreeMap<(Instant, u64), Waker>,
    stopping: bool,
}

/// A timer's registration with the thread.
#[derive(Debug)]
struct Registration {
    timer_thread: Arc<TimerThread>,
    number: u64,
    /// What it is set to.
    at: Option<Instant>,
}

impl PreciseTimer {
    /// A timer that is not set yet: one of `timer_thread`, or one of the runtime.
    pub(crate) fn new(timer_thread: Option<&Arc<TimerThread>>) -> Self {
        let fine = timer_thread.map(|timer_thread| Registration {
            timer_thread: Arc::clone(timer_thread),
            number: timer_thread.count.fetch_add(1, Ordering::Relaxed),
            at: None,
        });
        Self { fine, coarse: None }
    }

    /// A timer of the runtime that is not set yet.
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

impl TimerThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system can't start another thread.
    pub(crate) fn start() -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared::default());
        let thread = Arc::clone(&shared);
        thread::Builder::new().name("profile-timers".to_owned()).spawn(move || thread.run())?;
        Ok(Arc::new(Self { shared, count: AtomicU64::new(0) }))
    }
}

impl Drop for TimerThread {
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
                // Waking runs other code, which may set a timer.
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
        let shared = &self.timer_thread.shared;
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
            self.timer_thread.shared.lock().set.remove(&(at, self.number));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn waits_until_its_instant(timer: &mut PreciseTimer) {
        let start = Instant::now();
        for microseconds in [300, 900, 1_700, 100, 3_000] {
            let at = start + Duration::from_micros(microseconds);
            poll_fn(|cx| timer.poll(cx, at)).await;
            assert!(Instant::now() >= at);
        }
    }

    #[tokio::test]
    async fn a_fine_alarm_is_never_early() {
        let timer_thread = TimerThread::start().unwrap();
        waits_until_its_instant(&mut PreciseTimer::new(Some(&timer_thread))).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_coarse_alarm_runs_on_virtual_time() {
        let mut timer = PreciseTimer::new(None);
        waits_until_its_instant(&mut timer).await;
        let at = Instant::now() + Duration::from_hours(1);
        poll_fn(|cx| timer.poll(cx, at)).await;
        assert!(Instant::now() >= at);
    }

    #[tokio::test]
    async fn an_alarm_that_is_put_off_does_not_go_off_for_what_it_was_set_to_first() {
        let timer_thread = TimerThread::start().unwrap();
        let mut timer = PreciseTimer::new(Some(&timer_thread));
        let start = Instant::now();
        let later = start + Duration::from_millis(5);
        // Set for the one, then waited for as the other.
        poll_fn(|cx| {
            let _ = timer.poll(cx, start + Duration::from_micros(500));
            Poll::Ready(())
        })
        .await;
        poll_fn(|cx| timer.poll(cx, later)).await;
        assert!(Instant::now() >= later);
    }

    #[tokio::test]
    async fn alarms_of_one_instant_all_go_off_and_leave_nothing_behind() {
        let timer_thread = TimerThread::start().unwrap();
        let at = Instant::now() + Duration::from_millis(2);
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let mut timer = PreciseTimer::new(Some(&timer_thread));
                tokio::spawn(async move { poll_fn(|cx| timer.poll(cx, at)).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        {
            let mut abandoned = PreciseTimer::new(Some(&timer_thread));
            let set = poll_fn(|cx| Poll::Ready(abandoned.poll(cx, at + Duration::from_hours(1))));
            assert!(set.await.is_pending());
        }
        assert!(timer_thread.shared.lock().set.is_empty());
        let shared = Arc::downgrade(&timer_thread.shared);
        drop(timer_thread);
        // The thread lets go of it when it ends.
        while shared.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
