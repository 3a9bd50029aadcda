//! Structured messages: the framing in which clients send and get contents with checksums (`x-ms-structured-body`).
//!
//! ```text
//!  ┌ header ─────────────────────────────────────────────────────────┐
//!  │ version 1 │ length of the message │ properties │ segments       │   u8, u64, u16, u16
//!  ├ segment ────────────────────────────────────────────────────────┤
//!  │ number, from 1 │ length │ content … │ CRC-64 of the content     │   u16, u64, …, u64
//!  ├ … ──────────────────────────────────────────────────────────────┤
//!  │ CRC-64 of all contents                                          │   u64
//!  └─────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Numbers are little-endian. The only property is 1: checksums, which we always send and expect.

mod decoder;
mod encoder;
#[cfg(test)]
mod tests;

pub use decoder::{Decoder, StructuredError};
pub use encoder::Encoder;

/// The value of `x-ms-structured-body` for messages as they are here.
pub const STRUCTURED_BODY: &str = "XSM/1.0; properties=crc64";

/// Whether a value of `x-ms-structured-body` means such messages.
#[must_use]
pub fn is_structured_body(value: &str) -> bool {
    let mut parts = value.split(';').map(str::trim);
    let is =
        |part: Option<&str>, expected: &str| part.is_some_and(|part| part.eq_ignore_ascii_case(expected));
    is(parts.next(), "XSM/1.0") && is(parts.next(), "properties=crc64") && parts.next().is_none()
}

/// The longest message that has so much content: with as many segments as can be numbered.
#[must_use]
pub const fn longest_message(content_length: u64) -> u64 {
    let segments = (u16::MAX as u64) * (SEGMENT_HEADER_BYTES + CHECKSUM_BYTES) as u64;
    content_length.saturating_add((HEADER_BYTES + CHECKSUM_BYTES) as u64 + segments)
}

/// Takes any bytes for a message, in parts of any size. What comes out is the content that the message tells of, or an error.
/// For fuzzing, and a test.
pub fn check_any_message(bytes: &[u8], content_length: u64, part_bytes: usize) {
    let mut content = Vec::new();
    let mut decoder = Decoder::new(bytes.len() as u64, content_length);
    for part in bytes.chunks(part_bytes.max(1)) {
        if decoder.push(part, &mut content).is_err() {
            return;
        }
        assert!(content.len() as u64 <= content_length);
    }
    if let Ok(checksum) = decoder.finish() {
        assert_eq!(content.len() as u64, content_length);
        assert_eq!(checksum, super::crc64(&content));
    }
}

const VERSION: u8 = 1;
const CHECKSUMS: u16 = 1;
const HEADER_BYTES: usize = 13;
const SEGMENT_HEADER_BYTES: usize = 10;
const CHECKSUM_BYTES: usize = 8;
