//! Application properties in the bytes of a message.
//!
//! The section is a map of strings and values, in a short and in a long form, or an empty list or null where there are none. It
//! stays in its form as long as that fits; there is no section where no property is left.

use amqp::DecodeError;
use amqp::codec::{Reader, code};
use amqp::message::{SectionKind, Sections, is_data_section};

use crate::properties::{Entry, Layout, Names, Properties, Unreadable};
use crate::scalar::Scalar;

impl From<DecodeError> for Unreadable {
    fn from(_: DecodeError) -> Self {
        Self
    }
}

/// Finds the properties that are named. Hot path.
pub(crate) fn find(message: &[u8], names: &Names, entries: &mut Vec<Entry>) -> Result<Layout, Unreadable> {
    if is_data_section(message) {
        return Ok(Layout::default());
    }
    let place = |part: &[u8]| u32::try_from(offset_of(message, part)).map_err(|_| Unreadable);
    let mut start = 0;
    let mut is_before = true;
    for section in Sections::new(message) {
        let section = section?;
        let end = place(section.encoded)? + section.encoded.len() as u32;
        match section.kind {
            SectionKind::ApplicationProperties => {
                let start = place(section.encoded)?;
                let map = Reader::new(section.value).map()?.filter(|map| map.remaining() > 0);
                let Some(map) = map else {
                    return Ok(Layout {
                        start,
                        entries_start: end,
                        entries_end: end,
                        end,
                        ..Layout::default()
                    });
                };
                let body = map.rest();
                let count = map.remaining();
                let entries_start = place(body)?;
                let mut reader = Reader::new(body);
                let at = |reader: &Reader<'_>| entries_start + (body.len() - reader.rest().len()) as u32;
                for _ in 0..count {
                    let start = at(&reader);
                    let name = name(&mut reader)?;
                    let value = at(&reader);
                    reader.skip()?;
                    if let Some(slot) = names.find(name) {
                        entries.push(Entry { slot, start, value, end: at(&reader) });
                    }
                }
                let is_long = section.value.first() == Some(&code::MAP_32);
                return Ok(Layout { start, entries_start, entries_end: at(&reader), end, count, is_long });
            }
            SectionKind::Header
            | SectionKind::DeliveryAnnotations
            | SectionKind::MessageAnnotations
            | SectionKind::Properties
                if is_before =>
            {
                start = end;
            }
            _ => is_before = false,
        }
    }
    Ok(Layout { start, entries_start: start, entries_end: start, end: start, ..Layout::default() })
}

/// The next name, whose text is not looked at.
fn name<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    match reader.byte()? {
        code::STRING_8 | code::SYMBOL_8 => {
            let length = reader.byte()?;
            reader.take(usize::from(length))
        }
        code::STRING_32 | code::SYMBOL_32 => {
            let length = reader.take(4)?.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
            reader.take(length)
        }
        found => Err(DecodeError::UnexpectedType { found, expected: "string" }),
    }
}

/// Appends the message with its properties as they are by now.
pub(crate) fn rewrite(properties: &Properties, message: &[u8], names: &Names, out: &mut Vec<u8>) {
    let Layout { start, entries_start, count, is_long, .. } = properties.layout;
    let base = out.len();
    if count > 0 {
        // The section stays where it is, in its form: all but its size and count is in the bytes that are copied.
        let (count, end) = properties.splice(message, 0, names, out);
        let body = base + entries_start as usize;
        if count > 0 && set_size(out, body, end - body, count, is_long) {
            return;
        }
        out.truncate(base);
    }
    out.extend_from_slice(&message[..start as usize]);
    let section = out.len();
    // The short form; size and count come when they are known.
    out.extend_from_slice(&[code::DESCRIBED, code::SMALL_ULONG, 0x74, code::MAP_8, 0, 0]);
    let body = out.len();
    let (count, end) = properties.splice(message, entries_start, names, out);
    if count == 0 {
        out.drain(section..end);
    } else if !set_size(out, body, end - body, count, false) {
        let length = out.len();
        out.extend_from_slice(&[0; LONG_FORM]);
        out.copy_within(body..length, body + LONG_FORM);
        out[body - 3] = code::MAP_32;
        set_size(out, body + LONG_FORM, end - body, count, true);
    }
}

/// Sets size and count of the map whose entries begin at `body` and have so many bytes. Says whether its form has room for them.
fn set_size(out: &mut [u8], body: usize, size: usize, entries: u32, is_long: bool) -> bool {
    let count = 2 * entries;
    if is_long {
        // A message is shorter than 4 GiB.
        out[body - 8..body - 4].copy_from_slice(&(size as u32 + 4).to_be_bytes());
        out[body - 4..body].copy_from_slice(&count.to_be_bytes());
        return true;
    }
    let (Ok(size), Ok(count)) = (u8::try_from(size + 1), u8::try_from(count)) else {
        return false;
    };
    (out[body - 2], out[body - 1]) = (size, count);
    true
}

/// How much longer size and count are in the long form of a map.
const LONG_FORM: usize = 6;

