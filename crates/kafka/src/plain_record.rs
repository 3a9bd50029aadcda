//! Records of the usual form: every number takes at most two bytes, and there are no headers.
//!
//! Nearly all records have it, and every record is checked where it arrives, so this form is read in one pass without an error to
//! build. A record that is not of this form, damaged ones included, is left to [`Record`](crate::record::Record).

use std::ops::Range;

/// The parts of such a record, by their places in the bytes that it is at the start of.
#[derive(Debug)]
pub(crate) struct PlainRecord {
    /// Milliseconds after the batch's base timestamp.
    pub(crate) timestamp_delta: i32,
    /// The place of the record in the batch.
    pub(crate) offset_delta: i32,
    /// The start of the tail, which ends with the record.
    pub(crate) tail: usize,
    /// The key; empty if the record has none.
    pub(crate) key: Range<usize>,
    /// The end of the record.
    pub(crate) end: usize,
}

impl PlainRecord {
    /// Returns the record at the start of `bytes`, if it is whole and of this form. Hot path.
    #[inline]
    pub(crate) fn first(bytes: &[u8]) -> Option<Self> {
        let mut at = 0;
        let length = short(bytes, &mut at)?;
        if !length.is_multiple_of(2) {
            return None;
        }
        let end = at + length / 2;
        let record = bytes.get(..end)?;
        // Attributes have no meaning.
        at += 1;
        let timestamp_delta = signed(short(record, &mut at)?);
        let offset_delta = signed(short(record, &mut at)?);
        let tail = at;
        let key_length = field_length(short(record, &mut at)?)?;
        let key = at..at + key_length;
        at = key.end;
        at += field_length(short(record, &mut at)?)?;
        (record.get(at..)? == NO_HEADERS).then_some(Self { timestamp_delta, offset_delta, tail, key, end })
    }
}

/// Returns the number at `at`, zigzagged, and goes on behind it; `None` if it takes more than two bytes.
#[inline]
fn short(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let first = usize::from(*bytes.get(*at)?);
    if first < 0x80 {
        *at += 1;
        return Some(first);
    }
    let second = usize::from(*bytes.get(*at + 1)?);
    *at += 2;
    (second < 0x80).then_some(first & 0x7f | second << 7)
}

#[inline]
const fn signed(zigzagged: usize) -> i32 {
    // It has 14 bits.
    let number = zigzagged as i32;
    (number >> 1) ^ -(number & 1)
}

/// The length of a key or value; 0 for none, which is stated as -1. `None` for other negative lengths.
#[inline]
const fn field_length(zigzagged: usize) -> Option<usize> {
    match zigzagged {
        1 => Some(0),
        even if even.is_multiple_of(2) => Some(even / 2),
        _ => None,
    }
}

/// The end of a record without headers.
const NO_HEADERS: &[u8] = &[0];
