//! Turns single events, as they come off the wire, into batches per partition.
//!
//! A batch is sealed when it is full or when its oldest event has waited as long as the options allow, unless its
//! partition is [held](BatchBuilder::hold); the caller asks for [`next_deadline`](BatchBuilder::next_deadline) and
//! passes the time, so nothing here knows a clock. `push` is a
//! source's hot path: it looks the open batch up by index and appends a 40-byte event; it allocates only until the
//! batches that go round have grown to their size.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use bytes::Bytes;

use crate::deadline_queue::DeadlineQueue;
use crate::event::{BatchPool, EnqueuedTime, EventBatch, EventParts, PartitionId, Unreadable};
use crate::source::BatchOptions;

/// Collects events into batches for all partitions of one source.
#[derive(Debug)]
pub struct BatchBuilder {
    options: BatchOptions,
    /// The open batch per partition id; empty where none is open.
    open: Vec<EventBatch>,
    /// When each open batch is to be sealed at the latest. All wait equally long, so they expire in order.
    deadlines: DeadlineQueue,
    /// Per partition id: whether its open batch waits for more than its age.
    holds: Vec<Hold>,
    sealed: VecDeque<EventBatch>,
    pool: BatchPool,
}

/// Whether the open batch of a partition may be sealed because of its age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hold {
    /// It may.
    #[default]
    Free,
    /// It may not, and is not old enough.
    Held,
    /// It may not, and would have been sealed.
    Overdue,
}

impl BatchBuilder {
    /// A builder for partitions with ids below `partitions`, which is best as small as it can be.
    #[must_use]
    pub fn new(options: BatchOptions, partitions: u32) -> Self {
        let options = BatchOptions { max_events: options.max_events.max(1), ..options };
        Self {
            options,
            open: (0..partitions).map(|_| EventBatch::default()).collect(),
            holds: vec![Hold::Free; partitions as usize],
            deadlines: DeadlineQueue::new(),
            sealed: VecDeque::new(),
            pool: BatchPool::new(partitions as usize * POOLED_PER_PARTITION),
        }
    }

    /// Adds the next event of a partition, whose parts lie in `chunk`.
    ///
    /// # Panics
    /// When the partition is not below the number given to [`new`](Self::new), or a part does not lie in `chunk`.
    #[inline]
    pub fn push(&mut self, now: Instant, partition: PartitionId, chunk: &Bytes, parts: &EventParts) {
        self.extend(now, partition, chunk, std::iter::once(parts.clone()));
    }

    /// Adds the next events of a partition, whose parts lie in `chunk`, and returns how many there were.
    ///
    /// # Panics
    /// As with [`push`](Self::push).
    #[inline]
    pub fn extend(
        &mut self,
        now: Instant,
        partition: PartitionId,
        chunk: &Bytes,
        mut events: impl Iterator<Item = EventParts>,
    ) -> usize {
        let mut added = 0;
        loop {
            let open = &mut self.open[partition.0 as usize];
            let before = open.len();
            let room = self.options.max_events - before;
            if !open.has_memory() {
                *open = self.pool.take(partition, self.options.max_events);
            }
            open.extend(chunk, events.by_ref().take(room));
            let count = open.len() - before;
            added += count;
            if before == 0 && count > 0 {
                self.deadlines.push(partition.0, now + self.options.max_wait);
            }
            if count < room {
                return added;
            }
            self.seal(partition);
        }
    }

    /// Says that the next numbers of a partition belong to no event, see [`EventBatch::skip`]. They go with the events that
    /// follow.
    ///
    /// # Panics
    /// When the partition is not below the number given to [`new`](Self::new).
    pub fn skip(&mut self, partition: PartitionId, numbers: Range<i64>) {
        let open = &mut self.open[partition.0 as usize];
        if !open.has_memory() {
            *open = self.pool.take(partition, self.options.max_events);
        }
        open.skip(numbers);
    }

    /// Adds records that can't be read, see [`EventBatch::push_unreadable`]. Events before them are handed over first; the `skipped`
    /// numbers between both belong to no event.
    ///
    /// # Panics
    /// As with [`EventBatch::push_unreadable`], and when the partition is not below the number given to [`new`](Self::new).
    #[cold]
    pub fn push_unreadable(
        &mut self,
        partition: PartitionId,
        skipped: Range<i64>,
        bytes: &Bytes,
        unreadable: Unreadable,
        enqueued_time: EnqueuedTime,
    ) {
        if !self.open[partition.0 as usize].is_empty() {
            self.seal(partition);
        }
        self.skip(partition, skipped);
        let open = &mut self.open[partition.0 as usize];
        open.push_unreadable(bytes, unreadable, enqueued_time);
        self.seal(partition);
    }

