//! Sinks that accept events before they have stored them: an archive collects many for a file, and stores them when the file is complete.
//!
//! What such a sink has accepted is done with as far as lanes and memory go, and is not as far as checkpoints do:
//!
//! ```text
//!   checkpoint  ≤  stored, by each of these sinks  ≤  accepted by all sinks without a gap (the watermark)
//!       40                    43                                       48
//! ```
//!
//! * Each of these sinks gets the events of a partition in order, one send at a time: what it has accepted is a number.
//! * A partition that begins again does so at its checkpoint. No sink gets again what it has accepted, whether that is stored or not.
//! * Files are complete at any time. While a partition is being placed nothing of it is written, since what is read for it would be older.
//! * A sink that has lost what it accepted makes its partition begin again, and gets alone what it has lost.
//! * Who stops, or gives a partition back, asks for everything to be stored when nothing of it is under way, and waits for that.
//! * A partition that is another's is forgotten: its new owner begins at the checkpoint.

use connect::checkpoint::Checkpoint;
use connect::sink::{SendError, Stored};

use super::Relay;
use super::partition::{Partition, State};
use crate::options::CheckpointPolicy;
use crate::watermark::Position;

/// How far the sinks that store later are with a partition. Empty where there is no such sink.
#[derive(Debug, Default)]
pub(super) struct Storage {
    late: Vec<Late>,
    /// What may be written as checkpoint: where the partition was opened, and then what every sink has stored. It never goes back in between.
    covered: Option<Position>,
    /// Whether what is not stored was asked for.
    flushed: bool,
}

/// One of these sinks. It accepts the events of a partition in order, and stores them so.
#[derive(Debug)]
struct Late {
    sink: u32,
    /// The last event that it has accepted.
    accepted: Option<i64>,
    /// The last event that it has stored.
    stored: Option<Position>,
}

/// A sink has lost what it had accepted of a partition and not stored.
#[derive(Debug)]
pub(super) struct Unstored {
    index: usize,
    sink: u32,
    error: Box<SendError>,
}

impl Storage {
    /// Of a partition for sinks that store later.
    pub(super) fn of(sinks: &[u32]) -> Self {
        let late = sinks.iter().map(|&sink| Late { sink, accepted: None, stored: None }).collect();
        Self { late, covered: None, flushed: false }
    }

    /// Nothing is known any more: the numbers begin anew, or another relay goes on with them.
    pub(super) fn clear(&mut self) {
        self.late.iter_mut().for_each(|late| (late.accepted, late.stored) = (None, None));
        (self.covered, self.flushed) = (None, false);
    }

    /// Whether the checkpoint covers more than a sink has accepted, so that others have stored what lies between.
    pub(super) fn is_behind(&self, checkpoint: Option<&Checkpoint>) -> bool {
        let number = checkpoint.and_then(|checkpoint| checkpoint.sequence_number);
        self.late.iter().any(|late| late.accepted.is_some() && late.accepted < number)
    }

    /// The partition begins behind this checkpoint. Says whether more is covered: sinks have stored it since the checkpoint was read, or it could
    /// not be written.
    pub(super) fn open(&mut self, checkpoint: Option<&Checkpoint>) -> bool {
        if self.late.is_empty() {
            // What is covered is what the watermark says.
            return false;
        }
        let position = checkpoint.and_then(|checkpoint| {
            let offset = checkpoint.offset.clone().unwrap_or_default();
            Some(Position { sequence_number: checkpoint.sequence_number?, offset })
        });
        let number = |position: &Option<Position>| position.as_ref().map(|it| it.sequence_number);
        if number(&position) > number(&self.covered) {
            self.covered = position;
            return false;
        }
        number(&self.covered) > number(&position)
    }

    /// A sink has accepted the events up to this one.
    pub(super) fn accept(&mut self, sink: u32, number: i64) {
        if let Some(late) = self.late_mut(sink) {
            debug_assert!(late.accepted.is_none_or(|before| before < number), "{late:?} accepts {number}");
            late.accepted = late.accepted.max(Some(number));
        }
    }

    /// A sink has stored the events up to this one.
    fn store(&mut self, sink: u32, through: Position) {
        if let Some(late) = self.late_mut(sink) {
            debug_assert!(
                late.stored_number() < Some(through.sequence_number),
                "{late:?} stores {through:?}"
            );
            late.stored = Some(through);
        }
    }

    /// A sink has lost what it has not stored.
    fn lose(&mut self, sink: u32) {
        if let Some(late) = self.late_mut(sink) {
            late.accepted = late.stored_number();
        }
        self.flushed = false;
    }

