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

use super::delivery_state::encode_transactional;
use super::descriptor;
use crate::TransactionId;
use crate::codec::{DecodeError, Reader, code, write};
use crate::frame;

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
    /// The transaction that the delivery is part of, if it is.
    pub transaction: Option<TransactionId>,
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
        let (mut aborted, mut transaction) = (false, None);
        if fields.remaining() > 0 {
            fields.skip()?; // rcv-settle-mode: the link's applies
            transaction = fields.field(transaction_of)?;
            fields.skip()?; // resume: links are not resumed here
            aborted = fields.field(Reader::boolean)?.unwrap_or(false);
        }
        Ok(Self { handle, delivery_id, delivery_tag, message_format, settled, more, aborted, transaction })
    }
}

/// Reads the state of a transfer: the transaction that it names. Other states are of interest to resumed links only.
fn transaction_of(reader: &mut Reader<'_>) -> Result<Option<TransactionId>, DecodeError> {
    if reader.peek()? != code::DESCRIBED {
        reader.skip()?;
        return Ok(None);
    }
    let mut state = Reader::new(reader.raw()?);
    if state.descriptor()? != descriptor::TRANSACTIONAL_STATE {
        return Ok(None);
    }
    let mut fields = super::fields(&mut state, "transactional-state")?;
    fields.required("transactional-state.txn-id", TransactionId::decode).map(Some)
}

/// A frame with a whole message, in the shape in which nearly all of them come: found by a few comparisons, where
/// [`Transfer::decode`] reads one field after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WholeTransfer<'a> {
    /// Bytes from the start of the frame to its end.
    pub(crate) size: usize,
    /// The session's channel.
    pub(crate) channel: u16,
    /// The link.
    pub(crate) handle: u32,
    /// The delivery.
    pub(crate) delivery_id: u32,
    /// The sender's name for the delivery, at most [`TAG_MAX`] bytes.
    pub(crate) delivery_tag: &'a [u8],
    /// Message format.
    pub(crate) message_format: u32,
    /// Whether the delivery needs no outcome.
    pub(crate) settled: bool,
    /// The message.
    pub(crate) payload: &'a [u8],
}

impl<'a> WholeTransfer<'a> {
    /// Reads the frame at the start of `bytes`, which may go on behind it. `None` for every other frame, and for those that
    /// are incomplete or malformed: they are for the general decoder to judge.
    // Always: a run is a loop of this, and as a call it would hand each frame over through memory.
    #[inline(always)]
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let head = bytes.first_chunk::<FIELDS_AT>()?;
        let [s0, s1, s2, s3, d0, d1, c0, c1, p0, p1, p2, p3, list_size, count] = *head;
        let is_plain = u16::from_be_bytes([d0, d1]) == PLAIN_FRAME;
        if !is_plain || [p0, p1, p2, p3] != [code::DESCRIBED, code::SMALL_ULONG, 0x14, code::LIST_8] {
            return None;
        }
        let size = u32::from_be_bytes([s0, s1, s2, s3]) as usize;
        let frame = bytes.get(FIELDS_AT..size)?;
        // The size of the list includes the byte of its count.
        let (fields, payload) = frame.split_at_checked(usize::from(list_size).checked_sub(1)?)?;
        let (handle, fields) = short_uint(fields)?;
        let (delivery_id, fields) = short_uint(fields)?;
        let [code::BINARY_8, length, fields @ ..] = fields else {
            return None;
        };
        let (delivery_tag, fields) = fields.split_at_checked(usize::from(*length))?;
        let (message_format, fields) = short_uint(fields)?;
        let [settled @ (code::TRUE | code::FALSE), fields @ ..] = fields else {
            return None;
        };
        // One byte each, whatever there is of them. The last says that the sender may batch, which changes nothing.
        let is_whole = match fields {
            [] | [code::FALSE] => true,
            [code::FALSE | code::NULL, code::NULL, code::NULL, code::NULL, code::NULL, batchable] => {
                matches!(*batchable, code::NULL | code::TRUE | code::FALSE)
            }
            _ => false,
        };
        let is_usual = is_whole && usize::from(count) == FIELDS_BEFORE_MORE + fields.len();
        is_usual.then_some(Self {
            size,
            channel: u16::from_be_bytes([c0, c1]),
            handle,
            delivery_id,
            delivery_tag,
            message_format,
            settled: *settled == code::TRUE,
            payload,
        })
    }
}

