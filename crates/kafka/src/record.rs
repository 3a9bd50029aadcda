//! The records of a batch that are not compressed.
//!
//! ```text
//! record  ├─ length, varint ─┬─ attributes 0 ─┬─ timestamp delta, varlong ─┬─ offset delta, varint ─┬─ key ─┬─ value ─┬─ headers ─┤
//! key, value  ├─ length, varint, -1 for none ─┬─ bytes ─┤
//! headers     ├─ count, varint ─┬─ each: key, value ─┤
//! ```

use std::ops::Range;

use bytes::BufMut;

use crate::plain_record::PlainRecord;
use crate::read::{Malformed, Reader};
use crate::write;

/// One record, borrowed from the bytes of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Milliseconds after the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Its place in the batch.
    pub offset_delta: i32,
    /// The key, if it has one.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Its headers.
    pub headers: Headers<'a>,
}

/// Name and value of a header. Brokers take names that are not UTF-8, and values that are none.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// The headers of a record that was read to its end, so each of them is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    /// Number of headers whose names are UTF-8.
    count: u32,
    /// Number of all headers.
    total: u32,
    bytes: &'a [u8],
}

/// The records in some bytes, up to the first that is not one.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// The records in `bytes`, which are not compressed.
    #[must_use]
    pub const fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Records<'a> {
    /// The bytes of the records that have not been given; none after one that can't be read.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// Returns the bytes of the first record, with its length before it; `None` if `bytes` end within them.
///
/// # Errors
/// Its length is not one.
pub fn first(bytes: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    const WHAT: &str = "length of a record";
    let mut reader = Reader::new(bytes, true);
    let length = match reader.varint(WHAT) {
        Ok(length) => usize::try_from(length).map_err(|_negative| Malformed(WHAT))?,
        Err(_) if bytes.len() < VARINT_MAX => return Ok(None),
        Err(error) => return Err(error),
    };
    let head = bytes.len() - reader.rest().len();
    Ok(bytes.get(..head + length))
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = split(self.rest).and_then(|(record, rest)| {
            self.rest = rest;
            Record::read(record)
        });
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}

impl<'a> Record<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, true);
        reader.i8("attributes of a record")?;
        let record = Self {
            timestamp_delta: reader.varlong("timestamp of a record")?,
            offset_delta: reader.varint("offset of a record")?,
            key: field(&mut reader, "key of a record")?,
            value: field(&mut reader, "value of a record")?,
            headers: Headers::read(&mut reader)?,
        };
        match reader.rest().is_empty() {
            true => Ok(record),
            false => Err(Malformed("end of a record")),
        }
    }
}

impl<'a> Headers<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let total = reader.varint("count of headers")?;
        let total = u32::try_from(total).map_err(|_negative| Malformed("count of headers"))?;
        let bytes = reader.rest();
        let mut count = 0;
        for _ in 0..total {
            count += u32::from(str::from_utf8(key_of_header(reader)?).is_ok());
            field(reader, "value of a header")?;
        }
        Ok(Self { count, total, bytes: &bytes[..bytes.len() - reader.rest().len()] })
    }

    /// Whether the names of all headers are text.
    #[must_use]
    pub const fn are_all_text(&self) -> bool {
        self.count == self.total
    }

    /// The number of headers whose names are UTF-8.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The number of all headers.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// Name and value of each header whose name is text. A name may be there more than once.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Option<&'a [u8]>)> + use<'a> {
        self.all().filter_map(|(name, value)| Some((str::from_utf8(name).ok()?, value)))
    }

    /// All headers.
    pub fn all(&self) -> impl Iterator<Item = Header<'a>> + Clone + use<'a> {
        let mut reader = Reader::new(self.bytes, true);
        (0..self.total).map_while(move |_| {
            let name = key_of_header(&mut reader).ok()?;
            Some((name, field(&mut reader, "value of a header").ok()?))
        })
    }
}

