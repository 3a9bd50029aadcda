//! A batch is started: routed, regrouped, and each group sent as soon as its destination is free.

use std::collections::BTreeSet;
use std::task::Context;
use std::time::Instant;

use connect::event::EventBatch;
use connect::sink::{BatchPart, OutgoingBatch, SendUnit, Sink, SinkError};
use connect::source::Settlement;
use units::recycled::emptied;

use super::in_flight::{InFlight, Slots};
use super::keys::split_by_key;
use super::lanes::LaneId;
use super::partition::{Completes, Parked, Partition, State};
use super::sends::{NONE, Sends, Stage};
use super::{Relay, unreadable};
use crate::metrics::{record_count, record_duration};
use crate::regroup::Group;

impl Relay {
    /// A batch has come from the source: takes it up, or parks it until it is its turn.
    pub(super) fn receive(&mut self, batch: EventBatch) {
        let index = self.indices.get(&batch.partition()).copied();
        let Some(index) = index.filter(|&index| self.partitions[index].state.takes_batches()) else {
            self.give_back(batch);
            return;
        };
        self.metrics.received_batches += 1;
        self.metrics.received_events += batch.len() as u64;
        self.metrics.received_bytes += batch.message_bytes() as u64;
        self.metrics.redelivered_events += u64::from(batch.redelivered());
        if self.source.settles() {
            let messages = batch.len() as u64;
            self.vacancies.take(self.now, messages, &mut self.metrics.vacant_us);
        }
        let now = self.store.now();
        if batch.unreadable().is_none() {
            self.metrics.record_source_ages(batch.events(), now);
        }
        record_count(&mut self.metrics.batch_events, batch.len() as u64);
        record_count(&mut self.metrics.batch_bytes, batch.message_bytes() as u64);
        self.held_bytes += batch.message_bytes();
        let received_at = self.now;
        let can_send = !self.outlets.is_blocked() && self.has_room_for(batch.len());
        let partition = &mut self.partitions[index];
        if can_send && partition.parked.is_empty() && partition.may_begin_with(&batch) {
            self.start_batch(index, batch, received_at);
        } else {
            partition.parked.push_back(Parked { batch, received_at });
            self.parked += 1;
            self.run_soon(index);
        }
    }

    /// Takes up parked batches of partitions that have room, in turn, unless the sink is busy.
    pub(super) fn start_parked(&mut self) -> bool {
        let mut progress = false;
        for _ in 0..self.runnable.len() {
            if self.outlets.is_blocked() {
                break;
            }
            let Some(index) = self.runnable.pop_front() else {
                break;
            };
            let partition = &mut self.partitions[index];
            partition.queued = false;
            let Some(Parked { batch, .. }) = partition.parked.front() else {
                continue;
            };
            if !partition.may_begin_with(batch) {
                // The completion of a batch, or of the fence, will queue it again.
                continue;
            }
            let events = batch.len();
            if !self.has_room_for(events) {
                // As soon as a batch is done it is asked again, since that is progress.
                self.partitions[index].queued = true;
                self.runnable.push_front(index);
                break;
            }
            if let Some(Parked { batch, received_at }) = self.partitions[index].parked.pop_front() {
                progress = true;
                self.parked -= 1;
                self.start_batch(index, batch, received_at);
                self.run_soon(index);
            }
        }
        progress
    }

    /// Whether so many more events may be in work, or any of them where they go one by one. One batch always may.
    fn has_room_for(&self, events: usize) -> bool {
        if let Some(dispatch) = &self.dispatch {
            return dispatch.has_room();
        }
        let in_work = self.slots.events();
        in_work == 0 || in_work.saturating_add(events) <= self.options.events_at_once
    }

    /// Queues a partition if it has something parked.
    pub(super) fn run_soon(&mut self, index: usize) {
        let partition = &mut self.partitions[index];
        if !partition.queued && !partition.parked.is_empty() {
            partition.queued = true;
            self.runnable.push_back(index);
        }
    }

    /// Gives all parked batches of a partition back.
    pub(super) fn release_parked(&mut self, index: usize) {
        while let Some(parked) = self.partitions[index].parked.pop_front() {
            self.parked -= 1;
            self.held_bytes -= parked.batch.message_bytes();
            self.give_back(parked.batch);
        }
    }