/// The subject and the content type of a message.
pub(crate) fn subject_and_content_type(message: &[u8]) -> (Scalar<'_>, Scalar<'_>) {
    let read = || -> Result<_, DecodeError> {
        for section in Sections::new(message) {
            let section = section?;
            if section.kind != SectionKind::Properties {
                continue;
            }
            let Some(mut fields) = Reader::new(section.value).list()? else { break };
            for _ in 0..3 {
                fields.skip()?;
            }
            let subject = fields.field(Reader::string)?;
            for _ in 0..2 {
                fields.skip()?;
            }
            let content_type = fields.field(Reader::text)?;
            return Ok((subject.map(str::as_bytes), content_type.map(str::as_bytes)));
        }
        Ok((None, None))
    };
    let (subject, content_type) = read().unwrap_or_default();
    (subject.map_or(Scalar::Null, Scalar::Text), content_type.map_or(Scalar::Null, Scalar::Text))
}

/// Where a part of some bytes begins in them.
fn offset_of(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr() - whole.as_ptr().addr()
}

#[cfg(test)]
mod tests {
    use amqp::codec::{Value, write};
    use amqp::message::{MessageView, Properties as Standard, encode};
    use connect::event::Encoding;
    use proptest::prelude::*;

    use super::*;
    use crate::properties::{Content, Slot};

    /// A message is read, changed in some way and written.
    fn changed(message: &[u8], names: &[&str], change: impl FnOnce(&mut Properties)) -> Vec<u8> {
        let mut table = Names::default();
        for name in names {
            table.slot(name).unwrap();
        }
        let mut properties = Properties::default();
        properties.read(message, Encoding::Amqp, &table).unwrap();
        change(&mut properties);
        let mut out = Vec::new();
        properties.rewrite(message, &table, &mut out);
        out
    }

    fn entries(message: &[u8]) -> Vec<(String, Value)> {
        Sections::new(message).try_for_each(|section| section?.validate()).unwrap();
        let entries =
            MessageView::parse(message).unwrap().application_properties().unwrap().entries().unwrap();
        let mut entries: Vec<_> =
            entries.into_iter().map(|(name, value)| (name.as_str().to_owned(), value)).collect();
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        entries
    }

    const A: Slot = Slot(0);
    const B: Slot = Slot(1);

    #[test]
    fn each_form_of_the_section_is_read_and_kept() {
        let body = b"\x00\x53\x75\xa0\x01x";
        for (section, written) in [
            (
                &b"\x00\x53\x74\xc1\x09\x04\xa1\x01a\x41\xa1\x01c\x42"[..],
                &b"\x00\x53\x74\xc1\x0a\x04\xa1\x02bb\x41\xa1\x01c\x42"[..],
            ),
            (
                b"\x00\x53\x74\xd1\x00\x00\x00\x0c\x00\x00\x00\x04\xa1\x01a\x41\xa1\x01c\x42",
                b"\x00\x53\x74\xd1\x00\x00\x00\x0d\x00\x00\x00\x04\xa1\x02bb\x41\xa1\x01c\x42",
            ),
            (
                b"\x00\xa3\x1famqp:application-properties:map\xc1\x09\x04\xa1\x01a\x41\xa1\x01c\x42",
                b"\x00\xa3\x1famqp:application-properties:map\xc1\x0a\x04\xa1\x02bb\x41\xa1\x01c\x42",
            ),
            (
                b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x74\xc1\x08\x02\xb1\x00\x00\x00\x01a\x41",
                b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x74\xc1\x06\x02\xa1\x02bb\x41",
            ),
        ] {
            let renamed = changed(&[section, body].concat(), &["a", "bb"], |all| all.rename(&[(A, B)]));
            assert_eq!(renamed, [written, body].concat());
        }
        let added = b"\x00\x53\x74\xc1\x05\x02\xa1\x01a\x41";
        let add = |all: &mut Properties| {
            let content = all.write(Scalar::Bool(true));
            all.set(A, content);
        };
        for nothing in [
            &b""[..],
            b"\x00\x53\x74\x45",
            b"\x00\x53\x74\x40",
            b"\x00\x53\x74\xc1\x01\x00",
            b"\x00\x53\x74\xd1\x00\x00\x00\x04\x00\x00\x00\x00",
        ] {
            let message = [nothing, body].concat();
            assert_eq!(changed(&message, &["a"], add), [&added[..], body].concat(), "{nothing:x?}");
            assert_eq!(changed(&message, &["a"], |_| ()), body, "{nothing:x?}");
        }
        let dropped =
            changed(&[&b"\x00\x53\x74\xc1\x05\x02\xa1\x01a\x41"[..], body].concat(), &["a"], |all| {
                all.drop(A)
            });
        assert_eq!(dropped, body, "no section without properties");
    }

