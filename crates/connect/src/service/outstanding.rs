//! Sends that await their outcome.
//!
//! A data session numbers its deliveries consecutively and carries nothing but sends, so the place of a send in this
//! ring follows from its delivery id.

use std::collections::VecDeque;

use crate::sink::SendToken;

/// The sends of one session, by delivery id.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    /// The delivery id of the front slot.
    first: u32,
    slots: VecDeque<Slot>,
    waiting: usize,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    token: SendToken,
    /// The link that it was sent through, or [`SETTLED`].
    link: u32,
}

impl Outstanding {
    /// Adds a send, whose delivery id follows that of the send before it.
    #[inline]
    pub(crate) fn push(&mut self, delivery_id: u32, token: SendToken, link: u32) {
        if self.slots.is_empty() {
            self.first = delivery_id;
        }
        debug_assert_eq!(
            self.first.wrapping_add(self.slots.len() as u32),
            delivery_id,
            "delivery ids are consecutive"
        );
        self.slots.push_back(Slot { token, link });
        self.waiting += 1;
    }

    /// How many sends await their outcome.
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many slots there are from the oldest send that awaits its outcome to the newest.
    #[inline]
    pub(crate) fn span(&self) -> usize {
        self.slots.len()
    }

    /// Takes out the sends with delivery ids from `first` to `last`, in order.
    #[inline]
    pub(crate) fn settle(&mut self, first: u32, last: u32, mut each: impl FnMut(SendToken)) {
        // A range may begin before the oldest slot, or end behind the newest.
        let place = |id: u32| i64::from(id.wrapping_sub(self.first).cast_signed());
        let from = place(first).clamp(0, self.slots.len() as i64) as usize;
        let end = (place(last) + 1).clamp(from as i64, self.slots.len() as i64) as usize;
        if from == 0 {
            // The oldest ones, as nearly always: they leave as they are settled.
            self.first = self.first.wrapping_add(end as u32);
            for slot in self.slots.drain(..end).filter(|slot| slot.link != SETTLED) {
                self.waiting -= 1;
                each(slot.token);
            }
            return self.drop_settled_front();
        }
        for slot in self.slots.range_mut(from..end) {
            if slot.link != SETTLED {
                slot.link = SETTLED;
                self.waiting -= 1;
                each(slot.token);
            }
        }
        self.drop_settled_front();
    }

    /// Takes out all sends through `link`, in order.
    pub(crate) fn forget_link(&mut self, link: u32, mut each: impl FnMut(SendToken)) {
        for slot in self.slots.iter_mut().filter(|slot| slot.link == link) {
            slot.link = SETTLED;
            self.waiting -= 1;
            each(slot.token);
        }
        self.drop_settled_front();
    }

    /// Takes out all sends, in order: the connection is gone.
    pub(crate) fn forget_all(&mut self, mut each: impl FnMut(SendToken)) {
        self.waiting = 0;
        for slot in self.slots.drain(..).filter(|slot| slot.link != SETTLED) {
            each(slot.token);
        }
    }

    fn drop_settled_front(&mut self) {
        while self.slots.front().is_some_and(|slot| slot.link == SETTLED) {
            self.slots.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

/// Marks a slot whose send has its outcome, behind one that has not.
const SETTLED: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn outstanding(first: u32, links: &[u32]) -> Outstanding {
        let mut outstanding = Outstanding::default();
        for (number, link) in (0..).zip(links) {
            outstanding.push(first.wrapping_add(number), SendToken(number.into()), *link);
        }
        outstanding
    }

    fn settle(outstanding: &mut Outstanding, first: u32, last: u32) -> Vec<u64> {
        let mut tokens = Vec::new();
        outstanding.settle(first, last, |token| tokens.push(token.0));
        tokens
    }

    #[test]
    fn a_range_takes_out_its_sends_once_whatever_the_order_of_ranges() {
        let mut sends = outstanding(u32::MAX - 1, &[0, 1, 0, 1]);
        assert_eq!(settle(&mut sends, u32::MAX, 0), [1, 2]);
        assert_eq!((sends.waiting(), sends.span()), (2, 4));
        assert_eq!(settle(&mut sends, u32::MAX - 1, 1), [0, 3]);
        assert_eq!((sends.waiting(), sends.span()), (0, 0));
        assert!(settle(&mut sends, u32::MAX - 1, 1).is_empty());
    }

    #[test]
    fn numbering_goes_on_after_all_were_settled() {
        let mut sends = outstanding(0, &[0]);
        assert_eq!(settle(&mut sends, 0, 0), [0]);
        sends.push(1, SendToken(9), 0);
        assert_eq!(settle(&mut sends, 1, 1), [9]);
    }

    #[test]
    fn a_link_that_is_gone_takes_its_sends_with_it() {
        let mut sends = outstanding(5, &[0, 1, 0]);
        let mut tokens = Vec::new();
        sends.forget_link(0, |token| tokens.push(token.0));
        assert_eq!(tokens, [0, 2]);
        assert_eq!(settle(&mut sends, 5, 7), [1]);
        let mut sends = outstanding(5, &[0, 1, 0]);
        sends.settle(6, 6, |_| {});
        tokens.clear();
        sends.forget_all(|token| tokens.push(token.0));
        assert_eq!((tokens, sends.waiting()), (vec![0, 2], 0));
    }
}
