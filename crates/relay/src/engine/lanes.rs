//! Lanes keep the order of what goes from one partition to one destination.
//!
//! The groups of all batches of a partition under way that have the same destination queue up in a lane. So many sends of a
//! lane as [`RelayOptions::in_flight`](crate::RelayOptions::in_flight) allows are under way at once, which is one unless
//! order may be lost; the next send takes everything that waits by then. So a batch never waits for more than those of its
//! destinations that are busy, and the further away a destination is, the larger its sends become, without any setting:
//!
//! ```text
//!   lane of destination 3     batch 7 | batch 8   batch 9   batch 10
//!                             sent    | waiting: one send, once that of batch 7 is accepted
//!   lane of destination 4     batch 9 | (nothing)
//! ```
//!
//! Where sends are by partition key, only events of one key go together, and only their order is kept: a destination then
//! has several lanes, and a key always has the same one.

use std::collections::VecDeque;

use units::partition_key::Partitioner;

use super::sends::{NONE, Sends};

/// The lanes of all partitions. Relays that settle messages have none: nothing of theirs is ordered.
#[derive(Debug)]
pub(super) struct Lanes {
    /// Those of a partition lie together, by destination.
    lanes: Vec<Lane>,
    /// How many a partition has.
    per_partition: usize,
    /// How many a destination has.
    per_destination: u32,
    /// Lanes with something waiting that may have room for a send, each once.
    ready: VecDeque<LaneId>,
}

/// Names a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneId(u32);

#[derive(Clone, Copy, Debug)]
struct Lane {
    /// The oldest send that waits, which leads to the next one; or [`NONE`].
    first: u32,
    /// The newest one, where there is any.
    last: u32,
    under_way: u32,
    /// How many sends may be under way at once.
    in_flight: u32,
    /// Whether it stands in the queue of those that are ready.
    ready: bool,
    /// A send with more events was too large for the destination.
    max_events: u32,
}

impl Lanes {
    /// So many lanes for each destination, one of them if its sends are of any events, or several among which keys are divided.
    pub(super) fn new(partitions: usize, destinations: u32, per_destination: u32, in_flight: usize) -> Self {
        let per_partition = destinations as usize * per_destination as usize;
        let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
        Self {
            lanes: vec![Lane { in_flight, ..Lane::EMPTY }; partitions * per_partition],
            per_partition,
            per_destination,
            ready: VecDeque::new(),
        }
    }

    /// So many sends of each lane of a destination may be under way at once, whatever the others may.
    pub(super) fn set_in_flight(&mut self, destination: u32, in_flight: u32) {
        let first = destination as usize * self.per_destination as usize;
        for of_partition in self.lanes.chunks_mut(self.per_partition.max(1)) {
            let lanes = of_partition.iter_mut().skip(first).take(self.per_destination as usize);
            lanes.for_each(|lane| lane.in_flight = in_flight);
        }
    }

    pub(super) fn id(&self, partition: usize, destination: u32, key: Option<&[u8]>) -> LaneId {
        let of_key = key.map_or(0, |key| Partitioner::EventHubs.partition_of(key, self.per_destination));
        // Hubs have at most some thousand partitions.
        let first = (partition * self.per_partition) as u32;
        LaneId(first + destination * self.per_destination + of_key)
    }

    /// A send waits for its turn, behind all that do.
    pub(super) fn push(&mut self, id: LaneId, send: u32, sends: &mut Sends) {
        sends.send_mut(send).lane = id;
        let lane = &mut self.lanes[id.0 as usize];
        match lane.first {
            NONE => lane.first = send,
            _ => sends.send_mut(lane.last).follower = send,
        }
        lane.last = send;
        self.wake(id);
    }

    /// A chain of sends waits again, before all that do.
    pub(super) fn push_front(&mut self, id: LaneId, chain: u32, sends: &mut Sends) {
        let mut last = chain;
        while sends.send(last).follower != NONE {
            last = sends.send(last).follower;
        }
        let lane = &mut self.lanes[id.0 as usize];
        match lane.first {
            NONE => lane.last = last,
            first => sends.send_mut(last).follower = first,
        }
        lane.first = chain;
    }

    /// The next lane with something that waits and room for a send.
    pub(super) fn next_ready(&mut self) -> Option<LaneId> {
        while let Some(id) = self.ready.pop_front() {
            let lane = &mut self.lanes[id.0 as usize];
            lane.ready = false;
            if lane.first != NONE && lane.under_way < lane.in_flight {
                return Some(id);
            }
        }
        None
    }

    /// The oldest send that waits.
    pub(super) fn first(&self, id: LaneId) -> Option<u32> {
        Some(self.lanes[id.0 as usize].first).filter(|&first| first != NONE)
    }

    /// Takes the oldest send that waits out of the queue.
    pub(super) fn pop(&mut self, id: LaneId, sends: &mut Sends) -> Option<u32> {
        let first = self.first(id)?;
        let send = sends.send_mut(first);
        self.lanes[id.0 as usize].first = std::mem::replace(&mut send.follower, NONE);
        Some(first)
    }

    /// A send begins.
    pub(super) fn begin(&mut self, id: LaneId) {
        self.lanes[id.0 as usize].under_way += 1;
        // With room for several, what is left need not wait for this one.
        self.wake(id);
    }

    /// A send has ended, and nothing of it is left.
    pub(super) fn end(&mut self, id: LaneId) {
        if id == LaneId::NONE {
            return;
        }
        let lane = &mut self.lanes[id.0 as usize];
        lane.under_way = lane.under_way.saturating_sub(1);
        self.wake(id);
    }