/// What the frames of one link have in common: all but their size, id and tag. Whether the next frame is of that shape is one
/// comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameShape {
    bytes: [u8; SHAPE_LENGTH],
    /// Which bits of a frame have to be as in `bytes`.
    mask: [u8; SHAPE_LENGTH],
    id_at: usize,
    tag_at: usize,
    payload_at: usize,
}

/// Where things are in a frame of a known shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShapedFrame {
    /// Bytes from the start of the frame to its end.
    pub(crate) size: usize,
    /// The delivery.
    pub(crate) delivery_id: u32,
    /// Where the delivery's tag begins in the frame.
    pub(crate) tag_at: usize,
    /// Where the message begins in the frame.
    pub(crate) payload_at: usize,
}

impl FrameShape {
    /// The shape of the frame at the start of `bytes`, which was read as `whole`. `None` if its id is in the one-byte form, or
    /// if too much stands in front of the message.
    pub(crate) fn of(bytes: &[u8], whole: &WholeTransfer<'_>) -> Option<Self> {
        let bytes = *bytes.first_chunk::<SHAPE_LENGTH>()?;
        let payload_at = whole.size - whole.payload.len();
        let (_, rest) = short_uint(&bytes[FIELDS_AT..])?;
        let id_at = bytes.len() - rest.len() + 1;
        let tag_at = id_at + 6;
        if rest.first() != Some(&code::UINT) || payload_at > bytes.len() {
            return None;
        }
        let mut mask = [0; SHAPE_LENGTH];
        mask[4..payload_at].fill(u8::MAX);
        mask[id_at..id_at + 4].fill(0);
        mask[tag_at..tag_at + whole.delivery_tag.len()].fill(0);
        Some(Self { bytes, mask, id_at, tag_at, payload_at })
    }

    /// Reads the frame at the start of `bytes`, if it is whole and of this shape.
    #[inline(always)]
    pub(crate) fn read(&self, bytes: &[u8]) -> Option<ShapedFrame> {
        let head = bytes.first_chunk::<SHAPE_LENGTH>()?;
        let differs = (0..SHAPE_LENGTH).fold(0, |any, at| any | (head[at] ^ self.bytes[at]) & self.mask[at]);
        let [a, b, c, d, ..] = *head;
        let size = u32::from_be_bytes([a, b, c, d]) as usize;
        if differs != 0 || size > bytes.len() || size < self.payload_at {
            return None;
        }
        let id = head.get(self.id_at..)?.first_chunk()?;
        let delivery_id = u32::from_be_bytes(*id);
        Some(ShapedFrame { size, delivery_id, tag_at: self.tag_at, payload_at: self.payload_at })
    }
}

/// How much of a frame its shape says: frame header and performative of nearly every transfer.
const SHAPE_LENGTH: usize = 48;

#[inline(always)]
fn short_uint(fields: &[u8]) -> Option<(u32, &[u8])> {
    match fields {
        [code::UINT, a, b, c, d, rest @ ..] => Some((u32::from_be_bytes([*a, *b, *c, *d]), rest)),
        [code::SMALL_UINT, value, rest @ ..] => Some((u32::from(*value), rest)),
        [code::UINT_0, rest @ ..] => Some((0, rest)),
        _ => None,
    }
}

/// Data offset and type of an AMQP frame without an extended header.
const PLAIN_FRAME: u16 = 0x0200;

