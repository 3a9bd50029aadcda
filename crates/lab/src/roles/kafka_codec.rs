//! Payloads in records of Kafka: the tails of records, which is what its sources and sinks move.

use bytes::{BufMut as _, BytesMut};
use connect::event::Encoding;
use kafka::record_tail::RecordTail;

use super::backend::{DecodedMessage, MessageCodec};
use crate::payload::{HEADER_PROPERTY, Header};

/// Records without a key: the payload is the value, the header, if it travels beside it, a header.
#[derive(Debug, Clone, Copy)]
pub struct KafkaCodec;

impl MessageCodec for KafkaCodec {
    fn encoding(&self) -> Encoding {
        Encoding::Kafka
    }

    #[inline]
    fn encode(&self, header: Option<&[u8]>, payload: &[u8], message: &mut BytesMut) {
        put_varint(message, NO_KEY);
        put_bytes(message, payload);
        match header {
            None => put_varint(message, 0),
            Some(header) => {
                put_varint(message, 1);
                put_bytes(message, HEADER_PROPERTY.as_bytes());
                put_bytes(message, header);
            }
        }
    }

    #[inline]
    fn decode<'a>(&self, message: &'a [u8]) -> Option<DecodedMessage<'a>> {
        let tail = RecordTail::read(message).ok()?;
        let header = match tail.headers.count() {
            0 => None,
            _ => {
                let header = tail.headers.iter().find(|(name, _)| *name == HEADER_PROPERTY);
                header.and_then(|(_, value)| value).map(as_written)
            }
        };
        Some(DecodedMessage { header, payload: tail.value? })
    }
}

/// The header of a payload as it was written. A property of AMQP becomes a header in the encoding that it had there, and may be
/// made a property again.
pub(super) fn as_written(property: &[u8]) -> &[u8] {
    match property {
        [VBIN8, _, value @ ..] if value.len() == Header::DETACHED_LENGTH => value,
        _ => property,
    }
}

#[inline]
fn put_bytes(message: &mut BytesMut, bytes: &[u8]) {
    put_varint(message, i32::try_from(bytes.len()).expect("a payload is far below 2 GiB"));
    message.extend_from_slice(bytes);
}

/// A number as records have it: zigzag, seven bits to a byte, the lowest first.
#[inline]
fn put_varint(message: &mut BytesMut, value: i32) {
    let mut rest = ((value << 1) ^ (value >> 31)).cast_unsigned();
    while rest > 0x7f {
        message.put_u8(rest as u8 | 0x80);
        rest >>= 7;
    }
    message.put_u8(rest as u8);
}

/// The format code of AMQP for binary of up to 255 bytes. A length follows it.
const VBIN8: u8 = 0xa0;

/// The length of a key that is not there.
const NO_KEY: i32 = -1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_comes_out_of_its_record_with_what_travels_beside_it() {
        for length in [0, 1, 63, 64, 8_191, 8_192, 1 << 20] {
            let payload = vec![7; length];
            for header in [None, Some(&b"header"[..])] {
                let mut message = BytesMut::new();
                KafkaCodec.encode(header, &payload, &mut message);
                let expected = DecodedMessage { header, payload: &payload };
                assert_eq!(KafkaCodec.decode(&message), Some(expected), "{length}");
                message.truncate(message.len() - 1);
                assert_eq!(KafkaCodec.decode(&message), None);
            }
        }
    }

    #[test]
    fn a_header_that_was_a_property_of_amqp_is_what_it_was_there() {
        let mut message = BytesMut::new();
        KafkaCodec.encode(Some(b"\xa0\x10sixteen bytes   "), b"payload", &mut message);
        let expected = DecodedMessage { header: Some(b"sixteen bytes   "), payload: b"payload" };
        assert_eq!(KafkaCodec.decode(&message), Some(expected));
    }

    #[test]
    fn a_record_of_somebody_else_has_no_payload_of_ours() {
        assert_eq!(KafkaCodec.decode(&[1, 1, 0]), None, "a tombstone");
        let other = [1, 2, b'x', 2, 2, b'n', 2, b'v'];
        assert_eq!(KafkaCodec.decode(&other), Some(DecodedMessage { header: None, payload: b"x" }));
    }
}
