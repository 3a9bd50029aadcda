//! The passing of time for queues: locks end, messages expire or become visible, and what is not used is deleted, whether anyone is
//! connected or not.

use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use partition_log::UnixTime;
use queue_store::QueueStore;

use crate::namespace::Namespace;

/// The queues of a namespace, on which its clock acts.
#[derive(Debug)]
pub(super) struct QueueTime {
    namespace: Arc<Namespace>,
    /// When to look for idle entities next. Held while the store acts: its plan is for one who looks.
    idle_due: Mutex<Option<UnixTime>>,
}

impl QueueTime {
    pub(super) fn new(namespace: Arc<Namespace>) -> Arc<Self> {
        Arc::new(Self { namespace, idle_due: Mutex::new(Some(UnixTime::MIN)) })
    }

    /// The queues.
    pub(super) fn store(&self) -> &Arc<QueueStore> {
        self.namespace.queues()
    }

    /// Lets everything happen that is due at `now`. Returns when to look again.
    pub(super) fn act(&self, now: UnixTime) -> Option<UnixTime> {
        let mut idle_due = self.idle_due();
        if idle_due.is_some_and(|due| due <= now) {
            *idle_due = self.namespace.delete_idle(now);
        }
        [self.store().advance(now), *idle_due].into_iter().flatten().min()
    }

    /// When something is due next.
    pub(super) fn next_due(&self) -> Option<UnixTime> {
        [self.store().next_due(), *self.idle_due()].into_iter().flatten().min()
    }

    /// Has the next [`act`](Self::act) look for idle entities, since one may have come.
    pub(super) fn look_for_idle(&self) {
        *self.idle_due() = Some(UnixTime::MIN);
    }

    /// Lets everything happen that is due when it is due, until `stop` becomes true.
    pub(super) async fn drive(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let clock = self.namespace.clock();
        let mut advances = clock.advances();
        loop {
            let now = clock.unix_time();
            // Elsewhere, since thousands of messages may be due at once.
            let acting = Arc::clone(&self);
            let due = match tokio::task::spawn_blocking(move || acting.act(now)).await {
                Ok(due) => due,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // The runtime stops.
                Err(_) => return,
            };
            let at_due = async {
                match due {
                    Some(due) => tokio::time::sleep(between(now, due)).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = at_due => {}
                () = poll_fn(|cx| self.store().poll_earlier(cx)) => {}
                () = self.namespace.idle_news() => self.look_for_idle(),
                _ = advances.changed() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    fn idle_due(&self) -> MutexGuard<'_, Option<UnixTime>> {
        self.idle_due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn between(now: UnixTime, due: UnixTime) -> Duration {
    let milliseconds = due.milliseconds().saturating_sub(now.milliseconds());
    // The system's clock may be set: what is far away is looked at again before.
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0)).min(LONGEST_SLEEP)
}

const LONGEST_SLEEP: Duration = Duration::from_secs(60);
