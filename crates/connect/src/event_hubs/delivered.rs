//! What is where in a received message. Hot path.
//!
//! ```text
//!   [header] [delivery annotations] message annotations | properties  application properties  body  footer
//!                                   ^ what the service   ^ what a sink forwards
//!                                     says of the event
//! ```
//!
//! What is forwarded is forwarded as it is, from where it lies; only where something to be left behind lies in its midst is
//! it copied.

use std::ops::Range;

use amqp::DecodeError;
use amqp::codec::{Reader, code};
use amqp::message::{SectionKind, Sections, is_data_section};
use bytes::Bytes;

use crate::event::{EnqueuedTime, EventParts};
use crate::service::{KeptAnnotations, copy_forwarded, is_forwarded};

/// Finds the parts of a message of any shape that starts at `start` of its chunk. Where what is to be forwarded does not lie
/// together, they are in a copy, which is returned with them.
///
/// # Errors
/// When the message is malformed or has no sequence number.
pub(super) fn locate(message: &[u8], start: u32) -> Result<(Option<Bytes>, EventParts), DecodeError> {
    let located = Located::find(message)?;
    if located.together {
        return Ok((None, located.parts(start)));
    }
    let (copy, parts) = gather(message, located)?;
    Ok((Some(copy), parts))
}

/// Copies the parts of a message whose sections to forward do not lie together into a chunk of their own.
#[cold]
fn gather(message: &[u8], located: Located) -> Result<(Bytes, EventParts), DecodeError> {
    let mut chunk = Vec::with_capacity(message.len());
    let mut copy = |range: &Range<usize>| {
        let start = chunk.len();
        chunk.extend_from_slice(&message[range.clone()]);
        start..chunk.len()
    };
    let partition_key = copy(&located.partition_key);
    let offset = copy(&located.offset);
    let forwarded_from = offset.end;
    located.kept.put(message, &mut chunk);
    copy_forwarded(message, &mut chunk)?;
    let gathered =
        Located { message: forwarded_from..chunk.len(), partition_key, offset, together: true, ..located };
    let parts = gathered.parts(0);
    Ok((Bytes::from(chunk), parts))
}

/// The shape that nearly all events have: annotations that are all known here, and one Data section. `None` for any other.
#[inline]
pub(super) fn locate_usual(message: &[u8], start: u32) -> Option<EventParts> {
    let annotations = Annotations::in_usual_order(message).or_else(|| Annotations::in_any_order(message))?;
    let end = annotations.end;
    if !is_data_section(&message[end..]) {
        return None;
    }
    let Annotations { sequence_number, enqueued_ms, offset, partition_key, .. } = annotations;
    Some(EventParts {
        message: start + end as u32..start + message.len() as u32,
        partition_key: start + partition_key.start..start + partition_key.end,
        offset: start + offset.start..start + offset.end,
        sequence_number,
        enqueued_time: EnqueuedTime::from_unix_ms(enqueued_ms),
    })
}

/// What the annotations in front of a message say, all of which are known here.
struct Annotations {
    /// Where the section ends.
    end: usize,
    sequence_number: i64,
    enqueued_ms: i64,
    offset: Range<u32>,
    partition_key: Range<u32>,
}

impl Annotations {
    /// Sequence number, time and offset, one after the other, as Parshall's own service writes them: a few comparisons with
    /// what is always the same.
    #[inline]
    fn in_usual_order(message: &[u8]) -> Option<Self> {
        let fixed = message.first_chunk::<DIGITS_AT>()?;
        let differs = (0..DIGITS_AT).fold(0, |any, at| any | (fixed[at] ^ USUAL[at]) & USUAL_MASK[at]);
        let end = DIGITS_AT + usize::from(fixed[DIGITS_AT - 1]);
        if differs != 0 || end != 5 + usize::from(fixed[SIZE_AT]) || end > message.len() {
            return None;
        }
        let number = |at: usize| fixed[at..].first_chunk().map(|bytes| i64::from_be_bytes(*bytes));
        Some(Self {
            end,
            sequence_number: number(SEQUENCE_AT)?,
            enqueued_ms: number(TIME_AT)?,
            offset: DIGITS_AT as u32..end as u32,
            partition_key: 0..0,
        })
    }