    /// Whether a sink that stores later has accepted this event; none of other sinks.
    pub(super) fn has(&self, sink: u32, number: i64) -> Option<bool> {
        let late = self.late.iter().find(|late| late.sink == sink)?;
        Some(late.accepted >= Some(number))
    }

    /// Whether any of these sinks has accepted this event.
    pub(super) fn has_any(&self, number: i64) -> bool {
        self.late.iter().any(|late| late.accepted >= Some(number))
    }

    /// Moves what may be written on, as far as the watermark and all sinks allow. Says whether it moved.
    fn cover(&mut self, watermark: Option<&Position>) -> bool {
        let Self { late, covered, .. } = self;
        let least = late.iter().filter(|late| !late.is_stored()).map(|late| late.stored.as_ref());
        // None is less than any.
        let least = least.chain([watermark]).min_by_key(|position| position.map(|it| it.sequence_number));
        let Some(least) = least.flatten() else { return false };
        if covered.as_ref().is_some_and(|covered| covered.sequence_number >= least.sequence_number) {
            return false;
        }
        let covered = covered.get_or_insert_default();
        covered.sequence_number = least.sequence_number;
        covered.offset.clone_from(&least.offset);
        true
    }

    fn late_mut(&mut self, sink: u32) -> Option<&mut Late> {
        self.late.iter_mut().find(|late| late.sink == sink)
    }
}

impl Late {
    fn stored_number(&self) -> Option<i64> {
        self.stored.as_ref().map(|stored| stored.sequence_number)
    }

    /// Whether it has stored all that it has accepted.
    fn is_stored(&self) -> bool {
        self.accepted <= self.stored_number()
    }
}

impl Partition {
    /// The last event that may be written as checkpoint.
    pub(super) fn stored(&self) -> Option<&Position> {
        match self.storage.late.is_empty() {
            true => self.watermark.position(),
            false => self.storage.covered.as_ref(),
        }
    }

    /// Whether every sink has stored what it has accepted.
    pub(super) fn is_stored(&self) -> bool {
        self.storage.late.iter().all(Late::is_stored)
    }

    /// Watermark or storage have moved: says whether there is something new to write.
    pub(super) fn note_stored(&mut self) -> bool {
        let moved = self.storage.late.is_empty() || self.storage.cover(self.watermark.position());
        self.progress.dirty |= moved;
        moved
    }

    /// Remembers, before the partition begins again at its checkpoint, what all sinks have accepted beyond it.
    pub(super) fn remember_unstored(&mut self) {
        if self.storage.late.is_empty() {
            return;
        }
        let covered = self.stored().map(|covered| covered.sequence_number);
        let next = covered.map_or(i64::MIN, |covered| covered.saturating_add(1));
        if let Some(accepted) = self.watermark.position()
            && next <= accepted.sequence_number
        {
            self.accepted.remember_complete(next, accepted.sequence_number);
        }
    }
}

impl Relay {
    /// Takes what sinks say of what they have stored, and lost.
    pub(super) fn take_stored(&mut self) -> bool {
        if self.outlets.late().is_empty() {
            return false;
        }
        let mut moved = Vec::new();
        for (sink, outlet) in self.outlets.iter_mut() {
            outlet.sink.take_stored(&mut self.stored);
            for Stored { partition, result } in self.stored.drain(..) {
                let Some(&index) = self.indices.get(&partition) else { continue };
                match result {
                    Ok(through) => {
                        let (sequence_number, offset) = (through.sequence_number, through.offset);
                        self.partitions[index].storage.store(sink, Position { sequence_number, offset });
                        moved.push(index);
                    }
                    Err(error) => self.unstored.push(Unstored { index, sink, error }),
                }
            }
        }
        for &index in &moved {
            let partition = &mut self.partitions[index];
            let is_awaited = self.stop_by.is_some() || partition.state != State::Open;
            if partition.note_stored()
                && (self.options.checkpoint == CheckpointPolicy::EachBatch || is_awaited)
            {
                self.write_soon(index);
            }
        }
        let mut any = !moved.is_empty();
        while let Some(unstored) = self.unstored.pop() {
            any = true;
            self.lose_unstored(unstored);
        }
        any
    }