/// Where the fields of a transfer begin in such a frame: behind frame header, descriptor, and the size and count of the list.
const FIELDS_AT: usize = 14;

/// Handle, delivery id, tag, format and settled.
const FIELDS_BEFORE_MORE: usize = 5;

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

/// Longest delivery tag that is received, in bytes: what the one-byte form of a binary holds. The specification allows 32
/// (section 2.8.7), but the service takes longer ones, and the first Java clients of Event Hubs send 32 hexadecimal digits
/// with a counter behind them.
pub(crate) const TAG_MAX: usize = u8::MAX as usize;

/// Most bytes that the frame header and the performative of a transfer take: our tags are at most 32 bytes long.
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
        write::few(out, &buffer, at);
        start + more_at
    }

    /// As [`encode`](Self::encode), of a delivery that is part of a transaction.
    #[cold]
    pub(crate) fn encode_in(&self, transaction: &TransactionId, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        let more_at = self.encode(out);
        // The settle mode is a null behind `more`, and so is the state behind that.
        let state_at = more_at + 2;
        let behind = out.split_off(state_at + 1);
        out.truncate(state_at);
        encode_transactional(out, transaction, None);
        let state_length = out.len() - state_at;
        out.extend_from_slice(&behind);
        out[start + 12] += (state_length - 1) as u8;
        more_at
    }
}

/// The size of the list has one byte, however long tag and id are.
const _: () = assert!(TRANSFER_OVERHEAD_MAX + STATE_LENGTH_MAX < 256);

/// Most bytes that a state of a transfer takes: descriptor, list, id, no outcome.
const STATE_LENGTH_MAX: usize = 3 + 9 + (2 + TransactionId::LENGTH_MAX) + 1;

/// The frame header and performative of messages of one link, which differ in their size, id and tag alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransferTemplate<const TAG: usize> {
    bytes: [u8; TEMPLATE_MAX],
    length: usize,
    /// Where the id is, behind its constructor; the tag follows it.
    id_at: usize,
}

impl<const TAG: usize> TransferTemplate<TAG> {
    pub(crate) fn new(channel: u16, handle: u32, message_format: u32, settled: bool) -> Self {
        const { assert!(FIELDS_AT + 5 + 5 + 2 + TAG + 5 + 7 <= TEMPLATE_MAX, "a template has room for its tag") };
        let mut bytes = [0; TRANSFER_OVERHEAD_MAX];
        bytes[4..6].copy_from_slice(&PLAIN_FRAME.to_be_bytes());
        bytes[6..8].copy_from_slice(&channel.to_be_bytes());
        bytes[8..14].copy_from_slice(&[code::DESCRIBED, code::SMALL_ULONG, 0x14, code::LIST_8, 0, 11]);
        let mut at = FIELDS_AT;
        put_uint(&mut bytes, &mut at, handle);
        let id_at = at + 1;
        bytes[at] = code::UINT;
        bytes[at + 5..at + 7].copy_from_slice(&[code::BINARY_8, TAG as u8]);
        at += 7 + TAG;
        put_uint(&mut bytes, &mut at, message_format);
        bytes[at] = if settled { code::TRUE } else { code::FALSE };
        bytes[at + 1] = code::FALSE;
        bytes[at + 2..at + 7].fill(code::NULL);
        at += 7;
        bytes[12] = (at - 13) as u8;
        let mut template = Self { bytes: [0; TEMPLATE_MAX], length: at, id_at };
        template.bytes.copy_from_slice(&bytes[..TEMPLATE_MAX]);
        template
    }