    fn in_any_order(message: &[u8]) -> Option<Self> {
        let (end, count, mut at) = match *message {
            [code::DESCRIBED, code::SMALL_ULONG, 0x72, code::MAP_8, size, count, ..] => {
                (5 + usize::from(size), u32::from(count), 6)
            }
            [code::DESCRIBED, code::SMALL_ULONG, 0x72, code::MAP_32, a, b, c, d, e, f, g, h, ..] => {
                let size = u32::from_be_bytes([a, b, c, d]) as usize;
                (8_usize.checked_add(size)?, u32::from_be_bytes([e, f, g, h]), 12)
            }
            _ => return None,
        };
        let annotations = message.get(..end)?;
        let (mut sequence_number, mut enqueued_ms) = (None, 0);
        let (mut offset, mut partition_key) = (0..0, 0..0);
        for _ in 0..count / 2 {
            let [code::SYMBOL_8, length, key @ ..] = annotations.get(at..)? else {
                return None;
            };
            at += 2 + usize::from(*length);
            let value = annotations.get(at..)?;
            match *length {
                21 if key.starts_with(SEQUENCE_NUMBER) => match *value {
                    [code::LONG, a, b, c, d, e, f, g, h, ..] => {
                        sequence_number = Some(i64::from_be_bytes([a, b, c, d, e, f, g, h]));
                        at += 9;
                    }
                    [code::SMALL_LONG, small, ..] => {
                        sequence_number = Some(i64::from(small.cast_signed()));
                        at += 2;
                    }
                    _ => return None,
                },
                19 if key.starts_with(ENQUEUED_TIME) => {
                    let [code::TIMESTAMP, a, b, c, d, e, f, g, h, ..] = *value else {
                        return None;
                    };
                    enqueued_ms = i64::from_be_bytes([a, b, c, d, e, f, g, h]);
                    at += 9;
                }
                12 if key.starts_with(OFFSET) => offset = short_string(value, &mut at)?,
                19 if key.starts_with(PARTITION_KEY) => partition_key = short_string(value, &mut at)?,
                _ => return None,
            }
        }
        let sequence_number = sequence_number.filter(|_| at == end)?;
        Some(Self { end, sequence_number, enqueued_ms, offset, partition_key })
    }
}

/// The text of the string that `value`, which is at `at`, begins with.
#[inline]
fn short_string(value: &[u8], at: &mut usize) -> Option<Range<u32>> {
    let [code::STRING_8, length, text @ ..] = value else {
        return None;
    };
    let length = usize::from(*length);
    if text.len() < length {
        return None;
    }
    let from = *at + 2;
    *at = from + length;
    // A message is smaller than 4 GiB: the engine counts in 32 bits, too.
    Some(from as u32..(from + length) as u32)
}

/// Where things are in a message of any shape.
struct Located {
    sequence_number: i64,
    enqueued_ms: i64,
    offset: Range<usize>,
    partition_key: Range<usize>,
    /// From the first section to forward to the last.
    message: Range<usize>,
    /// Whether nothing else lies between them.
    together: bool,
    /// The annotations that go on.
    kept: KeptAnnotations,
}

impl Located {
    #[cold]
    fn find(message: &[u8]) -> Result<Self, DecodeError> {
        let mut located = Self {
            sequence_number: 0,
            enqueued_ms: 0,
            offset: 0..0,
            partition_key: 0..0,
            message: 0..0,
            together: true,
            kept: KeptAnnotations::default(),
        };
        let mut sequence_number = None;
        let mut forwarded: Option<Range<usize>> = None;
        let mut end = 0;
        for section in Sections::new(message) {
            let section = section?;
            let start = end;
            end += section.encoded.len();
            if section.kind == SectionKind::MessageAnnotations {
                sequence_number = located.read_annotations(section.value, end)?.or(sequence_number);
            } else if is_forwarded(section.kind) {
                let range = forwarded.get_or_insert(start..start);
                located.together &= range.end == start;
                range.end = end;
            }
        }
        located.sequence_number =
            sequence_number.ok_or(DecodeError::MissingField("x-opt-sequence-number"))?;
        located.message = forwarded.unwrap_or(end..end);
        located.together &= located.kept.is_empty();
        Ok(located)
    }

