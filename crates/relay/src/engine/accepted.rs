//! Events that were accepted although their batch failed. When the partition resumes from its checkpoint they come again,
//! and are left out of what is sent: the destination has them. Of several sinks each has its own.
//!
//! They are remembered per partition, up to a number, until the watermark has passed them or the partition is lost. After a
//! crash they come twice, as everything does that has no checkpoint yet.

use std::collections::BTreeSet;

use connect::event::EventBatch;

use super::in_flight::InFlight;
use super::sends::Sends;
use super::storage::Storage;
use crate::regroup::Group;

/// What destinations have of one partition beyond its watermark.
#[derive(Debug, Default)]
pub(super) struct Accepted {
    /// Of batches that were given up, the events that had been accepted, and by which sink.
    numbers: BTreeSet<(i64, u32)>,
    /// Batches that were complete when one before them was given up, and what was complete and not stored: first and last event.
    batches: Vec<(i64, i64)>,
    /// Batches that are complete while one before them is still under way.
    ahead: Vec<(i64, i64)>,
}

impl Accepted {
    /// Whether nothing of what comes was accepted before.
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.batches.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A batch is complete, and the watermark waits for one before it.
    pub(super) fn complete_ahead(&mut self, first: i64, last: i64) {
        self.ahead.push((first, last));
    }

    /// Remembers what was accepted of a batch that is given up, but by these sinks, which have to store it first.
    pub(super) fn remember(&mut self, sends: &Sends, in_flight: &InFlight, late: &[u32]) {
        let events = in_flight.batch.events();
        for (sink, positions) in sends.accepted(in_flight.sends) {
            if late.contains(&sink) {
                continue;
            }
            for &event in &in_flight.order[positions.start as usize..positions.end as usize] {
                if self.numbers.len() >= REMEMBERED_MAX {
                    return;
                }
                self.numbers.insert((events[event as usize].sequence_number, sink));
            }
        }
    }

    /// Events were accepted by a sink after their batch had been given up.
    pub(super) fn extend(&mut self, sink: u32, numbers: Vec<i64>) {
        let room = REMEMBERED_MAX.saturating_sub(self.numbers.len());
        self.numbers.extend(numbers.into_iter().take(room).map(|number| (number, sink)));
    }

    /// The partition resumes from its checkpoint: batches that were complete beyond it come again.
    pub(super) fn go_back(&mut self) {
        self.batches.append(&mut self.ahead);
    }

    /// These were complete, and come again because a sink has not stored them.
    pub(super) fn remember_complete(&mut self, first: i64, last: i64) {
        self.batches.push((first, last));
    }

    /// The watermark is at this event: it and those before it do not come again.
    pub(super) fn forget_through(&mut self, sequence_number: i64) {
        self.ahead.retain(|&(_, last)| last > sequence_number);
        if !self.is_empty() {
            self.batches.retain(|&(_, last)| last > sequence_number);
            self.numbers = self.numbers.split_off(&(sequence_number.saturating_add(1), 0));
        }
    }

    /// Whether a sink has this event, or it was put aside for that sink.
    pub(super) fn contains(&self, number: i64, sink: u32) -> bool {
        let within = |&(first, last): &(i64, i64)| (first..=last).contains(&number);
        self.batches.iter().any(within) || self.numbers.contains(&(number, sink))
    }

    /// Takes what was accepted, or stored by sinks that store later, out of the groups of a batch. Groups of which nothing is left
    /// are removed.
    #[cold]
    pub(super) fn leave_out(
        &self,
        storage: &Storage,
        batch: &EventBatch,
        order: &mut [u32],
        groups: &mut Vec<Group>,
    ) {
        let is_accepted = |event: u32, sink: u32| {
            let number = batch.events()[event as usize].sequence_number;
            storage.has(sink, number).unwrap_or_else(|| self.contains(number, sink))
        };
        groups.retain_mut(|group| {
            let mut end = group.start;
            for position in group.start..group.end {
                let event = order[position as usize];
                if !is_accepted(event, group.sink) {
                    order[end as usize] = event;
                    end += 1;
                }
            }
            group.end = end;
            group.start < group.end
        });
    }
}

/// So many are remembered of a partition; a batch has 10,000 events at most.
const REMEMBERED_MAX: usize = 1 << 16;
