//! What is where in a received message. Hot path.
//!
//! ```text
//!   header            [delivery annotations]  message annotations        properties  application properties  body  footer
//!   └ delivery count                          └ number, times, lock      └ what a sink forwards
//! ```

use std::ops::Range;

use amqp::DecodeError;
use amqp::codec::{Reader, code};
use amqp::message::{SectionKind, Sections, is_data_section};
use bytes::Bytes;

use crate::event::{EnqueuedTime, EventParts};
use crate::service::{KeptAnnotations, copy_forwarded, is_forwarded};

/// A message that was received.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) parts: EventParts,
    /// How often it was delivered before.
    pub(super) delivery_count: u32,
    /// Until when it is locked: milliseconds since the Unix epoch by the service's clock, where it says so.
    pub(super) locked_until_ms: Option<i64>,
}

/// The shape that nearly all messages of Parshall's own service have, found by comparison with what is always the same: a
/// header, a token and annotations of the service alone, then perhaps properties, and one Data section. `None` for any other.
#[inline]
pub(super) fn locate_usual(message: &[u8], start: u32) -> Option<Received> {
    let head = message.first_chunk::<SECTIONS_AT>()?;
    let is_usual = head[..TOKEN_AT] == *BEFORE_TOKEN
        && head[TOKEN_AT + 16..SEQUENCE_AT] == *BEFORE_SEQUENCE
        && head[SEQUENCE_AT + 8..FIRST_SEQUENCE_AT] == *BEFORE_FIRST_SEQUENCE
        && head[FIRST_SEQUENCE_AT + 8..ENQUEUED_AT] == *BEFORE_ENQUEUED
        && head[ENQUEUED_AT + 8..LOCKED_AT] == *BEFORE_LOCKED;
    if !is_usual {
        return None;
    }
    let number = |at: usize| head[at..].first_chunk().map(|bytes| i64::from_be_bytes(*bytes));
    let sections = &message[SECTIONS_AT..];
    let body = match sections {
        [code::DESCRIBED, code::SMALL_ULONG, 0x73, code::LIST_8, size, properties @ ..] => {
            properties.get(usize::from(*size)..)?
        }
        _ => sections,
    };
    if !is_data_section(body) {
        return None;
    }
    Some(Received {
        parts: EventParts {
            message: start + SECTIONS_AT as u32..start + message.len() as u32,
            partition_key: 0..0,
            offset: 0..0,
            sequence_number: number(SEQUENCE_AT)?,
            enqueued_time: EnqueuedTime::from_unix_ms(number(ENQUEUED_AT)?),
        },
        delivery_count: 0,
        locked_until_ms: Some(number(LOCKED_AT)?),
    })
}

/// Finds the parts of a message of any shape that starts at `start` of its chunk. Where something that is not forwarded lies
/// in the midst of what is, they are in a copy, which is returned with them.
///
/// # Errors
/// When the message is malformed or has no sequence number.
pub(super) fn locate(message: &[u8], start: u32) -> Result<(Received, Option<Bytes>), DecodeError> {
    let mut annotations = Annotations::default();
    let mut delivery_count = 0;
    let mut forwarded: Option<Range<usize>> = None;
    let mut scattered = false;
    let mut end = 0;
    for section in Sections::new(message) {
        let section = section?;
        let begin = end;
        end += section.encoded.len();
        match section.kind {
            SectionKind::Header => delivery_count = read_delivery_count(section.value)?,
            SectionKind::MessageAnnotations => annotations.read(section.value, end)?,
            kind if is_forwarded(kind) => {
                let range = forwarded.get_or_insert(begin..begin);
                scattered |= range.end != begin;
                range.end = end;
            }
            _ => {}
        }
    }
    scattered |= !annotations.kept.is_empty();
    let sequence_number =
        annotations.sequence_number.ok_or(DecodeError::MissingField("x-opt-sequence-number"))?;
    // A message is smaller than 4 GiB: the engine counts in 32 bits, too.
    let within = |range: Range<usize>| start + range.start as u32..start + range.end as u32;
    let mut received = Received {
        parts: EventParts {
            message: within(forwarded.unwrap_or(end..end)),
            partition_key: within(annotations.partition_key),
            offset: 0..0,
            sequence_number,
            enqueued_time: EnqueuedTime::from_unix_ms(annotations.enqueued_ms),
        },
        delivery_count,
        locked_until_ms: annotations.locked_until_ms,
    };
    let copy =
        scattered.then(|| gather(message, &annotations.kept, &mut received.parts, start)).transpose()?;
    Ok((received, copy))
}