/// Where a record lies in the bytes that it was found in, and what stands before its tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordPlace {
    /// Milliseconds after the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Its place in the batch.
    pub offset_delta: i32,
    /// Its key; empty if it has none.
    pub key: Range<u32>,
    /// Key, value and headers, each behind its length: what does not depend on the record's place.
    pub tail: Range<u32>,
}

/// The places of the records in some bytes, up to the first that is not one. Of values and headers only the lengths are looked at.
#[derive(Clone, Debug)]
pub struct RecordPlaces<'a> {
    rest: &'a [u8],
    /// Where the rest ends, in the bytes that places count from.
    end: u32,
}

impl<'a> RecordPlaces<'a> {
    /// The records in `bytes`, which are not compressed and shorter than 4 GiB. Places count from the first byte.
    #[must_use]
    pub const fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, end: bytes.len() as u32 }
    }

    /// The same from the byte `at` on, which places still count from the first byte.
    #[must_use]
    pub fn from(bytes: &'a [u8], at: usize) -> Self {
        Self { rest: bytes.get(at..).unwrap_or_default(), end: bytes.len() as u32 }
    }

    /// The next record, and goes on behind it; `None` if no bytes are left. Hot path.
    #[inline]
    pub fn next_place(&mut self) -> Result<Option<RecordPlace>, Malformed> {
        let Some(plain) = PlainRecord::first(self.rest) else {
            return self.next_place_of_any_form();
        };
        let start = self.end - self.rest.len() as u32;
        let place = |at: Range<usize>| start + at.start as u32..start + at.end as u32;
        self.rest = &self.rest[plain.end..];
        Ok(Some(RecordPlace {
            timestamp_delta: plain.timestamp_delta.into(),
            offset_delta: plain.offset_delta,
            key: place(plain.key),
            tail: place(plain.tail..plain.end),
        }))
    }

    fn next_place_of_any_form(&mut self) -> Result<Option<RecordPlace>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (record, rest) = split(self.rest)?;
        let end = self.end - rest.len() as u32;
        let mut reader = Reader::new(record, true);
        reader.i8("attributes of a record")?;
        let timestamp_delta = reader.varlong("timestamp of a record")?;
        let offset_delta = reader.varint("offset of a record")?;
        let tail = end - reader.rest().len() as u32..end;
        let key = field(&mut reader, "key of a record")?;
        let key_end = end - reader.rest().len() as u32;
        let key_length = key.map_or(0, <[u8]>::len) as u32;
        field(&mut reader, "value of a record")?;
        check_headers(&mut reader)?;
        self.rest = rest;
        Ok(Some(RecordPlace { timestamp_delta, offset_delta, key: key_end - key_length..key_end, tail }))
    }

    /// How many bytes of the records have not been given.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }
}

/// Returns the offset delta of the first record without a key, if there is one. The records have been checked.
#[must_use]
pub fn first_without_key(records: &[u8]) -> Option<i32> {
    let mut records = Records::of(records).map_while(Result::ok);
    records.find(|record| record.key.is_none()).map(|record| record.offset_delta)
}

/// Checks that `records` are exactly `count` records, each readable to its end, with offset deltas that count up from 0. Hot path.
///
/// # Errors
/// The part of a record that is not as it must be.
pub fn check(records: &[u8], count: i32) -> Result<(), Malformed> {
    let mut rest = records;
    for offset_delta in 0..count {
        let (found, after) = match PlainRecord::first(rest) {
            Some(plain) => (plain.offset_delta, &rest[plain.end..]),
            None => {
                let (record, after) = split(rest)?;
                (Record::read(record)?.offset_delta, after)
            }
        };
        if found != offset_delta {
            return Err(Malformed("offset of a record"));
        }
        rest = after;
    }
    match rest {
        [] => Ok(()),
        _ => Err(Malformed("end of the records")),
    }
}

/// Appends a record with the broker's timestamp to a batch: `headers` gives name and value of each header.
pub fn encode<'h>(
    out: &mut Vec<u8>,
    offset_delta: u32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: impl Iterator<Item = Header<'h>> + Clone,
) {
    let offset_delta = offset_delta.cast_signed();
    let tail = tail_length(key, value, headers.clone());
    let length = 2 + write::varint_length(offset_delta) + tail;
    write::varint(out, i32::try_from(length).unwrap_or(i32::MAX));
    out.extend_from_slice(&[0, 0]);
    write::varint(out, offset_delta);
    encode_tail(out, key, value, headers);
}

