//! What the service has locked for us, by delivery id.
//!
//! The data session numbers its deliveries consecutively and carries nothing else, so a lock's place in this ring follows
//! from its delivery id.
//!
//! ```text
//!   delivery ids   10     11     12      13     14
//!                  over   held   sent    over   held        sent: its settlement was sent and is not answered yet
//!                         └ first slot: a slot that is over is removed when it reaches the front
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::source::Settlement;

/// The service's name for the lock of one delivery: 16 bytes, in the order in which they are a delivery tag.
pub(super) type LockToken = [u8; 16];

/// The locks of one link.
#[derive(Debug, Default)]
pub(super) struct Locks {
    /// The delivery id of the front slot.
    first: u32,
    slots: VecDeque<Lock>,
}

/// One delivery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lock {
    pub(super) token: LockToken,
    pub(super) state: State,
    /// Whether it was handed over.
    pub(super) in_work: bool,
    /// When to renew it; none if it is not to be renewed.
    pub(super) renew_at: Option<Instant>,
    /// From when on it is not renewed any more.
    pub(super) renew_until: Instant,
}

/// Where a lock stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No settlement was sent for it.
    Held,
    /// Its settlement was sent to the service at this instant.
    Sent(Settlement, Instant),
    /// Settled, or never there.
    Over,
}

impl Lock {
    /// A lock, without its name so far, that was given at `now` and holds for `remaining`, where that is known.
    pub(super) fn new(now: Instant, remaining: Option<Duration>, renewed_for: Duration) -> Self {
        let mut lock = Self {
            token: LockToken::default(),
            state: State::Held,
            in_work: false,
            renew_at: None,
            renew_until: now + renewed_for,
        };
        lock.renew_after(now, remaining);
        lock
    }

    /// Sets when to renew it, as the official clients do: ten seconds before it expires, or halfway if that is later.
    fn renew_after(&mut self, now: Instant, remaining: Option<Duration>) {
        let renew_at = remaining.map(|remaining| now + remaining - (remaining / 2).min(RENEWED_BEFORE));
        self.renew_at = renew_at.filter(|&instant| instant < self.renew_until);
    }
}

impl Locks {
    /// Adds the lock of a delivery, whose id follows those before it. Ids that were left out are over.
    ///
    /// # Errors
    /// When ids go back or leap, as those of no service do.
    #[inline]
    pub(super) fn push(&mut self, id: u32, lock: Lock) -> Result<(), OutOfOrder> {
        if self.slots.is_empty() {
            self.first = id;
        }
        let place = id.wrapping_sub(self.first) as usize;
        let gap = place.wrapping_sub(self.slots.len());
        if gap > 0 {
            if gap > GAP_MAX {
                return Err(OutOfOrder);
            }
            let over = Lock { state: State::Over, renew_at: None, ..lock };
            self.slots.extend(std::iter::repeat_n(over, gap));
        }
        self.slots.push_back(lock);
        Ok(())
    }

    /// The lock of a delivery, if it is not over and gone.
    #[inline]
    fn lock_mut(&mut self, id: u32) -> Option<&mut Lock> {
        self.slots.get_mut(id.wrapping_sub(self.first) as usize)
    }

    /// The messages of consecutive deliveries are handed over.
    pub(super) fn take_into_work(&mut self, first: u32, count: usize) {
        let from = (first.wrapping_sub(self.first) as usize).min(self.slots.len());
        let end = from.saturating_add(count).min(self.slots.len());
        for lock in self.slots.range_mut(from..end) {
            lock.in_work = true;
        }
    }

    /// Where a delivery stands in the order of all.
    #[inline]
    pub(super) const fn place(&self, id: u32) -> u32 {
        id.wrapping_sub(self.first)
    }

    /// The settlement of a delivery was sent. Returns whether it was the first one.
    #[inline]
    pub(super) fn sent(&mut self, id: u32, settlement: Settlement, now: Instant) -> bool {
        match self.lock_mut(id) {
            Some(lock) if lock.state == State::Held => {
                lock.state = State::Sent(settlement, now);
                true
            }
            _ => false,
        }
    }

