//! How many events are in work at once, and at how many sinks, where events go one by one.
//!
//! INV-97: no more than may be. INV-105: with `events: adaptive` no more than was found to be worth it either: the limit begins at
//! 4, and at most doubles after 16 events, or twice as many as it is, whichever are more. It never is below 1: histories in which
//! sinks ask to slow down come to their end.

use std::collections::BTreeMap;

use relay::{DispatchUnit, RelayOptions};

use super::{Audit, Checked};
use crate::audit::Violation;

/// What may be in work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    events: usize,
    sinks: usize,
    /// Whether it is found out how many events are worth it.
    adapts: bool,
}

impl Limit {
    /// None where batches are the unit.
    pub(super) fn of(options: &RelayOptions) -> Option<Self> {
        let by_event = options.dispatch_unit == DispatchUnit::Event;
        let limit = || Self {
            events: options.events_at_once,
            sinks: options.sinks_at_once,
            adapts: options.adapt_events,
        };
        by_event.then(limit)
    }

    /// How many events may be in work when so many are done at most.
    fn after(self, mut done: u64) -> usize {
        if !self.adapts {
            return self.events;
        }
        let mut limit = FIRST.min(self.events);
        loop {
            let window = WINDOW_MIN.max(2 * limit as u64);
            if done < window || limit == self.events {
                return limit;
            }
            done -= window;
            limit = limit.saturating_mul(2).min(self.events);
        }
    }
}

impl Audit {
    /// Where events go one by one: no more of them are in work than may be, and none is at more sinks.
    pub(super) fn check_at_once(&self, process: u32, now_ms: u64) -> Checked {
        let Some(limit) = self.limit else {
            return Ok(());
        };
        let mut events = 0;
        let of_process = &self.processes[process as usize];
        for (partition, view) in (0..).zip(&of_process.views) {
            let mut at_sinks: BTreeMap<i64, usize> = BTreeMap::new();
            for (&number, send) in view.sinks.iter().flat_map(|sink| &sink.under_way) {
                let is_awaited = now_ms < send.sent_at_ms.saturating_add(self.try_timeout_ms);
                let batch = view.batches.range(..=number).next_back();
                if is_awaited && batch.is_some_and(|(_, &last)| number <= last) {
                    *at_sinks.entry(number).or_default() += 1;
                }
            }
            if let Some((&sequence_number, &sinks)) = at_sinks.iter().find(|(_, sinks)| **sinks > limit.sinks)
            {
                return Err(Violation::AtTooManySinks { process, partition, sequence_number, sinks });
            }
            events += at_sinks.len();
        }
        match events > limit.after(of_process.done_max) {
            true => Err(Violation::TooManyInWork { process, events }),
            false => Ok(()),
        }
    }

    /// A relay that has ended by itself says how many events might have been in work.
    pub(crate) fn check_limit(&self, process: u32, limit: u64) -> Checked {
        let expected = match self.limit {
            Some(of) if of.adapts => 1..=of.after(self.processes[process as usize].done_max) as u64,
            _ => return Ok(()),
        };
        match expected.contains(&limit) {
            true => Ok(()),
            false => Err(Violation::LimitOutOfBounds { process, limit }),
        }
    }
}

/// Where the limit begins.
const FIRST: usize = 4;

/// No fewer events say anything about it.
const WINDOW_MIN: u64 = 16;