    /// Seals the open batch of a partition, whatever its age.
    fn seal(&mut self, partition: PartitionId) {
        self.deadlines.remove(partition.0);
        self.sealed.push_back(std::mem::take(&mut self.open[partition.0 as usize]));
        let hold = &mut self.holds[partition.0 as usize];
        if *hold == Hold::Overdue {
            *hold = Hold::Held;
        }
    }

    /// While a partition is held, its open batch is sealed when it is full and not because of its age. When the hold
    /// ends, a batch that is overdue is sealed at once. Partitions that do not exist are ignored.
    pub fn hold(&mut self, partition: PartitionId, held: bool) {
        let Some(hold) = self.holds.get_mut(partition.0 as usize) else {
            return;
        };
        match (*hold, held) {
            (Hold::Free, true) => *hold = Hold::Held,
            (Hold::Held, false) => *hold = Hold::Free,
            (Hold::Overdue, false) => {
                *hold = Hold::Free;
                self.sealed.push_back(std::mem::take(&mut self.open[partition.0 as usize]));
            }
            _ => {}
        }
    }

    /// When the next open batch is due, unless it fills before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next_deadline()
    }

    /// Seals every open batch that is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(partition) = self.deadlines.pop_due(now) {
            let hold = &mut self.holds[partition as usize];
            if *hold == Hold::Free {
                self.sealed.push_back(std::mem::take(&mut self.open[partition as usize]));
            } else {
                *hold = Hold::Overdue;
            }
        }
    }

    /// The next sealed batch, in the order in which they were sealed.
    pub fn pop_sealed(&mut self) -> Option<EventBatch> {
        self.sealed.pop_front()
    }

    /// Whether a sealed batch waits to be taken.
    #[must_use]
    pub fn has_sealed(&self) -> bool {
        !self.sealed.is_empty()
    }

    /// Drops what a partition has in open and sealed batches, and its hold: it was closed.
    pub fn discard(&mut self, partition: PartitionId) {
        self.deadlines.remove(partition.0);
        if let Some(hold) = self.holds.get_mut(partition.0 as usize) {
            *hold = Hold::Free;
        }
        if let Some(open) = self.open.get_mut(partition.0 as usize) {
            self.pool.give(std::mem::take(open));
        }
        self.sealed.retain(|batch| batch.partition() != partition);
    }

    /// Takes a batch back whose events are done with.
    pub fn recycle(&mut self, batch: EventBatch) {
        self.pool.give(batch);
    }
}