    /// Reads the annotations in `value`, which ends at `end` of the message, and returns the sequence number.
    fn read_annotations(&mut self, value: &[u8], end: usize) -> Result<Option<i64>, DecodeError> {
        let mut sequence_number = None;
        let Some(mut entries) = Reader::new(value).map()? else {
            return Ok(None);
        };
        while let Some(reader) = entries.entry() {
            let name_left = reader.rest().len();
            // The specification also has numbers as keys; none that we know.
            let key = match reader.peek()? {
                code::SYMBOL_8 | code::SYMBOL_32 | code::STRING_8 | code::STRING_32 => reader.text()?,
                _ => {
                    reader.skip()?;
                    None
                }
            };
            let mut text = || -> Result<Range<usize>, DecodeError> {
                match reader.peek()? {
                    code::STRING_8 | code::STRING_32 => {
                        let length = reader.string()?.map_or(0, str::len);
                        let text_end = end - reader.rest().len();
                        Ok(text_end - length..text_end)
                    }
                    _ => reader.skip().map(|()| 0..0),
                }
            };
            match key.map(str::as_bytes) {
                Some(OFFSET) => self.offset = text()?,
                Some(PARTITION_KEY) => self.partition_key = text()?,
                Some(SEQUENCE_NUMBER) => sequence_number = reader.value()?.as_integer(),
                Some(ENQUEUED_TIME) => self.enqueued_ms = reader.value()?.as_integer().unwrap_or(0),
                Some(name) => self.kept.take(name, reader, name_left, end)?,
                None => reader.skip()?,
            }
        }
        Ok(sequence_number)
    }

    fn parts(&self, start: u32) -> EventParts {
        // As with `short_string`.
        let within = |range: &Range<usize>| start + range.start as u32..start + range.end as u32;
        EventParts {
            message: within(&self.message),
            partition_key: within(&self.partition_key),
            offset: within(&self.offset),
            sequence_number: self.sequence_number,
            enqueued_time: EnqueuedTime::from_unix_ms(self.enqueued_ms),
        }
    }
}

const SEQUENCE_NUMBER: &[u8] = b"x-opt-sequence-number";
const OFFSET: &[u8] = b"x-opt-offset";
const ENQUEUED_TIME: &[u8] = b"x-opt-enqueued-time";
const PARTITION_KEY: &[u8] = b"x-opt-partition-key";

/// Annotations in the usual order up to the offset's digits, with zeros for what differs from event to event.
const USUAL: &[u8; DIGITS_AT] = b"\x00\x53\x72\xc1\0\x06\
    \xa3\x15x-opt-sequence-number\x81\0\0\0\0\0\0\0\0\
    \xa3\x13x-opt-enqueued-time\x83\0\0\0\0\0\0\0\0\
    \xa3\x0cx-opt-offset\xa1\0";

/// Which bits of the above are the same for all events.
const USUAL_MASK: &[u8; DIGITS_AT] = &{
    let mut mask = [u8::MAX; DIGITS_AT];
    mask[SIZE_AT] = 0;
    mask[DIGITS_AT - 1] = 0;
    let mut byte = 0;
    while byte < 8 {
        mask[SEQUENCE_AT + byte] = 0;
        mask[TIME_AT + byte] = 0;
        byte += 1;
    }
    mask
};

/// Where things are in it: the size of the map, the values, and the digits, whose count is in front of them.
const SIZE_AT: usize = 4;
const SEQUENCE_AT: usize = 6 + 2 + 21 + 1;
const TIME_AT: usize = SEQUENCE_AT + 8 + 2 + 19 + 1;
const DIGITS_AT: usize = TIME_AT + 8 + 2 + 12 + 2;

const _: () = assert!(SEQUENCE_NUMBER.len() == 21 && OFFSET.len() == 12);
const _: () = assert!(ENQUEUED_TIME.len() == 19 && PARTITION_KEY.len() == 19);

#[cfg(test)]
mod tests {
    use amqp::message::{Properties, encode};
    use amqp::performative::descriptor;
    use amqp::{Symbol, Value};
    use proptest::prelude::*;

