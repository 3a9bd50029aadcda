//! Events that are sent together, or one after the other, to one place.

use tokio::time::Instant;

use super::slots::SlotId;

/// Encoded events for one place, in memory that is used again and again:
///
/// ```text
///   bytes  |event 0|event 1    |event 2|
///   ends           ^           ^       ^        next: the first that has yet to be sent
/// ```
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) place: Place,
    /// How its events leave.
    pub(crate) unit: Unit,
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<u32>,
    pub(super) next: usize,
    pub(super) waiters: Waiters,
    /// The place in the inbox where it gathered, which counts those that are under way.
    pub(super) gathered_at: Option<u32>,
    /// When the first event came.
    pub(super) since: Instant,
    /// When the last one came.
    pub(super) newest: Instant,
    /// Tries that have failed.
    pub(super) failures: u32,
    /// Whether the service may have it, by an earlier try.
    pub(super) is_unknown: bool,
}

/// Where events go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// To the entity; of a hub or topic with partitions, to one of the service's or the client's choice.
    Entity,
    /// To a partition.
    Partition(u32),
    /// To the partition of a key: all events have it.
    Key(Box<str>),
}

/// How the events of a run leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Each by itself, with an outcome of its own.
    Events,
    /// As one batch.
    Batch,
}

/// Who waits for the events.
#[derive(Debug)]
pub(super) enum Waiters {
    /// For each somebody else.
    Each(Vec<SlotId>),
    /// Somebody for all of them.
    All(SlotId),
    /// Nobody: what is lost is counted.
    Nobody,
}

impl Run {
    pub(super) fn new(unit: Unit, now: Instant) -> Self {
        Self {
            place: Place::Entity,
            unit,
            bytes: Vec::new(),
            ends: Vec::new(),
            next: 0,
            waiters: Waiters::Nobody,
            gathered_at: None,
            since: now,
            newest: now,
            failures: 0,
            is_unknown: false,
        }
    }

    /// One event for a place.
    pub(crate) fn of_one(place: Place, unit: Unit, event: Vec<u8>) -> Self {
        // Events are shorter than 4 GiB.
        let ends = vec![event.len() as u32];
        Self { place, bytes: event, ends, ..Self::new(unit, Instant::now()) }
    }

    /// Makes it an empty one, in the memory that it has.
    pub(super) fn renew(&mut self, place: Place, unit: Unit, now: Instant) {
        self.bytes.clear();
        self.ends.clear();
        (self.place, self.unit, self.next, self.gathered_at) = (place, unit, 0, None);
        (self.since, self.newest) = (now, now);
        (self.failures, self.is_unknown) = (0, false);
    }

    /// How many events have yet to be sent.
    pub(crate) fn remaining(&self) -> usize {
        self.ends.len() - self.next
    }

    /// The bytes of all its events.
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// The encoded events that have yet to be sent.
    pub(crate) fn events(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (self.next..self.ends.len()).map(|index| self.event(index))
    }

    /// The first event that has yet to be sent.
    pub(crate) fn first(&self) -> &[u8] {
        self.event(self.next)
    }

    /// Where the remaining events lie in [`bytes`](Self::bytes).
    pub(crate) fn ranges(&self) -> impl ExactSizeIterator<Item = std::ops::Range<u32>> {
        (self.next..self.ends.len()).map(|index| {
            let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
            start..self.ends[index]
        })
    }

    /// The memory with the events.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn event(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.bytes[start..self.ends[index] as usize]
    }

    /// The bytes that it makes up in a batch at most, and those that one more event of `length` bytes would add.
    pub(super) fn batch_length(&self, length: usize) -> usize {
        self.bytes.len() + length + (self.ends.len() + 1) * EVENT_OVERHEAD
    }
}

/// What an event adds to a batch beyond its own bytes at most: the prefix of a Data section.
const EVENT_OVERHEAD: usize = 8;