/// Copies the parts of a scattered message into a chunk of their own.
///
/// # Errors
/// When the message is malformed.
#[cold]
fn gather(
    message: &[u8],
    kept: &KeptAnnotations,
    parts: &mut EventParts,
    start: u32,
) -> Result<Bytes, DecodeError> {
    let key = &parts.partition_key;
    let key = &message[(key.start - start) as usize..(key.end - start) as usize];
    let mut chunk = Vec::with_capacity(message.len());
    chunk.extend_from_slice(key);
    kept.put(message, &mut chunk);
    copy_forwarded(message, &mut chunk)?;
    parts.partition_key = 0..key.len() as u32;
    parts.message = key.len() as u32..chunk.len() as u32;
    Ok(Bytes::from(chunk))
}

/// The constant prefix of a message of the usual shape: a header of nulls and no delivery, and the heads of the
/// sections, up to the token, the sequence number, that which it had where it was enqueued first, and the instants of enqueuing and of the
/// lock's end.
const BEFORE_TOKEN: &[u8; TOKEN_AT] = b"\x00\x53\x70\xc0\x06\x05\x40\x40\x40\x40\x43\
    \x00\x53\x71\xd1\x00\x00\x00\x27\x00\x00\x00\x02\xa3\x10x-opt-lock-token\x98";
const BEFORE_SEQUENCE: &[u8; 36] =
    b"\x00\x53\x72\xd1\x00\x00\x00\x87\x00\x00\x00\x08\xa3\x15x-opt-sequence-number\x81";
const BEFORE_FIRST_SEQUENCE: &[u8; 32] = b"\xa3\x1dx-opt-enqueue-sequence-number\x81";
const BEFORE_ENQUEUED: &[u8; 22] = b"\xa3\x13x-opt-enqueued-time\x83";
const BEFORE_LOCKED: &[u8; 21] = b"\xa3\x12x-opt-locked-until\x83";

const TOKEN_AT: usize = 42;
const SEQUENCE_AT: usize = TOKEN_AT + 16 + BEFORE_SEQUENCE.len();
const FIRST_SEQUENCE_AT: usize = SEQUENCE_AT + 8 + BEFORE_FIRST_SEQUENCE.len();
const ENQUEUED_AT: usize = FIRST_SEQUENCE_AT + 8 + BEFORE_ENQUEUED.len();
const LOCKED_AT: usize = ENQUEUED_AT + 8 + BEFORE_LOCKED.len();
const SECTIONS_AT: usize = LOCKED_AT + 8;

/// What the service says of a message.
#[derive(Debug, Default)]
struct Annotations {
    sequence_number: Option<i64>,
    enqueued_ms: i64,
    locked_until_ms: Option<i64>,
    partition_key: Range<usize>,
    /// Those that go on.
    kept: KeptAnnotations,
}

impl Annotations {
    /// Reads the annotations in `value`, which ends at `end` of the message.
    fn read(&mut self, value: &[u8], end: usize) -> Result<(), DecodeError> {
        let Some(mut entries) = Reader::new(value).map()? else {
            return Ok(());
        };
        while let Some(reader) = entries.entry() {
            let name_left = reader.rest().len();
            match read_key(reader)? {
                b"x-opt-sequence-number" => self.sequence_number = read_integer(reader)?,
                b"x-opt-enqueued-time" => self.enqueued_ms = read_integer(reader)?.unwrap_or(0),
                b"x-opt-locked-until" => self.locked_until_ms = read_integer(reader)?,
                b"x-opt-partition-key" => match reader.peek()? {
                    code::STRING_8 | code::STRING_32 => {
                        let length = reader.string()?.map_or(0, str::len);
                        let key_end = end - reader.rest().len();
                        self.partition_key = key_end - length..key_end;
                    }
                    _ => reader.skip()?,
                },
                name => self.kept.take(name, reader, name_left, end)?,
            }
        }
        Ok(())
    }
}