    fn start_batch(&mut self, index: usize, mut batch: EventBatch, received_at: Instant) {
        let Some(&last) = batch.events().last() else {
            self.held_bytes -= batch.message_bytes();
            self.source.release(batch);
            return;
        };
        if !self.may_send(index, &batch) {
            self.held_bytes -= batch.message_bytes();
            self.source.release(batch);
            return;
        }
        record_duration(&mut self.metrics.queue_us, self.now - received_at);
        self.transform(&mut batch);
        let mut order = self.slots.take_order();
        let mut groups = std::mem::take(&mut self.groups);
        groups.clear();
        let Partition { accepted, storage, .. } = &self.partitions[index];
        let comes_again =
            !accepted.is_empty() || batch.first_sequence_number().is_some_and(|first| storage.has_any(first));
        if batch.unreadable().is_some() {
            unreadable::group(&batch, accepted, &mut order, &mut groups);
        }
        let readable = batch.unreadable().is_none();
        for (sink, outlet) in self.outlets.iter_mut().filter(|_| readable) {
            let first = groups.len();
            outlet.group(sink, &batch, &mut self.destinations, &mut order, &mut groups);
            if let Some(transforming) = &self.transforming {
                transforming.select(sink, &mut order, &mut groups, first);
            }
            if outlet.by_key && self.dispatch.is_none() {
                split_by_key(&batch, &mut order, &mut groups, first);
            }
            if comes_again {
                accepted.leave_out(storage, &batch, &mut order, &mut groups);
            }
            if outlet.unit == SendUnit::Event || self.dispatch.is_some() {
                split_groups(&mut groups, first);
            }
        }
        if let Some(transforming) = &self.transforming {
            transforming.add_unfit(&batch, accepted, &mut order, &mut groups);
        }
        let several = self.outlets.len() > 1;
        let mut awaited = self.slots.take_awaited();
        if several && self.source.settles() {
            // A pipeline has fewer sinks than fit into a byte.
            awaited.resize(batch.len(), self.outlets.len() as u8);
        }
        let settled_otherwise = self.settle_unselected(&batch, &mut awaited);
        let partition = &mut self.partitions[index];
        let ticket = match partition.completion {
            Completes::ByCheckpoint => {
                Some(partition.watermark.begin(last.sequence_number, batch.offset(&last)))
            }
            Completes::BySettlement => None,
        };
        // At most as many groups as destinations or events, which are counted in 32 bits.
        let count = groups.len() as u32;
        let slot = self.slots.insert(InFlight {
            partition: index,
            batch,
            order,
            awaited,
            next_sink: 0,
            steps: None,
            sends: None,
            unaccepted: count,
            failed: settled_otherwise,
            ticket,
            started_at: self.now,
            // One reading of the clock per batch, to tell the routing apart from the sending.
            sent_at: tokio::time::Instant::now().into_std(),
            trace: None,
        });
        self.begin_trace(slot, received_at);
        let partition = &mut self.partitions[index];
        if ticket.is_some() {
            partition.in_flight.push(slot);
        }
        self.note_slot(slot);
        if self.dispatch.is_some() && count > 0 {
            self.start_steps(slot, &groups);
            self.groups = groups;
            self.update_hold(index);
            return;
        }
        let is_gated = several && self.options.sinks_at_once < self.outlets.len();
        let mut sends = None;
        for &group in &groups {
            let send = self.sends.begin(slot, sends, group);
            sends = Some(send);
            if self.is_unfit(send) {
                self.hold_back(send);
            } else if self.options.failure_ratio > 0.0 && self.failures.chance(self.options.failure_ratio) {
                self.metrics.injected_failures += 1;
                self.failing.push(send);
            } else if !is_gated {
                self.begin_send(index, send);
            }
        }
        self.groups = groups;
        let in_flight = self.slots.in_flight_mut(slot);
        in_flight.sends = sends;
        if !is_gated {
            in_flight.next_sink = self.outlets.len() as u32;
        } else if count > 0 {
            self.begin_next_sinks(slot);
        }
        if count == 0 {
            // All of it was accepted before its partition failed, or goes nowhere.
            self.complete(slot);
            return;
        }
        if !self.held_back.is_empty() {
            self.transmit_ready();
            self.refuse_held_back();
        }
        if !self.failing.is_empty() {
            // Only now, since the sends of a batch are made at once: the others are on their way.
            self.transmit_ready();
            self.fail_on_purpose(index);
        }
        self.update_hold(index);
    }

