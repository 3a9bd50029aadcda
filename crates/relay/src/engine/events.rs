//! Dispatch by event: each event goes from sink to sink by itself, whatever becomes of the others of its batch.
//!
//! ```text
//!   events of the batch    0     1     2     3     4     5     6          two at once, one sink after the other
//!   first sink             done  done  done  sent  -     -     -
//!   second sink            done  sent  done  -     -     -     -
//!                          └ prefix                └ taken: the next one that is taken up
//! ```
//!
//! An event is *in work* from the moment in which it is taken up until every sink has accepted it. So many are at once as
//! [`RelayOptions::events_at_once`](crate::RelayOptions::events_at_once) allows, those of all partitions together, and each of
//! them is with as many sinks as [`RelayOptions::sinks_at_once`](crate::RelayOptions::sinks_at_once) allows. A batch is begun
//! when its first event can be taken up, and the next one when that was its last: one batch at most has events that were not
//! taken up.
//!
//! Whatever finishes first, the watermark moves over the events that are done without a gap: to the last event of each
//! complete batch, and within the oldest batch to the last event of its prefix.
//!
//! Sinks that store later than they accept come first, wherever they stand in their list, and get the events of a partition in the order in which
//! these are taken up: they accept at once, and what they store is to be in order.
//!
//! Each send has one event. Without an [`Order`] they are made as soon as it is an event's turn, and what was sent after a send
//! that failed may be there first. Where an order is kept the sends of a partition, or of a key, to a destination queue up in
//! a lane, one at a time; events are taken up in order, so each sink gets them in order.

use std::time::{Duration, Instant};

use super::Relay;
use super::adaptive::Adaptive;
use super::in_flight::InFlight;
use super::sends::{NONE, Stage};
use crate::options::{Order, RelayOptions};
use crate::regroup::Group;

/// What is in work, and what comes next.
#[derive(Debug)]
pub(super) struct EventDispatch {
    events_at_once: usize,
    sinks_at_once: usize,
    order: Order,
    /// Finds out how many events at once are worth it, where that is asked for.
    adaptive: Option<Adaptive>,
    /// Events that were taken up, and that not every sink has accepted.
    in_work: usize,
    /// Whether as many were in work as may be when events were taken up last.
    full: bool,
    /// Since when nothing is in work.
    idle_since: Option<Instant>,
    /// The slot of the batch with events that were not taken up.
    open: Option<u32>,
}

/// How far the events of one batch are.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// How many sinks there are.
    sinks: usize,
    /// For each event its sends to all sinks, in [their order](super::outlets::Outlets::turn); [`NONE`] for a sink that has the event already.
    sends: Vec<u32>,
    events: Vec<Step>,
    /// The first event that was not taken up.
    taken: u32,
    /// One past the last event that is to be taken up.
    end: u32,
    /// The first event that is not done.
    prefix: u32,
    /// Events that were taken up and are not done.
    in_work: u32,
}

/// How far one event is. A pipeline has fewer sinks than fit into a byte.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    /// The first sink that it was not sent to.
    next_sink: u8,
    /// How many sinks have it and have not answered.
    under_way: u8,
    done: bool,
}

/// What is to be done for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// This send.
    Send(u32),
    /// Nothing, until a sink has answered.
    Wait,
    /// Every sink has accepted it.
    Done,
}

impl EventDispatch {
    pub(super) fn new(options: &RelayOptions) -> Self {
        Self {
            events_at_once: options.events_at_once.max(1),
            sinks_at_once: options.sinks_at_once.max(1),
            order: options.order,
            adaptive: options.adapt_events.then(|| Adaptive::new(options.events_at_once)),
            in_work: 0,
            full: false,
            idle_since: None,
            open: None,
        }
    }

    /// Whether another batch may begin.
    pub(super) const fn has_room(&self) -> bool {
        self.open.is_none() && self.in_work < self.limit()
    }

    /// How many events may be in work.
    pub(super) const fn limit(&self) -> usize {
        match &self.adaptive {
            Some(adaptive) => adaptive.limit(),
            None => self.events_at_once,
        }
    }

