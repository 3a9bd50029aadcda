//! Framing (specification section 2.3) and protocol headers (2.2, 5.3.1).
//!
//! ```text
//! ┌──────────────┬──────┬──────┬─────────┬────────────────────────────────────┬────────┐
//! │ size: u32    │ doff │ type │ channel │ extended header: doff × 4 − 8 bytes │ body   │
//! └──────────────┴──────┴──────┴─────────┴────────────────────────────────────┴────────┘
//! ```

/// Size of a frame's fixed header, and so of the smallest frame.
pub(crate) const HEADER_SIZE: usize = 8;

/// The frame size that every peer accepts before open (specification section 2.7.1).
pub const MIN_MAX_FRAME_SIZE: u32 = 512;

/// The header that starts plain AMQP.
pub(crate) const PROTOCOL_AMQP: [u8; 8] = *b"AMQP\x00\x01\x00\x00";

/// The header that starts SASL.
pub(crate) const PROTOCOL_SASL: [u8; 8] = *b"AMQP\x03\x01\x00\x00";

/// Frame type of performatives.
pub(crate) const TYPE_AMQP: u8 = 0;

/// Frame type of SASL frames.
pub(crate) const TYPE_SASL: u8 = 1;

/// A frame's header, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// Bytes from the start of the frame to its end.
    pub(crate) size: usize,
    /// Bytes from the start of the frame to its body.
    pub(crate) body: usize,
    /// Frame type.
    pub(crate) kind: u8,
    /// Channel; unused by SASL.
    pub(crate) channel: u16,
}

/// A frame header that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// Larger than we agreed to.
    #[error("a frame of {size} bytes exceeds the maximum of {maximum}")]
    TooLarge {
        /// Announced size in bytes.
        size: u32,
        /// Our maximum in bytes.
        maximum: u32,
    },
    /// A size or data offset that does not hold the header.
    #[error("a frame of {size} bytes with data offset {data_offset} is malformed")]
    Malformed {
        /// Announced size in bytes.
        size: u32,
        /// Announced data offset in words of four bytes.
        data_offset: u8,
    },
}

impl FrameHeader {
    /// Reads the header at the start of `bytes`; `None` until all of it is there.
    #[inline]
    pub(crate) fn parse(bytes: &[u8], maximum: u32) -> Result<Option<Self>, FramingError> {
        let Some(header) = bytes.first_chunk::<HEADER_SIZE>() else {
            return Ok(None);
        };
        let [a, b, c, d, data_offset, kind, e, f] = *header;
        let size = u32::from_be_bytes([a, b, c, d]);
        let body = usize::from(data_offset) * 4;
        if body < HEADER_SIZE || (size as usize) < body {
            return Err(FramingError::Malformed { size, data_offset });
        }
        if size > maximum {
            return Err(FramingError::TooLarge { size, maximum });
        }
        Ok(Some(Self { size: size as usize, body, kind, channel: u16::from_be_bytes([e, f]) }))
    }
}

/// Appends a frame whose body `write` appends.
pub(crate) fn write_frame(out: &mut Vec<u8>, kind: u8, channel: u16, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, 2, kind]);
    out.extend_from_slice(&channel.to_be_bytes());
    write(out);
    patch_size(out, start, 0);
}

/// Sets the size of the frame that runs from `start` to the end of `out`, and has `elsewhere` bytes that are not in it.
#[inline]
pub(crate) fn patch_size(out: &mut [u8], start: usize, elsewhere: usize) {
    let size = (out.len() - start + elsewhere) as u32;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}