    /// The service has answered about the deliveries from `first` to `last`, a range that may be far wider than what there
    /// is. Those whose settlement was sent are over, and `each` gets them.
    #[inline]
    pub(super) fn answered(
        &mut self,
        first: u32,
        last: u32,
        mut each: impl FnMut(Settlement, Instant, &Lock),
    ) {
        let place = |id: u32| i64::from(id.wrapping_sub(self.first).cast_signed());
        let from = place(first).clamp(0, self.slots.len() as i64) as usize;
        let end = (place(last) + 1).clamp(from as i64, self.slots.len() as i64) as usize;
        for lock in self.slots.range_mut(from..end) {
            if let State::Sent(settlement, since) = lock.state {
                lock.state = State::Over;
                each(settlement, since, lock);
            }
        }
        while self.slots.front().is_some_and(|lock| lock.state == State::Over) {
            self.slots.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Takes out the lock of a delivery that nothing was said of, for it to be settled elsewhere.
    pub(super) fn take_held(&mut self, id: u32) -> Option<LockToken> {
        let lock = self.lock_mut(id).filter(|lock| lock.state == State::Held)?;
        lock.state = State::Over;
        Some(lock.token)
    }

    /// When the oldest unanswered settlement was sent.
    pub(super) fn oldest_unanswered(&self) -> Option<Instant> {
        let sent = self.slots.iter().filter_map(|lock| match lock.state {
            State::Sent(_, since) => Some(since),
            State::Held | State::Over => None,
        });
        sent.min()
    }

    /// Takes out all locks that are not over, with their delivery ids: their link is gone.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (u32, Lock)> + use<> {
        let first = self.first;
        let slots = std::mem::take(&mut self.slots);
        (0_u32..)
            .zip(slots)
            .filter(|(_, lock)| lock.state != State::Over)
            .map(move |(place, lock)| (first.wrapping_add(place), lock))
    }

    /// Takes the locks that are to be renewed by `until`, and when the next one is. Each is not to be renewed again unless
    /// it [was](Self::renewed).
    pub(super) fn take_due(&mut self, until: Instant) -> (Vec<(u32, LockToken)>, Option<Instant>) {
        let mut due = Vec::new();
        let mut next: Option<Instant> = None;
        for (place, lock) in (0_u32..).zip(&mut self.slots) {
            let Some(renew_at) = lock.renew_at.filter(|_| lock.state == State::Held) else {
                continue;
            };
            if renew_at <= until {
                lock.renew_at = None;
                due.push((self.first.wrapping_add(place), lock.token));
            } else {
                next = Some(next.map_or(renew_at, |next| next.min(renew_at)));
            }
        }
        (due, next)
    }

    /// A lock holds for `remaining` from now on. Returns when to renew it again.
    pub(super) fn renewed(&mut self, id: u32, now: Instant, remaining: Duration) -> Option<Instant> {
        let lock = self.lock_mut(id)?;
        lock.renew_after(now, Some(remaining));
        lock.renew_at.filter(|_| lock.state == State::Held)
    }
}

/// The ids of deliveries do not follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutOfOrder;

/// So long before its expiry a lock is renewed.
const RENEWED_BEFORE: Duration = Duration::from_secs(10);

/// Deliveries that the engine may have dealt with itself between two that it reports.
const GAP_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lock(now: Instant, seconds: u64) -> Lock {
        let remaining = Some(Duration::from_secs(seconds));
        Lock { token: [1; 16], ..Lock::new(now, remaining, Duration::from_secs(300)) }
    }

    fn answered(locks: &mut Locks, first: u32, last: u32) -> usize {
        let mut count = 0;
        locks.answered(first, last, |_, _, _| count += 1);
        count
    }

    fn left(mut locks: Locks) -> Vec<u32> {
        locks.take_all().map(|(id, _)| id).collect()
    }

    #[test]
    fn an_answer_is_for_what_was_sent_and_counts_once() {
        let now = Instant::now();
        let mut locks = Locks::default();
        for id in [u32::MAX, 0, 1] {
            locks.push(id, lock(now, 60)).unwrap();
        }
        assert!(locks.sent(0, Settlement::Complete, now));
        assert!(!locks.sent(0, Settlement::Abandon, now), "said once");
        assert_eq!(answered(&mut locks, u32::MAX, 1), 1);
        assert_eq!(answered(&mut locks, u32::MAX, 1), 0);
        assert!(locks.sent(u32::MAX, Settlement::Complete, now));
        assert_eq!(answered(&mut locks, u32::MAX, u32::MAX), 1);
        assert_eq!(locks.place(1), 0, "what is over at the front is gone");
        assert_eq!(left(locks), [1]);
    }

    #[test]
    fn ids_that_are_left_out_are_over_and_leaps_are_refused() {
        let now = Instant::now();
        let mut locks = Locks::default();
        locks.push(5, lock(now, 60)).unwrap();
        locks.push(7, lock(now, 60)).unwrap();
        assert!(!locks.sent(6, Settlement::Complete, now));
        assert_eq!(locks.push(6, lock(now, 60)), Err(OutOfOrder));
        assert_eq!(locks.push(1_000_000, lock(now, 60)), Err(OutOfOrder));
        assert_eq!(left(locks), [5, 7]);
    }

    #[test]
    fn a_lock_is_renewed_in_time_and_not_for_ever() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let mut locks = Locks::default();
        locks.push(0, lock(now, 60)).unwrap();
        locks.push(1, lock(now, 8)).unwrap();
        assert_eq!(locks.take_due(at(3)), (vec![], Some(at(4))));
        let (due, next) = locks.take_due(at(4));
        assert_eq!((due.len(), due[0].0, next), (1, 1, Some(at(50))));
        assert_eq!(locks.renewed(1, at(4), Duration::from_secs(8)), Some(at(8)));
        let late = locks.renewed(1, at(297), Duration::from_secs(8));
        assert_eq!(late, None, "long enough");
        assert!(locks.sent(0, Settlement::Complete, now));
        assert_eq!(locks.take_due(at(100)), (vec![], None), "a settled lock is not renewed");
    }

    proptest! {
        /// In whatever order settlements are sent, and however answers are cut into ranges, each is answered once.
        #[test]
        fn each_lock_is_answered_once(
            start: u32, order in Just((0_u32..50).collect::<Vec<_>>()).prop_shuffle(),
            ranges in prop::collection::vec((0_u32..50, 0_u32..50), 0..100),
        ) {
            let now = Instant::now();
            let mut locks = Locks::default();
            for id in 0..50 {
                locks.push(start.wrapping_add(id), lock(now, 60)).unwrap();
            }
            let (mut unsent, mut total) = (order.into_iter(), 0);
            for (from, length) in ranges {
                if let Some(id) = unsent.next() {
                    prop_assert!(locks.sent(start.wrapping_add(id), Settlement::Complete, now));
                }
                let from = start.wrapping_add(from);
                total += answered(&mut locks, from, from.wrapping_add(length));
            }
            for id in unsent {
                locks.sent(start.wrapping_add(id), Settlement::Complete, now);
            }
            total += answered(&mut locks, start, start.wrapping_add(49));
            prop_assert_eq!(total, 50);
            prop_assert_eq!(left(locks), Vec::<u32>::new());
        }
    }
}
