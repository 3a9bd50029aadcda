//! Header and delivery annotations of a message in a log or a queue. Most messages have neither.
//!
//! Where a message has them, they are stored in front of its other sections, in the shortest form of their descriptors.
//! Message annotations stand between the two on the wire and are stored apart from them, so a delivery takes them off
//! again.
//!
//! ```text
//! 00 53 70 header │ 00 53 71 delivery annotations │ 00 53 73 properties … body … footer
//! └ if there is one └ if there are any             └ what all messages have
//! ```

use amqp::DecodeError;
use amqp::codec::{Map, Reader, code, write};
use amqp::message::{SectionKind, Sections};
use amqp::performative::descriptor;

/// The stored sections of a message, taken apart.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Leading<'a> {
    /// The header section.
    pub(super) header: Option<&'a [u8]>,
    /// The section of delivery annotations.
    pub(super) delivery_annotations: Option<&'a [u8]>,
    /// All other sections.
    pub(super) rest: &'a [u8],
}

impl<'a> Leading<'a> {
    /// What stands in front of these stored sections; `None` for nothing.
    #[inline]
    pub(super) fn of(sections: &'a [u8]) -> Option<Self> {
        match sections {
            [code::DESCRIBED, code::SMALL_ULONG, HEADER | DELIVERY_ANNOTATIONS, ..] => {
                Some(Self::split(sections))
            }
            _ => None,
        }
    }

    #[cold]
    fn split(sections: &'a [u8]) -> Self {
        let mut leading = Self { rest: sections, ..Self::default() };
        for section in Sections::new(sections).map_while(Result::ok) {
            match section.kind {
                SectionKind::Header => leading.header = Some(section.encoded),
                SectionKind::DeliveryAnnotations => {
                    leading.delivery_annotations = Some(section.encoded);
                }
                _ => break,
            }
            leading.rest = &leading.rest[section.encoded.len()..];
        }
        leading
    }

    /// The length of both sections.
    pub(super) fn length(&self) -> usize {
        self.header.map_or(0, <[u8]>::len) + self.delivery_annotations.map_or(0, <[u8]>::len)
    }
}

/// Appends the delivery annotations in `value`, which a client sent, as a section; nothing if there are none. Entries
/// under `taken` are left out: they are the service's to set.
///
/// # Errors
/// `value` is no map of annotations.
#[cold]
pub(super) fn keep_delivery_annotations(
    value: &[u8],
    taken: &[&str],
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let Some(map) = Reader::new(value).map()? else {
        return Ok(());
    };
    let mut entries = Vec::with_capacity(map.rest().len());
    let count = copy_entries(map, taken, &mut entries)?;
    if count > 0 {
        put_section(count, &entries, out);
    }
    Ok(())
}

/// Appends a section with the service's own `count` delivery annotations, encoded in `entries`, and those of `client`, a
/// section that was stored. Of those, entries under `taken` are left out.
#[cold]
pub(super) fn merge_delivery_annotations(
    (count, entries): (u32, &[u8]),
    client: &[u8],
    taken: &[&str],
    out: &mut Vec<u8>,
) {
    let mut all = entries.to_vec();
    let mut reader = Reader::new(client);
    // They were checked when they were stored.
    let more = match reader.descriptor().and_then(|_| reader.map()) {
        Ok(Some(map)) => copy_entries(map, taken, &mut all).unwrap_or(0),
        Ok(None) | Err(_) => 0,
    };
    put_section(count + more, &all, out);
}

/// Appends the entries of `map` except those under `taken`, and says how many these are. Nothing is appended if there is
/// an error.
fn copy_entries(mut map: Map<'_>, taken: &[&str], out: &mut Vec<u8>) -> Result<u32, DecodeError> {
    let start = out.len();
    let mut count = 0;
    let mut copy = || -> Result<(), DecodeError> {
        while let Some(reader) = map.entry() {
            let entry = reader.rest();
            let key = reader.raw()?;
            reader.skip()?;
            // The specification also has numbers as keys; none of them is the service's.
            let key = Reader::new(key).text().ok().flatten();
            if !key.is_some_and(|key| taken.contains(&key)) {
                out.extend_from_slice(&entry[..entry.len() - reader.rest().len()]);
                count += 1;
            }
        }
        Ok(())
    };
    let copied = copy();
    if copied.is_err() {
        out.truncate(start);
    }
    copied.map(|()| count)
}

