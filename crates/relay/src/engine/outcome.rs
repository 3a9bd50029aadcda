//! Sends end: with acceptance, with another try, or with the failure of their batch, which stops the partition.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use connect::sink::{ErrorClass, SendError, SendOutcome, SendToken};
use connect::source::{Settled, Settlement, SettlementResult};

use super::Relay;
use super::in_flight::{GIVEN_UP, InFlight};
use super::partition::{Completes, State};
use super::poison::is_about_events;
use super::sends::{NONE, Stage};
use super::timers::Due;
use crate::health::troubles::Cause;
use crate::metrics::{Closing, Opening, record_counts, record_duration, record_durations};
use crate::options::CheckpointPolicy;

impl Relay {
    /// Flushes the sinks and takes the outcomes that have arrived.
    pub(super) fn poll_outcomes(&mut self, context: &mut Context<'_>) -> bool {
        if self.failed_sink {
            return false;
        }
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let mut any = false;
        let mut failure = None;
        for (sink, outlet) in self.outlets.iter_mut() {
            match outlet.sink.poll_outcomes(context, &mut outcomes) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => any = true,
                Poll::Ready(Err(error)) => failure = Some((sink, error)),
            }
        }
        let (mut alike, mut equal) = (Alike::default(), EqualSizes::default());
        for outcome in outcomes.drain(..) {
            let Some(index) = self.sends.of_outcome(outcome.token) else {
                self.take_late(&outcome);
                continue;
            };
            match outcome.result {
                Ok(()) => {
                    if self.traces.are_under_way() {
                        self.trace_attempt(index, None);
                    }
                    let deadline = self.sends.deadline(index);
                    let sink = self.sends.send(index).sink;
                    if deadline != alike.deadline || sink != alike.sink {
                        self.record_sends(std::mem::replace(&mut alike, Alike { sink, deadline, count: 0 }));
                    }
                    alike.count += 1;
                    let size = self.accept(index);
                    if size != equal.size {
                        self.record_sizes(std::mem::replace(&mut equal, EqualSizes { size, count: 0 }));
                    }
                    equal.count += 1;
                }
                Err(error) => self.refuse(index, &error),
            }
        }
        self.record_sends(alike);
        self.record_sizes(equal);
        self.outcomes = outcomes;
        any |= self.take_stored();
        if let Some((sink, error)) = failure {
            self.fail_sink(sink, error);
            return true;
        }
        any
    }

    /// An outcome of an attempt that was given up. What was accepted of a batch that failed is not sent again.
    #[cold]
    fn take_late(&mut self, outcome: &SendOutcome) {
        self.metrics.late_outcomes += 1;
        if let Some(orphan) = self.orphans.take(outcome.token, &self.partitions)
            && outcome.result.is_ok()
        {
            self.metrics.forwarded_events += orphan.numbers.len() as u64;
            let partition = &mut self.partitions[orphan.partition];
            match orphan.numbers.last() {
                Some(&last) if self.outlets.is_late(orphan.sink) => {
                    partition.storage.accept(orphan.sink, last)
                }
                _ => partition.accepted.extend(orphan.sink, orphan.numbers),
            }
        }
    }

    /// Records how long sends took. They are told apart by when they would have been given up.
    fn record_sends(&mut self, Alike { sink, deadline, count }: Alike) {
        if let Some(deadline) = deadline {
            let elapsed = self.elapsed_before(deadline);
            record_durations(&mut self.metrics.send_us, elapsed, count);
            if let Some(of_sink) = self.metrics.sink_send_us.get_mut(sink as usize) {
                record_durations(of_sink, elapsed, count);
            }
        }
    }

    /// Records how much was accepted.
    fn record_sizes(&mut self, EqualSizes { size: (events, bytes), count }: EqualSizes) {
        if count > 0 {
            self.metrics.first_forwarded_at.get_or_insert(self.now);
            self.metrics.last_forwarded_at = Some(self.now);
            self.metrics.forwarded_events += events * count;
            self.metrics.forwarded_bytes += bytes * count;
            record_counts(&mut self.metrics.send_events, events, count);
            record_counts(&mut self.metrics.send_bytes, bytes, count);
        }
    }

    /// How long ago an attempt began that is given up at `deadline`.
    pub(super) fn elapsed_before(&self, deadline: Instant) -> Duration {
        (self.now + self.options.retry.try_timeout).saturating_duration_since(deadline)
    }

    /// Takes note that the present attempt of a send was accepted. Returns how many events it has, and their message bytes.
    fn accept(&mut self, index: u32) -> (u64, u64) {
        let leader = *self.sends.send(index);
        let (mut bytes, mut next) = (0, index);
        while next != NONE {
            bytes += self.accept_part(next);
            next = self.sends.send(next).follower;
        }
        let accepted = (u64::from(leader.attempted()), bytes);
        if leader.part_end < leader.end {
            self.sends.end_attempt(index, Stage::Blocked);
            let rest = self.sends.send_mut(index);
            rest.next = leader.part_end;
            rest.failures = 0;
            self.transmit(index);
            return accepted;
        }
        self.lanes.end(leader.lane);
        let mut next = index;
        while next != NONE {
            let follower = self.sends.send(next).follower;
            self.end_group(next);
            next = follower;
        }
        accepted
    }

    /// What is under way of one group has been accepted. Returns how many message bytes that is.
    fn accept_part(&mut self, index: u32) -> u64 {
        let send = *self.sends.send(index);
        let in_flight = self.slots.in_flight_mut(self.sends.slot(index));
        let batch = &in_flight.batch;
        let accepted = &in_flight.order[send.next as usize..send.attempted_end() as usize];
        if self.outlets.is_late(send.sink)
            && let Some(&last) = accepted.last()
        {
            let number = batch.events()[last as usize].sequence_number;
            self.partitions[in_flight.partition].storage.accept(send.sink, number);
        }
        if in_flight.awaited.is_empty() {
            self.source.settle(batch, accepted, Settlement::Complete);
        } else {
            let awaited = &mut in_flight.awaited;
            self.destinations.clear();
            self.destinations.extend(accepted.iter().copied().filter(|&event| is_last(awaited, event)));
            self.source.settle(batch, &self.destinations, Settlement::Complete);
        }
        let bytes = if batch.has_equal_lengths() {
            batch.largest_message() * accepted.len()
        } else {
            accepted.iter().map(|&event| batch.events()[event as usize].message_len()).sum()
        };
        bytes as u64
    }

    /// A group has been accepted, or given up.
    pub(super) fn end_group(&mut self, index: u32) {
        let slot = self.sends.slot(index);
        let in_flight = self.slots.in_flight_mut(slot);
        if in_flight.steps.is_some() {
            self.end_step(index);
            return;
        }
        in_flight.unaccepted -= 1;
        let complete = in_flight.unaccepted == 0;
        let awaits_turn = (in_flight.next_sink as usize) < self.outlets.len();
        self.sends.end_attempt(index, Stage::Over);
        if complete {
            self.complete(slot);
        } else if awaits_turn {
            self.begin_next_sinks(slot);
        }
    }

    /// Every event of a batch is accepted, or given up where messages are settled.
    pub(super) fn complete(&mut self, slot: u32) {
        let last = self.slots.in_flight(slot).last_sequence_number();
        let in_flight = self.slots.remove(slot);
        self.end_trace(&in_flight, in_flight.failed.then_some("abandoned"));
        self.sends.abandon(in_flight.sends);
        record_duration(&mut self.metrics.process_us, self.now.duration_since(in_flight.started_at));
        record_duration(&mut self.metrics.batch_send_us, self.now.duration_since(in_flight.sent_at));
        if in_flight.failed {
            self.metrics.failed_batches += 1;
        } else {
            self.metrics.completed_batches += 1;
            if in_flight.ticket.is_none() && self.partitions[in_flight.partition].rests > 0 {
                self.note_progress(in_flight.partition);
            }
        }
        self.held_bytes -= in_flight.batch.message_bytes();
        let first = in_flight.batch.first_sequence_number();
        self.source.release(in_flight.batch);
        let index = in_flight.partition;
        let Some(ticket) = in_flight.ticket else {
            self.partitions[index].moved_at = Some(self.now);
            return;
        };
        let partition = &mut self.partitions[index];
        let position = partition.in_flight.iter().position(|&other| other == slot);
        let next = position.and_then(|position| {
            partition.in_flight.remove(position);
            partition.in_flight.get(position).copied()
        });
        if partition.watermark.complete(ticket) {
            self.note_advance(index, first);
            if self.dispatch.is_some() {
                // A part of what is the oldest batch now may be done already.
                self.advance(index);
            }
            if self.options.checkpoint == CheckpointPolicy::EachBatch {
                self.write_soon(index);
            }
        } else if let (Some(first), Some(last)) = (first, last) {
            partition.accepted.complete_ahead(first, last);
        }
        // It may have waited for this one at a sink that had all of it.
        if let Some(next) = next
            && (self.slots.in_flight(next).next_sink as usize) < self.outlets.len()
        {
            self.begin_next_sinks(next);
        }
        self.run_soon(index);
        self.update_hold(index);
    }

    /// The watermark of a partition has moved, within or over the batch that begins with `first`.
    pub(super) fn note_advance(&mut self, index: usize, first: Option<i64>) {
        let partition = &mut self.partitions[index];
        partition.moved_at = Some(self.now);
        partition.note_stored();
        if let Some(position) = partition.watermark.position() {
            partition.accepted.forget_through(position.sequence_number);
        }
        self.metrics.completed_events += partition.count_completed(first);
        if partition.rests > 0 {
            self.note_progress(index);
        }
        // Whoever stops, or gives the partition back, waits for it.
        if self.stop_by.is_some() || self.partitions[index].state != State::Open {
            self.write_soon(index);
        }
    }

    /// A send came to nothing: decides whether it is tried again.
    fn refuse(&mut self, index: u32, error: &SendError) {
        let send = *self.sends.send(index);
        self.metrics.failed_sends += 1;
        if self.traces.are_under_way() {
            self.trace_attempt(index, Some(error));
        }
        self.note_refusal(send.sink, error);
        // One that has timed out has no deadline any more.
        let elapsed = match self.sends.deadline(index) {
            Some(deadline) => self.elapsed_before(deadline),
            None => self.options.retry.try_timeout,
        };
        record_duration(&mut self.metrics.failed_send_us, elapsed);
        let least_delay = match error.class {
            ErrorClass::Retryable => {
                // A time-out or a broken connection does not say whether the service had accepted it, unless the sink does.
                if !self.outlets.end_sends() {
                    self.metrics.doubtful_events += u64::from(send.attempted());
                }
                Some(Duration::ZERO)
            }
            ErrorClass::Throttled { retry_after } => {
                self.metrics.throttled_sends += 1;
                if let Some(dispatch) = &mut self.dispatch {
                    dispatch.note_throttling();
                }
                Some(retry_after)
            }
            ErrorClass::TooLarge | ErrorClass::Fatal if send.attempted() > 1 && is_about_events(error) => {
                self.send_less(index, error.class);
                return;
            }
            // The link of a message that is too large ends, and with it whatever else was on it.
            ErrorClass::TooLarge if self.is_within_limit(index) => Some(Duration::ZERO),
            ErrorClass::TooLarge | ErrorClass::Fatal => None,
        };
        let failures = send.failures + 1;
        let delay = match self.failure {
            None => self.options.retry_at(send.sink).delay_after(failures, u64::from(index)),
            // Who stops for an error waits for nothing but outcomes.
            Some(_) => None,
        };
        if let (Some(least_delay), Some(delay)) = (least_delay, delay) {
            self.sends.end_attempt(index, Stage::BackingOff);
            self.sends.send_mut(index).failures = failures;
            self.timers.set(self.now + delay.max(least_delay), Due::Retry(self.sends.token(index)));
        } else {
            let partition = self.slots.in_flight(self.sends.slot(index)).partition;
            match self.partitions[partition].completion {
                Completes::ByCheckpoint if is_about_events(error) => self.poison(index, error),
                Completes::ByCheckpoint => self.fail_batch(partition, error),
                Completes::BySettlement => {
                    tracing::debug!(%error, "messages are abandoned");
                    self.note_stop(partition, Closing::Batch, error);
                    self.give_up(index);
                }
            }
        }
    }

    /// Whether the one event of an attempt is no larger than what its destination says that it takes.
    fn is_within_limit(&self, index: u32) -> bool {
        let send = self.sends.send(index);
        let sink = &self.outlets.get(send.sink).sink;
        let InFlight { batch, order, .. } = self.slots.in_flight(self.sends.slot(index));
        let event = &batch.events()[order[send.next as usize] as usize];
        sink.encoded_len(event.message_len()) <= sink.max_batch_bytes(send.destination)
    }

    /// The service takes less than it said, or refuses one of the events: what rode with a group waits for the next
    /// send, or the group is halved.
    fn send_less(&mut self, index: u32, class: ErrorClass) {
        let send = *self.sends.send(index);
        self.sends.end_attempt(index, Stage::Blocked);
        match self.sends.unhitch(index) {
            Some(riders) => {
                if class == ErrorClass::TooLarge {
                    self.lanes.limit(send.lane, send.attempted());
                }
                self.lanes.push_front(send.lane, riders, &mut self.sends);
            }
            None => self.sends.send_mut(index).part_max = send.attempted() / 2,
        }
        self.transmit(index);
    }

    /// What is left of a group cannot be forwarded: its messages are abandoned, and the others go on. When the relay stops
    /// for an error the messages are not to blame, and are given back.
    pub(super) fn give_up(&mut self, index: u32) {
        let send = *self.sends.send(index);
        let in_flight = self.slots.in_flight_mut(self.sends.slot(index));
        in_flight.failed = true;
        let settlement = match self.failure {
            None => Settlement::Abandon,
            Some(_) => Settlement::Release,
        };
        let left = &in_flight.order[send.next as usize..send.end as usize];
        if in_flight.awaited.is_empty() {
            self.source.settle(&in_flight.batch, left, settlement);
        } else {
            let awaited = &mut in_flight.awaited;
            let mut is_first =
                |event: u32| std::mem::replace(&mut awaited[event as usize], GIVEN_UP) != GIVEN_UP;
            self.destinations.clear();
            self.destinations.extend(left.iter().copied().filter(|&event| is_first(event)));
            self.source.settle(&in_flight.batch, &self.destinations, settlement);
        }
        self.end_group(index);
    }

    /// The service has answered settlements, or never will.
    pub(super) fn count_settled(&mut self, settled: &Settled) {
        let messages = u64::from(settled.messages);
        let metrics = &mut self.metrics;
        if (settled.result, settled.settlement) == (SettlementResult::Confirmed, Settlement::Complete) {
            metrics.completed_events += messages;
        }
        *match (settled.result, settled.settlement) {
            (SettlementResult::Confirmed, Settlement::Complete) => &mut metrics.confirmed_events,
            (SettlementResult::Confirmed, Settlement::Abandon) => &mut metrics.abandoned_events,
            (SettlementResult::Confirmed, Settlement::Release) => &mut metrics.released_events,
            (SettlementResult::Confirmed, Settlement::DeadLetter) | (SettlementResult::DeadLettered, _) => {
                &mut metrics.dead_lettered_events
            }
            (SettlementResult::LockLost, _) => &mut metrics.lock_lost_events,
            (SettlementResult::Failed, _) => &mut metrics.unsettled_events,
        } += messages;
        record_durations(&mut metrics.settle_us, settled.elapsed, messages);
        if matches!(settled.settlement, Settlement::Complete | Settlement::Abandon) {
            // What is given back or cannot be read may never have had a place.
            self.vacancies.leave(self.now, messages);
        }
    }

    /// A send has waited long enough for its outcome.
    pub(super) fn time_out(&mut self, index: u32) {
        self.metrics.timed_out_sends += 1;
        let error = SendError {
            class: ErrorClass::Retryable,
            condition: "timeout".to_owned(),
            description: format!("no outcome within {:?}", self.options.retry.try_timeout),
        };
        self.refuse(index, &error);
    }

    /// A send has waited before its next try.
    pub(super) fn retry(&mut self, token: SendToken) {
        // Unless its batch was abandoned in the meantime.
        if let Some(index) = self.sends.of_token(token) {
            self.metrics.retries += 1;
            self.transmit(index);
        }
    }

    /// A batch cannot be carried: its partition stops, and resumes from its checkpoint after a rest.
    pub(super) fn fail_batch(&mut self, index: usize, cause: &dyn Cause) {
        self.metrics.failed_batches += 1;
        self.stop_partition(index, Closing::Batch, cause);
    }

    /// Closes a partition, gives back what is held of it, and lets it rest. What it has completed is still written.
    pub(super) fn stop_partition(&mut self, index: usize, closing: Closing, cause: &dyn Cause) {
        let partition = &mut self.partitions[index];
        let next = match partition.state {
            State::Open | State::Fencing => State::Resting,
            State::Ending => State::Closed,
            _ => return,
        };
        partition.state = next;
        self.source.close(partition.id);
        let rest = self.note_stop(index, closing, cause);
        self.abandon(index);
        self.write_soon(index);
        if next == State::Resting {
            self.partitions[index].opening = Opening::Rest;
            self.metrics.count_closing(closing);
            self.timers.set(self.now + rest, Due::Reopen(index));
        }
    }

    /// Gives up the batches of a partition that are under way or wait.
    pub(super) fn abandon(&mut self, index: usize) {
        self.partitions[index].remember_unstored();
        self.orphans.adopt(index, &self.partitions[index], &self.slots, &self.sends);
        while let Some(slot) = self.partitions[index].in_flight.pop() {
            let partition = &mut self.partitions[index];
            partition.accepted.remember(&self.sends, self.slots.in_flight(slot), self.outlets.late());
            self.leave_work(slot);
            let abandoned = self.slots.remove(slot);
            self.end_trace(&abandoned, Some("given-up"));
            self.metrics.doubtful_events += self.sends.abandon(abandoned.sends);
            self.held_bytes -= abandoned.batch.message_bytes();
            self.source.release(abandoned.batch);
        }
        self.partitions[index].accepted.go_back();
        self.partitions[index].watermark.abandon();
        self.lanes.clear(index);
        self.release_parked(index);
        self.update_hold(index);
    }
}

/// A sink has accepted an event: whether it was the last one that had to, and the event was not given up.
fn is_last(awaited: &mut [u8], event: u32) -> bool {
    let left = &mut awaited[event as usize];
    if *left == GIVEN_UP {
        return false;
    }
    *left -= 1;
    *left == 0
}

/// Sends that were handed over to a sink at one instant and accepted at another: those of a batch nearly always are, and one
/// record does for all of them.
#[derive(Debug, Default)]
struct Alike {
    sink: u32,
    /// When they would have been given up.
    deadline: Option<Instant>,
    count: u64,
}

/// Accepted sends of one size, one after the other: single messages often are.
#[derive(Debug, Default)]
struct EqualSizes {
    /// How many events each has, and their message bytes.
    size: (u64, u64),
    count: u64,
}
