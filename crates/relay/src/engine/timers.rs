//! What is to happen at some instant: rare things, in a heap. Time-outs of sends, which are not rare, are kept in order by
//! themselves.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Instant;

use connect::sink::SendToken;

/// Something that is due at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Try a send again, if it still waits for that.
    Retry(SendToken),
    /// A partition has rested long enough.
    Reopen(usize),
    /// Try to write the checkpoint of a partition again.
    WriteAgain(usize),
    /// Write the checkpoints of all partitions that have moved.
    WriteAll,
    /// An attempt to send a dead letter has waited long enough.
    Letter(u64),
}

/// What is due, and when.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<Timer>>,
    /// Numbers the timers, so that those of the same instant keep their order.
    count: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct Timer {
    at: Instant,
    number: u64,
    due: Due,
}

impl Timers {
    pub(super) fn set(&mut self, at: Instant, due: Due) {
        self.count += 1;
        self.heap.push(Reverse(Timer { at, number: self.count, due }));
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(timer)| timer.at)
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(timer)| timer.due)
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