fn put_section(count: u32, entries: &[u8], out: &mut Vec<u8>) {
    write::descriptor(out, descriptor::DELIVERY_ANNOTATIONS);
    write::map(out, count, |out| out.extend_from_slice(entries));
}

const HEADER: u8 = descriptor::HEADER as u8;
const DELIVERY_ANNOTATIONS: u8 = descriptor::DELIVERY_ANNOTATIONS as u8;

#[cfg(test)]
mod tests {
    use amqp::Value;
    use amqp::codec::Symbol;
    use amqp::message::{Header, MessageView, Properties, encode};

    use super::*;

    fn annotations(section: &[u8]) -> Vec<(String, Value)> {
        let view = MessageView::parse(section).unwrap();
        let entries = view.delivery_annotations().unwrap().entries().unwrap();
        let entry = |(key, value): (Symbol, Value)| (key.as_str().to_owned(), value);
        entries.into_iter().map(entry).collect()
    }

    fn client_section() -> Vec<u8> {
        let mut section = Vec::new();
        let entries =
            [(Symbol::from_static("mine"), Value::Int(1)), (Symbol::from_static("theirs"), Value::Int(2))];
        encode::delivery_annotations(&mut section, &entries);
        section
    }

    #[test]
    fn what_stands_in_front_is_taken_off_and_most_messages_have_nothing_there() {
        let mut rest = Vec::new();
        Properties::default().encode(&mut rest);
        encode::data(&mut rest, b"payload");
        assert!(Leading::of(&rest).is_none());
        assert!(Leading::of(&[]).is_none());

        let header = Header { durable: Some(true), ..Header::default() };
        let header = header.encode();
        let (header, annotations) = (header.as_slice(), client_section());
        for (header, annotations) in
            [(Some(header), None), (None, Some(&annotations[..])), (Some(header), Some(&annotations[..]))]
        {
            let front = [header.unwrap_or_default(), annotations.unwrap_or_default()].concat();
            let stored = [&front[..], &rest].concat();
            let leading = Leading::of(&stored).unwrap();
            assert_eq!(leading.header, header);
            assert_eq!(leading.delivery_annotations, annotations);
            assert_eq!(leading.rest, rest);
            assert_eq!(leading.length(), front.len());
        }
        // A message of nothing else, and one that is damaged.
        assert_eq!(Leading::of(header).unwrap().rest, b"");
        assert_eq!(Leading::of(&header[..4]).unwrap().rest, &header[..4]);
    }

    #[test]
    fn annotations_are_kept_without_those_of_the_service() {
        let section = client_section();
        let mut kept = Vec::new();
        keep_delivery_annotations(&section[3..], &["theirs"], &mut kept).unwrap();
        assert_eq!(annotations(&kept), [("mine".to_owned(), Value::Int(1))]);

        for nothing in [&[code::NULL][..], &[code::MAP_8, 1, 0]] {
            let mut kept = Vec::new();
            keep_delivery_annotations(nothing, &[], &mut kept).unwrap();
            assert_eq!(kept, b"");
        }
        // A map that ends within an entry.
        let mut kept = Vec::new();
        assert!(keep_delivery_annotations(b"\xc1\x04\x02\xa3\x05m", &[], &mut kept).is_err());
        assert_eq!(kept, b"");
    }

    #[test]
    fn annotations_of_service_and_client_come_in_one_section() {
        let mut own = Vec::new();
        write::symbol(&mut own, "theirs");
        write::boolean(&mut own, true);
        let mut merged = Vec::new();
        merge_delivery_annotations((1, &own), &client_section(), &["theirs"], &mut merged);
        let expected = [("theirs".to_owned(), Value::Boolean(true)), ("mine".to_owned(), Value::Int(1))];
        assert_eq!(annotations(&merged), expected);
    }
}
