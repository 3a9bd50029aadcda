//! The receivers that are registered with one queue, and what each waits for.

use partition_log::{Subscriber, Wakers};
use std::sync::Arc;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    slots: Vec<Option<WaiterSlot>>,
    /// How many wait for a message, and how many for a session.
    for_message: usize,
    for_session: usize,
}

#[derive(Debug)]
struct WaiterSlot {
    subscriber: Arc<Subscriber>,
    key: u64,
    armed: Armed,
}

/// What a waiter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Armed {
    Nothing,
    Message,
    NextSession,
    /// News of the session that it has locked.
    InSession,
}

impl Waiters {
    /// Registers a receiver that waits for nothing yet, and returns its slot.
    pub(super) fn add(&mut self, subscriber: Arc<Subscriber>, key: u64) -> usize {
        let added = Some(WaiterSlot { subscriber, key, armed: Armed::Nothing });
        match self.slots.iter().position(Option::is_none) {
            Some(free) => {
                self.slots[free] = added;
                free
            }
            None => {
                self.slots.push(added);
                self.slots.len() - 1
            }
        }
    }

    /// Ends a registration.
    pub(super) fn remove(&mut self, slot: usize) {
        self.arm(slot, Armed::Nothing);
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = None;
        }
    }

    /// Sets what is waited for.
    pub(super) fn arm(&mut self, slot: usize, armed: Armed) {
        if let Some(Some(slot)) = self.slots.get_mut(slot) {
            let before = std::mem::replace(&mut slot.armed, armed);
            self.for_message -= usize::from(before == Armed::Message);
            self.for_session -= usize::from(before == Armed::NextSession);
            self.for_message += usize::from(armed == Armed::Message);
            self.for_session += usize::from(armed == Armed::NextSession);
        }
    }

    /// Wakes everyone who waits for a message.
    #[inline]
    pub(super) fn message_available(&mut self, wakers: &mut Wakers) {
        if self.for_message > 0 {
            self.wake_all(Armed::Message, wakers);
        }
    }

    /// Wakes everyone who waits for a session.
    #[inline]
    pub(super) fn session_acceptable(&mut self, wakers: &mut Wakers) {
        if self.for_session > 0 {
            self.wake_all(Armed::NextSession, wakers);
        }
    }

    /// Wakes the one who has locked a session.
    pub(super) fn session_changed(&mut self, slot: usize, wakers: &mut Wakers) {
        if let Some(Some(found)) = self.slots.get_mut(slot)
            && found.armed == Armed::InSession
        {
            found.armed = Armed::Nothing;
            if let Some(waker) = found.subscriber.mark_ready(found.key) {
                wakers.push(waker);
            }
        }
    }

    /// Whether anyone waits for something.
    pub(super) fn is_anyone_waiting(&self) -> bool {
        self.slots.iter().flatten().any(|slot| slot.armed != Armed::Nothing)
    }

    /// Wakes everyone who is registered, whatever they wait for: what they may do is another now.
    #[cold]
    pub(super) fn wake_everyone(&mut self, wakers: &mut Wakers) {
        for slot in self.slots.iter_mut().flatten() {
            slot.armed = Armed::Nothing;
            if let Some(waker) = slot.subscriber.mark_ready(slot.key) {
                wakers.push(waker);
            }
        }
        (self.for_message, self.for_session) = (0, 0);
    }

    #[cold]
    fn wake_all(&mut self, armed: Armed, wakers: &mut Wakers) {
        for slot in self.slots.iter_mut().flatten() {
            if slot.armed == armed {
                slot.armed = Armed::Nothing;
                if let Some(waker) = slot.subscriber.mark_ready(slot.key) {
                    wakers.push(waker);
                }
            }
        }
        match armed {
            Armed::Message => self.for_message = 0,
            Armed::NextSession => self.for_session = 0,
            Armed::Nothing | Armed::InSession => {}
        }
    }
}