    use super::*;

    fn annotations(sequence_number: i64, partition_key: Option<&str>) -> Vec<(Symbol, Value)> {
        let mut entries = vec![
            (Symbol::from("x-opt-sequence-number"), Value::Long(sequence_number)),
            (Symbol::from("x-opt-offset"), Value::String(sequence_number.to_string())),
            (Symbol::from("x-opt-enqueued-time"), Value::Timestamp(1_700_000_000_123)),
        ];
        if let Some(key) = partition_key {
            entries.push((Symbol::from("x-opt-partition-key"), Value::from(key)));
        }
        entries
    }

    /// The annotations in the one-byte form, as a service that saves bytes sends them.
    fn short_annotations(out: &mut Vec<u8>, entries: &[(Symbol, Value)]) {
        let mut body = vec![u8::try_from(entries.len() * 2).unwrap()];
        for (key, value) in entries {
            amqp::codec::write::symbol(&mut body, key.as_str());
            amqp::codec::write::value(&mut body, value);
        }
        out.extend_from_slice(&[0x00, 0x53, 0x72, 0xc1, u8::try_from(body.len()).unwrap()]);
        out.extend_from_slice(&body);
    }

    fn data(payload: &[u8]) -> Vec<u8> {
        let mut section = Vec::new();
        encode::data(&mut section, payload);
        section
    }