    /// A send takes its place in its lane, or is made at once where nothing is ordered.
    fn begin_send(&mut self, partition: usize, send: u32) {
        let of = self.sends.send(send);
        let outlet = self.outlets.get(of.sink);
        if self.partitions[partition].completion == Completes::ByCheckpoint && outlet.unit == SendUnit::Batch
        {
            let destination = outlet.first_destination + of.destination;
            let lane = self.lanes.id(partition, destination, self.key_of(send));
            self.lanes.push(lane, send, &mut self.sends);
        } else {
            self.transmit(send);
        }
    }

    /// Begins the sends of a batch to further sinks, as long as not as many as may be have something of it under way.
    /// A batch of which something was given up goes to no further sink. Where order is kept none goes to a sink before the
    /// batches before it do, whichever of them the sinks before have done first.
    #[cold]
    pub(super) fn begin_next_sinks(&mut self, slot: u32) {
        let partition = self.slots.in_flight(slot).partition;
        if self.begin_sinks(slot) {
            let mut batches = self.partitions[partition].in_flight.iter();
            let next = batches.position(|&other| other == slot).and_then(|_| batches.next()).copied();
            next.into_iter().for_each(|next| self.begin_next_sinks(next));
        }
    }

    /// The same of this batch alone. Says whether it was sent to any.
    fn begin_sinks(&mut self, slot: u32) -> bool {
        let all = self.outlets.len() as u32;
        let mut any = false;
        loop {
            let &InFlight { partition, sends, failed, next_sink, .. } = self.slots.in_flight(slot);
            let unfinished =
                self.sends.of_batch(sends).filter(|&send| self.sends.send(send).stage != Stage::Over);
            let sink_of = |send: u32| self.sends.send(send).sink;
            let (begun, mut waiting): (Vec<u32>, Vec<u32>) =
                unfinished.partition(|&send| sink_of(send) < next_sink);
            if failed {
                self.slots.in_flight_mut(slot).next_sink = all;
                waiting.into_iter().for_each(|send| self.give_up(send));
                return false;
            }
            let busy: BTreeSet<u32> = begun.into_iter().map(sink_of).collect();
            if next_sink >= self.sinks_begun_before(slot) || busy.len() >= self.options.sinks_at_once.max(1) {
                return any;
            }
            any = true;
            self.slots.in_flight_mut(slot).next_sink += 1;
            waiting.retain(|&send| {
                sink_of(send) == next_sink && !self.failing.contains(&send) && !self.is_unfit(send)
            });
            // The list of a batch's sends begins with the last one.
            waiting.into_iter().rev().for_each(|send| self.begin_send(partition, send));
        }
    }

    /// How many sinks the batch before has begun with; all if there is none, or nothing is ordered.
    fn sinks_begun_before(&self, slot: u32) -> u32 {
        let batches = &self.partitions[self.slots.in_flight(slot).partition].in_flight;
        let before = batches.iter().zip(batches.iter().skip(1)).find(|&(_, &other)| other == slot);
        before.map_or(self.outlets.len() as u32, |(&before, _)| self.slots.in_flight(before).next_sink)
    }

    /// Keeps the source from handing over batches before they are full while they would only wait here.
    pub(super) fn update_hold(&mut self, index: usize) {
        let partition = &mut self.partitions[index];
        let held = partition.state == State::Open && !partition.may_begin();
        if partition.held != held {
            partition.held = held;
            self.source.hold(partition.id, held);
        }
    }

    /// Makes the sends of all lanes that have something waiting and room for it, unless the sink is busy.
    pub(super) fn transmit_ready(&mut self) -> bool {
        let mut progress = false;
        while !self.outlets.is_blocked()
            && let Some(lane) = self.lanes.next_ready()
            && let Some(leader) = self.lanes.pop(lane, &mut self.sends)
        {
            progress = true;
            if self.dispatch.is_none() {
                self.gather(lane, leader);
            }
            self.lanes.begin(lane);
            self.transmit(leader);
        }
        progress
    }

