//! What becomes of the events of a batch between its source and the sinks.
//!
//! A [`Transform`] may give events other messages, and says in a [`Selection`] which sinks get each of them. The batch keeps all its
//! events, with their numbers: one that no sink gets is done with as if every sink had accepted it.

use std::fmt;

use crate::event::EventBatch;

/// Changes batches, and chooses among their events.
pub trait Transform: fmt::Debug + Send {
    /// Changes the messages of a batch, and says in `selection`, after a [`begin`](Selection::begin), who gets its events. The
    /// same event is always treated in the same way: it may come again after a failure.
    fn apply(&mut self, batch: &mut EventBatch, selection: &mut Selection);
}

/// Some of the sinks of a relay, by their places in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkSet(u16);

/// Which sinks get each event of a batch.
#[derive(Debug, Default)]
pub struct Selection {
    events: usize,
    /// For each event; empty as long as all go to all sinks.
    sinks: Vec<SinkSet>,
    refused: Vec<Refused>,
}

/// An event of which it can't be said who gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its place in the batch.
    pub event: u32,
    /// Why, for a person. It says nothing of what the event has.
    pub reason: String,
}

impl SinkSet {
    /// All of them.
    pub const ALL: Self = Self(u16::MAX);

    /// None of them.
    pub const NONE: Self = Self(0);

    /// The same without one.
    ///
    /// # Panics
    /// When there can't be so many sinks: 16.
    #[must_use]
    pub const fn without(self, sink: usize) -> Self {
        assert!(sink < SINKS_MAX, "a relay has 16 sinks at most");
        Self(self.0 & !(1 << sink))
    }

    /// Whether one is among them.
    #[inline]
    #[must_use]
    pub const fn contains(self, sink: u32) -> bool {
        self.0 >> (sink & 15) & 1 == 1
    }
}

impl Selection {
    /// Begins with a batch of so many events, all of which go to all sinks.
    pub fn begin(&mut self, events: usize) {
        self.events = events;
        self.sinks.clear();
        self.refused.clear();
    }

    /// Says who gets an event.
    #[inline]
    pub fn choose(&mut self, event: u32, sinks: SinkSet) {
        if self.sinks.is_empty() {
            if sinks == SinkSet::ALL {
                return;
            }
            self.sinks.resize(self.events, SinkSet::ALL);
        }
        self.sinks[event as usize] = sinks;
    }

    /// Nobody can say who gets an event, so none of the sinks does.
    pub fn refuse(&mut self, event: u32, reason: String) {
        self.choose(event, SinkSet::NONE);
        self.refused.push(Refused { event, reason });
    }

    /// Whether all events go to all sinks.
    #[inline]
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.sinks.is_empty()
    }

    /// Whether a sink gets an event.
    #[inline]
    #[must_use]
    pub fn contains(&self, event: u32, sink: u32) -> bool {
        self.sinks.get(event as usize).is_none_or(|sinks| sinks.contains(sink))
    }

    /// How many of so many sinks get an event.
    #[must_use]
    pub fn sinks_of(&self, event: u32, sinks: usize) -> usize {
        (0..sinks as u32).filter(|&sink| self.contains(event, sink)).count()
    }

    /// The events that nobody can say anything about, in order.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }
}

/// As many as a [`SinkSet`] has room for.
pub const SINKS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_goes_everywhere_until_something_is_said() {
        let mut selection = Selection::default();
        selection.begin(3);
        selection.choose(0, SinkSet::ALL);
        assert!(selection.is_everything() && selection.contains(2, 15));
        selection.choose(1, SinkSet::ALL.without(1));
        selection.refuse(2, "no reason".to_owned());
        assert!(!selection.is_everything());
        let sinks: Vec<_> = (0..3).map(|event| selection.sinks_of(event, 2)).collect();
        assert_eq!(sinks, [2, 1, 0]);
        assert!(selection.contains(1, 0) && !selection.contains(1, 1));
        assert_eq!(selection.refused(), [Refused { event: 2, reason: "no reason".to_owned() }]);
        selection.begin(2);
        assert!(selection.is_everything() && selection.refused().is_empty());
    }
}
