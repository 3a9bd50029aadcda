//! Payloads in records of Kafka: the tails of records, which is what its sources and sinks move.

use amqp::codec::code::{BINARY_8, STRING_8};
use bytes::BytesMut;
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
        let headers = header.map(|header| (HEADER_PROPERTY.as_bytes(), Some(header)));
        kafka::record::encode_tail(message, None, Some(payload), headers.into_iter());
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
        [BINARY_8, _, value @ ..] if value.len() == Header::DETACHED_LENGTH => value,
        [STRING_8, _, value @ ..] if value.len() == Header::TEXT_LENGTH => value,
        _ => property,
    }
}

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
        let text = Header::text_of_detached(&[7; Header::DETACHED_LENGTH]);
        let mut message = BytesMut::new();
        KafkaCodec.encode(Some(&[&[STRING_8, 33], &text[..]].concat()), b"payload", &mut message);
        let expected = DecodedMessage { header: Some(&text), payload: b"payload" };
        assert_eq!(KafkaCodec.decode(&message), Some(expected));
    }

    #[test]
    fn a_record_of_somebody_else_has_no_payload_of_ours() {
        assert_eq!(KafkaCodec.decode(&[1, 1, 0]), None, "a tombstone");
        let other = [1, 2, b'x', 2, 2, b'n', 2, b'v'];
        assert_eq!(KafkaCodec.decode(&other), Some(DecodedMessage { header: None, payload: b"x" }));
    }
}
