//! What time does: locks end, messages expire, scheduled ones become available.

use super::changes::Effects;
use super::ledger::{Delivered, Ledger, Place};
use super::page::{NO_SESSION, Page, Stage};
use super::pages::{join, split};
use super::state::QueueState;

impl QueueState {
    /// When something is due next; [`NEVER`](super::page::NEVER) if nothing is. May be too early, and then nothing comes of
    /// it.
    pub(super) fn next_deadline(&self) -> i64 {
        let page = self.pages.first_deadline().map(|(deadline, _)| deadline);
        let sessions = &self.ledger.sessions;
        let session = sessions.first_deadline().map(|(deadline, _)| deadline);
        let history = self.ledger.history.as_ref();
        let history = history.and_then(super::history::History::first_deadline);
        let all = [page, session, history];
        all.into_iter().flatten().min().unwrap_or(super::page::NEVER)
    }

    /// Does what is due at `now`, but not for more pages and sessions than `budget` has. The rest remains due.
    pub(super) fn sweep(&mut self, now: i64, budget: &mut usize, effects: &mut Effects) {
        if let Some(history) = &mut self.ledger.history {
            history.forget(now);
        }
        while let Some((deadline, session)) = self.ledger.sessions.first_deadline()
            && deadline <= now
            && *budget > 0
        {
            *budget -= 1;
            self.end_session_lock(session, Delivered::Failed, effects);
        }
        let due = effects.due.len();
        while let Some((deadline, number)) = self.pages.first_deadline()
            && deadline <= now
            && *budget > 0
        {
            *budget -= 1;
            let ledger = &mut self.ledger;
            self.pages.change(number, |page| {
                sweep_page(ledger, page, number, now, effects);
            });
        }
        effects.due[due..].sort_by_key(|evicted| {
            let slot = &evicted.slot;
            (slot.until, slot.enqueue_sequence_number)
        });
    }

    /// Ends the lock of a session, and of the messages that were locked with it.
    pub(super) fn end_session_lock(&mut self, session: u32, delivered: Delivered, effects: &mut Effects) {
        let Some(found) = self.ledger.sessions.get(session) else {
            return;
        };
        let locked: Vec<u64> = found.locked.iter().copied().collect();
        let counters = &mut self.ledger.counters;
        counters.session_lock_expirations += u64::from(delivered == Delivered::Failed);
        if let Some(waiter) = found.waiter {
            let waiters = &mut self.ledger.waiters;
            waiters.session_changed(waiter, &mut effects.wakers);
        }
        for sequence_number in locked {
            let (number, position) = split(sequence_number);
            let place = Place { position, sequence_number };
            let ledger = &mut self.ledger;
            ledger.counters.lock_expirations += u64::from(delivered == Delivered::Failed);
            self.pages.change(number, |page| {
                ledger.unlock(page, place, delivered, effects);
            });
        }
        self.ledger.change_session(session, effects, |session| {
            session.nonce = 0;
            session.waiter = None;
        });
    }
}

fn sweep_page(ledger: &mut Ledger, page: &mut Page, number: u64, now: i64, effects: &mut Effects) {
    for position in page.positions() {
        let place = Place { position, sequence_number: join(number, position) };
        let slot = page.slot(position);
        if slot.stage.is_locked() && slot.until <= now {
            ledger.counters.lock_expirations += 1;
            ledger.unlock(page, place, Delivered::Failed, effects);
        } else if slot.stage == Stage::Scheduled && slot.until <= now {
            let evicted = ledger.take(page, place, effects);
            effects.due.push(evicted);
        }
        if !page.holds(position) {
            continue;
        }
        let slot = page.slot(position);
        if matches!(slot.stage, Stage::Ready | Stage::Deferred) && slot.expires_at <= now {
            ledger.expire(page, place, effects);
        }
    }
    debug_assert!(page.positions().all(|position| {
        let slot = page.slot(position);
        slot.session == NO_SESSION || !slot.stage.is_locked() || slot.until == super::page::NEVER
    }));
    page.deadline = page.next_deadline();
}