    /// A sink asked to slow down.
    pub(super) fn note_throttling(&mut self) {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.throttled();
        }
    }

    fn take_up(&mut self, now: Instant) {
        let idle = self.idle_since.take().map(|since| now.saturating_duration_since(since));
        if let Some(adaptive) = &mut self.adaptive
            && idle.is_some_and(|idle| idle > IDLE_MIN)
        {
            adaptive.idle();
        }
        self.in_work += 1;
    }

    fn finish(&mut self, now: Instant) {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.done(now, self.full);
        }
        self.in_work -= 1;
        if self.in_work == 0 {
            self.idle_since = Some(now);
        }
    }

    /// Whether events of a batch wait for their turn.
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The batch whose next event may be taken up.
    fn next(&self) -> Option<u32> {
        self.open.filter(|_| self.in_work < self.limit())
    }
}

impl Steps {
    /// Begins with a batch of so many events, of which none was sent.
    fn reset(&mut self, events: usize, sinks: usize) {
        let Self { sends, events: steps, .. } = self;
        sends.clear();
        sends.resize(events * sinks, NONE);
        steps.clear();
        steps.resize(events, Step::default());
        // Events of a batch are counted in 32 bits.
        (self.sinks, self.taken, self.end) = (sinks, 0, events as u32);
        (self.prefix, self.in_work) = (0, 0);
    }

    fn set_send(&mut self, event: u32, turn: u32, send: u32) {
        self.sends[event as usize * self.sinks + turn as usize] = send;
    }

    fn take_up(&mut self) -> u32 {
        let event = self.taken;
        self.taken += 1;
        self.in_work += 1;
        event
    }

    /// What is to be done for an event that was taken up, if so many sinks may have it at once.
    fn next(&mut self, event: u32, sinks_at_once: usize) -> Next {
        let step = &mut self.events[event as usize];
        let sends = &self.sends[event as usize * self.sinks..][..self.sinks];
        while usize::from(step.next_sink) < self.sinks && usize::from(step.under_way) < sinks_at_once {
            let send = sends[usize::from(step.next_sink)];
            step.next_sink += 1;
            if send != NONE {
                step.under_way += 1;
                return Next::Send(send);
            }
        }
        match usize::from(step.next_sink) == self.sinks && step.under_way == 0 {
            true => Next::Done,
            false => Next::Wait,
        }
    }

    /// A sink has answered for an event.
    fn answered(&mut self, event: u32) {
        self.events[event as usize].under_way -= 1;
    }

    /// Every sink has accepted an event. Says whether those that are done without a gap are more now.
    fn finish(&mut self, event: u32) -> bool {
        self.events[event as usize].done = true;
        self.in_work -= 1;
        let before = self.prefix;
        while self.prefix < self.taken && self.events[self.prefix as usize].done {
            self.prefix += 1;
        }
        self.prefix > before
    }

    /// Nothing more is taken up.
    fn cut(&mut self) {
        self.end = self.taken;
    }

    fn is_complete(&self) -> bool {
        self.prefix == self.end
    }

    /// How many events there are that are, or will be, carried.
    pub(super) const fn end(&self) -> usize {
        self.end as usize
    }

    /// How many events from the first one on are done.
    pub(super) const fn prefix(&self) -> usize {
        self.prefix as usize
    }
}

impl Relay {
    /// Begins with the events of a batch, each of which has one group for each sink that lacks it.
    pub(super) fn start_steps(&mut self, slot: u32, groups: &[Group]) {
        let mut steps = self.slots.take_steps();
        let sinks = self.outlets.len();
        steps.reset(self.slots.in_flight(slot).batch.len(), sinks);
        let mut sends = None;
        for &group in groups {
            let send = self.sends.begin(slot, sends, group);
            sends = Some(send);
            let event = self.slots.in_flight(slot).order[group.start as usize];
            steps.set_send(event, self.outlets.turn(group.sink), send);
        }
        let in_flight = self.slots.in_flight_mut(slot);
        in_flight.sends = sends;
        in_flight.next_sink = sinks as u32;
        in_flight.steps = Some(steps);
        if let Some(dispatch) = &mut self.dispatch {
            dispatch.open = Some(slot);
        }
        self.take_up_events();
    }

