//! Batches in flight, in slots that are used again with all their memory.

use std::time::Instant;

use connect::event::{Event, EventBatch};

use super::events::Steps;
use super::traces::BatchTrace;
use crate::watermark::Ticket;

/// A batch whose events are being sent.
#[derive(Debug)]
pub(super) struct InFlight {
    /// Index of the partition in the relay.
    pub(super) partition: usize,
    pub(super) batch: EventBatch,
    /// Indices of the events, by destination; of several sinks one after the other.
    pub(super) order: Vec<u32>,
    /// Where each event is settled and there are several sinks: how many have not accepted it yet, or [`GIVEN_UP`].
    pub(super) awaited: Vec<u8>,
    /// Sends to sinks from this one on have not been begun: those before have to accept first.
    pub(super) next_sink: u32,
    /// How far each event is, where they go from sink to sink one by one.
    pub(super) steps: Option<Box<Steps>>,
    /// The last of its sends, which leads to the others; each group has one at a time.
    pub(super) sends: Option<u32>,
    /// How many groups have not been accepted as a whole yet, or given up where messages are settled.
    pub(super) unaccepted: u32,
    /// Whether some of its messages were given up.
    pub(super) failed: bool,
    /// Its place in the watermark; none where messages are settled.
    pub(super) ticket: Option<Ticket>,
    /// When it was taken up.
    pub(super) started_at: Instant,
    /// When its groups stood ready to be sent, each as soon as its destination is free.
    pub(super) sent_at: Instant,
    /// Its trace, if it is sampled.
    pub(super) trace: Option<Box<BatchTrace>>,
}

/// An event that was settled although not every sink has accepted it.
pub(super) const GIVEN_UP: u8 = u8::MAX;

/// All batches under way.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Option<InFlight>>,
    free: Vec<u32>,
    /// Orders of batches that are done, for those to come.
    orders: Vec<Vec<u32>>,
    /// The same of what was awaited.
    awaited: Vec<Vec<u8>>,
    /// The same of steps.
    #[expect(clippy::vec_box, reason = "they move between batches, most of which have none")]
    steps: Vec<Box<Steps>>,
    /// The events of all batches under way.
    events: usize,
}

impl Slots {
    /// How many batches are under way.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The batches under way, in no order.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &InFlight> {
        self.slots.iter().flatten()
    }

    /// How many events all batches under way have.
    pub(super) const fn events(&self) -> usize {
        self.events
    }

    /// Memory for the order of the next batch.
    pub(super) fn take_order(&mut self) -> Vec<u32> {
        let mut order = self.orders.pop().unwrap_or_default();
        order.clear();
        order
    }

    /// Memory for what is awaited of the next batch.
    pub(super) fn take_awaited(&mut self) -> Vec<u8> {
        let mut awaited = self.awaited.pop().unwrap_or_default();
        awaited.clear();
        awaited
    }

    /// Memory for the steps of the next batch.
    pub(super) fn take_steps(&mut self) -> Box<Steps> {
        self.steps.pop().unwrap_or_default()
    }

    pub(super) fn insert(&mut self, in_flight: InFlight) -> u32 {
        self.events += in_flight.batch.len();
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(in_flight);
                slot
            }
            None => {
                self.slots.push(Some(in_flight));
                // Slots are as many as partitions times batches under way.
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// Takes a batch out; its slot is free for another.
    pub(super) fn remove(&mut self, slot: u32) -> InFlight {
        let mut in_flight = self.slots[slot as usize].take().expect("a slot is freed once");
        self.free.push(slot);
        self.events -= in_flight.batch.len();
        self.awaited.push(std::mem::take(&mut in_flight.awaited));
        self.orders.push(std::mem::take(&mut in_flight.order));
        self.steps.extend(in_flight.steps.take());
        in_flight
    }

    pub(super) fn in_flight(&self, slot: u32) -> &InFlight {
        self.slots[slot as usize].as_ref().expect("a live send belongs to a batch under way")
    }

    pub(super) fn in_flight_mut(&mut self, slot: u32) -> &mut InFlight {
        self.slots[slot as usize].as_mut().expect("a live send belongs to a batch under way")
    }

    /// How far the events of a batch are, where they go one by one.
    pub(super) fn steps_mut(&mut self, slot: u32) -> &mut Steps {
        self.in_flight_mut(slot).steps.as_mut().expect("a batch has steps where its events go one by one")
    }
}

impl InFlight {
    /// The first event that is not done; the first one of all where events are done together.
    pub(super) fn oldest(&self) -> Option<&Event> {
        let done = self.steps.as_ref().map_or(0, |steps| steps.prefix());
        self.batch.events().get(done)
    }

    /// The number of the last event that is carried.
    pub(super) fn last_sequence_number(&self) -> Option<i64> {
        let end = self.steps.as_ref().map_or(self.batch.len(), |steps| steps.end());
        self.batch.events()[..end].last().map(|event| event.sequence_number)
    }
}
