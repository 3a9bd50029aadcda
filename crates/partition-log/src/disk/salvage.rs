//! Finding sound batches behind damage.
//!
//! Damage in the middle of a segment leaves whole batches behind it. They prove two things: that the end of the sound
//! part is not a torn tail, since a process that dies while it writes leaves nothing behind the tear, and which numbers
//! were given. A queue's journal also reads them, since they say what became of earlier messages.
//!
//! A power cut is different: it may leave a later page of a file without an earlier one. What was never written reads
//! as zeros, so a gap with a sector of zeros in it counts as torn.

use super::recover::describe;
use crate::batch::{self, BatchHeader};
use crate::recovery::scan;
use std::ops::Range;

/// Where damage begins, and what came before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Break {
    /// Bytes of sound batches.
    pub(crate) position: usize,
    /// The number after the last one before it.
    pub(crate) expected: u64,
}

/// The batches from a sound one behind a break up to the next break.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    /// Where they are.
    pub(crate) bytes: Range<usize>,
    /// The number of the first record.
    pub(crate) first_sequence_number: u64,
    /// The number after the last record.
    pub(crate) next_sequence_number: u64,
}

/// All sound batches behind a break in the bytes of a segment that ends before the number `end`.
pub(crate) fn stretches(bytes: &[u8], from: Break, end: u64) -> impl Iterator<Item = Stretch> {
    let first = next_stretch(bytes, from, Some(end));
    std::iter::successors(first, move |stretch| next_stretch(bytes, stretch.behind(), Some(end)))
}

/// The first sound batches behind a break in the bytes of a segment, whose last record comes before `end`, if that is
/// known.
///
/// Where the header of the damaged batch is intact, it says where the next batch begins. Otherwise all positions are
/// tried. A message may contain the bytes of a batch, so what is found that way must go on to the very end.
fn next_stretch(bytes: &[u8], from: Break, end: Option<u64>) -> Option<Stretch> {
    let after_header = BatchHeader::read(bytes.get(from.position..)?)
        .ok()
        .filter(|header| header.first_sequence_number == from.expected)
        .and_then(|header| {
            let position = from.position + header.length as usize;
            let stretch = stretch(bytes, position, end)?;
            let follows = stretch.first_sequence_number == header.next_sequence_number();
            follows.then_some(stretch)
        });
    after_header.or_else(|| {
        let last = bytes.len().checked_sub(BatchHeader::LENGTH)?;
        (from.position + 1..=last).find_map(|position| {
            let header = BatchHeader::read(&bytes[position..]).ok()?;
            if header.first_sequence_number <= from.expected {
                return None;
            }
            let stretch = stretch(bytes, position, end)?;
            let is_end = end.is_none_or(|end| stretch.next_sequence_number == end);
            (is_end && stretch.bytes.end == bytes.len()).then_some(stretch)
        })
    })
}

/// The number after the last record that was written behind a break, if the break is damage and not a tear: sound batches
/// follow it, or what stands there is as long as it says.
pub(super) fn end_beyond(bytes: &[u8], mut from: Break) -> Option<u64> {
    let mut end = None;
    while let Some(stretch) = next_stretch(bytes, from, None) {
        if has_unwritten_sector(bytes, from.position..stretch.bytes.start) {
            break;
        }
        end = Some(stretch.next_sequence_number);
        from = stretch.behind();
    }
    end_of_whole(bytes, from).or(end)
}

/// The number after the last record of a damaged batch that ends where the file does. What a process was writing when it
/// died is cut short.
fn end_of_whole(bytes: &[u8], from: Break) -> Option<u64> {
    let rest = bytes.get(from.position..)?;
    let header = BatchHeader::read(rest).ok()?;
    let is_plausible = header.length as usize == rest.len()
        && header.first_sequence_number == from.expected
        && header.record_count > 0
        && header.record_count as usize <= (rest.len() - header.records_start()) / SHORTEST_RECORD;
    let is_written = !has_unwritten_sector(bytes, from.position..bytes.len());
    (is_plausible && is_written).then(|| header.next_sequence_number())
}

impl Stretch {
    fn behind(&self) -> Break {
        Break { position: self.bytes.end, expected: self.next_sequence_number }
    }
}