    struct Read<'a> {
        message: &'a [u8],
        partition_key: &'a [u8],
        offset: &'a [u8],
        sequence_number: i64,
    }

    fn read<'a>(chunk: &'a [u8], parts: &EventParts) -> Read<'a> {
        let slice = |range: &Range<u32>| &chunk[range.start as usize..range.end as usize];
        assert_eq!(parts.enqueued_time.unix_ms(), 1_700_000_000_123);
        Read {
            message: slice(&parts.message),
            partition_key: slice(&parts.partition_key),
            offset: slice(&parts.offset),
            sequence_number: parts.sequence_number,
        }
    }

    #[test]
    fn the_usual_shape_is_found_without_walking_sections() {
        for (sequence_number, key, payload) in
            [(7, None, &[9; 16][..]), (-1, Some("key"), &[]), (i64::MAX, Some(""), &[1; 300])]
        {
            let mut chunk = vec![0xff; 10];
            short_annotations(&mut chunk, &annotations(sequence_number, key));
            chunk.extend(data(payload));
            let parts = locate_usual(&chunk[10..], 10).expect("the usual shape");
            let found = read(&chunk, &parts);
            assert_eq!(found.message, data(payload));
            assert_eq!(found.partition_key, key.unwrap_or_default().as_bytes());
            assert_eq!(found.offset, sequence_number.to_string().as_bytes());
            assert_eq!(found.sequence_number, sequence_number);
            let general = Located::find(&chunk[10..]).unwrap().parts(10);
            assert_eq!((general.message, general.offset), (parts.message, parts.offset));
            let mut wide = vec![0xff; 10];
            encode::message_annotations(&mut wide, &annotations(sequence_number, key));
            wide.extend(data(payload));
            let parts = locate_usual(&wide[10..], 10).expect("the usual shape");
            assert_eq!(read(&wide, &parts).message, data(payload));
        }
    }

    #[test]
    fn the_usual_order_is_found_by_comparison() {
        for sequence_number in [0, 7, i64::MAX] {
            let mut entries = annotations(sequence_number, None);
            entries.swap(1, 2);
            let mut message = Vec::new();
            // Always eight bytes wide, as a template is.
            short_annotations(&mut message, &entries[1..]);
            let number = [&b"\xa3\x15x-opt-sequence-number\x81"[..], &sequence_number.to_be_bytes()].concat();
            message[4] += number.len() as u8;
            message[5] += 2;
            message.splice(6..6, number);
            let end = message.len();
            message.extend(data(b"payload"));
            let found = Annotations::in_usual_order(&message).expect("the usual order");
            assert_eq!(found.end, end);
            let parts = locate_usual(&message, 0).unwrap();
            assert_eq!(locate(&message, 0).unwrap(), (None, parts));
            for cut in 0..end {
                assert!(Annotations::in_usual_order(&message[..cut]).is_none());
            }
        }
    }

    #[test]
    fn other_shapes_are_found_too_and_what_is_for_this_hop_stays_behind() {
        let mut chunk = Vec::new();
        chunk.extend_from_slice(&[0x00, 0x53, 0x70, 0xc0, 0x02, 0x01, 0x41]); // header: durable
        chunk.extend_from_slice(&[0x00, 0x53, 0x71, 0xc1, 0x01, 0x00]); // delivery annotations: none
        let mut entries = annotations(41, Some("key"));
        entries.insert(0, (Symbol::from("x-opt-trace"), Value::List(vec![Value::Null])));
        encode::message_annotations(&mut chunk, &entries);
        let start = chunk.len();
        Properties { subject: Some("subject".into()), ..Properties::default() }.encode(&mut chunk);
        encode::application_properties(&mut chunk, &[("colour", Value::from("red"))]);
        chunk.extend(data(b"payload"));
        chunk.extend(data(b"more"));
        let (copy, parts) = locate(&chunk, 0).unwrap();
        assert_eq!(copy, None, "the sections lie together");
        let read = read(&chunk, &parts);
        assert_eq!(read.message, &chunk[start..]);
        assert_eq!((read.partition_key, read.offset, read.sequence_number), (&b"key"[..], &b"41"[..], 41));
    }

    #[test]
    fn sections_that_do_not_lie_together_are_copied() {
        let mut chunk = data(b"first");
        encode::message_annotations(&mut chunk, &annotations(5, Some("key")));
        chunk.extend(data(b"second"));
        let (copy, parts) = locate(&chunk, 0).unwrap();
        let copy = copy.expect("sections that do not lie together");
        let read = read(&copy, &parts);
        assert_eq!(read.message, [data(b"first"), data(b"second")].concat());
        assert_eq!((read.partition_key, read.offset, read.sequence_number), (&b"key"[..], &b"5"[..], 5));
    }

    #[test]
    fn annotations_at_the_end_leave_the_rest_in_place() {
        let mut chunk = data(b"first");
        encode::message_annotations(&mut chunk, &annotations(5, None));
        let (copy, parts) = locate(&chunk, 0).unwrap();
        assert_eq!(copy, None, "the sections lie together");
        assert_eq!(read(&chunk, &parts).message, data(b"first"));
    }

    #[test]
    fn an_event_without_a_sequence_number_is_an_error() {
        let missing = Err(DecodeError::MissingField("x-opt-sequence-number"));
        assert_eq!(locate(&data(b"payload"), 0), missing);
        let mut chunk = Vec::new();
        short_annotations(&mut chunk, &annotations(5, None)[1..]);
        chunk.extend(data(b"payload"));
        assert_eq!(locate(&chunk, 0), missing);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_what_is_found_lies_within(
            mut message in prop::collection::vec(any::<u8>(), 0..80),
            cut in 0_usize..150,
            change in prop::option::of((0_usize..150, any::<u8>())),
            random: bool,
        ) {
            if !random {
                message.clear();
                short_annotations(&mut message, &annotations(300, Some("key")));
                message.extend(data(b"payload"));
                message.truncate(cut);
                if let Some((at, byte)) = change && let Some(changed) = message.get_mut(at) {
                    *changed = byte;
                }
            }
            let usual = locate_usual(&message, 0);
            let located = locate(&message, 0);
            // The usual shape is found without a look at whether the offset is text.
            if let (Some(parts), Ok(located)) = (&usual, &located) {
                prop_assert_eq!(located, &(None, parts.clone()));
            }
            if let Ok((copy, parts)) = located {
                let chunk = copy.as_deref().unwrap_or(&message);
                for range in [parts.message, parts.partition_key, parts.offset] {
                    prop_assert!(chunk.get(range.start as usize..range.end as usize).is_some());
                }
            }
        }
    }

    #[test]
    fn the_descriptors_are_the_specifications() {
        assert_eq!((descriptor::MESSAGE_ANNOTATIONS, descriptor::DATA), (0x72, 0x75));
    }
}
