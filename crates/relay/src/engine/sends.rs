//! The sends of the batches under way: one for each group. Those of a batch hang together in a list.
//!
//! A group is sent as a whole, or in parts one after the other if its destination takes no more at once. Groups that waited
//! for the same destination are sent together: the first one leads, and the others ride with it. Each try is an attempt
//! with a token of its own, so the outcome of an attempt that was given up finds no send.

use std::ops::Range;
use std::time::Instant;

use connect::deadline_queue::DeadlineQueue;
use connect::sink::SendToken;

use super::lanes::LaneId;
use crate::regroup::Group;

/// One group on its way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Send {
    /// Counts the attempts that this place has seen.
    generation: u32,
    /// The slot of the batch that it belongs to.
    slot: u32,
    /// Another send of the same batch, or [`NONE`].
    next_of_batch: u32,
    /// The next send for the same destination, which waits behind this one or rides with it; or [`NONE`].
    pub(super) follower: u32,
    /// Where it waits for its turn; [`LaneId::NONE`] where nothing is ordered.
    pub(super) lane: LaneId,
    pub(super) stage: Stage,
    /// The sink that it goes to, and the destination of it.
    pub(super) sink: u32,
    pub(super) destination: u32,
    /// The first event, as a position in the batch's order.
    start: u32,
    /// The first one that has not been accepted.
    pub(super) next: u32,
    /// One past the last event of the part that is being sent.
    pub(super) part_end: u32,
    /// One past the last event of the group.
    pub(super) end: u32,
    /// No part has more events than this.
    pub(super) part_max: u32,
    /// How many events ride with it.
    pub(super) riding: u32,
    /// Failed tries of the present part.
    pub(super) failures: u32,
}

/// Where a send stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// The group is accepted or abandoned.
    #[default]
    Over,
    /// Waits for those before it, or rides with one of them.
    Waiting,
    /// The sink was busy; waits to be offered again.
    Blocked,
    /// The sink has it.
    Sent,
    /// Waits before it is tried again.
    BackingOff,
}

/// All sends.
#[derive(Debug)]
pub(super) struct Sends {
    sends: Vec<Send>,
    /// Places of batches that are done.
    free: Vec<u32>,
    /// When each send is given up. All tries may take equally long.
    timeouts: DeadlineQueue,
}

impl Sends {
    pub(super) const fn new() -> Self {
        Self { sends: Vec::new(), free: Vec::new(), timeouts: DeadlineQueue::new() }
    }

    /// Begins the send of a group and returns its index. `others` is the send of the same batch that was begun before it,
    /// if it is not the first.
    pub(super) fn begin(&mut self, slot: u32, others: Option<u32>, group: Group) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.sends.push(Send::default());
            // Far fewer than events can be held.
            (self.sends.len() - 1) as u32
        });
        let send = &mut self.sends[index as usize];
        *send = Send {
            generation: send.generation,
            slot,
            next_of_batch: others.unwrap_or(NONE),
            follower: NONE,
            lane: LaneId::NONE,
            stage: Stage::Waiting,
            sink: group.sink,
            destination: group.destination,
            start: group.start,
            next: group.start,
            part_end: group.start,
            end: group.end,
            part_max: u32::MAX,
            riding: 0,
            failures: 0,
        };
        index
    }

    /// Lets a send ride with `leader`, behind `last`, which is the last one that does, or the leader itself.
    pub(super) fn ride(&mut self, leader: u32, last: u32, rider: u32) {
        let events = self.sends[rider as usize].unsent();
        self.sends[last as usize].follower = rider;
        self.sends[leader as usize].riding += events;
    }

    /// Takes all that ride with a send off it, as a chain.
    pub(super) fn unhitch(&mut self, leader: u32) -> Option<u32> {
        let send = &mut self.sends[leader as usize];
        send.riding = 0;
        let chain = std::mem::replace(&mut send.follower, NONE);
        (chain != NONE).then_some(chain)
    }

    /// The slot of the batch that a send belongs to.
    pub(super) fn slot(&self, index: u32) -> u32 {
        self.sends[index as usize].slot
    }

    pub(super) fn send(&self, index: u32) -> &Send {
        &self.sends[index as usize]
    }

    pub(super) fn send_mut(&mut self, index: u32) -> &mut Send {
        &mut self.sends[index as usize]
    }

    /// The token of the present attempt.
    pub(super) fn token(&self, index: u32) -> SendToken {
        SendToken(u64::from(self.sends[index as usize].generation) << 32 | u64::from(index))
    }

    /// Whose present attempt has this token; none if the attempt is over, or the token was never given.
    pub(super) fn of_token(&self, token: SendToken) -> Option<u32> {
        let index = token.0 as u32;
        let generation = (token.0 >> 32) as u32;
        let send = self.sends.get(index as usize)?;
        (send.generation == generation && send.stage != Stage::Over).then_some(index)
    }

    /// The sink has taken the present attempt.
    pub(super) fn sent(&mut self, index: u32, part_end: u32, timeout: Instant) {
        let send = &mut self.sends[index as usize];
        send.stage = Stage::Sent;
        send.part_end = part_end;
        self.timeouts.push(index, timeout);
    }

    /// The present attempt is over, whatever it came to; `stage` is what comes next.
    pub(super) fn end_attempt(&mut self, index: u32, stage: Stage) {
        let send = &mut self.sends[index as usize];
        if send.stage == Stage::Sent {
            self.timeouts.remove(index);
        }
        send.stage = stage;
        send.generation = send.generation.wrapping_add(1);
    }

    /// Ends all sends of a batch, from its last one on, and frees their places. Returns how many events the sink has in
    /// their attempts: they may be accepted all the same.
    pub(super) fn abandon(&mut self, last: Option<u32>) -> u64 {
        let mut doubtful = 0;
        let mut next = last.unwrap_or(NONE);
        while next != NONE {
            let index = next;
            let send = self.sends[index as usize];
            if send.stage == Stage::Sent {
                doubtful += u64::from(send.attempted());
            }
            if send.stage != Stage::Over {
                self.end_attempt(index, Stage::Over);
            }
            self.free.push(index);
            next = send.next_of_batch;
        }
        doubtful
    }

    /// The sends of a batch, from its last one on.
    pub(super) fn of_batch(&self, last: Option<u32>) -> impl Iterator<Item = u32> {
        std::iter::successors(last, |&index| {
            Some(self.sends[index as usize].next_of_batch).filter(|&next| next != NONE)
        })
    }

    /// The positions of the events that were accepted of a batch, and by which sink, from its last send on.
    pub(super) fn accepted(&self, last: Option<u32>) -> impl Iterator<Item = (u32, Range<u32>)> {
        self.of_batch(last).map(|index| {
            let send = &self.sends[index as usize];
            let end = if send.stage == Stage::Over { send.end } else { send.next };
            (send.sink, send.start..end)
        })
    }

    /// Which send the outcome of an attempt is for; none if the attempt was given up, or never made.
    pub(super) fn of_outcome(&self, token: SendToken) -> Option<u32> {
        self.of_token(token).filter(|&index| self.sends[index as usize].stage == Stage::Sent)
    }

    /// When the present attempt is given up, if the sink has it.
    pub(super) fn deadline(&self, index: u32) -> Option<Instant> {
        self.timeouts.deadline(index)
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.timeouts.next_deadline()
    }

    /// A send whose time is over; it has no time-out any more.
    pub(super) fn pop_timed_out(&mut self, now: Instant) -> Option<u32> {
        self.timeouts.pop_due(now)
    }
}

