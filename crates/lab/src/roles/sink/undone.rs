//! Events that were read where a consumer reads them, until it has done them.
//!
//! A [mark](DoneMark) says how far a partition is done. What was read beyond the last one is kept, without its content; so
//! is a mark beyond what was read. Both are few where the consumer keeps up, and bounded where it does not.

use std::collections::{HashMap, VecDeque};

use connect::event::PartitionId;

use crate::{
    clock::RunTime,
    payload::Header,
    roles::{RoleError, protocol::DoneMark},
};

/// The events of the partitions of a worker.
#[derive(Debug, Default)]
pub(super) struct Undone {
    partitions: HashMap<PartitionId, Progress>,
    events: usize,
    marks: usize,
    /// How many events and marks may be kept together.
    most: usize,
}

/// An event that was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadEvent {
    pub(super) sequence_number: i64,
    pub(super) header: Header,
    /// When it left the load, if it says so.
    pub(super) sent: Option<RunTime>,
}

/// One partition. Both queues are in the order of sequence numbers.
#[derive(Debug, Default)]
struct Progress {
    events: VecDeque<ReadEvent>,
    marks: VecDeque<DoneMark>,
    /// The last event that was read.
    read: Option<i64>,
    /// The last event that is done, as far as is known.
    done: Option<i64>,
}

impl Undone {
    /// Nothing was read. The workers of a sink share what it may keep.
    pub(super) fn of_one_worker(workers: u16) -> Self {
        Self { most: MOST_KEPT / usize::from(workers.max(1)), ..Self::default() }
    }

    /// An event was read.
    ///
    /// # Errors
    /// [`RoleError::Undone`] when that is one too many.
    #[inline]
    pub(super) fn read(&mut self, partition: PartitionId, event: ReadEvent) -> Result<(), RoleError> {
        self.partitions.entry(partition).or_default().events.push_back(event);
        self.events += 1;
        self.check()
    }

    /// A partition was read up to and including this event.
    pub(super) fn read_to(&mut self, partition: PartitionId, sequence_number: i64) {
        self.partitions.entry(partition).or_default().read = Some(sequence_number);
    }

    /// A partition is done up to and including an event. A mark behind an earlier one says nothing new.
    ///
    /// # Errors
    /// [`RoleError::Undone`] when that is one too many.
    pub(super) fn mark(&mut self, mark: DoneMark) -> Result<(), RoleError> {
        let progress = self.partitions.entry(PartitionId(mark.partition)).or_default();
        if progress.done.is_some_and(|done| mark.sequence_number <= done) {
            return Ok(());
        }
        progress.done = Some(mark.sequence_number);
        progress.marks.push_back(mark);
        self.marks += 1;
        self.check()
    }

    /// Hands over what was read of a partition and is done, with the time at which that became known.
    pub(super) fn settle(&mut self, partition: PartitionId, mut done: impl FnMut(ReadEvent, RunTime)) {
        let Some(progress) = self.partitions.get_mut(&partition) else {
            return;
        };
        while let Some(mark) = progress.marks.front().copied() {
            let is_done = |event: &mut ReadEvent| event.sequence_number <= mark.sequence_number;
            while let Some(event) = progress.events.pop_front_if(is_done) {
                self.events -= 1;
                done(event, mark.at);
            }
            if progress.read.is_none_or(|read| read < mark.sequence_number) {
                return;
            }
            progress.marks.pop_front();
            self.marks -= 1;
        }
    }

    /// How many events are not done.
    pub(super) const fn events(&self) -> u64 {
        self.events as u64
    }

    /// In how many partitions more is done than was read.
    pub(super) fn ahead(&self) -> u64 {
        self.partitions.values().filter(|progress| !progress.marks.is_empty()).count() as u64
    }

    fn check(&self) -> Result<(), RoleError> {
        let (events, marks) = (self.events, self.marks);
        if events + marks > self.most { Err(RoleError::Undone { events, marks }) } else { Ok(()) }
    }
}

/// 40 bytes each. A saturating load is not that far ahead of any consumer; one that has fallen behind an open load by more
/// will hardly catch up.
const MOST_KEPT: usize = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITION: PartitionId = PartitionId(2);

    fn undone(most: usize) -> Undone {
        Undone { most, ..Undone::default() }
    }

    fn read(undone: &mut Undone, sequence_numbers: impl IntoIterator<Item = i64>) -> Result<(), RoleError> {
        for sequence_number in sequence_numbers {
            let header = Header { run: 1, stream: 0, sequence: 0, intended: RunTime::EPOCH };
            undone.read(PARTITION, ReadEvent { sequence_number, header, sent: None })?;
            undone.read_to(PARTITION, sequence_number);
        }
        Ok(())
    }

    fn mark(undone: &mut Undone, sequence_number: i64, at_us: u64) -> Result<(), RoleError> {
        let at = RunTime::from_micros(at_us);
        undone.mark(DoneMark { partition: PARTITION.0, sequence_number, at })
    }

    fn done(undone: &mut Undone) -> Vec<(i64, u64)> {
        let mut done = Vec::new();
        undone.settle(PARTITION, |event, at| done.push((event.sequence_number, at.as_micros())));
        done
    }

    #[test]
    fn an_event_is_done_when_the_first_mark_that_covers_it_was_made() {
        let mut undone = undone(100);
        read(&mut undone, 0..5).unwrap();
        assert_eq!(done(&mut undone), []);
        mark(&mut undone, 1, 10).unwrap();
        mark(&mut undone, 3, 20).unwrap();
        mark(&mut undone, 2, 30).unwrap();
        assert_eq!(done(&mut undone), [(0, 10), (1, 10), (2, 20), (3, 20)]);
        assert_eq!((undone.events(), undone.ahead()), (1, 0));
    }

    #[test]
    fn a_mark_waits_for_the_events_that_it_covers_and_keeps_its_time() {
        let mut undone = undone(100);
        mark(&mut undone, 1, 10).unwrap();
        mark(&mut undone, 3, 20).unwrap();
        assert_eq!((done(&mut undone), undone.ahead()), (vec![], 1));
        read(&mut undone, [0]).unwrap();
        assert_eq!(done(&mut undone), [(0, 10)]);
        // Retention took the next two.
        read(&mut undone, [3, 4]).unwrap();
        assert_eq!(done(&mut undone), [(3, 20)]);
        assert_eq!((undone.events(), undone.ahead()), (1, 0));
    }

    #[test]
    fn partitions_are_done_each_by_itself() {
        let mut undone = undone(100);
        read(&mut undone, 0..2).unwrap();
        undone.mark(DoneMark { partition: 7, sequence_number: 5, at: RunTime::EPOCH }).unwrap();
        assert_eq!((done(&mut undone), undone.ahead()), (vec![], 1));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut undone = undone(3);
        read(&mut undone, 0..3).unwrap();
        assert!(matches!(mark(&mut undone, 9, 1), Err(RoleError::Undone { events: 3, marks: 1 })));
        let mut undone = super::tests::undone(3);
        assert!(matches!(read(&mut undone, 0..4), Err(RoleError::Undone { events: 4, marks: 0 })));
        // What is done makes room.
        let mut undone = super::tests::undone(3);
        for sequence_number in 0..10 {
            read(&mut undone, [sequence_number]).unwrap();
            mark(&mut undone, sequence_number, 1).unwrap();
            assert_eq!(done(&mut undone).len(), 1);
        }
    }
}