/// Whether the segment that begins with the number `following` proves that what comes before it was written to its end:
/// it has records, and `rest`, which is what stands behind the break, is neither cut short nor unwritten.
pub(super) fn is_proven_by(following: u64, following_bytes: &[u8], rest: &[u8]) -> bool {
    let (found, _) = describe(following_bytes, following, following_bytes.len() as u64);
    let is_whole = BatchHeader::read(rest).is_ok();
    found.records() > 0 && is_whole && !has_unwritten_sector(rest, 0..rest.len())
}

/// The sound batches at a position.
fn stretch(bytes: &[u8], position: usize, end: Option<u64>) -> Option<Stretch> {
    let rest = bytes.get(position..)?;
    // Most positions fail here, before anything else of the rest is read.
    batch::check(rest).ok()?;
    let found = scan(rest);
    let (first, next) = found.sequence_numbers?;
    end.is_none_or(|end| next <= end).then_some(Stretch {
        bytes: position..position + found.valid_length,
        first_sequence_number: first,
        next_sequence_number: next,
    })
}

/// Whether nothing was ever written to a whole sector of this range.
fn has_unwritten_sector(bytes: &[u8], range: Range<usize>) -> bool {
    let first = range.start.next_multiple_of(SECTOR);
    let sectors = bytes.get(first..range.end).unwrap_or_default();
    sectors.chunks_exact(SECTOR).any(|sector| sector.iter().all(|byte| *byte == 0))
}

/// Bytes of a record of nothing: its three lengths.
const SHORTEST_RECORD: usize = 3;

/// What any device writes as one, at least.
const SECTOR: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UnixTime;
    use crate::batch::tests::complete_sealed;

    /// A batch of one record with this content.
    fn stored(number: u64, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; BatchHeader::LENGTH];
        let mut length = [0; 16];
        let end = batch::put_varint(&mut length, 0, content.len() as u32 + 2);
        bytes.extend_from_slice(&length[..end]);
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(content);
        complete_sealed(&mut bytes, number, UnixTime::from_milliseconds(1), 1);
        bytes
    }

    /// Four batches with these contents, and where each begins.
    fn four(contents: [&[u8]; 4]) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut begins) = (Vec::new(), Vec::new());
        for (number, content) in contents.into_iter().enumerate() {
            begins.push(bytes.len());
            bytes.extend(stored(10 + number as u64, content));
        }
        (bytes, begins)
    }

    #[test]
    fn whichever_byte_of_a_batch_is_changed_the_batches_behind_it_are_found() {
        let (bytes, begins) = four([b"one", b"two", b"three", b"four"]);
        let from = Break { position: begins[1], expected: 11 };
        for position in begins[1]..begins[2] {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x10;
            let found = next_stretch(&damaged, from, Some(14)).unwrap();
            assert_eq!(found.bytes, begins[2]..bytes.len(), "at {position}");
            assert_eq!((found.first_sequence_number, found.next_sequence_number), (12, 14));
            assert_eq!(end_beyond(&damaged, from), Some(14));
        }
    }

    #[test]
    fn two_damaged_batches_cost_no_more_than_themselves() {
        let (mut bytes, begins) = four([b"one", b"two", b"three", b"four"]);
        *bytes.last_mut().unwrap() ^= 1;
        bytes[begins[1] + 36] ^= 1;
        let from = Break { position: begins[1], expected: 11 };
        let found = next_stretch(&bytes, from, Some(14)).unwrap();
        assert_eq!(found.bytes, begins[2]..begins[3]);
        assert_eq!(found.next_sequence_number, 13);
    }

    #[test]
    fn a_batch_within_a_message_is_not_taken_for_one() {
        let inner = stored(12, b"forged");
        let (mut bytes, begins) = four([b"one", &inner, b"three", b"four"]);
        // The length, so that the next batch has to be searched for.
        bytes[begins[1]] ^= 0x40;
        let from = Break { position: begins[1], expected: 11 };
        let found = next_stretch(&bytes, from, Some(14)).unwrap();
        assert_eq!(found.bytes.start, begins[2]);
    }

    #[test]
    fn a_tear_is_not_taken_for_damage() {
        let long = [7; 2000];
        let (mut bytes, begins) = four([b"one", &long, b"three", b"four"]);
        let from = Break { position: begins[1], expected: 11 };
        assert_eq!(end_beyond(&bytes[..begins[2] - 1], from), None);
        bytes[begins[1] + 100..begins[2]].fill(0);
        assert_eq!(end_beyond(&bytes, from), None);
    }
}