    #[cold]
    fn lose_unstored(&mut self, Unstored { index, sink, error }: Unstored) {
        tracing::warn!(
            partition = self.partitions[index].id.0, sink, %error,
            "what was accepted could not be stored; the partition begins again at its checkpoint"
        );
        self.fail_batch(index, &*error);
        let partition = &mut self.partitions[index];
        partition.storage.lose(sink);
        // Whether it begins again or not: what was lost is not to be covered.
        let covered = partition.stored().cloned();
        partition.watermark.retreat(covered);
    }

    /// A partition is another's, or its numbers begin anew: sinks forget what they have not stored of it.
    pub(super) fn forget_unstored(&mut self, index: usize) {
        if self.outlets.late().is_empty() {
            return;
        }
        let partition = &mut self.partitions[index];
        self.outlets.iter_mut().for_each(|(_, outlet)| outlet.sink.forget(partition.id));
        partition.storage.clear();
        self.unstored.retain(|unstored| unstored.index != index);
    }

    /// Asks for what is waited for to be stored.
    pub(super) fn flush_unstored(&mut self) -> bool {
        let stopping = self.stop_by.is_some();
        let releasing = self.sharing.as_ref().is_some_and(|sharing| !sharing.releasing.is_empty());
        if self.outlets.late().is_empty() || !(stopping || releasing) {
            return false;
        }
        let mut any = false;
        for partition in &mut self.partitions {
            let is_awaited = stopping || matches!(partition.state, State::Ending | State::Closed);
            let is_due = is_awaited && partition.in_flight.is_empty() && !partition.is_stored();
            if is_due && !partition.storage.flushed {
                partition.storage.flushed = true;
                any = true;
                self.outlets.iter_mut().for_each(|(_, outlet)| outlet.sink.flush(partition.id));
            }
        }
        any
    }

    /// Whether everything that was accepted is stored, as far as that can still happen.
    pub(super) fn is_all_stored(&self) -> bool {
        self.failed_sink || self.partitions.iter().all(Partition::is_stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(sequence_number: i64) -> Position {
        Position { sequence_number, offset: (10 * sequence_number).to_string() }
    }

    fn covered(storage: &Storage) -> Option<i64> {
        storage.covered.as_ref().map(|covered| covered.sequence_number)
    }

    #[test]
    fn covered_is_what_all_have_accepted_and_each_has_stored() {
        let mut storage = Storage::of(&[1, 3]);
        storage.accept(1, 9);
        storage.accept(3, 9);
        assert!(!storage.cover(Some(&position(9))));
        storage.store(1, position(4));
        assert!(!storage.cover(Some(&position(9))), "the other has stored nothing");
        storage.store(3, position(7));
        assert!(storage.cover(Some(&position(9))));
        assert_eq!(storage.covered, Some(position(4)));
        storage.store(1, position(9));
        assert!(storage.cover(Some(&position(6))));
        assert_eq!(covered(&storage), Some(6), "the watermark is the least");
        storage.store(3, position(9));
        assert!(storage.cover(Some(&position(12))));
        assert_eq!(covered(&storage), Some(12), "those behind were for other sinks alone");
    }

    #[test]
    fn covered_never_goes_back_and_begins_where_the_partition_is_opened() {
        let mut storage = Storage::of(&[0]);
        let group = connect::checkpoint::ConsumerGroup::new("", "", "");
        let checkpoint = Checkpoint {
            group,
            partition: connect::event::PartitionId(0),
            sequence_number: Some(30),
            offset: None,
            log_id: None,
            etag: None,
        };
        storage.open(Some(&checkpoint));
        storage.accept(0, 35);
        assert!(!storage.cover(Some(&position(23))));
        assert!(!storage.cover(Some(&position(35))));
        assert_eq!(covered(&storage), Some(30));
        storage.store(0, position(33));
        assert!(storage.cover(Some(&position(35))));
        assert_eq!(covered(&storage), Some(33));
    }

    #[test]
    fn what_is_accepted_is_had_and_what_is_lost_is_not_waited_for() {
        let mut storage = Storage::of(&[2]);
        storage.accept(2, 9);
        storage.store(2, position(4));
        assert_eq!(
            (storage.has(2, 9), storage.has(2, 10), storage.has(0, 4)),
            (Some(true), Some(false), None)
        );
        assert!(storage.has_any(9) && !storage.has_any(10) && !storage.late[0].is_stored());
        storage.lose(2);
        assert_eq!((storage.has(2, 4), storage.has(2, 5)), (Some(true), Some(false)));
        assert!(storage.late[0].is_stored());
        // They come again.
        storage.accept(2, 5);
        assert!(!storage.late[0].is_stored());
    }
}