    /// Lets what waits in a lane ride with the first of it, as far as one send takes it. A group that does not fit as a
    /// whole waits: only one that is too large by itself is divided.
    fn gather(&mut self, lane: LaneId, leader: u32) {
        if self.lanes.first(lane).is_none() {
            return;
        }
        let send = self.sends.send(leader);
        let max_bytes = self.outlets.get(send.sink).sink.max_batch_bytes(send.destination);
        let max_events = self.lanes.max_events(lane);
        let (mut events, mut bytes) = (self.sends.send(leader).unsent(), self.group_bytes(leader));
        let mut last = leader;
        while let Some(next) = self.lanes.first(lane) {
            events = events.saturating_add(self.sends.send(next).unsent());
            bytes = bytes.saturating_add(self.group_bytes(next));
            let same_key = self.key_of(next) == self.key_of(leader);
            if events > max_events || bytes > max_bytes || !same_key {
                return;
            }
            self.lanes.pop(lane, &mut self.sends);
            self.sends.ride(leader, last, next);
            last = next;
        }
    }

    /// The partition key that the events of a group have in common, where the sink keeps it.
    fn key_of(&self, index: u32) -> Option<&[u8]> {
        let send = self.sends.send(index);
        if !self.outlets.get(send.sink).by_key {
            return None;
        }
        let InFlight { batch, order, .. } = self.slots.in_flight(self.sends.slot(index));
        let first = *order.get(send.next as usize)?;
        batch.partition_key(&batch.events()[first as usize])
    }

    /// An upper bound of what the unsent events of a group encode to, close enough for many of them to go together.
    fn group_bytes(&self, index: u32) -> usize {
        let send = self.sends.send(index);
        let InFlight { batch, order, .. } = self.slots.in_flight(self.sends.slot(index));
        let largest = batch.largest_message();
        let encoded = self.outlets.get(send.sink).sink.encoded_len(largest);
        let unsent = send.unsent() as usize;
        if batch.has_equal_lengths() {
            return encoded.saturating_mul(unsent);
        }
        let overhead = encoded.saturating_sub(largest).saturating_mul(unsent);
        let messages = order[send.next as usize..send.end as usize].iter();
        messages
            .map(|&event| batch.events()[event as usize].message_len())
            .fold(overhead, usize::saturating_add)
    }

    pub(super) fn fail_on_purpose(&mut self, index: usize) {
        let mut failing = std::mem::take(&mut self.failing);
        match self.partitions[index].completion {
            Completes::ByCheckpoint => {
                // These come at their rate, and say nothing about the destination.
                self.partitions[index].rests = 0;
                self.fail_batch(index, &"a failure was injected");
            }
            Completes::BySettlement => {
                for &send in &failing {
                    // Where sinks come one after the other, the first failure gives up those that were to come.
                    if self.sends.send(send).stage != Stage::Over {
                        self.give_up(send);
                    }
                }
            }
        }
        failing.clear();
        self.failing = failing;
    }

    /// Gives a batch back of which nothing was begun.
    pub(super) fn give_back(&mut self, batch: EventBatch) {
        if self.source.settles() {
            self.destinations.clear();
            self.destinations.extend(0..batch.len() as u32);
            self.source.settle(&batch, &self.destinations, Settlement::Release);
        }
        self.source.release(batch);
    }

    /// Hands the next part of a group to the sink. If the sink is busy, the send waits until it is offered again.
    pub(super) fn transmit(&mut self, index: u32) -> bool {
        let send = *self.sends.send(index);
        let token = self.sends.token(index);
        let InFlight { batch, order, .. } = self.slots.in_flight(self.sends.slot(index));
        let mut riders: Vec<BatchPart<'_>> = std::mem::take(&mut self.riders);
        let part_end = if send.follower == NONE {
            let sink = &*self.outlets.get(send.sink).sink;
            end_of_part(sink, batch, order, send.destination, send.next..send.end, send.part_max)
        } else {
            add_riders(&self.sends, &self.slots, send.follower, &mut riders);
            send.end
        };
        let events = &order[send.next as usize..part_end as usize];
        let outgoing = OutgoingBatch::new(send.destination, batch, events).followed_by(&riders);
        let outlet = self.outlets.get_mut(send.sink);
        let sent = outlet.sink.send(token, outgoing);
        self.riders = emptied(riders);
        match sent {
            Ok(()) => {
                self.metrics.sends += 1;
                self.metrics.split_sends += u64::from(part_end < send.end);
                self.sends.sent(index, part_end, self.now + self.options.retry.try_timeout);
                true
            }
            Err(_busy) => {
                self.metrics.busy_sink += 1;
                self.sends.send_mut(index).stage = Stage::Blocked;
                outlet.blocked.push_back(token);
                false
            }
        }
    }

