//! Callers that wait for what becomes of their events.
//!
//! A slot is taken with the event and given back with the answer, so that a steady stream of calls allocates nothing. Its
//! generation tells an answer for the call that has it from one for a call before, which has given up.

use std::task::Waker;

use tokio::time::Instant;

use crate::producer::failure::SendFailure;
use crate::sink::SendToken;

/// The slots of a lane.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// A slot as one call has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    state: State,
    since: Instant,
    /// Bytes of the event.
    length: u32,
}

#[derive(Debug)]
enum State {
    Free,
    Waiting(Waker),
    /// The caller has gone.
    Abandoned,
    Done(Result<(), Box<SendFailure>>),
}

impl SlotId {
    /// The same as a token; its highest bit is never set.
    pub(super) fn token(self) -> SendToken {
        SendToken(u64::from(self.generation) << 32 | u64::from(self.index))
    }

    /// The slot that a token was made of.
    pub(super) const fn of(token: SendToken) -> Self {
        Self { index: token.0 as u32, generation: (token.0 >> 32) as u32 }
    }
}

impl Slots {
    /// A slot for a call that waits, for an event of so many bytes.
    pub(super) fn take(&mut self, waker: Waker, since: Instant, length: usize) -> SlotId {
        let state = State::Waiting(waker);
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        match self.free.pop() {
            Some(index) => {
                let slot = &mut self.slots[index as usize];
                let generation = slot.generation;
                *slot = Slot { generation, state, since, length };
                SlotId { index, generation }
            }
            None => {
                // Memory ends long before numbers do.
                let index = self.slots.len() as u32;
                self.slots.push(Slot { generation: 0, state, since, length });
                SlotId { index, generation: 0 }
            }
        }
    }

    /// What became of the event, once it is known; the slot is free then.
    pub(super) fn poll(&mut self, id: SlotId, waker: &Waker) -> Option<Result<(), Box<SendFailure>>> {
        let slot = self.get(id)?;
        match &mut slot.state {
            State::Done(_) => {
                let State::Done(result) = std::mem::replace(&mut slot.state, State::Free) else {
                    return None;
                };
                self.release(id);
                Some(result)
            }
            State::Waiting(known) => {
                known.clone_from(waker);
                None
            }
            State::Free | State::Abandoned => None,
        }
    }

    /// The caller waits no longer.
    pub(super) fn abandon(&mut self, id: SlotId) {
        let Some(slot) = self.get(id) else { return };
        match slot.state {
            State::Waiting(_) => slot.state = State::Abandoned,
            State::Done(_) => self.release(id),
            State::Free | State::Abandoned => {}
        }
    }

    /// Says what became of the event, unless that was said before. Gives its length, and who has to be woken.
    pub(super) fn complete(
        &mut self,
        id: SlotId,
        result: Result<(), Box<SendFailure>>,
    ) -> Option<(u32, Option<Waker>)> {
        let slot = self.get(id)?;
        let length = slot.length;
        match std::mem::replace(&mut slot.state, State::Free) {
            State::Waiting(waker) => {
                slot.state = State::Done(result);
                Some((length, Some(waker)))
            }
            State::Abandoned => {
                self.release(id);
                Some((length, None))
            }
            other @ (State::Done(_) | State::Free) => {
                slot.state = other;
                None
            }
        }
    }

    /// Since when a call waits, if it still does.
    pub(super) fn since(&self, id: SlotId) -> Option<Instant> {
        let slot = self.slots.get(id.index as usize).filter(|slot| slot.generation == id.generation)?;
        matches!(slot.state, State::Waiting(_) | State::Abandoned).then_some(slot.since)
    }

    /// Those that have waited since this instant or longer.
    pub(super) fn waiting_since(&self, instant: Instant) -> Vec<SlotId> {
        let overdue =
            |slot: &Slot| matches!(slot.state, State::Waiting(_) | State::Abandoned) && slot.since <= instant;
        let numbered = (0..).zip(&self.slots).filter(|(_, slot)| overdue(slot));
        numbered.map(|(index, slot)| SlotId { index, generation: slot.generation }).collect()
    }

    fn get(&mut self, id: SlotId) -> Option<&mut Slot> {
        self.slots.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation)
    }

    fn release(&mut self, id: SlotId) {
        let slot = &mut self.slots[id.index as usize];
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1) & GENERATION_MAX;
        self.free.push(id.index);
    }
}

/// Leaves the highest bit of a token alone.
const GENERATION_MAX: u32 = u32::MAX >> 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_reaches_the_call_that_it_is_for_and_no_later_one() {
        let (mut slots, waker, now) = (Slots::default(), Waker::noop().clone(), Instant::now());
        let first = slots.take(waker.clone(), now, 10);
        assert_eq!(SlotId::of(first.token()), first);
        assert!(slots.poll(first, &waker).is_none());
        assert_eq!(slots.complete(first, Ok(())).map(|(length, _)| length), Some(10));
        assert!(slots.complete(first, Ok(())).is_none(), "only one answer counts");
        assert_eq!(slots.poll(first, &waker), Some(Ok(())));
        let second = slots.take(waker.clone(), now, 20);
        assert_eq!((second.index, second.generation), (first.index, 1));
        assert!(slots.complete(first, Ok(())).is_none(), "it was for the call before");
        assert!(slots.poll(second, &waker).is_none());
        slots.abandon(second);
        assert_eq!(slots.waiting_since(now), [second], "the service has yet to answer");
        assert!(slots.complete(second, Ok(())).is_some_and(|(_, waker)| waker.is_none()));
        assert!(slots.waiting_since(now).is_empty());
        assert_eq!(slots.since(second), None);
    }
}