    /// Takes up as many events as may be in work, unless a sink is busy.
    pub(super) fn take_up_events(&mut self) -> bool {
        let (mut progress, now) = (false, self.now);
        while let Some(dispatch) = &mut self.dispatch
            && let Some(slot) = dispatch.next()
            && !self.outlets.is_blocked()
        {
            progress = true;
            let steps = self.slots.steps_mut(slot);
            let event = steps.take_up();
            dispatch.take_up(now);
            if steps.taken == steps.end {
                dispatch.open = None;
            }
            self.step(slot, event);
        }
        if let Some(dispatch) = &mut self.dispatch {
            dispatch.full = dispatch.in_work >= dispatch.limit();
        }
        progress
    }

    /// A send of one event has been accepted, or is passed over.
    pub(super) fn end_step(&mut self, index: u32) {
        let slot = self.sends.slot(index);
        let InFlight { order, .. } = self.slots.in_flight(slot);
        let event = order[self.sends.send(index).start() as usize];
        self.sends.end_attempt(index, Stage::Over);
        self.slots.steps_mut(slot).answered(event);
        self.step(slot, event);
    }

    /// Sends an event to the sinks whose turn it is. Nothing may be expected of its batch afterwards: it may be complete, or
    /// have failed on purpose.
    fn step(&mut self, slot: u32, event: u32) {
        let sinks_at_once = self.dispatch.as_ref().map_or(1, |dispatch| dispatch.sinks_at_once);
        loop {
            match self.slots.steps_mut(slot).next(event, sinks_at_once) {
                Next::Send(send) if self.is_unfit(send) => return self.refuse_unfit(send),
                Next::Send(send) => {
                    let ratio = self.options.failure_ratio;
                    if ratio > 0.0 && self.failures.chance(ratio) {
                        self.metrics.injected_failures += 1;
                        let index = self.slots.in_flight(slot).partition;
                        self.fail_on_purpose(index);
                        return;
                    }
                    self.send_step(slot, send);
                }
                Next::Wait => return,
                Next::Done => return self.finish_event(slot, event),
            }
        }
    }

    /// Makes a send, or lets it wait in its lane where an order is kept.
    fn send_step(&mut self, slot: u32, send: u32) {
        let of = self.sends.send(send);
        let InFlight { partition, batch, order, .. } = self.slots.in_flight(slot);
        let destination = self.outlets.get(of.sink).first_destination + of.destination;
        let event = &batch.events()[order[of.start() as usize] as usize];
        let lane = match self.dispatch.as_ref().map_or(Order::None, |dispatch| dispatch.order) {
            _ if self.outlets.is_late(of.sink) => Some(self.lanes.id(*partition, destination, None)),
            Order::None => None,
            Order::Partition => Some(self.lanes.id(*partition, destination, None)),
            Order::Key => {
                let key = batch.key(event);
                key.map(|key| self.lanes.id(*partition, destination, Some(key)))
            }
        };
        match lane {
            Some(lane) => self.lanes.push(lane, send, &mut self.sends),
            None => _ = self.transmit(send),
        }
    }

    /// Every sink has accepted an event.
    fn finish_event(&mut self, slot: u32, event: u32) {
        let now = self.now;
        if let Some(dispatch) = &mut self.dispatch {
            dispatch.finish(now);
        }
        let steps = self.slots.steps_mut(slot);
        let moved = steps.finish(event);
        if steps.is_complete() {
            self.complete(slot);
        } else if moved {
            let index = self.slots.in_flight(slot).partition;
            self.advance(index);
        }
    }