    /// The most events that the destination took at once, as far as is known.
    pub(super) fn max_events(&self, id: LaneId) -> u32 {
        self.lanes[id.0 as usize].max_events
    }

    /// A send of so many events was too large.
    pub(super) fn limit(&mut self, id: LaneId, events: u32) {
        self.lanes[id.0 as usize].max_events = (events / 2).max(1);
    }

    /// Forgets everything that waits or is under way of a partition.
    pub(super) fn clear(&mut self, partition: usize) {
        let first = partition * self.per_partition;
        for lane in &mut self.lanes[first..][..self.per_partition] {
            lane.first = NONE;
            lane.under_way = 0;
        }
    }

    fn wake(&mut self, id: LaneId) {
        let lane = &mut self.lanes[id.0 as usize];
        if !lane.ready && lane.first != NONE && lane.under_way < lane.in_flight {
            lane.ready = true;
            self.ready.push_back(id);
        }
    }
}

impl LaneId {
    /// The lane of sends that are not ordered.
    pub(super) const NONE: Self = Self(u32::MAX);
}

impl Default for LaneId {
    fn default() -> Self {
        Self::NONE
    }
}

/// Keys are many, and those that share a lane wait for one another; a lane takes 24 bytes. A prime, since the same hash has
/// chosen the destination already.
pub(super) const LANES_OF_KEYS: u32 = 17;

impl Lane {
    const EMPTY: Self =
        Self { first: NONE, last: NONE, under_way: 0, in_flight: 1, ready: false, max_events: u32::MAX };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regroup::Group;

    fn sends(count: u32) -> Sends {
        let mut sends = Sends::new();
        for destination in 0..count {
            let group = Group { sink: 0, destination, start: 0, end: 1 };
            sends.begin(0, None, group);
        }
        sends
    }

    fn pop_all(lanes: &mut Lanes, id: LaneId, sends: &mut Sends) -> Vec<u32> {
        std::iter::from_fn(|| lanes.pop(id, sends)).collect()
    }

    #[test]
    fn a_lane_is_ready_once_and_not_while_a_send_is_under_way() {
        let (mut lanes, mut sends) = (Lanes::new(2, 3, 1, 1), sends(4));
        let id = lanes.id(1, 2, None);
        lanes.push(id, 0, &mut sends);
        lanes.push(id, 1, &mut sends);
        assert_eq!((lanes.next_ready(), lanes.next_ready()), (Some(id), None));
        assert_eq!(lanes.pop(id, &mut sends), Some(0));
        lanes.begin(id);
        lanes.push(id, 2, &mut sends);
        assert_eq!(lanes.next_ready(), None);
        lanes.end(id);
        assert_eq!(lanes.next_ready(), Some(id));
        assert_eq!(pop_all(&mut lanes, id, &mut sends), [1, 2]);
    }

    #[test]
    fn with_room_for_two_the_second_need_not_wait() {
        let (mut lanes, mut sends) = (Lanes::new(1, 1, 1, 2), sends(3));
        let id = lanes.id(0, 0, None);
        for send in 0..3 {
            lanes.push(id, send, &mut sends);
        }
        for expected in [0, 1] {
            assert_eq!(lanes.next_ready(), Some(id));
            assert_eq!(lanes.pop(id, &mut sends), Some(expected));
            lanes.begin(id);
        }
        assert_eq!(lanes.next_ready(), None);
    }

    #[test]
    fn what_comes_back_waits_before_the_others() {
        let (mut lanes, mut sends) = (Lanes::new(1, 1, 1, 1), sends(4));
        let id = lanes.id(0, 0, None);
        for send in 0..3 {
            lanes.push(id, send, &mut sends);
        }
        assert_eq!(pop_all(&mut lanes, id, &mut sends), [0, 1, 2]);
        sends.send_mut(1).follower = 2;
        lanes.push(id, 3, &mut sends);
        lanes.push_front(id, 1, &mut sends);
        lanes.push_front(id, 0, &mut sends);
        assert_eq!(pop_all(&mut lanes, id, &mut sends), [0, 1, 2, 3]);
        lanes.push_front(id, 1, &mut sends);
        lanes.push(id, 2, &mut sends);
        assert_eq!(pop_all(&mut lanes, id, &mut sends), [1, 2]);
    }

    #[test]
    fn a_key_has_one_lane_and_keys_have_several() {
        let lanes = Lanes::new(2, 3, LANES_OF_KEYS, 1);
        let keys = ["a", "b", "c", "d", "e", "f"].map(str::as_bytes);
        let ids = keys.map(|key| lanes.id(1, 2, Some(key)));
        assert_eq!(ids, keys.map(|key| lanes.id(1, 2, Some(key))));
        assert!(ids.iter().any(|id| *id != ids[0]));
        assert!(!ids.iter().any(|id| *id == lanes.id(1, 1, Some(b"a"))));
    }

    #[test]
    fn clearing_a_partition_leaves_the_others() {
        let (mut lanes, mut sends) = (Lanes::new(2, 2, 1, 1), sends(2));
        let (gone, kept) = (lanes.id(0, 1, None), lanes.id(1, 0, None));
        lanes.push(gone, 0, &mut sends);
        lanes.push(kept, 1, &mut sends);
        lanes.begin(gone);
        lanes.clear(0);
        assert_eq!((lanes.next_ready(), lanes.next_ready()), (Some(kept), None));
    }
}
