//! Finding the batches in the bytes of a segment again, and where they stop.
//!
//! A process that dies while it appends leaves a file that ends within a batch, or in space that was reserved and
//! never written. Recovery keeps the longest prefix of whole, undamaged, consecutive batches; what follows is torn
//! off by cutting the file there. Any bytes whatever may be scanned.

use super::batch::{self, BatchError};
use crate::UnixTime;

/// What a scan found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Bytes of the prefix that holds whole batches; keep these, cut off the rest.
    pub valid_length: usize,
    /// Batches in the prefix.
    pub batches: u64,
    /// Records in the prefix.
    pub records: u64,
    /// The first sequence number and the one after the last, unless there is no batch.
    pub sequence_numbers: Option<(u64, u64)>,
    /// The append time of the last batch, unless there is none.
    pub last_append_time: Option<UnixTime>,
    /// What stopped the scan; `None` if the bytes end with a batch.
    pub torn: Option<TornTail>,
}

/// Why a scan stopped before the end of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TornTail {
    /// What follows the prefix is not a batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// What follows is a batch, but not the next one: of an older use of the file, say.
    #[error("the next batch starts with sequence number {found} instead of {expected}")]
    SequenceNumber {
        /// The number after the last one of the prefix.
        expected: u64,
        /// The number that the batch has.
        found: u64,
    },
    /// What follows is a batch that is older than the one before it, which no log writes.
    #[error("the next batch was appended before the previous one, at {found} instead of {earliest} or later")]
    AppendTime {
        /// The time of the last batch of the prefix.
        earliest: UnixTime,
        /// The time that the batch has.
        found: UnixTime,
    },
}

/// Scans the bytes of a segment from their beginning, checking every checksum and every record.
#[must_use]
pub fn scan(bytes: &[u8]) -> Scan {
    let mut found = Scan {
        valid_length: 0,
        batches: 0,
        records: 0,
        sequence_numbers: None,
        last_append_time: None,
        torn: None,
    };
    while found.valid_length < bytes.len() && found.torn.is_none() {
        match next_batch(&found, &bytes[found.valid_length..]) {
            Ok(header) => {
                let first =
                    found.sequence_numbers.map_or(header.first_sequence_number, |(first, _next)| first);
                found.sequence_numbers = Some((first, header.next_sequence_number()));
                found.last_append_time = Some(header.append_time);
                found.valid_length += header.length as usize;
                found.batches += 1;
                found.records += u64::from(header.record_count);
            }
            Err(torn) => found.torn = Some(torn),
        }
    }
    found
}

/// The batch at the start of `rest`, if it is one that can follow what was `found`.
fn next_batch(found: &Scan, rest: &[u8]) -> Result<batch::BatchHeader, TornTail> {
    let header = batch::check(rest)?;
    if let Some((_first, expected)) = found.sequence_numbers
        && header.first_sequence_number != expected
    {
        return Err(TornTail::SequenceNumber { expected, found: header.first_sequence_number });
    }
    if let Some(earliest) = found.last_append_time
        && header.append_time < earliest
    {
        return Err(TornTail::AppendTime { earliest, found: header.append_time });
    }
    Ok(header)
}