/// Appends the tail of a record, which is what does not depend on its place: key, value and headers.
pub fn encode_tail<'h>(
    out: &mut impl BufMut,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: impl Iterator<Item = Header<'h>> + Clone,
) {
    put_field(out, key);
    put_field(out, value);
    let mut count = write::Head::default();
    count.varint(i32::try_from(headers.clone().count()).unwrap_or(i32::MAX));
    out.put_slice(count.as_slice());
    for (name, value) in headers {
        put_field(out, Some(name));
        put_field(out, value);
    }
}

/// How many bytes [`encode_tail`] appends.
pub fn tail_length<'h>(
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: impl Iterator<Item = Header<'h>>,
) -> usize {
    let (mut count, mut bytes) = (0_i32, 0);
    for (name, value) in headers {
        count += 1;
        bytes += field_length(Some(name)) + field_length(value);
    }
    field_length(key) + field_length(value) + write::varint_length(count) + bytes
}

/// The record at the start of `bytes` without its own length, and the bytes after it.
#[inline]
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    const WHAT: &str = "length of a record";
    let mut reader = Reader::new(bytes, true);
    let length = usize::try_from(reader.varint(WHAT)?).map_err(|_negative| Malformed(WHAT))?;
    Ok((reader.take(length, WHAT)?, reader.rest()))
}

/// Checks that nothing but headers is left of a record.
fn check_headers(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    Headers::read(reader)?;
    match reader.rest().is_empty() {
        true => Ok(()),
        false => Err(Malformed("end of a record")),
    }
}

fn key_of_header<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    const WHAT: &str = "key of a header";
    field(reader, WHAT)?.ok_or(Malformed(WHAT))
}

/// A key or a value.
pub(crate) fn field<'a>(reader: &mut Reader<'a>, what: &'static str) -> Result<Option<&'a [u8]>, Malformed> {
    match reader.varint(what)? {
        -1 => Ok(None),
        length => {
            let length = usize::try_from(length).map_err(|_negative| Malformed(what))?;
            reader.take(length, what).map(Some)
        }
    }
}

#[inline]
fn put_field(out: &mut impl BufMut, bytes: Option<&[u8]>) {
    let mut length = write::Head::default();
    length.varint(length_of(bytes));
    out.put_slice(length.as_slice());
    out.put_slice(bytes.unwrap_or_default());
}

fn field_length(bytes: Option<&[u8]>) -> usize {
    write::varint_length(length_of(bytes)) + bytes.map_or(0, <[u8]>::len)
}

fn length_of(bytes: Option<&[u8]>) -> i32 {
    bytes.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap_or(i32::MAX))
}

