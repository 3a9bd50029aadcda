//! Appending sections to a buffer.

use crate::codec::{Symbol, Value, code, write};
use crate::performative::descriptor;

/// Bytes that the descriptor and length of a Data section take before a payload of `length` bytes.
#[inline]
pub const fn data_overhead(length: usize) -> usize {
    if length < 256 { 5 } else { 8 }
}

/// Descriptor and length of a Data section whose payload of `length` bytes the caller appends.
#[inline]
pub fn data_prefix(out: &mut Vec<u8>, length: u32) {
    let (prefix, size) = data_prefix_bytes(length);
    write::few(out, &prefix, size);
}

/// The same as an array and the number of its bytes that count.
#[inline]
pub const fn data_prefix_bytes(length: u32) -> ([u8; 8], usize) {
    if length < 256 {
        ([code::DESCRIBED, code::SMALL_ULONG, 0x75, code::BINARY_8, length as u8, 0, 0, 0], 5)
    } else {
        let [a, b, c, d] = length.to_be_bytes();
        ([code::DESCRIBED, code::SMALL_ULONG, 0x75, code::BINARY_32, a, b, c, d], 8)
    }
}

/// A Data section.
pub fn data(out: &mut Vec<u8>, payload: &[u8]) {
    data_prefix(out, u32::try_from(payload.len()).expect("a payload is shorter than 4 GiB"));
    out.extend_from_slice(payload);
}

/// An amqp-value section.
pub fn value(out: &mut Vec<u8>, value: &Value) {
    write::descriptor(out, descriptor::AMQP_VALUE);
    write::value(out, value);
}

/// A message-annotations section; nothing if there are no entries.
pub fn message_annotations(out: &mut Vec<u8>, entries: &[(Symbol, Value)]) {
    if !entries.is_empty() {
        write::descriptor(out, descriptor::MESSAGE_ANNOTATIONS);
        write::fields(out, entries);
    }
}

/// A delivery-annotations section; nothing if there are no entries.
pub fn delivery_annotations(out: &mut Vec<u8>, entries: &[(Symbol, Value)]) {
    if !entries.is_empty() {
        write::descriptor(out, descriptor::DELIVERY_ANNOTATIONS);
        write::fields(out, entries);
    }
}

/// An application-properties section: string keys, simple values.
pub fn application_properties(out: &mut Vec<u8>, entries: &[(&str, Value)]) {
    write::descriptor(out, descriptor::APPLICATION_PROPERTIES);
    let count = u32::try_from(entries.len()).expect("application properties are few");
    write::map(out, count, |out| {
        for (key, entry) in entries {
            write::string(out, key);
            write::value(out, entry);
        }
    });
}
