//! A batch is taken up: routed, regrouped, and each group sent as soon as its destination is free.

use std::task::Context;
use std::time::Instant;

use connect::event::EventBatch;
use connect::sink::{OutgoingBatch, SendUnit, Sink, SinkError};
use connect::source::Settlement;

use super::Relay;
use super::in_flight::InFlight;
use super::keys::split_by_key;
use super::lanes::LaneId;
use super::partition::{Completes, Parked, State};
use super::sends::{NONE, Stage};
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
        self.metrics.record_source_ages(batch.events(), now);
        record_count(&mut self.metrics.batch_events, batch.len() as u64);
        record_count(&mut self.metrics.batch_bytes, batch.message_bytes() as u64);
        self.held_bytes += batch.message_bytes();
        let received_at = self.now;
        let partition = &mut self.partitions[index];
        if self.blocked.is_empty() && partition.parked.is_empty() && partition.may_begin() {
            self.take_up(index, batch, received_at);
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
            if !self.blocked.is_empty() {
                break;
            }
            let Some(index) = self.runnable.pop_front() else {
                break;
            };
            let partition = &mut self.partitions[index];
            partition.queued = false;
            if !partition.may_begin() {
                // The completion of a batch, or of the fence, will queue it again.
                continue;
            }
            if let Some(Parked { batch, received_at }) = partition.parked.pop_front() {
                progress = true;
                self.parked -= 1;
                self.take_up(index, batch, received_at);
                self.run_soon(index);
            }
        }
        progress
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

    fn take_up(&mut self, index: usize, batch: EventBatch, received_at: Instant) {
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
        self.router.assign(&batch, &mut self.destinations);
        let mut order = self.slots.take_order();
        let mut groups = std::mem::take(&mut self.groups);
        self.regroup.group(&self.destinations, &mut order, &mut groups);
        if self.sink.sends_by_key() {
            split_by_key(&batch, &mut order, &mut groups);
        }
        let accepted = &self.partitions[index].accepted;
        if !accepted.is_empty() {
            accepted.leave_out(&batch, &mut order, &mut groups);
        }
        if self.sink.send_unit() == SendUnit::Event {
            split_groups(&mut groups);
        }
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
            sends: None,
            unaccepted: count,
            failed: false,
            ticket,
            started_at: self.now,
            // One reading of the clock per batch, to tell the routing apart from the sending.
            sent_at: tokio::time::Instant::now().into_std(),
        });
        if ticket.is_some() {
            partition.in_flight.push(slot);
        }
        let is_ordered = ticket.is_some() && self.sink.send_unit() == SendUnit::Batch;
        let mut sends = None;
        for &group in &groups {
            let send = self.sends.begin(slot, sends, group);
            sends = Some(send);
            if self.options.failure_ratio > 0.0 && self.failures.chance(self.options.failure_ratio) {
                self.metrics.injected_failures += 1;
                self.failing.push(send);
            } else if is_ordered {
                let lane = self.lanes.id(index, group.destination, self.key_of(send));
                self.lanes.push(lane, send, &mut self.sends);
            } else {
                self.transmit(send);
            }
        }
        self.groups = groups;
        self.slots.in_flight_mut(slot).sends = sends;
        if count == 0 {
            // All of it was accepted before its partition failed.
            self.complete(slot);
            return;
        }
        if !self.failing.is_empty() {
            // Only now, since the sends of a batch are made at once: the others are on their way.
            self.transmit_ready();
            self.fail_on_purpose(index);
        }
        self.update_hold(index);
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
        while self.blocked.is_empty()
            && let Some(lane) = self.lanes.next_ready()
            && let Some(leader) = self.lanes.pop(lane, &mut self.sends)
        {
            progress = true;
            self.gather(lane, leader);
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
        let destination = self.sends.send(leader).destination;
        let max_bytes = self.sink.max_batch_bytes(destination);
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
        if !self.sink.sends_by_key() {
            return None;
        }
        let send = self.sends.send(index);
        let InFlight { batch, order, .. } = self.slots.in_flight(self.sends.slot(index));
        let first = *order.get(send.next as usize)?;
        batch.partition_key(&batch.events()[first as usize])
    }

    /// An upper bound of what the unsent events of a group encode to, close enough for many of them to go together.
    fn group_bytes(&self, index: u32) -> usize {
        let send = self.sends.send(index);
        let InFlight { batch, order, .. } = self.slots.in_flight(self.sends.slot(index));
        let largest = batch.largest_message();
        let encoded = self.sink.encoded_len(largest);
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

    fn fail_on_purpose(&mut self, index: usize) {
        let mut failing = std::mem::take(&mut self.failing);
        match self.partitions[index].completion {
            Completes::ByCheckpoint => {
                // These come at their rate, and say nothing about the destination.
                self.partitions[index].rests = 0;
                self.fail_batch(index, &"a failure was injected");
            }
            Completes::BySettlement => failing.iter().for_each(|&send| self.give_up(send)),
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
        let (batch, part_end, events);
        if send.follower == NONE {
            let in_flight = self.slots.in_flight(self.sends.slot(index));
            batch = &in_flight.batch;
            part_end = end_of_part(
                &*self.sink,
                batch,
                &in_flight.order,
                send.destination,
                send.next..send.end,
                send.part_max,
            );
            events = &in_flight.order[send.next as usize..part_end as usize];
        } else {
            self.collect_riders(index);
            batch = &self.gathered;
            part_end = send.end;
            events = &self.positions[..batch.len()];
        }
        match self.sink.send(token, OutgoingBatch { destination: send.destination, batch, events }) {
            Ok(()) => {
                self.metrics.sends += 1;
                self.metrics.split_sends += u64::from(part_end < send.end);
                self.sends.sent(index, part_end, self.now + self.options.retry.try_timeout);
                true
            }
            Err(_busy) => {
                self.metrics.busy_sink += 1;
                self.sends.send_mut(index).stage = Stage::Blocked;
                self.blocked.push_back(token);
                false
            }
        }
    }

    /// Brings the events of a send and of all that ride with it together, in order.
    fn collect_riders(&mut self, leader: u32) {
        let slot = self.slots.in_flight(self.sends.slot(leader));
        self.gathered.clear(slot.batch.partition());
        let mut next = leader;
        while next != NONE {
            let send = self.sends.send(next);
            let InFlight { batch, order, .. } = self.slots.in_flight(self.sends.slot(next));
            let events = &order[send.next as usize..send.end as usize];
            self.gathered.extend_selected(batch, events);
            next = send.follower;
        }
        // No more than the source may have handed over, which is counted in 32 bits.
        let positions = self.positions.len() as u32..self.gathered.len() as u32;
        self.positions.extend(positions);
    }

    /// Offers what the sink was too busy for again, once it says that this is worth it.
    pub(super) fn poll_blocked(&mut self, context: &mut Context<'_>) -> bool {
        self.offer_blocked(context).unwrap_or_else(|error| {
            self.fail_sink(error);
            true
        })
    }

    fn offer_blocked(&mut self, context: &mut Context<'_>) -> Result<bool, SinkError> {
        let mut progress = false;
        while !self.blocked.is_empty() {
            if self.sink.poll_ready(context)?.is_pending() {
                return Ok(progress);
            }
            let mut moved = false;
            for _ in 0..self.blocked.len() {
                let Some(token) = self.blocked.pop_front() else {
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
                if self.sink.poll_ready(context)?.is_ready() {
                    context.waker().wake_by_ref();
                }
                return Ok(progress);
            }
        }
        Ok(progress)
    }
}

/// Makes a group of each event.
fn split_groups(groups: &mut Vec<Group>) {
    for index in 0..groups.len() {
        let Group { destination, start, end } = groups[index];
        groups[index].end = start + 1;
        groups.extend((start + 1..end).map(|start| Group { destination, start, end: start + 1 }));
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
