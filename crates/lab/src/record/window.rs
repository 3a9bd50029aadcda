//! Which events a measurement is about.
//!
//! An event belongs to the measured phase if it was *meant* to be sent in it, whenever it is sent, acknowledged or
//! received. Ending the record with the phase instead would forget exactly the events that a stall keeps from arriving in
//! time, and so the longest latencies of all.

use crate::clock::RunTime;

/// The measured phase as one role knows it: from the first mark up to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    begin: RunTime,
    end: RunTime,
}

impl Window {
    /// A window that has begun at `begin` and has no end yet.
    #[must_use]
    pub const fn beginning_at(begin: RunTime) -> Self {
        Self { begin, end: RunTime::LATEST }
    }

    /// What is meant for `end` or later does not belong to it.
    pub const fn end_at(&mut self, end: RunTime) {
        self.end = end;
    }

    /// The window as far as it lies before `until`: its first instant, and the one after its last.
    #[must_use]
    pub fn before(self, until: RunTime) -> (RunTime, RunTime) {
        (self.begin, self.end.min(until))
    }

    /// Whether an event that was meant to be sent at `intended` belongs to it.
    #[inline]
    #[must_use]
    pub fn contains(&self, intended: RunTime) -> bool {
        self.begin <= intended && intended < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_belongs_to_the_phase_that_it_was_meant_for() {
        let at = RunTime::from_micros;
        let mut window = Window::beginning_at(at(10));
        assert!(!window.contains(at(9)) && window.contains(at(10)) && window.contains(at(99)));
        window.end_at(at(20));
        assert!(window.contains(at(19)) && !window.contains(at(20)));
    }
}