    /// How many bytes stand in front of each message.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// Appends the frame of one message, which `write` appends, with its size: `elsewhere` more bytes follow.
    #[inline]
    pub(crate) fn encode(
        &self,
        out: &mut Vec<u8>,
        id: u32,
        tag: [u8; TAG],
        elsewhere: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = out.len();
        write::few(out, &self.bytes, self.length);
        let id_at = start + self.id_at;
        out[id_at..id_at + 4].copy_from_slice(&id.to_be_bytes());
        out[id_at + 6..id_at + 6 + TAG].copy_from_slice(&tag);
        write(out);
        frame::patch_size(out, start, elsewhere);
    }
}

/// Bytes of the template: a few moves, for at most header, descriptor and list, handle, id, tag, format, and seven of one byte.
const TEMPLATE_MAX: usize = 64;
const _: () = assert!(TEMPLATE_MAX <= TRANSFER_OVERHEAD_MAX);

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::FrameHeader;

    /// What the general decoder reads at the start of `bytes`, if it is a whole message.
    fn decoded(bytes: &[u8]) -> Option<WholeTransfer<'_>> {
        let header = FrameHeader::parse(bytes, u32::MAX).ok()??;
        let mut reader = Reader::new(bytes.get(header.body..header.size)?);
        if header.kind != 0 || reader.descriptor().ok()? != crate::performative::descriptor::TRANSFER {
            return None;
        }
        let transfer = Transfer::decode(&mut reader).ok()?;
        let is_whole = !transfer.more && !transfer.aborted;
        is_whole.then_some(WholeTransfer {
            size: header.size,
            channel: header.channel,
            handle: transfer.handle,
            delivery_id: transfer.delivery_id?,
            delivery_tag: transfer.delivery_tag.unwrap_or_default(),
            message_format: transfer.message_format.unwrap_or(0),
            settled: transfer.settled.unwrap_or(false),
            payload: reader.rest(),
        })
    }

    fn frame(header: &TransferHeader<'_>, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        header.encode(&mut frame);
        frame.extend_from_slice(payload);
        crate::frame::patch_size(&mut frame, 0, 0);
        frame
    }

    #[test]
    fn a_message_whose_last_fields_are_left_out_is_whole() {
        let mut frame =
            vec![0, 0, 0, 0, 2, 0, 0, 1, 0x00, 0x53, 0x14, 0xc0, 9, 5, 0x43, 0x52, 7, 0xa0, 1, 9, 0x43, 0x42];
        frame.extend_from_slice(b"payload");
        crate::frame::patch_size(&mut frame, 0, 0);
        let whole = WholeTransfer::read(&frame).expect("a usual frame");
        assert_eq!((whole.delivery_id, whole.payload), (7, &b"payload"[..]));
        assert_eq!(Some(whole), decoded(&frame));
    }

    proptest! {
        #[test]
        fn a_template_gives_what_is_encoded_one_by_one(
            (channel, handle, id, format) in any::<(u16, u32, u32, u32)>(),
            tag: [u8; 16],
            settled: bool,
            payload in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            fn templated<const TAG: usize>(header: &TransferHeader<'_>, tag: [u8; TAG], payload: &[u8]) -> Vec<u8> {
                let (id, _, format) = header.delivery.unwrap();
                let template = TransferTemplate::new(header.channel, header.handle, format, header.settled);
                let mut out = vec![7; 3];
                template.encode(&mut out, id, tag, 0, |out| out.extend_from_slice(payload));
                assert_eq!(out.len(), 3 + template.length() + payload.len());
                out.split_off(3)
            }
            let short = [tag[0], tag[1], tag[2], tag[3]];
            for (tag, is_short) in [(&short[..], true), (&tag[..], false)] {
                let header = TransferHeader { channel, handle, delivery: Some((id, tag, format)), settled, aborted: false };
                let out = match is_short {
                    true => templated(&header, short, &payload),
                    false => templated(&header, <[u8; 16]>::try_from(tag).unwrap(), &payload),
                };
                let whole = WholeTransfer::read(&out);
                prop_assert!(whole.is_some());
                prop_assert_eq!(whole, decoded(&out));
                let frame = frame(&header, &payload);
                let sized = |whole: WholeTransfer<'_>| (whole.handle, whole.delivery_id, whole.delivery_tag.to_vec(), whole.message_format, whole.settled, whole.payload.to_vec());
                prop_assert_eq!(decoded(&frame).map(sized), whole.map(sized));
            }
        }

        #[test]
        fn our_own_frames_are_usual(
            (channel, handle, id, format) in any::<(u16, u32, u32, u32)>(),
            tag in prop::collection::vec(any::<u8>(), 0..=32),
            settled: bool,
            payload in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let header = TransferHeader { channel, handle, delivery: Some((id, &tag, format)), settled, aborted: false };
            let frame = frame(&header, &payload);
            let whole = WholeTransfer::read(&frame);
            prop_assert!(whole.is_some());
            prop_assert_eq!(whole, decoded(&frame));
            let aborted = self::frame(&TransferHeader { aborted: true, ..header }, &payload);
            prop_assert_eq!(WholeTransfer::read(&aborted), None);
        }

        #[test]
        fn a_frame_of_a_known_shape_is_read_as_any_other(
            (channel, handle, id, other_id, format) in any::<(u16, u32, u32, u32, u32)>(),
            tags in prop::collection::vec(any::<u8>(), 0..=32).prop_flat_map(|tag| {
                let length = tag.len();
                (Just(tag), prop::collection::vec(any::<u8>(), length))
            }),
            settled: bool,
            (payload, other_payload) in (prop::collection::vec(any::<u8>(), 0..60), prop::collection::vec(any::<u8>(), 0..60)),
            change in prop::option::of((0_usize..48, any::<u8>())),
        ) {
            let header = TransferHeader { channel, handle, delivery: Some((id, &tags.0, format)), settled, aborted: false };
            let first = frame(&header, &payload);
            let whole = WholeTransfer::read(&first).expect("a usual frame");
            let Some(shape) = FrameShape::of(&first, &whole) else {
                prop_assert!(id < 256 || whole.size < SHAPE_LENGTH || whole.size - payload.len() > SHAPE_LENGTH);
                return Ok(());
            };
            let mut other = frame(&TransferHeader { delivery: Some((other_id, &tags.1, format)), ..header }, &other_payload);
            if let Some((at, byte)) = change && let Some(changed) = other.get_mut(at) {
                *changed = byte;
            }
            if let Some(read) = shape.read(&other) {
                let general = WholeTransfer::read(&other).expect("of the same shape");
                prop_assert_eq!((general.channel, general.handle, general.message_format), (channel, handle, format));
                prop_assert_eq!((general.size, general.delivery_id, general.settled), (read.size, read.delivery_id, settled));
                prop_assert_eq!(general.payload, &other[read.payload_at..read.size]);
                prop_assert_eq!(general.delivery_tag, &other[read.tag_at..read.tag_at + tags.0.len()]);
            } else {
                prop_assert!(change.is_some() || other_id < 256 || other.len() < SHAPE_LENGTH);
            }
        }

        #[test]
        fn what_is_read_is_what_the_general_decoder_reads(
            (handle, id) in any::<(u32, u32)>(),
            tag in prop::collection::vec(any::<u8>(), 0..=34),
            cut in prop::option::of(0_usize..60),
            changes in prop::collection::vec((0_usize..60, any::<u8>()), 0..4),
        ) {
            let header = TransferHeader { channel: 1, handle, delivery: Some((id, &tag[..tag.len().min(32)], 0)), settled: true, aborted: false };
            let mut frame = frame(&header, b"payload");
            for (at, byte) in changes {
                if let Some(changed) = frame.get_mut(at) {
                    *changed = byte;
                }
            }
            frame.truncate(cut.unwrap_or(frame.len()));
            if let Some(whole) = WholeTransfer::read(&frame) {
                prop_assert_eq!(Some(whole), decoded(&frame));
            }
        }
    }
}
