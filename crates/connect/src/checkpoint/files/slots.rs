//! The two slots of a checkpoint file.
//!
//! Each slot is a line of text of a fixed length that ends with its own checksum. A writing goes to the slot that does
//! not hold the newest checkpoint, so whatever happens to it, the newest one before is still there whole:
//!
//! ```text
//!   generation=8 sequence_number=1151 offset=1151 crc=5d1c9f6e         (spaces up to 255 bytes, then a line feed)
//!   generation=9 sequence_number=1279 offset=1279 crc=90d2aa03
//! ```
//!
//! The checkpoint of a topic has the topic's id as `log` in the place of an offset.

use std::io::Write as _;

use super::names;
use crate::checkpoint::{Checkpoint, StoreError};

/// What one slot says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// Counts the writings of the file; the larger of two is the newer.
    pub(super) generation: u64,
    pub(super) sequence_number: Option<i64>,
    pub(super) offset: Option<String>,
    pub(super) log_id: Option<String>,
}

/// The newest whole slot of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Newest {
    pub(super) slot: Slot,
    index: usize,
}

/// Finds the newest whole slot. Each file is made with one, so the error says what is wrong with a file that has none.
pub(super) fn newest(file: &[u8]) -> Result<Newest, &'static str> {
    let newest = file
        .chunks_exact(SLOT_LEN)
        .take(2)
        .enumerate()
        .filter_map(|(index, bytes)| Some(Newest { slot: decode(bytes)?, index }))
        .max_by_key(|newest| newest.slot.generation);
    newest.ok_or(match file.len() {
        0 => "it is empty",
        1..SLOT_LEN => "it is too short",
        _ => "neither of its slots has a valid checksum",
    })
}

/// Where in the file the next checkpoint goes, and its generation.
pub(super) fn next(newest: &Newest) -> (u64, u64) {
    (((1 - newest.index) * SLOT_LEN) as u64, newest.slot.generation.saturating_add(1))
}

/// The bytes of a file that holds one checkpoint, with room for the next.
pub(super) fn new_file(generation: u64, checkpoint: &Checkpoint) -> Result<[u8; FILE_LEN], StoreError> {
    let mut file = [b' '; FILE_LEN];
    file[..SLOT_LEN].copy_from_slice(&encode(generation, checkpoint)?);
    file[FILE_LEN - 1] = b'\n';
    Ok(file)
}

/// The bytes of a slot.
pub(super) fn encode(generation: u64, checkpoint: &Checkpoint) -> Result<[u8; SLOT_LEN], StoreError> {
    let offset = checkpoint.offset.as_deref().map(names::word);
    if let Some(length) = offset.as_ref().map(|offset| offset.len()).filter(|&length| length > OFFSET_MAX) {
        return Err(StoreError::OffsetTooLong { length, maximum: OFFSET_MAX });
    }
    // Sources with such offsets have no ids.
    let room = OFFSET_MAX - offset.as_ref().map_or(0, |offset| offset.len());
    let log_id = checkpoint.log_id.as_deref().map(names::word);
    let log_id = log_id.filter(|log_id| LOG_FIELD.len() + log_id.len() <= room);
    let mut slot = [b' '; SLOT_LEN];
    let mut rest = &mut slot[..];
    let written = (|| {
        write!(rest, "generation={generation}")?;
        if let Some(sequence_number) = checkpoint.sequence_number {
            write!(rest, " sequence_number={sequence_number}")?;
        }
        if let Some(offset) = offset {
            write!(rest, " offset={offset}")?;
        }
        if let Some(log_id) = log_id {
            write!(rest, "{LOG_FIELD}{log_id}")?;
        }
        std::io::Result::Ok(())
    })();
    written.expect("a slot holds the longest numbers and the longest offset");
    let text_len = SLOT_LEN - rest.len();
    let crc = crc32c::crc32c(&slot[..text_len]);
    write!(&mut slot[text_len..], "{CRC_FIELD}{crc:08x}").expect("a slot has room for its checksum");
    slot[SLOT_LEN - 1] = b'\n';
    Ok(slot)
}

fn decode(slot: &[u8]) -> Option<Slot> {
    let line = std::str::from_utf8(slot).ok()?.strip_suffix('\n')?.trim_end_matches(' ');
    let (text, crc) = line.rsplit_once(CRC_FIELD)?;
    if crc.len() != 8 || u32::from_str_radix(crc, 16).ok()? != crc32c::crc32c(text.as_bytes()) {
        return None;
    }
    let mut decoded = Slot { generation: 0, sequence_number: None, offset: None, log_id: None };
    for field in text.split(' ') {
        match field.split_once('=')? {
            ("generation", value) => decoded.generation = value.parse().ok()?,
            ("sequence_number", value) => decoded.sequence_number = Some(value.parse().ok()?),
            ("offset", value) => decoded.offset = Some(names::text(value)?),
            ("log", value) => decoded.log_id = Some(names::text(value)?),
            _ => return None,
        }
    }
    Some(decoded)
}

/// The length of a slot. A file of two never crosses a page, so the kernel copies each writing as a whole.
const SLOT_LEN: usize = 256;

