//! What of a received message goes on to where it is forwarded.
//!
//! Header and annotations are for this hop only and are left behind, as the official clients do when a message that they
//! received is sent on. The rest is forwarded as it is. The partition key is an annotation that is made anew where it is
//! kept.

use amqp::DecodeError;
use amqp::codec::code;
use amqp::message::{FORMAT_AMQP, FORMAT_BATCH, SectionKind, Sections};

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