    #[test]
    fn other_sections_stay_as_they_are_and_the_new_one_stands_where_it_belongs() {
        let mut before = Vec::new();
        Standard { subject: Some("s".to_owned()), content_type: Some("t/x".into()), ..Standard::default() }
            .encode(&mut before);
        let mut after = Vec::new();
        encode::data(&mut after, b"body");
        after.extend_from_slice(b"\x00\x53\x78\xc1\x01\x00");
        let message = [&before[..], &after].concat();
        let added = changed(&message, &["a"], |all| {
            let content = all.write(Scalar::Int(1));
            all.set(A, content);
        });
        assert_eq!(added, [&before[..], b"\x00\x53\x74\xc1\x06\x02\xa1\x01a\x55\x01", &after].concat());
        assert_eq!(subject_and_content_type(&added), (Scalar::Text(b"s"), Scalar::Text(b"t/x")));
        assert_eq!(subject_and_content_type(&after), (Scalar::Null, Scalar::Null));
    }

    #[test]
    fn a_map_that_outgrows_the_short_form_is_a_long_one() {
        let mut message = Vec::new();
        encode::data(&mut message, b"body");
        for length in [200, 248, 249, 250, 251, 252, 300, 70_000] {
            let text = "x".repeat(length);
            let longer = changed(&message, &["a"], |all| {
                let content = all.write(Scalar::Text(text.as_bytes()));
                all.set(A, content);
            });
            assert_eq!(entries(&longer), [("a".to_owned(), Value::from(text.as_str()))], "{length}");
            assert!(longer.ends_with(&message));
        }
    }

    #[test]
    fn names_change_places_at_once_and_a_new_name_replaces_what_had_it() {
        let mut message = Vec::new();
        encode::application_properties(&mut message, &[("a", Value::Int(1)), ("b", Value::Int(2))]);
        let swapped = changed(&message, &["a", "b"], |all| all.rename(&[(A, B), (B, A)]));
        assert_eq!(entries(&swapped), [("a".to_owned(), Value::Int(2)), ("b".to_owned(), Value::Int(1))]);
        let replaced = changed(&message, &["a", "b"], |all| all.rename(&[(A, B)]));
        assert_eq!(entries(&replaced), [("b".to_owned(), Value::Int(1))]);
        let copied = changed(&message, &["a", "b"], |all| all.set(B, Content::From(A)));
        assert_eq!(entries(&copied), [("a".to_owned(), Value::Int(1)), ("b".to_owned(), Value::Int(1))]);
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Boolean),
            any::<i64>().prop_map(Value::Long),
            any::<u32>().prop_map(Value::Uint),
            "[a-zß]{0,60}".prop_map(Value::String),
            proptest::collection::vec(any::<u8>(), 0..90).prop_map(Value::Binary),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_decodes_to_what_was_decoded_and_changed(
            map in proptest::collection::btree_map("[a-f]{1,2}", value(), 0..40),
            is_long: bool,
            renames in proptest::collection::btree_map("[a-f]", "[a-f]", 0..3),
            dropped in "[a-f]",
            set in ("[a-f]", any::<i64>()),
            body in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut message = Vec::new();
            let list: Vec<(&str, Value)> = map.iter().map(|(name, value)| (&**name, value.clone())).collect();
            if is_long || list.is_empty() {
                encode::application_properties(&mut message, &list);
            } else {
                let mut entries = Vec::new();
                for (name, value) in &list {
                    write::string(&mut entries, name);
                    write::value(&mut entries, value);
                }
                if entries.len() < 255 {
                    message.extend_from_slice(&[0, 0x53, 0x74, 0xc1, entries.len() as u8 + 1, 2 * list.len() as u8]);
                    message.extend_from_slice(&entries);
                } else {
                    encode::application_properties(&mut message, &list);
                }
            }
            encode::data(&mut message, &body);
            let mut names = Names::default();
            let pairs: Vec<_> = renames.iter().map(|(from, to)| (names.slot(from).unwrap(), names.slot(to).unwrap())).collect();
            let (drop_slot, set_slot) = (names.slot(&dropped).unwrap(), names.slot(&set.0).unwrap());
            let mut properties = Properties::default();
            properties.read(&message, Encoding::Amqp, &names).unwrap();
            properties.rename(&pairs);
            properties.drop(drop_slot);
            let content = properties.write(Scalar::Int(set.1));
            properties.set(set_slot, content);
            let mut out = Vec::new();
            properties.rewrite(&message, &names, &mut out);

            let mut expected = map.clone();
            let taken: Vec<_> = renames.iter().map(|(from, to)| (to, expected.remove(from))).collect();
            for (to, value) in taken {
                value.into_iter().for_each(|value| drop(expected.insert(to.clone(), value)));
            }
            expected.remove(&dropped);
            expected.insert(set.0.clone(), Value::Long(set.1));
            prop_assert_eq!(entries(&out), expected.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(MessageView::parse(&out).unwrap().data().unwrap(), Some(&body[..]));
        }

        #[test]
        fn any_bytes_are_read_or_refused(message: Vec<u8>, sections in 0_u8..2) {
            let mut names = Names::default();
            names.slot("a");
            let message = match sections {
                0 => message,
                _ => [&b"\x00\x53\x74\xc1"[..], &message].concat(),
            };
            let mut properties = Properties::default();
            if properties.read(&message, Encoding::Amqp, &names).is_ok() {
                let _ = properties.value(A, &message);
                properties.drop(A);
                properties.rewrite(&message, &names, &mut Vec::new());
            }
            let _ = subject_and_content_type(&message);
        }
    }
}