/// The length of a file whose slots have both been written.
pub(super) const FILE_LEN: usize = 2 * SLOT_LEN;

/// The longest escaped offset. Those in use are decimal numbers.
pub(super) const OFFSET_MAX: usize = 160;

const CRC_FIELD: &str = " crc=";

const LOG_FIELD: &str = " log=";

const _: () = assert!(
    "generation= sequence_number= offset=".len() + 20 + 20 + OFFSET_MAX + CRC_FIELD.len() + 8 < SLOT_LEN,
    "a slot must hold the longest numbers and the longest offset"
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checkpoint::ConsumerGroup;
    use crate::event::PartitionId;

    fn checkpoint(sequence_number: Option<i64>, offset: Option<&str>) -> Checkpoint {
        let group = ConsumerGroup::new("namespace", "hub", "$Default");
        Checkpoint {
            group,
            partition: PartitionId(0),
            sequence_number,
            offset: offset.map(str::to_owned),
            log_id: None,
            etag: None,
        }
    }

    fn file_of_two() -> Vec<u8> {
        let first = encode(8, &checkpoint(Some(1151), Some("1151"))).expect("fits");
        let second = encode(9, &checkpoint(Some(1279), Some("1279"))).expect("fits");
        [first, second].concat()
    }

    #[test]
    fn a_slot_is_a_line_that_a_person_can_read() {
        let slot = encode(9, &checkpoint(Some(1279), Some("12 79"))).expect("fits");
        let line = std::str::from_utf8(&slot).expect("text");
        assert!(line.starts_with("generation=9 sequence_number=1279 offset=12%2079 crc="), "{line}");
        assert!(line.ends_with(" \n"));
    }

    #[test]
    fn the_longest_offset_fits_and_one_byte_more_is_refused() {
        let longest = "9".repeat(OFFSET_MAX);
        let slot = encode(u64::MAX, &checkpoint(Some(i64::MIN), Some(&longest))).expect("fits");
        assert_eq!(decode(&slot).and_then(|slot| slot.offset), Some(longest.clone()));
        let with_id =
            Checkpoint { log_id: Some("id".to_owned()), ..checkpoint(Some(i64::MIN), Some(&longest)) };
        assert_eq!(encode(u64::MAX, &with_id).expect("fits"), slot, "there is no room for the id");
        let refused = encode(1, &checkpoint(None, Some(&format!("{longest}9"))));
        assert!(matches!(refused, Err(StoreError::OffsetTooLong { length: 161, maximum: 160 })));
    }

    #[test]
    fn a_file_that_was_cut_short_within_its_only_slot_is_damaged() {
        let file = new_file(1, &checkpoint(Some(1), None)).expect("fits");
        assert_eq!(newest(&[]), Err("it is empty"));
        for len in 1..SLOT_LEN {
            assert_eq!(newest(&file[..len]), Err("it is too short"), "{len} bytes");
        }
        for len in SLOT_LEN..=FILE_LEN {
            let found = newest(&file[..len]).expect("one slot is whole");
            assert_eq!(found.slot.sequence_number, Some(1), "{len} bytes");
        }
    }

    #[test]
    fn a_torn_writing_leaves_the_checkpoint_before_it() {
        let file = file_of_two();
        let replacement = encode(10, &checkpoint(Some(2000), Some("2000"))).expect("fits");
        let (position, generation) = next(&newest(&file).expect("whole"));
        assert_eq!((position, generation), (0, 10));
        for written in 0..=SLOT_LEN {
            let mut torn = file.clone();
            torn[..written].copy_from_slice(&replacement[..written]);
            let sequence_number = newest(&torn).expect("one slot is whole").slot.sequence_number;
            // The tail of both slots is the same white space, so the new one may be whole before its last byte.
            let whole = torn[..SLOT_LEN] == replacement;
            assert_eq!(sequence_number, Some(if whole { 2000 } else { 1279 }), "{written} bytes written");
        }
    }

    #[test]
    fn a_file_without_any_whole_slot_is_damaged() {
        let mut file = file_of_two();
        file[20] ^= 1;
        assert_eq!(newest(&file).map(|newest| newest.index), Ok(1));
        file[SLOT_LEN + 20] ^= 1;
        assert!(newest(&file).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            generation: u64,
            sequence_number: Option<i64>,
            offset in prop::option::of(".{0,12}"),
            log_id in prop::option::of("[-_0-9A-Za-z]{22}"),
        ) {
            let written =
                Checkpoint { log_id: log_id.clone(), ..checkpoint(sequence_number, offset.as_deref()) };
            let slot = encode(generation, &written).expect("fits");
            prop_assert_eq!(decode(&slot), Some(Slot { generation, sequence_number, offset, log_id }));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(file in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = newest(&file);
        }

        #[test]
        fn a_changed_bit_of_the_text_is_noticed(position in 0_usize..60, bit in 0_u8..8) {
            let mut slot = encode(7, &checkpoint(Some(123_456_789), Some("123456789"))).expect("fits");
            slot[position] ^= 1 << bit;
            prop_assert_eq!(decode(&slot), None);
        }
    }
}
