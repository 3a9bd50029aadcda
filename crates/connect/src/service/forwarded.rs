//! What of a received message goes on to where it is forwarded.
//!
//! Header and annotations are for this hop only and are left behind, as the official clients do when a message that they
//! received is sent on. The rest is forwarded as it is. The partition key is an annotation that is made anew where it is
//! kept. Annotations that say what a message is as a record of Kafka go on: they are the first section of what is forwarded.

use std::ops::Range;

use amqp::DecodeError;
use amqp::codec::{Reader, code, write};
use amqp::message::{FORMAT_AMQP, FORMAT_BATCH, SectionKind, Sections};
use convert::annotations;

/// The forwarded annotations of a received message, by position.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptAnnotations {
    /// Range of the encoded name and value of each.
    entries: Vec<Range<usize>>,
}

impl KeptAnnotations {
    /// Skips the value of an annotation, and keeps the annotation if it is forwarded. Its name begins `name_left` bytes before the end of the
    /// section, which is at `end` of the message.
    ///
    /// # Errors
    /// It is malformed.
    #[cold]
    pub(crate) fn take(
        &mut self,
        name: &[u8],
        reader: &mut Reader<'_>,
        name_left: usize,
        end: usize,
    ) -> Result<(), DecodeError> {
        reader.skip()?;
        if annotations::is_of_record(name) {
            self.entries.push(end - name_left..end - reader.rest().len());
        }
        Ok(())
    }

    /// Whether no annotation is forwarded.
    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends the section of the forwarded annotations, if there are any.
    pub(crate) fn put(&self, message: &[u8], out: &mut Vec<u8>) {
        if !self.is_empty() {
            let entries: Vec<&[u8]> = self.entries.iter().map(|range| &message[range.clone()]).collect();
            // Each takes more than one byte of a message.
            annotations::section(out, entries.len() as u32, &entries.concat());
        }
    }
}

/// Splits the annotations off with which a message begins that is to be forwarded: how many there are, and their names and values. `None` if
/// it begins with none.
fn split_annotations(message: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    if !message.starts_with(&[code::DESCRIBED, code::SMALL_ULONG, 0x72]) {
        return None;
    }
    let section = Sections::new(message).next()?.ok()?;
    let map = Reader::new(section.value).map().ok()??;
    Some((map.remaining(), map.rest(), &message[section.encoded.len()..]))
}

/// Replaces what is in `out` by the annotations that a message is to be sent with if they are others than it begins with, and returns how
/// many bytes of the message they stand for. Hot path.
#[inline]
pub(crate) fn replace_annotations(out: &mut Vec<u8>, key: Option<&str>, message: &[u8]) -> usize {
    out.clear();
    let Some(key) = key else { return 0 };
    let Some((count, entries, rest)) = split_annotations(message) else {
        partition_key_annotation(out, key);
        return 0;
    };
    let mut all = Vec::with_capacity(key.len() + 32 + entries.len());
    write::symbol(&mut all, "x-opt-partition-key");
    write::string(&mut all, key);
    all.extend_from_slice(entries);
    annotations::section(out, count.saturating_add(1), &all);
    message.len() - rest.len()
}

/// Whether a section goes on.
pub(crate) const fn is_forwarded(kind: SectionKind) -> bool {
    match kind {
        SectionKind::Header | SectionKind::DeliveryAnnotations | SectionKind::MessageAnnotations => false,
        SectionKind::Properties
        | SectionKind::ApplicationProperties
        | SectionKind::Data
        | SectionKind::Sequence
        | SectionKind::Value
        | SectionKind::Footer => true,
    }
}

/// The format for a send of so many messages: one is sent as it is, since a batch of one would be larger for nothing.
#[inline]
pub(crate) fn format_of(messages: &impl Iterator) -> u32 {
    match messages.size_hint() {
        (1, Some(1)) => FORMAT_AMQP,
        _ => FORMAT_BATCH,
    }
}

/// Appends annotations that hold this partition key and nothing else, in as few bytes as possible.
pub(crate) fn partition_key_annotation(out: &mut Vec<u8>, key: &str) {
    let name = b"x-opt-partition-key";
    let long_key = u8::try_from(key.len()).is_err();
    let entry = 2 + name.len() + if long_key { 5 } else { 2 } + key.len();
    out.extend_from_slice(&[code::DESCRIBED, code::SMALL_ULONG, 0x72]);
    // The count of keys and values is part of the size.
    match u8::try_from(entry + 1) {
        Ok(size) => out.extend_from_slice(&[code::MAP_8, size, 2]),
        Err(_) => {
            out.push(code::MAP_32);
            // Keys are shorter than 64 KiB.
            out.extend_from_slice(&(entry as u32 + 4).to_be_bytes());
            out.extend_from_slice(&2_u32.to_be_bytes());
        }
    }
    out.extend_from_slice(&[code::SYMBOL_8, name.len() as u8]);
    out.extend_from_slice(name);
    match u8::try_from(key.len()) {
        Ok(length) => out.extend_from_slice(&[code::STRING_8, length]),
        Err(_) => {
            out.push(code::STRING_32);
            out.extend_from_slice(&(key.len() as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(key.as_bytes());
}

/// Appends the sections that go on, for messages in which something else lies in their midst.
///
/// # Errors
/// When the message is malformed.
#[cold]
pub(crate) fn copy_forwarded(message: &[u8], copy: &mut Vec<u8>) -> Result<(), DecodeError> {
    for section in Sections::new(message) {
        let section = section?;
        if is_forwarded(section.kind) {
            copy.extend_from_slice(section.encoded);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use amqp::message::MessageView;

    use super::*;

    #[test]
    fn a_partition_key_stands_beside_what_is_kept_and_not_in_its_place() {
        let mut kept = Vec::new();
        write::symbol(&mut kept, "x-opt-kafka-key");
        write::binary(&mut kept, b"of the record");
        let mut body = Vec::new();
        amqp::message::encode::data(&mut body, b"body");
        let mut message = Vec::new();
        annotations::section(&mut message, 1, &kept);
        message.extend_from_slice(&body);
        let mut out = b"what was there".to_vec();
        assert_eq!((replace_annotations(&mut out, None, &message), out.len()), (0, 0));
        let skipped = replace_annotations(&mut out, Some("key"), &message);
        assert_eq!(&message[skipped..], body);
        out.extend_from_slice(&body);
        let view = MessageView::parse(&out).unwrap();
        let found = view.message_annotations().unwrap().entries().unwrap();
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["x-opt-partition-key", "x-opt-kafka-key"]);
        assert_eq!(replace_annotations(&mut out, Some("key"), &body), 0);
        assert!(!out.is_empty());
    }

    #[test]
    fn a_partition_key_of_any_length_is_read_back() {
        for length in [0, 1, 128, 229, 230, 231, 255, 256, 70_000] {
            let key = "k".repeat(length);
            let mut message = Vec::new();
            partition_key_annotation(&mut message, &key);
            amqp::message::encode::data(&mut message, b"body");
            let view = MessageView::parse(&message).unwrap();
            let found = view.message_annotations().unwrap();
            let found = found.find("x-opt-partition-key").unwrap().unwrap();
            assert_eq!(found.as_text(), Some(&*key), "{length}");
        }
    }
}