/// Scans `bytes` and asserts what must hold for any bytes at all. For fuzzing; unit tests call it as well.
///
/// # Panics
/// If an invariant of scanning does not hold.
pub fn check_any_bytes(bytes: &[u8]) {
    let found = scan(bytes);
    assert!(found.valid_length <= bytes.len());
    assert_eq!(found.torn.is_none(), found.valid_length == bytes.len());
    let again = scan(&bytes[..found.valid_length]);
    assert_eq!(again, Scan { torn: None, ..found }, "the prefix that was kept is whole");
    let numbers = found.sequence_numbers.map_or(0, |(first, next)| next - first);
    assert_eq!(numbers, found.records);
    let mut rest = bytes;
    while let Some((_record, after)) = batch::split_record(rest) {
        assert!(after.len() < rest.len(), "reading a record consumes it");
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::BatchHeader;
    use crate::batch::tests::complete_sealed;
    use proptest::prelude::*;

    fn stored(first_sequence_number: u64, append_time: i64, records: &[&[u8]]) -> Vec<u8> {
        let mut batch = vec![0; BatchHeader::LENGTH];
        for sections in records {
            batch.extend_from_slice(&[sections.len() as u8 + 2, 0, 0]);
            batch.extend_from_slice(sections);
        }
        let append_time = UnixTime::from_milliseconds(append_time);
        complete_sealed(&mut batch, first_sequence_number, append_time, records.len() as u32);
        batch
    }

    fn three_batches() -> Vec<Vec<u8>> {
        vec![
            stored(5, 10, &[b"one", b"two"]),
            stored(7, 10, &[b""]),
            stored(8, 12, &[b"one", b"two", b"three"]),
        ]
    }

    #[test]
    fn whole_batches_are_found_to_the_last_byte() {
        let found = scan(&three_batches().concat());
        assert_eq!(found.torn, None);
        assert_eq!((found.batches, found.records), (3, 6));
        assert_eq!(found.sequence_numbers, Some((5, 11)));
        assert_eq!(found.last_append_time, Some(UnixTime::from_milliseconds(12)));
        assert_eq!(scan(&[]).torn, None);
    }

    #[test]
    fn a_tail_torn_at_any_byte_costs_no_more_than_its_own_batch() {
        let batches = three_batches();
        let bytes = batches.concat();
        let ends: Vec<usize> = batches
            .iter()
            .scan(0, |end, batch| {
                *end += batch.len();
                Some(*end)
            })
            .collect();
        for length in 0..bytes.len() {
            let found = scan(&bytes[..length]);
            let whole = ends.iter().copied().filter(|end| *end <= length).max().unwrap_or(0);
            assert_eq!(found.valid_length, whole, "cut at {length}");
            assert_eq!(found.torn.is_some(), whole < length, "cut at {length}");
        }
    }

    #[test]
    fn reserved_space_after_the_last_batch_is_torn_off() {
        let mut bytes = three_batches().concat();
        let written = bytes.len();
        bytes.resize(written + 4096, 0);
        let found = scan(&bytes);
        assert_eq!(found.valid_length, written);
        assert_eq!(found.torn, Some(BatchError::Length { length: 0 }.into()));
    }

    #[test]
    fn a_batch_that_is_not_the_next_one_is_torn_off() {
        let first = stored(5, 10, &[b"one"]);
        let found = scan(&[first.clone(), stored(7, 10, &[b"two"])].concat());
        assert_eq!(found.valid_length, first.len());
        assert_eq!(found.torn, Some(TornTail::SequenceNumber { expected: 6, found: 7 }));
        let found = scan(&[first.clone(), stored(6, 9, &[b"two"])].concat());
        assert_eq!(found.valid_length, first.len());
        assert!(matches!(found.torn, Some(TornTail::AppendTime { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_scanned(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            check_any_bytes(&bytes);
        }

        #[test]
        fn damaged_batches_can_be_scanned(position in 0_usize..400, with in proptest::collection::vec(any::<u8>(), 1..8)) {
            let mut bytes = three_batches().concat();
            let position = position % bytes.len();
            for (old, new) in bytes[position..].iter_mut().zip(with) {
                *old = new;
            }
            check_any_bytes(&bytes);
        }

        #[test]
        fn records_of_any_content_under_a_right_checksum_can_be_scanned(
            records in proptest::collection::vec(any::<u8>(), 0..60),
            count in 0_u32..6,
            first: u64,
        ) {
            let mut bytes = vec![0; BatchHeader::LENGTH];
            bytes.extend_from_slice(&records);
            complete_sealed(&mut bytes, first, UnixTime::default(), count);
            check_any_bytes(&bytes);
        }
    }
}
