//! What passed through a partition.
//!
//! Plain relaxed atomics, added to once per batch: they order nothing, they are read by whoever shows metrics.
//! The figures of a hub are the sum over its partitions, taken when asked for, so that partitions share no counter.

use std::iter::Sum;
use std::ops::Add;
use std::sync::atomic::{AtomicU64, Ordering};

use partition_log::ProducerError;

/// The running counters of one partition.
#[derive(Debug, Default)]
pub struct Counters {
    events_in: AtomicU64,
    bytes_in: AtomicU64,
    batches_in: AtomicU64,
    batches_refused: AtomicU64,
    batches_throttled: AtomicU64,
    events_duplicate: AtomicU64,
    batches_out_of_order: AtomicU64,
    batches_of_older_epoch: AtomicU64,
    events_out: AtomicU64,
    bytes_out: AtomicU64,
}

/// Counters as they stood at one moment; they need not all be of exactly the same moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterValues {
    /// Events appended.
    pub events_in: u64,
    /// Bytes of those events, as records of the log.
    pub bytes_in: u64,
    /// Batches appended, as clients sent them; the log may hold several as one.
    pub batches_in: u64,
    /// Batches that were not appended because the log was full.
    pub batches_refused: u64,
    /// Batches that were not appended because the namespace's quota was used up. Those sent to a hub, and not to one of
    /// its partitions, count with the first.
    pub batches_throttled: u64,
    /// Events that were not appended because their producer had stored them before; they are acknowledged again.
    pub events_duplicate: u64,
    /// Batches that were not appended because they did not continue what their producer had stored.
    pub batches_out_of_order: u64,
    /// Batches that were not appended because a newer instance of their producer had taken over.
    pub batches_of_older_epoch: u64,
    /// Events handed to readers; an event counts once per reader.
    pub events_out: u64,
    /// Bytes of those events.
    pub bytes_out: u64,
}

impl Counters {
    /// `batches` batches of `events` events and `bytes` bytes in all were appended.
    pub fn appended(&self, batches: u64, events: u64, bytes: u64) {
        self.events_in.fetch_add(events, Ordering::Relaxed);
        self.bytes_in.fetch_add(bytes, Ordering::Relaxed);
        self.batches_in.fetch_add(batches, Ordering::Relaxed);
    }

    /// A batch was refused because the log was full.
    pub fn refused(&self) {
        self.batches_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// A batch was refused, or kept waiting, because the namespace's quota was used up.
    pub fn throttled(&self) {
        self.batches_throttled.fetch_add(1, Ordering::Relaxed);
    }

    /// `events` events were stored before.
    pub fn duplicate(&self, events: u64) {
        self.events_duplicate.fetch_add(events, Ordering::Relaxed);
    }

    /// A batch did not fit what is known of its producer.
    pub fn rejected(&self, error: &ProducerError) {
        let counter = match error {
            ProducerError::OutOfOrder { .. } | ProducerError::InTransaction => &self.batches_out_of_order,
            ProducerError::TooManyTransactions { .. } => &self.batches_refused,
            ProducerError::OlderEpoch { .. } => &self.batches_of_older_epoch,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// `events` events of `bytes` bytes in all were handed to a reader.
    pub fn delivered(&self, events: u64, bytes: u64) {
        self.events_out.fetch_add(events, Ordering::Relaxed);
        self.bytes_out.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The present values.
    #[must_use]
    pub fn values(&self) -> CounterValues {
        CounterValues {
            events_in: self.events_in.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            batches_in: self.batches_in.load(Ordering::Relaxed),
            batches_refused: self.batches_refused.load(Ordering::Relaxed),
            batches_throttled: self.batches_throttled.load(Ordering::Relaxed),
            events_duplicate: self.events_duplicate.load(Ordering::Relaxed),
            batches_out_of_order: self.batches_out_of_order.load(Ordering::Relaxed),
            batches_of_older_epoch: self.batches_of_older_epoch.load(Ordering::Relaxed),
            events_out: self.events_out.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
        }
    }
}

impl Add for CounterValues {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            events_in: self.events_in.wrapping_add(other.events_in),
            bytes_in: self.bytes_in.wrapping_add(other.bytes_in),
            batches_in: self.batches_in.wrapping_add(other.batches_in),
            batches_refused: self.batches_refused.wrapping_add(other.batches_refused),
            batches_throttled: self.batches_throttled.wrapping_add(other.batches_throttled),
            events_duplicate: self.events_duplicate.wrapping_add(other.events_duplicate),
            batches_out_of_order: self.batches_out_of_order.wrapping_add(other.batches_out_of_order),
            batches_of_older_epoch: self.batches_of_older_epoch.wrapping_add(other.batches_of_older_epoch),
            events_out: self.events_out.wrapping_add(other.events_out),
            bytes_out: self.bytes_out.wrapping_add(other.bytes_out),
        }
    }
}

impl Sum for CounterValues {
    fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
        values.fold(Self::default(), Self::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hubs_figures_are_the_sum_of_its_partitions() {
        let partitions = [Counters::default(), Counters::default()];
        partitions[0].appended(1, 4, 100);
        partitions[0].delivered(8, 200);
        partitions[1].appended(1, 1, 10);
        partitions[1].refused();
        partitions[1].throttled();
        partitions[0].duplicate(3);
        partitions[0].rejected(&ProducerError::OutOfOrder { expected: 4, found: 5 });
        partitions[1].rejected(&ProducerError::OlderEpoch { current: 2, found: 1 });
        let hub: CounterValues = partitions.iter().map(Counters::values).sum();
        let expected = CounterValues {
            events_in: 5,
            bytes_in: 110,
            batches_in: 2,
            batches_refused: 1,
            batches_throttled: 1,
            events_duplicate: 3,
            batches_out_of_order: 1,
            batches_of_older_epoch: 1,
            events_out: 8,
            bytes_out: 200,
        };
        assert_eq!(hub, expected);
    }
}