    /// Moves the watermark of a partition over those events of its oldest batch that are done without a gap.
    pub(super) fn advance(&mut self, index: usize) {
        let partition = &mut self.partitions[index];
        let Some(&oldest) = partition.in_flight.first() else {
            return;
        };
        let InFlight { batch, steps: Some(steps), ticket: Some(ticket), .. } = self.slots.in_flight(oldest)
        else {
            return;
        };
        let Some(event) = steps.prefix.checked_sub(1).map(|last| batch.events()[last as usize]) else {
            return;
        };
        partition.watermark.advance(*ticket, event.sequence_number, batch.offset(&event));
        let first = batch.first_sequence_number();
        self.note_advance(index, first);
    }

    /// Takes up nothing more of a partition. What was taken up of its batches goes on, and is all there is of them.
    pub(super) fn cut(&mut self, index: usize) {
        let Some(dispatch) = &mut self.dispatch else {
            return;
        };
        let Some(slot) = dispatch.open.filter(|&slot| self.slots.in_flight(slot).partition == index) else {
            return;
        };
        dispatch.open = None;
        let steps = self.slots.steps_mut(slot);
        steps.cut();
        let (end, is_complete) = (steps.end as usize, steps.is_complete());
        let InFlight { batch, ticket, .. } = self.slots.in_flight(slot);
        if let (Some(ticket), Some(last)) = (ticket, batch.events()[..end].last()) {
            let partition = &mut self.partitions[index];
            partition.watermark.shorten(*ticket, last.sequence_number, batch.offset(last));
        }
        if is_complete {
            self.complete(slot);
        }
    }

    /// A batch is given up with whatever was in work of it.
    pub(super) fn leave_work(&mut self, slot: u32) {
        if let Some(dispatch) = &mut self.dispatch
            && let Some(steps) = &self.slots.in_flight(slot).steps
        {
            dispatch.in_work -= steps.in_work as usize;
            if dispatch.open == Some(slot) {
                dispatch.open = None;
            }
        }
    }
}

/// From one outcome to the next event nothing is in work for a moment, which is no pause.
const IDLE_MIN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(events: usize, sinks: usize) -> Steps {
        let mut steps = Steps::default();
        steps.reset(events, sinks);
        for event in 0..events as u32 {
            for sink in 0..sinks as u32 {
                steps.set_send(event, sink, event * 10 + sink);
            }
        }
        steps
    }

    #[test]
    fn an_event_goes_to_one_sink_after_the_other_or_to_as_many_as_may_have_it() {
        let mut steps = steps(1, 3);
        let event = steps.take_up();
        assert_eq!((steps.next(event, 2), steps.next(event, 2)), (Next::Send(0), Next::Send(1)));
        assert_eq!(steps.next(event, 2), Next::Wait);
        steps.answered(event);
        assert_eq!((steps.next(event, 2), steps.next(event, 2)), (Next::Send(2), Next::Wait));
        steps.answered(event);
        steps.answered(event);
        assert_eq!(steps.next(event, 2), Next::Done);
        assert!(steps.finish(event) && steps.is_complete());
    }

    #[test]
    fn a_sink_that_has_the_event_already_is_left_out() {
        let mut steps = steps(2, 2);
        steps.set_send(0, 0, NONE);
        steps.set_send(1, 0, NONE);
        steps.set_send(1, 1, NONE);
        let (one, two) = (steps.take_up(), steps.take_up());
        assert_eq!((steps.next(one, 1), steps.next(two, 1)), (Next::Send(1), Next::Done));
        assert!(!steps.finish(two), "the one before is not done");
        steps.answered(one);
        assert_eq!(steps.next(one, 1), Next::Done);
        assert!(steps.finish(one));
        assert_eq!((steps.prefix(), steps.is_complete()), (2, true));
    }

    #[test]
    fn what_was_not_taken_up_can_be_cut_off() {
        let mut steps = steps(5, 1);
        let first = steps.take_up();
        steps.next(first, 1);
        steps.cut();
        assert!(!steps.is_complete());
        steps.answered(first);
        assert_eq!(steps.next(first, 1), Next::Done);
        assert!(steps.finish(first) && steps.is_complete());
        assert_eq!(steps.end(), 1);
    }
}