    /// Offers what sinks were too busy for again, once they say that this is worth it.
    pub(super) fn poll_blocked(&mut self, context: &mut Context<'_>) -> bool {
        let mut progress = false;
        // No relay has more sinks than are counted in 32 bits.
        for sink in 0..self.outlets.len() as u32 {
            match self.offer_blocked(sink, context) {
                Ok(moved) => progress |= moved,
                Err(error) => {
                    self.fail_sink(sink, error);
                    return true;
                }
            }
        }
        progress
    }

    fn offer_blocked(&mut self, sink: u32, context: &mut Context<'_>) -> Result<bool, SinkError> {
        let mut progress = false;
        loop {
            let outlet = self.outlets.get_mut(sink);
            let blocked = outlet.blocked.len();
            if blocked == 0 || outlet.sink.poll_ready(context)?.is_pending() {
                return Ok(progress);
            }
            let mut moved = false;
            for _ in 0..blocked {
                let Some(token) = self.outlets.get_mut(sink).blocked.pop_front() else {
                    break;
                };
                match self.sends.of_token(token) {
                    // Refused again, it goes to the end: after one round the order is as before.
                    Some(index) => moved |= self.transmit(index),
                    // Its batch was abandoned.
                    None => moved = true,
                }
            }
            progress |= moved;
            if !moved {
                // Ready, but not for any of these: asked again, but not at once.
                if self.outlets.get_mut(sink).sink.poll_ready(context)?.is_ready() {
                    context.waker().wake_by_ref();
                }
                return Ok(progress);
            }
        }
    }
}

/// Adds the events of all that ride with a send, from the first rider on, in order.
fn add_riders<'a>(sends: &'a Sends, slots: &'a Slots, first: u32, riders: &mut Vec<BatchPart<'a>>) {
    let mut next = first;
    while next != NONE {
        let send = sends.send(next);
        let InFlight { batch, order, .. } = slots.in_flight(sends.slot(next));
        riders.push(BatchPart { batch, events: &order[send.next as usize..send.end as usize] });
        next = send.follower;
    }
}

/// Makes a group of each event, from the `first` group on.
fn split_groups(groups: &mut Vec<Group>, first: usize) {
    for index in first..groups.len() {
        let group = groups[index];
        groups[index].end = group.start + 1;
        groups.extend((group.start + 1..group.end).map(|start| Group { start, end: start + 1, ..group }));
    }
}

/// Where the part ends that begins at the start of `positions`: at the end of the group, or before the event that would
/// make it larger than the destination takes. A part has at least one event; one that is too large by itself is for the
/// service to refuse.
fn end_of_part(
    sink: &dyn Sink,
    batch: &EventBatch,
    order: &[u32],
    destination: u32,
    positions: std::ops::Range<u32>,
    part_max: u32,
) -> u32 {
    let max_bytes = sink.max_batch_bytes(destination);
    let count = (positions.end - positions.start).min(part_max.max(1));
    // No event needs more than the largest one: nearly always that is bound enough.
    let encoded = sink.encoded_len(batch.largest_message());
    let bound = encoded.saturating_mul(count as usize);
    if bound <= max_bytes {
        return positions.start + count;
    }
    let overhead = encoded.saturating_sub(batch.largest_message());
    let mut bytes = 0_usize;
    let fitting = order[positions.start as usize..][..count as usize]
        .iter()
        .take_while(|&&event| {
            bytes = bytes.saturating_add(batch.events()[event as usize].message_len() + overhead);
            bytes <= max_bytes
        })
        .count();
    // No more than `count`.
    positions.start + (fitting as u32).max(1)
}
