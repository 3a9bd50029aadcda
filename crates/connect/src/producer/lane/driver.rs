//! The task that owns a lane's connection.
//!
//! It turns in one circle: take answers, tell callers, take what is due, send, and sleep when there is nothing left to do. All that
//! waits when it comes by leaves in one write, and all answers that one read brought are told under one lock.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::Shared;
use super::inbox::give_up_overdue;
use super::run::{Run, Unit, Waiters};
use super::slots::SlotId;
use crate::alarm::Alarm;
use crate::producer::failure::{Fate, SendFailure};
use crate::producer::outlet::Outlet;
use crate::service::ServiceError;
use crate::sink::{ErrorClass, SendOutcome, SendToken, SinkBusy};

/// See the module.
#[derive(Debug)]
pub(super) struct Driver {
    shared: Arc<Shared>,
    outlet: Outlet,
    /// What is to leave, and has not, or not all of it.
    outgoing: VecDeque<Run>,
    /// Batches that await their outcome, by their tokens.
    flying: Vec<Option<Run>>,
    free_flights: Vec<u32>,
    /// Batches that leave again when it is time.
    again: Vec<(Instant, Run)>,
    outcomes: Vec<SendOutcome>,
    /// What is done with, to be given back.
    done: Vec<Run>,
    wake: Vec<Waker>,
    alarm: Alarm,
    /// When the next batch that gathers is due.
    next_due: Option<Instant>,
    /// When it is time to look for what has waited too long.
    next_sweep: Instant,
    is_blocked: bool,
    /// Whether callers were let go first that may have something for the batch that leaves next.
    has_yielded: bool,
    /// What sends are told apart by whose delays are drawn.
    operations: u64,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, outlet: Outlet) -> Self {
        let next_sweep = Instant::now() + sweep_interval(shared.options.timeout);
        Self {
            shared,
            outlet,
            outgoing: VecDeque::new(),
            flying: Vec::new(),
            free_flights: Vec::new(),
            again: Vec::new(),
            outcomes: Vec::new(),
            done: Vec::new(),
            wake: Vec::new(),
            alarm: Alarm::new(),
            next_due: None,
            next_sweep,
            is_blocked: false,
            has_yielded: false,
            operations: 0,
        }
    }

    /// Sends until the lane is closed, or its entity is gone.
    pub(super) async fn run(mut self) {
        poll_fn(|context| self.poll(context)).await;
        self.outlet.shut_down().await;
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.is_blocked
                && let Poll::Ready(ready) = self.outlet.poll_ready(context)
            {
                self.is_blocked = false;
                if let Err(error) = ready {
                    return self.end(SendFailure::not_sent(error));
                }
            }
            let polled = self.outlet.poll_outcomes(context, &mut self.outcomes);
            let answered = !self.outcomes.is_empty();
            self.settle();
            if let Poll::Ready(Err(error)) = polled {
                return self.end(SendFailure::not_sent(error));
            }
            if answered && !self.has_yielded && self.gathers() {
                // Those who have just been answered may have the next event at hand: it shall be in the next batch. So
                // they run first, and this task behind them.
                self.has_yielded = true;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.has_yielded = false;
            let now = Instant::now();
            self.take(context, now);
            let sent = self.send();
            self.give_back();
            if sent || answered {
                continue;
            }
            if self.is_blocked && self.outlet.poll_ready(context).is_ready() {
                continue;
            }
            if self.is_finished() {
                return self.end(SendFailure::closed(Fate::NotSent));
            }
            let again = self.again.iter().map(|(instant, _)| *instant).min();
            let next = [self.next_due, again, Some(self.next_sweep)].into_iter().flatten().min();
            if self.alarm.poll(context, next).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Whether events wait for one another.
    fn gathers(&self) -> bool {
        self.shared.options.buffering.batching().is_some()
    }

    /// Whether the lane is closed, and all there is to be known is known.
    fn is_finished(&self) -> bool {
        let inbox = self.shared.inbox();
        inbox.is_abandoned() || (inbox.is_closing() && inbox.pending() == 0)
    }

    /// Tells what became of sends.
    fn settle(&mut self) {
        if self.outcomes.is_empty() {
            return;
        }
        let now = Instant::now();
        let shared = Arc::clone(&self.shared);
        let mut inbox = shared.inbox();
        let (mut sends, mut bytes) = (0, 0);
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for SendOutcome { token, result } in outcomes.drain(..) {
            if token.0 & BATCH != 0 {
                self.settle_batch(&mut inbox, token, result.map_err(|error| (*error).into()), now);
                continue;
            }
            let is_accepted = result.is_ok();
            let result = result.map_err(|error| Box::new(SendFailure::from(*error)));
            inbox.answered(1);
            if let Some((length, waker)) = inbox.slots.complete(SlotId::of(token), result) {
                self.wake.extend(waker);
                if is_accepted {
                    (sends, bytes) = (sends + 1, bytes + u64::from(length));
                }
            } else if is_accepted {
                sends += 1;
            }
        }
        self.outcomes = outcomes;
        if sends > 0 {
            shared.counters.acknowledge(sends, sends, bytes);
        }
        inbox.wake_waiting(shared.options.max_waiting_bytes, &mut self.wake);
        drop(inbox);
        self.wake.drain(..).for_each(Waker::wake);
    }

    fn settle_batch(
        &mut self,
        inbox: &mut super::inbox::Inbox,
        token: SendToken,
        result: Result<(), SendFailure>,
        now: Instant,
    ) {
        let index = (token.0 & !BATCH) as usize;
        let Some(mut run) = self.flying.get_mut(index).and_then(Option::take) else {
            return;
        };
        self.free_flights.push(index as u32);
        let events = run.remaining() as u64;
        let Err(failure) = result else {
            let mut tell = |slot| {
                self.wake.extend(inbox.slots.complete(slot, Ok(())).and_then(|(_, waker)| waker));
            };
            match &run.waiters {
                Waiters::Each(slots) => {
                    slots[run.next.min(slots.len())..].iter().copied().for_each(&mut tell)
                }
                Waiters::All(slot) => tell(*slot),
                Waiters::Nobody => {}
            }
            inbox.answered(events);
            self.shared.counters.acknowledge(1, events, run.length() as u64);
            inbox.done(run);
            return;
        };
        run.failures += 1;
        run.is_unknown |= failure.fate == Fate::Unknown;
        self.operations += 1;
        let delay = self.shared.options.retry.delay_after(run.failures, self.operations);
        match delay.filter(|_| failure.is_retryable() && !inbox.is_abandoned()) {
            Some(delay) => {
                self.shared.counters.retry();
                let asked = match failure.class {
                    ErrorClass::Throttled { retry_after } => retry_after,
                    _ => Duration::ZERO,
                };
                self.again.push((now + delay.max(asked), run));
            }
            None => {
                let failure = if run.is_unknown { failure.after_unknown() } else { failure };
                inbox.fail(&mut run, &failure, &self.shared.counters, &mut self.wake);
                inbox.done(run);
            }
        }
    }

    /// Takes what is due, and gives up what is overdue.
    fn take(&mut self, context: &mut Context<'_>, now: Instant) {
        let shared = Arc::clone(&self.shared);
        let mut inbox = shared.inbox();
        if now >= self.next_sweep {
            self.sweep(&mut inbox, now);
        }
        let mut index = 0;
        while index < self.again.len() {
            match self.again[index].0 <= now {
                true => self.outgoing.push_back(self.again.swap_remove(index).1),
                false => index += 1,
            }
        }
        let batching = shared.options.buffering.batching();
        self.next_due = inbox.take_due(batching, now, &mut self.outgoing);
        inbox.sleep(context.waker());
        drop(inbox);
        self.wake.drain(..).for_each(Waker::wake);
    }

    /// Sends as much as the connection takes. Hot path. Says whether anything has left.
    fn send(&mut self) -> bool {
        let mut sent = false;
        while !self.is_blocked
            && let Some(run) = self.outgoing.front_mut()
        {
            let result = match run.unit {
                Unit::Events => {
                    let mut result = Ok(());
                    while run.remaining() > 0 {
                        let slot = match &run.waiters {
                            Waiters::Each(slots) => slots[run.next],
                            Waiters::All(slot) => *slot,
                            // What leaves one by one has somebody who waits for it.
                            Waiters::Nobody => break,
                        };
                        result = self.outlet.send_event(slot.token(), run);
                        if result.is_err() {
                            break;
                        }
                        sent = true;
                        run.next += 1;
                    }
                    result
                }
                Unit::Batch => {
                    let flight = match self.free_flights.last() {
                        Some(&free) => free as usize,
                        None => self.flying.len(),
                    };
                    match run.remaining() {
                        0 => Ok(()),
                        _ => self.outlet.send_batch(SendToken(BATCH | flight as u64), run),
                    }
                }
            };
            if let Err(SinkBusy) = result {
                self.is_blocked = true;
                break;
            }
            let Some(run) = self.outgoing.pop_front() else { break };
            if run.unit == Unit::Events || run.remaining() == 0 {
                self.done.push(run);
                continue;
            }
            sent = true;
            match self.free_flights.pop() {
                Some(free) => self.flying[free as usize] = Some(run),
                None => self.flying.push(Some(run)),
            }
        }
        sent
    }

    fn give_back(&mut self) {
        if self.done.is_empty() {
            return;
        }
        let mut inbox = self.shared.inbox();
        self.done.drain(..).for_each(|run| inbox.done(run));
        inbox.wake_waiting(self.shared.options.max_waiting_bytes, &mut self.wake);
        drop(inbox);
        self.wake.drain(..).for_each(Waker::wake);
    }

    /// Gives up what has waited longer than it may. What has not left is known not to have been sent; of what has, nobody
    /// knows, whatever is answered later.
    fn sweep(&mut self, inbox: &mut super::inbox::Inbox, now: Instant) {
        let limit = self.shared.options.timeout;
        self.next_sweep = now + sweep_interval(limit);
        let Some(overdue) = now.checked_sub(limit) else { return };
        let shared = Arc::clone(&self.shared);
        let counters = &shared.counters;
        let not_sent = SendFailure::timed_out(Fate::NotSent, limit, self.outlet.outage());
        let unknown = SendFailure { fate: Fate::Unknown, ..not_sent.clone() };
        inbox.give_up_waiting(overdue, &not_sent, counters, &mut self.wake);
        for run in self.outgoing.iter_mut().chain(self.again.iter_mut().map(|(_, run)| run)) {
            let failure = if run.is_unknown { &unknown } else { &not_sent };
            if let Some(mut part) = give_up_overdue(run, &inbox.slots, overdue) {
                inbox.fail(&mut part, failure, counters, &mut self.wake);
            }
        }
        let (given_up, left) =
            std::mem::take(&mut self.again).into_iter().partition(|(_, run)| run.remaining() == 0);
        self.again = left;
        let given_up: Vec<(Instant, Run)> = given_up;
        given_up.into_iter().for_each(|(_, run)| inbox.done(run));
        for slot in inbox.slots.waiting_since(overdue) {
            let done = inbox.slots.complete(slot, Err(Box::new(unknown.clone())));
            self.wake.extend(done.and_then(|(_, waker)| waker));
        }
        inbox.wake_waiting(shared.options.max_waiting_bytes, &mut self.wake);
    }

    /// Nothing can be sent any more: answers all who wait.
    fn end(&mut self, failure: SendFailure) -> Poll<()> {
        let shared = Arc::clone(&self.shared);
        let counters = &shared.counters;
        let mut inbox = shared.inbox();
        let unknown = SendFailure { fate: Fate::Unknown, ..failure.clone() };
        for mut run in self.flying.drain(..).flatten() {
            inbox.fail(&mut run, &unknown, counters, &mut self.wake);
        }
        for mut run in self.outgoing.drain(..).chain(self.again.drain(..).map(|(_, run)| run)) {
            let failure = if run.is_unknown { &unknown } else { &failure };
            inbox.fail(&mut run, failure, counters, &mut self.wake);
        }
        inbox.end(&failure, counters, &mut self.wake);
        for slot in inbox.slots.waiting_since(Instant::now()) {
            let done = inbox.slots.complete(slot, Err(Box::new(unknown.clone())));
            self.wake.extend(done.and_then(|(_, waker)| waker));
        }
        drop(inbox);
        self.wake.drain(..).for_each(Waker::wake);
        Poll::Ready(())
    }
}

impl From<ServiceError> for SendFailure {
    fn from(error: ServiceError) -> Self {
        Self::not_sent(error)
    }
}

/// How often it is looked for what has waited too long.
fn sweep_interval(timeout: Duration) -> Duration {
    (timeout / 8).clamp(Duration::from_millis(1), Duration::from_secs(1))
}

/// Marks the token of a batch.
const BATCH: u64 = 1 << 63;
