//! Transfer: a message, or a part of one (specification section 2.7.5).
//!
//! This is the hot performative, so it is encoded by hand in a fixed shape: the
//! list fits the one-byte form, and the frame size and the `more` flag sit where
//! [`TransferHeader`] can patch them once the payload is known.
//!
//! ```text
//! offset  0         4   5   6        8         11        14
//!         ┌─────────┬───┬───┬────────┬──────────┬─────────┬──────────────────────────┬──────┬────┬──────────────┬─────────┐
//!         │ size    │ 2 │ 0 │ channel│ 00 53 14 │ c0 n 0b │ handle, id, tag, format  │settld│more│ 40 40 40 40 40│ payload │
//!         └─────────┴───┴───┴────────┴──────────┴─────────┴──────────────────────────┴──────┴────┴──────────────┴─────────┘
//! ```

use crate::codec::{DecodeError, Reader, code};

/// A transfer as received; the payload follows it in the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// The link.
    pub handle: u32,
    /// The delivery; absent in continuation frames.
    pub delivery_id: Option<u32>,
    /// The sender's name for the delivery.
    pub delivery_tag: Option<&'a [u8]>,
    /// Message format; 0 is AMQP's own.
    pub message_format: Option<u32>,
    /// Whether the delivery needs no outcome.
    pub settled: Option<bool>,
    /// Whether more frames of this delivery follow.
    pub more: bool,
    /// Whether the delivery is called off.
    pub aborted: bool,
}

impl<'a> Transfer<'a> {
    /// Reads the fields, which stand behind the descriptor.
    #[inline]
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let mut fields = super::fields(reader, "transfer")?;
        let handle = fields.required("transfer.handle", Reader::uint)?;
        let delivery_id = fields.field(Reader::uint)?;
        let delivery_tag = fields.field(Reader::binary)?;
        let message_format = fields.field(Reader::uint)?;
        let settled = fields.field(Reader::boolean)?;
        let more = fields.field(Reader::boolean)?.unwrap_or(false);
        let mut aborted = false;
        if fields.remaining() > 0 {
            fields.skip()?; // rcv-settle-mode: the link's applies
            fields.skip()?; // state
            fields.skip()?; // resume: links are not resumed here
            aborted = fields.field(Reader::boolean)?.unwrap_or(false);
        }
        Ok(Self { handle, delivery_id, delivery_tag, message_format, settled, more, aborted })
    }
}

/// The fields of an outgoing transfer.
#[derive(Debug, Clone, Copy)]
pub struct TransferHeader<'a> {
    /// The session's channel.
    pub channel: u16,
    /// The link's handle.
    pub handle: u32,
    /// `None` in continuation frames, together with tag and format.
    pub delivery: Option<(u32, &'a [u8], u32)>,
    /// Whether the delivery needs no outcome.
    pub settled: bool,
    /// Whether the delivery is called off.
    pub aborted: bool,
}

/// Most bytes that the frame header and the performative of a transfer take: tags are at most 32 bytes long.
pub(crate) const TRANSFER_OVERHEAD_MAX: usize = 8 + 3 + 3 + 5 + 5 + (2 + 32) + 5 + 2 + 5;

impl TransferHeader<'_> {
    /// Appends frame header and performative with a size of zero and `more` unset, and returns the
    /// offset of the `more` byte in `out`.
    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> usize {
        let mut buffer = [0u8; TRANSFER_OVERHEAD_MAX];
        buffer[4] = 2;
        buffer[6..8].copy_from_slice(&self.channel.to_be_bytes());
        buffer[8..14].copy_from_slice(&[code::DESCRIBED, code::SMALL_ULONG, 0x14, code::LIST_8, 0, 11]);
        let mut at = 14;
        put_uint(&mut buffer, &mut at, self.handle);
        match self.delivery {
            Some((id, tag, format)) => {
                put_uint(&mut buffer, &mut at, id);
                debug_assert!(tag.len() <= 32, "a delivery tag is at most 32 bytes long");
                buffer[at] = code::BINARY_8;
                buffer[at + 1] = tag.len() as u8;
                at += 2;
                put_tag(&mut buffer, at, tag);
                at += tag.len();
                put_uint(&mut buffer, &mut at, format);
            }
            None => {
                buffer[at..at + 3].fill(code::NULL);
                at += 3;
            }
        }
        buffer[at] = if self.settled { code::TRUE } else { code::FALSE };
        let more_at = at + 1;
        buffer[more_at] = code::FALSE;
        buffer[at + 2..at + 7].fill(code::NULL);
        if self.aborted {
            buffer[at + 5] = code::TRUE;
        }
        at += 7;
        buffer[12] = (at - 13) as u8;
        let start = out.len();
        // All of it and back again: a copy of a length that is known takes a few moves, and any other is a call.
        out.extend_from_slice(&buffer);
        out.truncate(start + at);
        start + more_at
    }
}

/// Tags are mostly numbers or UUIDs, which a move or two copies.
#[inline]
fn put_tag(buffer: &mut [u8; TRANSFER_OVERHEAD_MAX], at: usize, tag: &[u8]) {
    if let Ok(uuid) = <[u8; 16]>::try_from(tag) {
        buffer[at..at + 16].copy_from_slice(&uuid);
    } else if let Ok(number) = <[u8; 4]>::try_from(tag) {
        buffer[at..at + 4].copy_from_slice(&number);
    } else {
        buffer[at..at + tag.len()].copy_from_slice(tag);
    }
}

#[inline]
fn put_uint(buffer: &mut [u8; TRANSFER_OVERHEAD_MAX], at: &mut usize, value: u32) {
    if value == 0 {
        buffer[*at] = code::UINT_0;
        *at += 1;
    } else if value < 256 {
        buffer[*at] = code::SMALL_UINT;
        buffer[*at + 1] = value as u8;
        *at += 2;
    } else {
        buffer[*at] = code::UINT;
        buffer[*at + 1..*at + 5].copy_from_slice(&value.to_be_bytes());
        *at += 5;
    }
}