impl Send {
    /// The position of the first event in the batch's order.
    pub(super) const fn start(&self) -> u32 {
        self.start
    }

    /// Events of the group that have not been accepted.
    pub(super) fn unsent(&self) -> u32 {
        self.end - self.next
    }

    /// One past the last event of the present attempt; what rides with another group does so as a whole.
    pub(super) fn attempted_end(&self) -> u32 {
        match self.stage {
            Stage::Waiting => self.end,
            _ => self.part_end,
        }
    }

    /// Events of the present attempt.
    pub(super) fn attempted(&self) -> u32 {
        self.part_end - self.next + self.riding
    }
}

/// The end of a list of sends.
pub(super) const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const GROUP: Group = Group { sink: 0, destination: 4, start: 10, end: 12 };

    #[test]
    fn an_outcome_finds_its_attempt_and_none_before_or_after_it() {
        let now = Instant::now();
        let mut sends = Sends::new();
        let other = sends.begin(3, None, GROUP);
        let index = sends.begin(3, Some(other), GROUP);
        assert_eq!(sends.slot(index), 3);
        let first = sends.token(index);
        assert_eq!((sends.of_token(first), sends.of_outcome(first)), (Some(index), None));
        sends.sent(index, 12, now);
        assert_eq!(sends.of_outcome(first), Some(index));
        sends.end_attempt(index, Stage::BackingOff);
        assert_eq!(sends.of_token(first), None);
        let second = sends.token(index);
        sends.sent(index, 12, now);
        assert_eq!(sends.of_token(second), Some(index));
        assert_eq!(sends.abandon(Some(index)), 2);
        assert_eq!(sends.of_token(sends.token(other)), None);
        assert_eq!(sends.of_token(second), None);
        assert_eq!(sends.next_timeout(), None);
    }

    #[test]
    fn places_are_reused_and_old_tokens_find_nothing() {
        let mut sends = Sends::new();
        let first = sends.begin(0, None, GROUP);
        let old = sends.token(first);
        sends.abandon(Some(first));
        let second = sends.begin(1, None, GROUP);
        assert_eq!((second, sends.slot(second)), (first, 1));
        assert_eq!(sends.of_token(old), None);
    }

    #[test]
    fn tokens_that_were_never_issued_find_nothing() {
        let sends = Sends::new();
        assert_eq!(sends.of_token(SendToken(0)), None);
        assert_eq!(sends.of_token(SendToken(u64::MAX)), None);
    }

    #[test]
    fn time_outs_come_in_order_and_only_for_what_is_sent() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut sends = Sends::new();
        let one = sends.begin(0, None, GROUP);
        let two = sends.begin(0, Some(one), GROUP);
        sends.sent(one, 12, at(10));
        sends.sent(two, 12, at(11));
        sends.end_attempt(one, Stage::Over);
        assert_eq!(sends.next_timeout(), Some(at(11)));
        assert_eq!(sends.pop_timed_out(at(10)), None);
        assert_eq!(sends.pop_timed_out(at(11)), Some(two));
    }
}
