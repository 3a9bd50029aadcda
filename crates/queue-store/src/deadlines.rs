//! When the store has to be looked at next, for whoever drives it.

use super::page::NEVER;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Shared by all entities of a store.
#[derive(Debug)]
pub(super) struct Deadlines {
    /// When the driver is going to look, in milliseconds.
    planned: AtomicI64,
    /// Something is due before that was planned.
    is_earlier: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { planned: AtomicI64::new(NEVER), is_earlier: AtomicBool::new(false), waker: Mutex::default() }
    }
}

impl Deadlines {
    /// Starts another plan.
    pub(super) fn restart(&self) {
        self.is_earlier.store(false, Ordering::SeqCst);
        self.planned.store(NEVER, Ordering::SeqCst);
    }

    /// Makes a time part of the plan, by the driver itself.
    pub(super) fn plan(&self, deadline: i64) {
        self.planned.fetch_min(deadline, Ordering::SeqCst);
    }

    /// When the driver is going to look.
    pub(super) fn planned(&self) -> i64 {
        self.planned.load(Ordering::SeqCst)
    }

    /// Notes that something is due then. An atomic read, unless that is before all that was planned.
    #[inline]
    pub(super) fn note(&self, deadline: i64) {
        if deadline < self.planned.load(Ordering::SeqCst) {
            self.hasten(deadline);
        }
    }

    #[cold]
    fn hasten(&self, deadline: i64) {
        self.planned.fetch_min(deadline, Ordering::SeqCst);
        self.is_earlier.store(true, Ordering::SeqCst);
        let waker = self.waker().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ready if something is due before the plan of the last [`restart`](Self::restart).
    pub(super) fn poll_earlier(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut waker = self.waker();
        if self.is_earlier.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        *waker = Some(context.waker().clone());
        drop(waker);
        // It may have become so before the waker was in its place.
        match self.is_earlier.load(Ordering::SeqCst) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    fn waker(&self) -> std::sync::MutexGuard<'_, Option<Waker>> {
        // Locked sections take and assign; what is there is whole.
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