/// Longest encoding of a length, in bytes.
const VARINT_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use kafka_protocol::records::RecordBatchDecoder;
    use proptest::prelude::*;

    use super::*;
    use crate::record_batch::{RecordBatch, complete};
    use crate::record_tail::RecordTail;

    type OwnedHeader = (String, Vec<u8>);
    type OwnedRecord = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<OwnedHeader>);

    fn batch(records: &[OwnedRecord]) -> Vec<u8> {
        let mut out = vec![0; RecordBatch::HEADER_LENGTH];
        for (delta, (key, value, headers)) in (0..).zip(records) {
            let headers = headers.iter().map(|(key, value)| (key.as_bytes(), Some(value.as_slice())));
            encode(&mut out, delta, key.as_deref(), value.as_deref(), headers);
        }
        complete(&mut out, 500, 1, records.len() as u32, 1_700_000_000_000);
        out
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..200)
    }

    fn record() -> impl Strategy<Value = OwnedRecord> {
        let headers = proptest::collection::vec(("[a-z]{0,9}", bytes()), 0..4);
        (proptest::option::of(bytes()), proptest::option::of(bytes()), headers)
    }

    /// Checks that places are those of the records, up to the first that can't be read.
    fn agree_on_places(bytes: &[u8]) -> Result<(), TestCaseError> {
        let mut places = RecordPlaces::of(bytes);
        for record in Records::of(bytes) {
            let place = places.next_place();
            prop_assert_eq!(record.map(drop), place.clone().map(drop));
            let (Ok(record), Ok(Some(place))) = (record, place) else {
                return Ok(());
            };
            prop_assert_eq!(
                (record.offset_delta, record.timestamp_delta),
                (place.offset_delta, place.timestamp_delta)
            );
            prop_assert_eq!(place.tail.end as usize, bytes.len() - places.remaining());
            let tail = RecordTail::read(&bytes[place.tail.start as usize..place.tail.end as usize]);
            prop_assert!(tail.is_ok());
            let key = place.key.start as usize..place.key.end as usize;
            prop_assert_eq!(record.key.unwrap_or_default(), &bytes[key]);
        }
        prop_assert_eq!(places.next_place(), Ok(None));
        Ok(())
    }

    proptest! {
        #[test]
        fn places_of_damaged_records_are_those_that_can_be_read(
            records in proptest::collection::vec(record(), 1..5), at: prop::sample::Index, byte: u8,
        ) {
            let mut bytes = batch(&records).split_off(RecordBatch::HEADER_LENGTH);
            *at.get_mut(&mut bytes) = byte;
            agree_on_places(&bytes)?;
            let read: Result<Vec<_>, _> = Records::of(&bytes).collect();
            let are_in_order = read.is_ok_and(|read| {
                read.len() == records.len() && read.iter().map(|record| record.offset_delta).eq(0..read.len() as i32)
            });
            prop_assert_eq!(check(&bytes, records.len() as i32).is_ok(), are_in_order);
        }

        #[test]
        fn what_is_written_is_read_here_and_by_another_implementation(
            records in proptest::collection::vec(record(), 1..20),
        ) {
            let bytes = batch(&records);
            let read = RecordBatch::read(&bytes).unwrap();
            prop_assert_eq!(check(read.records(), records.len() as i32), Ok(()));
            prop_assert_eq!(Records::of(read.records()).count(), records.len());
            let decoded = RecordBatchDecoder::decode(&mut bytes::Bytes::from(bytes.clone())).unwrap().records;
            prop_assert_eq!(decoded.len(), records.len());
            let mut places = RecordPlaces::of(read.records());
            for (index, ((own, other), (key, value, headers))) in
                Records::of(read.records()).zip(decoded).zip(&records).enumerate()
            {
                let own = own.unwrap();
                prop_assert_eq!((own.key, own.value), (key.as_deref(), value.as_deref()));
                let place = places.next_place().unwrap().unwrap();
                let part = |range: &Range<u32>| &read.records()[range.start as usize..range.end as usize];
                prop_assert_eq!(part(&place.key), key.as_deref().unwrap_or_default());
                prop_assert_eq!(place.offset_delta, index as i32);
                let mut tail = Vec::new();
                encode_tail(&mut tail, key.as_deref(), value.as_deref(), headers.iter().map(|(key, value)| (key.as_bytes(), Some(value.as_slice()))));
                prop_assert_eq!(part(&place.tail), tail);
                prop_assert_eq!((other.key.as_deref(), other.value.as_deref()), (key.as_deref(), value.as_deref()));
                prop_assert_eq!((other.offset, other.timestamp), (500 + index as i64, 1_700_000_000_000));
                let read: Vec<_> = own.headers.iter().collect();
                let written: Vec<_> = headers.iter().map(|(key, value)| (key.as_str(), Some(value.as_slice()))).collect();
                prop_assert_eq!(read, written);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, count in 0_i32..100) {
            let _ = check(&bytes, count);
            agree_on_places(&bytes)?;
            for record in Records::of(&bytes).flatten() {
                prop_assert_eq!(record.headers.iter().count(), record.headers.count() as usize);
            }
        }
    }
}