/// The bytes of a key. They are only compared with keys that are known, so it does not matter whether they are text. The
/// specification also has numbers as keys; none that we know.
#[inline]
fn read_key<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    match reader.peek()? {
        code::SYMBOL_8 | code::STRING_8 => {
            reader.byte()?;
            let length = reader.byte()?;
            reader.take(usize::from(length))
        }
        code::SYMBOL_32 | code::STRING_32 => Ok(reader.text()?.unwrap_or_default().as_bytes()),
        _ => {
            reader.skip()?;
            Ok(&[])
        }
    }
}

/// A number or an instant of whatever width; none if it is neither.
#[inline]
fn read_integer(reader: &mut Reader<'_>) -> Result<Option<i64>, DecodeError> {
    match reader.peek()? {
        code::LONG => reader.long(),
        code::TIMESTAMP => reader.timestamp(),
        _ => Ok(reader.value()?.as_integer()),
    }
}

/// The fifth field of a header.
fn read_delivery_count(header: &[u8]) -> Result<u32, DecodeError> {
    let Some(mut fields) = Reader::new(header).list()? else {
        return Ok(0);
    };
    for _ in 0..4 {
        fields.skip()?;
    }
    Ok(fields.field(Reader::uint)?.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use amqp::message::{Properties, encode};
    use amqp::{Symbol, Value};
    use proptest::prelude::*;

    use super::*;

    /// A header of four nulls and a delivery count, and annotations.
    fn delivered(delivery_count: u8) -> Vec<u8> {
        let mut message = b"\x00\x53\x70\xc0\x07\x05\x40\x40\x40\x40\x52".to_vec();
        message.push(delivery_count);
        let entries = [
            ("x-opt-sequence-number", Value::Long(7)),
            ("x-opt-enqueued-time", Value::Timestamp(1_700_000_000_123)),
            ("x-opt-locked-until", Value::Timestamp(1_700_000_060_123)),
            ("x-opt-message-state", Value::Int(0)),
            ("x-opt-partition-key", Value::from("key")),
        ];
        let entries = entries.map(|(key, value)| (Symbol::from(key), value));
        encode::message_annotations(&mut message, &entries);
        message
    }

    fn properties(message: &mut Vec<u8>) {
        Properties { message_id: Some(Value::from("m")), ..Properties::default() }.encode(message);
    }

    fn part(bytes: &[u8], range: &Range<u32>, start: u32) -> Vec<u8> {
        bytes[(range.start - start) as usize..(range.end - start) as usize].to_vec()
    }

    #[test]
    fn what_the_service_says_is_found_and_left_behind() {
        let mut message = delivered(3);
        let forwarded_from = message.len();
        properties(&mut message);
        encode::data(&mut message, b"123456789012");
        let (received, copy) = locate(&message, 100).unwrap();
        assert_eq!(received.delivery_count, 3);
        assert_eq!(received.locked_until_ms, Some(1_700_000_060_123));
        assert_eq!(copy, None);
        let parts = received.parts;
        assert_eq!(parts.sequence_number, 7);
        assert_eq!(parts.enqueued_time.unix_ms(), 1_700_000_000_123);
        assert_eq!(part(&message, &parts.message, 100), &message[forwarded_from..]);
        assert_eq!(part(&message, &parts.partition_key, 100), b"key");
    }

    #[test]
    fn what_is_scattered_is_gathered() {
        let mut message = Vec::new();
        properties(&mut message);
        let properties_end = message.len();
        message.extend_from_slice(&delivered(0));
        let body = message.len();
        encode::data(&mut message, b"payload");
        let (received, copy) = locate(&message, 0).unwrap();
        let chunk = copy.expect("a copy of what is scattered");
        assert_eq!(
            part(&chunk, &received.parts.message, 0),
            [&message[..properties_end], &message[body..]].concat()
        );
        assert_eq!(part(&chunk, &received.parts.partition_key, 0), b"key");
    }

    #[test]
    fn a_message_cut_anywhere_is_an_error_or_shorter_but_never_a_panic() {
        let mut message = delivered(1);
        properties(&mut message);
        encode::data(&mut message, b"payload");
        for length in 0..message.len() {
            if let Ok((received, _)) = locate(&message[..length], 0) {
                assert!(received.parts.message.end as usize <= length);
            }
        }
        assert!(locate(b"", 0).is_err(), "without a number");
    }
    /// Properties of which there is an identifier alone, in the short form.
    const SHORT_PROPERTIES: &[u8] = b"\x00\x53\x73\xc0\x04\x01\xa1\x01m";

    /// What Parshall's own service puts in front of a message that it delivers for the first time.
    fn usual_head(numbers: [i64; 3]) -> Vec<u8> {
        let [sequence_number, enqueued_ms, locked_until_ms] = numbers.map(i64::to_be_bytes);
        let mut head = Vec::new();
        for part in [
            &BEFORE_TOKEN[..],
            &[7; 16],
            BEFORE_SEQUENCE,
            &sequence_number,
            BEFORE_FIRST_SEQUENCE,
            &sequence_number,
            BEFORE_ENQUEUED,
            &enqueued_ms,
            BEFORE_LOCKED,
            &locked_until_ms,
        ] {
            head.extend_from_slice(part);
        }
        head
    }

    #[test]
    fn the_usual_shape_is_found_by_comparison() {
        for (has_properties, payload) in [(true, &[1; 12][..]), (false, &[]), (true, &[2; 300])] {
            let mut message = usual_head([7, 1_700_000_000_123, i64::MAX]);
            let forwarded_from = message.len();
            if has_properties {
                message.extend_from_slice(SHORT_PROPERTIES);
            }
            encode::data(&mut message, payload);
            let usual = locate_usual(&message, 100).expect("the usual shape");
            assert_eq!(part(&message, &usual.parts.message, 100), &message[forwarded_from..]);
            assert_eq!(usual.parts.sequence_number, 7);
            assert_eq!(usual.parts.enqueued_time.unix_ms(), 1_700_000_000_123);
            assert_eq!(usual.locked_until_ms, Some(i64::MAX));
            let (general, copy) = locate(&message, 100).unwrap();
            assert_eq!(
                general.parts,
                EventParts { partition_key: general.parts.partition_key.clone(), ..usual.parts }
            );
            assert!(general.parts.partition_key.is_empty());
            assert_eq!(
                (general.delivery_count, general.locked_until_ms, copy),
                (0, usual.locked_until_ms, None)
            );
            for length in 0..message.len() {
                assert!(locate_usual(&message[..length], 0).is_none());
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_usual_is_what_the_general_decoder_finds(
            changes in prop::collection::vec((0_usize..230, any::<u8>()), 0..4),
            cut in prop::option::of(0_usize..230),
        ) {
            let mut message = usual_head([7, 8, 9]);
            message.extend_from_slice(SHORT_PROPERTIES);
            encode::data(&mut message, b"payload");
            for (at, byte) in changes {
                if let Some(changed) = message.get_mut(at) {
                    *changed = byte;
                }
            }
            message.truncate(cut.unwrap_or(message.len()));
            if let Some(usual) = locate_usual(&message, 0) {
                prop_assert!(usual.parts.message.end as usize <= message.len());
                // The usual shape is found without a look into the properties.
                if let Ok((general, _)) = locate(&message, 0) {
                    prop_assert_eq!(usual.parts.message, general.parts.message);
                    prop_assert_eq!(usual.parts.sequence_number, general.parts.sequence_number);
                    prop_assert_eq!(usual.locked_until_ms, general.locked_until_ms);
                    prop_assert_eq!(usual.delivery_count, general.delivery_count);
                }
            }
        }
    }
}
