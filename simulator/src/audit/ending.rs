//! Whether everything was carried, and where a partition that holds has to be.

use super::letters::of_letter;
use super::{Audit, Checked, index};
use crate::audit::Violation;
use crate::message::parse;

impl Audit {
    /// Whether every event is accepted and covered by its checkpoint; if not, how far the first such partition is: its
    /// number, and the last events that are accepted, covered and there.
    pub(crate) fn unfinished(&self) -> Option<(u32, i64, i64, i64)> {
        (0..).zip(&self.partitions).find_map(|(number, partition)| {
            let accepted = partition.prefix() as i64 - 1;
            let end = match (partition.held_at, self.batch_max) {
                (None, _) => partition.ids.len() as i64 - 1,
                (Some(held_at), None) => held_at as i64 - 1,
                // A batch is covered as a whole.
                (Some(held_at), Some(batch_max)) => (held_at as i64 - batch_max).max(-1),
            };
            let unfinished = accepted < end || partition.checkpoint < end;
            unfinished.then_some((number, accepted, partition.checkpoint, end))
        })
    }

    /// At the end: every event is in `found`, the messages of all destinations of a sink, or was put aside, or its partition
    /// holds.
    pub(crate) fn finish<'a>(
        &self,
        sink: u32,
        found: impl Iterator<Item = &'a [u8]>,
        letters: impl Iterator<Item = &'a [u8]>,
    ) -> Checked {
        let mut found: Vec<(u32, u64)> = found.filter_map(parse).collect();
        let letters = letters
            .filter_map(|letter| of_letter(letter, self.sinks_before))
            .filter(|&(_, _, of)| of == sink);
        found.extend(letters.map(|(partition, id, _)| (partition, id)));
        found.sort_unstable();
        for (partition, state) in (0..).zip(&self.partitions) {
            // A partition that holds is carried as far as its checkpoint says.
            let end = state.held_at.map_or(usize::MAX, |_| index(state.checkpoint + 1));
            for (sequence_number, &id) in (0..).zip(&state.ids).take(end) {
                if found.binary_search(&(partition, id)).is_err() {
                    return Err(Violation::Lost { partition, sequence_number, sink });
                }
            }
        }
        Ok(())
    }
}
