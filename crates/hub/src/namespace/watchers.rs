//! Who is to hear of a change that concerns a link, though the link waits for nothing.
//!
//! Links that read hear of everything through their subscription to the log. A link that only publishes waits for no
//! append, and there may be thousands: they must not stand in the list that appends look through.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use partition_log::Subscriber;

/// Those who watch one thing.
#[derive(Debug, Default)]
pub struct Watchers {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    slots: Vec<Option<(Arc<Subscriber>, u64)>>,
    free: Vec<usize>,
}

/// One who watches, for as long as this lives.
#[derive(Debug)]
pub struct Watch {
    watchers: Arc<Watchers>,
    slot: usize,
}

impl Watchers {
    /// From now on `key` is reported to `subscriber` when there is something to look at.
    #[must_use]
    pub fn watch(self: &Arc<Self>, subscriber: &Arc<Subscriber>, key: u64) -> Watch {
        let mut state = self.lock();
        let watcher = Some((Arc::clone(subscriber), key));
        let slot = match state.free.pop() {
            Some(slot) => {
                state.slots[slot] = watcher;
                slot
            }
            None => {
                state.slots.push(watcher);
                state.slots.len() - 1
            }
        };
        Watch { watchers: Arc::clone(self), slot }
    }

    /// Has everyone look.
    pub(crate) fn report_all(&self) {
        // Outside of the lock: this wakes tasks.
        let watchers: Vec<_> = self.lock().slots.iter().flatten().cloned().collect();
        for (subscriber, key) in watchers {
            subscriber.report(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Locked sections only fill and empty a slot; what is there is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.watchers.lock();
        state.slots[self.slot] = None;
        state.free.push(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Waker};

    #[test]
    fn only_watchers_are_notified() {
        let watchers = Arc::new(Watchers::default());
        let subscriber = Subscriber::new();
        let _first = watchers.watch(&subscriber, 1);
        drop(watchers.watch(&subscriber, 2));
        let _third = watchers.watch(&subscriber, 3);
        watchers.report_all();
        let mut keys = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        assert!(subscriber.poll_ready(&mut context, &mut keys).is_ready());
        assert_eq!(keys, [1, 3]);
        assert_eq!(watchers.lock().slots.len(), 2, "slots are used again");
    }
}