/// One batch that fills, one on its way through the relay, and one that waits for its turn.
const POOLED_PER_PARTITION: usize = 3;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::event::EnqueuedTime;

    fn builder(max_events: usize, max_wait: Duration) -> BatchBuilder {
        BatchBuilder::new(BatchOptions { max_events, max_wait }, 4)
    }

    fn push(builder: &mut BatchBuilder, now: Instant, partition: u32, sequence_number: i64) {
        let chunk = Bytes::from_static(b"0123456789abcdef");
        let enqueued_time = EnqueuedTime::default();
        let parts =
            EventParts { message: 0..16, partition_key: 0..0, offset: 0..0, sequence_number, enqueued_time };
        builder.push(now, PartitionId(partition), &chunk, &parts);
    }

    fn sealed(builder: &mut BatchBuilder) -> Vec<(u32, Vec<i64>)> {
        std::iter::from_fn(|| builder.pop_sealed())
            .map(|batch| {
                (batch.partition().0, batch.events().iter().map(|event| event.sequence_number).collect())
            })
            .collect()
    }

    #[test]
    fn a_batch_is_sealed_at_its_last_event_and_not_one_before() {
        let now = Instant::now();
        let mut builder = builder(3, Duration::from_secs(1));
        push(&mut builder, now, 0, 1);
        push(&mut builder, now, 0, 2);
        assert_eq!(sealed(&mut builder), []);
        push(&mut builder, now, 0, 3);
        assert_eq!(sealed(&mut builder), [(0, vec![1, 2, 3])]);
        assert_eq!(builder.next_deadline(), None);
    }

    #[test]
    fn a_batch_is_sealed_when_its_oldest_event_has_waited() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut builder = builder(100, Duration::from_millis(10));
        push(&mut builder, at(0), 2, 1);
        push(&mut builder, at(4), 1, 1);
        push(&mut builder, at(9), 2, 2);
        assert_eq!(builder.next_deadline(), Some(at(10)));
        builder.handle_timeout(start + Duration::from_micros(9_999));
        assert_eq!(sealed(&mut builder), []);
        builder.handle_timeout(at(10));
        assert_eq!(sealed(&mut builder), [(2, vec![1, 2])]);
        assert_eq!(builder.next_deadline(), Some(at(14)));
        builder.handle_timeout(at(20));
        assert_eq!(sealed(&mut builder), [(1, vec![1])]);
    }

    #[test]
    fn a_full_batch_starts_the_wait_of_the_next_one_anew() {
        let start = Instant::now();
        let mut builder = builder(2, Duration::from_millis(10));
        push(&mut builder, start, 0, 1);
        push(&mut builder, start, 0, 2);
        push(&mut builder, start + Duration::from_millis(7), 0, 3);
        assert_eq!(builder.next_deadline(), Some(start + Duration::from_millis(17)));
    }

    #[test]
    fn a_held_partition_seals_full_batches_alone_and_an_overdue_one_once_the_hold_ends() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut builder = builder(3, Duration::from_millis(10));
        builder.hold(PartitionId(0), true);
        push(&mut builder, at(0), 0, 1);
        push(&mut builder, at(0), 1, 1);
        builder.handle_timeout(at(10));
        assert_eq!(sealed(&mut builder), [(1, vec![1])], "only 0 is held");
        assert_eq!(builder.next_deadline(), None);
        push(&mut builder, at(11), 0, 2);
        builder.hold(PartitionId(0), false);
        assert_eq!(sealed(&mut builder), [(0, vec![1, 2])]);

        builder.hold(PartitionId(0), true);
        push(&mut builder, at(20), 0, 3);
        builder.handle_timeout(at(30));
        push(&mut builder, at(31), 0, 4);
        push(&mut builder, at(31), 0, 5);
        push(&mut builder, at(32), 0, 6);
        assert_eq!(sealed(&mut builder), [(0, vec![3, 4, 5])], "it was full");
        builder.hold(PartitionId(0), false);
        assert_eq!(sealed(&mut builder), [], "the next one is young");
        builder.handle_timeout(at(42));
        assert_eq!(sealed(&mut builder), [(0, vec![6])]);
    }

    #[test]
    fn closing_a_partition_ends_its_hold() {
        let start = Instant::now();
        let mut builder = builder(3, Duration::from_millis(10));
        builder.hold(PartitionId(0), true);
        push(&mut builder, start, 0, 1);
        builder.handle_timeout(start + Duration::from_millis(10));
        builder.discard(PartitionId(0));
        builder.hold(PartitionId(0), false);
        assert_eq!(sealed(&mut builder), [], "there is nothing to hand over");
        push(&mut builder, start, 0, 2);
        builder.handle_timeout(start + Duration::from_millis(10));
        assert_eq!(sealed(&mut builder), [(0, vec![2])]);
    }

    #[test]
    fn a_closed_partition_leaves_nothing_behind() {
        let now = Instant::now();
        let mut builder = builder(2, Duration::from_millis(10));
        for sequence_number in 0..3 {
            push(&mut builder, now, 0, sequence_number);
            push(&mut builder, now, 1, sequence_number);
        }
        builder.discard(PartitionId(0));
        builder.handle_timeout(now + Duration::from_secs(1));
        assert_eq!(sealed(&mut builder), [(1, vec![0, 1]), (1, vec![2])]);
        push(&mut builder, now, 0, 9);
        builder.handle_timeout(now + Duration::from_secs(1));
        assert_eq!(sealed(&mut builder), [(0, vec![9])]);
    }

    #[test]
    fn numbers_without_an_event_go_with_the_events_that_follow() {
        let now = Instant::now();
        let mut builder = builder(2, Duration::ZERO);
        builder.skip(PartitionId(0), 0..2);
        builder.skip(PartitionId(0), 2..3);
        push(&mut builder, now, 0, 3);
        builder.skip(PartitionId(0), 4..5);
        push(&mut builder, now, 0, 5);
        builder.skip(PartitionId(0), 6..7);
        let vacant = |batch: Option<EventBatch>| batch.map(|batch| batch.vacant_numbers().to_vec());
        assert_eq!(vacant(builder.pop_sealed()), Some(vec![0..3, 4..5]));
        push(&mut builder, now, 0, 7);
        builder.handle_timeout(now);
        assert_eq!(vacant(builder.pop_sealed()).as_deref(), Some(std::slice::from_ref(&(6..7))));
    }

    #[test]
    fn numbers_that_are_skipped_are_not_forgotten_after_a_partition_was_discarded_that_had_no_batch() {
        let now = Instant::now();
        let mut builder = builder(1, Duration::ZERO);
        builder.discard(PartitionId(0));
        builder.skip(PartitionId(0), 7..8);
        push(&mut builder, now, 0, 8);
        let batch = builder.pop_sealed().expect("a full batch");
        assert_eq!(batch.vacant_numbers(), std::slice::from_ref(&(7..8)));
    }

    #[test]
    fn recycled_batches_are_filled_again() {
        let now = Instant::now();
        let mut builder = builder(1, Duration::ZERO);
        push(&mut builder, now, 0, 1);
        let batch = builder.pop_sealed().expect("a full batch");
        let address = batch.events().as_ptr();
        builder.recycle(batch);
        push(&mut builder, now, 3, 2);
        let again = builder.pop_sealed().expect("a full batch");
        assert_eq!((again.events().as_ptr(), again.partition()), (address, PartitionId(3)));
    }
}
